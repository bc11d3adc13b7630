//! The objects that own Machines.

use super::*;

/// The owners of objects, from the kinds' own references.
fn owners<K: kube::Resource>(objects: &[K]) -> Vec<(String, String)> {
    let owner = |object: &K| {
        let references = object.meta().owner_references.iter().flatten();
        references
            .map(|owner| format!("{} {}", owner.kind, owner.name))
            .collect::<Vec<_>>()
            .join(", ")
    };
    objects
        .iter()
        .map(|object| (object.meta().name.clone().unwrap_or_default(), owner(object)))
        .collect()
}

/// The conditions that are true, and the numbers of Machines: wanted, all, ready, available and up to date.
fn shown(
    conditions: &[Condition],
    wanted: Option<i32>,
    counts: crate::kinds::Counts,
) -> (Vec<&str>, [i32; 5]) {
    let holds = conditions.iter().filter(|condition| condition.status == "True");
    let crate::kinds::Counts {
        replicas,
        ready_replicas,
        available_replicas,
        up_to_date_replicas,
    } = counts;
    let numbers = [
        wanted,
        replicas,
        ready_replicas,
        available_replicas,
        up_to_date_replicas,
    ];
    (
        holds.map(|condition| condition.type_.as_str()).collect(),
        numbers.map(Option::unwrap_or_default),
    )
}

#[test]
fn machines_have_the_owners_that_cluster_api_gives_them_and_the_owners_count_them() {
    let mut world = World::of_topology(3, 2);
    world.settle();
    let set = names::generated("demo-md-0", "v1.36.3", &Default::default());
    assert_eq!(
        owners(&world.observed.deployments),
        [("demo-md-0".to_owned(), "Cluster demo".to_owned())]
    );
    assert_eq!(
        owners(&world.observed.sets),
        [(set.clone(), "MachineDeployment demo-md-0".to_owned())]
    );
    let workers = world
        .observed
        .machines
        .iter()
        .filter(|machine| machine.name_any().starts_with(&set));
    assert_eq!(workers.count(), 2);
    let up = ["MachinesReady", "MachinesUpToDate"];
    let deployment = world.observed.deployments[0].clone();
    let status = deployment.status.expect("reported");
    let available = ["Available", up[0], up[1]];
    assert_eq!(
        shown(&status.conditions, deployment.spec.replicas, status.counts),
        (available.to_vec(), [2; 5])
    );
    assert_eq!(status.phase, "Running");
    let set = world.observed.sets[0].clone();
    let status = set.status.expect("reported");
    assert_eq!(
        shown(&status.conditions, set.spec.replicas, status.counts),
        (up.to_vec(), [2; 5])
    );
    let control_plane = world.observed.control_plane.clone().expect("made");
    let status = control_plane.status.expect("reported");
    let available = ["Available", "Initialized", up[0], up[1]];
    assert_eq!(
        shown(&status.conditions, control_plane.spec.replicas, status.counts),
        (available.to_vec(), [3; 5])
    );
    assert_eq!(status.initialization.control_plane_initialized, Some(true));
    let reference = world
        .observed
        .cluster
        .spec
        .control_plane_ref
        .clone()
        .expect("completed");
    assert_eq!(
        (reference.kind.as_str(), Some(reference.name)),
        ("KubeadmControlPlane", control_plane.metadata.name)
    );
}

#[test]
fn what_a_topology_leaves_open_is_scaled_at_its_object_and_what_it_says_is_seen() {
    let mut world = World::of_topology(1, 1);
    world.plan.deployments = vec![
        DeploymentPlan {
            is_scalable: true,
            ..DeploymentPlan::new("demo", "open", 1)
        },
        DeploymentPlan::new("demo", "said", 1),
    ];
    world.settle();
    for deployment in &mut world.observed.deployments {
        deployment.spec.replicas = Some(3);
    }
    world.settle();
    let numbers: Vec<_> = world
        .observed
        .deployments
        .iter()
        .map(|known| {
            (
                known.name_any(),
                known.spec.replicas,
                known.status.clone().and_then(|s| s.counts.replicas),
            )
        })
        .collect();
    let expected = [
        ("demo-open".to_owned(), Some(3), Some(3)),
        ("demo-said".to_owned(), Some(1), Some(1)),
    ];
    assert_eq!(numbers, expected);
    // No client can ask for more than a topology may, or for less than nothing.
    world.observed.deployments[0].spec.replicas = Some(-7);
    world.settle();
    assert_eq!(world.observed.machines.len(), 2);
}

#[test]
fn an_upgrade_makes_another_set_rolls_out_and_leaves_no_old_set() {
    let mut world = World::of_topology(1, 2);
    world.settle();
    let old = world.observed.sets[0].name_any();
    world.log.clear();
    world.plan.version = "v1.37.0".to_owned();
    world.settle();
    let [set] = &world.observed.sets[..] else {
        panic!("{:?}", owners(&world.observed.sets))
    };
    assert_ne!(set.name_any(), old);
    assert!(
        world
            .observed
            .machines
            .iter()
            .all(|machine| machine.spec.version == "v1.37.0")
    );
    let rolling: Vec<_> = world
        .log
        .iter()
        .filter_map(|action| match action {
            Action::ReportCluster(status) => conditions::find(&status.conditions, "RollingOut"),
            _ => None,
        })
        .map(|condition| condition.status.as_str())
        .collect();
    assert!(
        rolling.contains(&"True") && rolling.last() == Some(&"False"),
        "{rolling:?}"
    );
    let message = world.log.iter().find_map(|action| match action {
        Action::Owner(OwnerAction::ReportDeployment { status, .. }) => {
            conditions::find(&status.conditions, "RollingOut")
                .filter(|condition| condition.status == "True")
                .map(|condition| condition.message.clone())
        }
        _ => None,
    });
    let expected = "Rolling out 2 not up-to-date replicas\n* Version v1.36.3, v1.37.0 required";
    assert_eq!(message.as_deref(), Some(expected));
}

#[test]
fn owners_that_a_user_deletes_take_their_machines_with_them_and_come_again() {
    let mut world = World::of_topology(1, 2);
    world.settle();
    let before: Vec<_> = world
        .observed
        .machines
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    world.apply(&Action::Owner(OwnerAction::DeleteDeployment(
        "demo-md-0".to_owned(),
    )));
    world.settle();
    let deployments = owners(&world.observed.deployments);
    assert_eq!(deployments, [("demo-md-0".to_owned(), "Cluster demo".to_owned())]);
    assert_eq!(world.observed.machines.len(), before.len());
    assert!(world.is_available());
}

#[test]
fn a_machine_that_is_marked_goes_first() {
    let mut world = World::of_topology(1, 3);
    world.settle();
    let marked = world.observed.machines[1].name_any();
    let annotation = ("cluster.x-k8s.io/delete-machine".to_owned(), String::new());
    world.machine(&marked).metadata.annotations = Some([annotation].into());
    world.plan.scale_workers(2);
    world.settle();
    assert_eq!(world.observed.machines.len(), 3);
    assert!(
        world
            .observed
            .machines
            .iter()
            .all(|machine| machine.name_any() != marked)
    );
}

#[test]
fn another_process_finds_nothing_to_do() {
    let mut world = World::of_topology(3, 2);
    world.settle();
    world.observed.probe = Probe::default();
    world.observed.workload = None;
    let wanted = Wanted::Topology(Ok(world.plan.clone()));
    let decision = decide(
        &wanted,
        &world.observed,
        Timestamp::from_second(world.second + 900).expect("in range"),
    );
    assert_eq!(decision.actions, []);
}
