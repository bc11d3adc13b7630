//! The stages of a simulated machine.

use nephele_api::conditions::{self, reasons, types};
use nephele_api::infrastructure::v1beta2::InMemoryMachine;

/// The progress of a stage, in the order of a start.
pub(super) const STAGES: [(&str, &str); 4] = [
    ("VM", types::VM_PROVISIONED),
    ("NODE", types::NODE_PROVISIONED),
    ("ETCD", types::ETCD_PROVISIONED),
    ("APISERVER", types::API_SERVER_PROVISIONED),
];

/// The progress of a stage, as one word; `-` for one that the machine does not have.
pub(super) fn progress(machine: &InMemoryMachine, condition: &str) -> &'static str {
    let reported = machine.status.as_ref().and_then(|status| conditions::find(&status.conditions, condition));
    match reported.map(|reported| (reported.status.as_str(), reported.reason.as_str())) {
        None => "-",
        Some((conditions::TRUE, _)) => "Up",
        Some((_, reasons::WAITING_FOR_STARTUP_TIMEOUT)) => "Starting",
        Some((_, reasons::STARTUP_FAILED | reasons::INSTANCE_TERMINATED)) => "Failed",
        Some(_) => "Waiting",
    }
}
