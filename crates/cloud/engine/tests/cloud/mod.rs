//! Resources for tests, and short forms of requests.

use std::{
    collections::BTreeMap,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use nephele_engine::{
    Config, Cursor, Engine, Event, EventKind, Latency, Operation, Outcome, Record, Request, ResourceSpec,
    Seed, StageSpec, StageState,
};
use nephele_model::{CloudError, Odds, ResourceId, ResourceKind, SimTime, StageName};

/// An engine with a reader of its journal.
pub(crate) struct Watched {
    engine: Engine,
    cursor: Cursor,
}

impl Watched {
    pub(crate) fn new(config: Config, seed: &str) -> Self {
        let engine = Engine::new(config, Seed::new(seed));
        let cursor = engine.journal().end();
        Self { engine, cursor }
    }

    /// Polls the engine, and returns the events since the last poll. Adoptions are left out, because they repeat the
    /// caller's request. So is how long operations took, which has tests of its own.
    pub(crate) fn poll(&mut self, now: SimTime) -> Vec<Event> {
        self.engine.poll(now);
        let mut entries: Vec<Arc<_>> = Vec::with_capacity(nephele_engine::Journal::CAPACITY);
        self.engine
            .journal()
            .read(&mut self.cursor, &mut entries)
            .expect("tests make fewer records");
        let event = |record: &Record| match record {
            Record::Event(event) => Some(Event {
                took: None,
                ..event.clone()
            }),
            Record::Operation { .. }
            | Record::CapacityFreed { .. }
            | Record::GrantEnded { .. }
            | Record::FaultEnded { .. }
            | Record::FaultWindow { .. } => None,
        };
        let mut events: Vec<Event> = entries.iter().filter_map(|entry| event(&entry.record)).collect();
        events.retain(|event| !matches!(event.kind, EventKind::Adopted { .. }));
        events.sort_by(|a, b| (a.at, &a.id, a.generation).cmp(&(b.at, &b.id, b.generation)));
        events
    }
}

impl Deref for Watched {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl DerefMut for Watched {
    fn deref_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }
}

pub(crate) fn id(name: &str) -> ResourceId {
    ResourceId {
        namespace: "default".into(),
        cluster: "demo".into(),
        kind: ResourceKind::Instance,
        name: name.into(),
    }
}

pub(crate) fn load_balancer(name: &str) -> ResourceId {
    ResourceId {
        kind: ResourceKind::LoadBalancer,
        ..id(name)
    }
}

pub(crate) fn register(name: &str, instance: &str, in_service_from: &str) -> Request {
    Request::RegisterBackend {
        load_balancer: load_balancer(name),
        instance: instance.into(),
        in_service_from: in_service_from.into(),
    }
}

pub(crate) fn deregister(name: &str, instance: &str) -> Request {
    Request::DeregisterBackend {
        load_balancer: load_balancer(name),
        instance: instance.into(),
    }
}

pub(crate) fn stage(name: &str, after: &[&str], latency: &Latency) -> StageSpec {
    StageSpec {
        name: name.into(),
        after: after.iter().map(|&name| name.into()).collect(),
        latency: Some(latency.clone()),
        failure: Odds::NEVER,
    }
}

/// A machine: vm, then node, then etcd and api-server side by side.
pub(crate) fn machine(name: &str, latency: &Latency) -> ResourceSpec {
    ResourceSpec {
        stages: vec![
            stage("vm", &[], latency),
            stage("node", &["vm"], latency),
            stage("etcd", &["node"], latency),
            stage("api-server", &["node"], latency),
        ],
        deletion: Some(latency.clone()),
        ..ResourceSpec::new(id(name))
    }
}

pub(crate) fn engine() -> Watched {
    Watched::new(Config::default(), "amber-otter-lamp")
}

pub(crate) fn at(seconds: u64) -> SimTime {
    SimTime::from_millis(seconds * 1000)
}

pub(crate) fn operation(at: SimTime, request: Request) -> Operation {
    Operation {
        caller: "test".into(),
        request,
        at,
    }
}

/// Applies a request, and returns the error of a refusal.
pub(crate) fn ask(engine: &mut Engine, now: SimTime, request: Request) -> Result<Outcome, CloudError> {
    match engine.apply(operation(now, request)) {
        Outcome::Refused(error) => Err(error),
        outcome => Ok(outcome),
    }
}

/// The stages that an earlier process saw reached.
pub(crate) fn reached_stages(engine: &Engine, id: &ResourceId) -> BTreeMap<StageName, SimTime> {
    let stages = engine.get(id).expect("the machine was created").stages();
    stages
        .filter_map(|(name, state)| match state {
            StageState::Reached { at } => Some((name.clone(), *at)),
            StageState::Blocked | StageState::Running { .. } | StageState::Failed { .. } => None,
        })
        .collect()
}
