//! The conditions and taints of a Node, and what faults change about them.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use nephele_model::{ClockSkew, NodeCondition, VisibleEffect};
use serde_json::{Value, json};

use super::projected::time;

/// The conditions that a kubelet reports: type, status, reason and message.
const REPORTED: [(&str, &str, &str, &str); 4] = [
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    (
        "DiskPressure",
        "False",
        "KubeletHasNoDiskPressure",
        "kubelet has no disk pressure",
    ),
    (
        "PIDPressure",
        "False",
        "KubeletHasSufficientPID",
        "kubelet has sufficient PID available",
    ),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
];

/// The taints that the node lifecycle controller adds for a type and status of a condition
/// (pkg/controller/nodelifecycle/node_lifecycle_controller.go of Kubernetes). With the condition Ready, running pods are
/// evicted too.
const TAINTS: [(&str, &str, &str); 5] = [
    ("Ready", "False", "node.kubernetes.io/not-ready"),
    ("Ready", "Unknown", "node.kubernetes.io/unreachable"),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// The reason of conditions that the node lifecycle controller sets, by its own clock.
const UNKNOWN: &str = "NodeStatusUnknown";

/// The conditions of a Node whose kubelet reports.
pub(super) fn reported(now: &str) -> Vec<Value> {
    let condition = |(kind, status, reason, message)| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
               "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    REPORTED.into_iter().map(condition).collect()
}

/// Whether conditions have all that a kubelet reports.
pub(super) fn are_reported(conditions: &Value) -> bool {
    let known = |kind: &str| {
        conditions
            .as_array()
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == kind)
    };
    REPORTED.iter().all(|(kind, ..)| known(kind))
}

/// Shows what is wrong with a machine in the conditions and taints of its Node, as its kubelet and the node lifecycle
/// controller would. A controller waits for 40 s before it calls a Node unreachable; here it happens at once. Conditions
/// and taints of clients stay. `wrong` has the visible effects by the name of the fault. What the kubelet reports has the time
/// of its own clock.
pub(crate) fn show_visible_effects(
    node: &mut Value,
    wrong: &BTreeMap<String, VisibleEffect>,
    now: Timestamp,
) {
    let kubelet_now = time(clock_skew(wrong).map_or(now, |skew| skewed(now, skew)));
    let now = time(now);
    let wanted = conditions(wrong);
    let Some(known) = node
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    let mut cleared = Vec::new();
    known.retain_mut(|condition| {
        let kind = condition["type"].as_str().unwrap_or_default().to_owned();
        if !is_ours(condition) || wanted.contains_key(&kind) {
            return true;
        }
        cleared.push((
            kind.clone(),
            condition["status"].as_str().unwrap_or_default().to_owned(),
        ));
        let usual = reported(&kubelet_now)
            .into_iter()
            .find(|usual| usual["type"] == *kind);
        let is_reported = usual.is_some();
        if let Some(usual) = usual {
            set(condition, usual);
        }
        is_reported
    });
    for (
        kind,
        NodeCondition {
            status,
            reason,
            message,
            ..
        },
    ) in &wanted
    {
        let at = if reason == UNKNOWN { &now } else { &kubelet_now };
        let changed = json!({"type": kind, "status": status, "reason": reason, "message": message,
                             "lastHeartbeatTime": at, "lastTransitionTime": at});
        match known.iter_mut().find(|condition| condition["type"] == **kind) {
            Some(condition) => {
                if condition["status"] != **status {
                    cleared.push((
                        kind.clone(),
                        condition["status"].as_str().unwrap_or_default().to_owned(),
                    ));
                }
                set(condition, changed);
            }
            None => known.push(changed),
        }
    }
    let is_set = |kind: &str, status: &str| wanted.get(kind).is_some_and(|wanted| wanted.status == status);
    let was_set = |kind: &str, status: &str| cleared.iter().any(|(k, s)| k == kind && s == status);
    let Some(spec) = node["spec"].as_object_mut() else {
        return;
    };
    let taints = spec.entry("taints").or_insert_with(|| json!([]));
    let Some(taints) = taints.as_array_mut() else {
        return;
    };
    for (kind, status, key) in TAINTS {
        let is_there = taints.iter().any(|taint| taint["key"] == key);
        if is_set(kind, status) && !is_there {
            taints.push(json!({"key": key, "effect": "NoSchedule", "timeAdded": now}));
            if kind == "Ready" {
                taints.push(json!({"key": key, "effect": "NoExecute", "timeAdded": now}));
            }
        } else if was_set(kind, status) && !is_set(kind, status) {
            taints.retain(|taint| taint["key"] != key);
        }
    }
    if taints.is_empty() {
        spec.remove("taints");
    }
}

