//! The whole manager in this process, over an in-process management API and real loopback sockets.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use nephele_api::{
    core::Cluster,
    infrastructure::v1beta2::{InMemoryCluster, MachineNetwork, PoolReference},
    ipam::v1alpha2::{InClusterIPPool, InClusterIPPoolSpec},
};
use nephele_controller::chain;
use nephele_manager::{BuildError, Config, DIAGNOSTICS_CERTIFICATE, Manager, Options, RunError, fingerprint};
use nephele_testkit::{ManagementApi, PATIENCE, eventually, objects};
use rustls::version::{TLS12, TLS13};
use serde_json::{Value, json};
use tokio::{net::TcpStream, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::fetch::{certificate, fetch, fetch_by_tls, post_by_tls, speaks};

fn options() -> Options {
    Options {
        health_address: "127.0.0.1:0".into(),
        diagnostics_address: "127.0.0.1:0".into(),
        insecure_diagnostics: true,
        bind_address: "127.0.0.1".into(),
        ..Options::default()
    }
}

fn elected(identity: &str) -> Options {
    Options {
        leader_elect: true,
        identity: identity.into(),
        pod_namespace: "default".into(),
        lease_duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(50),
        ..options()
    }
}

/// A running manager.
struct Running {
    health: SocketAddr,
    diagnostics: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Running {
    fn start(options: Options, client: &Client) -> Self {
        let manager =
            Manager::build(Config::new(options).expect("valid"), client.clone()).expect("free ports");
        let health = manager.health_address().expect("health is served");
        let diagnostics = manager.diagnostics_address().expect("diagnostics are served");
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(manager.run(shutdown.clone()));
        Self {
            health,
            diagnostics,
            shutdown,
            task,
        }
    }

    /// Waits until the answer on `path` satisfies `wanted`.
    async fn until(&self, path: &str, wanted: impl Fn(u16, &str) -> bool) -> String {
        let address = if path == "/metrics" {
            self.diagnostics
        } else {
            self.health
        };
        let look = async || {
            let (status, body) = fetch(address, path).await;
            if wanted(status, &body) {
                Ok(body)
            } else {
                Err((status, body))
            }
        };
        eventually(&format!("an answer on {path}"), look).await
    }

    async fn ready(&self) {
        self.until("/readyz", |status, body| status == 200 && body == "ok")
            .await;
    }

    async fn leading(&self, leading: bool) {
        let line = format!(
            "leader_election_master_status{{name=\"controller-leader-election-nephele\"}} {}",
            u8::from(leading)
        );
        self.until("/metrics", |_, body| body.lines().any(|sample| sample == line))
            .await;
    }

    async fn ended(self) -> Result<(), RunError> {
        timeout(PATIENCE, self.task)
            .await
            .expect("an end in bounded time")
            .expect("no panic")
    }
}

#[tokio::test]
async fn it_becomes_ready_tells_its_metrics_and_stops_when_told() {
    let manager = Running::start(options(), &ManagementApi::start().client());
    manager.ready().await;
    assert_eq!(fetch(manager.health, "/healthz").await, (200, "ok".to_owned()));
    let (status, metrics) = fetch(manager.diagnostics, "/metrics").await;
    assert_eq!(status, 200);
    for sample in [
        "controller_runtime_max_concurrent_reconciles{controller=\"inmemorycluster\"} 50",
        "controller_runtime_max_concurrent_reconciles{controller=\"inmemorymachine\"} 100",
        "nephele_build_info{",
        "process_resident_memory_bytes ",
    ] {
        assert!(
            metrics.lines().any(|line| line.starts_with(sample)),
            "{sample} is not in\n{metrics}"
        );
    }
    let health = manager.health;
    let diagnostics = manager.diagnostics;
    manager.shutdown.cancel();
    manager.ended().await.expect("an orderly end");
    for address in [health, diagnostics] {
        assert!(
            TcpStream::connect(address).await.is_err(),
            "{address} still listens"
        );
    }
}

#[tokio::test]
async fn diagnostics_are_encrypted_and_ask_for_a_token() {
    let options = Options {
        insecure_diagnostics: false,
        ..options()
    };
    let manager = Running::start(options, &ManagementApi::start().client());
    for path in ["/metrics", "/journal"] {
        assert_eq!(
            fetch_by_tls(manager.diagnostics, path).await,
            (401, String::new()),
            "{path}"
        );
    }
    manager.shutdown.cancel();
    manager.ended().await.expect("an orderly end");
}

#[tokio::test]
async fn lease_of_the_leader_names_the_certificate_of_its_diagnostics() {
    let api = ManagementApi::start();
    let mut served = Vec::new();
    for identity in ["one", "two"] {
        let options = Options {
            insecure_diagnostics: false,
            ..elected(identity)
        };
        let manager = Running::start(options, &api.client());
        let certificate = certificate(manager.diagnostics).await;
        let is_its = |lease: &Lease| {
            lease
                .spec
                .as_ref()
                .and_then(|spec| spec.holder_identity.as_deref())
                == Some(identity)
        };
        let name = "controller-leader-election-nephele";
        let lease: Lease = api.eventually(name, "held", is_its).await;
        let annotations = lease.metadata.annotations.unwrap_or_default();
        assert_eq!(
            annotations.get(DIAGNOSTICS_CERTIFICATE),
            Some(&fingerprint(&certificate))
        );
        served.push(certificate);
        manager.shutdown.cancel();
        manager.ended().await.expect("an orderly end");
    }
    assert_ne!(served[0], served[1]);
}

#[tokio::test]
async fn without_protection_there_are_metrics_and_nothing_else() {
    let client = ManagementApi::start().client();
    let manager = Manager::build(Config::new(options()).expect("valid"), client).expect("free ports");
    let manager = manager.with_verbosity(std::sync::Arc::new(|_| {
        panic!("no reviewer was asked who this is")
    }));
    let diagnostics = manager.diagnostics_address().expect("diagnostics are served");
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(manager.run(shutdown.clone()));
    assert_eq!(fetch(diagnostics, "/metrics").await.0, 200);
    // A served path that allows only PUT answers 405.
    for path in ["/journal", "/debug/flags/v", "/debug/pprof/", "/"] {
        assert_eq!(fetch(diagnostics, path).await.0, 404, "{path}");
    }
    shutdown.cancel();
    timeout(PATIENCE, task)
        .await
        .expect("an end in bounded time")
        .expect("no panic")
        .expect("an orderly end");
}

#[tokio::test]
async fn one_of_two_works_and_the_other_follows_when_it_stops() {
    let client = ManagementApi::start().client();
    let first = Running::start(elected("first"), &client);
    first.leading(true).await;
    first.ready().await;
    let second = Running::start(elected("second"), &client);
    second.leading(false).await;
    // A standby replica is as ready as it can be.
    second.ready().await;
    first.shutdown.cancel();
    first.ended().await.expect("an orderly end");
    second.leading(true).await;
    second.ready().await;
    second.shutdown.cancel();
    second.ended().await.expect("an orderly end");
}

#[tokio::test]
async fn a_lost_lease_ends_the_manager_with_the_reason() {
    let client = ManagementApi::start().client();
    let manager = Running::start(elected("me"), &client);
    manager.leading(true).await;
    let leases = Api::<Lease>::namespaced(client, "default");
    let taken = Patch::Merge(json!({ "spec": { "holderIdentity": "another" } }));
    leases
        .patch(
            "controller-leader-election-nephele",
            &PatchParams::default(),
            &taken,
        )
        .await
        .expect("patched");
    let error = manager.ended().await.expect_err("it cannot continue");
    assert_eq!(
        chain(&error),
        "a part of the manager ended: leader election failed: \
         lost the lease default/controller-leader-election-nephele to another"
    );
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let options = Options {
        health_address: address.clone(),
        ..options()
    };
    let config = Config::new(options).expect("valid");
    let error = Manager::build(config, ManagementApi::start().client())
        .err()
        .expect("the port is taken");
    assert!(matches!(error, BuildError::Listen { .. }));
    assert_eq!(
        error.to_string(),
        format!("failed to listen on {address} for health")
    );
}

#[tokio::test]
async fn every_replica_serves_the_webhooks_and_the_definitions_trust_them() {
    let api = ManagementApi::start();
    let ports = [15_201, 15_202];
    let replicas = ports.map(|webhook_port| {
        let options = Options {
            webhook_port,
            ..elected(&webhook_port.to_string())
        };
        Running::start(options, &api.client())
    });
    for replica in &replicas {
        replica
            .until("/readyz?verbose", |_, body| body.contains("[+]webhook ok"))
            .await;
    }
    for port in ports {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        // Reviews are sent with POST. GET is not allowed, and other paths do not exist.
        assert_eq!(fetch_by_tls(address, "/convert").await.0, 405);
        assert_eq!(fetch_by_tls(address, "/metrics").await.0, 404);
        // The kinds of both roles are converted.
        let cluster = |api_version: &str, domains: Value| {
            json!({
                "apiVersion": api_version, "kind": "InMemoryCluster",
                "metadata": { "name": "one" }, "spec": { "failureDomains": domains },
            })
        };
        let pool = |api_version: &str| {
            json!({
                "apiVersion": api_version, "kind": "InClusterIPPool",
                "metadata": { "name": "one" }, "spec": { "addresses": ["10.0.0.1"], "prefix": 24 },
            })
        };
        let group = "infrastructure.cluster.x-k8s.io";
        let pools = "ipam.cluster.x-k8s.io";
        for (desired, sent, expected) in [
            (
                format!("{group}/v1beta1"),
                cluster(
                    &format!("{group}/v1beta2"),
                    json!([{ "name": "a", "controlPlane": true }]),
                ),
                cluster(
                    &format!("{group}/v1beta1"),
                    json!({ "a": { "controlPlane": true } }),
                ),
            ),
            (
                format!("{pools}/v1alpha1"),
                pool(&format!("{pools}/v1alpha2")),
                pool(&format!("{pools}/v1alpha1")),
            ),
        ] {
            let review = json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
                "request": { "uid": "1", "desiredAPIVersion": desired, "objects": [sent] },
            });
            let (status, body) = post_by_tls(address, "/convert", &review.to_string()).await;
            let answer: Value = serde_json::from_str(&body).expect("JSON");
            assert_eq!(
                (status, &answer["response"]["convertedObjects"]),
                (200, &json!([expected])),
                "{body}"
            );
        }
    }
    let secrets: Api<Secret> = Api::namespaced(api.client(), "default");
    let secret = secrets.get("nephele-webhook-certificate").await.expect("kept");
    let authority = &secret.data.expect("certificates")["ca.crt"];
    for name in [
        "inclusterippools.ipam.cluster.x-k8s.io",
        "globalinclusterippools.ipam.cluster.x-k8s.io",
        "inmemoryclusters.infrastructure.cluster.x-k8s.io",
        "inmemoryclustertemplates.infrastructure.cluster.x-k8s.io",
        "inmemorymachines.infrastructure.cluster.x-k8s.io",
        "inmemorymachinetemplates.infrastructure.cluster.x-k8s.io",
    ] {
        let definitions: Api<CustomResourceDefinition> = Api::all(api.client());
        let conversion = definitions
            .get(name)
            .await
            .expect("defined")
            .spec
            .conversion
            .expect("a conversion");
        let client = conversion
            .webhook
            .and_then(|webhook| webhook.client_config)
            .expect("a client");
        assert_eq!(client.ca_bundle.as_ref(), Some(authority), "{name}");
    }
    for replica in replicas {
        replica.shutdown.cancel();
        replica.ended().await.expect("an orderly end");
    }
}

