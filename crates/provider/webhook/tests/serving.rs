//! The webhooks as an API server sees them: over loopback with TLS, with certificates that change while they are
//! served.

mod support;

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::Secret, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Client, api::PostParams};
use nephele_testkit::ManagementApi;
use nephele_webhook::{
    AdmissionRequest, Change, Denial, Metrics, ServedCertificate, TlsPolicy, Webhook,
    certificate::{
        Targets,
        folder::{Folder, watched},
        keeper::{KeepError, Keeping, turn},
        plan::{AUTHORITY_MARGIN, AUTHORITY_VALIDITY, LEAF_MARGIN, LEAF_VALIDITY, SETTLED_AFTER},
    },
    follow_folder, keep, serve,
};
use prometheus::Registry;
use serde_json::{Value, json};
use support::{Caller, SlowCaller, pem_pair, start_of_time};
use tokio::{sync::Notify, task::JoinHandle};
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "default";
const DEFINITION: &str = "inclusterippools.ipam.cluster.x-k8s.io";

struct Served {
    address: std::net::SocketAddr,
    certificate: ServedCertificate,
    registry: Registry,
    metrics: Metrics,
    shutdown: CancellationToken,
    server: JoinHandle<std::io::Result<()>>,
}

fn start(webhook: Webhook) -> Served {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let registry = Registry::new();
    let metrics = Metrics::register(&registry).expect("free names");
    let certificate = ServedCertificate::none();
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(serve(
        webhook,
        listener,
        certificate.clone(),
        TlsPolicy::default(),
        metrics.clone(),
        shutdown.clone(),
    ));
    Served {
        address,
        certificate,
        registry,
        metrics,
        shutdown,
        server,
    }
}

fn widgets() -> Webhook {
    Webhook::new()
        .validate(
            "/validate",
            async |request: AdmissionRequest<Value>| match request.change {
                Change::Create(widget) if widget["size"] == 0 => Err(Denial::bad_request("too small")),
                _ => Ok(Vec::new()),
            },
        )
        .convert("example.org", |mut object: Value, version: &str| {
            object["apiVersion"] = version.into();
            Ok::<_, String>(object)
        })
}

fn admission(size: i64) -> Vec<u8> {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": { "uid": "u", "operation": "CREATE", "object": { "size": size } },
    });
    serde_json::to_vec(&review).expect("JSON")
}

fn keeping() -> Keeping {
    Keeping {
        namespace: NAMESPACE.to_owned(),
        secret: "webhook-certificate".to_owned(),
        dns_names: Keeping::names_of_service("webhook", NAMESPACE),
        targets: Targets {
            definitions: vec![DEFINITION.to_owned(), "absent.example.org".to_owned()],
            ..Targets::default()
        },
    }
}

/// The bundle that an API server trusts.
async fn bundle(client: &Client) -> String {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = definitions.get(DEFINITION).await.expect("defined");
    let webhook = definition
        .spec
        .conversion
        .expect("a conversion")
        .webhook
        .expect("by webhook");
    let bundle = webhook
        .client_config
        .expect("a client")
        .ca_bundle
        .expect("a bundle");
    String::from_utf8(bundle.0).expect("PEM")
}

async fn secret(client: &Client) -> Secret {
    Api::namespaced(client.clone(), NAMESPACE)
        .get("webhook-certificate")
        .await
        .expect("a Secret")
}

