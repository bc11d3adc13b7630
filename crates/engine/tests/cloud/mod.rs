//! Resources to test with, and short ways to ask for them.

use std::collections::BTreeMap;

use nephele_engine::{
    Command, Config, Engine, Latency, Odds, Operation, Outcome, Rejected, ResourceId, ResourceKind,
    ResourceSpec, Seed, SimTime, StageName, StageSpec, StageState,
};

pub(crate) fn id(name: &str) -> ResourceId {
    ResourceId {
        account: "default".into(),
        group: "demo".into(),
        kind: ResourceKind::Instance,
        name: name.into(),
    }
}

pub(crate) fn stage(name: &str, after: &[&str], latency: &Latency) -> StageSpec {
    StageSpec {
        name: name.into(),
        after: after.iter().map(|&name| name.into()).collect(),
        latency: latency.clone(),
        failure: Odds::NEVER,
    }
}

/// A machine: vm, then node, then etcd and api-server side by side.
pub(crate) fn machine(name: &str, latency: &Latency) -> ResourceSpec {
    ResourceSpec {
        id: id(name),
        zone: None,
        instance_type: None,
        owner: None,
        labels: BTreeMap::new(),
        stages: vec![
            stage("vm", &[], latency),
            stage("node", &["vm"], latency),
            stage("etcd", &["node"], latency),
            stage("api-server", &["node"], latency),
        ],
        deletion: latency.clone(),
    }
}

pub(crate) fn engine() -> Engine {
    Engine::new(Config::default(), Seed::new("amber-otter-lamp"))
}

pub(crate) fn at(seconds: u64) -> SimTime {
    SimTime::from_millis(seconds * 1000)
}

pub(crate) fn ask(engine: &mut Engine, now: SimTime, command: Command) -> Result<Outcome, Rejected> {
    engine.apply(now, Operation { caller: "test".into(), command })
}

/// What an earlier process would know of a machine: the stages it saw reached.
pub(crate) fn reached_stages(engine: &Engine, id: &ResourceId) -> BTreeMap<StageName, SimTime> {
    let stages = engine.get(id).expect("the machine was created").stages();
    stages
        .filter_map(|(name, state)| match state {
            StageState::Reached { at } => Some((name.clone(), *at)),
            StageState::Blocked | StageState::Running { .. } | StageState::Failed { .. } => None,
        })
        .collect()
}
