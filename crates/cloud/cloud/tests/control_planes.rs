//! What faults do to certificates, load balancers, etcd and the Nodes of machines, as clients of their cluster see it.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use nephele_cloud::{Affected, Authorities, Effect, Fault, FaultHistory, MachineSpec, active_effect_of};
use nephele_model::{
    Budget, ClusterId, EarlyExpiry, Endpoint, LoadBalancerEffect, MachineId, Matches, Role, Stage,
    VisibleEffect,
};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{io::AsyncReadExt as _, time::Instant};
use tokio_rustls::TlsConnector;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::{
    faults::{id, put},
    support::{
        self, ECDSA, Http, World, admin, client_certificate, client_tls, connect,
        etcd::{Etcd, Members, Status},
        machine, reached,
        spdy::forward,
    },
};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: i64 = 86_400;

fn expiring(after: Duration) -> VisibleEffect {
    VisibleEffect::Certificate(EarlyExpiry::new(after))
}

/// Waits until a connection ends. A request that arrives right before may be answered.
async fn ends(http: &mut Http) {
    let ended = tokio::time::timeout(Duration::from_secs(20), async {
        while http.get("/version").await.is_ok() {
            tokio::task::yield_now().await;
        }
    });
    ended.await.expect("the connection ends");
}

fn machine_id(cluster: &ClusterId, name: &str) -> MachineId {
    MachineId {
        cluster: cluster.clone(),
        name: name.into(),
    }
}

/// When the certificate that a client gets expires.
fn expiry(certificates: Option<&[CertificateDer<'_>]>) -> i64 {
    let (_, certificate) = X509Certificate::from_der(&certificates.unwrap()[0]).unwrap();
    certificate.validity().not_after.timestamp()
}

/// When the certificate at the load balancer expires, and that of a machine's API server through a port-forward, which
/// is opened on `http`.
async fn expiries(endpoint: &Endpoint, tls: &TlsConnector, http: Http, node: &str) -> (i64, i64) {
    let frontend = connect(endpoint, tls).await.unwrap();
    let tunnel = forward(http, &format!("kube-apiserver-{node}"), 6443).await;
    let careless = trusting_anyone(&[]);
    let behind = careless
        .connect(ServerName::try_from("cp").unwrap(), tunnel.stream)
        .await
        .unwrap();
    (
        expiry(frontend.get_ref().1.peer_certificates()),
        expiry(behind.get_ref().1.peer_certificates()),
    )
}

/// TLS of an administrator, over HTTP/1.1, which port-forwards need.
fn admin_tls(authorities: &Authorities) -> TlsConnector {
    client_tls(
        &authorities.cluster,
        Some(&admin(&authorities.cluster)),
        &["http/1.1"],
    )
}

/// TLS of a client that accepts every certificate.
fn trusting_anyone(protocols: &[&str]) -> TlsConnector {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone))
        .with_no_client_auth();
    config.alpn_protocols = protocols
        .iter()
        .map(|protocol| protocol.as_bytes().to_vec())
        .collect();
    TlsConnector::from(Arc::new(config))
}

#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[tokio::test]
async fn certificate_expires_as_its_fault_says_until_the_fault_is_deleted() {
    let world = World::start(30_930..=30_939);
    let (cluster, endpoint) = world.cluster("expiring", &ECDSA);
    let cloud = &world.cloud;
    support::provide(cloud, machine(&cluster, "cp", Role::ControlPlane)).unwrap();
    let tls = admin_tls(&ECDSA);
    // Its client has a ticket to resume its session, and shows no certificate when it does.
    let mut open = Http::connect(&endpoint, &tls).await.unwrap();
    assert_eq!(open.get("/version").await.unwrap().0, 200);
    let started = cloud
        .observe_machine(&machine_id(&cluster, "cp"))
        .unwrap()
        .reached(Stage::ApiServer)
        .unwrap();
    let usual = (
        support::created_at().as_second() + 3650 * DAY,
        started.as_second() + 365 * DAY,
    );
    let http = Http::connect(&endpoint, &tls).await.unwrap();
    assert_eq!(expiries(&endpoint, &tls, http, "cp").await, usual);

    put(cloud, "early", "cp", &expiring(72 * HOUR));
    cloud.observe_cluster(&cluster).unwrap();
    let began = cloud.observe_fault(&id("early")).unwrap().began;
    let in_three_days = began.max(started).as_second() + 3 * DAY;
    let http = Http::connect(&endpoint, &tls).await.unwrap();
    assert_eq!(
        expiries(&endpoint, &tls, http, "cp").await,
        (in_three_days, in_three_days)
    );

    // Of two faults, the certificate that expires first is presented.
    let tunnels = Http::connect(&endpoint, &tls).await.unwrap();
    put(cloud, "expired", "cp", &expiring(Duration::ZERO));
    cloud.observe_cluster(&cluster).unwrap();
    let refused = connect(&endpoint, &tls).await.unwrap_err().to_string();
    assert!(refused.contains("expired"), "{refused}");
    assert_eq!(
        open.get("/version").await.unwrap().0,
        200,
        "open connections stay"
    );
    let now = Timestamp::now().as_second();
    let (frontend, behind) = expiries(&endpoint, &trusting_anyone(&[]), tunnels, "cp").await;
    assert!(
        frontend == behind && frontend < now && frontend > now - 60,
        "{frontend} {behind} {now}"
    );

    for fault in ["early", "expired"] {
        cloud.delete_fault(&id(fault)).unwrap();
    }
    cloud.observe_cluster(&cluster).unwrap();
    let http = Http::connect(&endpoint, &tls).await.unwrap();
    assert_eq!(expiries(&endpoint, &tls, http, "cp").await, usual);
    world.stop().await;
}

