//! Subresources that are more than a part of their object, and kinds whose requests are answered but not stored.

use axum::body::Body;
use http::{HeaderMap, Method, Response, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{
    body::{decode, media_type, set_in},
    budget,
    field_manager::{APPLY, apply_is_unsupported},
    impersonate::Requester,
    read::find,
    status::{ApiError, json_response},
    write::{Write, is_dry_run, preconditions},
};
use crate::{
    patch,
    registry::ResourceType,
    store::{DeleteOptions, Key, Part, StoreError, metadata_text},
};

/// Held from reading the budgets to deleting the pod, so that two evictions cannot both use the last allowed
/// disruption. One for all stores: evictions are rare and short.
static EVICTION: Mutex<()> = Mutex::new(());

impl Write<'_> {
    /// `autoscaling/v1` `Scale` of a workload.
    pub(crate) fn scale(&self, method: &Method) -> Result<Response<Body>, ApiError> {
        let object = find(self.store, &self.key)?;
        let value = object.value();
        let current = scale_of(self.kind(), &value);
        let wanted = match *method {
            Method::GET | Method::HEAD if self.kind().custom && !value["spec"]["replicas"].is_i64() => {
                let message =
                    "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist";
                return Err(ApiError::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "InternalError",
                    message,
                ));
            }
            Method::GET | Method::HEAD => return Ok(json_response(StatusCode::OK, &current)),
            Method::PUT => decode(self.headers, self.body)?,
            // Upstream maps the fields of a Scale to those of its workload. That is not needed here yet.
            Method::PATCH if media_type(self.headers) == APPLY => return Err(apply_is_unsupported()),
            Method::PATCH => {
                let patch = serde_json::from_slice(self.body)
                    .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
                match media_type(self.headers) {
                    "application/json-patch+json" => patch::json_patch(&current, self.body)?,
                    // A Scale has no lists, so strategic and plain merge patches are the same.
                    _ => {
                        let mut wanted = current;
                        patch::json_merge(&mut wanted, &patch);
                        wanted
                    }
                }
            }
            _ => return Err(ApiError::method_not_allowed()),
        };
        let replicas = match &wanted["spec"]["replicas"] {
            Value::Null => 0,
            value => value.as_i64().filter(|&replicas| replicas >= 0).ok_or_else(|| {
                let message = format!(
                    "Scale.autoscaling {:?} is invalid: spec.replicas: Invalid value: {value}: must be greater than or equal to 0",
                    self.key.name
                );
                ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
            })?,
        };
        let object = self.write(Part::Main, |mut value| {
            self.check_version(&value, &wanted)?;
            set_in(&mut value, "spec", "replicas", replicas.into());
            Ok(value)
        })?;
        Ok(json_response(
            StatusCode::OK,
            &scale_of(self.kind(), &object.value()),
        ))
    }

    /// `policy/v1` `Eviction`: a deletion that PodDisruptionBudgets may refuse.
    pub(crate) fn evict(&self) -> Result<Response<Body>, ApiError> {
        let eviction = decode(self.headers, self.body)?;
        let options = &eviction["deleteOptions"];
        let (uid, resource_version) = preconditions(options)?;
        let delete = DeleteOptions {
            uid,
            resource_version,
            ..DeleteOptions::default()
        };
        let one_at_a_time = EVICTION.lock();
        let pod = find(self.store, &self.key)?;
        budget::admit(self.store, &pod)?;
        if self.options.dry_run || is_dry_run(options) {
            self.store.delete_dry_run(&self.key, &delete)?;
        } else {
            self.store.delete(self.now, &self.key, &delete)?;
        }
        drop(one_at_a_time);
        Ok(created())
    }

    /// `Binding`: a scheduler assigns a pod to a Node.
    pub(crate) fn bind(&self) -> Result<Response<Body>, ApiError> {
        self.bind_to(&self.key, &decode(self.headers, self.body)?)
    }

    /// A `Binding` in its own collection. It has the name of its pod.
    pub(crate) fn bind_named(&self) -> Result<Response<Body>, ApiError> {
        let binding = decode(self.headers, self.body)?;
        self.check_place(&binding)?;
        let pod = Key::new("", "pods", &self.key.namespace, metadata_text(&binding, "name"));
        self.bind_to(&pod, &binding)
    }

    fn bind_to(&self, key: &Key, binding: &Value) -> Result<Response<Body>, ApiError> {
        let node = binding["target"]["name"].as_str().unwrap_or_default();
        if node.is_empty() {
            return Err(ApiError::bad_request("target.name: Required value"));
        }
        self.store
            .update(self.now, key, Part::Whole, self.options.dry_run, |mut pod| {
                self.check_version(&pod, binding)?;
                if let Some(assigned) = pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty()) {
                    let message = format!("pod {} is already assigned to node {assigned:?}", key.name);
                    let resource = key.resource.clone();
                    let name = key.name.clone();
                    return Err(StoreError::Conflict {
                        resource,
                        name,
                        message,
                    }
                    .into());
                }
                set_in(&mut pod, "spec", "nodeName", node.into());
                let mut conditions = pod["status"]["conditions"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default();
                conditions.retain(|condition| condition["type"] != "PodScheduled");
                conditions.push(json!({
                    "type": "PodScheduled", "status": "True",
                    "lastTransitionTime": self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                }));
                set_in(&mut pod, "status", "conditions", conditions.into());
                Ok::<_, ApiError>(pod)
            })?;
        Ok(created())
    }
}

