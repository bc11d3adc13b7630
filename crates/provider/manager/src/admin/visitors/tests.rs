use std::{net::Ipv4Addr, sync::Arc};

use axum::{Json, extract::State, http::HeaderMap};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Config, config::AuthInfo};
use parking_lot::Mutex;
use prometheus::Opts;
use serde_json::{Value, json};

use super::*;
use crate::admin::journal::{
    self,
    tests::{of_two_tenants, reviewing, running, usual},
};

const FROM: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// An API server that remembers the credentials of its callers.
async fn remembering() -> (Server, Arc<Mutex<Vec<String>>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port");
    let host = listener.local_addr().expect("bound");
    let callers = Arc::new(Mutex::new(Vec::new()));
    let answer = async |State(callers): State<Arc<Mutex<Vec<String>>>>, headers: HeaderMap| {
        let given = headers
            .get("authorization")
            .map(|value| value.to_str().expect("text"));
        callers.lock().push(given.unwrap_or_default().to_owned());
        Json(json!({ "apiVersion": "v1", "kind": "ConfigMapList", "metadata": {}, "items": [] }))
    };
    let router = Router::new().fallback(answer).with_state(Arc::clone(&callers));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let mut config = Config::new(format!("http://{host}").parse().expect("an address"));
    config.auth_info = AuthInfo {
        token: Some("of the manager".to_owned().into()),
        username: Some("manager".to_owned()),
        password: Some("secret".to_owned().into()),
        ..AuthInfo::default()
    };
    (Server::direct(config), callers)
}

async fn visitors(journal: Router) -> (Visitors, Arc<Mutex<Vec<String>>>) {
    let (server, callers) = remembering().await;
    let requests = IntCounterVec::new(Opts::new("requests", "Requests."), &["code", "method", "host"]);
    let visitors = Visitors {
        reviews: reviewing(usual),
        journal,
        management: ForVisitors::new(server, requests.expect("a valid name"), String::new()),
    };
    (visitors, callers)
}

#[tokio::test]
async fn who_may_read_the_journal_of_a_namespace_may_open_its_page() {
    let (visitors, _) = visitors(Router::new()).await;
    let admit = async |token: &str, namespace: Option<&str>| {
        let admitted = visitors.admit(token, namespace, FROM).await;
        admitted
            .map(|visitor| visitor.user())
            .map_err(|error| error.to_string())
    };
    let amber = admit("amber", Some("amber")).await.expect("admitted");
    assert_eq!(admit("amber", Some("amber")).await, Ok(amber), "the same user");
    assert_ne!(admit("administrator", Some("amber")).await, Ok(amber));
    admit("administrator", None).await.expect("admitted");
    let lacks = "the user may not get inmemoryclusters in namespace birch";
    assert_eq!(admit("amber", Some("birch")).await, Err(lacks.to_owned()));
    let lacks = "the user may not get /journal of the manager, which shows all namespaces: name one";
    assert_eq!(admit("amber", None).await, Err(lacks.to_owned()));
    let unknown = "the API server does not know the token";
    assert_eq!(admit("unknown", None).await, Err(unknown.to_owned()));
    for none in ["", "a/b", "../kube-system", "Ä"] {
        let error = admit("administrator", Some(none)).await;
        assert_eq!(error, Err("failed to read the namespace".to_owned()), "{none}");
    }
}

#[tokio::test]
async fn what_a_visitor_asks_for_has_their_token_and_nothing_of_the_manager() {
    let (visitors, callers) = visitors(Router::new()).await;
    let visitor = visitors
        .admit("amber", Some("amber"), FROM)
        .await
        .expect("admitted");
    let maps = Api::<ConfigMap>::all(visitor.client.clone());
    maps.list(&kube::api::ListParams::default())
        .await
        .expect("a list");
    assert_eq!(*callers.lock(), ["Bearer amber"]);
}

#[tokio::test]
async fn a_visitor_reads_the_journal_of_their_namespace_whatever_they_ask_for() {
    let cloud = of_two_tenants();
    let (visitors, _) = visitors(journal::router(running(&cloud))).await;
    let mut seen = Vec::new();
    for (token, namespace) in [("amber", Some("amber")), ("administrator", None)] {
        let visitor = visitors.admit(token, namespace, FROM).await.expect("admitted");
        let request = Request::get("/journal?namespace=birch&follow=true").body(Body::empty());
        let answer = visitor.journal.clone().oneshot(request.expect("a request")).await;
        let mut parts = answer.expect("infallible").into_body().into_data_stream();
        let text = parts.next().await.expect("records").expect("no error");
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let namespaces = lines.map(|line| {
            let line: Value = serde_json::from_slice(line).expect("JSON");
            line["namespace"].as_str().unwrap_or_default().to_owned()
        });
        seen.push(namespaces.collect::<Vec<_>>().join(" "));
    }
    assert_eq!(seen, ["amber", "amber birch"]);
    cloud.shutdown().await;
}

#[tokio::test]
async fn an_answer_to_a_visitor_has_a_bound_and_a_watch_may_last() {
    let answer = |_: Request<kube::client::Body>| async {
        let text = vec![b' '; ANSWER_MAX + 1];
        Ok::<_, std::convert::Infallible>(Response::new(Body::from(text)))
    };
    let answers = Arc::new(Semaphore::new(ANSWERS_MAX));
    let client = bounded(
        Client::new(tower::service_fn(answer), "default"),
        Arc::clone(&answers),
    );
    let bytes = async |path: &str| {
        let request = Request::get(path)
            .body(kube::client::Body::empty())
            .expect("a request");
        let answer = client.clone().send(request).await.ok()?;
        Some(answer.into_body().collect_bytes().await.expect("in memory").len())
    };
    assert_eq!(bytes("/api/v1/configmaps?limit=50").await, None);
    assert_eq!(bytes("/api/v1/configmaps?watch=true").await, Some(ANSWER_MAX + 1));
    assert_eq!(answers.available_permits(), ANSWERS_MAX);
}
