//! One look at a scenario: fetch, validate, plan, act, report.

use std::{sync::Arc, time::Duration};

use futures::channel::mpsc::UnboundedSender;
use jiff::{Timestamp, Unit};
use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};
use nephele_api::{
    cloud::{
        NEEDS_CLUSTER_API_ANNOTATION, is_being_restored,
        v1alpha1::{Fault, Scenario, ScenarioStatus},
    },
    conditions::{self, types},
    finalizers,
};
use nephele_controller::{
    Cache, Clock, Event, Events, Outcome, PatchError, Precondition, Readable, ReconcileError, Retry,
    Severity, kube_category, kube_retry, patch, paused, scoped, unreadable,
};
use nephele_poll_time::apart;
use thiserror::Error;

use crate::{
    act::Actor,
    mistake::Valid,
    observe::{faults_of, has_made, observe},
    plan::{Deed, Ending, LOOK_EVERY, Seen, is_over, plan, plan_paused, wants},
    report::{invalid, paused_status, summarised, waiting, without_cluster_api},
    runs::{Place, Runs, needs_place},
    script::Script,
    validate::{check_manifests, validate},
};

/// How long a Scenario waits for a place in its namespace until it asks again. It is woken when there is one.
const ASK_EVERY: Duration = Duration::from_secs(60);

/// What the reconciler needs.
pub(crate) struct Context {
    pub(crate) client: Client,
    /// For what steps read and change.
    pub(crate) steps: Client,
    pub(crate) events: Events,
    pub(crate) clock: Clock,
    /// The Faults, to find those that come after their Scenario is over.
    pub(crate) faults: Cache<Fault>,
    /// All Scenarios, as the watch shows them.
    pub(crate) scenarios: Store<Scenario>,
    pub(crate) runs: Runs,
    /// Those that are to be looked at because they can run now: one at most for each that ends.
    pub(crate) woken: UnboundedSender<ObjectRef<Scenario>>,
    /// Whether a stand-in plays Cluster API.
    pub(crate) has_stand_in: bool,
}

impl Context {
    /// Whether there is a Fault that a scenario has made, as far as is known.
    fn has_fault_of(&self, object: &Scenario) -> bool {
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let faults = self.faults.by_namespace().of(namespace);
        faults.iter().any(|fault| has_made(object, fault))
    }

    /// Takes a place for a Scenario, and wakes the next one if there is one more.
    fn begin(&self, object: &Scenario) -> Place {
        let place = self.runs.begin(object);
        if place == Place::Taken {
            self.wake_next(object);
        }
        place
    }

    /// Gives up the place of a Scenario that is over or gone.
    pub(crate) fn end(&self, object: &Scenario) {
        self.runs.end(object);
        self.wake_next(object);
    }