#[tokio::test]
async fn machines_take_connections_in_turn_while_one_has_a_certificate_of_its_own() {
    let world = World::start(30_940..=30_949);
    let (cluster, endpoint) = world.cluster("turns", &ECDSA);
    let cloud = &world.cloud;
    for name in ["a", "b", "c"] {
        support::provide(cloud, machine(&cluster, name, Role::ControlPlane)).unwrap();
    }
    put(cloud, "expired", "b", &expiring(Duration::ZERO));
    cloud.observe_cluster(&cluster).unwrap();
    let tls = admin_tls(&ECDSA);
    let mut accepted = Vec::new();
    for _ in 0..6 {
        accepted.push(connect(&endpoint, &tls).await.is_ok());
    }
    assert_eq!(accepted, [true, false, true, true, false, true]);
    world.stop().await;
}

#[tokio::test]
async fn connections_to_a_load_balancer_without_its_backends_reach_no_api_server_or_a_foreign_one() {
    let world = World::start(30_950..=30_959);
    let (cluster, endpoint) = world.cluster("diverted", &ECDSA);
    let cloud = &world.cloud;
    support::provide(cloud, machine(&cluster, "cp", Role::ControlPlane)).unwrap();
    let tls = admin_tls(&ECDSA);
    let mut http = Http::connect(&endpoint, &tls).await.unwrap();
    let none = VisibleEffect::LoadBalancer(LoadBalancerEffect::NoBackends);
    put(cloud, "f", "diverted", &none);
    cloud.observe_cluster(&cluster).unwrap();
    ends(&mut http).await;
    let began = Instant::now();
    assert_eq!(
        connect(&endpoint, &tls).await.unwrap_err().kind(),
        std::io::ErrorKind::UnexpectedEof
    );
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "it does not wait for a backend"
    );
    let hit = Affected {
        cluster: cluster.clone(),
        machine: None,
        until: None,
    };
    assert_eq!(cloud.observe_fault(&id("f")).unwrap().affected, [hit]);

    put(
        cloud,
        "f",
        "diverted",
        &VisibleEffect::LoadBalancer(LoadBalancerEffect::WrongBackends),
    );
    cloud.observe_cluster(&cluster).unwrap();
    let refused = connect(&endpoint, &tls).await.unwrap_err().to_string();
    assert!(
        refused.contains("UnknownIssuer") || refused.contains("BadSignature"),
        "{refused}"
    );
    let mut careless = Http::connect(&endpoint, &trusting_anyone(&["h2"])).await.unwrap();
    let (status, body) = careless.get("/api/v1/nodes").await.unwrap();
    assert_eq!((status.as_u16(), &body["reason"]), (401, &"Unauthorized".into()));

    cloud.delete_fault(&id("f")).unwrap();
    cloud.observe_cluster(&cluster).unwrap();
    ends(&mut careless).await;
    let mut http = Http::connect(&endpoint, &tls).await.unwrap();
    assert_eq!(http.get("/version").await.unwrap().0, 200);
    world.stop().await;
}

