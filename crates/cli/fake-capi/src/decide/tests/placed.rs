//! Where Machines are placed.

use nephele_api::infrastructure::v1beta2::FailureDomain;

use super::*;

#[test]
fn control_plane_machines_are_spread_over_failure_domains() {
    let mut world = World::of_topology(3, 1);
    let domain = |name: &str, control_plane| FailureDomain {
        name: name.to_owned(),
        control_plane: Some(control_plane),
        ..FailureDomain::default()
    };
    world.plan.failure_domains = vec![domain("a", false), domain("b", true), domain("c", true)];
    world.plan.deployments[0].failure_domain = "a".to_owned();
    world.settle();
    let placed = |world: &World, is_control_plane: bool| {
        let machines = world.observed.machines.iter();
        let machines =
            machines.filter(|machine| labels::is_control_plane(&machine.metadata) == is_control_plane);
        let mut domains: Vec<_> = machines
            .map(|machine| machine.spec.failure_domain.clone())
            .collect();
        domains.sort();
        domains
    };
    assert_eq!(
        (placed(&world, true), placed(&world, false)),
        (texts(&["b", "b", "c"]), texts(&["a"]))
    );
    let status = world.observed.cluster.status.as_ref().expect("it has one");
    assert_eq!(status.failure_domains, world.plan.failure_domains);

    world.plan.control_plane = 5;
    world.settle();
    assert_eq!(placed(&world, true), texts(&["b", "b", "b", "c", "c"]));
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|&text| text.to_owned()).collect()
}
