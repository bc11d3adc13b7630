//! What the Drawer shows of a selected object, as plain values. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, ObjectMeta};
use kube::Resource;
use nephele_api::{
    cloud::v1alpha1::{ClusterFault, Fault},
    core::Machine,
    infrastructure::v1beta2::{InMemoryMachine, Provisioning},
    labels,
};
use nephele_cloud::JournalLine;
use nephele_controller::LAST_APPLIED_ANNOTATION;
use nephele_model::Fraction;
use serde::Serialize;
use serde_json::Value;

use crate::{
    act::Doable,
    effect::effect_name,
    elements::path,
    machine_view::{self, MachineView, Role, STAGES, Seen, stage_word},
    objects::{Key, Objects},
    palette::Target,
    scenario_view::{self, ScenarioView},
    stages::Stage,
    surroundings::Surroundings,
    time_of_day::clock_time,
    timeline::lane::{LaneId, LaneKind},
};

/// How many records of the journal are shown: a screen full.
const RECORDS_MAX: usize = 40;

/// A title, the names of the columns, and the rows.
type Table = (&'static str, Vec<&'static str>, Vec<Vec<String>>);

/// A selected object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Drawer {
    /// What it is, such as "worker".
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) state: String,
    /// Why it is not ready.
    pub(crate) message: String,
    /// The id of its element on the screen.
    pub(crate) element: String,
    pub(crate) facts: Vec<(&'static str, String)>,
    pub(crate) stages: Vec<StageBar>,
    pub(crate) chain: Vec<Link>,
    pub(crate) faults: Vec<(String, String, &'static str)>,
    /// Each object behind it, with its conditions.
    pub(crate) conditions: Vec<(String, Vec<Condition>)>,
    pub(crate) tables: Vec<Table>,
    /// The newest record is the first.
    pub(crate) journal: Vec<JournalLine>,
    /// Its lane of the timeline.
    pub(crate) lane: Option<LaneId>,
    /// The commands and the YAML that can be copied, each with a name.
    pub(crate) copies: Vec<(&'static str, String)>,
    /// What a viewer can do to it.
    pub(crate) doable: Doable,
}

/// A stage: what was planned, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StageBar {
    pub(crate) name: &'static str,
    pub(crate) state: &'static str,
    /// What was planned, in words, and what came of it.
    pub(crate) planned: String,
    pub(crate) actual: String,
    /// In milliseconds from the start of the instance: when it began, how long it may take at least and at most, and how
    /// long it took.
    pub(crate) begin: i64,
    pub(crate) least: i64,
    pub(crate) most: i64,
    pub(crate) took: Option<i64>,
}

/// A link of the chain from the Cluster to the Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) is_there: bool,
    /// Where the page shows it.
    pub(crate) href: Option<String>,
}

