//! The clusters of the demo.

use nephele_api::infrastructure::v1beta2::{Behaviour, Component, Provisioning};
use nephele_fake_capi::{ClusterPlan, DeploymentPlan, KeyAlgorithm, Plan};
use nephele_model::{Fraction, GoDuration};

use super::pools;

const VERSION: &str = "v1.36.3";

/// A small cluster, and a large one with three control plane machines, which join one by one. Machines start slowly
/// enough that people can see the order of steps, and fast enough that all are up in a few seconds. Their addresses
/// come from pools, and their workers have the label that the flavors give to theirs. The large cluster is dual-stack.
pub(super) fn plan() -> Plan {
    let part = |startup_duration: &str| {
        let startup_duration = GoDuration::parse(startup_duration).ok();
        let startup_jitter = Fraction::parse("0.5").ok();
        Some(Component {
            provisioning: Provisioning {
                startup_duration,
                startup_jitter,
            },
        })
    };
    let behaviour = Behaviour {
        vm: part("500ms"),
        node: part("200ms"),
        api_server: part("300ms"),
        etcd: part("200ms"),
    };
    let load_balancers = || Some(pools::reference(pools::LOAD_BALANCERS));
    let small = ClusterPlan {
        behaviour: behaviour.clone(),
        address_pools: vec![pools::reference(pools::MACHINES_V4)],
        control_plane_address_pool: load_balancers(),
        deployments: vec![DeploymentPlan::new("small", "workers", 1)],
        ..ClusterPlan::new("small", VERSION, 1, 0)
    };
    let large = ClusterPlan {
        behaviour,
        key_algorithm: KeyAlgorithm::EcdsaP256,
        address_pools: [pools::MACHINES_V4, pools::MACHINES_V6]
            .map(pools::reference)
            .into(),
        control_plane_address_pool: load_balancers(),
        deployments: vec![DeploymentPlan::new("large", "workers", 2)],
        ..ClusterPlan::new("large", VERSION, 3, 0)
    };
    Plan {
        clusters: vec![small, large],
    }
}
