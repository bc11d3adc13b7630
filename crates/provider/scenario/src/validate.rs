//! The script of a spec. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{GroupVersionKind, Selector};
use nephele_api::{
    cloud,
    cloud::v1alpha1::{
        Apply, CLOCK_STEPS_MAX, ClockChange, Delete, Expectation, FaultStep, Heal, MACHINE_PHASES,
        MachineCount, Never, ObjectField, Scale, ScenarioSpec, StepAction, Upgrade,
    },
    core, infrastructure, ipam,
    names::{is_dns_label, is_dns_subdomain, shown},
};
use nephele_model::ClockRate;
use serde_json::Value;

use crate::{
    expand::{FlatStep, TEXTS_MAX, expanded, too_many_texts, written_bytes},
    manifests,
    mistake::{Valid, mistake},
    script::{self, Action, Change, Part, Script, Sight, Step, Wanted},
};

/// The group of control plane providers.
const CONTROL_PLANE_GROUP: &str = "controlplane.cluster.x-k8s.io";
/// The groups whose objects steps can read and change. There are no Secrets and no roles among them.
pub const GROUPS: [&str; 6] = [
    core::GROUP,
    "bootstrap.cluster.x-k8s.io",
    CONTROL_PLANE_GROUP,
    infrastructure::GROUP,
    ipam::GROUP,
    cloud::GROUP,
];
/// The version of Cluster API's kinds.
const CORE_VERSION: &str = "v1beta2";
/// The longest name of an object.
const NAME_MAX: usize = 253;
/// The longest name of a Fault in the spec.
const LABEL_MAX: usize = 63;

/// The script of a scenario of this name. The schema refuses most mistakes; the rest, and those of objects that got past the
/// schema, are found here, but for those in manifests.
pub(crate) fn validate(name: &str, spec: &ScenarioSpec) -> Valid<Script> {
    let list = expanded(spec)?;
    let mut reader = Reader {
        scenario: name,
        steps: Vec::with_capacity(list.len()),
        earlier: Vec::with_capacity(list.len()),
        faults: BTreeMap::new(),
        left: TEXTS_MAX,
    };
    for step in list {
        reader.read(step)?;
    }
    Ok(Script { steps: reader.steps })
}

/// Finds the mistakes in the manifests of a step. They take a millisecond for each 10 KiB or so, so those of a Scenario are
/// checked on a thread of their own.
pub(crate) fn check_manifests(namespace: &str, step: &Step) -> Valid<()> {
    let Action::Change(Change::Apply { field, manifests }) = &step.action else {
        return Ok(());
    };
    let read = manifests::read(manifests, namespace, readable);
    read.map(drop).map_err(|message| mistake(field, message))
}

struct Reader<'a> {
    scenario: &'a str,
    steps: Vec<Step>,
    /// For each step, the indices of those that have passed before it begins.
    earlier: Vec<BTreeSet<usize>>,
    /// The names of the Faults so far, as in the spec, and the indices of their steps.
    faults: BTreeMap<String, usize>,
    /// How many bytes the texts of the other steps may have.
    left: usize,
}

