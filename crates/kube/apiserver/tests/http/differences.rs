//! The table of differences to a real API server, row by row.

use std::collections::BTreeSet;

use nephele_apiserver::{ApiServer, Authentication, StoreOptions, UserInfo};
use serde_json::{Value, json};

use crate::support::{
    Call, apply, apply_text, call, failure, get, get_as, json_of, managers, patch, pod, post, request_as,
    send, server, server_with, settings,
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CAN_I: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const WHO_AM_I: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

#[test]
fn each_row_names_its_test_and_each_test_its_row() {
    let rows = include_str!("../../DIFFERENCES.md")
        .lines()
        .filter(|line| line.starts_with("| "));
    let named: BTreeSet<&str> = rows.filter_map(|row| row.rsplit('`').nth(1)).collect();
    let source = include_str!("differences.rs");
    let tests: BTreeSet<&str> = source
        .lines()
        .filter_map(|line| line.strip_prefix("async fn ")?.strip_suffix("() {"))
        .collect();
    assert_eq!(named, tests);
}

/// A server that requires authentication.
fn guarded() -> ApiServer {
    ApiServer::new(server().store().clone(), settings(Authentication::Required))
}

fn user(name: &str, group: &str) -> UserInfo {
    UserInfo {
        name: name.to_owned(),
        groups: vec![group.to_owned(), "system:authenticated".to_owned()],
    }
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
    for (method, path) in [
        ("GET", "/api/v1/secrets"),
        ("DELETE", MAPS),
        ("GET", "/api/v1/nodes"),
    ] {
        assert_eq!(
            request_as(&server, Some(kubelet()), method, path, &[], &Value::Null)
                .await
                .0,
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
    let headers = &[
        ("impersonate-user", "bob"),
        ("impersonate-group", "dev"),
        ("impersonate-extra-a%2fb", "c"),
    ];
    let (_, answer) = review(admin(), headers).await;
    let expected =
        json!({"username": "bob", "groups": ["dev", "system:authenticated"], "extra": {"a/b": ["c"]}});
    assert_eq!(answer["status"]["userInfo"], expected);
    let (_, answer) = review(admin(), &[("impersonate-user", "system:serviceaccount:ns:sa")]).await;
    let groups = json!([
        "system:serviceaccounts",
        "system:serviceaccounts:ns",
        "system:authenticated"
    ]);
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
    assert_eq!(
        failure(review(admin(), &[("impersonate-group", "dev")]).await).0,
        400
    );
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
    assert_eq!(
        send(&server, "POST", &format!("{accounts}/a/token"), &json!({}))
            .await
            .0,
        404
    );
    let review = post(
        &server,
        "/apis/authentication.k8s.io/v1/tokenreviews",
        json!({"spec": {"token": "a"}}),
    )
    .await;
    assert_eq!(review["status"]["authenticated"], false);
    let bearer = &[("authorization", "Bearer abc")];
    assert_eq!(
        request_as(&guarded(), None, "GET", MAPS, bearer, &Value::Null)
            .await
            .0,
        401
    );
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

#[tokio::test]
async fn managed_fields_begin_with_the_first_apply() {
    let server = server();
    let path = format!("{MAPS}/a");
    let created = post(&server, MAPS, map(json!({"a": "1"}))).await;
    assert_eq!(created["metadata"].get("managedFields"), None);
    let (_, patched) = patch(&server, "merge", &path, &json!({"data": {"b": "1"}})).await;
    assert_eq!(patched["metadata"].get("managedFields"), None);
    let (_, applied) = apply(&server, &path, "m", map(json!({"c": "1"}))).await;
    let expected = [
        r#"m Apply {"f:data":{"f:c":{}}}"#,
        r#"before-first-apply Update {"f:data":{".":{},"f:a":{},"f:b":{}}}"#,
    ];
    assert_eq!(managers(&applied), expected);
}

#[tokio::test]
async fn scale_cannot_be_applied() {
    let server = server();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    post(&server, deployments, json!({"metadata": {"name": "d"}})).await;
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 2}});
    assert_eq!(
        failure(apply(&server, &format!("{deployments}/d/scale"), "m", scale).await).0,
        415
    );
}

#[tokio::test]
async fn unknown_fields_are_applied() {
    let server = server();
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": {"y": [1]}}});
    let (code, applied) = apply(&server, &format!("{PODS}/p"), "m", pod).await;
    assert_eq!((code, &applied["spec"]["x"]), (201, &json!({"y": [1]})));
}

#[tokio::test]
async fn list_with_an_element_twice_is_the_clients_fault() {
    let spec = json!({"containers": [{"name": "a"}, {"name": "a"}]});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
    let (code, _, message) = failure(apply(&server(), &format!("{PODS}/p"), "m", pod).await);
    assert_eq!(code, 422, "{message}");
}

#[tokio::test]
async fn apply_lists_sixty_four_conflicts() {
    let server = server();
    let path = format!("{MAPS}/a");
    let data = |value: &str| {
        let fields = (0..100).map(|index| (format!("{index}{}", "x".repeat(2000)), json!(value)));
        map(Value::Object(fields.collect()))
    };
    assert_eq!(apply(&server, &path, "one", data("1")).await.0, 201);
    let (code, status) = apply(&server, &path, "two", data("2")).await;
    assert_eq!(code, 409);
    let causes = status["details"]["causes"].as_array().unwrap();
    assert_eq!(
        (causes.len(), causes[0]["field"].as_str().map(str::len)),
        (64, Some(1024))
    );
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .starts_with("Apply failed with 100 conflicts: ")
    );
}

