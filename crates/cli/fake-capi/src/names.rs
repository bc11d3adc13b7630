//! Names of labels, finalizers, Secrets and machines, as in Cluster API.

use std::collections::BTreeSet;

/// Holds a Cluster until its machines and infrastructure are gone (`api/core/v1beta2/cluster_types.go`).
pub(crate) const CLUSTER_FINALIZER: &str = "cluster.cluster.x-k8s.io";
/// Holds a Machine until its infrastructure and Node are gone (`api/core/v1beta2/machine_types.go`).
pub(crate) const MACHINE_FINALIZER: &str = "machine.cluster.x-k8s.io";
/// Holds a MachinePool until its machines are gone (`api/core/v1beta2/machinepool_types.go`).
pub(crate) const POOL_FINALIZER: &str = "machinepool.cluster.x-k8s.io";
/// Holds a MachineDeployment until its MachineSets are gone (`api/core/v1beta2/machinedeployment_types.go`).
pub(crate) const DEPLOYMENT_FINALIZER: &str = "cluster.x-k8s.io/machinedeployment";
/// Holds a MachineSet until its Machines are gone (`api/core/v1beta2/machineset_types.go`).
pub(crate) const SET_FINALIZER: &str = "cluster.x-k8s.io/machineset";
/// Holds a KubeadmControlPlane until its Machines are gone
/// (`api/controlplane/kubeadm/v1beta2/kubeadm_control_plane_types.go`).
pub(crate) const CONTROL_PLANE_FINALIZER: &str = "kubeadm.controlplane.cluster.x-k8s.io";
/// The type of Secrets that belong to a cluster (`api/core/v1beta2/cluster_types.go`).
pub(crate) const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";

/// Tells the Machines of a MachineSet from those with other templates (`api/core/v1beta2/machinedeployment_types.go`).
pub(crate) const TEMPLATE_HASH_LABEL: &str = "machine-template-hash";

/// The Secret of a cluster for a purpose: `ca`, `etcd`, `proxy`, `sa`, `kubeconfig`.
pub(crate) fn secret(cluster: &str, purpose: &str) -> String {
    format!("{cluster}-{purpose}")
}

/// The MachinePool of a cluster.
pub(crate) fn pool(cluster: &str) -> String {
    format!("{cluster}-mp-0")
}

/// The longest base, with the hyphen after it (`apiserver/pkg/storage/names` of Kubernetes): a name is a label's value.
const BASE_MAX: usize = 58;

/// The first free name for an object with this base. The suffix looks as random as in Cluster API, but is always the
/// same for the same salt.
pub(crate) fn generated(base: &str, salt: &str, taken: &BTreeSet<String>) -> String {
    let mut beginning = format!("{base}-");
    // Names of objects are ASCII; of others, a character stays whole.
    beginning.truncate(beginning.floor_char_boundary(BASE_MAX));
    (0u32..)
        .map(|attempt| format!("{beginning}{}", suffix(base, salt, attempt)))
        .find(|name| !taken.contains(name))
        .expect("there are more suffixes than objects")
}

/// The value of [`TEMPLATE_HASH_LABEL`] of a MachineSet with this name: a number, and the end of the name.
pub(crate) fn template_hash(set: &str, salt: &str) -> String {
    let number = fnv(salt.bytes()) & u64::from(u32::MAX);
    let end = set.rsplit('-').next().unwrap_or_default();
    format!("{number}-{end}")
}

/// Five of the letters and digits that Kubernetes uses in generated names (`apimachinery/pkg/util/rand`): no vowels, so
/// that no words appear.
fn suffix(base: &str, salt: &str, attempt: u32) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut hash = fnv(base.bytes().chain(salt.bytes()).chain(attempt.to_be_bytes()));
    let mut letters = String::new();
    for _ in 0..5 {
        let index = usize::try_from(hash % 27).expect("below 27");
        letters.push(char::from(LETTERS[index]));
        hash /= 27;
    }
    letters
}

/// FNV-1a: the same on every machine and in every version.
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_get_names_of_their_own_and_always_the_same() {
        let mut taken = BTreeSet::new();
        for _ in 0..200 {
            let name = generated("demo-md-0", "", &taken);
            assert!(
                name.strip_prefix("demo-md-0-")
                    .is_some_and(|suffix| suffix.len() == 5),
                "{name}"
            );
            assert_eq!(generated("demo-md-0", "", &taken), name);
            assert_ne!(generated("demo-md-0", "other", &taken), name);
            assert!(taken.insert(name));
        }
    }

    #[test]
    fn names_are_no_longer_than_a_label_may_be() {
        let name = generated(&"a".repeat(63), "", &BTreeSet::new());
        assert_eq!((name.len(), &name[..58]), (63, "a".repeat(58).as_str()));
    }
}
