//! The stages of a simulated machine, as its conditions tell them.

use nephele_api::{
    conditions::{self, reasons},
    infrastructure::v1beta2::InMemoryMachine,
};

/// The progress of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Waiting,
    Starting,
    Up,
    Failed,
    /// The instance was terminated behind Cluster API's back.
    Terminated,
}

impl Stage {
    /// The progress that a condition of the machine tells; `None` if the machine does not have it.
    pub fn of(machine: &InMemoryMachine, condition: &str) -> Option<Self> {
        let status = machine.status.as_ref()?;
        let condition = conditions::find(&status.conditions, condition)?;
        Some(match (condition.status.as_str(), condition.reason.as_str()) {
            (conditions::TRUE, _) => Self::Up,
            (_, reasons::WAITING_FOR_STARTUP_TIMEOUT) => Self::Starting,
            (_, reasons::STARTUP_FAILED) => Self::Failed,
            (_, reasons::INSTANCE_TERMINATED) => Self::Terminated,
            _ => Self::Waiting,
        })
    }
}