/// How far the clock of a machine is off. Of several skews, the first one by the name of the fault decides.
pub(crate) fn clock_skew(wrong: &BTreeMap<String, VisibleEffect>) -> Option<ClockSkew> {
    wrong.values().find_map(|visible_effect| match visible_effect {
        VisibleEffect::ClockSkew(skew) => Some(*skew),
        _ => None,
    })
}

/// What a clock shows that is off.
pub(crate) fn skewed(now: Timestamp, skew: ClockSkew) -> Timestamp {
    let by = |time: Duration| SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    match skew {
        ClockSkew::Ahead(time) => now.saturating_add(by(time)),
        ClockSkew::Behind(time) => now.saturating_sub(by(time)),
    }
    .unwrap_or(now)
}

/// Renews the heartbeats of the conditions that the kubelet reports. `at` is the time on its clock.
pub(crate) fn renew_heartbeats(node: &mut Value, at: Timestamp) {
    let conditions = node
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut);
    for condition in conditions
        .into_iter()
        .flatten()
        .filter(|condition| condition["reason"] != UNKNOWN)
    {
        if REPORTED.iter().any(|(kind, ..)| condition["type"] == **kind) {
            condition["lastHeartbeatTime"] = time(at).into();
        }
    }
}

/// Replaces a condition. One that keeps its status keeps the time of its last transition.
fn set(condition: &mut Value, mut by: Value) {
    if condition["status"] == by["status"] {
        by["lastTransitionTime"] = condition["lastTransitionTime"].take();
    }
    *condition = by;
}

/// What the end of a message says about the fault that set the condition.
fn suffix(fault: &str) -> String {
    format!(" (Fault {fault})")
}

/// Whether a fault set the condition: its message ends with the name of the fault.
fn is_ours(condition: &Value) -> bool {
    let message = condition["message"].as_str().unwrap_or_default();
    let named = message
        .strip_suffix(')')
        .and_then(|message| message.rsplit_once("(Fault "));
    named.is_some_and(|(text, name)| (text.is_empty() || text.ends_with(' ')) && !name.contains(' '))
}