#[tokio::test]
async fn reviews_are_answered_over_tls_and_counted() {
    let served = start(widgets());
    let authority = pem_pair(&served.certificate);
    let caller = Caller::new(&authority, "webhook.default.svc");
    let (code, answer) = caller
        .post(served.address, "/validate", admission(1))
        .await
        .expect("an answer");
    assert_eq!((code, &answer["response"]["allowed"]), (200, &json!(true)));
    let (code, answer) = caller
        .post(served.address, "/validate", admission(0))
        .await
        .expect("an answer");
    assert_eq!(
        (code, &answer["response"]["status"]["message"]),
        (200, &json!("too small"))
    );
    let conversion = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": { "uid": "u", "desiredAPIVersion": "example.org/v2", "objects": [{ "apiVersion": "example.org/v1" }] },
    });
    let body = serde_json::to_vec(&conversion).expect("JSON");
    let (code, answer) = caller
        .post(served.address, "/convert", body)
        .await
        .expect("an answer");
    assert_eq!(
        (code, &answer["response"]["convertedObjects"]),
        (200, &json!([{ "apiVersion": "example.org/v2" }]))
    );

    assert_eq!(
        caller
            .post(served.address, "/validate", b"{".to_vec())
            .await
            .expect("an answer")
            .0,
        400
    );
    assert_eq!(
        caller
            .post(served.address, "/elsewhere", Vec::new())
            .await
            .expect("an answer")
            .0,
        404
    );
    assert_eq!(
        caller
            .request(served.address, "GET", "/validate", Vec::new())
            .await
            .expect("an answer")
            .0,
        405
    );
    let long = vec![b' '; (8 << 20) + 1];
    assert_eq!(
        caller
            .post(served.address, "/validate", long)
            .await
            .expect("an answer")
            .0,
        413
    );

    let text = prometheus::TextEncoder::new()
        .encode_to_string(&served.registry.gather())
        .expect("text");
    for line in [
        r#"controller_runtime_webhook_requests_total{code="200",webhook="/validate"} 2"#,
        r#"controller_runtime_webhook_requests_total{code="400",webhook="/validate"} 1"#,
        r#"controller_runtime_webhook_latency_seconds_count{webhook="/convert"} 1"#,
        r#"nephele_webhook_outcomes_total{outcome="allowed",webhook="/validate"} 1"#,
        r#"nephele_webhook_outcomes_total{outcome="denied",webhook="/validate"} 1"#,
        r#"nephele_webhook_outcomes_total{outcome="too_large",webhook="/validate"} 1"#,
        r#"nephele_webhook_outcomes_total{outcome="converted",webhook="/convert"} 1"#,
    ] {
        assert!(text.lines().any(|known| known == line), "{line} in {text}");
    }
    assert!(!text.contains("elsewhere"));
    served.shutdown.cancel();
    served.server.await.expect("no panic").expect("served");
}

#[tokio::test]
async fn without_a_certificate_nothing_is_served_and_nothing_is_ready() {
    let served = start(widgets());
    let other = ServedCertificate::none();
    let caller = Caller::new(&pem_pair(&other), "webhook.default.svc");
    caller
        .post(served.address, "/validate", admission(1))
        .await
        .expect_err("no certificate");
    assert!(!served.certificate.is_set());
    let until_set = tokio::spawn({
        let certificate = served.certificate.clone();
        async move { certificate.until_set().await }
    });
    let caller = Caller::new(&pem_pair(&served.certificate), "webhook.default.svc");
    until_set.await.expect("no panic");
    caller
        .post(served.address, "/validate", admission(1))
        .await
        .expect("an answer");
}

#[tokio::test]
async fn certificates_are_made_trusted_and_served() {
    let api = ManagementApi::start();
    let served = start(widgets());
    let now = start_of_time();
    let until = turn(
        &api.client(),
        &keeping(),
        &served.certificate,
        &served.metrics,
        now,
    )
    .await
    .expect("kept");
    assert_eq!(until, now + LEAF_VALIDITY - LEAF_MARGIN);
    let caller = Caller::trusting(&bundle(&api.client()).await, "webhook.default.svc", now);
    caller
        .post(served.address, "/validate", admission(1))
        .await
        .expect("trusted");
    // Another turn changes nothing.
    let before = (secret(&api.client()).await, bundle(&api.client()).await);
    turn(
        &api.client(),
        &keeping(),
        &served.certificate,
        &served.metrics,
        now,
    )
    .await
    .expect("kept");
    assert_eq!((secret(&api.client()).await, bundle(&api.client()).await), before);
}

#[tokio::test]
async fn two_replicas_that_start_at_once_have_one_authority() {
    let api = ManagementApi::start();
    let now = start_of_time();
    let replicas: Vec<_> = (0..8).map(|_| start(widgets())).collect();
    let client = api.client();
    let keeping = keeping();
    let turns = replicas
        .iter()
        .map(|served| turn(&client, &keeping, &served.certificate, &served.metrics, now));
    for result in futures::future::join_all(turns).await {
        result.expect("kept");
    }
    let caller = Caller::trusting(&bundle(&client).await, "webhook.default.svc", now);
    assert_eq!(bundle(&client).await.matches("BEGIN CERTIFICATE").count(), 1);
    for served in &replicas {
        caller
            .post(served.address, "/validate", admission(1))
            .await
            .expect("the same authority");
    }
}