impl Reader<'_> {
    fn read(&mut self, step: FlatStep) -> Valid<()> {
        let earlier = step
            .after
            .iter()
            .flat_map(|index| self.earlier[*index].iter().chain([index]));
        self.earlier.push(earlier.copied().collect());
        // Variables may have made texts longer.
        let bytes = written_bytes(&step.action);
        self.left = self.left.checked_sub(bytes).ok_or_else(too_many_texts)?;
        let action = self.action(&step)?;
        self.steps.push(Step {
            name: step.name,
            after: step.after,
            action,
        });
        Ok(())
    }

    fn action(&mut self, step: &FlatStep) -> Valid<Action> {
        let field = step.field.as_str();
        let StepAction {
            wait,
            expect,
            never,
            fault,
            heal,
            clock,
            scale,
            upgrade,
            apply,
            delete,
            pause,
            say,
        } = &step.action;
        let mut actions = Vec::new();
        if let Some(wait) = wait {
            actions.push(expectation(&format!("{field}.wait"), wait)?);
        }
        if let Some(expect) = expect {
            actions.push(expectation(&format!("{field}.expect"), expect)?);
        }
        if let Some(never) = never {
            actions.push(absence(&format!("{field}.never"), never)?);
        }
        if let Some(fault) = fault {
            actions.push(self.fault(&format!("{field}.fault"), step.is_repeated, fault)?);
        }
        if let Some(heal) = heal {
            actions.push(self.heal(&format!("{field}.heal"), heal)?);
        }
        if let Some(clock) = clock {
            actions.push(Action::Clock(clock_change(&format!("{field}.clock"), clock)?));
        }
        if let Some(scale) = scale {
            actions.push(Action::Change(scaled(&format!("{field}.scale"), scale)?));
        }
        if let Some(Upgrade { cluster, version }) = upgrade {
            let cluster = object_name(&format!("{field}.upgrade.cluster"), cluster)?;
            let version = version.clone();
            actions.push(Action::Change(Change::Version { cluster, version }));
        }
        if let Some(Apply { manifests }) = apply {
            let field = format!("{field}.apply.manifests");
            let manifests = manifests.clone();
            actions.push(Action::Change(Change::Apply { field, manifests }));
        }
        if let Some(delete) = delete {
            actions.push(Action::Change(deleted(&format!("{field}.delete"), delete)?));
        }
        if !pause.is_empty() {
            actions.push(Action::Pause(duration(&format!("{field}.pause"), pause)?));
        }
        if !say.is_empty() {
            actions.push(Action::Say(say.clone()));
        }
        match (actions.pop(), actions.len()) {
            (Some(action), 0) => Ok(action),
            (None, _) => Err(mistake(field, "must have an action, such as wait or fault")),
            (Some(_), others) => Err(mistake(
                field,
                format!(
                    "must have one action and not {}; make steps of them",
                    others.saturating_add(1)
                ),
            )),
        }
    }

    /// The name of the object of a Fault.
    fn fault_name(&self, name: &str) -> String {
        format!("{}-{name}", self.scenario)
    }

    fn fault(&mut self, field: &str, is_repeated: bool, step: &FaultStep) -> Valid<Action> {
        let FaultStep { name, spec, lasts } = step;
        let field_of_name = format!("{field}.name");
        let object = self.fault_name(name);
        if !is_label(name) {
            let message = format!("{name:?} must be 1 to 63 of a-z, 0-9 and -, with no - at its ends");
            return Err(mistake(field_of_name, message));
        }
        if object.len() > NAME_MAX {
            let message = format!("makes the name {object:?}, which is longer than {NAME_MAX} characters");
            return Err(mistake(field_of_name, message));
        }
        if self.faults.insert(name.clone(), self.steps.len()).is_some() {
            let hint = if is_repeated {
                "; $(index) in it is the number of the round"
            } else {
                ""
            };
            let message =
                format!("{name:?} must be another name; an earlier step has a Fault of this one{hint}");
            return Err(mistake(field_of_name, message));
        }
        let lasts = (!lasts.is_empty())
            .then(|| duration(&format!("{field}.for"), lasts))
            .transpose()?;
        Ok(Action::Fault {
            name: object,
            spec: Box::new(spec.clone()),
            lasts,
        })
    }

    fn heal(&self, field: &str, Heal { fault }: &Heal) -> Valid<Action> {
        let earlier = &self.earlier[self.steps.len()];
        if !self
            .faults
            .get(fault)
            .is_some_and(|index| earlier.contains(index))
        {
            let message = format!("{fault:?} must be the name of a Fault of an earlier step");
            return Err(mistake(format!("{field}.fault"), message));
        }
        Ok(Action::Heal {
            fault: self.fault_name(fault),
        })
    }
}

/// Whether a text is the name of a part of an object's name.
fn is_label(text: &str) -> bool {
    let is_end = |end: Option<char>| end.is_some_and(|end| end.is_ascii_lowercase() || end.is_ascii_digit());
    let is_inner = |inner: char| inner.is_ascii_lowercase() || inner.is_ascii_digit() || inner == '-';
    text.len() <= LABEL_MAX
        && is_end(text.chars().next())
        && is_end(text.chars().last())
        && text.chars().all(is_inner)
}

