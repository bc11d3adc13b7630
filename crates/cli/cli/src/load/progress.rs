//! Shows how far a run is: a bar on a terminal, a line every few seconds elsewhere.

use std::{
    io::{IsTerminal as _, Write as _, stderr},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

/// The time between two lines.
pub(super) const LINE_EVERY: Duration = Duration::from_secs(5);

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) clusters: usize,
    pub(super) created: usize,
    pub(super) initialized: usize,
    pub(super) available: usize,
    pub(super) machines: usize,
    pub(super) running: usize,
}

impl Counts {
    fn text(&self) -> String {
        let Self {
            clusters,
            created,
            initialized,
            available,
            machines,
            running,
        } = self;
        format!(
            "{available}/{clusters} available, {initialized} initialized, {created} created, \
             {running}/{machines} machines running"
        )
    }
}

/// Where progress is shown: on standard error, because results go to standard output.
pub(super) enum Progress {
    Bar(ProgressBar),
    Lines { last: Option<Duration> },
}

impl Progress {
    pub(super) fn new(clusters: usize) -> Self {
        if !stderr().is_terminal() {
            return Self::Lines { last: None };
        }
        let style = ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("=> ");
        Self::Bar(ProgressBar::new(clusters as u64).with_style(style))
    }

    pub(super) fn show(&mut self, elapsed: Duration, counts: &Counts) {
        match self {
            Self::Bar(bar) => {
                bar.set_message(counts.text());
                bar.set_position(counts.available as u64);
            }
            Self::Lines { last } if last.is_none_or(|last| elapsed >= last + LINE_EVERY) => {
                *last = Some(elapsed);
                line(&format!("{:>4} s: {}", elapsed.as_secs(), counts.text()));
            }
            Self::Lines { .. } => {}
        }
    }

    pub(super) fn finish(self) {
        match self {
            Self::Bar(bar) => bar.finish_and_clear(),
            Self::Lines { .. } => {}
        }
    }
}

/// Prints a line, unless its reader is gone: the clusters still have to be deleted.
pub(super) fn line(text: &str) {
    let _ = writeln!(stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_all_counts() {
        let counts = Counts {
            clusters: 20,
            created: 20,
            initialized: 12,
            available: 3,
            machines: 60,
            running: 31,
        };
        let expected = "3/20 available, 12 initialized, 20 created, 31/60 machines running";
        assert_eq!(counts.text(), expected);
    }
}