impl Drawer {
    /// A machine. None if it is gone.
    pub(crate) fn machine(objects: &Objects, key: &Key) -> Option<Self> {
        let around = Surroundings::new(objects);
        let view = Seen::all(&around)
            .into_iter()
            .find(|seen| seen.key == *key)?
            .view();
        let machine = objects
            .machines
            .iter()
            .find(|machine| Key::of(&machine.metadata) == *key)
            .map(AsRef::as_ref);
        let behind = match machine {
            Some(machine) => machine_view::behind(machine, &around),
            None => around.in_memory_machine(&key.namespace, &key.name),
        };
        let instance = behind
            .and_then(|behind| behind.metadata.name.clone())
            .unwrap_or_default();
        let mut conditions = Vec::new();
        conditions.extend(
            machine.and_then(|machine| {
                Some(("Machine".to_owned(), machine.status.as_ref()?.conditions.clone()))
            }),
        );
        conditions.extend(behind.and_then(|behind| {
            Some((
                "InMemoryMachine".to_owned(),
                behind.status.as_ref()?.conditions.clone(),
            ))
        }));
        let is_here = |line: &JournalLine| {
            line.namespace == key.namespace
                && line.cluster == view.cluster
                && (line.name == instance || line.message == format!("machine {instance}"))
        };
        Some(Self {
            kind: view.role.words().to_owned(),
            name: key.name.clone(),
            state: view.state.word().to_owned(),
            message: message(&conditions),
            element: crate::elements::machine_id(key),
            facts: facts(&view, machine, behind),
            stages: bars(behind, &view),
            chain: chain(&view, machine, behind),
            faults: faults(objects, &key.namespace, &view.cluster, &instance),
            conditions,
            journal: records(objects, is_here),
            lane: behind.map(|_| LaneId {
                cluster: view.cluster.clone(),
                name: instance.clone(),
                ..LaneId::alone(key, LaneKind::Machine)
            }),
            copies: copies("machine", "machine", key, behind.map(yaml).or(machine.map(yaml))),
            doable: match behind {
                // A Fault matches instances by the names of their InMemoryMachines.
                Some(_) => Doable::Break {
                    target: match view.role {
                        Role::ControlPlane => Target::ControlPlane,
                        _ => Target::Worker,
                    },
                    matched: instance,
                },
                None => Doable::Nothing,
            },
            ..Self::default()
        })
    }

    /// A cluster. None if it is gone.
    pub(crate) fn cluster(objects: &Objects, key: &Key) -> Option<Self> {
        let cluster = objects
            .clusters
            .iter()
            .find(|cluster| Key::of(&cluster.metadata) == *key)?;
        let around = Surroundings::new(objects);
        let view = crate::cluster_view::ClusterView::new(cluster, &around);
        let behind = crate::cluster_view::infrastructure(cluster, &around);
        let mut conditions = Vec::new();
        conditions.extend(
            cluster
                .status
                .as_ref()
                .map(|status| ("Cluster".to_owned(), status.conditions.clone())),
        );
        conditions.extend(behind.and_then(|behind| {
            Some((
                "InMemoryCluster".to_owned(),
                behind.status.as_ref()?.conditions.clone(),
            ))
        }));
        let balancer = behind
            .and_then(|behind| behind.status.as_ref())
            .and_then(|status| status.load_balancer.clone())
            .unwrap_or_default();
        let backends = balancer.backends.iter().map(|backend| {
            let state = match backend.in_service {
                true => "in service".to_owned(),
                false => backend.reason.clone(),
            };
            vec![
                backend.name.clone(),
                backend.address.clone(),
                state,
                backend.message.clone(),
            ]
        });
        let is_here = |line: &JournalLine| line.namespace == key.namespace && line.cluster == key.name;
        Some(Self {
            kind: "cluster".to_owned(),
            name: key.name.clone(),
            state: view.state().to_owned(),
            message: message(&conditions),
            element: format!("cluster:{key}"),
            facts: stated(vec![
                ("Namespace", key.namespace.clone()),
                ("Endpoint", view.endpoint.clone()),
                ("Version", view.version.clone()),
                ("Zones", view.zones.join(", ")),
            ]),
            faults: faults(objects, &key.namespace, &key.name, ""),
            tables: vec![(
                "Load balancer",
                vec!["Backend", "Address", "State", "Why"],
                backends.collect(),
            )],
            conditions,
            journal: records(objects, is_here),
            lane: Some(LaneId::of_cluster(key)),
            copies: copies("cluster", "cluster", key, Some(yaml(cluster.as_ref()))),
            doable: match behind {
                Some(_) => Doable::Break {
                    target: Target::Cluster,
                    matched: key.name.clone(),
                },
                None => Doable::Nothing,
            },
            ..Self::default()
        })
    }

