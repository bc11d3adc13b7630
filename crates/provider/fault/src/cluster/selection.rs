//! Which namespaces a ClusterFault selects. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use nephele_api::cloud::v1alpha1::ClusterFaultSpec;
use nephele_model::{LabelSelector, Selector};

/// The names of the namespaces that a ClusterFault selects, in their order.
pub fn selected<'a>(
    spec: &ClusterFaultSpec,
    namespaces: impl IntoIterator<Item = &'a Namespace>,
) -> Vec<&'a str> {
    let selector = namespaces_of(spec);
    let namespaces = namespaces.into_iter();
    let selected =
        namespaces.filter(|namespace| is_selected(&selector, namespace.labels(), is_going(namespace)));
    selected
        .map(|namespace| namespace.metadata.name.as_deref().unwrap_or_default())
        .collect()
}

/// The selector of the namespaces of a ClusterFault. Without one, all namespaces fit.
pub(super) fn namespaces_of(spec: &ClusterFaultSpec) -> Selector {
    spec.namespace_selector
        .as_ref()
        .map(LabelSelector::get)
        .cloned()
        .unwrap_or_default()
}

/// Whether a namespace is being deleted.
pub(super) fn is_going(namespace: &Namespace) -> bool {
    let phase = namespace
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    namespace.metadata.deletion_timestamp.is_some() || phase == Some("Terminating")
}

/// Whether a namespace with these labels gets the Fault. One that is being deleted takes none.
pub(super) fn is_selected(selector: &Selector, labels: &BTreeMap<String, String>, is_going: bool) -> bool {
    !is_going && selector.fits(labels)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn namespaces_with_the_labels_are_selected_unless_they_are_being_deleted() {
        let namespaces: Vec<Namespace> = [
            json!({ "metadata": { "name": "a", "labels": { "team": "blue" } } }),
            json!({ "metadata": { "name": "b" } }),
            json!({ "metadata": { "name": "c", "labels": { "team": "blue" } }, "status": { "phase": "Terminating" } }),
            json!({ "metadata": { "name": "d", "labels": { "team": "red" } }, "status": { "phase": "Active" } }),
        ]
        .map(|namespace| serde_json::from_value(namespace).expect("a Namespace"))
        .into();
        let named = |selector: Value| {
            let spec = json!({ "effect": { "freeze": {} }, "namespaceSelector": selector });
            let spec = serde_json::from_value(spec).expect("a spec");
            selected(&spec, &namespaces).join(" ")
        };
        assert_eq!(named(Value::Null), "a b d");
        assert_eq!(named(json!({ "matchLabels": { "team": "blue" } })), "a");
        let not_blue =
            json!({ "matchExpressions": [{ "key": "team", "operator": "NotIn", "values": ["blue"] }] });
        assert_eq!(named(not_blue), "b d");
    }
}
