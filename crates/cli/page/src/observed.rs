//! What the screen Observed shows, as plain values: what is in the cloud, what Cluster API sees of it, and why the two differ.
//! Pure.
//!
//! ```text
//!  journal ──▶ the state in the cloud ──┐
//!  Machines, Clusters ──▶ what is seen ─┼─▶ rows, those that differ first
//!  Faults, conditions ──▶ why ──────────┘
//! ```

use std::collections::{BTreeMap, HashMap};

use nephele_api::{
    conditions::{self, find, types},
    core::Machine,
};
use nephele_cloud::JournalLine;

use crate::{
    cluster_view::ClusterView,
    effect::effect_name,
    elements::path,
    machine_view::{MachineView, NODE_READY, Seen, State},
    objects::{Key, Objects},
    reports::Leak,
    stages::Stage,
    surroundings::Surroundings,
    time_of_day::clock_time,
    timeline::{
        self,
        lane::{LaneId, LaneKind},
    },
};

/// The most rows of each of the two tables.
const ROWS_MAX: usize = 300;
/// What a row is that is no machine.
const BALANCER: &str = "load balancer";
const LEAK: &str = "leak";

/// Everything on the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) differing: Vec<Row>,
    pub(crate) differing_left_out: usize,
    pub(crate) agreeing: Vec<Row>,
    pub(crate) agreeing_left_out: usize,
    /// Whether the journal is known. Without it the cloud's own state is not.
    pub(crate) has_journal: bool,
}

/// A machine, a load balancer, or something that leaked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    /// What it is, such as "worker".
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    /// Where the page shows it.
    pub(crate) href: Option<String>,
    pub(crate) cloud: String,
    pub(crate) seen: String,
    pub(crate) causes: Vec<Cause>,
}

/// Why a row differs, or what else is to be known of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) says: String,
    /// Where the page shows the Fault.
    pub(crate) href: Option<String>,
}

impl Observed {
    /// What is observed in a namespace, or in all.
    pub(crate) fn new(objects: &Objects, namespace: Option<&str>) -> Self {
        let around = Surroundings::new(objects);
        let truth = Truth::new(&around);
        let is_wanted = |key: &Key| namespace.is_none_or(|wanted| wanted == key.namespace);
        let mut observed = Self {
            has_journal: !objects.journal.is_empty(),
            ..Self::default()
        };
        let mut add = |(row, differs): (Row, bool)| match differs {
            true => observed.differing.push(row),
            false => observed.agreeing.push(row),
        };
        for cluster in objects
            .clusters
            .iter()
            .filter(|cluster| is_wanted(&Key::of(&cluster.metadata)))
        {
            let key = Key::of(&cluster.metadata);
            let view = ClusterView::new(cluster, &around);
            if crate::cluster_view::infrastructure(cluster, &around).is_some() {
                add(balancer(&key, &view, &truth, namespace));
            }
        }
        for seen in Seen::all(&around).into_iter().filter(|seen| is_wanted(&seen.key)) {
            let instance = seen.instance().unwrap_or_default().to_owned();
            let machine = seen.machine();
            add(of_machine(&seen.view(), machine, &instance, &truth, namespace));
        }
        let of_clouds = objects
            .clouds
            .iter()
            .flat_map(|cloud| leaks(&Key::of(&cloud.metadata), Leak::of_cloud(cloud)));
        let of_faults = objects
            .faults
            .iter()
            .flat_map(|fault| leaks(&Key::of(&fault.metadata), Leak::of_fault(fault)));
        for (key, leak) in of_clouds.chain(of_faults) {
            if is_wanted(&key) {
                add((leaked(&key, &leak, namespace), true));
            }
        }
        observed.differing_left_out = in_order(&mut observed.differing);
        observed.agreeing_left_out = in_order(&mut observed.agreeing);
        observed
    }
}

/// Sorts rows, so that each stays where it is while others change: load balancers, machines, and what leaked. Leaves out what is
/// beyond the most rows, and returns how many these are.
fn in_order(rows: &mut Vec<Row>) -> usize {
    rows.sort_by(|one, other| {
        let place = |row: &Row| (row.kind != BALANCER, row.kind == LEAK);
        (place(one), &one.name).cmp(&(place(other), &other.name))
    });
    let left_out = rows.len().saturating_sub(ROWS_MAX);
    rows.truncate(ROWS_MAX);
    left_out
}

