//! Denies updates that would take over an externally managed cluster.
//!
//! The annotation can be added, but not removed (cluster-api,
//! `docs/proposals/20210203-externally-managed-cluster-infrastructure.md`): without it this provider would take over
//! infrastructure that another manager created, or delete it. It can be added at any time, as `clusterctl move` does
//! with the objects that it creates.
//!
//! The API server calls the webhook only for updates that remove the annotation, and denies the update when the webhook
//! does not answer. So the annotation cannot be removed without a manager either, and all other updates need no
//! manager. A dry run gets the same answer.

use nephele_api::infrastructure::GROUP;
use nephele_controller::MANAGED_BY_ANNOTATION;
use nephele_webhook::{AdmissionRequest, Cause, Change, Denial};
use serde_json::Value;

/// The kind.
const KIND: &str = "InMemoryCluster";

/// The URL path to which the API server sends admission requests for clusters.
#[must_use]
pub fn cluster_path() -> String {
    super::path("validate", KIND)
}

pub(super) fn decide(request: &AdmissionRequest<Value>) -> Result<(), Denial> {
    let Change::Update { old, new } = &request.change else {
        return Ok(());
    };
    let is_external = |object: &Value| {
        object["metadata"]["annotations"]
            .get(MANAGED_BY_ANNOTATION)
            .is_some()
    };
    if !is_external(old) || is_external(new) {
        return Ok(());
    }
    let cause = Cause {
        field: format!("metadata.annotations[{MANAGED_BY_ANNOTATION}]"),
        message: "cannot be removed: another manager created the infrastructure of this cluster".to_owned(),
    };
    Err(Denial::invalid(GROUP, KIND, &request.name, vec![cause]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(annotations: &Value) -> Value {
        json!({"metadata": {"name": "c", "annotations": annotations}, "spec": {}})
    }

    fn told(change: Change<Value>, dry_run: bool) -> Option<(i32, String)> {
        let request = AdmissionRequest {
            name: "c".to_owned(),
            namespace: Some("default".to_owned()),
            user: "alice".to_owned(),
            dry_run,
            change,
        };
        decide(&request)
            .err()
            .map(|denial| (denial.code(), denial.message().to_owned()))
    }

    #[test]
    fn a_cluster_of_another_manager_stays_theirs() {
        let theirs = json!({MANAGED_BY_ANNOTATION: "", "a": "b"});
        let ours = json!({"a": "b"});
        let update = |old: &Value, new: &Value| Change::Update {
            old: cluster(old),
            new: cluster(new),
        };
        let message = "InMemoryCluster.infrastructure.cluster.x-k8s.io \"c\" is invalid: \
                       metadata.annotations[cluster.x-k8s.io/managed-by]: cannot be removed: \
                       another manager created the infrastructure of this cluster";
        for dry_run in [false, true] {
            for without in [&ours, &Value::Null] {
                let refused = Some((422, message.to_owned()));
                assert_eq!(told(update(&theirs, without), dry_run), refused, "{without}");
            }
        }
        let renamed = json!({MANAGED_BY_ANNOTATION: "another", "c": "d"});
        for (old, new) in [
            (&ours, &theirs),
            (&theirs, &renamed),
            (&ours, &Value::Null),
            (&Value::Null, &theirs),
        ] {
            assert_eq!(told(update(old, new), false), None, "{old} {new}");
        }
    }

    #[test]
    fn one_that_is_made_or_deleted_is_nobodys_concern() {
        let theirs = cluster(&json!({MANAGED_BY_ANNOTATION: ""}));
        for change in [Change::Create(theirs.clone()), Change::Delete(theirs)] {
            assert_eq!(told(change, false), None);
        }
    }
}
