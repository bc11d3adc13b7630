//! The terminal shows a picture that is redrawn in place. If the output is not a terminal, it gets plain lines.

use std::{
    io::{IsTerminal as _, Write as _},
    time::Instant,
};

use super::view::View;

/// Shows the progress.
pub(super) struct Screen {
    started: Instant,
    terminal: bool,
    shown: View,
    /// The number of lines of the picture on the terminal.
    drawn: usize,
}

impl Screen {
    pub(super) fn new(started: Instant) -> Self {
        Self {
            started,
            terminal: std::io::stdout().is_terminal(),
            shown: View::default(),
            drawn: 0,
        }
    }

    /// Prints a text that is not redrawn.
    pub(super) fn say(&mut self, text: &str) {
        self.drawn = 0;
        println!("{text}");
    }

    /// Shows the current state.
    pub(super) fn show(&mut self, view: View) {
        if view == self.shown {
            return;
        }
        let mut out = String::new();
        if self.terminal {
            let lines = view.lines();
            if self.drawn > 0 {
                // Go up to where the picture begins, and clear to the end of the screen.
                out += &format!("\x1b[{}F\x1b[J", self.drawn);
            }
            for line in &lines {
                out += &format!("{line}\n");
            }
            self.drawn = lines.len();
        } else {
            for news in view.news(&self.shown) {
                out += &format!("{:6.1}s  {news}\n", self.started.elapsed().as_secs_f64());
            }
        }
        self.shown = view;
        let mut stdout = std::io::stdout().lock();
        // The reader has closed the pipe.
        let _ = stdout.write_all(out.as_bytes()).and_then(|()| stdout.flush());
    }
}
