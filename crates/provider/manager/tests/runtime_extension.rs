//! A manager with the role of the runtime extension, called as Cluster API calls it.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use nephele_manager::{Config, Manager, Options};
use nephele_pki::{Authority, KeyAlgorithm, LeafRequest};
use nephele_runtime_sdk::{
    catalog::{Catalog, Release},
    client::{
        Client, ClientConfig, LabelSelector, Registration, Registry, ServiceReference, Subject, UnknownHooks,
        transport::{Https, HttpsSettings, Identity},
    },
    hooks::{
        BeforeClusterCreate, BeforeClusterCreateRequest, ValidateTopology, ValidateTopologyRequest, Variable,
    },
    wire::{Bytes, Object},
};
use nephele_testkit::{ManagementApi, PATIENCE, eventually};
use serde_json::json;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "default";
const SERVICE: &str = "nephele-runtime-extension-service";

/// A caller that resolves the Service to this port of this machine.
fn caller(port: u16) -> Client {
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    let hosts_at = BTreeMap::from([(format!("{SERVICE}.{NAMESPACE}.svc"), at)]);
    let transport = Https::new(HttpsSettings {
        hosts_at,
        ..HttpsSettings::default()
    });
    let registry = Registry::of([]).expect("an empty registry");
    Client::builder(Catalog::cluster_api())
        .registry(registry)
        .transport(Arc::new(transport))
        .build()
}

#[tokio::test]
async fn a_replica_without_the_lease_answers_by_its_service_with_a_certificate_of_the_authority_in_its_secret()
 {
    let api = ManagementApi::start();
    // A port that is free now. No other test here asks for a port by its number.
    let free = std::net::TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let start = |identity: &str, port: u16| {
        let options = Options {
            roles: "ipam,runtime-extension".into(),
            leader_elect: true,
            identity: identity.into(),
            pod_namespace: NAMESPACE.into(),
            health_address: "127.0.0.1:0".into(),
            diagnostics_address: "0".into(),
            runtime_extension_port: port,
            ..Options::default()
        };
        Manager::build(Config::new(options).expect("valid"), api.client()).expect("a free port")
    };
    let lease = json!({
        "metadata": { "name": "controller-leader-election-nephele" },
        "spec": {
            "holderIdentity": "another", "leaseDurationSeconds": 3600, "leaseTransitions": 0,
            "acquireTime": "2026-11-21T08:00:00.000000Z", "renewTime": "2099-11-21T08:00:00.000000Z",
        },
    });
    let lease: k8s_openapi::api::coordination::v1::Lease = serde_json::from_value(lease).expect("a Lease");
    api.create(&lease).await;
    let manager = start("waiting", port);
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(manager.run(shutdown.clone()));

    let secret = api
        .eventually::<Secret>(
            "nephele-runtime-extension-certificate",
            "to have a certificate",
            |secret| {
                secret
                    .data
                    .as_ref()
                    .is_some_and(|data| data.contains_key("tls.crt"))
            },
        )
        .await;
    // Cluster API copies this authority into the ExtensionConfig.
    let authority = secret.data.expect("data")["ca.crt"].0.clone();
    let client_config = ClientConfig {
        service: Some(ServiceReference {
            namespace: NAMESPACE.into(),
            name: SERVICE.into(),
            port: Some(i32::from(port)),
            ..ServiceReference::default()
        }),
        ca_bundle: Bytes(authority),
        ..ClientConfig::default()
    };
    let client = caller(port);
    // The Secret exists a moment before its certificate is served.
    let discover = async || {
        client
            .discover("nephele", &client_config, UnknownHooks::Refuse)
            .await
    };
    let discovered = eventually("the extension", discover).await;
    assert_eq!(discovered.handlers.len(), 16);

    let settings = BTreeMap::from([("extensionConfigName".to_owned(), "nephele".to_owned())]);
    let registration = Registration {
        name: "nephele".into(),
        client_config: client_config.clone(),
        namespace_selector: Some(LabelSelector::default()),
        handlers: discovered.handlers,
        settings,
        ..Registration::default()
    };
    client.registry().add(registration).expect("a registration");
    let subject = Subject::new(NAMESPACE, "demo");
    let cluster = json!({ "metadata": { "name": "demo", "namespace": NAMESPACE } });
    let cluster = Object::try_from(cluster).expect("an object");
    let request = BeforeClusterCreateRequest {
        cluster,
        ..BeforeClusterCreateRequest::default()
    };
    let response = client
        .call_all::<BeforeClusterCreate>(&subject, &request)
        .await
        .expect("a response");
    assert_eq!(response.retry_after_seconds, 0);
    let record = api
        .get::<ConfigMap>("demo-nephele-test-extension-hookresponses")
        .await
        .data
        .expect("data");
    assert_eq!(
        record["BeforeClusterCreate-actualResponseStatus"],
        "Status: Success, RetryAfterSeconds: 0"
    );

    // As large as a topology may get; Cluster API's own limit is 20 MiB.
    let large = Variable {
        name: "large".into(),
        value: json!("x".repeat(15 << 20)),
    };
    let request = ValidateTopologyRequest {
        variables: vec![large],
        ..ValidateTopologyRequest::default()
    };
    let verdict = client
        .call::<ValidateTopology>("validate-topology.nephele", &subject, &request)
        .await;
    verdict.expect("a large request is read");
    let larger = Variable {
        name: "larger".into(),
        value: json!("x".repeat(21 << 20)),
    };
    let request = ValidateTopologyRequest {
        variables: vec![larger],
        ..ValidateTopologyRequest::default()
    };
    let refused = client
        .call::<ValidateTopology>("validate-topology.nephele", &subject, &request)
        .await;
    refused.expect_err("there is a bound");

    shutdown.cancel();
    timeout(PATIENCE, task)
        .await
        .expect("an end in bounded time")
        .expect("no panic")
        .expect("no error");
}

