//! A server without sockets, and helpers for its responses.

use std::sync::Arc;

use axum::body::Body;
use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt as _, BodyStream};
use jiff::Timestamp;
use nephele_apiserver::{ApiServer, Authentication, Settings, Store, StoreOptions, UserInfo, Version};
use serde_json::{Value, json};

pub(crate) const NOW: &str = "2026-01-02T03:04:05Z";

pub(crate) fn now() -> Timestamp {
    NOW.parse().unwrap()
}

pub(crate) fn settings(authentication: Authentication) -> Arc<Settings> {
    Arc::new(Settings {
        version: Version {
            major: "1".into(),
            minor: "36".into(),
            git_version: "v1.36.3".into(),
        },
        authentication,
        clock: Arc::new(now),
        observer: None,
    })
}

pub(crate) fn server_with(options: StoreOptions) -> ApiServer {
    let store = Store::new(options);
    store.create_default_namespaces(now());
    ApiServer::new(store, settings(Authentication::AllowAll))
}

pub(crate) fn server() -> ApiServer {
    server_with(StoreOptions::default())
}

pub(crate) struct Call<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) content_type: &'a str,
    pub(crate) accept: &'a str,
    pub(crate) body: Vec<u8>,
}

impl Default for Call<'_> {
    fn default() -> Self {
        Self {
            method: "GET",
            path: "/",
            content_type: "",
            accept: "",
            body: Vec::new(),
        }
    }
}

pub(crate) async fn call(server: &ApiServer, call: Call<'_>) -> Response<Body> {
    let mut request = Request::builder().method(call.method).uri(call.path);
    if !call.content_type.is_empty() {
        request = request.header("content-type", call.content_type);
    }
    if !call.accept.is_empty() {
        request = request.header("accept", call.accept);
    }
    server.handle(request.body(Body::from(call.body)).unwrap()).await
}

pub(crate) async fn json_of(response: Response<Body>) -> (u16, Value) {
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

pub(crate) async fn get(server: &ApiServer, path: &str) -> (u16, Value) {
    json_of(
        call(
            server,
            Call {
                path,
                ..Call::default()
            },
        )
        .await,
    )
    .await
}

pub(crate) async fn get_as(server: &ApiServer, path: &str, accept: &str) -> (u16, Value) {
    json_of(
        call(
            server,
            Call {
                path,
                accept,
                ..Call::default()
            },
        )
        .await,
    )
    .await
}

pub(crate) async fn send(server: &ApiServer, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let content_type = "application/json";
    let body = body.to_string().into_bytes();
    json_of(
        call(
            server,
            Call {
                method,
                path,
                content_type,
                body,
                ..Call::default()
            },
        )
        .await,
    )
    .await
}

pub(crate) async fn post(server: &ApiServer, path: &str, body: Value) -> Value {
    let (code, answer) = send(server, "POST", path, &body).await;
    assert_eq!(code, 201, "{path}: {answer}");
    answer
}

pub(crate) async fn patch(server: &ApiServer, kind: &str, path: &str, body: &Value) -> (u16, Value) {
    let content_type = format!("application/{kind}-patch+json");
    let body = body.to_string().into_bytes();
    let call_of = Call {
        method: "PATCH",
        path,
        content_type: &content_type,
        body,
        ..Call::default()
    };
    json_of(call(server, call_of).await).await
}

/// Applies an object. `query` begins with the field manager's name.
pub(crate) async fn apply(server: &ApiServer, path: &str, query: &str, body: Value) -> (u16, Value) {
    apply_text(server, path, query, &body.to_string()).await
}

/// As [`apply`], with YAML.
pub(crate) async fn apply_text(server: &ApiServer, path: &str, query: &str, body: &str) -> (u16, Value) {
    let path = format!("{path}?fieldManager={query}");
    let content_type = "application/apply-patch+yaml";
    let body = body.as_bytes().to_vec();
    let request = Call {
        method: "PATCH",
        path: &path,
        content_type,
        body,
        ..Call::default()
    };
    json_of(call(server, request).await).await
}

/// `managedFields` of an object, an entry a line: `manager operation subresource fields`.
pub(crate) fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    let line = |entry: &Value| {
        assert_eq!(entry["fieldsType"], "FieldsV1");
        assert!(
            entry["time"].is_string() && entry["apiVersion"].is_string(),
            "{entry}"
        );
        let subresource = match text(entry, "subresource") {
            none if none.is_empty() => none,
            some => format!(" {some}"),
        };
        format!(
            "{} {}{subresource} {}",
            text(entry, "manager"),
            text(entry, "operation"),
            entry["fieldsV1"]
        )
    };
    entries.iter().map(line).collect()
}

/// The message, reason and code of a `Status`.
pub(crate) fn failure((code, status): (u16, Value)) -> (u16, String, String) {
    assert_eq!(status["kind"], "Status", "{status}");
    assert_eq!(status["apiVersion"], "v1");
    assert_eq!(status["status"], "Failure");
    assert_eq!(status["code"], code);
    let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
    (code, text("reason"), text("message"))
}

pub(crate) fn pod(name: &str, labels: Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
}

/// A watch, frame by frame.
pub(crate) struct Watch {
    stream: BodyStream<Body>,
    buffer: Vec<u8>,
}

impl Watch {
    pub(crate) async fn open(server: &ApiServer, path: &str) -> Self {
        Self::open_as(server, path, "application/json").await
    }

    pub(crate) async fn open_as(server: &ApiServer, path: &str, accept: &str) -> Self {
        let response = call(
            server,
            Call {
                path,
                accept,
                ..Call::default()
            },
        )
        .await;
        assert_eq!(response.status(), 200);
        Self {
            stream: BodyStream::new(response.into_body()),
            buffer: Vec::new(),
        }
    }

    /// The next event. None when the watch has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.stream.next().await?.unwrap();
            self.buffer.extend_from_slice(&frame.into_data().unwrap());
        }
    }

    /// The next event as `TYPE name`, with `@end` for the end of the initial events.
    pub(crate) async fn brief(&mut self) -> String {
        let event = self.next().await.expect("the watch continues");
        brief(&event)
    }
}

pub(crate) fn brief(event: &Value) -> String {
    let metadata = &event["object"]["metadata"];
    let end = metadata["annotations"]["k8s.io/initial-events-end"] == "true";
    let name = if end {
        "@end"
    } else {
        metadata["name"].as_str().unwrap_or_default()
    };
    format!("{} {name}", event["type"].as_str().unwrap_or_default())
        .trim()
        .to_owned()
}

/// A request of a user with headers.
pub(crate) async fn request_as(
    server: &ApiServer,
    user: Option<UserInfo>,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> (u16, Value) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = if body.is_null() {
        Body::empty()
    } else {
        Body::from(body.to_string())
    };
    let mut request = request.body(body).unwrap();
    if let Some(user) = user {
        request.extensions_mut().insert(user);
    }
    json_of(server.handle(request).await).await
}