    /// A `SimulatedCloud`. None if it is gone.
    pub(crate) fn cloud(objects: &Objects, key: &Key) -> Option<Self> {
        let cloud = objects
            .clouds
            .iter()
            .find(|cloud| Key::of(&cloud.metadata) == *key)?;
        let view = crate::reports::CloudView::new(cloud);
        let status = cloud.status.clone().unwrap_or_default();
        let limits = view.limits.iter().map(|limit| {
            vec![
                limit.name.clone(),
                limit.used.to_string(),
                limit.limit.to_string(),
                limit.waiting.to_string(),
            ]
        });
        let costs = status.cost.iter().flat_map(|cost| &cost.clusters).map(|cost| {
            vec![
                cost.name.clone(),
                cost.per_hour.as_str().to_owned(),
                cost.total.as_str().to_owned(),
            ]
        });
        let zones: Vec<_> = cloud.spec.zones().map(|(_, zone)| zone.name.as_str()).collect();
        let is_here = |line: &JournalLine| {
            line.namespace == key.namespace && line.kind == "SimulatedCloud" && line.name == key.name
        };
        let conditions = vec![("SimulatedCloud".to_owned(), status.conditions.clone())];
        Some(Self {
            kind: "cloud".to_owned(),
            name: key.name.clone(),
            state: view.clock(),
            message: message(&conditions),
            element: format!("cloud:{key}"),
            facts: stated(vec![
                ("Namespace", key.namespace.clone()),
                ("Zones", zones.join(", ")),
                ("Seed", cloud.spec.seed.clone()),
            ]),
            conditions,
            tables: vec![
                (
                    "Quotas and stock",
                    vec!["Name", "Used", "Limit", "Waiting"],
                    limits.collect(),
                ),
                ("Cost", vec!["Cluster", "Per hour", "So far"], costs.collect()),
            ],
            journal: records(objects, is_here),
            lane: Some(LaneId::alone(key, LaneKind::Cloud)),
            copies: copies("simulatedcloud", "cloud", key, Some(yaml(cloud.as_ref()))),
            doable: Doable::SetClock {
                is_paused: view.is_paused,
            },
            ..Self::default()
        })
    }