fn clock_change(field: &str, change: &ClockChange) -> Valid<script::ClockChange> {
    let ClockChange {
        cloud,
        rate,
        paused,
        step,
        jump,
    } = change;
    let cloud = object_name(&format!("{field}.cloud"), cloud)?;
    if rate.is_empty() && paused.is_none() && step.is_none() && jump.is_empty() {
        return Err(mistake(field, "must have one of rate, paused, step and jump"));
    }
    let wrong = |error| mistake(format!("{field}.rate"), format!("{rate:?} {error}"));
    let rate = (!rate.is_empty())
        .then(|| ClockRate::parse(rate).map_err(wrong))
        .transpose()?;
    if let Some(step) = step.filter(|step| !(1..=CLOCK_STEPS_MAX).contains(step)) {
        return Err(mistake(
            format!("{field}.step"),
            format!("{step} must be 1 to {CLOCK_STEPS_MAX}"),
        ));
    }
    let jump = (!jump.is_empty())
        .then(|| duration(&format!("{field}.jump"), jump))
        .transpose()?;
    Ok(script::ClockChange {
        cloud,
        rate,
        paused: *paused,
        step: *step,
        jump,
    })
}

fn expectation(field: &str, wanted: &Expectation) -> Valid<Action> {
    let Expectation {
        cluster,
        condition,
        status,
        machines,
        object,
        within,
    } = wanted;
    let sight = sight(
        field,
        [cluster, condition, status],
        machines.as_ref(),
        object.as_ref(),
    )?;
    Ok(Action::Expect {
        sight,
        within: duration(&format!("{field}.within"), within)?,
    })
}

fn absence(field: &str, unwanted: &Never) -> Valid<Action> {
    let Never {
        cluster,
        condition,
        status,
        machines,
        object,
        during,
    } = unwanted;
    let sight = sight(
        field,
        [cluster, condition, status],
        machines.as_ref(),
        object.as_ref(),
    )?;
    Ok(Action::Never {
        sight,
        during: duration(&format!("{field}.during"), during)?,
    })
}

fn sight(
    field: &str,
    [cluster, condition, status]: [&String; 3],
    machines: Option<&MachineCount>,
    object: Option<&ObjectField>,
) -> Valid<Sight> {
    match (cluster.as_str(), machines, object) {
        ("", Some(machines), None) => counted(&format!("{field}.machines"), machines),
        ("", None, Some(object)) => of_object(&format!("{field}.object"), object),
        ("", None, None) | (_, Some(_), _) | (_, _, Some(_)) => {
            Err(mistake(field, "must have one of cluster, machines and object"))
        }
        (_, None, None) if condition.is_empty() => Err(mistake(
            format!("{field}.condition"),
            "must be a condition of the Cluster, such as Available",
        )),
        (name, None, None) => {
            let status = if status.is_empty() {
                "True"
            } else {
                status.as_str()
            };
            let name = object_name(&format!("{field}.cluster"), name)?;
            Ok(Sight::Cluster {
                name,
                condition: condition.clone(),
                status: status.into(),
            })
        }
    }
}

fn counted(field: &str, machines: &MachineCount) -> Valid<Sight> {
    let MachineCount {
        cluster,
        selector,
        phase,
        count,
        at_least,
        at_most,
    } = machines;
    let number = |name: &str, value: i32| {
        usize::try_from(value)
            .map_err(|_| mistake(format!("{field}.{name}"), format!("{value} must be 0 or more")))
    };
    let wanted = match (*count, *at_least, *at_most) {
        (Some(count), None, None) => Wanted::Exactly(number("count", count)?),
        (None, Some(least), None) => Wanted::AtLeast(number("atLeast", least)?),
        (None, None, Some(most)) => Wanted::AtMost(number("atMost", most)?),
        _ => return Err(mistake(field, "must have one of count, atLeast and atMost")),
    };
    if !phase.is_empty() && !MACHINE_PHASES.contains(&phase.as_str()) {
        let message = format!("{phase:?} must be one of {}", MACHINE_PHASES.join(", "));
        return Err(mistake(format!("{field}.phase"), message));
    }
    let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let selector = labels(&format!("{field}.selector"), selector.as_ref())?;
    Ok(Sight::Machines {
        cluster: given(cluster),
        selector,
        phase: given(phase),
        wanted,
    })
}

fn labels(field: &str, value: Option<&Value>) -> Valid<Selector> {
    let Some(value) = value else {
        return Ok(Selector::default());
    };
    let read: LabelSelector = serde_json::from_value(value.clone())
        .map_err(|error| mistake(field, format!("must be a label selector: {error}")))?;
    Selector::try_from(read).map_err(|error| mistake(field, error.to_string()))
}

