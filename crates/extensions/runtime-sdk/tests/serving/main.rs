//! Extensions served with real TLS over HTTP/1.1 and HTTP/2. Names such as SRV-1 stand for the corresponding upstream
//! test cases.
#![allow(clippy::unwrap_used, reason = "what fails here has failed the test")]

mod certificates;
mod recorded;
#[path = "../recorded/mod.rs"]
mod recordings;
mod world;

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hyper::{Method, StatusCode};
use nephele_runtime_sdk::{
    catalog::{Catalog, Release},
    hooks::{
        AfterControlPlaneInitialized, AfterControlPlaneInitializedResponse, BeforeClusterCreate,
        BeforeClusterCreateResponse, BeforeClusterDelete, BeforeClusterDeleteResponse, Failure, Hook,
        HookMeta, UpdateMachine, UpdateMachineResponse,
    },
    request, response,
    server::{
        Extension, ExtensionError, HandlerOptions, Limits, Metrics, Mount, Recorder, Recording, Service,
    },
    wire::Object,
};
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, oneshot},
    time::timeout,
};
use world::{Authority, Client, PATIENCE, PROTOCOLS, Protocol, Running, pieces, stalled, start};

const CREATE: &str = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/before-create";
const DELETE: &str = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclusterdelete/before-delete";
const DISCOVERY: &str = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery";

struct World {
    running: Running,
    authority: Authority,
}

impl World {
    fn of(extension: Extension) -> Self {
        Self::serving(extension.build().unwrap())
    }

    fn serving(service: Service) -> Self {
        let authority = Authority::new("authority");
        let running = start(service, authority.tls());
        Self { running, authority }
    }

    async fn client(&self, protocol: Option<Protocol>) -> Client {
        Client::connect(self.running.address, &self.authority.pem, protocol).await
    }
}

/// An extension that counts its calls.
fn counting() -> (Extension, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let extension = Extension::new().on(BeforeClusterCreate, "before-create", move |request, call| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            assert_eq!(
                (call.handler(), &*call.hook().hook),
                ("before-create", "BeforeClusterCreate")
            );
            let message = format!(
                "{}{}",
                request.cluster.name(),
                request.settings.get("a").cloned().unwrap_or_default()
            );
            Ok(BeforeClusterCreateResponse {
                message,
                ..BeforeClusterCreateResponse::default()
            })
        }
    });
    (extension, calls)
}

/// SRV-2. Upstream does not test both protocols, a missing content type, and the content type of the answer.
#[tokio::test]
async fn a_call_is_answered_over_every_protocol() {
    let (extension, calls) = counting();
    let world = World::of(extension);
    for protocol in PROTOCOLS {
        let mut client = world.client(protocol).await;
        let answer = client.post(CREATE, "{}").await;
        assert_eq!(
            answer.json(),
            json!({ "status": "Success", "retryAfterSeconds": 0 }),
            "{protocol:?}"
        );
        let body = json!({
            "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": "BeforeClusterCreateRequest",
            "settings": { "a": "1" }, "cluster": { "metadata": { "name": "c" } },
        });
        let answer = client
            .post(&format!("{CREATE}?timeout=10s"), body.to_string())
            .await;
        assert_eq!(answer.message(), "c1");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 6);
}

