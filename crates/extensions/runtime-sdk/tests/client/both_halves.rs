//! The calling side against the serving side of this crate, over real TLS.

use std::{net::TcpListener, sync::Arc, time::Duration};

use nephele_runtime_sdk::{
    catalog::{Catalog, Release},
    client::{
        Client, ClientConfig, Handler, LabelSelector, OnError, Registration, Registry, Subject, UnknownHooks,
        chain,
        transport::{Https, HttpsSettings},
    },
    hooks::{
        BeforeClusterCreate, BeforeClusterCreateRequest, BeforeClusterCreateResponse, BeforeClusterDelete,
        BeforeClusterDeleteRequest, Failure, FailurePolicy, GeneratePatches, GeneratePatchesRequest, Hook,
        UpdateMachine,
    },
    server::{Extension, HandlerOptions, Tls, serve},
    wire,
};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    script::request,
    tls_server::{Authority, HOST, Reply, Server, https, settings, tls},
};

struct Running {
    client_config: ClientConfig,
    transport: Arc<Https>,
    shutdown: CancellationToken,
    task: JoinHandle<std::io::Result<()>>,
}

fn start(extension: Extension, http1_only: bool) -> Running {
    let authority = Authority::new("ca");
    let leaf = authority.leaf();
    let tls = Tls::from_pem(leaf.certificate, leaf.key, None).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let transport = HttpsSettings {
        http1_only,
        ..settings(listener.local_addr().unwrap())
    };
    let shutdown = CancellationToken::new();
    let service = extension.build().unwrap();
    let task = tokio::spawn(serve(service, listener, tls, shutdown.clone()));
    let client_config = ClientConfig {
        url: format!("https://{HOST}"),
        ca_bundle: wire::Bytes(authority.pem.into_bytes()),
        ..ClientConfig::default()
    };
    Running {
        client_config,
        transport: Arc::new(Https::new(transport)),
        shutdown,
        task,
    }
}

