//! What was done about a pool, and when to reconcile it again.

use nephele_controller::Outcome;

use super::plan::Scale;
use crate::expected_capacity::ExpectedCapacity;

/// What was done.
#[derive(Debug)]
pub(super) enum Acted {
    /// There is nothing to report.
    Left(Outcome),
    /// The object rests, for this reason.
    Rested(String),
    /// The object is not paused any more. The write of its status triggers the next reconcile, which does the work.
    Unpaused,
    /// Machines were created and deleted, or there was none to create or delete.
    Scaled {
        scale: Box<Scale>,
        expected_capacity: ExpectedCapacity,
    },
    /// The pool is being deleted; `left` counts the machines that still exist.
    Deleting { left: usize },
}

impl Acted {
    /// When to reconcile again.
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Left(outcome) => *outcome,
            Self::Rested(_) => Outcome::WaitingOn("unpaused"),
            Self::Unpaused => Outcome::Done,
            Self::Scaled { scale, .. } => scale.outcome(),
            Self::Deleting { .. } => Outcome::WaitingOn("deletion"),
        }
    }
}
