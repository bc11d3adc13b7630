//! What was done about a machine, and when to reconcile it again.

use std::time::Duration;

use nephele_api::infrastructure::v1beta2::{ClaimedAddress, InMemoryMachine};
use nephele_cloud::{Deletion, MachineError, MachineObservation, StageObservation};
use nephele_controller::Outcome;
use nephele_model::Role;

use super::{Error, plan::Waiting};
use crate::messages::retry;

/// What was done.
#[derive(Debug)]
pub(super) enum Acted {
    /// There is nothing to report.
    Left(Outcome),
    /// The object rests, for the reason in the message.
    Rested { message: String, outcome: Outcome },
    /// The object is not paused any more. The write of its status triggers the next reconcile, which does the work.
    Unpaused,
    /// The machine waits.
    Waited { waiting: Waiting, role: Role },
    /// The cloud has the machine, or refuses it.
    Provided(Box<Applied>),
    /// The instance was terminated; its deletion may take time.
    Terminated {
        role: Role,
        deletion: Result<Deletion, MachineError>,
    },
    /// The machine is being deleted; the message tells what the object waits for.
    Deleting {
        message: String,
        outcome: Result<Outcome, Error>,
    },
}

impl Acted {
    /// When to reconcile again.
    pub(super) fn outcome(self) -> Result<Outcome, Error> {
        match self {
            Self::Left(outcome) | Self::Rested { outcome, .. } => Ok(outcome),
            Self::Unpaused => Ok(Outcome::Done),
            Self::Waited { waiting, .. } => Ok(waiting.outcome()),
            Self::Provided(applied) => Ok(applied.outcome()),
            Self::Terminated { deletion, .. } => Ok(match deletion {
                Ok(Deletion::Gone) => Outcome::Done,
                Ok(Deletion::InProgress { .. }) => Outcome::WaitingOn("deletion"),
                Err(error) => retry(error.class()),
            }),
            Self::Deleting { outcome, .. } => outcome,
        }
    }
}

/// The machine in the cloud, after it was created or updated.
#[derive(Debug)]
pub(super) struct Applied {
    /// The object as it was written; none when nothing was written.
    pub(super) object: Option<InMemoryMachine>,
    /// The state of the machine; none when it was deleted meanwhile.
    pub(super) observed: Result<Option<MachineObservation>, MachineError>,
    /// The addresses that it got from pools.
    pub(super) claimed: Vec<ClaimedAddress>,
}

impl Applied {
    pub(super) fn outcome(&self) -> Outcome {
        match &self.observed {
            Err(error) => retry(error.class()),
            // The cloud reports when the next stage is reached.
            Ok(Some(observed)) => {
                let done = observed
                    .stages
                    .values()
                    .all(|stage| matches!(stage, StageObservation::Reached { .. }));
                if done {
                    Outcome::Done
                } else {
                    Outcome::WaitingOn("start-up")
                }
            }
            // Its cluster was deleted between the two calls.
            Ok(None) => Outcome::After(Duration::from_secs(1)),
        }
    }
}