#[tokio::test]
async fn a_leaf_and_then_an_authority_are_rotated_while_serving() {
    let api = ManagementApi::start();
    let client = api.client();
    let served = start(widgets());
    let mut now = start_of_time();
    let mut until = turn(&client, &keeping(), &served.certificate, &served.metrics, now)
        .await
        .expect("kept");
    let first = bundle(&client).await;
    // A client that trusts the first authority accepts every leaf of it.
    let end = start_of_time() + AUTHORITY_VALIDITY - AUTHORITY_MARGIN;
    let mut leaves = 1;
    while until < end {
        now = until;
        until = turn(&client, &keeping(), &served.certificate, &served.metrics, now)
            .await
            .expect("kept");
        let caller = Caller::trusting(&first, "webhook.default.svc", now);
        caller
            .post(served.address, "/validate", admission(1))
            .await
            .expect("trusted");
        leaves += 1;
    }
    assert!(leaves > 20, "{leaves}");
    assert_eq!(bundle(&client).await, first);
    // The next authority is trusted before it is used.
    now = end;
    until = turn(&client, &keeping(), &served.certificate, &served.metrics, now)
        .await
        .expect("kept");
    let both = bundle(&client).await;
    assert!(both.ends_with(&first) && both != first);
    let with_old_bundle = Caller::trusting(&first, "webhook.default.svc", now);
    with_old_bundle
        .post(served.address, "/validate", admission(1))
        .await
        .expect("still the old leaf");
    assert!(until <= now + SETTLED_AFTER);
    now = until;
    turn(&client, &keeping(), &served.certificate, &served.metrics, now)
        .await
        .expect("kept");
    let with_new_bundle = Caller::trusting(&both, "webhook.default.svc", now);
    with_new_bundle
        .post(served.address, "/validate", admission(1))
        .await
        .expect("the new leaf");
    with_old_bundle
        .post(served.address, "/validate", admission(1))
        .await
        .expect_err("the new leaf");
}

#[tokio::test]
async fn a_secret_of_another_owner_is_left_alone() {
    let api = ManagementApi::start();
    let secrets: Api<Secret> = Api::namespaced(api.client(), NAMESPACE);
    let theirs: Secret = serde_json::from_value(json!({
        "metadata": { "name": "webhook-certificate" }, "stringData": {}, "data": { "tls.crt": "eA==" },
    }))
    .expect("a Secret");
    let theirs = secrets
        .create(&PostParams::default(), &theirs)
        .await
        .expect("created");
    let served = start(widgets());
    let error = turn(
        &api.client(),
        &keeping(),
        &served.certificate,
        &served.metrics,
        start_of_time(),
    )
    .await
    .expect_err("not ours");
    assert!(matches!(error, KeepError::Foreign(name) if name == "webhook-certificate"));
    assert_eq!(secret(&api.client()).await, theirs);
}

#[tokio::test]
async fn a_definition_that_was_applied_again_is_made_to_trust_at_once() {
    let api = ManagementApi::start();
    let client = api.client();
    let served = start(widgets());
    let shutdown = CancellationToken::new();
    let clock: Arc<dyn Fn() -> jiff::Timestamp + Send + Sync> = Arc::new(start_of_time);
    let keeper = tokio::spawn(keep(
        client.clone(),
        keeping(),
        served.certificate.clone(),
        served.metrics.clone(),
        clock,
        shutdown.clone(),
    ));
    served.certificate.until_set().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let bundle_of = |definition: &CustomResourceDefinition| {
        let conversion = definition
            .spec
            .conversion
            .clone()
            .and_then(|conversion| conversion.webhook);
        conversion
            .and_then(|webhook| webhook.client_config)
            .and_then(|config| config.ca_bundle)
    };
    let trusted = bundle(&client).await;
    let mut definition = definitions.get(DEFINITION).await.expect("defined");
    let webhook = definition
        .spec
        .conversion
        .as_mut()
        .and_then(|conversion| conversion.webhook.as_mut());
    webhook
        .and_then(|webhook| webhook.client_config.as_mut())
        .expect("a client")
        .ca_bundle = None;
    let replaced = definitions
        .replace(DEFINITION, &PostParams::default(), &definition)
        .await
        .expect("applied");
    assert_eq!(bundle_of(&replaced), None);
    let again = async {
        let mut watch = std::pin::pin!(kube::runtime::watcher::watch_object(
            definitions.clone(),
            DEFINITION
        ));
        loop {
            let next = futures::StreamExt::next(&mut watch)
                .await
                .expect("a watch does not end");
            if let Ok(Some(definition)) = next
                && let Some(bundle) = bundle_of(&definition)
            {
                return bundle;
            }
        }
    };
    let again = tokio::time::timeout(Duration::from_secs(20), again)
        .await
        .expect("trusted again");
    assert_eq!(String::from_utf8(again.0).expect("PEM"), trusted);
    shutdown.cancel();
    keeper.await.expect("no panic");
}

