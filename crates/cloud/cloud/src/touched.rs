//! What records of the journal change for those who wait for changes.

use std::collections::BTreeSet;

use nephele_engine::{Event, EventKind, Outcome, Record, Request};
use nephele_model::{CloudError, ClusterId, FaultId, ResourceId, ResourceKind};

use crate::observation::Changed;

/// What some records are of. Each is told once, however many records there are of it.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// The clusters whose resources the records are of, also those that are gone or that wait for room.
    pub(crate) clusters: BTreeSet<ClusterId>,
    faults: BTreeSet<FaultId>,
    /// The namespaces in which a fault has changed or is over.
    cleared: BTreeSet<String>,
    /// The namespaces whose resources take up other room than before.
    usage: BTreeSet<String>,
}

impl Touched {
    pub(crate) fn note(&mut self, record: &Record) {
        let ResourceId {
            namespace, cluster, ..
        } = record.resource();
        let fault = |name: &str| FaultId {
            namespace: namespace.clone(),
            name: name.to_owned(),
        };
        match record {
            // Whoever waits because of the fault may continue at once. A fault affects its own namespace only.
            Record::Operation { operation, .. } if operation.request.target().kind == ResourceKind::Fault => {
                self.cleared.insert(namespace.clone());
            }
            Record::Operation { faults, .. } => self.faults.extend(faults.iter().map(|name| fault(name))),
            Record::FaultEnded { .. } | Record::FaultWindow { begins: false, .. } => {
                self.cleared.insert(namespace.clone());
            }
            Record::FaultWindow {
                fault, begins: true, ..
            } => {
                self.faults.insert(FaultId::of_resource(fault));
            }
            Record::Event(Event {
                kind: EventKind::BecameAffected { fault: name, .. } | EventKind::Leaked { fault: name, .. },
                ..
            }) => {
                self.faults.insert(fault(name));
            }
            Record::Event(_) | Record::CapacityFreed { .. } | Record::GrantEnded { .. } => {}
        }
        if changes_usage(record) {
            self.usage.insert(namespace.clone());
        }
        self.clusters.insert(ClusterId {
            namespace: namespace.clone(),
            name: cluster.clone(),
        });
    }

    /// What to tell, but for what the followers of the clusters tell.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Changed> {
        let cleared = self.cleared.iter().cloned().map(Changed::Namespace);
        let faults = self.faults.iter().cloned().map(Changed::Fault);
        let usage = self.usage.iter().cloned().map(Changed::Usage);
        cleared.chain(faults).chain(usage)
    }
}

/// Whether a record says that a resource takes up room, gives it back, or begins or ends to wait for it, or that a read
/// missed a change: the status of a SimulatedCloud has their numbers.
fn changes_usage(record: &Record) -> bool {
    match record {
        Record::Operation {
            outcome: Outcome::Refused(CloudError::NotVisibleYet { .. }),
            ..
        } => true,
        Record::Operation { operation, .. } => matches!(
            operation.request,
            Request::Create(_) | Request::Adopt { .. } | Request::Reserve { .. } | Request::Delete(_)
        ),
        Record::Event(event) => matches!(
            event.kind,
            EventKind::Leaked { .. } | EventKind::LeakedDeleted { .. } | EventKind::Deleted
        ),
        Record::GrantEnded { .. } => true,
        _ => false,
    }
}
