//! The table of differences to a real API server, row by row.

use std::collections::BTreeSet;

use nephele_apiserver::{ApiServer, Authentication, StoreOptions, UserInfo};
use serde_json::{Value, json};

use crate::support::{
    Call, call, failure, get, get_as, pod, post, request_as, send, server, server_with, settings,
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CAN_I: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const WHO_AM_I: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

#[test]
fn each_row_names_its_test_and_each_test_its_row() {
    let rows = include_str!("../../DIFFERENCES.md").lines().filter(|line| line.starts_with("| "));
    let named: BTreeSet<&str> = rows.filter_map(|row| row.rsplit('`').nth(1)).collect();
    let source = include_str!("differences.rs");
    let tests: BTreeSet<&str> =
        source.lines().filter_map(|line| line.strip_prefix("async fn ")?.strip_suffix("() {")).collect();
    assert_eq!(named, tests);
}

/// A server that requires authentication.
fn guarded() -> ApiServer {
    ApiServer::new(server().store().clone(), settings(Authentication::Required))
}

fn user(name: &str, group: &str) -> UserInfo {
    UserInfo { name: name.to_owned(), groups: vec![group.to_owned(), "system:authenticated".to_owned()] }
}

fn kubelet() -> UserInfo {
    user("system:node:n", "system:nodes")
}

fn admin() -> UserInfo {
    user("kubernetes-admin", "system:masters")
}

fn definition(versions: Value) -> Value {
    json!({"metadata": {"name": "things.x.io"},
           "spec": {"group": "x.io", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"}, "versions": versions}})
}

fn version(name: &str, storage: bool) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer"}, "color": {"type": "string", "default": "red"}}}}}});
    json!({"name": name, "served": true, "storage": storage, "schema": schema})
}

#[tokio::test]
async fn kubelet_may_do_everything() {
    let server = guarded();
    for (method, path) in [("GET", "/api/v1/secrets"), ("DELETE", MAPS), ("GET", "/api/v1/nodes")] {
        assert_eq!(
            request_as(&server, Some(kubelet()), method, path, &[], &Value::Null).await.0,
            200,
            "{path}"
        );
    }
    let (code, review) = request_as(&server, Some(kubelet()), "POST", CAN_I, &[], &json!({"spec": {}})).await;
    assert_eq!((code, &review["status"]), (201, &json!({"allowed": true})));
}

#[tokio::test]
async fn only_masters_act_as_others() {
    let server = guarded();
    let review = |user, headers: &'static [(&'static str, &'static str)]| {
        let server = server.clone();
        async move { request_as(&server, Some(user), "POST", WHO_AM_I, headers, &json!({})).await }
    };
    let headers =
        &[("impersonate-user", "bob"), ("impersonate-group", "dev"), ("impersonate-extra-a%2fb", "c")];
    let (_, answer) = review(admin(), headers).await;
    let expected =
        json!({"username": "bob", "groups": ["dev", "system:authenticated"], "extra": {"a/b": ["c"]}});
    assert_eq!(answer["status"]["userInfo"], expected);
    let (_, answer) = review(admin(), &[("impersonate-user", "system:serviceaccount:ns:sa")]).await;
    let groups = json!(["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]);
    assert_eq!(answer["status"]["userInfo"]["groups"], groups);
    let (code, reason, message) = failure(review(kubelet(), headers).await);
    assert_eq!((code, reason.as_str()), (403, "Forbidden"));
    let expected = "users \"bob\" is forbidden: User \"system:node:n\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope";
    assert_eq!(message, expected);
    // A query parameter that is not supported is refused, for discovery and for objects.
    for path in ["/api", MAPS] {
        let answer = request_as(&server, Some(kubelet()), "GET", path, headers, &Value::Null).await;
        assert_eq!(failure(answer).0, 403, "{path}");
    }
    assert_eq!(failure(review(admin(), &[("impersonate-group", "dev")]).await).0, 400);
    let (_, answer) = review(admin(), &[]).await;
    let expected =
        json!({"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]});
    assert_eq!(answer["status"]["userInfo"], expected);
}

#[tokio::test]
async fn service_accounts_have_no_tokens() {
    let server = server();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    post(&server, accounts, json!({"metadata": {"name": "a"}})).await;
    assert_eq!(send(&server, "POST", &format!("{accounts}/a/token"), &json!({})).await.0, 404);
    let bearer = &[("authorization", "Bearer abc")];
    assert_eq!(request_as(&guarded(), None, "GET", MAPS, bearer, &Value::Null).await.0, 401);
}

#[tokio::test]
async fn server_side_apply_is_refused() {
    let server = server();
    let path = &format!("{MAPS}/a");
    let content_type = "application/apply-patch+yaml";
    post(&server, MAPS, json!({"metadata": {"name": "a"}})).await;
    let answer = call(&server, Call { method: "PATCH", path, content_type, ..Call::default() }).await;
    assert_eq!(answer.status(), 415);
}

#[tokio::test]
async fn managed_fields_are_dropped() {
    let metadata = json!({"name": "a", "managedFields": [{"manager": "m"}]});
    let answer = post(&server(), MAPS, json!({ "metadata": metadata })).await;
    assert_eq!(answer["metadata"].get("managedFields"), None);
}

#[tokio::test]
async fn pod_without_containers_is_taken() {
    post(&server(), PODS, json!({"metadata": {"name": "p"}, "spec": {"nonsense": 1}})).await;
}

#[tokio::test]
async fn custom_objects_are_stored_as_sent() {
    let server = server();
    post(&server, DEFINITIONS, definition(json!([version("v1", true)]))).await;
    let spec = json!({"size": "no number", "unknown": 1});
    let answer =
        post(&server, "/apis/x.io/v1/things", json!({"metadata": {"name": "t"}, "spec": spec})).await;
    assert_eq!(answer["spec"], spec);
}

#[tokio::test]
async fn kind_with_a_conversion_webhook_has_its_stored_version_only() {
    let server = server();
    let mut webhook = definition(json!([version("v1", true), version("v2", false)]));
    webhook["spec"]["conversion"] = json!({"strategy": "Webhook"});
    post(&server, DEFINITIONS, webhook).await;
    assert_eq!(get(&server, "/apis/x.io/v1/things").await.0, 200);
    assert_eq!(get(&server, "/apis/x.io/v2/things").await.0, 404);
}

#[tokio::test]
async fn admission_webhooks_are_not_called() {
    let server = server();
    let webhooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]});
    let webhook = json!({"name": "a.x.io", "failurePolicy": "Fail", "rules": [rule],
                         "clientConfig": {"url": "https://192.0.2.1/"}});
    post(&server, webhooks, json!({"metadata": {"name": "w"}, "webhooks": [webhook]})).await;
    post(&server, MAPS, json!({"metadata": {"name": "a"}})).await;
}

#[tokio::test]
async fn quotas_are_not_enforced() {
    let server = server();
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "0"}}});
    post(&server, "/api/v1/namespaces/default/resourcequotas", quota).await;
    post(&server, MAPS, json!({"metadata": {"name": "a"}})).await;
}