#[tokio::test]
async fn long_yaml_is_not_applied() {
    let server = server();
    let path = format!("{MAPS}/a");
    let text = "x".repeat(1024 * 1024);
    let yaml = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{a: {text}}}\n");
    assert_eq!(failure(apply_text(&server, &path, "m", &yaml).await).0, 400);
    assert_eq!(apply(&server, &path, "m", map(json!({"a": text}))).await.0, 201);
}

#[tokio::test]
async fn managed_fields_in_protobuf_are_ignored() {
    let server = server();
    let path = format!("{MAPS}/a");
    let (_, applied) = apply(&server, &path, "m", map(json!({"a": "1"}))).await;
    // A `runtime.Unknown` with a ConfigMap whose metadata has a name and one empty entry of `managedFields` (17).
    let field =
        |number: u8, bytes: &[u8]| [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat();
    let metadata = [field(1, b"a"), vec![0x8a, 0x01, 0x00]].concat();
    let data = [field(1, b"a"), field(2, b"1")].concat();
    let object = [field(1, &metadata), field(2, &data)].concat();
    let kind = [field(1, b"v1"), field(2, b"ConfigMap")].concat();
    let body = [b"k8s\0".to_vec(), field(1, &kind), field(2, &object)].concat();
    let content_type = "application/vnd.kubernetes.protobuf";
    let request = Call {
        method: "PUT",
        path: &path,
        content_type,
        body,
        ..Call::default()
    };
    assert_eq!(json_of(call(&server, request).await).await, (200, applied));
}

#[tokio::test]
async fn pod_without_containers_is_taken() {
    post(
        &server(),
        PODS,
        json!({"metadata": {"name": "p"}, "spec": {"nonsense": 1}}),
    )
    .await;
}

#[tokio::test]
async fn unknown_fields_are_stored() {
    let server = server();
    let created = post(&server, MAPS, json!({"metadata": {"name": "a"}, "more": 1})).await;
    assert_eq!(created["more"], 1);
    let body = br#"{"metadata": {"name": "b"}, "data": {"k": "1"}, "data": {"k": "2"}}"#.to_vec();
    let path = format!("{MAPS}?fieldValidation=Strict");
    let content_type = "application/json";
    let request = Call {
        method: "POST",
        path: &path,
        content_type,
        body,
        ..Call::default()
    };
    let (code, created) = json_of(call(&server, request).await).await;
    assert_eq!((code, &created["data"]), (201, &json!({"k": "2"})));
}

#[tokio::test]
async fn status_of_a_node_has_no_labels() {
    let server = server();
    post(&server, "/api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
    let change = json!({"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Running"}});
    let (code, changed) = patch(&server, "merge", "/api/v1/nodes/n/status", &change).await;
    assert_eq!(
        (
            code,
            &changed["status"]["phase"],
            changed["metadata"].get("labels")
        ),
        (200, &json!("Running"), None)
    );
}

#[tokio::test]
async fn pod_templates_get_no_defaults() {
    let server = server();
    let template =
        json!({"spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}});
    for (path, spec, at) in [
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"template": template}),
            "/spec/template",
        ),
        (PODS, template["spec"].clone(), "/spec/containers/0"),
    ] {
        let object = json!({"metadata": {"name": "a"}, "spec": spec});
        let created = post(&server, path, object.clone()).await;
        assert_eq!(created.pointer(at), object.pointer(at), "{path}");
    }
}

