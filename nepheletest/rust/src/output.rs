//! What the program prints: one line for us, and a text for people. Threads read both, so that it is never blocked.

use std::{
    io::{self, BufRead, BufReader, Read},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::oneshot;

/// How much of the program's error output and log an error can show.
pub(crate) const TAIL_BYTES_MAX: usize = 8 * 1024;

/// Bounds the program's report, which has some 200 bytes per cluster.
const REPORT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Keeps the end of a text. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    /// Reads to the end.
    pub(crate) fn read(&self, mut text: impl Read) {
        let mut part = [0; 4096];
        loop {
            match text.read(&mut part) {
                Ok(0) => return,
                Ok(read) => self.push(&part[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn push(&self, part: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(part);
        let surplus = kept.len().saturating_sub(TAIL_BYTES_MAX);
        kept.drain(..surplus);
    }

    /// The end of what was read so far.
    pub(crate) fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }
}

/// Sends the first line, and drops the rest. Sends nothing when there is no whole line.
pub(crate) fn first_line(text: impl Read, found: oneshot::Sender<Vec<u8>>) {
    let mut text = BufReader::new(text);
    let mut line = Vec::new();
    // With an error the text is over, as at its end.
    let _ = (&mut text).take(REPORT_BYTES_MAX).read_until(b'\n', &mut line);
    if line.ends_with(b"\n") || line.len() as u64 == REPORT_BYTES_MAX {
        // Without a receiver the line is not wanted any more.
        let _ = found.send(line);
    }
    let _ = io::copy(&mut text, &mut io::sink());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_keeps_the_end_within_its_bound() {
        let tail = Tail::default();
        tail.read(
            ["a".repeat(3 * TAIL_BYTES_MAX).as_bytes(), b"end"]
                .concat()
                .as_slice(),
        );
        let text = tail.text();
        assert_eq!(text.len(), TAIL_BYTES_MAX);
        assert!(text.ends_with("aend"));
    }

    #[test]
    fn first_line_is_found_across_reads() {
        let (sender, mut found) = oneshot::channel();
        first_line(
            b"{\"a\"".chain(&b":1}\nmore"[..]).chain(&b"\neven more\n"[..]),
            sender,
        );
        assert_eq!(found.try_recv(), Ok(b"{\"a\":1}\n".to_vec()));
    }

    #[test]
    fn part_of_a_line_is_none() {
        let (sender, mut found) = oneshot::channel();
        first_line(&b"{\"a\""[..], sender);
        assert!(found.try_recv().is_err());
    }
}