/// The conditions that the visible effects set, by type. Of two faults that set the same type, the last one by name decides.
fn conditions(wrong: &BTreeMap<String, VisibleEffect>) -> BTreeMap<String, NodeCondition> {
    let mut wanted = BTreeMap::new();
    for (fault, visible_effect) in wrong {
        match visible_effect {
            // A kubelet that does not report reports no condition.
            VisibleEffect::NotReady | VisibleEffect::Frozen | VisibleEffect::Rebooting { .. } | VisibleEffect::OtherName(_) => {
                for (kind, ..) in REPORTED {
                    let condition = NodeCondition {
                        kind: kind.to_owned(),
                        status: "Unknown".to_owned(),
                        reason: UNKNOWN.to_owned(),
                        message: format!("Kubelet stopped posting node status.{}", suffix(fault)),
                    };
                    wanted.insert(kind.to_owned(), condition);
                }
            }
            VisibleEffect::NodeCondition(condition) => {
                let message = format!("{}{}", condition.message, suffix(fault)).trim_start().to_owned();
                wanted.insert(condition.kind.clone(), NodeCondition { message, ..condition.clone() });
            }
            VisibleEffect::SpotReclaim(_) => {
                let condition = NodeCondition {
                    kind: "Interruption".to_owned(),
                    status: "True".to_owned(),
                    reason: "SpotReclaim".to_owned(),
                    message: format!("The cloud takes the spot instance back.{}", suffix(fault)),
                };
                wanted.insert(condition.kind.clone(), condition);
            }
            VisibleEffect::Vanished
            | VisibleEffect::Held(_)
            | VisibleEffect::ApiServer(_)
            | VisibleEffect::EtcdAlarm(_)
            | VisibleEffect::EtcdWithoutLeader
            | VisibleEffect::EtcdSlow { .. }
            | VisibleEffect::EtcdMemberHidden
            | VisibleEffect::Certificate(_)
            | VisibleEffect::LoadBalancer(_)
            | VisibleEffect::WrongProviderId
            | VisibleEffect::BootstrapFailed(_)
            // It changes times only.
            | VisibleEffect::ClockSkew(_)
            // Whoever knows the time says whether the kubelet is silent.
            | VisibleEffect::Flapping(_) => {}
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn node() -> Value {
        json!({
            "spec": { "taints": [{ "key": "mine", "effect": "NoSchedule" }] },
            "status": { "conditions": reported(&time(at(0))) },
        })
    }

    fn wrong(visible_effects: &[(&str, VisibleEffect)]) -> BTreeMap<String, VisibleEffect> {
        visible_effects
            .iter()
            .map(|(fault, visible_effect)| ((*fault).to_owned(), visible_effect.clone()))
            .collect()
    }

    fn full() -> VisibleEffect {
        let [kind, status, reason, message] =
            ["DiskPressure", "True", "Full", "no space left"].map(str::to_owned);
        VisibleEffect::NodeCondition(NodeCondition {
            kind,
            status,
            reason,
            message,
        })
    }

    /// Type, status and time of the last transition of each condition, and the keys of the taints.
    fn shown(node: &Value) -> (Vec<String>, Vec<String>) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let conditions = node["status"]["conditions"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|condition| {
                let at = text(&condition["lastTransitionTime"]);
                format!(
                    "{} {} {}",
                    text(&condition["type"]),
                    text(&condition["status"]),
                    at.get(17..19).unwrap_or("??")
                )
            });
        let taints = node["spec"]["taints"].as_array().into_iter().flatten();
        (
            conditions.collect(),
            taints
                .map(|taint| text(&taint["key"]) + ":" + &text(&taint["effect"]))
                .collect(),
        )
    }

    #[test]
    fn a_node_whose_kubelet_is_silent_is_unreachable_until_it_reports_again() {
        let before = node();
        let mut node = node();
        show_visible_effects(&mut node, &wrong(&[("f", VisibleEffect::NotReady)]), at(5));
        let unknown = REPORTED.map(|(kind, ..)| format!("{kind} Unknown 05")).to_vec();
        let unreachable = "node.kubernetes.io/unreachable";
        let taints = [
            "mine:NoSchedule".to_owned(),
            format!("{unreachable}:NoSchedule"),
            format!("{unreachable}:NoExecute"),
        ];
        assert_eq!(shown(&node), (unknown, taints.to_vec()));
        assert_eq!(
            node["status"]["conditions"][3]["message"],
            "Kubelet stopped posting node status. (Fault f)"
        );
        show_visible_effects(&mut node, &wrong(&[]), at(9));
        let cleared = REPORTED
            .map(|(kind, status, ..)| format!("{kind} {status} 09"))
            .to_vec();
        assert_eq!(shown(&node), (cleared, shown(&before).1));
        let again = node.clone();
        show_visible_effects(&mut node, &wrong(&[]), at(12));
        assert_eq!(node, again, "nothing is wrong, so nothing changes");
    }

    #[test]
    fn conditions_of_clients_stay_and_those_of_faults_go() {
        let mut node = node();
        let list = node["status"]["conditions"].as_array_mut().expect("a list");
        list.push(json!({ "type": "KernelDeadlock", "status": "True", "message": "from a client" }));
        let dead = NodeCondition {
            kind: "Dead".into(),
            status: "True".into(),
            reason: "R".into(),
            message: String::new(),
        };
        let both = wrong(&[("a", full()), ("b", VisibleEffect::NodeCondition(dead))]);
        show_visible_effects(&mut node, &both, at(5));
        let kinds = |node: &Value| {
            let list = node["status"]["conditions"].as_array().expect("a list");
            let pair = |c: &Value| {
                format!(
                    "{}={}",
                    c["type"].as_str().unwrap(),
                    c["status"].as_str().unwrap()
                )
            };
            list.iter().map(pair).collect::<Vec<_>>()
        };
        let usual = [
            "MemoryPressure=False",
            "DiskPressure=True",
            "PIDPressure=False",
            "Ready=True",
        ];
        assert_eq!(
            kinds(&node),
            [&usual[..], &["KernelDeadlock=True", "Dead=True"]].concat()
        );
        assert_eq!(
            shown(&node).1,
            ["mine:NoSchedule", "node.kubernetes.io/disk-pressure:NoSchedule"]
        );
        show_visible_effects(&mut node, &wrong(&[]), at(6));
        let usual = [
            "MemoryPressure=False",
            "DiskPressure=False",
            "PIDPressure=False",
            "Ready=True",
        ];
        assert_eq!(kinds(&node), [&usual[..], &["KernelDeadlock=True"]].concat());
        assert_eq!(shown(&node).1, ["mine:NoSchedule"]);
    }

    #[test]
    fn a_kubelet_whose_clock_is_wrong_reports_at_its_own_time_and_the_controller_does_not() {
        let behind = VisibleEffect::ClockSkew(ClockSkew::Behind(Duration::from_secs(20)));
        let mut node = node();
        show_visible_effects(&mut node, &wrong(&[("a", behind.clone()), ("b", full())]), at(50));
        assert_eq!(shown(&node).0[1], "DiskPressure True 30");
        show_visible_effects(
            &mut node,
            &wrong(&[("a", behind.clone()), ("b", VisibleEffect::NotReady)]),
            at(52),
        );
        assert_eq!(shown(&node).0[3], "Ready Unknown 52");
        renew_heartbeats(&mut node, at(1));
        assert_eq!(
            node["status"]["conditions"][3]["lastHeartbeatTime"],
            time(at(52)),
            "no heartbeat came"
        );
        show_visible_effects(&mut node, &wrong(&[("a", behind)]), at(54));
        assert_eq!(shown(&node).0[3], "Ready True 34");
        renew_heartbeats(&mut node, at(55));
        let beats = node["status"]["conditions"].as_array().expect("a list").iter();
        assert!(
            beats
                .clone()
                .all(|condition| condition["lastHeartbeatTime"] == time(at(55))),
            "{node}"
        );
        assert_eq!(shown(&node).0[3], "Ready True 34", "a heartbeat is no transition");
    }

    #[test]
    fn a_fault_that_goes_leaves_what_another_one_says() {
        let mut node = node();
        show_visible_effects(
            &mut node,
            &wrong(&[("a", full()), ("b", VisibleEffect::Frozen)]),
            at(5),
        );
        assert!(
            shown(&node)
                .0
                .iter()
                .all(|condition| condition.contains("Unknown"))
        );
        show_visible_effects(&mut node, &wrong(&[("a", full())]), at(6));
        assert_eq!(shown(&node).0[1], "DiskPressure True 06");
        assert_eq!(
            shown(&node).1,
            ["mine:NoSchedule", "node.kubernetes.io/disk-pressure:NoSchedule"]
        );
    }
}
