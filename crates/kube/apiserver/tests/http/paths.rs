//! Discovery, health, authentication and other paths that are not resource paths.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::body::Body;
use futures::{FutureExt as _, future::BoxFuture};
use http::{Request, Response};
use nephele_apiserver::{
    ApiServer, Authentication, PortForward, RequestInfo, RequestObserver, Settings, Store, StoreOptions,
    UserInfo,
};
use serde_json::{Value, json};

use crate::support::{Call, call, failure, get, get_as, json_of, now, pod, post, send, server, settings};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

#[tokio::test]
async fn legacy_discovery_lists_groups_versions_and_resources() {
    let server = server();
    assert_eq!(get(&server, "/api").await.1["versions"], json!(["v1"]));
    let (_, groups) = get(&server, "/apis").await;
    let groups: Vec<_> = groups["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| group["name"].clone())
        .collect();
    for group in [
        "apps",
        "rbac.authorization.k8s.io",
        "authorization.k8s.io",
        "events.k8s.io",
        "policy",
    ] {
        assert!(groups.contains(&json!(group)), "{group}");
    }
    assert!(!groups.contains(&json!("")));
    let (_, core) = get(&server, "/api/v1").await;
    let find = |name: &str| {
        let list = core["resources"].as_array().unwrap();
        list.iter()
            .find(|resource| resource["name"] == name)
            .cloned()
            .unwrap_or_default()
    };
    assert_eq!(find("pods")["shortNames"], json!(["po"]));
    assert_eq!(
        (&find("pods/eviction")["kind"], &find("pods/eviction")["verbs"]),
        (&json!("Eviction"), &json!(["create"]))
    );
    assert_eq!(
        (&find("nodes")["namespaced"], &find("nodes/status")["kind"]),
        (&json!(false), &json!("Node"))
    );
    assert_eq!(
        get(&server, "/apis/apps").await.1["preferredVersion"]["groupVersion"],
        "apps/v1"
    );
    assert_eq!(failure(get(&server, "/apis/example.com/v1").await).0, 404);
}

#[tokio::test]
async fn aggregated_discovery_is_answered_to_those_who_ask() {
    let server = server();
    let response = call(
        &server,
        Call {
            path: "/apis",
            accept: AGGREGATED,
            ..Call::default()
        },
    )
    .await;
    let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
    assert_eq!(
        content_type,
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    let (_, list) = json_of(response).await;
    let apps = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["metadata"]["name"] == "apps")
        .unwrap();
    let deployment = &apps["versions"][0]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .find(|r| r["resource"] == "deployments")
        .unwrap()
        .clone();
    assert_eq!(
        deployment["responseKind"],
        json!({"group": "apps", "version": "v1", "kind": "Deployment"})
    );
    let subresources: Vec<_> = deployment["subresources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["subresource"].clone())
        .collect();
    assert_eq!(subresources, ["status", "scale"]);
    let (_, core) = get_as(&server, "/api", AGGREGATED).await;
    assert_eq!(core["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn custom_kind_is_discovered() {
    let server = server();
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster",
                 "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"], "categories": ["all"]},
                 "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}}]},
    });
    post(
        &server,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        definition,
    )
    .await;
    let (_, list) = get(&server, "/apis/example.com/v1").await;
    let names: Vec<_> = list["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| resource["name"].clone())
        .collect();
    assert_eq!(names, ["widgets", "widgets/status"]);
    assert_eq!(
        (
            &list["resources"][0]["shortNames"],
            &list["resources"][0]["categories"]
        ),
        (&json!(["wd"]), &json!(["all"]))
    );
}

#[tokio::test]
async fn kubectl_finds_what_it_asks_for_before_it_applies() {
    let server = server();
    let (_, root) = get(&server, "/openapi/v3").await;
    let path = root["paths"]["apis/apps/v1"]["serverRelativeURL"]
        .as_str()
        .unwrap();
    let (_, document) = get(&server, path).await;
    let operation = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(
        operation["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "version": "v1", "kind": "Deployment"})
    );
    let named = |name: &str| {
        operation["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .any(|p| p["name"] == name)
    };
    assert!(named("fieldValidation"));
    assert_eq!(get(&server, "/openapi/v2").await.1["swagger"], "2.0");
    assert_eq!(get(&server, "/openapi/v3/apis/none/v1").await.0, 404);
    assert_eq!(get(&server, "/version").await.1["gitVersion"], "v1.36.3");
}

#[tokio::test]
async fn health_answers_text() {
    let server = server();
    for (path, expected) in [
        ("/healthz", "ok"),
        ("/livez", "ok"),
        ("/readyz", "ok"),
        ("/readyz?verbose", "[+]ping ok\n[+]etcd ok\nreadyz check passed\n"),
    ] {
        let response = call(
            &server,
            Call {
                path,
                ..Call::default()
            },
        )
        .await;
        assert_eq!(response.status(), 200);
        let bytes = axum::body::to_bytes(response.into_body(), 1000).await.unwrap();
        assert_eq!(bytes, expected, "{path}");
    }
    assert_eq!(get(&server, "/").await.0, 200);
}

#[tokio::test]
async fn unknown_users_are_turned_away() {
    let store = Store::new(StoreOptions::default());
    store.create_default_namespaces(now());
    let server = ApiServer::new(store, settings(Authentication::Required));
    for path in ["/", "/api", "/apis", "/api/v1/nodes", "/openapi/v2", "/nonsense"] {
        let expected = (401, "Unauthorized".to_owned(), "Unauthorized".to_owned());
        assert_eq!(failure(get(&server, path).await), expected, "{path}");
    }
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(
            call(
                &server,
                Call {
                    path,
                    ..Call::default()
                }
            )
            .await
            .status(),
            200,
            "{path}"
        );
    }
    let user = UserInfo {
        name: "kubernetes-admin".into(),
        groups: vec!["system:masters".into()],
    };
    let mut request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .body(Body::from("{}"))
        .unwrap();
    request.extensions_mut().insert(user);
    let (code, review) = json_of(server.handle(request).await).await;
    assert_eq!(code, 201);
    let expected =
        json!({"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]});
    assert_eq!(review["status"]["userInfo"], expected);
}

#[tokio::test]
async fn whoever_is_let_in_may_do_everything() {
    let server = server();
    let review = json!({"spec": {"resourceAttributes": {"verb": "delete", "resource": "nodes"}}});
    let answer = post(
        &server,
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        review,
    )
    .await;
    assert_eq!(
        (&answer["kind"], &answer["status"]["allowed"]),
        (&json!("SelfSubjectAccessReview"), &json!(true))
    );
    assert_eq!(
        failure(get(&server, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").await).0,
        405
    );
    assert_eq!(
        failure(
            send(
                &server,
                "POST",
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                &json!([])
            )
            .await
        )
        .0,
        400
    );
}

struct Echo;

impl PortForward for Echo {
    fn handle(
        &self,
        namespace: String,
        pod: String,
        request: Request<Body>,
    ) -> BoxFuture<'static, Response<Body>> {
        let text = format!("{} {namespace}/{pod}", request.method());
        futures::future::ready(Response::new(Body::from(text))).boxed()
    }
}

#[tokio::test]
async fn port_forward_is_handed_over_for_pods_that_exist() {
    let pods = "/api/v1/namespaces/default/pods";
    let server = server();
    post(&server, pods, pod("a", json!({}))).await;
    let path = format!("{pods}/a/portforward");
    assert_eq!(get(&server, &path).await.0, 404, "there is no port-forward yet");
    let server = server.with_port_forward(Arc::new(Echo));
    for method in ["GET", "POST"] {
        let response = call(
            &server,
            Call {
                method,
                path: &path,
                ..Call::default()
            },
        )
        .await;
        let bytes = axum::body::to_bytes(response.into_body(), 1000).await.unwrap();
        assert_eq!(bytes, format!("{method} default/a"));
    }
    let missing = failure(get(&server, &format!("{pods}/b/portforward")).await);
    assert_eq!(
        missing,
        (404, "NotFound".to_owned(), "pods \"b\" not found".to_owned())
    );
    assert_eq!(
        call(
            &server,
            Call {
                method: "PUT",
                path: &path,
                ..Call::default()
            }
        )
        .await
        .status(),
        405
    );
}

#[derive(Default)]
struct Log(Mutex<Vec<(String, u16)>>);

impl RequestObserver for Log {
    fn observe(&self, request: &RequestInfo, code: u16, _: Duration) {
        let text = format!("{} {} {}", request.verb, request.resource, request.subresource);
        self.0.lock().unwrap().push((text.trim().to_owned(), code));
    }
}

#[tokio::test]
async fn observer_is_told_of_each_request() {
    let log = Arc::new(Log::default());
    let settings = Settings {
        observer: Some(log.clone()),
        ..(*settings(Authentication::AllowAll)).clone()
    };
    let server = ApiServer::new(Store::new(StoreOptions::default()), Arc::new(settings));
    get(&server, "/api/v1/nodes").await;
    get(&server, "/api/v1/nodes/a/status").await;
    get(&server, "/readyz").await;
    call(
        &server,
        Call {
            path: "/api/v1/nodes?watch=true",
            ..Call::default()
        },
    )
    .await;
    let expected = [
        ("list nodes", 200),
        ("get nodes status", 404),
        ("get", 200),
        ("watch nodes", 200),
    ];
    let seen = log.0.lock().unwrap().clone();
    assert_eq!(seen, expected.map(|(text, code)| (text.to_owned(), code)));
}

#[tokio::test]
async fn large_body_is_refused() {
    let server = server();
    let body = vec![b' '; 3 * 1024 * 1024 + 1];
    let path = "/api/v1/namespaces/default/configmaps";
    let outcome = json_of(
        call(
            &server,
            Call {
                method: "POST",
                path,
                body,
                ..Call::default()
            },
        )
        .await,
    )
    .await;
    let (code, reason, _) = failure(outcome);
    assert_eq!((code, reason.as_str()), (413, "RequestEntityTooLarge"));
}

#[tokio::test]
async fn protobuf_body_is_read_and_json_answered() {
    // Four magic bytes, then runtime.Unknown of a v1 Namespace with metadata.name "x".
    let type_meta = [b"\x0a\x02v1".as_slice(), b"\x12\x09Namespace"].concat();
    let metadata = b"\x0a\x03\x0a\x01x";
    let mut body = b"k8s\0".to_vec();
    body.extend([0x0a, u8::try_from(type_meta.len()).unwrap()]);
    body.extend(&type_meta);
    body.extend([0x12, u8::try_from(metadata.len()).unwrap()]);
    body.extend(metadata);
    let server = server();
    let content_type = "application/vnd.kubernetes.protobuf";
    let accept = "application/vnd.kubernetes.protobuf, */*";
    let request = Call {
        method: "POST",
        path: "/api/v1/namespaces",
        content_type,
        accept,
        body,
    };
    let response = call(&server, request).await;
    assert_eq!(response.headers()["content-type"], "application/json");
    let (code, created): (u16, Value) = json_of(response).await;
    assert_eq!(
        (code, &created["metadata"]["name"]),
        (201, &json!("x")),
        "{created}"
    );
}
