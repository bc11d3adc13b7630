//! `Fault`: the cloud as a target. It has no finalizer: a fault without an object has no effect. Faults of addresses are
//! carried out and reported by the IPAM provider.

mod report;
mod validate;

use futures::Stream;
use jiff::Timestamp;
use kube::{Client, runtime::reflector::Store};
use nephele_api::cloud::v1alpha1::{Fault, FaultSpec, FaultStatus};
use nephele_cloud::{CallError, Cloud, FaultObservation};
use nephele_controller::{Cache, Events, Gone, Outcome, Services, WatchFilter};
use nephele_fault::{Error, FaultController, Target, id_of, is_of_addresses};
use nephele_model::FaultId;
use tracing::warn;

pub(crate) use self::validate::validate;
use crate::leaked::{self, load_balancers};

/// The Faults of the management cluster.
pub(crate) struct Faults {
    /// Also those of other managers: a ClusterFault has to see who has the name of its Fault.
    cache: Cache<Fault>,
    filter: WatchFilter,
    controller: FaultController<InCloud>,
}

impl Faults {
    pub(crate) fn new(
        cache: Cache<Fault>,
        filter: WatchFilter,
        cloud: Cloud,
        client: Client,
        services: &Services,
    ) -> Self {
        let Services { clock, events, .. } = services;
        let controller = FaultController::new(InCloud { cloud }, client, clock.clone(), events.clone());
        Self {
            cache,
            filter,
            controller,
        }
    }

    pub(crate) fn cache(&self) -> &Cache<Fault> {
        &self.cache
    }

    /// Sends all Faults to the cloud.
    pub(crate) fn put_all(&self) {
        let all = self.cache.store().state();
        let ours = all.iter().filter(|object| self.filter.matches(&object.metadata));
        self.controller.put_all(ours.map(|object| &**object));
    }

    /// Sends the Fault to the cloud and reports its status.
    pub(crate) async fn reconcile(&self, object: &Fault) -> Result<Outcome, Error> {
        self.controller.reconcile(object).await
    }

    /// Removes each Fault from the cloud whose object is gone.
    pub(crate) async fn forget(&self, store: Store<Fault>, gone: impl Stream<Item = Gone<Fault>>) {
        self.controller.forget(store, gone).await;
    }
}

/// Whether it may count a machine without hitting it. The cloud does not tell of that.
pub(crate) fn may_spare(object: &Fault) -> bool {
    let budget = &object.spec.budget;
    budget.probability.is_some() || budget.skip.is_some()
}

/// Carries Faults out in the cloud, which tells of each change.
struct InCloud {
    cloud: Cloud,
}

impl Target for InCloud {
    type Wanted = nephele_cloud::Fault;
    type Seen = FaultObservation;

    fn is_for(spec: &FaultSpec) -> bool {
        !is_of_addresses(spec)
    }

    fn read(spec: &FaultSpec) -> Result<Self::Wanted, String> {
        validate(spec).map_err(|mistake| mistake.to_string())
    }

    fn status(object: &Fault, seen: Result<Option<&Self::Seen>, String>, now: Timestamp) -> FaultStatus {
        report::status(object, seen, now)
    }

    fn put(&self, object: &Fault, wanted: Self::Wanted, paused: bool, _now: Timestamp) {
        let id = id_of(object);
        let history = report::history(object);
        let put = if paused {
            self.cloud.put_paused_fault(&id, wanted, history)
        } else {
            self.cloud.put_fault(&id, wanted, history)
        };
        tell_of(&id, "send", put);
    }

    fn remove(&self, id: &FaultId) {
        tell_of(id, "remove", self.cloud.delete_fault(id));
    }

    fn ids(&self) -> Vec<FaultId> {
        self.cloud.faults()
    }

    fn observe(&self, id: &FaultId, _now: Timestamp) -> Option<Self::Seen> {
        self.cloud.observe_fault(id)
    }

    fn publish(object: &Fault, before: &FaultStatus, after: &FaultStatus, events: &Events) {
        leaked::publish(object, &before.leaked_instances, &after.leaked_instances, events);
        load_balancers::publish(
            object,
            &before.leaked_load_balancers,
            &after.leaked_load_balancers,
            events,
        );
    }
}

/// Logs that the cloud has refused something about a Fault.
fn tell_of(id: &FaultId, what: &'static str, result: Result<(), CallError>) {
    if let Err(error) = result {
        let error = nephele_controller::chain(&error);
        warn!(fault = %id, what, error, "The cloud refuses something about a Fault");
    }
}
