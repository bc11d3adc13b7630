//! Subresources that are more than a part of their object, and requests that are answered rather than stored.

use axum::body::Body;
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::read::{find, key, served};
use super::selector::LabelSelector;
use super::server::UserInfo;
use super::status::{ApiError, json_response};
use super::write::{Write, decode};
use crate::patch;
use crate::store::{DeleteOptions, GroupResource, Object, Part, metadata_text};

impl Write<'_> {
    /// `autoscaling/v1` `Scale` of a workload.
    pub(crate) fn scale(&self, method: &Method) -> Result<Response<Body>, ApiError> {
        served(self.store, self.info)?;
        let object = find(self.store, self.info)?;
        let current = scale_of(&object.value());
        let wanted = match *method {
            Method::GET => return Ok(json_response(StatusCode::OK, &current)),
            Method::PUT => decode(self.headers, self.body)?,
            Method::PATCH => {
                let patch = serde_json::from_slice(self.body)
                    .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
                let mut wanted = current;
                patch::json_merge(&mut wanted, &patch);
                wanted
            }
            _ => return Err(ApiError::method_not_allowed()),
        };
        let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or(0);
        if replicas < 0 {
            return Err(ApiError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "Invalid",
                format!("spec.replicas: Invalid value: {replicas}: must be greater than or equal to 0"),
            ));
        }
        let dry_run = self.options.dry_run;
        let object = self.store.update(self.now, &key(self.info), Part::Main, dry_run, |mut value| {
            value["spec"]["replicas"] = replicas.into();
            Ok::<_, ApiError>(value)
        })?;
        Ok(json_response(StatusCode::OK, &scale_of(&object.value())))
    }

    /// `policy/v1` `Eviction`: a deletion that disruption budgets may refuse.
    pub(crate) fn evict(&self) -> Result<Response<Body>, ApiError> {
        let pod = find(self.store, self.info)?;
        let eviction = decode(self.headers, self.body)?;
        let phase = pod.value()["status"]["phase"].as_str().unwrap_or_default().to_owned();
        // A pod that has ended, or never began, disrupts nobody.
        if !matches!(phase.as_str(), "Succeeded" | "Failed" | "Pending") {
            self.check_budgets(&pod)?;
        }
        let options = &eviction["deleteOptions"];
        let uid = options["preconditions"]["uid"].as_str().map(str::to_owned);
        let delete = DeleteOptions { uid, ..DeleteOptions::default() };
        if self.options.dry_run || options["dryRun"].as_array().is_some_and(|list| !list.is_empty()) {
            self.store.delete_dry_run(&key(self.info), &delete)?;
        } else {
            self.store.delete(self.now, &key(self.info), &delete)?;
        }
        let status =
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Ok(json_response(StatusCode::CREATED, &status))
    }

    /// Refuses when a budget of the pod's would be broken: healthy pods of the budget, less one, must stay at or
    /// above what the budget wants (`registry/core/pod/storage/eviction.go`).
    fn check_budgets(&self, pod: &Object) -> Result<(), ApiError> {
        let budgets = GroupResource::new("policy", "poddisruptionbudgets");
        let pods = self.store.list(&key(self.info).resource, Some(&self.info.namespace)).objects;
        for budget in self.store.list(&budgets, Some(&self.info.namespace)).objects {
            let budget = budget.value();
            let selector = LabelSelector::from_object(&budget["spec"]["selector"]);
            if selector.is_everything() || !selector.matches(pod) {
                continue;
            }
            let selected: Vec<_> = pods.iter().filter(|pod| selector.matches(pod)).collect();
            let healthy = selected.iter().filter(|pod| is_ready(&pod.value())).count();
            let spec = &budget["spec"];
            let desired = if spec.get("minAvailable").is_some() {
                share(&spec["minAvailable"], selected.len())
            } else {
                selected.len().saturating_sub(share(&spec["maxUnavailable"], selected.len()))
            };
            if healthy.saturating_sub(1) < desired {
                let name = metadata_text(&budget, "name");
                let mut error = ApiError::new(
                    StatusCode::TOO_MANY_REQUESTS,
                    "TooManyRequests",
                    "Cannot evict pod as it would violate the pod's disruption budget.",
                );
                error.details = json!({
                    "causes": [{"reason": "DisruptionBudget", "message": format!(
                        "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")}],
                });
                return Err(error);
            }
        }
        Ok(())
    }

    /// `Binding`: what a scheduler says.
    pub(crate) fn bind(&self) -> Result<Response<Body>, ApiError> {
        let binding = decode(self.headers, self.body)?;
        let node = binding["target"]["name"].as_str().unwrap_or_default().to_owned();
        if node.is_empty() {
            return Err(ApiError::bad_request("target.name: Required value"));
        }
        self.store.update(self.now, &key(self.info), Part::Whole, self.options.dry_run, |mut pod| {
            pod["spec"]["nodeName"] = node.into();
            Ok::<_, ApiError>(pod)
        })?;
        let status =
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Ok(json_response(StatusCode::CREATED, &status))
    }

    /// Reviews: who may do what. Everybody who is let in may do everything.
    pub(crate) fn review(&self, kind: &str, user: Option<&UserInfo>) -> Result<Response<Body>, ApiError> {
        let mut review = decode(self.headers, self.body)?;
        review["kind"] = kind.into();
        review["apiVersion"] = format!("{}/{}", self.info.group, self.info.version).into();
        review["status"] = match kind {
            "SelfSubjectReview" => {
                let user = user.cloned().unwrap_or_default();
                json!({"userInfo": {"username": user.name, "groups": user.groups}})
            }
            "SelfSubjectRulesReview" => json!({
                "incomplete": false,
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }),
            _ => json!({"allowed": true}),
        };
        Ok(json_response(StatusCode::CREATED, &review))
    }
}

fn scale_of(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let labels = object["spec"]["selector"]["matchLabels"].as_object().cloned().unwrap_or_default();
    let selector: Vec<_> =
        labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
                     "resourceVersion": metadata["resourceVersion"],
                     "creationTimestamp": metadata["creationTimestamp"]},
        "spec": {"replicas": object["spec"]["replicas"].as_i64().unwrap_or(0)},
        "status": {"replicas": object["status"]["replicas"].as_i64().unwrap_or(0), "selector": selector.join(",")},
    })
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// A number, or a percentage of `total`, rounded up.
fn share(value: &Value, total: usize) -> usize {
    let percent =
        value.as_str().and_then(|text| text.strip_suffix('%')).and_then(|text| text.parse::<usize>().ok());
    match percent {
        Some(percent) => total.saturating_mul(percent).div_ceil(100),
        None => value.as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or(0),
    }
}
