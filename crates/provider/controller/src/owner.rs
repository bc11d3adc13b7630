use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use nephele_api::names::is_dns_subdomain;

/// The group of Cluster API's own kinds.
const CLUSTER_API_GROUP: &str = "cluster.x-k8s.io";

/// The owner reference to a Cluster, in any API version.
///
/// The `controller` flag is not checked, as in Cluster API (`util/util.go`, `GetOwnerCluster`).
#[must_use]
pub fn owner_cluster(meta: &ObjectMeta) -> Option<&OwnerReference> {
    owner_of_kind(meta, CLUSTER_API_GROUP, "Cluster")
}

/// The owner reference to a Machine, in any API version.
#[must_use]
pub fn owner_machine(meta: &ObjectMeta) -> Option<&OwnerReference> {
    owner_of_kind(meta, CLUSTER_API_GROUP, "Machine")
}

/// The first owner reference to a kind of a group, in any API version.
///
/// References whose name no object can have are left out: API servers do not check these names, and callers put them into
/// paths.
#[must_use]
pub fn owner_of_kind<'a>(meta: &'a ObjectMeta, group: &str, kind: &str) -> Option<&'a OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| {
        owner.kind == kind
            && is_dns_subdomain(&owner.name)
            && owner
                .api_version
                .split_once('/')
                .is_some_and(|(owner_group, _)| owner_group == group)
    })
}

/// Whether a reference to an object of this kind names another version than the one that is written now.
///
/// The garbage collector asks for owners by the version that a reference names, so references have to follow while both
/// versions are served. Cluster API does so for its kinds, and its specifications ask it of providers
/// (`test/framework/ownerreference_helpers.go`, `ValidateOwnerReferencesOnUpdate`).
#[must_use]
pub fn names_another_version<K: Resource<DynamicType = ()>>(owner: &OwnerReference) -> bool {
    owner.api_version != K::api_version(&())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(api_version: &str, kind: &str, name: &str) -> OwnerReference {
        OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            name: name.into(),
            uid: format!("uid-of-{name}"),
            ..OwnerReference::default()
        }
    }

    #[test]
    fn group_and_kind_decide_and_the_version_does_not() {
        let meta = ObjectMeta {
            owner_references: Some(vec![
                owner("controlplane.cluster.x-k8s.io/v1beta2", "Cluster", "other-group"),
                owner("v1", "Cluster", "core-group"),
                owner("cluster.x-k8s.io/v1beta2", "Cluster", "x/y?a="),
                owner("cluster.x-k8s.io/v1beta2", "Cluster", "x#"),
                owner("cluster.x-k8s.io/v1beta2", "Machine", "machine"),
                owner("cluster.x-k8s.io/v1beta1", "Cluster", "cluster"),
            ]),
            ..ObjectMeta::default()
        };
        assert_eq!(
            owner_cluster(&meta).map(|owner| owner.name.as_str()),
            Some("cluster")
        );
        assert_eq!(
            owner_machine(&meta).map(|owner| owner.name.as_str()),
            Some("machine")
        );
        assert_eq!(owner_cluster(&ObjectMeta::default()), None);
    }
}
