//! Clusters that are paused.

use super::*;

/// What the condition Paused of all objects says, by kind.
fn paused(world: &World) -> BTreeMap<&'static str, Vec<String>> {
    macro_rules! said {
        ($objects:expr) => {
            $objects
                .iter()
                .map(|object| {
                    let list = object
                        .status
                        .as_ref()
                        .map(|status| status.conditions.as_slice());
                    let known = conditions::find(list.unwrap_or_default(), "Paused").expect("it says it");
                    format!("{} {} {}", known.status, known.reason, known.message)
                })
                .collect()
        };
    }
    let observed = &world.observed;
    BTreeMap::from([
        ("Cluster", said!([&observed.cluster])),
        ("KubeadmControlPlane", said!(observed.control_plane)),
        ("MachineDeployment", said!(observed.deployments)),
        ("MachineSet", said!(observed.sets)),
        ("Machine", said!(observed.machines)),
    ])
}

#[test]
fn what_is_paused_says_so_and_nothing_else_happens() {
    let mut world = World::of_topology(1, 1);
    world.settle();
    let all = |text: &str| {
        let numbers = [
            ("Cluster", 1),
            ("KubeadmControlPlane", 1),
            ("MachineDeployment", 1),
            ("MachineSet", 1),
            ("Machine", 2),
        ];
        numbers
            .map(|(kind, number)| (kind, vec![text.to_owned(); number]))
            .into()
    };
    assert_eq!(paused(&world), all("False NotPaused "));

    world.observed.cluster.spec.paused = Some(true);
    world.plan.deployments[0].replicas = 3;
    world.log.clear();
    world.settle();
    assert_eq!(
        paused(&world),
        all("True Paused Cluster spec.paused is set to true")
    );
    let is_report = |action: &Action| {
        matches!(
            action,
            Action::ReportCluster(_)
                | Action::ReportMachine { .. }
                | Action::Owner(
                    OwnerAction::ReportControlPlane(_)
                        | OwnerAction::ReportDeployment { .. }
                        | OwnerAction::ReportSet { .. }
                )
        )
    };
    assert_eq!(
        world
            .log
            .iter()
            .filter(|action| !is_report(action))
            .collect::<Vec<_>>(),
        Vec::<&Action>::new()
    );

    world.observed.cluster.spec.paused = None;
    world.settle();
    assert!(
        paused(&world)
            .values()
            .flatten()
            .all(|said| said == "False NotPaused "),
        "{:?}",
        paused(&world)
    );
    assert_eq!(world.observed.machines.len(), 4);
}
