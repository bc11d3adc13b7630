//! An API server with an object in each of some collections.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use nephele_apiserver::{ApiServer, Authentication, Key, Settings, Store, StoreOptions, UserInfo, Version};
use serde_json::{Value, json};

pub(crate) const JSON: &str = "application/json";
pub(crate) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The collections with an object `a` at the start: one with columns of its own, one with lists of every strategy, one
/// of a custom kind, and one of each scope.
pub(crate) const COLLECTIONS: [&str; 5] = [
    "/api/v1/namespaces/default/configmaps",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/x.io/v1/namespaces/default/things",
    "/api/v1/namespaces/default/pods",
    "/api/v1/nodes",
];

/// An answer. It has no body if the body does not end, as that of a watch.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Option<Bytes>,
}

/// A server whose store nothing else changes.
pub(crate) fn server() -> ApiServer {
    static FIRST: OnceLock<Arc<Store>> = OnceLock::new();
    let settings = Settings {
        version: Version {
            major: "1".into(),
            minor: "36".into(),
            git_version: "v1.36.3".into(),
        },
        authentication: Authentication::Required,
        clock: Arc::new(now),
        observer: None,
    };
    ApiServer::new(FIRST.get_or_init(first_store).copy(), Arc::new(settings))
}

pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_767_323_045).expect("the year is 2026")
}

/// The user of most requests.
fn administrator() -> UserInfo {
    UserInfo {
        name: "admin".to_owned(),
        groups: vec!["system:masters".to_owned()],
    }
}

/// The headers of a usual request.
pub(crate) fn types(content_type: &str, accept: &str) -> HeaderMap {
    let value = |text| HeaderValue::from_str(text).expect("a media type is a value of a header");
    HeaderMap::from_iter([
        (header::CONTENT_TYPE, value(content_type)),
        (header::ACCEPT, value(accept)),
    ])
}

/// A request of the administrator. There is no answer if its line is not HTTP.
pub(crate) async fn send(
    server: &ApiServer,
    (method, uri): (&str, &str),
    headers: HeaderMap,
    body: &[u8],
) -> Option<Answer> {
    send_as(server, administrator(), (method, uri), headers, body).await
}

/// A request of a user.
pub(crate) async fn send_as(
    server: &ApiServer,
    user: UserInfo,
    (method, uri): (&str, &str),
    headers: HeaderMap,
    body: &[u8],
) -> Option<Answer> {
    let mut request = Request::builder()
        .method(method)
        .uri(uri)
        .body(Body::from(body.to_vec()))
        .ok()?;
    *request.headers_mut() = headers;
    request.extensions_mut().insert(user);
    let response = server.handle(request).await;
    let status = response.status();
    assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{method} {uri}");
    let body = tokio::time::timeout(Duration::from_secs(1), response.into_body().collect()).await;
    let body = body
        .ok()
        .map(|body| body.expect("no answer breaks off").to_bytes());
    Some(Answer { status, body })
}

/// Whether the objects of a collection can be shown in each form.
pub(crate) async fn shows(server: &ApiServer, collection: usize) {
    let uri = COLLECTIONS[collection];
    for accept in [JSON, TABLE] {
        let answer = send(server, ("GET", uri), types(JSON, accept), &[])
            .await
            .expect("the path is one");
        assert_eq!(answer.status, StatusCode::OK, "{uri} as {accept}");
        let body = answer.body.expect("a list ends");
        serde_json::from_slice::<Value>(&body).expect("an answer is JSON");
    }
}

fn first_store() -> Arc<Store> {
    let store = Store::new(StoreOptions::default());
    store.create_default_namespaces(now());
    let create = |group: &str, plural: &str, namespace: &str, name: &str, object: Value| {
        let key = Key::new(group, plural, namespace, name);
        store
            .create(now(), &key, object)
            .expect("an object of the table below is valid");
    };
    create(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "",
        "things.x.io",
        things(),
    );
    for (group, plural, namespace, mut object) in objects() {
        object["metadata"] = json!({"name": "a", "labels": {"app": "a"}, "finalizers": ["x.io/held"]});
        create(group, plural, namespace, "a", object);
    }
    store
}

/// A custom kind with a schema, subresources, columns and a field for selectors.
fn things() -> Value {
    let part = json!({"type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}, "count": {"type": "integer"}}});
    let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
        "size": {"type": "integer", "minimum": 0, "default": 1},
        "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": part},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    }});
    let schema = json!({"type": "object", "properties": {
        "spec": spec, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let columns = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
    ]);
    let scale = json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale}, "selectableFields": [{"jsonPath": ".spec.size"}],
        "additionalPrinterColumns": columns,
    });
    json!({
        "metadata": {"name": "things.x.io"},
        "spec": {"group": "x.io", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [version]},
    })
}

/// The objects without their metadata: group, plural, namespace and the rest, in the order of [`COLLECTIONS`].
fn objects() -> [(&'static str, &'static str, &'static str, Value); 5] {
    let container = json!({"name": "c", "image": "i", "ports": [{"containerPort": 80}],
        "env": [{"name": "E", "value": "v"}]});
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}});
    let deployment = json!({"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}});
    let thing = json!({"spec": {"parts": [{"name": "p"}], "tags": ["t"]}});
    let pod = json!({"spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]}});
    let node = json!({"spec": {"taints": [{"key": "t", "effect": "NoSchedule"}]}});
    [
        ("", "configmaps", "default", json!({"data": {"k": "v"}})),
        ("apps", "deployments", "default", deployment),
        ("x.io", "things", "default", thing),
        ("", "pods", "default", pod),
        ("", "nodes", "", node),
    ]
}
