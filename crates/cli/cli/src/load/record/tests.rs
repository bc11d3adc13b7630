use proptest::prelude::*;
use serde_json::json;

use super::*;

fn at(seconds: u64, what: Seen) -> Observation {
    Observation {
        at: Duration::from_secs(seconds),
        what,
    }
}

fn cluster(seconds: u64, name: &str, steps: &[ClusterStep], obstacle: &str) -> Observation {
    let steps = steps.iter().copied().collect();
    at(
        seconds,
        Seen::Cluster {
            name: name.to_owned(),
            steps,
            obstacle: obstacle.to_owned(),
        },
    )
}

fn record(observations: impl IntoIterator<Item = Observation>) -> Record {
    let mut record = Record::default();
    observations
        .into_iter()
        .for_each(|observation| record.apply(observation));
    record
}

#[test]
fn earliest_time_of_each_step_counts() {
    use ClusterStep::{Available, InfrastructureProvisioned};
    let machine = |steps: &[MachineStep]| Seen::Machine {
        name: "a-1".to_owned(),
        steps: steps.iter().copied().collect(),
    };
    let record = record([
        at(
            1,
            Seen::Sent {
                cluster: "a".to_owned(),
            },
        ),
        cluster(2, "a", &[], ""),
        cluster(
            4,
            "a",
            &[InfrastructureProvisioned],
            "* ControlPlaneAvailable: not yet",
        ),
        at(5, machine(&[])),
        at(7, machine(&[MachineStep::Running])),
        cluster(9, "a", &[InfrastructureProvisioned, Available], ""),
        at(9, machine(&MachineStep::ALL)),
    ]);
    let seconds = Duration::from_secs;
    let expected = Record {
        clusters: BTreeMap::from([(
            "a".to_owned(),
            ClusterTimes {
                sent: Some(seconds(1)),
                reached: BTreeMap::from([(InfrastructureProvisioned, seconds(4)), (Available, seconds(9))]),
                obstacle: (seconds(9), String::new()),
                is_gone: false,
            },
        )]),
        machines: BTreeMap::from([(
            "a-1".to_owned(),
            MachineTimes {
                seen: seconds(5),
                reached: BTreeMap::from([
                    (MachineStep::Running, seconds(7)),
                    (MachineStep::Ready, seconds(9)),
                ]),
            },
        )]),
    };
    assert_eq!(record, expected);
}

#[test]
fn missing_clusters_have_reasons() {
    let record = record([
        at(
            1,
            Seen::Sent {
                cluster: "silent".to_owned(),
            },
        ),
        cluster(1, "waits", &[], "an obstacle"),
        cluster(2, "waits", &[], "a later obstacle"),
        cluster(1, "up", &[ClusterStep::Available], ""),
        at(
            3,
            Seen::Gone {
                cluster: "gone".to_owned(),
            },
        ),
    ]);
    let names = ["gone", "never", "silent", "up", "waits"].map(str::to_owned);
    let expected = [
        ("gone", "it was deleted"),
        ("never", "it was not created"),
        (
            "silent",
            "Cluster API has not reported on it; does its controller run?",
        ),
        ("waits", "a later obstacle"),
    ];
    let expected = expected.map(|(name, reason)| (name.to_owned(), reason.to_owned()));
    assert_eq!(record.missing(&names), expected);
    assert!(!record.is_over(&names));
    assert!(record.is_over(&[names[0].clone(), names[3].clone()]));
}

#[test]
fn steps_are_read_from_conditions_and_status() {
    let condition = |kind: &str, status: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": "R", "message": message,
               "lastTransitionTime": "2026-03-04T05:06:07Z"})
    };
    let cluster: Cluster = serde_json::from_value(json!({
        "metadata": {"name": "a"}, "spec": {},
        "status": {
            "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true},
            "conditions": [condition("ControlPlaneAvailable", "True", ""),
                           condition("Available", "False", "no workers")],
        },
    }))
    .expect("a Cluster");
    let expected = Seen::Cluster {
        name: "a".to_owned(),
        steps: ClusterStep::ALL[..3].iter().copied().collect(),
        obstacle: "no workers".to_owned(),
    };
    assert_eq!(Seen::cluster("a".to_owned(), &cluster), expected);
    let machine: Machine = serde_json::from_value(json!({
        "metadata": {"name": "m"}, "spec": {},
        "status": {"phase": "Running", "conditions": [condition("Ready", "Unknown", "")]},
    }))
    .expect("a Machine");
    let expected = Seen::Machine {
        name: "m".to_owned(),
        steps: BTreeSet::from([MachineStep::Running]),
    };
    assert_eq!(Seen::machine("m".to_owned(), &machine), expected);
}

fn observation() -> impl Strategy<Value = Observation> {
    let name = "[ab]";
    let steps = prop::collection::btree_set(prop::sample::select(ClusterStep::ALL.to_vec()), 0..4);
    let of_machine = prop::collection::btree_set(prop::sample::select(MachineStep::ALL.to_vec()), 0..2);
    let what = prop_oneof![
        name.prop_map(|cluster| Seen::Sent { cluster }),
        (name, steps, "[xy]?").prop_map(|(name, steps, obstacle)| Seen::Cluster {
            name,
            steps,
            obstacle
        }),
        name.prop_map(|cluster| Seen::Gone { cluster }),
        (name, of_machine).prop_map(|(name, steps)| Seen::Machine { name, steps }),
    ];
    (0_u64..20, what).prop_map(|(seconds, what)| at(seconds, what))
}

proptest! {
    /// The watches of Clusters and of Machines, and our own requests, arrive in any order.
    #[test]
    fn order_of_observations_does_not_matter(
        (some, same) in prop::collection::vec(observation(), 0..40)
            .prop_flat_map(|list| (Just(list.clone()), Just(list).prop_shuffle())),
    ) {
        prop_assert_eq!(record(some), record(same));
    }
}
