//! A scenario with ten faults, told three times.

use std::collections::BTreeMap;

use anyhow::Context as _;
use nephele_e2e::{Cluster, Look, Scope, Shape, management::kinds, until, wait::LIMIT};
use serde_json::{Value, json};

const TIMES: usize = 3;
const WORKERS: u32 = 6;
const NAME: &str = "story";

/// The faults, by name. They draw lots, and none of them counts, because a count depends on the order of arrival. Worlds
/// tell the same story.
fn faults() -> BTreeMap<String, Value> {
    serde_json::from_str(include_str!("../../../crates/dev/testkit/src/ten-faults.json")).expect("valid JSON")
}

/// A scenario that makes the faults, and heals them when the Cluster has the label `told`.
fn scenario() -> Value {
    let mut steps: Vec<Value> = faults()
        .into_iter()
        .map(|(name, spec)| json!({"fault": {"name": name, "spec": spec}}))
        .collect();
    steps.push(json!({"expect": {
        "object": {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Cluster",
            "name": NAME,
            "field": "metadata.labels.told",
            "value": "true",
        },
        "within": "10m",
    }}));
    steps.push(json!({"expect": {"cluster": NAME, "condition": "InfrastructureReady", "within": "5m"}}));
    json!({
        "apiVersion": "cloud.nephele.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": NAME},
        "spec": {"steps": steps},
    })
}

#[tokio::test]
async fn scenario_with_ten_faults_hits_the_same_in_each_of_three_runs() -> anyhow::Result<()> {
    let scope = Scope::new(NAME).await?;
    let first = tell(&scope).await?;
    let hits: u64 = first.faults.values().map(|fault| fault.hits).sum();
    assert!(hits >= 10, "ten faults hit something: {first:#?}");
    for _ in 1..TIMES {
        assert_eq!(tell(&scope).await?, first);
    }
    scope.finish().await
}

/// A machine, by its set and its number in the set. Its name is random.
type Machine = (String, i64);

/// What happened in a run.
#[derive(Debug, PartialEq, Eq)]
struct Story {
    faults: BTreeMap<String, Told>,
    /// The phase of each Machine in the end.
    phases: BTreeMap<Machine, String>,
    /// The steps of the scenario, each with its phase.
    steps: Vec<(String, String)>,
}

/// What a fault did.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    matched: u64,
    hits: u64,
    /// Each hit: the operation, and the machine or, for load balancers, nothing.
    last_hits: Vec<(String, Option<Machine>)>,
    affected: Vec<Option<Machine>>,
}

/// Runs the scenario on a cluster of its own, and deletes both.
async fn tell(scope: &Scope) -> anyhow::Result<Story> {
    scope.management.apply(&scope.namespace, &[scenario()]).await?;
    until("all faults to be in force", LIMIT, async || {
        let names = scope.management.names(kinds::FAULT, &scope.namespace).await?;
        Ok(Look::when(names.len() == faults().len(), || format!("{names:?}")))
    })
    .await?;
    let cluster = scope.plain(NAME, Shape::new(3, WORKERS)).await?;
    let machines = until("all machines to come as far as they can", LIMIT, async || {
        let stuck = fault(scope, "stuck").await?;
        let machines = machines(&cluster).await?;
        let open = machines
            .iter()
            .filter(|(name, machine)| !machine.is_done(name, &stuck))
            .count();
        let all = machines.len() == 3 + WORKERS as usize;
        Ok(if all && open == 0 {
            Look::Done(machines)
        } else {
            Look::NotYet(format!("{open} of {} are open", machines.len()))
        })
    })
    .await?;
    let told = until("the numbers in the faults' status to stay", LIMIT, async || {
        let before = all_told(scope, &machines).await?;
        // The manager writes them once in a second at most.
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        let after = all_told(scope, &machines).await?;
        Ok(if before == after {
            Look::Done(after)
        } else {
            Look::NotYet(format!("{after:#?}"))
        })
    })
    .await?;
    let label = json!({"metadata": {"labels": {"told": "true"}}});
    cluster.patch(kinds::CLUSTER, &cluster.name, &label).await?;
    let steps = until("the scenario to be over", LIMIT, async || {
        let seen = scope
            .management
            .get(kinds::SCENARIO, &scope.namespace, NAME)
            .await?;
        let is_over = ["Passed", "Failed"].contains(&text(&seen["status"]["phase"]).as_str());
        let steps = seen["status"]["steps"].as_array().cloned().unwrap_or_default();
        let steps = steps
            .iter()
            .map(|step| (text(&step["name"]), text(&step["phase"])))
            .collect::<Vec<_>>();
        Ok(if is_over {
            Look::Done(steps)
        } else {
            Look::NotYet(format!("{steps:?}"))
        })
    })
    .await?;
    let phases = machines
        .values()
        .map(|machine| (machine.key.clone(), machine.phase.clone()))
        .collect();
    scope
        .management
        .delete(kinds::SCENARIO, &scope.namespace, NAME)
        .await?;
    cluster.delete().await?;
    until("the cluster to be gone", LIMIT, async || {
        let mut left = scope.management.names(kinds::CLUSTER, &scope.namespace).await?;
        left.extend(scope.management.names(kinds::SCENARIO, &scope.namespace).await?);
        Ok(Look::when(left.is_empty(), || format!("{left:?}")))
    })
    .await?;
    Ok(Story {
        faults: told,
        phases,
        steps,
    })
}