/// The content of a registry, one sample a line.
fn text(registry: &Registry) -> String {
    prometheus::TextEncoder::new()
        .encode_to_string(&registry.gather())
        .expect("text")
}

#[tokio::test]
async fn calls_are_in_flight_until_they_are_answered_and_panics_are_counted() {
    let entered = Arc::new(Notify::new());
    let leave = Arc::new(Notify::new());
    let enter = Arc::clone(&entered);
    let wait = Arc::clone(&leave);
    let webhook = Webhook::new()
        .validate("/waits", move |_: AdmissionRequest<Value>| {
            let enter = Arc::clone(&enter);
            let wait = Arc::clone(&wait);
            async move {
                enter.notify_one();
                wait.notified().await;
                Ok(Vec::new())
            }
        })
        .validate("/panics", async |_: AdmissionRequest<Value>| {
            panic!("something does not hold")
        })
        .convert("example.org", |_: Value, _: &str| -> Result<Value, String> {
            panic!("neither does this")
        });
    let served = start(webhook);
    let caller = Caller::new(&pem_pair(&served.certificate), "webhook.default.svc");
    let waiting = {
        let address = served.address;
        let caller = caller.clone();
        tokio::spawn(async move {
            caller
                .post(address, "/waits", admission(1))
                .await
                .expect("an answer")
                .0
        })
    };
    entered.notified().await;
    let in_flight = |path: &str, calls: u8| {
        let line = format!("controller_runtime_webhook_requests_in_flight{{webhook=\"{path}\"}} {calls}\n");
        assert!(
            text(&served.registry).contains(&line),
            "{line} in {}",
            text(&served.registry)
        );
    };
    in_flight("/waits", 1);
    leave.notify_one();
    assert_eq!(waiting.await.expect("no panic"), 200);
    in_flight("/waits", 0);

    caller
        .post(served.address, "/panics", admission(1))
        .await
        .expect("an answer");
    let conversion = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": { "uid": "u", "desiredAPIVersion": "example.org/v2", "objects": [{ "apiVersion": "example.org/v1" }] },
    });
    let body = serde_json::to_vec(&conversion).expect("JSON");
    caller
        .post(served.address, "/convert", body)
        .await
        .expect("an answer");
    in_flight("/panics", 0);
    let panics = "controller_runtime_webhook_panics_total 2\n";
    assert!(
        text(&served.registry).contains(panics),
        "{}",
        text(&served.registry)
    );
}

#[tokio::test]
async fn a_review_is_answered_while_slow_bodies_are_on_their_way() {
    let served = start(widgets());
    let caller = Caller::new(&pem_pair(&served.certificate), "webhook.default.svc");
    let _slow = SlowCaller::start(&caller, served.address, "/validate", 64)
        .await
        .expect("connected");
    let all = "controller_runtime_webhook_requests_in_flight{webhook=\"/validate\"} 64\n";
    while !text(&served.registry).contains(all) {
        tokio::task::yield_now().await;
    }
    // Less than the timeout of slow bodies, with a margin for a busy machine.
    let answer = caller.post(served.address, "/validate", admission(1));
    let answer = tokio::time::timeout(Duration::from_secs(8), answer)
        .await
        .expect("not behind slow ones");
    assert_eq!(answer.expect("an answer").0, 200);
}