fn leaks(key: &Key, leaks: Vec<(String, Leak)>) -> Vec<(Key, Leak)> {
    leaks.into_iter().map(|(_, leak)| (key.clone(), leak)).collect()
}

/// What the journal and the Faults tell of the cloud.
struct Truth<'a> {
    states: BTreeMap<LaneId, Option<&'static str>>,
    /// The last operation on each machine and load balancer, if it was refused.
    refused: BTreeMap<LaneId, &'a JournalLine>,
    /// The effects of Faults by namespace and name, and until when each affects what.
    effects: HashMap<Key, String>,
    until: HashMap<(Key, &'a str, &'a str), String>,
}

impl<'a> Truth<'a> {
    fn new(around: &Surroundings<'a>) -> Self {
        let objects = around.objects;
        let mut refused = BTreeMap::new();
        for line in objects.journal.iter().filter(|line| !line.operation.is_empty()) {
            let Some(id) = LaneId::of_record(line) else {
                continue;
            };
            match is_refusal(line) {
                true => drop(refused.insert(id, &**line)),
                false => drop(refused.remove(&id)),
            }
        }
        let mut effects = HashMap::new();
        let mut until = HashMap::new();
        for fault in &objects.faults {
            let key = Key::of(&fault.metadata);
            let affected = fault.status.iter().flat_map(|status| &status.affected);
            for hit in affected {
                if let Some(end) = &hit.until {
                    let place = (key.clone(), hit.cluster.as_str(), hit.machine.as_str());
                    until.insert(place, clock_time(end.0));
                }
            }
            let effect = fault.spec.effect.as_ref().map(effect_name);
            effects.insert(key, effect.unwrap_or_default());
        }
        Self {
            states: timeline::states(around),
            refused,
            effects,
            until,
        }
    }

    /// The Faults that affect something, in words.
    fn affected(&self, namespace: &str, cluster: &str, machine: &str, faults: &[String]) -> Vec<Cause> {
        let cause = |fault: &String| {
            let key = Key::new(namespace, fault);
            let effect = self.effects.get(&key).map(String::as_str).unwrap_or_default();
            let until = self.until.get(&(key.clone(), cluster, machine));
            let until = until.map(|until| format!(" until {until}")).unwrap_or_default();
            Cause {
                says: format!("Fault {fault}: {effect}{until}"),
                href: Some(path("fault", &key)),
            }
        };
        faults.iter().map(cause).collect()
    }

    /// The last operation, if the cloud refused it.
    fn refusal(&self, id: &LaneId) -> Option<Cause> {
        let line = self.refused.get(id)?;
        let fault = line.faults.last().filter(|_| line.hit);
        let by = fault
            .map(|fault| format!(", by Fault {fault}"))
            .unwrap_or_default();
        Some(Cause {
            says: format!("The cloud answered {} with {}{by}", line.operation, line.outcome),
            href: fault.map(|fault| path("fault", &Key::new(&line.namespace, fault))),
        })
    }
}

/// Whether the cloud refused an operation, or left it without an answer.
fn is_refusal(line: &JournalLine) -> bool {
    !matches!(line.outcome.as_str(), "Accepted" | "AlreadyDone")
}

/// The name of something on a page of one namespace, or of all.
fn named(key: &Key, namespace: Option<&str>) -> String {
    match namespace {
        Some(_) => key.name.clone(),
        None => key.to_string(),
    }
}

fn of_machine(
    view: &MachineView,
    machine: Option<&Machine>,
    instance: &str,
    truth: &Truth<'_>,
    namespace: Option<&str>,
) -> (Row, bool) {
    let id = LaneId {
        namespace: view.key.namespace.clone(),
        cluster: view.cluster.clone(),
        kind: LaneKind::Machine,
        name: instance.to_owned(),
    };
    let state = truth.states.get(&id).copied().flatten();
    let differs = differs(state, view, machine);
    let mut causes = truth.affected(&view.key.namespace, &view.cluster, instance, &view.faults);
    causes.extend(truth.refusal(&id));
    if !view.reason.is_empty() && causes.is_empty() {
        let message = match view.message.is_empty() {
            true => String::new(),
            false => format!(": {}", view.message),
        };
        causes.push(Cause {
            says: format!("{}{message}", view.reason),
            href: None,
        });
    }
    if differs && causes.is_empty() {
        causes.push(Cause {
            says: "Cluster API has not looked since".to_owned(),
            href: None,
        });
    }
    let row = Row {
        kind: view.role.words(),
        name: named(&view.key, namespace),
        href: Some(path("machine", &view.key)),
        cloud: match state {
            None => "no instance".to_owned(),
            Some(state) => format!("instance {state}"),
        },
        seen: seen(view, machine),
        causes,
    };
    (row, differs)
}

