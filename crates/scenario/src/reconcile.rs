//! One look at a scenario: fetch, validate, plan, act, report.

use std::sync::Arc;
use std::time::Duration;

use jiff::{Timestamp, Unit};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use nephele_api::cloud::is_being_restored;
use nephele_api::cloud::v1alpha1::{Fault, Scenario, ScenarioStatus};
use nephele_api::conditions::{self, types};
use nephele_api::finalizers;
use nephele_kit::{
    Cache, Clock, Event, Events, Outcome, PatchError, Precondition, ReconcileError, Retry, Severity,
    kube_category, kube_retry, patch, paused,
};
use thiserror::Error;

use crate::act::Actor;
use crate::observe::{faults_of, has_made, observe};
use crate::plan::{Deed, Ending, LOOK_EVERY, Seen, is_over, plan, plan_paused, wants};
use crate::report::{invalid, paused_status, summarised};
use crate::validate::validate;

/// What the reconciler needs.
pub(crate) struct Context {
    pub(crate) client: Client,
    /// For what steps read and change.
    pub(crate) steps: Client,
    pub(crate) events: Events,
    pub(crate) clock: Clock,
    /// The Faults, to find those that come after their Scenario is over.
    pub(crate) faults: Cache<Fault>,
}

impl Context {
    /// Whether there is a Fault that a scenario has made, as far as is known.
    fn has_fault_of(&self, object: &Scenario) -> bool {
        self.faults.store().state().iter().any(|fault| has_made(object, fault))
    }

    /// The current time, as precise as a status can say it.
    fn now(&self) -> Timestamp {
        let now = (self.clock)();
        now.round(Unit::Microsecond).unwrap_or(now)
    }
}

/// Why a scenario could not be looked at.
#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error("failed to read the Scenario or its Faults")]
    Read(#[source] kube::Error),
    #[error("failed to update the Scenario")]
    Write(#[source] PatchError),
    /// The message says which Fault.
    #[error("{0}")]
    Heal(String),
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Read(source) => kube_category(source),
            Self::Write(source) => source.category(),
            Self::Heal(_) => "heal",
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Read(source) => kube_retry(source),
            Self::Write(source) => source.retry(),
            Self::Heal(_) => Retry::BackOff,
        }
    }
}

/// Goes on with a scenario.
pub(crate) async fn reconcile(known: Arc<Scenario>, context: Arc<Context>) -> Result<Outcome, Error> {
    if is_over_and_let_go(&known) && !context.has_fault_of(&known) {
        return Ok(Outcome::Done);
    }
    let api: Api<Scenario> = Api::namespaced(context.client.clone(), &known.namespace().unwrap_or_default());
    // The known one may have an earlier status, and then an action of an earlier step would be repeated.
    let Some(object) = api.get_opt(&known.name_any()).await.map_err(Error::Read)? else {
        return Ok(Outcome::Done);
    };
    if object.metadata.deletion_timestamp.is_some() {
        return remove(&context, &api, &object).await;
    }
    if let Some(message) = paused(&object, None) {
        return rest(&context, &api, &object, message).await;
    }
    let generation = object.metadata.generation.unwrap_or_default();
    let script = match validate(&object.namespace().unwrap_or_default(), &object.name_any(), &object.spec) {
        Ok(script) => script,
        Err(mistake) => {
            if heal_all(&context, &object).await? {
                return Ok(Outcome::After(LOOK_EVERY));
            }
            let status = invalid(&object, generation, &mistake.to_string(), context.now());
            return report(&context, &api, &object, status, None).await;
        }
    };
    if !is_over(object.status.as_ref(), generation)
        && patch::add_finalizer(&api, &object, finalizers::SCENARIO).await.map_err(Error::Write)?.is_some()
    {
        return Ok(Outcome::After(Duration::ZERO));
    }
    let wants = wants(&script, generation, object.status.as_ref());
    let seen = observe(&context.steps, &object, &script, wants).await.map_err(Error::Read)?;
    let mut plan = plan(&script, generation, object.status.as_ref(), &seen, context.now());
    let actor = Actor { client: &context.steps, events: &context.events, object: &object };
    let mut trouble = None;
    for act in std::mem::take(&mut plan.acts) {
        let ending = actor.act(&act.deed).await;
        plan.settle(&act, &ending, context.now());
        if let (None, Ending::Refused(message) | Ending::Unclear(message)) = (act.step, ending) {
            trouble = Some(message);
        }
    }
    let status = summarised(&object, plan.status, trouble.as_deref(), context.now());
    report(&context, &api, &object, status, plan.again).await
}