fn of_object(field: &str, object: &ObjectField) -> Valid<Sight> {
    let ObjectField {
        api_version,
        kind,
        name,
        field: path,
        value,
    } = object;
    let kind =
        readable(api_version, kind).map_err(|message| mistake(format!("{field}.apiVersion"), message))?;
    if path.is_empty() {
        return Err(mistake(field, "must have name and field"));
    }
    let name = object_name(&format!("{field}.name"), name)?;
    Ok(Sight::Field {
        kind,
        name,
        field: path.clone(),
        value: value.clone(),
    })
}

fn deleted(
    field: &str,
    Delete {
        api_version,
        kind,
        name,
    }: &Delete,
) -> Valid<Change> {
    let kind =
        readable(api_version, kind).map_err(|message| mistake(format!("{field}.apiVersion"), message))?;
    Ok(Change::Delete {
        kind,
        name: object_name(&format!("{field}.name"), name)?,
    })
}

/// The name of an object, which becomes a part of a path. Schemas see it before its variables are replaced.
fn object_name(field: &str, name: &str) -> Valid<String> {
    if is_dns_subdomain(name) {
        return Ok(name.to_owned());
    }
    let shown = shown(name);
    Err(mistake(
        field,
        format!("{shown:?} must be a name: 1 to {NAME_MAX} of a-z, 0-9, - and ."),
    ))
}

/// A kind that a step can read and change, or why it cannot.
pub(crate) fn readable(api_version: &str, kind: &str) -> Result<GroupVersionKind, String> {
    let parts = api_version
        .split_once('/')
        .filter(|(group, _)| GROUPS.contains(group));
    let Some((group, version)) = parts.filter(|_| !kind.is_empty()) else {
        let groups = GROUPS.join(", ");
        let api_version = shown(api_version);
        let kind = shown(kind);
        return Err(format!(
            "{api_version:?} with kind {kind:?} must be of one of the groups {groups}"
        ));
    };
    if !is_dns_label(version) {
        let api_version = shown(api_version);
        return Err(format!(
            "{api_version:?} must have a version after the group, such as {CORE_VERSION}"
        ));
    }
    if (group, kind) == (cloud::GROUP, "Scenario") {
        return Err("a scenario must not act on a Scenario".to_owned());
    }
    Ok(GroupVersionKind::gvk(group, version, kind))
}

fn scaled(field: &str, scale: &Scale) -> Valid<Change> {
    let Scale {
        kind,
        name,
        machine_deployment,
        machine_pool,
        replicas,
    } = scale;
    if *replicas < 0 {
        return Err(mistake(
            format!("{field}.replicas"),
            format!("{replicas} must be 0 or more"),
        ));
    }
    let name = object_name(&format!("{field}.name"), name)?;
    let replicas = *replicas;
    let group = if kind == "KubeadmControlPlane" {
        CONTROL_PLANE_GROUP
    } else {
        core::GROUP
    };
    match (kind.as_str(), machine_deployment.as_str(), machine_pool.as_str()) {
        ("Cluster", deployment, pool) => {
            let part = match (deployment, pool) {
                ("", "") => Part::ControlPlane,
                (deployment, "") => Part::MachineDeployment(deployment.to_owned()),
                ("", pool) => Part::MachinePool(pool.to_owned()),
                _ => {
                    return Err(mistake(
                        field,
                        "must not have both machineDeployment and machinePool",
                    ));
                }
            };
            Ok(Change::TopologyReplicas {
                cluster: name,
                part,
                replicas,
            })
        }
        ("MachineDeployment" | "MachinePool" | "KubeadmControlPlane", "", "") => {
            let kind = GroupVersionKind::gvk(group, CORE_VERSION, kind);
            Ok(Change::Replicas { kind, name, replicas })
        }
        ("MachineDeployment" | "MachinePool" | "KubeadmControlPlane", _, _) => Err(mistake(
            field,
            "must have the kind Cluster to have machineDeployment or machinePool",
        )),
        (kind, _, _) => {
            let message =
                format!("{kind:?} must be MachineDeployment, KubeadmControlPlane, MachinePool or Cluster");
            Err(mistake(format!("{field}.kind"), message))
        }
    }
}

fn duration(field: &str, text: &str) -> Valid<Duration> {
    nephele_go_duration::parse(text).map_err(|error| mistake(field, format!("{text:?} {error}")))
}

#[cfg(test)]
mod tests;