/// Answers which requests the user may send. Every authenticated user may send all requests.
pub(crate) fn review(
    api_version: &str,
    kind: &str,
    requester: &Requester,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Response<Body>, ApiError> {
    let mut review = match kind {
        // The response depends on no field of the body.
        "SelfSubjectReview" => json!({"metadata": {}}),
        _ => decode(headers, body)?,
    };
    let status = match kind {
        "SelfSubjectReview" => {
            let mut info = json!({"username": requester.user.name, "groups": requester.user.groups});
            if !requester.uid.is_empty() {
                info["uid"] = requester.uid.as_str().into();
            }
            if !requester.extra.is_empty() {
                info["extra"] = json!(requester.extra);
            }
            json!({"userInfo": info})
        }
        "SelfSubjectRulesReview" => json!({
            "incomplete": false,
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }),
        // This server issues no tokens, so it knows none.
        "TokenReview" => json!({"authenticated": false, "error": "invalid bearer token"}),
        _ => json!({"allowed": true}),
    };
    let object = review
        .as_object_mut()
        .ok_or_else(|| ApiError::bad_request("the body is not an object"))?;
    object.insert("kind".to_owned(), kind.into());
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("status".to_owned(), status);
    Ok(json_response(StatusCode::CREATED, &review))
}

fn created() -> Response<Body> {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    json_response(StatusCode::CREATED, &status)
}

fn scale_of(kind: &ResourceType, object: &Value) -> Value {
    // Built-in kinds have a default, which objects of the owner of the store may lack.
    let default = if kind.custom { 0 } else { 1 };
    let replicas = object["spec"]["replicas"].as_i64().unwrap_or(default);
    let metadata = &object["metadata"];
    let selector = &object["spec"]["selector"];
    // The selector of a ReplicationController is only labels.
    let labels = if kind.kind == "ReplicationController" {
        selector
    } else {
        &selector["matchLabels"]
    };
    let labels = labels.as_object().cloned().unwrap_or_default();
    // Custom kinds write their selector into the status themselves.
    let selector = object["status"]["selector"].as_str().map_or_else(
        || {
            let pair =
                |(key, value): (&String, &Value)| format!("{key}={}", value.as_str().unwrap_or_default());
            labels.iter().map(pair).collect::<Vec<_>>().join(",")
        },
        str::to_owned,
    );
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {"name": metadata["name"], "uid": metadata["uid"],
                     "resourceVersion": metadata["resourceVersion"],
                     "creationTimestamp": metadata["creationTimestamp"]},
        "spec": {"replicas": replicas},
        "status": {"replicas": object["status"]["replicas"].as_i64().unwrap_or(0), "selector": selector},
    });
    let namespace = metadata_text(object, "namespace");
    if !namespace.is_empty() {
        scale["metadata"]["namespace"] = namespace.into();
    }
    scale
}