/// Lets a scenario rest that is paused, and ends its Faults on time. Nothing else goes on.
async fn rest(
    context: &Context,
    api: &Api<Scenario>,
    object: &Scenario,
    message: String,
) -> Result<Outcome, Error> {
    let waiting = Ok(Outcome::WaitingOn("unpaused"));
    // Its status is yet to be restored.
    if is_being_restored(&object.metadata) {
        return waiting;
    }
    if let Some(status) = paused_status(object, message, context.now()) {
        let mut reported = object.clone();
        reported.status = Some(status);
        match patch::status(api, object, &reported, Precondition::ResourceVersion).await {
            Err(error) if error.is_not_found() => return Ok(Outcome::Done),
            written => drop(written.map_err(Error::Write)?),
        }
    }
    let script = validate(&object.namespace().unwrap_or_default(), &object.name_any(), &object.spec);
    let (Ok(script), Some(stored)) = (script, &object.status) else { return waiting };
    let faults = faults_of(&context.client, object).await.map_err(Error::Read)?;
    let seen = Seen { faults, ..Seen::default() };
    let generation = object.metadata.generation.unwrap_or_default();
    let plan = plan_paused(&script, generation, stored, &seen, context.now());
    let actor = Actor { client: &context.client, events: &context.events, object };
    for act in plan.acts {
        actor.act(&act.deed).await;
    }
    plan.again.map_or(waiting, |wait| Ok(Outcome::After(wait)))
}

/// The Scenario that has made a Fault.
pub(crate) fn scenario_of(fault: &Fault) -> Option<ObjectRef<Scenario>> {
    let owners = fault.owner_references().iter();
    let mut scenarios = owners.filter(|owner| owner.kind == Scenario::kind(&()));
    let namespace = fault.namespace().unwrap_or_default();
    scenarios.next().map(|owner| ObjectRef::new(&owner.name).within(&namespace))
}

/// Whether nothing is left to do for a scenario until it changes, unless a Fault of it comes late.
pub(crate) fn is_over_and_let_go(object: &Scenario) -> bool {
    let holds = object.finalizers().iter().any(|name| name == finalizers::SCENARIO);
    !holds && is_over(object.status.as_ref(), object.metadata.generation.unwrap_or_default())
}

/// Writes the status. When nothing is left to do, removes the finalizer.
async fn report(
    context: &Context,
    api: &Api<Scenario>,
    object: &Scenario,
    status: ScenarioStatus,
    again: Option<Duration>,
) -> Result<Outcome, Error> {
    let generation = object.metadata.generation.unwrap_or_default();
    let mut reported = object.clone();
    reported.status = Some(status);
    // Written only if nobody has changed the scenario meanwhile: the status would be about another spec.
    let written = patch::status(api, object, &reported, Precondition::ResourceVersion).await;
    match written {
        Err(error) if error.is_not_found() => return Ok(Outcome::Done),
        Err(error) => return Err(Error::Write(error)),
        Ok(Some(_)) => {
            if is_over(reported.status.as_ref(), generation) && !is_over(object.status.as_ref(), generation) {
                tell(context, &reported);
            }
            return Ok(Outcome::After(Duration::ZERO));
        }
        Ok(None) => {}
    }
    match again {
        Some(wait) => Ok(Outcome::After(wait)),
        None => {
            patch::remove_finalizer(api, object, finalizers::SCENARIO).await.map_err(Error::Write)?;
            Ok(Outcome::Done)
        }
    }
}

/// Publishes how a scenario ended.
fn tell(context: &Context, object: &Scenario) {
    let status = object.status.clone().unwrap_or_default();
    let passed = conditions::find(&status.conditions, types::PASSED);
    let message = passed.map(|condition| condition.message.clone()).unwrap_or_default();
    let (severity, reason, note) = match status.phase.as_str() {
        "Passed" => (Severity::Normal, "Passed", format!("all {} steps have passed", status.steps.len())),
        _ => (Severity::Warning, "Failed", message),
    };
    let regarding = object.object_ref(&());
    context.events.publish(Event { regarding, severity, reason, action: "Run", note });
}

/// Deletes what a deleted scenario has made, and lets it go.
async fn remove(context: &Context, api: &Api<Scenario>, object: &Scenario) -> Result<Outcome, Error> {
    if heal_all(context, object).await? {
        return Ok(Outcome::After(LOOK_EVERY));
    }
    patch::remove_finalizer(api, object, finalizers::SCENARIO).await.map_err(Error::Write)?;
    Ok(Outcome::Done)
}

/// Deletes all Faults of a scenario. False when there are none.
async fn heal_all(context: &Context, object: &Scenario) -> Result<bool, Error> {
    let faults = faults_of(&context.client, object).await.map_err(Error::Read)?;
    let actor = Actor { client: &context.steps, events: &context.events, object };
    let mut found = false;
    for (name, _) in faults.into_iter().filter(|(_, fault)| fault.is_ours) {
        match actor.act(&Deed::DeleteFault { name }).await {
            Ending::Done(_) => found = true,
            Ending::Refused(message) | Ending::Unclear(message) => return Err(Error::Heal(message)),
        }
    }
    Ok(found)
}
