//! On a terminal, the picture of `nephele top` is drawn again in its place. Any other output gets a line for each change.

use std::{
    io::{IsTerminal as _, Write as _},
    time::Instant,
};

use nephele_page::Sight;
use ratatui::crossterm::terminal;

use super::news::news;
use crate::top::picture;

/// The size of a terminal that does not tell it.
const SIZE: (u16, u16) = (80, 24);
/// The most lines of the picture, so that texts stay in sight.
const LINES_MAX: u16 = 20;

/// Shows the progress.
pub(super) struct Screen {
    started: Instant,
    is_terminal: bool,
    shown: Sight,
    /// The number of lines of the picture on the terminal.
    drawn: usize,
}

impl Screen {
    pub(super) fn new(started: Instant) -> Self {
        Self {
            started,
            is_terminal: std::io::stdout().is_terminal(),
            shown: Sight::default(),
            drawn: 0,
        }
    }

    /// Prints a text that is not drawn again.
    pub(super) fn say(&mut self, text: &str) {
        self.drawn = 0;
        println!("{text}");
    }

    /// Shows what is there.
    pub(super) fn show(&mut self, sight: Sight) {
        let mut out = String::new();
        if self.is_terminal {
            let (columns, lines) = terminal::size().unwrap_or(SIZE);
            let picture = picture(&sight, columns, lines.saturating_sub(2).min(LINES_MAX));
            if self.drawn > 0 {
                // Go up to where the picture begins, and clear to the end of the screen.
                out += &format!("\x1b[{}F\x1b[J", self.drawn);
            }
            out += &picture;
            self.drawn = picture.lines().count();
        } else {
            for news in news(&self.shown.model, &sight.model) {
                out += &format!("{:6.1}s  {news}\n", self.started.elapsed().as_secs_f64());
            }
        }
        self.shown = sight;
        let mut stdout = std::io::stdout().lock();
        // The reader has closed the pipe.
        let _ = stdout.write_all(out.as_bytes()).and_then(|()| stdout.flush());
    }

    /// What is shown.
    pub(super) fn shown(&self) -> &Sight {
        &self.shown
    }
}