/// Cluster API 1.10 and 1.11 would refuse an extension that offers later hooks.
#[tokio::test]
async fn an_older_cluster_api_is_offered_what_it_knows() {
    let recordings = std::env::temp_dir().join(format!("nephele-recordings-{}", std::process::id()));
    let mut offered = Vec::new();
    for release in ["v1.11.2", "1.14"] {
        let folder = recordings.join(release);
        let api = ManagementApi::start();
        let free = std::net::TcpListener::bind("0.0.0.0:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let options = Options {
            roles: "runtime-extension".into(),
            pod_namespace: NAMESPACE.into(),
            health_address: "127.0.0.1:0".into(),
            diagnostics_address: "0".into(),
            runtime_extension_port: port,
            runtime_extension_cluster_api: release.into(),
            runtime_extension_recordings: folder.display().to_string(),
            ..Options::default()
        };
        let config = Config::new(options).expect("valid");
        let manager = Manager::build(config, api.client()).expect("a free port");
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(manager.run(shutdown.clone()));
        let secret = api
            .eventually::<Secret>(
                "nephele-runtime-extension-certificate",
                "to have a certificate",
                |secret| {
                    secret
                        .data
                        .as_ref()
                        .is_some_and(|data| data.contains_key("tls.crt"))
                },
            )
            .await;
        let client_config = ClientConfig {
            url: format!("https://localhost:{port}"),
            ca_bundle: Bytes(secret.data.expect("data")["ca.crt"].0.clone()),
            ..ClientConfig::default()
        };
        let release: Release = release.parse().expect("a release");
        let client = Client::builder(Catalog::cluster_api_at(release)).build();
        let discover = async || {
            client
                .discover("nephele", &client_config, UnknownHooks::Refuse)
                .await
        };
        let discovered = eventually("the extension", discover).await;
        offered.push(discovered.handlers.len());
        shutdown.cancel();
        timeout(PATIENCE, task)
            .await
            .expect("an end in bounded time")
            .expect("no panic")
            .expect("no error");
        // The recording is written in the background.
        let kept = async || std::fs::read_dir(&folder).expect("a folder").next().ok_or(());
        drop(eventually("a recording", kept).await);
    }
    // All hooks of 1.11 except discovery, and more.
    assert!(offered[0] == 9 && offered[1] > 9, "{offered:?}");
    std::fs::remove_dir_all(recordings).expect("it was made here");
}