/// A Machine and its InMemoryMachine.
struct Seen {
    key: Machine,
    phase: String,
    is_provisioned: bool,
}

impl Seen {
    /// Whether nothing more is about to happen to the machine. `stuck` is the fault that holds machines.
    fn is_done(&self, name: &str, stuck: &Value) -> bool {
        let affected = stuck["status"]["affected"].as_array().into_iter().flatten();
        let is_held = affected.into_iter().any(|affected| affected["machine"] == name);
        self.phase == "Running" || (is_held && self.is_provisioned) || self.phase == "Provisioned"
    }
}

/// The machines, by the name of the InMemoryMachine.
async fn machines(cluster: &Cluster) -> anyhow::Result<BTreeMap<String, Seen>> {
    let mut machines = BTreeMap::new();
    for machine in cluster.machines(None).await? {
        let name = text(&machine["spec"]["infrastructureRef"]["name"]);
        let object = cluster.object(kinds::IN_MEMORY_MACHINE, &name).await?;
        let draw_key = &object["spec"]["instance"]["origin"]["drawKey"];
        let set = draw_key["set"]
            .as_str()
            .with_context(|| format!("{name} has no key for draws yet"))?;
        let key = (set.to_owned(), draw_key["ordinal"].as_i64().unwrap_or_default());
        let is_provisioned = object["status"]["initialization"]["provisioned"] == true;
        machines.insert(
            name,
            Seen {
                key,
                phase: text(&machine["status"]["phase"]),
                is_provisioned,
            },
        );
    }
    Ok(machines)
}

async fn all_told(
    scope: &Scope,
    machines: &BTreeMap<String, Seen>,
) -> anyhow::Result<BTreeMap<String, Told>> {
    let mut all = BTreeMap::new();
    for name in faults().into_keys() {
        let status = fault(scope, &name).await?["status"].take();
        let key = |object: &Value| {
            machines
                .get(&text(&object["machine"]))
                .map(|machine| machine.key.clone())
        };
        let list = |field: &str| status[field].as_array().cloned().unwrap_or_default();
        let mut last_hits: Vec<_> = list("lastHits")
            .iter()
            .map(|hit| (text(&hit["operation"]), key(hit)))
            .collect();
        let mut affected: Vec<_> = list("affected").iter().map(key).collect();
        last_hits.sort();
        affected.sort();
        let number = |field: &str| status[field].as_u64().unwrap_or_default();
        all.insert(
            name,
            Told {
                matched: number("matched"),
                hits: number("hits"),
                last_hits,
                affected,
            },
        );
    }
    Ok(all)
}

async fn fault(scope: &Scope, name: &str) -> anyhow::Result<Value> {
    scope
        .management
        .get(kinds::FAULT, &scope.namespace, &format!("{NAME}-{name}"))
        .await
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