    /// A Fault. None if it is gone.
    pub(crate) fn fault(objects: &Objects, key: &Key) -> Option<Self> {
        let fault = objects
            .faults
            .iter()
            .find(|fault| Key::of(&fault.metadata) == *key)?;
        let status = fault.status.clone().unwrap_or_default();
        let affected = status.affected.iter().map(|hit| {
            let until = hit.until.as_ref().map(|until| clock_time(until.0));
            vec![
                hit.cluster.clone(),
                hit.machine.clone(),
                until.unwrap_or_default(),
            ]
        });
        let hits = status.last_hits.iter().map(|hit| {
            let time = hit.time.as_ref().map(|time| clock_time(time.0));
            let what = [&hit.machine, &hit.claim, &hit.cluster];
            let what = what.into_iter().find(|name| !name.is_empty());
            vec![
                time.unwrap_or_default(),
                hit.operation.clone(),
                what.cloned().unwrap_or_default(),
            ]
        });
        let is_here =
            |line: &JournalLine| line.namespace == key.namespace && line.faults.last() == Some(&key.name);
        let conditions = vec![("Fault".to_owned(), status.conditions.clone())];
        let mut owners = fault.metadata.owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.kind == ClusterFault::kind(&()));
        Some(Self {
            kind: "Fault".to_owned(),
            name: key.name.clone(),
            state: status.phase.clone(),
            message: message(&conditions),
            element: format!("fault:{key}"),
            facts: stated(vec![
                ("Namespace", key.namespace.clone()),
                (
                    "Effect",
                    fault.spec.effect.as_ref().map(effect_name).unwrap_or_default(),
                ),
                (
                    "Made by",
                    owner
                        .map(|owner| format!("ClusterFault {}", owner.name))
                        .unwrap_or_default(),
                ),
                ("Matched", status.matched.unwrap_or_default().to_string()),
                ("Hits", status.hits.unwrap_or_default().to_string()),
            ]),
            conditions,
            tables: vec![
                (
                    "Affected now",
                    vec!["Cluster", "Machine", "Until"],
                    affected.collect(),
                ),
                ("Last hits", vec!["Time", "Operation", "What"], hits.collect()),
            ],
            journal: records(objects, is_here),
            lane: Some(LaneId::alone(key, LaneKind::Fault)),
            copies: copies("fault", "fault", key, Some(yaml(fault.as_ref()))),
            // A ClusterFault would make its Fault again.
            doable: match owner {
                Some(_) => Doable::Nothing,
                None => Doable::Heal,
            },
            ..Self::default()
        })
    }

    /// A Scenario. None if it is gone.
    pub(crate) fn scenario(objects: &Objects, key: &Key) -> Option<Self> {
        let scenario = objects
            .scenarios
            .iter()
            .find(|scenario| Key::of(&scenario.metadata) == *key)?;
        let view = ScenarioView::new(scenario);
        let status = scenario.status.clone().unwrap_or_default();
        let time = |at: Option<MicroTime>| at.map(|at| clock_time(at.0)).unwrap_or_default();
        let prefix = format!("{}-", key.name);
        let is_here = |line: &JournalLine| {
            let fault = line.faults.last();
            line.namespace == key.namespace && fault.is_some_and(|fault| fault.starts_with(&prefix))
        };
        let conditions = vec![("Scenario".to_owned(), status.conditions)];
        Some(Self {
            kind: "Scenario".to_owned(),
            name: key.name.clone(),
            state: view.phase.clone(),
            message: message(&conditions),
            element: format!("scenario:{key}"),
            facts: stated(vec![
                ("Namespace", key.namespace.clone()),
                ("Progress", view.progress()),
                ("Began", time(status.start_time)),
                ("Ended", time(status.finish_time)),
            ]),
            conditions,
            tables: vec![(
                "Steps",
                vec!["Step", "Action", "Phase", "Took", "Seen"],
                scenario_view::rows(scenario),
            )],
            journal: records(objects, is_here),
            copies: copies("scenario", "scenario", key, Some(yaml(scenario.as_ref()))),
            doable: Doable::Direct {
                has_ended: scenario_view::has_ended(scenario),
            },
            ..Self::default()
        })
    }
}