/// Without client certificates, anybody who reaches the port could make the extension act with the manager's
/// permissions.
#[tokio::test]
async fn clients_without_a_certificate_of_the_given_authorities_are_not_answered() {
    let api = ManagementApi::start();
    let free = std::net::TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let now = jiff::Timestamp::now();
    let not_before = now - jiff::SignedDuration::from_hours(1);
    let not_after = now + jiff::SignedDuration::from_hours(1);
    let authority = |name: &str| {
        Authority::generate(name, KeyAlgorithm::EcdsaP256, not_before, not_after).expect("an authority")
    };
    let shown = |authority: &Authority| {
        let request = LeafRequest {
            common_name: "cluster-api".into(),
            organizations: vec![],
            dns_names: vec![],
            ip_addresses: vec![],
            server_auth: false,
            client_auth: true,
            not_before,
            not_after,
            identity: "cluster-api".into(),
        };
        let leaf = authority.issue(&request).expect("a leaf");
        Identity::from_pem(leaf.certificate_pem().as_bytes(), leaf.key_pem().as_bytes()).expect("an identity")
    };
    let ours = authority("ours");
    let theirs = authority("theirs");
    let file = std::env::temp_dir().join(format!("nephele-clients-{}.crt", std::process::id()));
    std::fs::write(&file, ours.certificate_pem()).expect("a file");
    let options = Options {
        roles: "runtime-extension".into(),
        namespace: NAMESPACE.into(),
        pod_namespace: NAMESPACE.into(),
        health_address: "127.0.0.1:0".into(),
        diagnostics_address: "0".into(),
        runtime_extension_port: port,
        runtime_extension_client_ca_file: file.display().to_string(),
        ..Options::default()
    };
    let config = Config::new(options).expect("valid");
    let manager = Manager::build(config, api.client()).expect("a free port");
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(manager.run(shutdown.clone()));
    let secret = api
        .eventually::<Secret>(
            "nephele-runtime-extension-certificate",
            "to have a certificate",
            |secret| {
                secret
                    .data
                    .as_ref()
                    .is_some_and(|data| data.contains_key("tls.crt"))
            },
        )
        .await;
    let client_config = ClientConfig {
        url: format!("https://localhost:{port}"),
        ca_bundle: Bytes(secret.data.expect("data")["ca.crt"].0.clone()),
        ..ClientConfig::default()
    };
    let caller = |identity: Option<Identity>| {
        let transport = Https::new(HttpsSettings::default());
        transport.set_identity(identity);
        Client::builder(Catalog::cluster_api())
            .transport(Arc::new(transport))
            .build()
    };
    let known = caller(Some(shown(&ours)));
    let discover = async || {
        known
            .discover("nephele", &client_config, UnknownHooks::Refuse)
            .await
    };
    eventually("an answer for a client with a certificate", discover).await;
    for identity in [None, Some(shown(&theirs))] {
        let stranger = caller(identity);
        let refused = stranger
            .discover("nephele", &client_config, UnknownHooks::Refuse)
            .await;
        refused.expect_err("no certificate of these authorities");
    }
    shutdown.cancel();
    timeout(PATIENCE, task)
        .await
        .expect("an end in bounded time")
        .expect("no panic")
        .expect("no error");
    std::fs::remove_file(file).expect("it was written here");
}