#[tokio::test]
async fn no_review_is_parsed_that_takes_more_than_a_peer_may_hold() {
    let served = start(widgets());
    let caller = Caller::new(&pem_pair(&served.certificate), "webhook.default.svc");
    for piece in ["{}", "[]", "{\"\":0}", "[[]]", "\"\"", "0"] {
        let dense = format!(
            "[{piece}{}]",
            format!(",{piece}").repeat((6 << 20) / (piece.len() + 1))
        );
        let admission = format!(
            "{{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":\
             {{\"uid\":\"a\",\"operation\":\"CREATE\",\"object\":{dense}}}}}"
        );
        let conversion = format!(
            "{{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"ConversionReview\",\"request\":\
             {{\"uid\":\"a\",\"desiredAPIVersion\":\"example.org/v2\",\"objects\":[{{\"a\":{dense}}}]}}}}"
        );
        for (path, body) in [("/validate", admission), ("/convert", conversion)] {
            let answer = caller
                .post(served.address, path, body.into_bytes())
                .await
                .expect("an answer");
            assert_eq!(answer.0, 413, "{path} of {piece}");
        }
    }
    // The same number of bytes in objects of an ordinary size is no burden: one is parsed at a time.
    let object = json!({ "apiVersion": "example.org/v1", "size": 1, "list": vec![0; 1000] }).to_string();
    let objects = format!(
        "[{object}{}]",
        format!(",{object}").repeat((6 << 20) / object.len())
    );
    let conversion = format!(
        "{{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"ConversionReview\",\"request\":\
         {{\"uid\":\"a\",\"desiredAPIVersion\":\"example.org/v2\",\"objects\":{objects}}}}}"
    );
    let answer = caller
        .post(served.address, "/convert", conversion.into_bytes())
        .await
        .expect("an answer");
    assert_eq!(answer.0, 200);
}

#[tokio::test(start_paused = true)]
async fn reads_of_a_certificate_are_counted_and_so_are_those_that_failed() {
    let path = std::env::temp_dir().join(format!("nephele-webhook-reads-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a folder");
    let registry = Registry::new();
    let metrics = Metrics::register(&registry).expect("free names");
    let certificate = ServedCertificate::none();
    let shutdown = CancellationToken::new();
    let following = follow_folder(
        Folder::new(&path),
        certificate.clone(),
        metrics.clone(),
        shutdown.clone(),
    );
    let following = tokio::spawn(following);
    let count = |name: &str| -> u64 {
        let text = text(&registry);
        let sample = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        sample
            .unwrap_or_else(|| panic!("no {name} in {text}"))
            .parse()
            .expect("a number")
    };
    let counts = || {
        (
            count("certwatcher_read_certificate_total"),
            count("certwatcher_read_certificate_errors_total"),
        )
    };
    // The paused time advances when all tasks are idle.
    while counts().0 < 2 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(counts().0, counts().1);
    let leaf = support::leaf_pem();
    std::fs::write(path.join("tls.crt"), &leaf.certificate).expect("written");
    std::fs::write(path.join("tls.key"), &leaf.key).expect("written");
    certificate.until_set().await;
    // A look is counted when it is over, and serves its certificate before.
    while counts().0 == counts().1 {
        tokio::task::yield_now().await;
    }
    let (reads, failed) = counts();
    assert!(reads > failed && failed >= 2, "{failed} of {reads}");
    shutdown.cancel();
    following.await.expect("no panic");

    // Reads of the Secret are counted as well.
    let api = ManagementApi::start();
    turn(&api.client(), &keeping(), &certificate, &metrics, start_of_time())
        .await
        .expect("kept");
    assert_eq!(counts(), (reads + 1, failed));
    std::fs::remove_dir_all(&path).expect("removed");
}

#[tokio::test]
async fn a_folder_is_served_and_kept_serving_while_its_files_are_bad() {
    let path = std::env::temp_dir().join(format!("nephele-webhook-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a folder");
    let folder = Folder::new(&path);
    let served = start(widgets());
    let files = watched(&folder, served.certificate.clone());
    files.look().expect_err("no files");
    let first = support::leaf_pem();
    std::fs::write(path.join("tls.crt"), &first.certificate).expect("written");
    std::fs::write(path.join("tls.key"), &first.key).expect("written");
    assert_eq!(files.look().expect("good files"), Some(true));
    assert_eq!(files.look().expect("the same files"), None);
    let caller = Caller::trusting(&first.authority, "webhook.default.svc", start_of_time());
    caller
        .post(served.address, "/validate", admission(1))
        .await
        .expect("trusted");
    // Half renewed: one file is already from the next certificate.
    let second = support::leaf_pem();
    std::fs::write(path.join("tls.crt"), &second.certificate).expect("written");
    files.look().expect_err("no pair");
    std::fs::write(path.join("tls.key"), "x").expect("written");
    files.look().expect_err("no key");
    caller
        .post(served.address, "/validate", admission(1))
        .await
        .expect("served on");
    std::fs::write(path.join("tls.key"), &second.key).expect("written");
    assert_eq!(files.look().expect("good files"), Some(true));
    caller
        .post(served.address, "/validate", admission(1))
        .await
        .expect_err("another authority");
    let caller = Caller::trusting(&second.authority, "webhook.default.svc", start_of_time());
    caller
        .post(served.address, "/validate", admission(1))
        .await
        .expect("trusted");
    std::fs::remove_dir_all(&path).expect("removed");
}
