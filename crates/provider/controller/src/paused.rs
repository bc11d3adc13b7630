use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use nephele_api::core::Cluster;

use crate::external::has_annotation;

/// Pauses the object that has this annotation, with any value.
pub const PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";

/// Why `object` is paused, by itself or through its Cluster: the message of its `Paused` condition. `None` if it is
/// not paused. A missing Cluster does not pause an object.
#[must_use]
pub fn paused<K: Resource<DynamicType = ()>>(object: &K, cluster: Option<&Cluster>) -> Option<String> {
    paused_message(
        &K::kind(&()),
        object.meta(),
        cluster.is_some_and(Cluster::is_paused),
    )
}

/// Why an object of `kind` is paused: the message of its `Paused` condition. `None` if it is not paused.
///
/// The wording is Cluster API's own (`util/paused/paused.go`); `clusterctl describe` shows it.
#[must_use]
pub fn paused_message(kind: &str, meta: &ObjectMeta, cluster_paused: bool) -> Option<String> {
    let mut reasons = Vec::new();
    if cluster_paused {
        reasons.push("Cluster spec.paused is set to true".to_owned());
    }
    if has_annotation(meta, PAUSED_ANNOTATION) {
        reasons.push(format!("{kind} has the {PAUSED_ANNOTATION} annotation"));
    }
    (!reasons.is_empty()).then(|| reasons.join(", "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_cluster_pauses_what_belongs_to_it_and_its_absence_nothing() {
        let mut cluster = Cluster::default();
        let object = Cluster::default();
        assert_eq!(paused(&object, None), None);
        assert_eq!(paused(&object, Some(&cluster)), None);
        cluster.spec.paused = Some(true);
        assert_eq!(
            paused(&object, Some(&cluster)).as_deref(),
            Some("Cluster spec.paused is set to true")
        );
    }

    #[test]
    fn the_message_names_every_reason() {
        let plain = ObjectMeta::default();
        let annotated = ObjectMeta {
            annotations: Some(BTreeMap::from([(
                PAUSED_ANNOTATION.to_owned(),
                "false".to_owned(),
            )])),
            ..ObjectMeta::default()
        };
        let message = |meta, cluster_paused| paused_message("InMemoryMachine", meta, cluster_paused);
        assert_eq!(message(&plain, false), None);
        assert_eq!(
            message(&plain, true).as_deref(),
            Some("Cluster spec.paused is set to true")
        );
        assert_eq!(
            message(&annotated, false).as_deref(),
            Some("InMemoryMachine has the cluster.x-k8s.io/paused annotation")
        );
        assert_eq!(
            message(&annotated, true).as_deref(),
            Some(
                "Cluster spec.paused is set to true, InMemoryMachine has the cluster.x-k8s.io/paused annotation"
            )
        );
    }
}
