//! What is left of a Scenario when it runs again. Pure.

use kube::api::ObjectMeta;
use nephele_api::cloud::v1alpha1::Scenario;

/// A Scenario as a person wrote it.
#[must_use]
pub fn again(former: &Scenario) -> Scenario {
    Scenario {
        metadata: ObjectMeta {
            name: former.metadata.name.clone(),
            namespace: former.metadata.namespace.clone(),
            labels: former.metadata.labels.clone(),
            annotations: former.metadata.annotations.clone(),
            owner_references: former.metadata.owner_references.clone(),
            ..ObjectMeta::default()
        },
        spec: former.spec.clone(),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_as_it_was_without_what_the_api_server_and_the_manager_wrote() {
        let wanted = json!({
            "apiVersion": "cloud.nephele.dev/v1alpha1", "kind": "Scenario",
            "metadata": { "name": "s", "namespace": "n", "labels": { "a": "b" }, "annotations": { "c": "d" } },
            "spec": { "steps": [{ "say": "hello" }] },
        });
        let mut former = wanted.clone();
        former["metadata"]["uid"] = json!("1");
        former["metadata"]["resourceVersion"] = json!("2");
        former["metadata"]["finalizers"] = json!(["x/y"]);
        former["status"] = json!({ "phase": "Failed" });
        let former: Scenario = serde_json::from_value(former).expect("a Scenario");
        assert_eq!(serde_json::to_value(again(&former)).expect("JSON"), wanted);
    }
}
