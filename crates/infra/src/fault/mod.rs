//! `Fault`: sends it to the cloud, and reports what it has done. It has no finalizer: a fault without an object has no
//! effect. Faults of addresses are carried out and reported by the IPAM provider.

mod report;
mod validate;

use std::sync::{Arc, Once};

use futures::{Stream, StreamExt as _};
use kube::ResourceExt as _;
use kube::runtime::reflector::{ObjectRef, Store};
use nephele_api::cloud::is_being_restored;
use nephele_api::cloud::v1alpha1::Fault;
use nephele_cloud::CallError;
use nephele_fault::{InForce, Standing, differs_in_numbers_only, is_of_addresses};
use nephele_kit::{Cache, Gone, Outcome, Pace, WatchFilter, unreadable};
use nephele_model::FaultId;
use tracing::warn;

use self::validate::validate;
use crate::context::Context;
use crate::leaked::{self, load_balancers};
use crate::report::{StatusError, write_status};

/// The Faults of the management cluster.
pub(crate) struct Faults {
    /// Also those of other managers: a ClusterFault has to see who has the name of its Fault.
    cache: Cache<Fault>,
    filter: WatchFilter,
    put: Once,
    in_force: InForce,
    pace: Pace<FaultId>,
}

impl Faults {
    pub(crate) fn new(cache: Cache<Fault>, filter: WatchFilter) -> Self {
        Self { cache, filter, put: Once::new(), in_force: InForce::default(), pace: Pace::default() }
    }

    pub(crate) fn cache(&self) -> &Cache<Fault> {
        &self.cache
    }
}

/// Sends all Faults to the cloud, once, before the first cluster or machine is reconciled: after a restart, nothing is
/// created past them.
pub(crate) fn put_all(context: &Context) {
    context.faults.put.call_once(|| {
        let Faults { cache, filter, .. } = &context.faults;
        let all = cache.store().state();
        let ours = all.iter().filter(|object| filter.matches(&object.metadata));
        let stay = ours.filter(|object| object.metadata.deletion_timestamp.is_none());
        stay.for_each(|object| drop(put(context, object)));
    });
}

/// Sends a Fault to the cloud. Returns its standing, and its mistake, if it has one: then it has no effect.
fn put(context: &Context, object: &Fault) -> (Standing, Option<String>) {
    let Faults { in_force, .. } = &context.faults;
    let id = id(object);
    let standing = in_force.standing(object);
    let spec = match &standing {
        _ if is_being_restored(&object.metadata) => None,
        Standing::Runs => Some(Arc::new(object.spec.clone())),
        Standing::Holds(spec) => Some(Arc::clone(spec)),
        Standing::Rests => None,
    };
    let Some(spec) = spec.filter(|spec| !is_of_addresses(spec)) else {
        remove(context, &id);
        return (standing, None);
    };
    if in_force.carry(object, Arc::clone(&spec)) {
        tell_of(&id, "remove", context.cloud.delete_fault(&id));
    }
    let read = match unreadable(&object.metadata) {
        Some(mistake) if standing == Standing::Runs => Err(mistake.to_owned()),
        _ => validate(&spec).map_err(|mistake| mistake.to_string()),
    };
    let (put, mistake) = match read {
        Ok(fault) if standing == Standing::Runs => {
            (context.cloud.put_fault(&id, fault, report::history(object)), None)
        }
        Ok(fault) => (context.cloud.put_paused_fault(&id, fault, report::history(object)), None),
        Err(mistake) => (context.cloud.delete_fault(&id), Some(mistake)),
    };
    tell_of(&id, "send", put);
    (standing, mistake)
}

/// Logs that the cloud has refused something about a Fault.
fn tell_of(id: &FaultId, what: &'static str, result: Result<(), CallError>) {
    if let Err(error) = result {
        let error = nephele_kit::chain(&error);
        warn!(fault = %id, what, error, "The cloud refuses something about a Fault");
    }
}

fn id(object: &Fault) -> FaultId {
    FaultId { namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
}

/// Whether it may count a machine without hitting it. The cloud does not tell of that.
pub(crate) fn may_spare(object: &Fault) -> bool {
    let budget = &object.spec.budget;
    budget.probability.is_some() || budget.skip.is_some()
}

/// Sends the Fault to the cloud and reports its status.
pub(crate) async fn reconcile(object: Arc<Fault>, context: Arc<Context>) -> Result<Outcome, StatusError> {
    if object.metadata.deletion_timestamp.is_some() {
        remove(&context, &id(&object));
        return Ok(Outcome::Done);
    }
    if is_being_restored(&object.metadata) {
        remove(&context, &id(&object));
        return Ok(Outcome::WaitingOn("restored"));
    }
    let (id, now) = (id(&object), context.now());
    let (standing, mistake) = put(&context, &object);
    let is_other = match &standing {
        Standing::Holds(spec) => is_of_addresses(spec),
        Standing::Runs | Standing::Rests => is_of_addresses(&object.spec),
    };
    if is_other {
        return Ok(Outcome::Done);
    }
    let observed = context.cloud.observe_fault(&id);
    if standing != Standing::Runs {
        let in_force = standing.in_force(&object);
        let latest = observed.map(|observed| report::status(&in_force, None, Some(observed), now));
        if let Some(status) = nephele_fault::paused_status(&object, &standing, latest, now) {
            let mut reported = Fault::clone(&object);
            reported.status = Some(status);
            write_status(&*object, &reported, &context, "Fault").await?;
        }
        return Ok(Outcome::WaitingOn("unpaused"));
    }
    let status = report::status(&object, mistake, observed, now);
    if differs_in_numbers_only(object.status.as_ref(), &status)
        && let Some(wait) = context.faults.pace.wait(&id, now)
    {
        return Ok(Outcome::After(wait));
    }
    let known = object.status.clone().unwrap_or_default();
    let is_new = known != status;
    let mut reported = Fault::clone(&object);
    reported.status = Some(status.clone());
    if is_new {
        context.faults.pace.note(id, now);
    }
    let outcome = write_status(&*object, &reported, &context, "Fault").await?;
    leaked::publish(&*object, &known.leaked_instances, &status.leaked_instances, &context.events);
    let balancers = (&known.leaked_load_balancers, &status.leaked_load_balancers);
    load_balancers::publish(&*object, balancers.0, balancers.1, &context.events);
    nephele_fault::publish(&object, &known, &status, &context.events);
    Ok(outcome)
}

/// Removes each Fault from the cloud whose object is gone.
pub(crate) async fn forget(
    context: Arc<Context>,
    store: Store<Fault>,
    gone: impl Stream<Item = Gone<Fault>>,
) {
    let mut gone = std::pin::pin!(gone);
    while let Some(gone) = gone.next().await {
        let there = |id: &FaultId| store.get(&ObjectRef::new(&id.name).within(&id.namespace));
        match gone {
            // Somebody may have created another Fault of this name meanwhile.
            Gone::Object(object) if context.faults.in_force.has_another(&object) => {}
            Gone::Object(object) => {
                let id = id(&object);
                remove(&context, &id);
                if let Some(other) = there(&id) {
                    put(&context, &other);
                }
            }
            Gone::Any => {
                let gone = context.cloud.faults().into_iter().filter(|id| there(id).is_none());
                gone.for_each(|id| remove(&context, &id));
            }
        }
    }
}

fn remove(context: &Context, id: &FaultId) {
    context.faults.pace.forget(id);
    context.faults.in_force.forget(&id.namespace, &id.name);
    tell_of(id, "remove", context.cloud.delete_fault(id));
}