impl Running {
    async fn caller(&self, catalog: Catalog) -> Result<Client, String> {
        let client = Client::builder(catalog)
            .registry(Registry::of([]).unwrap())
            .transport(self.transport.clone())
            .build();
        let discovered = client
            .discover("ext", &self.client_config, UnknownHooks::Refuse)
            .await
            .map_err(|error| chain(&error))?;
        let registration = Registration {
            name: "ext".into(),
            resource_version: "1".into(),
            client_config: self.client_config.clone(),
            namespace_selector: Some(LabelSelector::default()),
            settings: [("who".to_owned(), "registered".to_owned())].into(),
            handlers: discovered.handlers,
        };
        client.registry().add(registration).unwrap();
        Ok(client)
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}

fn extension() -> Extension {
    Extension::new()
        .on(
            BeforeClusterCreate,
            "says-who",
            |request: BeforeClusterCreateRequest, _| async move {
                let who = request.settings.get("who").cloned().unwrap_or_default();
                Ok(BeforeClusterCreateResponse::retry_after(5, who))
            },
        )
        .on(BeforeClusterCreate, "nothing", |_, _| async {
            Ok(BeforeClusterCreateResponse::default())
        })
        .on_with(
            BeforeClusterDelete,
            "fails",
            HandlerOptions {
                failure_policy: Some(FailurePolicy::Ignore),
                timeout_seconds: Some(3),
            },
            |_, _| async { Err(Failure::new("never")) },
        )
        .on(GeneratePatches, "panics", |_, _| async { panic!("of a test") })
}

#[tokio::test]
async fn what_an_extension_offers_is_found_and_called() {
    for http1_only in [false, true] {
        let running = start(extension(), http1_only);
        let client = running.caller(Catalog::cluster_api()).await.unwrap();
        let subject = Subject::new("ns", "c");
        assert_eq!(
            client.handlers::<BeforeClusterCreate>(&subject).await.unwrap(),
            ["nothing.ext", "says-who.ext"]
        );
        let fails = client.registry().handler("fails.ext").unwrap();
        assert_eq!(
            (fails.timeout, fails.on_error),
            (Duration::from_secs(3), OnError::Ignore)
        );
        let response = client
            .call_all::<BeforeClusterCreate>(&subject, &request())
            .await
            .unwrap();
        assert_eq!(
            response,
            BeforeClusterCreateResponse::retry_after(5, "registered")
        );
        let mut asked = request();
        asked.settings.insert("who".into(), "called".into());
        let response = client
            .call::<BeforeClusterCreate>("says-who.ext", &subject, &asked)
            .await
            .unwrap();
        assert_eq!(response.message, "called");
        let error = client
            .call_all::<BeforeClusterDelete>(&subject, &BeforeClusterDeleteRequest::default())
            .await
            .unwrap_err();
        assert!(
            chain(&error).ends_with("got failure response with message: never"),
            "{}",
            chain(&error)
        );
        let error = client
            .call::<GeneratePatches>("panics.ext", &subject, &GeneratePatchesRequest::default())
            .await
            .unwrap_err();
        assert_eq!(error.category(), "failure");
        running.stop().await;
    }
}

/// A caller of 1.11 cannot discover an extension of 1.14, unless the extension hides the hooks that 1.11 does not know.
#[tokio::test]
async fn an_extension_is_not_found_by_a_caller_that_knows_less() {
    let newer = extension().on(UpdateMachine, "newer", |_, _| async { Ok(Default::default()) });
    let running = start(newer, false);
    let error = running
        .caller(Catalog::cluster_api_at(Release::new(11)))
        .await
        .unwrap_err();
    let expected = "requestHook hooks.runtime.cluster.x-k8s.io/v1alpha1/UpdateMachine of handler \"newer\" is not in the \
                    Runtime SDK catalog";
    assert!(error.ends_with(expected), "{error}");
    running.caller(Catalog::cluster_api()).await.unwrap();
    running.stop().await;
}

/// A registration may come from an earlier discovery or be wrong, and name handlers that are not served or are for
/// another hook. Only calls of those handlers fail.
#[tokio::test]
async fn an_extension_that_lies_is_found_out_when_it_is_called() {
    for http1_only in [false, true] {
        let running = start(extension(), http1_only);
        let client = running.caller(Catalog::cluster_api()).await.unwrap();
        let offered = |name: &str| Handler {
            name: name.into(),
            hook: BeforeClusterDelete::id(),
            timeout: Duration::from_secs(3),
            on_error: OnError::Fail,
        };
        // One handler never existed, and one exists for another hook.
        let registration = Registration {
            name: "liar".into(),
            client_config: running.client_config.clone(),
            namespace_selector: Some(LabelSelector::default()),
            handlers: vec![offered("gone"), offered("says-who")],
            ..Registration::default()
        };
        client.registry().add(registration).unwrap();
        let subject = Subject::new("ns", "c");
        for name in ["gone.liar", "says-who.liar"] {
            let called = client
                .call::<BeforeClusterDelete>(name, &subject, &BeforeClusterDeleteRequest::default())
                .await;
            let error = chain(&called.unwrap_err());
            let expected = format!(
                "failed to call extension handler \"{name}\": http call failed: got response with status code 404 != 200: \"\""
            );
            assert_eq!(error, expected);
        }
        let response = client
            .call::<BeforeClusterCreate>("says-who.ext", &subject, &request())
            .await
            .unwrap();
        assert_eq!(response.message, "registered");
        running.stop().await;
    }
}

/// Each invalid discovery response is an error that names the problem, and nothing is registered.
#[tokio::test]
async fn an_invalid_discovery_is_reported_and_registers_nothing() {
    let authority = Authority::new("ca");
    let hook = |api_version: &str, hook: &str| json!({ "apiVersion": api_version, "hook": hook });
    let v1alpha1 = "hooks.runtime.cluster.x-k8s.io/v1alpha1";
    let offers =
        |handlers: serde_json::Value| json!({ "status": "Success", "handlers": handlers }).to_string();
    for (body, expected) in [
        (String::new(), "failed to read the response of"),
        ("<html>".to_owned(), "failed to read the response of"),
        (
            json!({ "status": "Success", "handlers": "many" }).to_string(),
            "failed to read the response of",
        ),
        (
            json!({ "status": "Failure", "message": "not yet" }).to_string(),
            "not yet",
        ),
        (json!({ "handlers": [] }).to_string(), "unknown response status"),
        (offers(json!([{}])), "is not a DNS label"),
        (
            offers(json!([{ "name": "a", "requestHook": hook(v1alpha1, "Unheard") }])),
            "is not in the Runtime SDK catalog",
        ),
        (
            offers(json!([{ "name": "a", "requestHook": hook("a/b/c", "BeforeClusterCreate") }])),
            "a/b/c",
        ),
        (
            offers(
                json!([{ "name": "a", "requestHook": hook(v1alpha1, "BeforeClusterCreate"), "timeoutSeconds": 31 }]),
            ),
            "31",
        ),
        (
            offers(json!([
                { "name": "a", "requestHook": hook(v1alpha1, "BeforeClusterCreate") },
                { "name": "a", "requestHook": hook(v1alpha1, "BeforeClusterDelete") },
            ])),
            "\"a\"",
        ),
    ] {
        let reply = bytes::Bytes::from(body.clone());
        let server = Server::http(tls(&authority.leaf(), &["h2", "http/1.1"], None), move |_| {
            Reply::Body(200, reply.clone())
        })
        .await;
        let client = Client::builder(Catalog::cluster_api())
            .registry(Registry::of([]).unwrap())
            .transport(Arc::new(https(server.address)))
            .build();
        let config = ClientConfig {
            url: format!("https://{HOST}"),
            ca_bundle: wire::Bytes(authority.pem.clone().into_bytes()),
            ..ClientConfig::default()
        };
        let error = chain(
            &client
                .discover("ext", &config, UnknownHooks::Refuse)
                .await
                .unwrap_err(),
        );
        assert!(error.contains(expected), "{body}: {error}");
        assert!(
            error.starts_with("failed to discover extension \"ext\""),
            "{error}"
        );
    }
}