#[tokio::test]
async fn every_server_speaks_the_tls_that_it_is_told_to() {
    let webhook_port = 15_207;
    let runtime_extension_port = 15_208;
    let options = Options {
        roles: "infrastructure,ipam,runtime-extension".into(),
        insecure_diagnostics: false,
        tls_min_version: "VersionTLS13".into(),
        webhook_port,
        runtime_extension_port,
        workload_ports: "18640-18649".into(),
        pod_namespace: "default".into(),
        ..options()
    };
    let manager = Running::start(options, &ManagementApi::start().client());
    manager.ready().await;
    let here = |port| SocketAddr::from(([127, 0, 0, 1], port));
    for address in [
        manager.diagnostics,
        here(webhook_port),
        here(runtime_extension_port),
    ] {
        assert!(speaks(address, &TLS13).await, "{address}");
        assert!(!speaks(address, &TLS12).await, "{address}");
    }
    manager.shutdown.cancel();
    manager.ended().await.expect("an orderly end");
}

/// Prefixes of metrics that others define: controller-runtime, client-go, Cluster API, the process collector.
const BORROWED: [&str; 7] = [
    "capi_",
    "certwatcher_",
    "controller_runtime_",
    "leader_election_",
    "process_",
    "rest_client_",
    "workqueue_",
];