fn facts(
    view: &MachineView,
    machine: Option<&Machine>,
    behind: Option<&InMemoryMachine>,
) -> Vec<(&'static str, String)> {
    let addresses = behind
        .and_then(|behind| behind.status.as_ref())
        .map(|status| status.addresses.as_slice())
        .unwrap_or_default();
    let of = |kind: &str| {
        let found = addresses.iter().filter(|address| address.kind == kind);
        found
            .map(|address| address.address.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    stated(vec![
        ("Cluster", format!("{}/{}", view.key.namespace, view.cluster)),
        ("Zone", view.zone.clone()),
        (
            "Instance type",
            behind
                .map(|behind| behind.spec.instance_type.clone())
                .unwrap_or_default(),
        ),
        (
            "Market",
            if view.is_spot {
                "Spot".to_owned()
            } else {
                String::new()
            },
        ),
        (
            "Version",
            machine
                .map(|machine| machine.spec.version.clone())
                .unwrap_or_default(),
        ),
        ("Internal address", of("InternalIP")),
        ("External address", of("ExternalIP")),
        ("Host name", of("Hostname")),
    ])
}

/// The facts that are known.
fn stated(facts: Vec<(&'static str, String)>) -> Vec<(&'static str, String)> {
    facts.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// Why the object is not ready: the message of the first condition Ready or Available that does not hold.
fn message(conditions: &[(String, Vec<Condition>)]) -> String {
    let all = conditions.iter().rev().flat_map(|(_, list)| list);
    let mut unmet = all.filter(|condition| {
        matches!(condition.type_.as_str(), "Ready" | "Available") && condition.status != "True"
    });
    unmet
        .next()
        .map(|condition| condition.message.clone())
        .unwrap_or_default()
}

/// The stages of the instance: the first one begins with it, the node when the virtual machine is up, the others when the
/// node is.
fn bars(behind: Option<&InMemoryMachine>, view: &MachineView) -> Vec<StageBar> {
    let Some(behind) = behind else { return Vec::new() };
    let behaviour = behind.spec.behaviour.clone().unwrap_or_default();
    let parts = [behaviour.vm, behaviour.node, behaviour.etcd, behaviour.api_server];
    let origin = behind.origin();
    let reached = origin.as_ref().map(|origin| &origin.reached);
    let start = behind
        .status
        .as_ref()
        .and_then(|status| status.start_time.as_ref())
        .map(|time| time.0);
    // The names of parts in `spec.behaviour`, which the record has.
    let names = ["vm", "node", "etcd", "apiServer"];
    let mut ends = [None::<i64>; 4];
    let mut bars = Vec::new();
    for (number, part) in parts.into_iter().enumerate() {
        let Some(stage) = view.stages[number] else {
            continue;
        };
        let at = reached
            .and_then(|reached| reached.get(names[number]))
            .map(|time| time.0);
        let since = |at: Timestamp| Some(at.as_millisecond() - start?.as_millisecond());
        let begin = match number {
            0 => Some(0),
            1 => ends[0],
            _ => ends[1],
        };
        ends[number] = at.and_then(since);
        let planned = part.map(|part| part.provisioning).unwrap_or_default();
        let (least, most) = bounds(&planned);
        let took = ends[number].zip(begin).map(|(end, begin)| (end - begin).max(0));
        bars.push(StageBar {
            name: STAGES[number].0,
            state: stage_word(Some(stage)),
            planned: in_words(&planned),
            actual: match (stage, took, at) {
                (Stage::Up, Some(took), _) => format!("{} s", seconds(took)),
                (Stage::Up, None, Some(at)) => clock_time(at),
                (stage, _, _) => stage_word(Some(stage)).to_owned(),
            },
            begin: begin.unwrap_or_default(),
            least,
            most,
            took,
        });
    }
    bars
}

/// The least and the most time of a stage, in milliseconds.
fn bounds(planned: &Provisioning) -> (i64, i64) {
    let least = planned
        .startup_duration
        .as_ref()
        .map_or(0, |duration| {
            i64::try_from(duration.get().as_millis()).unwrap_or(i64::MAX / 4)
        })
        .min(i64::MAX / 4);
    let jitter = planned.startup_jitter.as_ref().map_or(0.0, Fraction::get);
    (least, least + (least as f64 * jitter) as i64)
}

fn in_words(planned: &Provisioning) -> String {
    let Some(duration) = &planned.startup_duration else {
        return "the cloud's latency".to_owned();
    };
    match &planned.startup_jitter {
        Some(jitter) if jitter.get() > 0.0 => {
            format!("{} + up to {:.0} %", duration.as_str(), jitter.get() * 100.0)
        }
        _ => duration.as_str().to_owned(),
    }
}

fn seconds(milliseconds: i64) -> String {
    format!("{:.2}", milliseconds as f64 / 1000.0)
}

fn chain(view: &MachineView, machine: Option<&Machine>, behind: Option<&InMemoryMachine>) -> Vec<Link> {
    let link = |kind: &str, name: &str, href| Link {
        kind: kind.to_owned(),
        name: name.to_owned(),
        is_there: !name.is_empty(),
        href,
    };
    let cluster = Key::new(&view.key.namespace, &view.cluster);
    let mut chain = vec![link("Cluster", &view.cluster, Some(path("cluster", &cluster)))];
    let deployment = machine.and_then(|machine| labels::value(&machine.metadata, labels::DEPLOYMENT_NAME));
    chain.extend(deployment.map(|name| link("MachineDeployment", name, None)));
    let owners = machine.and_then(|machine| machine.metadata.owner_references.as_ref());
    let owner = owners
        .into_iter()
        .flatten()
        .find(|owner| owner.kind != "Cluster" && owner.kind != "Machine");
    chain.extend(owner.map(|owner| link(&owner.kind, &owner.name, None)));
    let name = |metadata: &ObjectMeta| metadata.name.clone().unwrap_or_default();
    chain.push(link(
        "Machine",
        &machine.map(|machine| name(&machine.metadata)).unwrap_or_default(),
        None,
    ));
    chain.push(link(
        "InMemoryMachine",
        &behind.map(|behind| name(&behind.metadata)).unwrap_or_default(),
        None,
    ));
    let instance = behind.map(|behind| behind.spec.provider_id.as_str());
    chain.push(link("Instance", instance.unwrap_or_default(), None));
    let node = machine
        .and_then(|machine| machine.status.as_ref())
        .and_then(|status| status.node_ref.as_ref());
    chain.push(link("Node", node.map_or("", |node| &node.name), None));
    chain
}

/// The Faults that affect a machine or cluster, and those whose last hits it is among.
fn faults(
    objects: &Objects,
    namespace: &str,
    cluster: &str,
    machine: &str,
) -> Vec<(String, String, &'static str)> {
    let in_namespace =
        |fault: &&std::sync::Arc<Fault>| fault.metadata.namespace.as_deref() == Some(namespace);
    let found = objects.faults.iter().filter(in_namespace).filter_map(|fault| {
        let status = fault.status.as_ref()?;
        let affects = status
            .affected
            .iter()
            .any(|hit| hit.cluster == cluster && hit.machine == machine);
        let hit = status
            .last_hits
            .iter()
            .any(|hit| hit.cluster == cluster && hit.machine == machine);
        let how = match (affects, hit) {
            (true, _) => "affects it now",
            (false, true) => "hit it",
            (false, false) => return None,
        };
        let effect = fault.spec.effect.as_ref().map(effect_name).unwrap_or_default();
        Some((fault.metadata.name.clone()?, effect, how))
    });
    found.collect()
}

fn records(objects: &Objects, is_wanted: impl Fn(&JournalLine) -> bool) -> Vec<JournalLine> {
    let lines = objects.journal.iter().rev().filter(|line| is_wanted(line));
    lines.take(RECORDS_MAX).map(|line| (**line).clone()).collect()
}

fn copies(resource: &str, ours: &str, key: &Key, yaml: Option<String>) -> Vec<(&'static str, String)> {
    let Key { namespace, name } = key;
    let mut copies = vec![
        (
            "kubectl",
            format!("kubectl get {resource} --namespace {namespace} {name} --output yaml"),
        ),
        (
            "nephele",
            format!("nephele describe {ours} --namespace {namespace} {name}"),
        ),
    ];
    copies.extend(yaml.map(|yaml| ("YAML", yaml)));
    copies
}

/// What a user would apply to get such an object: without its status and without what others have written.
pub(crate) fn yaml<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> String {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Some(object) = value.as_object_mut() {
        object.remove("status");
        object.insert("apiVersion".to_owned(), K::api_version(&()).into());
        object.insert("kind".to_owned(), K::kind(&()).into());
    }
    if let Some(spec) = value["spec"].as_object_mut() {
        for of_provider in ["instance", "origin", "providerID"] {
            spec.remove(of_provider);
        }
    }
    let mut metadata = serde_json::Map::new();
    for name in ["name", "namespace", "labels", "annotations"] {
        if let Some(mut found) = value["metadata"].get(name).cloned() {
            if let Some(annotations) = found.as_object_mut() {
                annotations.remove(LAST_APPLIED_ANNOTATION);
            }
            metadata.insert(name.to_owned(), found);
        }
    }
    value["metadata"] = Value::Object(metadata);
    nephele_yaml::write(&value)
}

#[cfg(test)]
mod tests;
