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
use nephele_cloud::FaultId;
use nephele_fault::{differs_in_numbers_only, is_of_addresses};
use nephele_kit::{Cache, Gone, Outcome, Pace, paused};
use tracing::warn;

use self::validate::validate;
use crate::context::Context;
use crate::leaked::{self, load_balancers};
use crate::report::{StatusError, write_status};

/// The Faults of the management cluster.
pub(crate) struct Faults {
    cache: Cache<Fault>,
    put: Once,
    pace: Pace<FaultId>,
}

impl Faults {
    pub(crate) fn new(cache: Cache<Fault>) -> Self {
        Self { cache, put: Once::new(), pace: Pace::default() }
    }

    pub(crate) fn cache(&self) -> &Cache<Fault> {
        &self.cache
    }
}

/// Sends all Faults to the cloud, once, before the first cluster or machine is reconciled: after a restart, nothing is
/// created past them.
pub(crate) fn put_all(context: &Context) {
    context.faults.put.call_once(|| {
        let all = context.faults.cache.store().state();
        let stay = all.iter().filter(|object| object.metadata.deletion_timestamp.is_none());
        stay.for_each(|object| drop(put(context, object)));
    });
}

/// Sends a Fault to the cloud. Returns its mistake, if it has one: then it has no effect.
fn put(context: &Context, object: &Fault) -> Option<String> {
    let id = id(object);
    if is_of_addresses(&object.spec) || is_being_restored(&object.metadata) {
        remove(context, &id);
        return None;
    }
    let (put, mistake) = match validate(&object.spec) {
        Ok(fault) => (context.cloud.put_fault(&id, fault, report::history(object)), None),
        Err(mistake) => (context.cloud.delete_fault(&id), Some(mistake.to_string())),
    };
    if let Err(error) = put {
        let error = nephele_kit::chain(&error);
        warn!(fault = %id, error, "Failed to send a Fault to the cloud");
    }
    mistake
}

fn id(object: &Fault) -> FaultId {
    FaultId { namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
}

/// Whether it may count a machine without hitting it. The cloud does not tell of that.
pub(crate) fn may_spare(object: &Fault) -> bool {
    let budget = &object.spec.budget;
    !budget.probability.is_empty() || budget.skip.is_some()
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
    if paused(&*object, None).is_some() {
        return Ok(Outcome::WaitingOn("unpaused"));
    }
    let (id, now) = (id(&object), context.now());
    let mistake = put(&context, &object);
    if is_of_addresses(&object.spec) {
        return Ok(Outcome::Done);
    }
    let observed = context.cloud.observe_fault(&id);
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
            Gone::Object(object) => {
                let id = id(&object);
                remove(&context, &id);
                // Somebody may have created another Fault of this name meanwhile.
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
    if let Err(error) = context.cloud.delete_fault(id) {
        let error = nephele_kit::chain(&error);
        warn!(fault = %id, error, "Failed to remove a Fault from the cloud");
    }
}