#[tokio::test]
async fn custom_objects_are_stored_as_sent() {
    let server = server();
    post(&server, DEFINITIONS, definition(json!([version("v1", true)]))).await;
    let spec = json!({"size": "no number", "unknown": 1});
    let answer = post(
        &server,
        "/apis/x.io/v1/things",
        json!({"metadata": {"name": "t"}, "spec": spec}),
    )
    .await;
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
async fn versions_of_a_custom_kind_have_the_same_columns() {
    let server = server();
    let with = |mut version: Value, column: &str| {
        version["additionalPrinterColumns"] =
            json!([{"name": column, "type": "string", "jsonPath": ".spec.color"}]);
        version
    };
    let versions = json!([
        with(version("v2", true), "Color"),
        with(version("v1", false), "Colour")
    ]);
    post(&server, DEFINITIONS, definition(versions)).await;
    for version in ["v1", "v2"] {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let (_, table) = get_as(&server, &format!("/apis/x.io/{version}/things"), table).await;
        assert_eq!(table["columnDefinitions"][1]["name"], "Color");
    }
}

#[tokio::test]
async fn admission_webhooks_are_not_called() {
    let server = server();
    let webhooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]});
    let webhook = json!({"name": "a.x.io", "failurePolicy": "Fail", "rules": [rule],
                         "clientConfig": {"url": "https://192.0.2.1/"}});
    post(
        &server,
        webhooks,
        json!({"metadata": {"name": "w"}, "webhooks": [webhook]}),
    )
    .await;
    post(&server, MAPS, json!({"metadata": {"name": "a"}})).await;
}

#[tokio::test]
async fn api_services_are_not_served() {
    let server = server();
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    assert_eq!(get(&server, services).await.1["items"], json!([]));
    let service = json!({"name": "s", "namespace": "default"});
    let spec = json!({"group": "metrics.k8s.io", "version": "v1beta1", "service": service});
    post(
        &server,
        services,
        json!({"metadata": {"name": "v1beta1.metrics.k8s.io"}, "spec": spec}),
    )
    .await;
    assert_eq!(get(&server, "/apis/metrics.k8s.io/v1beta1").await.0, 404);
}

