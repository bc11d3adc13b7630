use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The annotation of objects that another system manages, not this provider, with any value.
///
/// It is an annotation, although the infrastructure cluster contract once called it a label (Cluster API,
/// `util/annotations/helpers.go`, `IsExternallyManaged`).
pub const MANAGED_BY_ANNOTATION: &str = "cluster.x-k8s.io/managed-by";

/// Whether another system manages the object: write no finalizer, status or condition to it.
#[must_use]
pub fn is_externally_managed(meta: &ObjectMeta) -> bool {
    has_annotation(meta, MANAGED_BY_ANNOTATION)
}

/// Whether the object has the annotation, with any value, including an empty one and `"false"`.
pub(crate) fn has_annotation(meta: &ObjectMeta, name: &str) -> bool {
    meta.annotations
        .as_ref()
        .is_some_and(|annotations| annotations.contains_key(name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn presence_counts_and_the_value_does_not() {
        let annotated = |name: &str, value: &str| ObjectMeta {
            annotations: Some(BTreeMap::from([(name.to_owned(), value.to_owned())])),
            ..ObjectMeta::default()
        };
        assert!(is_externally_managed(&annotated(MANAGED_BY_ANNOTATION, "")));
        assert!(is_externally_managed(&annotated(MANAGED_BY_ANNOTATION, "false")));
        assert!(!is_externally_managed(&annotated("cluster.x-k8s.io/paused", "")));
        assert!(!is_externally_managed(&ObjectMeta::default()));
    }

    #[test]
    fn a_label_of_that_name_means_nothing() {
        let labelled = ObjectMeta {
            labels: Some(BTreeMap::from([(
                MANAGED_BY_ANNOTATION.to_owned(),
                "x".to_owned(),
            )])),
            ..ObjectMeta::default()
        };
        assert!(!is_externally_managed(&labelled));
    }
}