/// Whether Cluster API sees something else than what is in the cloud.
fn differs(state: Option<&str>, view: &MachineView, machine: Option<&Machine>) -> bool {
    let Some(machine) = machine else {
        // A machine that no Cluster API machine stands for.
        return view.state != State::Running;
    };
    let phase = machine
        .status
        .as_ref()
        .map(|status| status.phase.as_str())
        .unwrap_or_default();
    let is_going = machine.metadata.deletion_timestamp.is_some();
    match state {
        None => !is_going && !matches!(phase, "" | "Pending" | "Provisioning"),
        Some("deleting" | "leaked") => !is_going,
        Some("failed") => view.state != State::Failed,
        Some("running") if is_going => true,
        Some("running") => view.state != State::Running && !view.stages.contains(&Some(Stage::Starting)),
        Some(_) => phase == "Running",
    }
}

/// What Cluster API says of a machine.
fn seen(view: &MachineView, machine: Option<&Machine>) -> String {
    let Some(machine) = machine else {
        return "no Machine".to_owned();
    };
    let status = machine.status.as_ref();
    let mut seen = match status.map(|status| status.phase.as_str()) {
        None | Some("") => "Machine Pending".to_owned(),
        Some(phase) => format!("Machine {phase}"),
    };
    let node = status.and_then(|status| find(&status.conditions, NODE_READY));
    match node.map(|node| (node.status.as_str(), node.reason.as_str())) {
        Some((conditions::TRUE, _)) => seen += ", Node ready",
        // Before it has a Node there is nothing to say of it.
        Some((_, reason)) if view.state == State::NotReady => seen += &format!(", Node not ready ({reason})"),
        _ => {}
    }
    let deleting = status.and_then(|status| find(&status.conditions, types::DELETING));
    match deleting.filter(|deleting| deleting.status == conditions::TRUE) {
        Some(deleting) if !deleting.reason.is_empty() => seen += &format!(", {}", deleting.reason),
        _ => {}
    }
    seen
}

/// The load balancer of a cluster.
fn balancer(key: &Key, view: &ClusterView, truth: &Truth<'_>, namespace: Option<&str>) -> (Row, bool) {
    let id = LaneId::of_cluster(key);
    let state = truth.states.get(&id).copied().flatten();
    let mut causes = truth.affected(&key.namespace, &key.name, "", &view.faults);
    causes.extend(truth.refusal(&id));
    let serves = view.in_service > 0;
    let is_reached = view.is_control_plane_available;
    let differs = serves != is_reached && (is_reached || view.phase == "Provisioned");
    if differs && causes.is_empty() && !view.message.is_empty() {
        causes.push(Cause {
            says: view.message.clone(),
            href: None,
        });
    }
    let row = Row {
        kind: BALANCER,
        name: named(key, namespace),
        href: Some(path("cluster", key)),
        cloud: match state {
            None => "no load balancer".to_owned(),
            Some(_) => format!("{} of {} backends in service", view.in_service, view.backends),
        },
        seen: match (view.is_available, is_reached) {
            (false, true) => "Control plane Available".to_owned(),
            _ => format!("Cluster {}", view.state()),
        },
        causes,
    };
    (row, differs)
}

/// What leaked: Cluster API sees nothing of it.
fn leaked(key: &Key, leak: &Leak, namespace: Option<&str>) -> Row {
    let fault = (!leak.fault.is_empty()).then(|| Key::new(&key.namespace, &leak.fault));
    Row {
        kind: LEAK,
        name: match namespace {
            Some(_) => leak.what.clone(),
            None => format!("{}: {}", key.namespace, leak.what),
        },
        href: None,
        cloud: format!("exists, {}", leak.place),
        seen: "nothing".to_owned(),
        causes: fault
            .map(|fault| Cause {
                says: format!("Fault {}: leak", fault.name),
                href: Some(path("fault", &fault)),
            })
            .into_iter()
            .collect(),
    }
}

#[cfg(test)]
mod tests;
