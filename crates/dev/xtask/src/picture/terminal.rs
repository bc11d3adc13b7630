//! Programs in a pseudo terminal, and what stays on it when they are done.

use std::{
    fs::File,
    io::Read as _,
    os::unix::ffi::OsStrExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use rustix::{
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

/// More than the commands of the picture print.
const ROWS: u16 = 200;

/// A program that writes to a pseudo terminal. It is killed when this is dropped.
pub(super) struct Terminal {
    child: Child,
    output: Receiver<Vec<u8>>,
    bytes: Vec<u8>,
}

impl Terminal {
    pub(super) fn start(command: &mut Command, columns: usize) -> anyhow::Result<Self> {
        let attempt = "failed to open a pseudo terminal";
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).context(attempt)?;
        grantpt(&master).context(attempt)?;
        unlockpt(&master).context(attempt)?;
        let name = ptsname(&master, Vec::new()).context(attempt)?;
        let size = Winsize {
            ws_row: ROWS,
            ws_col: u16::try_from(columns).context(attempt)?,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).context(attempt)?;
        let path = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let slave = File::options()
            .read(true)
            .write(true)
            .open(path)
            .context(attempt)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(slave.try_clone().context(attempt)?)
            .stderr(slave)
            .spawn()
            .with_context(|| format!("failed to run {}", command.get_program().display()))?;
        // The output ends when no process has the other side of the terminal open, so the command must not.
        command.stdout(Stdio::null()).stderr(Stdio::null());

        let (sender, output) = channel();
        let mut master = File::from(master);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // An error means that the other side is closed.
            while let Ok(count @ 1..) = master.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            child,
            output,
            bytes: Vec::new(),
        })
    }

    /// Waits until the output contains a text.
    pub(super) fn wait_for(&mut self, text: &str, limit: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + limit;
        while !String::from_utf8_lossy(&self.bytes).contains(text) {
            match self
                .output
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(bytes) => self.bytes.extend(bytes),
                Err(RecvTimeoutError::Timeout) => bail!("no {text:?} within {limit:?}: {}", self.text()),
                Err(RecvTimeoutError::Disconnected) => bail!("it ended: {}", self.text()),
            }
        }
        Ok(())
    }

    /// The output so far.
    pub(super) fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// Asks the program to end, as Ctrl-C does.
    pub(super) fn interrupt(&self) {
        // An error means that it has ended.
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
    }

    /// Waits until the program ends with success. Returns its output.
    pub(super) fn finish(&mut self, limit: Duration) -> anyhow::Result<String> {
        let deadline = Instant::now() + limit;
        loop {
            match self
                .output
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(bytes) => self.bytes.extend(bytes),
                Err(RecvTimeoutError::Timeout) => bail!("it did not end within {limit:?}: {}", self.text()),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = self.child.wait().context("failed to wait for a program")?;
        ensure!(status.success(), "{status}: {}", self.text());
        Ok(self.text().into_owned())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Errors mean that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines that stay on a terminal, with their colours. Of cursor movements there are two: up to the beginning of a
/// line, and clearing from there to the end; with these `nephele demo` redraws its table.
pub(super) fn settled(output: &str) -> anyhow::Result<Vec<String>> {
    let mut lines = vec![String::new()];
    let mut rest = output;
    while let Some(first) = rest.chars().next() {
        let mut length = first.len_utf8();
        if let Some(sequence) = rest.strip_prefix("\x1b[") {
            let parameter = sequence
                .find(|end: char| end.is_ascii_alphabetic())
                .unwrap_or(sequence.len());
            let (parameter, end) = sequence.split_at(parameter);
            length = "\x1b[".len() + parameter.len() + 1;
            match end.chars().next() {
                Some('m') => last(&mut lines).push_str(&rest[..length]),
                Some('F') => {
                    let up: usize = parameter.parse().context("a movement has no number of lines")?;
                    let keep = lines.len().saturating_sub(up + 1);
                    lines.truncate(keep);
                    lines.push(String::new());
                }
                // The lines below are gone already.
                Some('J') => {}
                _ => bail!(
                    "the picture cannot show the sequence {:?}",
                    &rest[..length.min(rest.len())]
                ),
            }
        } else if first == '\n' {
            lines.push(String::new());
        } else if first != '\r' {
            last(&mut lines).push(first);
        }
        rest = &rest[length..];
    }
    if lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    Ok(lines)
}

fn last(lines: &mut [String]) -> &mut String {
    lines.last_mut().expect("there is always a line")
}

/// A line in pieces of at most so many columns, divided between words. Escape sequences count as columns: only prompts
/// have them, and those are short.
pub(super) fn wrapped(line: &str, columns: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while let Some((end, next)) = rest.char_indices().nth(columns) {
        let space = if next == ' ' {
            Some(end)
        } else {
            rest[..end].rfind(' ')
        };
        let at = space.filter(|at| *at > 0).unwrap_or(end);
        pieces.push(rest[..at].to_owned());
        rest = rest[at..].trim_start();
    }
    pieces.push(rest.to_owned());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redrawn_table_stays_once() {
        let output =
            "intro\r\na 0\r\nb 0\r\n\x1b[2F\x1b[Ja 1\r\nb 1\r\nc 1\r\n\x1b[3F\x1b[Ja 2\r\nb 2\r\nend\r\n";
        assert_eq!(
            settled(output).expect("known sequences"),
            ["intro", "a 2", "b 2", "end"]
        );
        assert_eq!(
            settled("\x1b[32mgreen\x1b[0m").expect("a colour"),
            ["\x1b[32mgreen\x1b[0m"]
        );
        assert!(settled("\x1b[2K").is_err());
    }

    #[test]
    fn long_lines_are_divided_between_words() {
        assert_eq!(wrapped("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrapped("aaaaaa", 4), ["aaaa", "aa"]);
        assert_eq!(wrapped("●● ●", 4), ["●● ●"]);
        assert_eq!(wrapped("", 4), [""]);
    }

    #[test]
    fn a_program_writes_to_a_terminal() {
        let limit = Duration::from_secs(60);
        let mut shell = Command::new("sh");
        shell.args(["-c", "test -t 1 && echo begun && sleep 60 & wait"]);
        let mut terminal = Terminal::start(&mut shell, 80).expect("it starts");
        terminal.wait_for("begun", limit).expect("it is a terminal");
        drop(terminal);
        let mut terminal = Terminal::start(&mut Command::new("tty"), 80).expect("it starts");
        let error = terminal.finish(limit).expect_err("its input is no terminal");
        assert!(error.to_string().contains("not a tty"), "{error}");
    }
}
