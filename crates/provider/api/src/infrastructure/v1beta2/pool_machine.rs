//! Labels and annotations of an `InMemoryMachine` of a pool: its MachinePool, and the values that it was created with.
//!
//! Cluster API finds the machines of a pool by their labels. Values that are not in their Machines have to be on the
//! InMemoryMachines: the Machine of such a machine has no version before its Node has one, no failure domain and no
//! bootstrap data.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// On a machine of a pool: the MachinePool, by [`label_value`].
pub const POOL_NAME_LABEL: &str = "cluster.x-k8s.io/pool-name";
/// On a Machine of a pool: it is deleted before other machines.
pub const DELETE_MACHINE_ANNOTATION: &str = "cluster.x-k8s.io/delete-machine";
/// On a machine of a pool: the Kubernetes version that it was created with.
pub const VERSION_ANNOTATION: &str = "inmemorymachinepool.infrastructure.cluster.x-k8s.io/version";
/// On a machine of a pool: the failure domain that it was created for.
pub const FAILURE_DOMAIN_ANNOTATION: &str =
    "inmemorymachinepool.infrastructure.cluster.x-k8s.io/failure-domain";
/// On a machine of a pool: the hash of everything that it was created from.
pub const REVISION_ANNOTATION: &str = "inmemorymachinepool.infrastructure.cluster.x-k8s.io/revision";

/// The maximum length of a label value.
const LABEL_VALUE_MAX: usize = 63;

/// The value of an annotation.
#[must_use]
pub fn annotation<'a>(meta: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(name).map(String::as_str)
}

/// The value of the label `cluster.x-k8s.io/pool-name` for a MachinePool of this name: the name itself, or Cluster
/// API's hash of a name that is not a valid label value (`util/labels/format/helpers.go`, `MustFormatValue`).
#[must_use]
pub fn label_value(name: &str) -> String {
    if is_label_value(name) {
        return name.to_owned();
    }
    let hash = fnv1a_32(name.as_bytes()).to_be_bytes();
    format!("hash_{}_z", base64_url(hash))
}

fn is_label_value(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let ends = |c: char| c.is_ascii_alphanumeric();
    text.len() <= LABEL_VALUE_MAX
        && text.chars().all(inner)
        && text.chars().next().is_none_or(ends)
        && text.chars().last().is_none_or(ends)
}

/// FNV-1a of 32 bits (<http://www.isthe.com/chongo/tech/comp/fnv/>).
fn fnv1a_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// Four bytes in the alphabet of RFC 4648, section 5, without padding.
fn base64_url(bytes: [u8; 4]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    // Six characters of six bits: the last one holds two bits of the bytes and four zero bits.
    let bits = u64::from(u32::from_be_bytes(bytes)) << 4;
    let character = |position: u32| {
        let sextet = (bits >> (6 * (5 - position))) & 0x3f;
        char::from(ALPHABET[usize::try_from(sextet).expect("six bits")])
    };
    (0..6).map(character).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hashes are those that Go's `hash/fnv` and `encoding/base64` give.
    #[test]
    fn a_name_that_is_no_label_value_is_hashed_as_cluster_api_does() {
        assert_eq!(fnv1a_32(b"foobar"), 0xbf9c_f968);
        assert_eq!(base64_url([0xbf, 0x9c, 0xf9, 0x68]), "v5z5aA");
        assert_eq!(base64_url([0xff; 4]), "_____w");
        assert_eq!(label_value(&"machineSetName".repeat(12)), "hash_FR_ghQ_z");
        assert_eq!(label_value("pool-0"), "pool-0");
        assert_eq!(label_value(&"x".repeat(63)), "x".repeat(63));
        assert_eq!(label_value(&"x".repeat(64)).len(), "hash_FR_ghQ_z".len());
    }
}
