//! A story: a Scenario with ten Faults and a cluster, in a world without trouble. Whatever the seed of the world, and so
//! the names of machines and the order in which they ask, the seed of the cloud makes the same story.

use std::{collections::BTreeMap, time::Duration};

use kube::{Api, ResourceExt as _, api::ListParams};
use nephele_api::{
    cloud::v1alpha1::{Affected, Fault, FaultHit, Scenario},
    core::Machine,
    infrastructure::v1beta2::InMemoryMachine,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    quiet::Quiet,
    world::{paused_runtime, plan},
};

/// The faults, by name. They draw lots, and none of them counts, because a count depends on the order of arrival.
pub const FAULTS: &str = include_str!("../../testkit/src/ten-faults.json");
const CONTROL_PLANE: u32 = 3;
const WORKERS: u32 = 6;
/// Until all Faults are in force.
const BEGINNING: Duration = Duration::from_secs(30);
/// Until nothing more happens: a machine takes a minute at most, and the control plane machines come one by one.
const ACT: Duration = Duration::from_secs(420);
const LEASE: Duration = Duration::from_secs(3600);

/// A machine by its set and its number in the set. Its name is random.
type Actor = (String, u32);

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Story {
    pub faults: BTreeMap<String, Deeds>,
    /// The phase of each Machine in the end.
    pub phases: Vec<(Actor, String)>,
    /// The phases of the Scenario's steps.
    pub steps: Vec<(String, String)>,
}

/// What a fault did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deeds {
    pub matched: i64,
    /// How much of it it hit.
    pub hits: i64,
    /// The operation and the machine, or nothing for a load balancer, of each of its last hits.
    pub last_hits: Vec<(String, Option<Actor>)>,
    /// The machines that misbehave because of it.
    pub affected: Vec<Option<Actor>>,
}

/// Tells the story in this process, in a world of this seed.
///
/// # Errors
/// When a request to the management API fails.
pub fn tell(seed: u64) -> Result<Story, String> {
    fastrand::seed(seed);
    paused_runtime().block_on(async {
        let world = Quiet::start(LEASE).await;
        let story = happen(&world, seed).await.map_err(|error| error.to_string());
        world.stop().await;
        story
    })
}

async fn happen(world: &Quiet, seed: u64) -> anyhow::Result<Story> {
    let client = world.api.client();
    let scenarios: Api<Scenario> = Api::default_namespaced(client.clone());
    scenarios.create(&Default::default(), &scenario()?).await?;
    sleep(BEGINNING).await;
    let key = ("default".to_owned(), "story".to_owned());
    let plan = plan(&key, &format!("salt-{seed}"), CONTROL_PLANE, WORKERS, false);
    world.planned.set(plan.clone());
    nephele_fake_capi::create(&client, &plan).await?;
    sleep(ACT).await;

    let all = ListParams::default();
    let objects = Api::<InMemoryMachine>::default_namespaced(client.clone())
        .list(&all)
        .await?;
    let actors: BTreeMap<_, _> = objects
        .iter()
        .filter_map(|object| Some((object.name_any(), actor(object)?)))
        .collect();
    let machines = Api::<Machine>::default_namespaced(client.clone())
        .list(&all)
        .await?;
    let mut phases: Vec<_> = machines
        .iter()
        .map(|machine| {
            let actor = machine
                .spec
                .infrastructure_ref
                .as_ref()
                .and_then(|object| actors.get(&object.name));
            let phase = machine.status.as_ref().map(|status| status.phase.clone());
            (actor.cloned().unwrap_or_default(), phase.unwrap_or_default())
        })
        .collect();
    phases.sort();
    let faults = Api::<Fault>::default_namespaced(client.clone())
        .list(&all)
        .await?;
    let faults = faults
        .iter()
        .map(|fault| (fault.name_any(), deeds(fault, &actors)))
        .collect();
    let told = scenarios.get("story").await?.status.unwrap_or_default();
    let steps = told
        .steps
        .into_iter()
        .map(|step| (step.name, step.phase))
        .collect();
    Ok(Story {
        faults,
        phases,
        steps,
    })
}

/// A scenario that begins the faults and continues until the story is over.
fn scenario() -> anyhow::Result<Scenario> {
    let faults: BTreeMap<String, Value> = serde_json::from_str(FAULTS)?;
    let begin = faults
        .into_iter()
        .map(|(name, spec)| json!({ "fault": { "name": name, "spec": spec } }));
    let steps: Vec<_> = begin.chain([json!({ "pause": "1h" })]).collect();
    Ok(serde_json::from_value(
        json!({ "metadata": { "name": "story" }, "spec": { "steps": steps } }),
    )?)
}

fn actor(object: &InMemoryMachine) -> Option<Actor> {
    let key = serde_json::to_value(&object.spec).ok()?["instance"]["origin"]["drawKey"].take();
    Some((
        key["set"].as_str()?.to_owned(),
        u32::try_from(key["ordinal"].as_u64().unwrap_or_default()).ok()?,
    ))
}

fn deeds(fault: &Fault, actors: &BTreeMap<String, Actor>) -> Deeds {
    let status = fault.status.clone().unwrap_or_default();
    let actor = |name: &str| actors.get(name).cloned();
    let hit = |FaultHit {
                   operation, machine, ..
               }: &FaultHit| (operation.clone(), actor(machine));
    let mut last_hits: Vec<_> = status.last_hits.iter().map(hit).collect();
    let mut affected: Vec<_> = status
        .affected
        .iter()
        .map(|Affected { machine, .. }| actor(machine))
        .collect();
    last_hits.sort();
    affected.sort();
    let [matched, hits] = [status.matched, status.hits].map(Option::unwrap_or_default);
    Deeds {
        matched,
        hits,
        last_hits,
        affected,
    }
}