#[tokio::test]
async fn pods_go_at_once() {
    let server = server();
    post(&server, PODS, pod("p", json!({}))).await;
    let path = format!("{PODS}/p");
    assert_eq!(send(&server, "DELETE", &path, &json!({"gracePeriodSeconds": 30})).await.0, 200);
    assert_eq!(get(&server, &path).await.0, 404);
}

#[tokio::test]
async fn services_get_no_cluster_ip() {
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let answer = post(&server(), "/api/v1/namespaces/default/services", service).await;
    assert_eq!(answer["spec"].get("clusterIP"), None);
}

#[tokio::test]
async fn containers_cannot_be_entered() {
    let server = server();
    post(&server, PODS, pod("p", json!({}))).await;
    for subresource in ["exec", "attach", "proxy"] {
        assert_eq!(get(&server, &format!("{PODS}/p/{subresource}")).await.0, 404, "{subresource}");
    }
}

#[tokio::test]
async fn continue_token_expires_with_the_log() {
    let server = server_with(StoreOptions { event_log_capacity: 2, ..StoreOptions::default() });
    for name in ["a", "b"] {
        post(&server, MAPS, json!({"metadata": {"name": name}})).await;
    }
    let (_, page) = get(&server, &format!("{MAPS}?limit=1")).await;
    let next = format!("{MAPS}?limit=1&continue={}", page["metadata"]["continue"].as_str().unwrap());
    assert_eq!(get(&server, &next).await.0, 200);
    for name in ["c", "d", "e"] {
        post(&server, MAPS, json!({"metadata": {"name": name}})).await;
    }
    assert_eq!(failure(get(&server, &next).await).0, 410);
}

#[tokio::test]
async fn answers_are_json() {
    let server = server();
    let accept = "application/vnd.kubernetes.protobuf, application/json";
    assert_eq!(get_as(&server, MAPS, accept).await.1["kind"], "ConfigMapList");
    assert_eq!(get_as(&server, MAPS, "application/vnd.kubernetes.protobuf").await.0, 406);
}

#[tokio::test]
async fn openapi_has_no_schemas() {
    let (_, document) = get(&server(), "/openapi/v3/api/v1").await;
    assert_eq!(document["components"], json!({"schemas": {}}));
}

#[tokio::test]
async fn object_of_more_than_a_hundred_levels_is_refused() {
    let server = server();
    let nested = |levels: usize| (1..levels).fold(json!(1), |value, _| json!({ "a": value }));
    let node = |name: &str, levels| json!({"metadata": {"name": name}, "spec": nested(levels)});
    post(&server, "/api/v1/nodes", node("a", 99)).await;
    assert_eq!(failure(send(&server, "POST", "/api/v1/nodes", &node("b", 100)).await).0, 422);
}
