//! Nothing that a client sends makes the server panic, and every stored object can be read again.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Call, call, get, json_of, patch, pod, post, server};

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~]{0,8}".prop_map(Value::from),
        Just(Value::from("default")),
    ]
}

/// Trees of the field names that the server reads, with values of any type.
fn tree() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "kind",
        "apiVersion",
        "metadata",
        "name",
        "namespace",
        "generateName",
        "labels",
        "annotations",
        "uid",
        "resourceVersion",
        "generation",
        "finalizers",
        "ownerReferences",
        "deletionTimestamp",
        "creationTimestamp",
        "spec",
        "status",
        "data",
        "stringData",
        "replicas",
        "nodeName",
        "selector",
        "matchLabels",
        "names",
        "plural",
        "group",
        "versions",
        "scope",
        "conditions",
        "containers",
        "target",
        "deleteOptions",
        "preconditions",
        "propagationPolicy",
        "minAvailable",
        "$patch",
        "$retainKeys",
        "op",
        "path",
        "value",
        "taints",
        "type",
    ]);
    scalar().prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        ]
    })
}

const PATHS: [&str; 14] = [
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/pods/p",
    "/api/v1/namespaces/default/pods/p/status",
    "/api/v1/namespaces/default/pods/p/binding",
    "/api/v1/namespaces/default/pods/p/eviction",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/nodes",
    "/api/v1/nodes/n",
    "/apis/apps/v1/namespaces/default/deployments/d",
    "/apis/apps/v1/namespaces/default/deployments/d/scale",
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/events.k8s.io/v1/namespaces/default/events",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
];

const TYPES: [&str; 6] = [
    "application/json",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/vnd.kubernetes.protobuf",
    "",
];

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
}

proptest! {
    #[test]
    fn no_tree_panics(
        requests in prop::collection::vec(
            (
                prop::sample::select(PATHS.to_vec()),
                prop::sample::select(vec!["POST", "PUT", "PATCH", "DELETE"]),
                prop::sample::select(TYPES.to_vec()),
                tree(),
            ),
            1..12,
        ),
    ) {
        runtime().block_on(async {
            let server = server();
            post(&server, PATHS[0], pod("p", json!({}))).await;
            post(&server, "/api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
            post(&server, "/apis/apps/v1/namespaces/default/deployments", json!({"metadata": {"name": "d"}})).await;
            for (path, method, content_type, body) in requests {
                let body = body.to_string().into_bytes();
                let (code, answer) =
                    json_of(call(&server, Call { method, path, content_type, body, ..Call::default() }).await).await;
                assert!(code < 500, "{method} {path}: {answer}");
            }
            let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
            for path in ["/api/v1/pods", "/api/v1/nodes", "/apis/apps/v1/deployments"] {
                for accept in ["application/json", table] {
                    let response = call(&server, Call { path, accept, ..Call::default() }).await;
                    assert_eq!(json_of(response).await.0, 200);
                }
            }
        });
    }

    #[test]
    fn no_bytes_panic(
        path in prop_oneof![
            "/[ -~&&[^ \"<>`{}#\\\\^|]]{0,40}",
            "/api/v1/(pods|nodes|namespaces)(/[a-z%0-9]{0,6}){0,4}(\\?[a-zA-Z=&%0-9]{0,30})?",
        ],
        method in prop::sample::select(vec!["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"]),
        content_type in prop::sample::select(TYPES.to_vec()),
        mut body in prop::collection::vec(any::<u8>(), 0..60),
        magic in any::<bool>(),
    ) {
        if magic {
            body.splice(0..0, *b"k8s\0");
        }
        prop_assume!(path.parse::<http::Uri>().is_ok());
        runtime().block_on(async {
            let response = call(&server(), Call { method, path: &path, content_type, body, ..Call::default() }).await;
            assert!(response.status().as_u16() < 500, "{method} {path}");
        });
    }
}

#[tokio::test]
async fn deep_and_broken_json_is_refused() {
    let server = server();
    let path = "/api/v1/namespaces/default/configmaps";
    let deep = format!("{}{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
    let bodies = [
        deep.as_bytes(),
        b"{",
        b"{\"metadata\":",
        b"[1,2",
        b"\"text\"",
        b"\xff\xfe",
        b"{\"a\":1e999}",
        b"",
        b"{\"metadata\":{\"name\":\"a\"},\"data\":{\"k\":\"\xc3\x28\"}}",
    ];
    for body in bodies {
        let request = Call {
            method: "POST",
            path,
            body: body.to_vec(),
            ..Call::default()
        };
        assert_eq!(json_of(call(&server, request).await).await.0, 400);
    }
}

/// A patch may build deeper values than a request can carry, but none so deep that it cannot be read again.
#[tokio::test]
async fn patch_cannot_nest_beyond_what_can_be_read() {
    let server = server();
    let path = "/api/v1/nodes/n";
    post(
        &server,
        "/api/v1/nodes",
        json!({"metadata": {"name": "n"}, "spec": {"a": {}}}),
    )
    .await;
    let mut deep = json!({});
    for _ in 0..90 {
        deep = json!({"a": deep});
    }
    let first = json!([{"op": "add", "path": "/spec/a", "value": deep}]);
    assert_eq!(patch(&server, "json", path, &first).await.0, 200);
    let further = format!("/spec/a{}", "/a".repeat(90));
    let second = json!([{"op": "add", "path": further, "value": first[0]["value"]}]);
    assert_eq!(patch(&server, "json", path, &second).await.0, 422);
    assert_eq!(get(&server, path).await.0, 200);
}

/// Each copy doubles the source of the next; thirty of them would be gigabytes.
#[tokio::test]
async fn patch_cannot_multiply_an_object() {
    let server = server();
    let path = "/api/v1/nodes/n";
    post(
        &server,
        "/api/v1/nodes",
        json!({"metadata": {"name": "n"}, "spec": {"a": {"text": "x".repeat(1000)}}}),
    )
    .await;
    let mut operations = Vec::new();
    for index in 0..40 {
        operations.push(json!({"op": "copy", "from": "/spec", "path": format!("/spec/copy{index}")}));
    }
    let (code, answer) = patch(&server, "json", path, &Value::Array(operations)).await;
    assert!((400..500).contains(&code), "{code} {answer}");
    assert_eq!(get(&server, path).await.0, 200);
}
