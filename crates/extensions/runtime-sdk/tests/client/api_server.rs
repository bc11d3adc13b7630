//! The parts of an API server that a reconciler of extensions needs, in memory.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::service_fn;

/// Objects by their path.
#[derive(Clone, Default)]
pub(crate) struct ApiServer {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    version: u64,
    writes: Vec<String>,
    away: bool,
}

impl ApiServer {
    pub(crate) fn client(&self) -> kube::Client {
        let state = self.state.clone();
        let service = service_fn(move |request: Request<Body>| {
            let state = state.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body
                    .collect()
                    .await
                    .map(http_body_util::Collected::to_bytes)
                    .unwrap_or_default();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let (code, answer) = state.lock().answer(head.method.as_str(), head.uri.path(), &body);
                let answer = Full::new(Bytes::from(answer.to_string()));
                Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
            }
        });
        kube::Client::new(service, "default")
    }

    /// Creates or changes an object; the server sets its version and generation.
    pub(crate) fn put(&self, path: &str, object: &Value) {
        let mut state = self.state.lock();
        let mut object = object.clone();
        state.version += 1;
        object["metadata"]["resourceVersion"] = json!(state.version.to_string());
        let before = state
            .objects
            .get(path)
            .map_or(0, |before| before["metadata"]["generation"].as_i64().unwrap_or(0));
        object["metadata"]["generation"] = json!(before + 1);
        state.objects.insert(path.to_owned(), object);
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.state.lock().objects[path].clone()
    }

    pub(crate) fn remove(&self, path: &str) {
        self.state.lock().objects.remove(path);
    }

    /// Returns the writes so far, and forgets them.
    pub(crate) fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().writes)
    }

    /// With `true`, the server answers only errors. With `false`, it works again.
    pub(crate) fn away(&self, away: bool) {
        self.state.lock().away = away;
    }
}

impl State {
    fn answer(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        if self.away {
            return (500, failure(500, "InternalError"));
        }
        let (object, subresource) = match path.strip_suffix("/status") {
            Some(object) => (object, true),
            None => (path, false),
        };
        match method {
            "GET" if self.objects.contains_key(path) => (200, self.objects[path].clone()),
            "GET" if path.ends_with("extensionconfigs") || path.ends_with("machineextensions") => {
                let within = format!("{path}/");
                let items = self.objects.iter().filter(|(key, _)| key.starts_with(&within));
                let items: Vec<&Value> = items.map(|(_, object)| object).collect();
                (
                    200,
                    json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": items }),
                )
            }
            "GET" => (404, failure(404, "NotFound")),
            "PATCH" => self.patch(object, subresource, body),
            _ => (405, failure(405, "MethodNotAllowed")),
        }
    }

    fn patch(&mut self, path: &str, subresource: bool, patch: &Value) -> (u16, Value) {
        let Some(before) = self.objects.get(path).cloned() else {
            return (404, failure(404, "NotFound"));
        };
        let wanted = &patch["metadata"]["resourceVersion"];
        let version = &before["metadata"]["resourceVersion"];
        if !wanted.is_null() && wanted != version {
            return (409, failure(409, "Conflict"));
        }
        let mut after = before.clone();
        let part = if subresource { "status" } else { "spec" };
        let mut change = json!({});
        change[part] = patch[part].clone();
        json_patch::merge(&mut after, &change);
        self.writes.push(format!(
            "{part} of {}",
            path.rsplit('/').next().unwrap_or_default()
        ));
        if after != before {
            self.version += 1;
            after["metadata"]["resourceVersion"] = json!(self.version.to_string());
            if after["spec"] != before["spec"] {
                let generation = before["metadata"]["generation"].as_i64().unwrap_or(0);
                after["metadata"]["generation"] = json!(generation + 1);
            }
        }
        self.objects.insert(path.to_owned(), after.clone());
        (200, after)
    }
}

fn failure(code: u16, reason: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "reason": reason,
        "message": reason, "code": code,
    })
}