#[tokio::test]
async fn open_connections_break_off_and_new_ones_work() {
    let world = World::start(30_960..=30_969);
    let (cluster, endpoint) = world.cluster("reset", &ECDSA);
    let cloud = &world.cloud;
    support::provide(cloud, machine(&cluster, "cp", Role::ControlPlane)).unwrap();
    let tls = admin_tls(&ECDSA);
    let mut http = Http::connect(&endpoint, &tls).await.unwrap();
    assert_eq!(http.get("/version").await.unwrap().0, 200);
    let never = LoadBalancerEffect::Reset {
        after: Duration::ZERO,
        per_million: 0,
    };
    put(cloud, "never", "reset", &VisibleEffect::LoadBalancer(never));
    let soon = LoadBalancerEffect::Reset {
        after: Duration::from_millis(500),
        per_million: 1_000_000,
    };
    put(cloud, "soon", "reset", &VisibleEffect::LoadBalancer(soon));
    cloud.observe_cluster(&cluster).unwrap();
    ends(&mut http).await;
    let began = Instant::now();
    let mut again = Http::connect(&endpoint, &tls).await.unwrap();
    assert_eq!(again.get("/version").await.unwrap().0, 200);
    // A tunnel, on which nothing is sent, breaks too, long before the handshake in it takes too long.
    let mut tunnel = forward(again, "etcd-cp", 2379).await.stream;
    let end = tokio::time::timeout(Duration::from_secs(5), tunnel.read(&mut [0])).await;
    assert!(matches!(end, Ok(Ok(0) | Err(_))), "{end:?}");
    assert!(
        began.elapsed() >= Duration::from_millis(500),
        "{:?}",
        began.elapsed()
    );
    cloud.delete_fault(&id("soon")).unwrap();
    world.stop().await;
}

#[tokio::test]
async fn etcd_hides_a_member_and_answers_late_until_it_is_healed() {
    let world = World::start(30_970..=30_979);
    let (cluster, endpoint) = world.cluster("lying", &ECDSA);
    let cloud = &world.cloud;
    for name in ["cp-1", "cp-2", "cp-3"] {
        support::provide(cloud, machine(&cluster, name, Role::ControlPlane)).unwrap();
    }
    let authority = ECDSA.etcd.as_ref().unwrap();
    let certificate = client_certificate(authority, "cluster-api.x-k8s.io", &[]);
    let http = Http::connect(&endpoint, &admin_tls(&ECDSA)).await.unwrap();
    let tunnel = forward(http, "etcd-cp-2", 2379).await;
    let mut etcd = Etcd::connect(
        tunnel,
        &client_tls(authority, Some(&certificate), &["h2"]),
        "cp-2",
    )
    .await
    .unwrap();
    let names = async |etcd: &mut Etcd| {
        let listed: Members = etcd.call("Cluster/MemberList", &Status::default()).await.unwrap();
        let mut names: Vec<_> = listed.members.into_iter().map(|member| member.name).collect();
        names.sort_unstable();
        names
    };
    put(cloud, "hidden", "cp-2", &VisibleEffect::EtcdMemberHidden);
    // What the manager remembers of the members is the truth.
    assert_eq!(
        cloud.observe_cluster(&cluster).unwrap().etcd_members,
        ["cp-1", "cp-2", "cp-3"]
    );
    assert_eq!(names(&mut etcd).await, ["cp-1", "cp-3"]);
    let slow = VisibleEffect::EtcdSlow {
        base: Duration::from_millis(400),
        jitter_per_million: 0,
    };
    put(cloud, "slow", "lying", &slow);
    cloud.delete_fault(&id("hidden")).unwrap();
    cloud.observe_cluster(&cluster).unwrap();
    let began = Instant::now();
    assert_eq!(names(&mut etcd).await, ["cp-1", "cp-2", "cp-3"]);
    assert!(
        began.elapsed() >= Duration::from_millis(400),
        "{:?}",
        began.elapsed()
    );
    world.stop().await;
}

