//! What carries Faults out.

use jiff::Timestamp;
use nephele_api::cloud::v1alpha1::{Fault, FaultSpec, FaultStatus};
use nephele_controller::Events;
use nephele_model::FaultId;

/// What carries Faults out: the cloud, or the pools of addresses. Each Fault is for one target.
pub trait Target: Send + Sync + 'static {
    /// A Fault, as the target carries it out.
    type Wanted;
    /// What a Fault has done, as the target sees it.
    type Seen: Send + Sync;

    /// Whether Faults with this spec are for the target. Pure.
    fn is_for(spec: &FaultSpec) -> bool;

    /// What a spec means. Pure.
    ///
    /// # Errors
    /// With the mistake of a spec that means nothing.
    fn read(spec: &FaultSpec) -> Result<Self::Wanted, String>;

    /// The status of a Fault that is not paused: what the target sees, if it has the Fault, or the Fault's mistake. Pure.
    fn status(object: &Fault, seen: Result<Option<&Self::Seen>, String>, now: Timestamp) -> FaultStatus;

    /// Carries a Fault out from now on, or with this spec. One that the target does not know continues with what its status says.
    /// While it is paused, it decides nothing new.
    fn put(&self, object: &Fault, wanted: Self::Wanted, paused: bool, now: Timestamp);

    /// Lets a Fault have no effect, if the target knows it.
    fn remove(&self, id: &FaultId);

    /// The Faults that the target knows.
    fn ids(&self) -> Vec<FaultId>;

    /// What a Fault has done. None if the target does not know it.
    fn observe(&self, id: &FaultId, now: Timestamp) -> Option<Self::Seen>;

    /// Whether something waits until the status lists it, so that it is written at once. Pure.
    fn is_urgent(_seen: &Self::Seen) -> bool {
        false
    }

    /// When something changes by itself, of which the target does not tell. Pure.
    fn next_change(_seen: &Self::Seen) -> Option<Timestamp> {
        None
    }

    /// The status lists what was seen.
    fn listed(&self, _id: &FaultId, _seen: &Self::Seen) {}

    /// Publishes what only Faults of this target have to tell, after the status was written.
    fn publish(_object: &Fault, _before: &FaultStatus, _after: &FaultStatus, _events: &Events) {}
}
