//! The finalizers of this provider, one per kind, and all kinds that have one.

use crate::{cloud, infrastructure, ipam};

/// Holds an `InMemoryCluster` until its simulated cluster is gone.
pub const CLUSTER: &str = "inmemorycluster.infrastructure.cluster.x-k8s.io";

/// Holds an `InMemoryMachine` until its simulated machine is gone.
pub const MACHINE: &str = "inmemorymachine.infrastructure.cluster.x-k8s.io";

/// Holds an `InMemoryMachinePool` until its machines are gone.
pub const MACHINE_POOL: &str = "inmemorymachinepool.infrastructure.cluster.x-k8s.io";

/// Holds a `Scenario` until its Faults are gone. A scenario that is over does not have it.
pub const SCENARIO: &str = "scenario.cloud.nephele.dev";

/// A kind whose objects have a finalizer until the manager has released what they hold. Without a manager they would stay
/// for good, and so would their definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The group of the kind.
    pub group: &'static str,
    /// The versions in which it may be served, the newest first.
    pub versions: &'static [&'static str],
    /// The value of `kind` in an object.
    pub kind: &'static str,
    /// The name of the kind in paths and permissions.
    pub plural: &'static str,
    /// The finalizer of its objects.
    pub finalizer: &'static str,
}

/// All kinds that have a finalizer of the manager. What waits for them, such as an uninstallation, reads this list.
pub const HELD: [Held; 10] = [
    of_infrastructure("InMemoryCluster", "inmemoryclusters", CLUSTER),
    of_infrastructure("InMemoryMachine", "inmemorymachines", MACHINE),
    of_infrastructure("InMemoryMachinePool", "inmemorymachinepools", MACHINE_POOL),
    Held {
        group: cloud::GROUP,
        versions: &["v1alpha1"],
        kind: "Scenario",
        plural: "scenarios",
        finalizer: SCENARIO,
    },
    pool("InClusterIPPool", "inclusterippools"),
    pool("GlobalInClusterIPPool", "globalinclusterippools"),
    pool("InClusterPrefixPool", "inclusterprefixpools"),
    pool("GlobalInClusterPrefixPool", "globalinclusterprefixpools"),
    of_cluster_api("IPAddressClaim", "ipaddressclaims", ipam::finalizers::CLAIM),
    of_cluster_api("IPAddress", "ipaddresses", ipam::finalizers::ADDRESS),
];

const fn of_infrastructure(kind: &'static str, plural: &'static str, finalizer: &'static str) -> Held {
    Held {
        group: infrastructure::GROUP,
        versions: &["v1beta2"],
        kind,
        plural,
        finalizer,
    }
}

const fn pool(kind: &'static str, plural: &'static str) -> Held {
    Held {
        group: ipam::GROUP,
        versions: &["v1alpha2"],
        kind,
        plural,
        finalizer: ipam::finalizers::POOL,
    }
}

/// Kinds of Cluster API, of which older releases serve the older version alone.
const fn of_cluster_api(kind: &'static str, plural: &'static str, finalizer: &'static str) -> Held {
    Held {
        group: ipam::GROUP,
        versions: &["v1beta2", "v1beta1"],
        kind,
        plural,
        finalizer,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The values of the constants in a file.
    fn constants(text: &str) -> BTreeSet<&str> {
        let lines = text
            .lines()
            .filter(|line| line.starts_with("pub const ") && line.contains(": &str = "));
        lines.filter_map(|line| line.split('"').nth(1)).collect()
    }

    #[test]
    fn every_finalizer_is_of_a_kind_in_the_list() {
        let mut declared = constants(include_str!("finalizers.rs"));
        declared.extend(constants(include_str!("ipam/finalizers.rs")));
        let listed: BTreeSet<_> = HELD.iter().map(|held| held.finalizer).collect();
        assert_eq!(listed, declared);
    }

    #[test]
    fn kinds_of_ours_are_served_under_these_names() {
        let definitions = crate::crds();
        for held in HELD
            .iter()
            .filter(|held| held.finalizer != ipam::finalizers::CLAIM)
        {
            if held.finalizer == ipam::finalizers::ADDRESS {
                continue;
            }
            let name = format!("{}.{}", held.plural, held.group);
            let found = definitions
                .iter()
                .find(|one| one.metadata.name.as_deref() == Some(&name));
            let spec = &found.unwrap_or_else(|| panic!("no definition {name}")).spec;
            assert_eq!(spec.names.kind, held.kind);
            let served: Vec<_> = spec
                .versions
                .iter()
                .filter(|version| version.served)
                .map(|version| &*version.name)
                .collect();
            assert!(
                held.versions.iter().all(|version| served.contains(version)),
                "{name}: {served:?}"
            );
        }
        let pools = HELD
            .iter()
            .filter(|held| held.finalizer == ipam::finalizers::POOL)
            .map(|held| held.kind);
        assert!(pools.eq(ipam::PoolKind::ALL.map(ipam::PoolKind::as_str)));
    }
}
