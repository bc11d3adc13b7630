//! Nodes that become silent, and MachineHealthChecks.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::*;
use crate::kinds::MachineHealthCheck;

impl World {
    /// Lets the Nodes of so many workers or control plane machines become silent.
    fn silence(&mut self, of_control_plane: bool, number: usize) -> Vec<String> {
        let machines = self.observed.machines.iter();
        let machines =
            machines.filter(|machine| labels::is_control_plane(&machine.metadata) == of_control_plane);
        let names: Vec<_> = machines.map(ResourceExt::name_any).take(number).collect();
        for name in &names {
            let node = self.nodes.get_mut(name).expect("a Node");
            let ready = &mut node
                .status
                .as_mut()
                .expect("a status")
                .conditions
                .as_mut()
                .expect("conditions")[0];
            ready.status = "Unknown".to_owned();
            ready.message = Some("Kubelet stopped posting node status.".to_owned());
            ready.last_transition_time = Some(Time(Timestamp::from_second(self.second).expect("in range")));
        }
        names
    }

    fn check(&mut self, remediation: &Value) {
        let check = json!({
            "metadata": { "name": "check", "namespace": "default" },
            "spec": {
                "clusterName": "demo", "selector": {}, "remediation": { "triggerIf": remediation },
                "checks": { "nodeStartupTimeoutSeconds": 60, "unhealthyNodeConditions": [
                    { "type": "Ready", "status": "Unknown", "timeoutSeconds": 30 },
                ] },
            },
        });
        self.observed.health_checks = vec![serde_json::from_value(check).expect("readable")];
    }

    fn later(&mut self, seconds: i64) {
        self.second += seconds;
        self.settle();
    }

    /// Settles as in a process, where a round that does something takes no time.
    fn settle_at_once(&mut self) {
        for _ in 0..200 {
            let second = self.second;
            let done = self.log.len();
            if self.round() {
                return;
            }
            if self.log.len() > done {
                self.second = second;
            }
        }
        panic!("it never settles: {:#?}", self.log);
    }

    fn check_status(&self) -> crate::kinds::MachineHealthCheckStatus {
        self.observed.health_checks[0].status.clone().expect("reported")
    }

    fn machine_condition(&mut self, name: &str, kind: &str) -> (String, String) {
        let status = self.machine(name).status.clone().expect("reported");
        let condition = conditions::find(&status.conditions, kind).expect("set").clone();
        (condition.status, condition.reason)
    }

    fn names(&self) -> Vec<String> {
        self.observed.machines.iter().map(ResourceExt::name_any).collect()
    }
}