#[tokio::test]
async fn our_own_metrics_are_called_so_and_name_no_object_but_pools() {
    let api = ManagementApi::start();
    let options = Options {
        webhook_port: 15_203,
        workload_ports: "18620-18629".into(),
        ..elected("another")
    };
    let manager = Running::start(options, &api.client());
    manager.ready().await;
    let spec = InClusterIPPoolSpec {
        addresses: vec!["10.20.0.10".into()],
        prefix: 24,
        ..InClusterIPPoolSpec::default()
    };
    let mut pool = InClusterIPPool::new("named-pool", spec);
    pool.metadata.namespace = Some(objects::NAMESPACE.into());
    api.create(&pool).await;
    let cluster = api.create(&objects::cluster("named-cluster")).await;
    api.create(&objects::in_memory_cluster(&cluster)).await;
    let machine = api
        .create(&objects::worker("named-cluster", "named-machine"))
        .await;
    let mut machine = objects::in_memory_machine(&machine);
    let api_group = "ipam.cluster.x-k8s.io".into();
    let kind = "InClusterIPPool".into();
    let pools = PoolReference {
        api_group,
        kind,
        name: "named-pool".into(),
    };
    machine.spec.network = Some(MachineNetwork {
        addresses_from_pools: vec![pools],
    });
    api.create(&machine).await;
    api.eventually(
        "named-cluster",
        "to be provisioned",
        InMemoryCluster::is_provisioned,
    )
    .await;
    api.patch_status::<Cluster>("named-cluster", &json!(objects::provisioned(true)))
        .await;
    let used = "nephele_ipam_pool_addresses_used{kind=\"InClusterIPPool\",name=\"named-pool\",namespace=\"default\"} 1";
    let metrics = manager
        .until("/metrics", |_, body| body.lines().any(|line| line == used))
        .await;

    let mut labels = BTreeSet::new();
    for line in metrics.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').expect("a name and a type");
            let is_borrowed = BORROWED.iter().any(|prefix| name.starts_with(prefix));
            assert!(is_borrowed || name.starts_with("nephele_"), "{name}");
            assert!(
                is_borrowed || kind != "counter" || name.ends_with("_total"),
                "{name} is a counter"
            );
            continue;
        }
        let Some((name, rest)) = line.split_once('{') else {
            continue;
        };
        let of_pool = name.starts_with("nephele_ipam_pool_");
        assert_eq!(line.contains("named-"), of_pool, "{line}");
        if !of_pool && name.starts_with("nephele_") {
            let rest = rest.rsplit_once('}').expect("labels end").0;
            labels.extend(
                rest.split("\",")
                    .filter_map(|label| label.split_once('='))
                    .map(|label| label.0.to_owned()),
            );
        }
    }
    // Each of these labels has as many values as the program lists, or as the API has kinds and verbs.
    let bounded = [
        "category",
        "code",
        "controller",
        "effect",
        "group",
        "kind",
        "le",
        "method",
        "operation",
        "outcome",
        "permitted",
        "phase",
        "resource",
        "result",
        "revision",
        "rpc",
        "stage",
        "verb",
        "version",
        "webhook",
    ];
    let unknown: Vec<_> = labels
        .iter()
        .filter(|label| !bounded.contains(&label.as_str()))
        .collect();
    assert!(
        unknown.is_empty() && labels.contains("controller"),
        "{unknown:?} of {labels:?}"
    );
    manager.shutdown.cancel();
    manager.ended().await.expect("an orderly end");
}
