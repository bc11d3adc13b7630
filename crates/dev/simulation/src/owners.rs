//! Owner references as an earlier release would have written them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// The groups of our kinds, and no version that one of them had.
const GROUPS: [&str; 3] = [
    "infrastructure.cluster.x-k8s.io",
    "ipam.cluster.x-k8s.io",
    "cloud.nephele.dev",
];
const ANOTHER: &str = "v1alpha0";

/// The owner references of an object with another version of each of our kinds. None if there is none of ours.
pub(crate) fn outdated(metadata: &ObjectMeta) -> Option<Vec<OwnerReference>> {
    let mut owners = metadata.owner_references.clone()?;
    let mut is_one_ours = false;
    for owner in &mut owners {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        if let Some(group) = GROUPS.iter().find(|ours| **ours == group) {
            owner.api_version = format!("{group}/{ANOTHER}");
            is_one_ours = true;
        }
    }
    is_one_ours.then_some(owners)
}

/// Whether an owner reference has that version.
pub(crate) fn names_another_version(metadata: &ObjectMeta) -> bool {
    let owners = metadata.owner_references.iter().flatten();
    owners
        .into_iter()
        .any(|owner| owner.api_version.ends_with(&format!("/{ANOTHER}")))
}