fn said(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn a_node_that_becomes_silent_is_seen_on_its_machine_its_owners_and_the_cluster() {
    let mut world = World::of_topology(1, 2);
    world.settle();
    let silent = &world.silence(false, 1)[0];
    world.settle();
    let kinds = ["NodeReady", "NodeHealthy", "Ready", "Available"];
    let machine = kinds.map(|kind| world.machine_condition(silent, kind));
    let expected = [
        said("Unknown", "NodeReadyUnknown"),
        said("Unknown", "NodeHealthyUnknown"),
        said("False", "NotReady"),
        said("False", "NotReady"),
    ];
    assert_eq!(machine, expected);
    let (status, message) = world.condition("WorkersAvailable").expect("set");
    assert_eq!(status, "False");
    assert_eq!(
        message,
        "* MachineDeployment demo-md-0: 1 available replicas, at least 2 required"
    );
    assert!(!world.is_available());
    let node = world.nodes.get_mut(silent).expect("a Node");
    node.status = Some(NodeStatus {
        conditions: Some(healthy()),
        ..NodeStatus::default()
    });
    world.settle();
    assert!(world.is_available());
    // Without a health check, it stays.
    assert!(world.names().contains(silent));
}

#[test]
fn a_cluster_that_does_not_answer_is_unreachable_after_50_seconds_and_its_nodes_are_unknown_after_five_minutes()
 {
    let mut world = World::of_topology(1, 1);
    world.settle();
    world.is_down = true;
    world.later(40);
    let probe = |world: &World| world.condition("RemoteConnectionProbe").expect("set").0;
    assert_eq!((probe(&world).as_str(), world.is_available()), ("True", true));
    world.later(20);
    assert_eq!((probe(&world).as_str(), world.is_available()), ("False", false));
    let name = world.names()[0].clone();
    assert_eq!(
        world.machine_condition(&name, "NodeReady"),
        said("True", "NodeReady")
    );
    world.later(300);
    assert_eq!(
        world.machine_condition(&name, "NodeReady"),
        said("Unknown", "ConnectionDown")
    );
    world.is_down = false;
    world.settle();
    assert_eq!((probe(&world).as_str(), world.is_available()), ("True", true));
}

#[test]
fn a_silent_worker_is_replaced_once_its_time_is_over_and_the_check_counts_it() {
    let mut world = World::of_topology(1, 3);
    world.settle();
    world.check(&json!({}));
    world.settle();
    let status = world.check_status();
    assert_eq!(
        (status.expected_machines, status.current_healthy),
        (Some(4), Some(4))
    );
    assert_eq!(
        world.observed.health_checks[0].metadata.labels,
        Some([(labels::CLUSTER_NAME.to_owned(), "demo".to_owned())].into())
    );
    let silent = world.silence(false, 1)[0].clone();
    world.later(20);
    assert!(world.names().contains(&silent));
    assert_eq!(world.check_status().current_healthy, Some(3));
    world.log.clear();
    world.later(40);
    assert!(
        !world.names().contains(&silent) && world.is_available(),
        "{:?}",
        world.names()
    );
    let report = world.log.iter().find_map(|action| match action {
        Action::ReportMachine { machine, status } if *machine == silent => {
            Some(["HealthCheckSucceeded", "OwnerRemediated"].map(|kind| {
                let condition = conditions::find(&status.conditions, kind).expect("set");
                (condition.status.clone(), condition.reason.clone())
            }))
        }
        _ => None,
    });
    assert_eq!(
        report,
        Some([
            said("False", "UnhealthyNode"),
            said("False", "WaitingForRemediation")
        ])
    );
    assert_eq!(world.check_status().current_healthy, Some(4));
}

/// Time alone has to bring what waits for time: of a cluster that is deleted, nothing else tells that a drain is over.
#[test]
fn a_cluster_goes_whenever_it_is_deleted_while_a_machine_is_replaced() {
    for rounds in 0..20 {
        let mut world = World::of_topology(1, 3);
        world.settle();
        world.check(&json!({}));
        world.silence(false, 1);
        world.second += 40;
        for _ in 0..rounds {
            let second = world.second;
            world.round();
            world.second = second;
        }
        let now = Timestamp::from_second(world.second).expect("in range");
        world.observed.cluster.metadata.deletion_timestamp = Some(Time(now));
        world.settle_at_once();
        let left = (world.names(), world.observed.cluster.finalizers());
        assert_eq!(left, (Vec::new(), &[][..]), "after {rounds} rounds");
    }
}

#[test]
fn a_storm_is_held_back_by_the_number_and_by_the_range() {
    for (trigger, is_replaced) in [
        (json!({ "unhealthyLessThanOrEqualTo": "40%" }), false),
        (json!({ "unhealthyLessThanOrEqualTo": 2 }), false),
        (json!({ "unhealthyLessThanOrEqualTo": 3 }), true),
        (json!({ "unhealthyInRange": "[1-2]" }), false),
        (json!({ "unhealthyInRange": "[2-5]" }), true),
        (json!({ "unhealthyInRange": "]nonsense" }), false),
        (json!({ "unhealthyLessThanOrEqualTo": "all" }), false),
    ] {
        let mut world = World::of_topology(1, 3);
        world.settle();
        world.check(&trigger);
        world.settle();
        let silent = world.silence(false, 3);
        world.later(60);
        let is_gone = silent.iter().all(|name| !world.names().contains(name));
        assert_eq!(is_gone, is_replaced, "{trigger}");
        if !is_replaced {
            let status = world.check_status();
            let allowed = conditions::find(&status.conditions, "RemediationAllowed").expect("set");
            assert_eq!(
                (allowed.status.as_str(), status.remediations_allowed),
                ("False", Some(0)),
                "{trigger}"
            );
            assert_eq!(world.names().len(), 4, "{trigger}");
        }
    }
}

#[test]
fn control_plane_machines_are_replaced_one_at_a_time_and_never_below_a_quorum() {
    let mut world = World::of_topology(3, 0);
    world.settle();
    world.check(&json!({}));
    let deleted = |world: &mut World| {
        let log = std::mem::take(&mut world.log);
        let name = |action| match action {
            Action::DeleteMachine(name) => Some(name),
            _ => None,
        };
        log.into_iter().filter_map(name).collect::<Vec<_>>()
    };
    let silent = world.silence(true, 1);
    world.later(60);
    assert!(
        deleted(&mut world) == silent && world.is_available(),
        "{silent:?}"
    );
    // With two of three silent, a replacement would cost the quorum.
    world.silence(true, 2);
    world.later(60);
    assert_eq!(deleted(&mut world), [""; 0]);
    assert_eq!(world.condition("ControlPlaneAvailable").expect("set").0, "False");
    // Machines that recover by themselves stay.
    for node in world.nodes.values_mut() {
        node.status = Some(NodeStatus {
            conditions: Some(healthy()),
            ..NodeStatus::default()
        });
    }
    world.later(60);
    assert_eq!((deleted(&mut world).len(), world.is_available()), (0, true));

    let mut alone = World::of_topology(1, 0);
    alone.settle();
    alone.check(&json!({}));
    let silent = alone.silence(true, 1);
    alone.later(60);
    assert_eq!(alone.names(), silent);
}

#[test]
fn a_machine_whose_node_never_comes_or_was_deleted_is_replaced_and_one_that_is_skipped_is_not() {
    let mut world = World::of_topology(1, 2);
    world.settle();
    world.check(&json!({}));
    world.settle();
    let workers: Vec<_> = world
        .names()
        .into_iter()
        .filter(|name| name.contains("-md-"))
        .collect();
    let annotation = ("cluster.x-k8s.io/skip-remediation".to_owned(), String::new());
    world.machine(&workers[0]).metadata.annotations = Some([annotation].into());
    for name in &workers {
        world.nodes.remove(name);
        world.unborn.insert(name.clone());
    }
    world.settle();
    assert!(world.names().contains(&workers[0]) && !world.names().contains(&workers[1]));

    let mut world = World::of_topology(1, 1);
    world.settle();
    world.check(&json!({}));
    world.plan.scale_workers(2);
    world.has_no_new_nodes = true;
    world.later(1);
    let new = world.names().into_iter().next_back().expect("made");
    world.later(30);
    assert!(world.names().contains(&new));
    world.has_no_new_nodes = false;
    world.unborn.insert(new.clone());
    world.later(60);
    assert!(
        !world.names().contains(&new) && world.is_available(),
        "{:?}",
        world.names()
    );
}

#[test]
fn health_checks_of_a_topology_have_objects_that_come_change_and_go() {
    let mut world = World::of_topology(1, 1);
    let given = |seconds: i32| crate::plan::HealthCheck {
        checks: json!({ "nodeStartupTimeoutSeconds": seconds }),
        remediation: json!({ "triggerIf": { "unhealthyLessThanOrEqualTo": 1 } }),
    };
    world.plan.deployments[0].health_check = Some(given(5));
    world.plan.control_plane_health_check = Some(given(6));
    world.settle();
    let timeouts = |world: &World| {
        let checks = world.observed.health_checks.iter();
        let seconds = |check: &MachineHealthCheck| check.spec.checks.node_startup_timeout_seconds;
        checks
            .map(|check| (check.name_any(), seconds(check)))
            .collect::<Vec<_>>()
    };
    let expected = [
        ("demo-control-plane".to_owned(), Some(6)),
        ("demo-md-0".to_owned(), Some(5)),
    ];
    assert_eq!(timeouts(&world), expected);
    let limit = &world.observed.health_checks[1]
        .spec
        .remediation
        .trigger_if
        .unhealthy_less_than_or_equal_to;
    assert_eq!(*limit, Some(IntOrString::Int(1)));
    world.plan.deployments[0].health_check = Some(given(7));
    world.plan.control_plane_health_check = None;
    world.settle();
    assert_eq!(timeouts(&world), [("demo-md-0".to_owned(), Some(7))]);
}