fn provider_id(node: &serde_json::Value) -> &str {
    node["spec"]["providerID"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn new_node_has_a_wrong_provider_id_until_its_machine_registers_again() {
    let world = World::start(30_980..=30_989);
    let (cluster, endpoint) = world.cluster("strange", &ECDSA);
    let cloud = &world.cloud;
    support::provide(cloud, machine(&cluster, "old", Role::ControlPlane)).unwrap();
    let fault = Fault {
        matches: Matches::default(),
        effect: Effect::Affect(active_effect_of(&VisibleEffect::WrongProviderId)),
        budget: Budget {
            count: Some(1),
            ..Budget::default()
        },
    };
    cloud.put_fault(&id("f"), fault, None).unwrap();
    support::provide(cloud, machine(&cluster, "new", Role::ControlPlane)).unwrap();
    let mut http = Http::connect(&endpoint, &admin_tls(&ECDSA)).await.unwrap();
    let mut nodes = async || {
        let (_, list) = http.get("/api/v1/nodes").await.unwrap();
        let items = list["items"].as_array().unwrap().iter();
        items.map(|node| provider_id(node).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(nodes().await, ["in-memory://unknown/new", "in-memory://old"]);
    let hit = Affected {
        cluster: cluster.clone(),
        machine: Some("new".into()),
        until: None,
    };
    assert_eq!(cloud.observe_fault(&id("f")).unwrap().affected, [hit]);
    assert_eq!(
        cloud
            .observe_machine(&machine_id(&cluster, "new"))
            .unwrap()
            .provider_id,
        "in-memory://new"
    );
    cloud.delete_fault(&id("f")).unwrap();
    cloud.observe_cluster(&cluster).unwrap();
    assert_eq!(nodes().await, ["in-memory://new", "in-memory://old"]);
    let pods = http.names("/api/v1/namespaces/kube-system/pods").await;
    assert_eq!(
        pods.iter().filter(|pod| pod.ends_with("-new")).count(),
        4,
        "{pods:?}"
    );
    world.stop().await;
}

/// As after a restart of the manager: the machine returns with its stages, and the Fault with its status.
#[tokio::test]
async fn what_is_wrong_with_an_adopted_machine_is_as_it_was_before_the_restart() {
    let first = World::start(30_990..=30_999);
    let (cluster, _) = first.cluster("again", &ECDSA);
    let cp = machine(&cluster, "cp", Role::ControlPlane);
    support::provide(&first.cloud, cp.clone()).unwrap();
    let three_hours_ago = |at: Timestamp| at - 3 * HOUR;
    let started_at = Some(three_hours_ago(
        first.cloud.observe_machine(&cp.id).unwrap().started_at,
    ));
    let stages = reached(&first.cloud, &cp.id).into_iter();
    let stages = stages.map(|(stage, at)| (stage, three_hours_ago(at))).collect();
    let known = MachineSpec {
        started_at,
        reached: stages,
        ..cp.clone()
    };
    let started = known.reached[&Stage::ApiServer];
    first.stop().await;

    let world = World::start(30_990..=30_999);
    let cloud = &world.cloud;
    let began = started + 2 * HOUR;
    let affected = vec![Affected {
        cluster: cluster.clone(),
        machine: Some("cp".into()),
        until: None,
    }];
    let history = FaultHistory {
        began,
        matched: 1,
        hits: 1,
        windows: 0,
        affected,
        is_cut: false,
        skipped: vec![],
        leaked: vec![],
    };
    let budget = Budget {
        count: Some(1),
        ..Budget::default()
    };
    for (name, visible_effect) in [
        ("early", expiring(72 * HOUR)),
        ("id", VisibleEffect::WrongProviderId),
    ] {
        let effect = Effect::Affect(active_effect_of(&visible_effect));
        let fault = Fault {
            matches: Matches::default(),
            effect,
            budget: budget.clone(),
        };
        cloud.put_fault(&id(name), fault, Some(history.clone())).unwrap();
    }
    let (_, endpoint) = world.cluster("again", &ECDSA);
    support::provide(cloud, known).unwrap();
    let tls = admin_tls(&ECDSA);
    let mut http = Http::connect(&endpoint, &tls).await.unwrap();
    let (_, node) = http.get("/api/v1/nodes/cp").await.unwrap();
    assert_eq!(provider_id(&node), "in-memory://unknown/cp");
    let expected = began.as_second() + 3 * DAY;
    assert_eq!(expiries(&endpoint, &tls, http, "cp").await, (expected, expected));
    // A Fault that is sent again has begun when it began.
    let effect = Effect::Affect(active_effect_of(&expiring(48 * HOUR)));
    let shorter = Fault {
        matches: Matches::default(),
        effect,
        budget,
    };
    cloud.put_fault(&id("early"), shorter, None).unwrap();
    cloud.observe_cluster(&cluster).unwrap();
    let expected = began.as_second() + 2 * DAY;
    let http = Http::connect(&endpoint, &tls).await.unwrap();
    assert_eq!(expiries(&endpoint, &tls, http, "cp").await, (expected, expected));
    world.stop().await;
}
