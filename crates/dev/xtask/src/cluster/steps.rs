//! The steps of a start.

use std::time::Instant;

/// Prints how long each step took.
pub(super) struct Steps {
    last: Instant,
}

impl Steps {
    pub(super) fn new() -> Self {
        Self { last: Instant::now() }
    }

    pub(super) fn done(&mut self, step: &str) {
        let now = Instant::now();
        let took = now.duration_since(self.last);
        self.last = now;
        println!("{:>6.1} s  {step}", took.as_secs_f64());
    }
}
