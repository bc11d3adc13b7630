//! The terminal: a picture that is drawn over, or plain lines when nobody looks at a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::time::Instant;

use super::view::View;

/// Where progress is shown. Owned by the demo's one loop.
pub(super) struct Screen {
    started: Instant,
    terminal: bool,
    shown: View,
    /// Lines of the picture that is on the terminal now.
    drawn: usize,
}

impl Screen {
    pub(super) fn new(started: Instant) -> Self {
        Self { started, terminal: std::io::stdout().is_terminal(), shown: View::default(), drawn: 0 }
    }

    /// Says something that stays.
    pub(super) fn say(&mut self, text: &str) {
        self.drawn = 0;
        println!("{text}");
    }

    /// Shows how everything is now.
    pub(super) fn show(&mut self, view: View) {
        if view == self.shown {
            return;
        }
        let mut out = String::new();
        if self.terminal {
            let lines = view.lines();
            if self.drawn > 0 {
                // Up to where the picture begins, and clear to the end of the screen.
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
        // Whoever closed the pipe does not want to know more.
        let _ = stdout.write_all(out.as_bytes()).and_then(|()| stdout.flush());
    }
}