#[tokio::test]
async fn old_autoscalers_have_one_metric() {
    let server = server();
    let of =
        |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
    let memory = json!({"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}});
    let spec = json!({"maxReplicas": 3, "behavior": {"scaleUp": {}}, "metrics": [{"type": "Resource", "resource": memory}]});
    post(
        &server,
        &of("v2"),
        json!({"metadata": {"name": "a"}, "spec": spec}),
    )
    .await;
    let path = format!("{}/a", of("v1"));
    let (_, old) = get(&server, &path).await;
    assert_eq!(
        (
            &old["spec"]["maxReplicas"],
            &old["spec"]["metrics"],
            &old["metadata"]["annotations"]
        ),
        (&json!(3), &Value::Null, &Value::Null)
    );
    assert_eq!(send(&server, "PUT", &path, &old).await.0, 200);
    let (_, new) = get(&server, &format!("{}/a", of("v2"))).await;
    // As for every autoscaler without a metric.
    assert_eq!(new["spec"]["metrics"][0]["resource"]["name"], "cpu");
}

#[tokio::test]
async fn certificates_are_not_signed() {
    let server = server();
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let spec = json!({"signerName": "kubernetes.io/kube-apiserver-client", "request": "YQ==", "usages": ["client auth"]});
    let mut request = post(
        &server,
        requests,
        json!({"metadata": {"name": "a"}, "spec": spec}),
    )
    .await;
    assert_eq!(request["spec"].get("username"), None);
    request["status"] = json!({"conditions": [{"type": "Approved", "status": "True"}]});
    let (code, approved) = send(&server, "PUT", &format!("{requests}/a/approval"), &request).await;
    assert_eq!((code, approved["status"].get("certificate")), (200, None));
}

#[tokio::test]
async fn quotas_are_not_enforced() {
    let server = server();
    let limits = json!({"limits": [{"type": "Pod", "max": {"cpu": "1m"}}]});
    let range = json!({"metadata": {"name": "l"}, "spec": limits});
    post(&server, "/api/v1/namespaces/default/limitranges", range).await;
    let container = json!({"name": "c", "resources": {"requests": {"cpu": "1"}}});
    post(
        &server,
        PODS,
        json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}}),
    )
    .await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "0"}}});
    post(&server, "/api/v1/namespaces/default/resourcequotas", quota).await;
    post(&server, MAPS, json!({"metadata": {"name": "a"}})).await;
}

#[tokio::test]
async fn pods_go_at_once() {
    let server = server();
    post(&server, PODS, pod("p", json!({}))).await;
    let path = format!("{PODS}/p");
    assert_eq!(
        send(&server, "DELETE", &path, &json!({"gracePeriodSeconds": 30}))
            .await
            .0,
        200
    );
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
    for subresource in ["exec", "attach", "proxy", "ephemeralcontainers", "resize"] {
        assert_eq!(
            get(&server, &format!("{PODS}/p/{subresource}")).await.0,
            404,
            "{subresource}"
        );
    }
}

#[tokio::test]
async fn continue_token_expires_with_the_log() {
    let server = server_with(StoreOptions {
        event_log_capacity: 2,
        ..StoreOptions::default()
    });
    for name in ["a", "b"] {
        post(&server, MAPS, json!({"metadata": {"name": name}})).await;
    }
    let (_, page) = get(&server, &format!("{MAPS}?limit=1")).await;
    let next = format!(
        "{MAPS}?limit=1&continue={}",
        page["metadata"]["continue"].as_str().unwrap()
    );
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
    assert_eq!(
        get_as(&server, MAPS, "application/vnd.kubernetes.protobuf")
            .await
            .0,
        406
    );
}

#[tokio::test]
async fn openapi_describes_no_built_in_field() {
    let server = server();
    let (_, document) = get(&server, "/openapi/v3/api/v1").await;
    let node = &document["components"]["schemas"]["NodeSpec"];
    assert_eq!(
        node.pointer("/properties/unschedulable"),
        Some(&json!({"type": "boolean"}))
    );
    assert!(!document.to_string().contains("\"description\":\"The"));
    assert_eq!(get(&server, "/openapi/v2").await.1["definitions"], json!({}));
    let (_, document) = get(&server, "/openapi/v3/apis/apiextensions.k8s.io/v1").await;
    let definition = &document["components"]["schemas"]["CustomResourceDefinition"];
    assert_eq!(definition["properties"].as_object().unwrap().len(), 2);
}

#[tokio::test]
async fn object_of_more_than_a_hundred_levels_is_refused() {
    let server = server();
    let nested = |levels: usize| (1..levels).fold(json!(1), |value, _| json!({ "a": value }));
    let node = |name: &str, levels| json!({"metadata": {"name": name}, "spec": nested(levels)});
    post(&server, "/api/v1/nodes", node("a", 99)).await;
    assert_eq!(
        failure(send(&server, "POST", "/api/v1/nodes", &node("b", 100)).await).0,
        422
    );
}
