//! What a cluster shows follows from the last word of the engine, not from the way there.

use nephele_model::{EtcdAlarm, OtherName};
use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// A change of the instance of a machine.
#[derive(Clone, Debug)]
enum Change {
    /// It reaches its next stage.
    Reach,
    /// A fault begins that lets it have a visible effect.
    Begin(VisibleEffect),
    /// The first fault by name is deleted.
    Heal,
    Delete,
    Gone,
    /// Another instance takes its place.
    Replace,
}

/// A change of one of two machines.
#[derive(Clone, Debug)]
struct Step {
    machine: usize,
    change: Change,
    /// Whether the cluster that lags reads the engine after it.
    is_seen: bool,
}

fn visible_effect() -> impl Strategy<Value = VisibleEffect> {
    let second = Duration::from_secs(1);
    prop_oneof![
        Just(VisibleEffect::NotReady),
        Just(VisibleEffect::Frozen),
        Just(VisibleEffect::Vanished),
        Just(VisibleEffect::WrongProviderId),
        Just(VisibleEffect::OtherName(OtherName::new("-2"))),
        Just(VisibleEffect::EtcdAlarm(EtcdAlarm::NoSpace)),
        Just(VisibleEffect::EtcdMemberHidden),
        Just(VisibleEffect::Flapping(Flap::new(10 * second, 30 * second))),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let change = prop_oneof![
        8 => Just(Change::Reach),
        4 => visible_effect().prop_map(Change::Begin),
        2 => Just(Change::Heal),
        1 => Just(Change::Delete),
        1 => Just(Change::Gone),
        1 => Just(Change::Replace),
    ];
    let step = (0..2usize, change, any::<bool>());
    prop::collection::vec(
        step.prop_map(|(machine, change, is_seen)| Step {
            machine,
            change,
            is_seen,
        }),
        1..24,
    )
}

/// The instance after a change at minute `minute`, as the engine would have it. None if the change cannot be.
fn after(instance: Option<&Instance>, change: &Change, minute: u64) -> Option<Option<Instance>> {
    let at = Timestamp::UNIX_EPOCH + Duration::from_secs(60 * minute);
    let created = || Instance {
        created: at,
        ..new_instance()
    };
    let Some(instance) = instance else {
        return matches!(change, Change::Reach).then(|| Some(created()));
    };
    let mut after = instance.clone();
    let has_node = instance.reached.contains_key(&Stage::Node);
    match change {
        Change::Gone => return Some(None),
        Change::Replace => return Some(Some(created())),
        // A machine that is being deleted does nothing any more.
        _ if instance.is_deleting => return None,
        Change::Delete => after.is_deleting = true,
        Change::Reach => {
            let has_vanished = instance
                .visible_effects
                .values()
                .any(|visible_effect| *visible_effect == VisibleEffect::Vanished);
            let next = Stage::ALL
                .into_iter()
                .find(|stage| !instance.reached.contains_key(stage));
            after.reached.insert(next.filter(|_| !has_vanished)?, at);
        }
        // What only new machines or only machines with a Node have, see `active_effect_of`.
        Change::Begin(VisibleEffect::WrongProviderId) if has_node => return None,
        Change::Begin(VisibleEffect::OtherName(_)) if !has_node => return None,
        Change::Begin(visible_effect) => {
            let visible_effect = visible_effect
                .clone()
                .begun(SimTime::from_millis(60_000 * minute));
            // A name says nothing of when its fault began.
            let name = format!("fault-{:02}", minute * 7 % 25);
            after.visible_effects.insert(name, visible_effect);
        }
        Change::Heal => {
            let is_over = |visible_effect: &VisibleEffect| *visible_effect != VisibleEffect::Vanished;
            let first = instance
                .visible_effects
                .iter()
                .find(|(_, visible_effect)| is_over(visible_effect));
            after.visible_effects.remove(first?.0);
        }
    }
    Some(Some(after))
}

/// All fields of all objects that machines have, the members of etcd, and those of them that run. Times at which something
/// changed are left out: a cluster that misses a change does not show its time.
fn shown(cluster: &Cluster) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for (group, resource) in [("", "nodes"), ("", "pods"), ("coordination.k8s.io", "leases")] {
        for object in cluster
            .cluster_server
            .store
            .list(&GroupResource::new(group, resource), None)
            .objects
        {
            fields(
                &format!("{resource}/{}", object.name),
                &object.value(),
                &mut lines,
            );
        }
    }
    let (members, running, _) = etcd(cluster);
    lines.extend(members.iter().map(|member| format!("member {member}")));
    lines.extend(running.iter().map(|member| format!("running {member}")));
    lines
}

fn fields(path: &str, value: &Value, lines: &mut BTreeSet<String>) {
    const TIMES: [&str; 4] = [
        "resourceVersion",
        "lastTransitionTime",
        "lastHeartbeatTime",
        "renewTime",
    ];
    match value {
        Value::Object(object) => {
            let kept = object.iter().filter(|(name, _)| !TIMES.contains(&name.as_str()));
            kept.for_each(|(name, value)| fields(&format!("{path}.{name}"), value, lines));
        }
        Value::Array(list) => {
            (0..)
                .zip(list)
                .for_each(|(index, value): (usize, _)| fields(&format!("{path}.{index}"), value, lines));
        }
        value => drop(lines.insert(format!("{path}={value}"))),
    }
}

fn lag(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let clock: WallClock = Arc::new(|| Timestamp::UNIX_EPOCH + Duration::from_secs(86_400));
    let driver = driver();
    let prompt = cluster_at(&driver, clock.clone());
    let late = cluster_at(&driver, clock);
    let names = ["a", "b"];
    let mut instances: [Option<Instance>; 2] = [None, None];
    for (
        minute,
        Step {
            machine,
            change,
            is_seen,
        },
    ) in (1..).zip(steps)
    {
        let name = names[machine];
        let Some(after) = after(instances[machine].as_ref(), &change, minute) else {
            continue;
        };
        if instances[machine].is_none() {
            // A cluster catches up before it admits a machine.
            late.show_machine(name, None);
            for cluster in [&prompt, &late] {
                cluster.admit(control_plane(cluster, name));
            }
        }
        instances[machine] = after;
        prompt.show_machine(name, instances[machine].clone());
        if is_seen {
            late.show_machine(name, instances[machine].clone());
        }
    }
    for (name, instance) in names.into_iter().zip(instances) {
        late.show_machine(name, instance);
    }
    let late = shown(&late);
    let prompt = shown(&prompt);
    let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| -> Vec<_> {
        one.difference(other).cloned().collect()
    };
    prop_assert_eq!(only(&late, &prompt), only(&prompt, &late));
    Ok(())
}

#[test]
fn second_node_of_the_next_fault_is_another_one_although_its_name_is_the_same() -> Result<(), TestCaseError> {
    let step = |change, is_seen| Step {
        machine: 0,
        change,
        is_seen,
    };
    let renamed = || Change::Begin(VisibleEffect::OtherName(OtherName::new("-2")));
    let until_node = (0..3).map(|_| step(Change::Reach, false));
    lag(until_node
        .chain([
            step(renamed(), true),
            step(Change::Heal, false),
            step(renamed(), false),
        ])
        .collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn cluster_that_misses_changes_shows_what_one_that_sees_each_shows(steps in steps()) {
        lag(steps)?;
    }
}