/// Go's server and its JSON decoder tolerate all of these.
#[tokio::test]
async fn what_go_forgives_is_forgiven() {
    let (extension, calls) = counting();
    let world = World::of(extension);
    let mut client = world.client(None).await;
    for (body, message) in [
        (r#"{"kind": "SomethingElse", "apiVersion": "a/b/c"}"#, ""),
        (
            r#"{"unknown": {"deep": [1]}, "cluster": {"metadata": {"name": "c"}}}"#,
            "c",
        ),
        (
            r#"{"Cluster": {"metadata": {"name": "c"}}, "SETTINGS": {"a": "1"}}"#,
            "c1",
        ),
        (r#"{"cluster": null, "settings": null}"#, ""),
        ("null", ""),
        (" {} \n", ""),
    ] {
        let answer = client.post(CREATE, body).await;
        assert_eq!(
            (answer.json()["status"].clone(), answer.message()),
            (json!("Success"), message.into()),
            "{body}"
        );
    }
    assert_eq!(calls.load(Ordering::Relaxed), 6);
}

#[tokio::test]
async fn what_is_no_request_is_a_failure_and_the_handler_is_not_called() {
    let (extension, calls) = counting();
    let world = World::of(extension);
    for protocol in PROTOCOLS {
        let mut client = world.client(protocol).await;
        for body in [
            "",
            "{",
            "[]",
            "1",
            "{} {}",
            r#"{"cluster": 1}"#,
            r#"{"settings": {"a": 1}}"#,
            "\u{0}",
        ] {
            let answer = client.post(CREATE, body).await;
            assert_eq!(answer.json()["status"], "Failure", "{body}");
            assert!(
                answer.message().starts_with("error unmarshalling request: "),
                "{}",
                answer.message()
            );
        }
    }
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

/// SRV-1, with and without a declared length.
#[tokio::test]
async fn a_body_that_is_too_large_is_a_failure_and_the_handler_is_not_called() {
    const MAX: usize = 100_000;
    let body = |length: usize| {
        let mut body = r#"{"cluster": {"a": ""#.to_owned();
        body.push_str(&"x".repeat(length - body.len() - 3));
        body + r#""}}"#
    };
    let (extension, calls) = counting();
    let world = World::of(extension.limits(Limits {
        body_bytes_max: MAX,
        ..Limits::default()
    }));
    for protocol in PROTOCOLS {
        let mut client = world.client(protocol).await;
        assert_eq!(client.post(CREATE, body(MAX)).await.json()["status"], "Success");
        assert_eq!(
            client
                .send(Method::POST, CREATE, pieces(body(MAX).as_bytes()))
                .await
                .unwrap()
                .json()["status"],
            "Success"
        );
        let before = calls.load(Ordering::Relaxed);
        for sized in [true, false] {
            // A connection may end after a body that was not read completely.
            let mut client = world.client(protocol).await;
            let text = body(MAX + 1);
            let answer = if sized {
                client.post(CREATE, text).await
            } else {
                client
                    .send(Method::POST, CREATE, pieces(text.as_bytes()))
                    .await
                    .unwrap()
            };
            assert_eq!(answer.json()["status"], "Failure");
            assert!(
                answer.message().starts_with("error reading request"),
                "{}",
                answer.message()
            );
        }
        assert_eq!(calls.load(Ordering::Relaxed), before);
    }
}

#[tokio::test]
async fn the_limit_is_twenty_mebibytes_as_upstreams() {
    let (extension, calls) = counting();
    let world = World::of(extension);
    let mut client = world.client(Some(Protocol::Http2)).await;
    let answer = client.post(CREATE, vec![b' '; (20 << 20) + 1]).await;
    assert!(answer.message().starts_with("error reading request"));
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    let mut body = vec![b' '; 20 << 20];
    body[..2].copy_from_slice(b"{}");
    assert_eq!(client.post(CREATE, body).await.json()["status"], "Success");
}

#[tokio::test]
async fn other_methods_and_paths_are_refused() {
    let (extension, calls) = counting();
    let world = World::of(extension);
    for protocol in PROTOCOLS {
        let mut client = world.client(protocol).await;
        let answer = client.get(CREATE).await;
        assert_eq!(
            (answer.status, &answer.headers["allow"]),
            (StatusCode::METHOD_NOT_ALLOWED, &"POST".parse().unwrap())
        );
        for path in [
            "/",
            &format!("{CREATE}/"),
            &format!("{DISCOVERY}/"),
            &format!("/{CREATE}"),
            &CREATE.replace("before-create", "Before-Create"),
            &CREATE.replace("before-create", "before-create.config"),
            &CREATE.replace("/before-create", ""),
            &CREATE.replace("v1alpha1", "v1alpha2"),
            DELETE,
            "/openapi/v3",
        ] {
            assert_eq!(
                client.post(path, "{}").await.status,
                StatusCode::NOT_FOUND,
                "{path}"
            );
        }
    }
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

#[derive(Debug, thiserror::Error)]
#[error("failed to ask the registry")]
struct Outer(#[source] std::num::ParseIntError);

#[tokio::test]
async fn a_failure_says_why_and_a_panic_is_a_failure() {
    let extension = Extension::new()
        .on(BeforeClusterCreate, "before-create", |_, _| async {
            let _: i32 = "x".parse().map_err(Outer)?;
            Ok(BeforeClusterCreateResponse::default())
        })
        .on(BeforeClusterDelete, "before-delete", |request, _| {
            assert!(request.cluster.is_absent(), "panics before there is a future");
            async move {
                if request.settings.contains_key("panic") {
                    panic!("in the handler: {}", request.settings["panic"]);
                }
                Ok(BeforeClusterDeleteResponse::retry_after(7, "not yet"))
            }
        });
    let world = World::of(extension);
    for protocol in PROTOCOLS {
        let mut client = world.client(protocol).await;
        let answer = client.post(CREATE, "{}").await;
        let message = "failed to ask the registry: invalid digit found in string";
        assert_eq!(
            answer.json(),
            json!({ "status": "Failure", "message": message, "retryAfterSeconds": 0 })
        );
        for body in [
            r#"{"settings": {"panic": "1"}}"#,
            r#"{"settings": {"panic": "2"}}"#,
            r#"{"cluster": {}}"#,
        ] {
            let message =
                "handler before-delete of BeforeClusterDelete.hooks.runtime.cluster.x-k8s.io panicked";
            let answer = client.post(DELETE, body).await;
            assert_eq!(
                answer.json(),
                json!({ "status": "Failure", "message": message, "retryAfterSeconds": 0 })
            );
        }
        let answer = client.post(DELETE, "{}").await;
        assert_eq!(
            answer.json(),
            json!({ "status": "Success", "message": "not yet", "retryAfterSeconds": 7 })
        );
    }
}

/// With the policy `Ignore`, a call that times out is ignored, but a response with status `Failure` would not be.
#[tokio::test]
async fn a_call_ends_with_the_callers_patience_and_without_a_response() {
    let (dropped, mut drops) = tokio::sync::mpsc::unbounded_channel();
    let extension = Extension::new().on(BeforeClusterCreate, "before-create", move |_, call| {
        let dropped = dropped.clone();
        async move {
            struct Guard(tokio::sync::mpsc::UnboundedSender<Duration>, Duration);
            impl Drop for Guard {
                fn drop(&mut self) {
                    let _ = self.0.send(self.1);
                }
            }
            let _guard = Guard(dropped, call.remaining());
            std::future::pending().await
        }
    });
    let world = World::of(extension);
    for protocol in PROTOCOLS {
        let mut client = world.client(protocol).await;
        let answer = client.post(&format!("{CREATE}?timeout=50ms"), "{}").await;
        assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT);
        let remaining = timeout(PATIENCE, drops.recv()).await.unwrap().unwrap();
        assert!(remaining <= Duration::from_millis(50), "{remaining:?}");
    }
}

#[tokio::test]
async fn a_body_that_does_not_come_ends_with_the_callers_patience() {
    let (extension, calls) = counting();
    let world = World::of(extension);
    for protocol in PROTOCOLS {
        let mut client = world.client(protocol).await;
        let path = format!("{CREATE}?timeout=50ms");
        let answer = client.send(Method::POST, &path, stalled(b"{")).await.unwrap();
        assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    assert_eq!(
        world.client(None).await.post(CREATE, "{}").await.json()["status"],
        "Success"
    );
}

/// A slow sender gets an answer, and releases the room that other calls wait for.
#[tokio::test]
async fn a_body_that_does_not_arrive_in_time_gives_its_room_back() {
    let (extension, calls) = counting();
    let limits = Limits {
        body_bytes_max: 1024,
        calls_bytes_max: 20_000,
        body_time_max: Duration::from_millis(100),
        ..Limits::default()
    };
    let world = World::of(extension.limits(limits));
    let path = format!("{CREATE}?timeout=30s");
    let mut slow = world.client(None).await;
    let mut quick = world.client(None).await;
    let slow = tokio::spawn({
        let path = path.clone();
        async move { slow.send(Method::POST, &path, stalled(b"{")).await.unwrap() }
    });
    assert_eq!(
        timeout(PATIENCE, slow).await.unwrap().unwrap().status,
        StatusCode::REQUEST_TIMEOUT
    );
    let answer = timeout(PATIENCE, quick.post(&path, "{}")).await.unwrap();
    assert_eq!(
        (answer.json()["status"].as_str(), calls.load(Ordering::Relaxed)),
        (Some("Success"), 1)
    );
}

/// Callers show messages in conditions, which have room for 32 KiB.
#[tokio::test]
async fn a_failure_that_quotes_the_request_is_cut() {
    let (extension, _) = counting();
    let world = World::of(extension);
    let body = json!({ "settings": "ä".repeat(100_000) }).to_string();
    let message = world.client(None).await.post(CREATE, body).await.message();
    assert!(
        message.starts_with("error unmarshalling request: ") && message.ends_with("..."),
        "{message}"
    );
    assert!(message.len() <= 8192 + "...".len(), "{}", message.len());
}

#[tokio::test]
async fn a_call_without_room_is_refused_and_one_with_a_silent_body_gives_way() {
    let resume = Arc::new(Notify::new());
    let waiting = Arc::new(Notify::new());
    let release = Arc::clone(&resume);
    let entered = Arc::clone(&waiting);
    let extension = Extension::new()
        .limits(Limits {
            calls_bytes_max: 35_000,
            ..Limits::default()
        })
        .on(BeforeClusterCreate, "before-create", move |_, _| {
            let resume = Arc::clone(&resume);
            let waiting = Arc::clone(&waiting);
            async move {
                waiting.notify_one();
                resume.notified().await;
                Ok(BeforeClusterCreateResponse::default())
            }
        });
    let world = World::of(extension);
    let mut first = world.client(None).await;
    let mut silent = world.client(None).await;
    let mut third = world.client(None).await;
    let first = tokio::spawn(async move { first.post(CREATE, "{}").await });
    timeout(PATIENCE, entered.notified()).await.unwrap();
    let silent = tokio::spawn(async move { silent.send(Method::POST, CREATE, stalled(b"{")).await.unwrap() });
    tokio::task::yield_now().await;
    let third = tokio::spawn(async move { third.post(CREATE, "{}").await });
    timeout(PATIENCE, entered.notified()).await.unwrap();
    assert_eq!(
        timeout(PATIENCE, silent).await.unwrap().unwrap().status,
        StatusCode::SERVICE_UNAVAILABLE
    );
    // The first and the third are being handled, and keep what they have.
    let mut fourth = world.client(None).await;
    assert_eq!(
        fourth.post(CREATE, "{}").await.status,
        StatusCode::SERVICE_UNAVAILABLE
    );
    release.notify_one();
    assert_eq!(
        timeout(PATIENCE, first).await.unwrap().unwrap().json()["status"],
        "Success"
    );
    release.notify_one();
    assert_eq!(
        timeout(PATIENCE, third).await.unwrap().unwrap().json()["status"],
        "Success"
    );
}

request! {
    /// The request before a machine is created.
    struct BeforeMachineCreateRequest {
        machine: Object,
    }
}

response! {
    /// Lets the machine be created.
    struct BeforeMachineCreateResponse: retry {}
}

struct BeforeMachineCreate;

impl Hook for BeforeMachineCreate {
    type Request = BeforeMachineCreateRequest;
    type Response = BeforeMachineCreateResponse;
    const GROUP: &'static str = "hooks.example.com";
    const VERSION: &'static str = "v1";
    const NAME: &'static str = "BeforeMachineCreate";
    const META: HookMeta = HookMeta::new("Called before a machine is created").deprecated();
}

fn own() -> Mount {
    let mut catalog = Catalog::empty();
    catalog.add::<BeforeMachineCreate>().unwrap();
    Mount::new(catalog).on(BeforeMachineCreate, "veto", |request, _| async move {
        match request.machine.name() {
            "bad" => Err(Failure::new("no bad machines")),
            _ => Ok(BeforeMachineCreateResponse::default()),
        }
    })
}

fn cluster_api() -> Mount {
    Mount::cluster_api()
        .on(UpdateMachine, "update", |_, _| async {
            Ok(UpdateMachineResponse::default())
        })
        .on_with(
            AfterControlPlaneInitialized,
            "initialized",
            HandlerOptions::new().timeout_seconds(5).ignore_failures(),
            |_, _| async { Ok(AfterControlPlaneInitializedResponse::default()) },
        )
        .on(BeforeClusterCreate, "create", |_, _| async {
            Ok(BeforeClusterCreateResponse::default())
        })
}

fn names(discovery: &Value) -> Vec<&str> {
    discovery["handlers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|handler| handler["name"].as_str().unwrap())
        .collect()
}

/// 9.1: a mount's hooks are not visible at another one, and an old release sees only the hooks it knows.
#[tokio::test]
async fn each_mount_is_discovered_by_itself() {
    let extension = Extension::new()
        .root(cluster_api())
        .mount("/own", own())
        .mount("/old", cluster_api().for_release(Release::new(11)))
        .mount("/empty", Mount::cluster_api());
    let world = World::of(extension);
    for protocol in PROTOCOLS {
        let mut client = world.client(protocol).await;
        let root = client
            .post(DISCOVERY, r#"{"kind": "DiscoveryRequest"}"#)
            .await
            .json();
        let hook =
            |hook: &str| json!({ "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": hook });
        assert_eq!(
            root,
            json!({ "status": "Success", "handlers": [
                { "name": "create", "requestHook": hook("BeforeClusterCreate") },
                {
                    "name": "initialized", "requestHook": hook("AfterControlPlaneInitialized"),
                    "timeoutSeconds": 5, "failurePolicy": "Ignore",
                },
                { "name": "update", "requestHook": hook("UpdateMachine") },
            ] })
        );
        let old = client.post(&format!("/old{DISCOVERY}"), "{}").await.json();
        assert_eq!(names(&old), ["create", "initialized"]);
        let own = client.post(&format!("/own{DISCOVERY}"), "{}").await.json();
        assert_eq!(names(&own), ["veto"]);
        assert_eq!(
            own["handlers"][0]["requestHook"],
            json!({ "apiVersion": "hooks.example.com/v1", "hook": "BeforeMachineCreate" })
        );
        let empty = client.post(&format!("/empty{DISCOVERY}"), "{}").await.json();
        assert_eq!(empty, json!({ "status": "Success" }));

        let veto = "/hooks.example.com/v1/beforemachinecreate/veto";
        assert_eq!(client.post(veto, "{}").await.status, StatusCode::NOT_FOUND);
        let body = r#"{"machine": {"metadata": {"name": "bad"}}}"#;
        let answer = client.post(&format!("/own{veto}"), body).await;
        assert_eq!(answer.message(), "no bad machines");
        let warning = "299 - \"hooks.example.com/v1, Hook=BeforeMachineCreate is deprecated\"";
        assert_eq!(answer.headers["warning"], warning);
        let update = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/updatemachine/update";
        assert_eq!(
            client.post(&format!("/old{update}"), "{}").await.status,
            StatusCode::NOT_FOUND
        );
        let answer = client.post(update, "{}").await;
        assert_eq!(
            (answer.json()["status"].as_str(), answer.headers.get("warning")),
            (Some("Success"), None)
        );
    }
}

/// DISC-2 to DISC-8: `build` refuses the handlers that callers would refuse.
#[test]
fn what_discovery_would_be_refused_for_is_not_built() {
    let ok = |_, _| async { Ok(BeforeClusterCreateResponse::default()) };
    let with = |options: HandlerOptions| Extension::new().on_with(BeforeClusterCreate, "a", options, ok);
    for name in ["", "Create", "a.b", "-a", &"a".repeat(64)] {
        let error = Extension::new()
            .on(BeforeClusterCreate, name, ok)
            .build()
            .unwrap_err();
        assert!(matches!(error, ExtensionError::Name { .. }), "{error}");
    }
    for seconds in [-1, 31, 100] {
        let error = with(HandlerOptions::new().timeout_seconds(seconds))
            .build()
            .unwrap_err();
        assert!(matches!(error, ExtensionError::Timeout { .. }), "{error}");
    }
    assert!(with(HandlerOptions::new().timeout_seconds(30)).build().is_ok());
    assert!(
        with(HandlerOptions::new().timeout_seconds(11))
            .strict_timeouts()
            .build()
            .is_err()
    );
    let policy = HandlerOptions {
        failure_policy: Some("Sometimes".into()),
        ..HandlerOptions::new()
    };
    assert!(matches!(
        with(policy).build().unwrap_err(),
        ExtensionError::FailurePolicy { .. }
    ));
    let twice = with(HandlerOptions::new()).on(BeforeClusterDelete, "a", |_, _| async {
        Ok(BeforeClusterDeleteResponse::default())
    });
    assert!(matches!(
        twice.build().unwrap_err(),
        ExtensionError::SameName { .. }
    ));
    let foreign = Extension::new().on(BeforeMachineCreate, "a", |_, _| async {
        Ok(BeforeMachineCreateResponse::default())
    });
    assert!(matches!(
        foreign.build().unwrap_err(),
        ExtensionError::UnknownHook { .. }
    ));
    for prefix in ["", "own", "/own/", "/a//b", "/a/../b", "/a b", "/ä"] {
        let error = Extension::new().mount(prefix, own()).build().unwrap_err();
        assert!(
            matches!(error, ExtensionError::Prefix { .. }),
            "{prefix}: {error}"
        );
    }
    let twice = Extension::new().mount("/own", own()).mount("/own", own());
    assert!(matches!(
        twice.build().unwrap_err(),
        ExtensionError::Prefix { .. }
    ));
}

#[tokio::test]
async fn calls_are_counted_by_hook_handler_and_outcome() {
    let registry = Registry::new();
    let (extension, _) = counting();
    let extension = extension
        .metrics(Metrics::register(&registry).unwrap())
        .limits(Limits {
            body_bytes_max: 200,
            ..Limits::default()
        })
        .on(BeforeClusterDelete, "before-delete", |request, _| async move {
            match request.settings.get("do").map(String::as_str) {
                Some("fail") => Err(Failure::new("no")),
                Some("panic") => panic!("asked to"),
                Some("wait") => std::future::pending().await,
                _ => Ok(BeforeClusterDeleteResponse::retry_after(1, "")),
            }
        });
    let world = World::of(extension);
    let mut client = world.client(None).await;
    client.post(CREATE, "{}").await;
    client.post(CREATE, "{}").await;
    client.post(CREATE, "{").await;
    client.post(CREATE, "x".repeat(300)).await;
    let mut client = world.client(None).await;
    for what in ["fail", "panic", "wait", "other"] {
        let body = json!({ "settings": { "do": what } }).to_string();
        let patience = if what == "wait" { "50ms" } else { "30s" };
        client.post(&format!("{DELETE}?timeout={patience}"), body).await;
    }
    client.post("/nowhere", "{}").await;
    let mut lines = Vec::new();
    for family in registry.gather() {
        for metric in family.get_metric() {
            let label = |name: &str| {
                metric
                    .get_label()
                    .iter()
                    .find(|pair| pair.name() == name)
                    .map_or("", |pair| pair.value())
                    .to_owned()
            };
            assert_eq!(label("group"), "hooks.runtime.cluster.x-k8s.io");
            let value = match family.name() {
                "capi_runtime_extension_calls_total" if metric.get_counter().get_value() > 0.0 => {
                    format!("{} {}", label("outcome"), metric.get_counter().get_value())
                }
                "capi_runtime_extension_call_duration_seconds" => {
                    format!("took {}", metric.get_histogram().get_sample_count())
                }
                "capi_runtime_extension_calls_in_flight" => {
                    format!("in flight {}", metric.get_gauge().get_value())
                }
                _ => continue,
            };
            lines.push(format!("{} {} {value}", label("hook"), label("handler")));
        }
    }
    lines.sort();
    assert_eq!(
        lines,
        [
            "BeforeClusterCreate before-create in flight 0",
            "BeforeClusterCreate before-create malformed 1",
            "BeforeClusterCreate before-create success 2",
            "BeforeClusterCreate before-create too_large 1",
            "BeforeClusterCreate before-create took 4",
            "BeforeClusterDelete before-delete failure 1",
            "BeforeClusterDelete before-delete in flight 0",
            "BeforeClusterDelete before-delete panicked 1",
            "BeforeClusterDelete before-delete retry 1",
            "BeforeClusterDelete before-delete timed_out 1",
            "BeforeClusterDelete before-delete took 4",
            "Discovery  in flight 0",
            "Discovery  took 0",
        ]
    );
}

#[tokio::test]
async fn calls_in_flight_end_after_shutdown_and_no_further_ones_begin() {
    let (entered, began) = oneshot::channel();
    let entered = Arc::new(std::sync::Mutex::new(Some(entered)));
    let release = Arc::new(Notify::new());
    let resume = Arc::clone(&release);
    let extension = Extension::new().on(BeforeClusterCreate, "before-create", move |_, _| {
        let entered = Arc::clone(&entered);
        let resume = Arc::clone(&resume);
        async move {
            entered.lock().unwrap().take().unwrap().send(()).unwrap();
            resume.notified().await;
            Ok(BeforeClusterCreateResponse::default())
        }
    });
    let world = World::of(extension);
    // A silent connection does not delay the shutdown.
    let _quiet = world.client(None).await;
    let mut client = world.client(Some(Protocol::Http2)).await;
    let call = tokio::spawn(async move { client.post(CREATE, "{}").await });
    timeout(PATIENCE, began).await.unwrap().unwrap();
    world.running.shutdown.cancel();
    release.notify_one();
    assert_eq!(
        timeout(PATIENCE, call).await.unwrap().unwrap().json()["status"],
        "Success"
    );
    timeout(PATIENCE, world.running.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(
        tokio::net::TcpStream::connect(world.running.address)
            .await
            .is_err()
    );
}

#[tokio::test]
async fn the_document_lists_the_paths_of_all_hooks() {
    let world = World::of(
        Extension::new()
            .root(cluster_api())
            .mount("/own", own())
            .openapi("/openapi/v3"),
    );
    let mut client = world.client(None).await;
    let document = client.get("/openapi/v3").await.json();
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths.len(), 17 + 2);
    assert!(
        document["paths"]
            .get("/own/hooks.example.com/v1/beforemachinecreate/{name}")
            .is_some()
    );
    assert!(document["paths"].get(format!("/own{DISCOVERY}")).is_some());
}

/// A client that disconnects in the middle of its request does not affect other clients.
#[tokio::test]
async fn half_a_request_harms_no_other() {
    let (extension, calls) = counting();
    let world = World::of(extension);
    for _ in 0..3 {
        let mut client = world.client(None).await;
        let sending =
            tokio::spawn(async move { client.send(Method::POST, CREATE, stalled(b"{")).await.is_ok() });
        tokio::task::yield_now().await;
        sending.abort();
        let _ = sending.await;
    }
    assert_eq!(
        world.client(None).await.post(CREATE, "{}").await.json()["status"],
        "Success"
    );
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

/// Recordings have requests and answers, up to a limit for each handler, and delay no call.
#[tokio::test]
async fn calls_are_kept_where_that_is_asked_for() {
    let folder = std::env::temp_dir().join(format!("runtime-sdk-recordings-{}", std::process::id()));
    let (extension, calls) = counting();
    let world = World::of(extension.record(Recorder::in_folder(&folder).unwrap()));
    let mut client = world.client(Some(Protocol::Http2)).await;
    for body in [r#"{"settings": {"a": "1"}}"#, "{"] {
        client.post(&format!("{CREATE}?timeout=10s"), body).await;
    }
    client
        .post(&CREATE.replace("before-create", "unused"), "{}")
        .await;
    client
        .send(Method::POST, &format!("{CREATE}?timeout=50ms"), stalled(b"{"))
        .await
        .unwrap();
    let kept = || -> Vec<Recording> {
        let mut files: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        files
            .iter()
            .filter_map(|file| serde_json::from_slice(&fs::read(file).ok()?).ok())
            .collect()
    };
    timeout(PATIENCE, async {
        while kept().len() < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    let recording = |query: &str, request: Value, status: u16, response: Value| Recording {
        protocol: "HTTP/2.0".into(),
        method: "POST".into(),
        path: CREATE.into(),
        query: query.into(),
        headers: std::collections::BTreeMap::new(),
        request,
        status,
        response,
    };
    let mut found = kept();
    let message = found[1].response["message"].take();
    assert!(
        message
            .as_str()
            .unwrap()
            .starts_with("error unmarshalling request"),
        "{message}"
    );
    assert_eq!(
        found,
        [
            recording(
                "timeout=10s",
                json!({ "settings": { "a": "1" } }),
                200,
                json!({ "status": "Success", "message": "1", "retryAfterSeconds": 0 })
            ),
            recording(
                "timeout=10s",
                json!("{"),
                200,
                json!({ "status": "Failure", "message": null, "retryAfterSeconds": 0 })
            ),
            recording("timeout=50ms", Value::Null, 504, Value::Null),
        ]
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        for file in fs::read_dir(&folder).unwrap() {
            assert_eq!(mode(&file.unwrap().path()), 0o600);
        }
    }
    // A call is not recorded while too many recordings are being written, so their number depends on the disk.
    let files = || fs::read_dir(&folder).unwrap().count();
    let mut posted = 1;
    timeout(PATIENCE, async {
        while files() < 500 {
            client.post(CREATE, "{}").await;
            posted += 1;
        }
    })
    .await
    .unwrap();
    for _ in 0..100 {
        client.post(CREATE, "{}").await;
    }
    assert_eq!((files(), calls.load(Ordering::Relaxed)), (500, posted + 100));
    drop(world);
    fs::remove_dir_all(folder).unwrap();
}