    fn wake_next(&self, object: &Scenario) {
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        if let Some(next) = self.runs.next(namespace, &self.scenarios) {
            // Without a receiver the controller has ended.
            let _ = self.woken.unbounded_send(next);
        }
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

/// Continues a scenario.
pub(crate) async fn reconcile(known: Arc<Scenario>, context: Arc<Context>) -> Result<Outcome, Error> {
    if is_over_and_let_go(&known) && !context.has_fault_of(&known) {
        context.end(&known);
        return Ok(Outcome::Done);
    }
    let api: Api<Scenario> = Api::namespaced(context.client.clone(), &known.namespace().unwrap_or_default());
    if needs_place(&known) && paused(known.as_ref(), None).is_none() && context.begin(&known) == Place::None {
        return wait_for_place(&context, &api, &known).await;
    }
    let Some(object) = current(&context, known).await? else {
        return Ok(Outcome::Done);
    };
    if object.metadata.deletion_timestamp.is_some() {
        return remove(&context, &api, &object).await;
    }
    if let Some(message) = paused(object.as_ref(), None) {
        return rest(&context, &api, &object, message).await;
    }
    let generation = object.metadata.generation.unwrap_or_default();
    let script = match script(&context, &object, generation).await {
        Ok(script) => script,
        Err(mistake) => {
            if heal_all(&context, &object).await? {
                return Ok(Outcome::After(LOOK_EVERY));
            }
            let status = invalid(&object, generation, &mistake, context.now());
            return report(&context, &api, &object, status, None).await;
        }
    };
    if !is_over(object.status.as_ref(), generation)
        && patch::add_finalizer(&api, &object, finalizers::SCENARIO)
            .await
            .map_err(Error::Write)?
            .is_some()
    {
        return Ok(Outcome::After(Duration::ZERO));
    }
    advance(&context, &api, &object, &script).await
}

/// The Scenario with its last status: the known one may have an earlier status, and then an action of an earlier step
/// would be repeated. None if it is gone.
async fn current(context: &Context, known: Arc<Scenario>) -> Result<Option<Arc<Scenario>>, Error> {
    let version = context.runs.kept(&known).and_then(|kept| kept.version);
    if version.is_some() && version == known.metadata.resource_version {
        return Ok(Some(known));
    }
    let turn = context.runs.turn(&known).await;
    let api: Api<Readable<Scenario>> = scoped(context.client.clone(), known.metadata.namespace.as_deref());
    let read = api.get_opt(&known.name_any()).await.map_err(Error::Read)?;
    drop(turn);
    let Some(object) = read.map(Readable::into_object) else {
        context.end(&known);
        return Ok(None);
    };
    context.runs.keep(&object, |kept| {
        kept.version.clone_from(&object.metadata.resource_version);
    });
    Ok(Some(Arc::new(object)))
}

/// Looks at what the script waits for, does what is next, and says in the status how far it has come.
async fn advance(
    context: &Context,
    api: &Api<Scenario>,
    object: &Scenario,
    script: &Script,
) -> Result<Outcome, Error> {
    let generation = object.metadata.generation.unwrap_or_default();
    let wants = wants(script, generation, object.status.as_ref());
    let mut seen = observe(&context.steps, object, script, wants)
        .await
        .map_err(Error::Read)?;
    seen.looked = context
        .runs
        .kept(object)
        .map(|kept| kept.looked)
        .unwrap_or_default();
    let now = context.now();
    let mut plan = plan(script, generation, object.status.as_ref(), &seen, now);
    context.runs.keep(object, |kept| {
        kept.looked = plan.looked.iter().map(|index| (*index, now)).collect();
    });
    let actor = Actor {
        client: &context.steps,
        events: &context.events,
        object,
    };
    let mut trouble = None;
    for act in std::mem::take(&mut plan.acts) {
        let ending = actor.act(&act.deed).await;
        plan.settle(&act, &ending, context.now());
        if let (None, Ending::Refused(message) | Ending::Unclear(message)) = (act.step, ending) {
            trouble = Some(message);
        }
    }
    let status = summarised(object, plan.status, trouble.as_deref(), context.now());
    report(context, api, object, status, plan.again).await
}

/// Lets a scenario rest that is paused, and ends its Faults on time. Nothing else continues.
async fn rest(
    context: &Context,
    api: &Api<Scenario>,
    object: &Arc<Scenario>,
    message: String,
) -> Result<Outcome, Error> {
    let waiting = Ok(Outcome::WaitingOn("unpaused"));
    // Its status is yet to be restored.
    if is_being_restored(&object.metadata) {
        return waiting;
    }
    if let Some(status) = paused_status(object, message, context.now()) {
        let mut reported = Scenario::clone(object);
        reported.status = Some(status);
        match patch::status(api, object, &reported, Precondition::ResourceVersion).await {
            Err(error) if error.is_not_found() => return Ok(Outcome::Done),
            written => drop(written.map_err(Error::Write)?),
        }
    }
    let generation = object.metadata.generation.unwrap_or_default();
    let script = script(context, object, generation).await;
    let (Ok(script), Some(stored)) = (script, &object.status) else {
        return waiting;
    };
    let faults = faults_of(&context.client, object).await.map_err(Error::Read)?;
    let seen = Seen {
        faults,
        ..Seen::default()
    };
    let plan = plan_paused(&script, generation, stored, &seen, context.now());
    let actor = Actor {
        client: &context.client,
        events: &context.events,
        object,
    };
    for act in plan.acts {
        actor.act(&act.deed).await;
    }
    plan.again.map_or(waiting, |wait| Ok(Outcome::After(wait)))
}

/// The script of this generation of a Scenario: the one that is kept, or else a new one. Or else the mistake in its spec.
async fn script(context: &Context, object: &Arc<Scenario>, generation: i64) -> Result<Arc<Script>, String> {
    if let Some(mistake) = unreadable(&object.metadata) {
        return Err(mistake.to_owned());
    }
    if let Some(needed) = object.annotations().get(NEEDS_CLUSTER_API_ANNOTATION)
        && context.has_stand_in
    {
        return Err(without_cluster_api(needed));
    }
    let kept = context.runs.kept(object).and_then(|kept| kept.script);
    if let Some((_, script)) = kept.filter(|(of, _)| *of == generation) {
        return Ok(script);
    }
    let turn = context.runs.turn(object).await;
    let read = Arc::clone(object);
    let read = move || -> Valid<_> {
        let _turn = turn;
        let script = validate(&read.name_any(), &read.spec)?;
        let namespace = read.namespace().unwrap_or_default();
        script
            .steps
            .iter()
            .try_for_each(|step| check_manifests(&namespace, step))?;
        Ok(Arc::new(script))
    };
    let script = apart(read).await.map_err(|mistake| mistake.to_string())?;
    context.runs.keep(object, |kept| {
        kept.script = Some((generation, Arc::clone(&script)));
        // The steps of another script are others.
        kept.looked.clear();
    });
    Ok(script)
}

/// Says that as many Scenarios run in the namespace as may.
async fn wait_for_place(context: &Context, api: &Api<Scenario>, object: &Scenario) -> Result<Outcome, Error> {
    let status = waiting(object, context.now());
    write(api, object, status).await?;
    Ok(Outcome::After(ASK_EVERY))
}

/// The Scenario that has made a Fault.
pub(crate) fn scenario_of(fault: &Fault) -> Option<ObjectRef<Scenario>> {
    let owners = fault.owner_references().iter();
    let mut scenarios = owners.filter(|owner| owner.kind == Scenario::kind(&()));
    let namespace = fault.namespace().unwrap_or_default();
    scenarios
        .next()
        .map(|owner| ObjectRef::new(&owner.name).within(&namespace))
}

/// Whether nothing is left to do for a scenario until it changes, unless a Fault of it comes late.
pub(crate) fn is_over_and_let_go(object: &Scenario) -> bool {
    let holds = object
        .finalizers()
        .iter()
        .any(|name| name == finalizers::SCENARIO);
    !holds
        && is_over(
            object.status.as_ref(),
            object.metadata.generation.unwrap_or_default(),
        )
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
    match write(api, object, status).await {
        Err(Error::Write(error)) if error.is_not_found() => {
            context.end(object);
            return Ok(Outcome::Done);
        }
        Err(error) => return Err(error),
        Ok(Some(written)) => {
            context.runs.keep(object, |kept| {
                kept.version.clone_from(&written.metadata.resource_version);
            });
            if is_over(written.status.as_ref(), generation) && !is_over(object.status.as_ref(), generation) {
                tell(context, &written);
            }
            return Ok(Outcome::After(again.unwrap_or_default()));
        }
        Ok(None) => {}
    }
    match again {
        Some(wait) => Ok(Outcome::After(wait)),
        None => {
            patch::remove_finalizer(api, object, finalizers::SCENARIO)
                .await
                .map_err(Error::Write)?;
            context.end(object);
            Ok(Outcome::Done)
        }
    }
}

/// Writes the status of a Scenario if it differs, and only if the Scenario has not changed meanwhile: the status would be
/// about another spec.
async fn write(
    api: &Api<Scenario>,
    object: &Scenario,
    status: ScenarioStatus,
) -> Result<Option<Scenario>, Error> {
    if object.status.as_ref() == Some(&status) {
        return Ok(None);
    }
    let mut reported = object.clone();
    reported.status = Some(status);
    patch::status(api, object, &reported, Precondition::ResourceVersion)
        .await
        .map_err(Error::Write)
}

/// Publishes how a scenario ended.
fn tell(context: &Context, object: &Scenario) {
    let status = object.status.clone().unwrap_or_default();
    let passed = conditions::find(&status.conditions, types::PASSED);
    let message = passed
        .map(|condition| condition.message.clone())
        .unwrap_or_default();
    let (severity, reason, note) = match status.phase.as_str() {
        "Passed" => (
            Severity::Normal,
            "Passed",
            format!("all {} steps have passed", status.steps.len()),
        ),
        _ => (Severity::Warning, "Failed", message),
    };
    let regarding = object.object_ref(&());
    context.events.publish(Event {
        regarding,
        severity,
        reason,
        action: "Run",
        note,
    });
}

/// Deletes what a deleted scenario has made, and lets it go.
async fn remove(context: &Context, api: &Api<Scenario>, object: &Scenario) -> Result<Outcome, Error> {
    if heal_all(context, object).await? {
        return Ok(Outcome::After(LOOK_EVERY));
    }
    patch::remove_finalizer(api, object, finalizers::SCENARIO)
        .await
        .map_err(Error::Write)?;
    context.end(object);
    Ok(Outcome::Done)
}

/// Deletes all Faults of a scenario. False when there are none.
async fn heal_all(context: &Context, object: &Scenario) -> Result<bool, Error> {
    let faults = faults_of(&context.client, object).await.map_err(Error::Read)?;
    let actor = Actor {
        client: &context.steps,
        events: &context.events,
        object,
    };
    let mut found = false;
    for (name, _) in faults.into_iter().filter(|(_, fault)| fault.is_ours) {
        match actor.act(&Deed::DeleteFault { name }).await {
            Ending::Done(_) => found = true,
            Ending::Refused(message) | Ending::Unclear(message) => return Err(Error::Heal(message)),
        }
    }
    Ok(found)
}
