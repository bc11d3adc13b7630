//! What to do about a cluster. Pure.

use nephele_api::infrastructure::v1beta2::InMemoryCluster;
use nephele_cloud::ClusterId;
use nephele_kit::Outcome;

use super::validate::{Validated, Wanted};

/// What to do.
pub(super) enum Plan {
    /// Nothing.
    Leave(Outcome),
    /// Say that it is paused, for this reason.
    Pause(String),
    /// Bring it about.
    Provide(Wanted),
    /// Let it go.
    Remove(Option<ClusterId>),
}

pub(super) fn plan(object: &InMemoryCluster, validated: Validated) -> Plan {
    let deleting = object.metadata.deletion_timestamp.is_some();
    match validated {
        Validated::ExternallyManaged => Plan::Leave(Outcome::WaitingOn("external manager")),
        // A paused object that is being deleted may be on its way to another management cluster.
        Validated::Paused(message) => Plan::Pause(message),
        Validated::WithoutOwner if deleting => Plan::Remove(None),
        Validated::WithoutOwner => Plan::Leave(Outcome::WaitingOn("owner")),
        Validated::WithoutCluster(id) if deleting => Plan::Remove(Some(id)),
        Validated::WithoutCluster(_) => Plan::Leave(Outcome::WaitingOn("cluster")),
        Validated::Wanted(wanted) if deleting => Plan::Remove(Some(wanted.spec.id)),
        Validated::Wanted(wanted) => Plan::Provide(wanted),
    }
}
