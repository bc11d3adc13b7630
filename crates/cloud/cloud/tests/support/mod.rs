//! A cloud over loopback and a client of its clusters, for tests.

pub(crate) mod etcd;
pub(crate) mod spdy;

use std::{
    collections::BTreeMap,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use nephele_cloud::{
    Allocation, Authorities, Authority, Cloud, CloudConfig, CloudSpec, ClusterSpec, MachineError, MachineSpec,
};
use nephele_model::{Caller, ClusterId, Endpoint, MachineId, Market, Role, Stage};
use nephele_pki::{KeyAlgorithm, Leaf, LeafRequest};
use prometheus::Registry;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
};
use serde_json::Value;
use tokio::{net::TcpStream, task::JoinHandle, time::Instant};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Long enough for a busy machine. No test waits that long if all is well.
const PATIENCE: Duration = Duration::from_secs(20);

/// 2026-01-01T00:00:00Z.
pub(crate) fn created_at() -> Timestamp {
    Timestamp::from_second(1_767_225_600).unwrap()
}

/// Authorities with Cluster API's default keys, created once because RSA keys take a second to find.
pub(crate) static RSA: LazyLock<Authorities> = LazyLock::new(|| authorities(KeyAlgorithm::Rsa2048));
pub(crate) static ECDSA: LazyLock<Authorities> = LazyLock::new(|| authorities(KeyAlgorithm::EcdsaP256));

pub(crate) fn authorities(algorithm: KeyAlgorithm) -> Authorities {
    let authority = |name: &str| {
        let end = Timestamp::from_second(created_at().as_second() + 10 * 365 * 86_400).unwrap();
        Authority::generate(name, algorithm, created_at(), end).unwrap()
    };
    Authorities {
        cluster: authority("kubernetes"),
        etcd: Some(authority("etcd-ca")),
    }
}

/// A running cloud.
pub(crate) struct World {
    pub cloud: Cloud,
    pub registry: Registry,
    driver: JoinHandle<()>,
}

impl World {
    /// A cloud with its own ports, so that tests can run side by side.
    pub(crate) fn start(ports: RangeInclusive<u16>) -> Self {
        Self::start_with(ports, PATIENCE)
    }

    pub(crate) fn start_with(ports: RangeInclusive<u16>, connection_hold: Duration) -> Self {
        Self::start_by(ports, connection_hold, None)
    }

    /// A cloud that keeps the objects of its clusters.
    pub(crate) fn start_kept(ports: RangeInclusive<u16>, directory: &Path) -> Self {
        Self::start_by(ports, PATIENCE, Some(directory.to_owned()))
    }

    /// A cloud with a limit of machines per namespace.
    pub(crate) fn start_within(ports: RangeInclusive<u16>, machines_max: u32) -> Self {
        let world = Self::start_unprepared_by(ports, PATIENCE, None, Some(machines_max));
        world.cloud.reserve_endpoints([]);
        world
    }

    fn start_by(
        ports: RangeInclusive<u16>,
        connection_hold: Duration,
        state_directory: Option<PathBuf>,
    ) -> Self {
        let world = Self::start_unprepared_by(ports, connection_hold, state_directory, None);
        world.cloud.reserve_endpoints([]);
        world
    }

    /// A cloud that does not know yet which clusters existed before a restart.
    pub(crate) fn start_unprepared(ports: RangeInclusive<u16>) -> Self {
        Self::start_unprepared_by(ports, PATIENCE, None, None)
    }

    fn start_unprepared_by(
        ports: RangeInclusive<u16>,
        connection_hold: Duration,
        state_directory: Option<PathBuf>,
        machines_max: Option<u32>,
    ) -> Self {
        let registry = Registry::new();
        let config = CloudConfig {
            connection_hold,
            state_directory,
            machines_max,
            ..config(ports)
        };
        let (cloud, driver) = Cloud::start(config, &registry).unwrap();
        Self {
            cloud,
            registry,
            driver: tokio::spawn(driver),
        }
    }

    pub(crate) async fn stop(self) {
        self.cloud.shutdown().await;
        self.driver.await.unwrap();
        assert_eq!(self.cloud.task_count(), 0);
    }

    /// The value of a gauge, summed over its labels.
    pub(crate) fn gauge(&self, name: &str) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        family.map_or(0.0, |family| {
            family
                .get_metric()
                .iter()
                .map(|m| m.get_gauge().get_value())
                .sum()
        })
    }

    /// The sum of a counter.
    pub(crate) fn counter(&self, name: &str) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        family.map_or(0.0, |family| {
            family
                .get_metric()
                .iter()
                .map(|m| m.get_counter().get_value())
                .sum()
        })
    }

    /// Waits until a gauge has a value.
    pub(crate) async fn until(&self, name: &str, value: f64) {
        eventually(&format!("{name} is {value}"), || self.gauge(name) == value).await;
    }

    /// A cluster named `name` with its authorities.
    pub(crate) fn cluster(&self, name: &str, authorities: &Authorities) -> (ClusterId, Endpoint) {
        let spec = cluster(name);
        let id = spec.id.clone();
        let endpoint = self.cloud.ensure_cluster(spec).unwrap();
        self.cloud.set_authorities(&id, authorities.clone()).unwrap();
        (id, endpoint)
    }
}

/// The configuration of a cloud on loopback, without limits and without a state directory.
pub(crate) fn config(ports: RangeInclusive<u16>) -> CloudConfig {
    CloudConfig {
        advertise_host: "127.0.0.1".into(),
        bind_address: [127, 0, 0, 1].into(),
        ports,
        moved_ports: vec![1..=u16::MAX],
        clusters_max: None,
        seed: "amber-otter-lamp".into(),
        connection_hold: PATIENCE,
        state_directory: None,
        machines_max: None,
        cloud_spec: CloudSpec::default(),
        clock: Arc::new(Timestamp::now),
    }
}

/// A cloud whose clock is tokio's, which tests pause, `ahead` of the time at which clusters are created.
pub(crate) fn on_tokio_time(ports: RangeInclusive<u16>, ahead: Duration) -> Cloud {
    let start = Instant::now();
    let config = CloudConfig {
        connection_hold: Duration::from_secs(10),
        clock: Arc::new(move || created_at() + ahead + start.elapsed()),
        ..config(ports)
    };
    let (cloud, driver) = Cloud::start(config, &Registry::new()).unwrap();
    tokio::spawn(driver);
    cloud.reserve_endpoints([]);
    cloud
}

/// Waits until a condition holds. Fails the test if that takes too long.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .unwrap_or_else(|_| panic!("never came: {what}"));
}

pub(crate) fn cluster(name: &str) -> ClusterSpec {
    ClusterSpec {
        id: ClusterId {
            namespace: "default".into(),
            name: name.into(),
        },
        labels: BTreeMap::new(),
        region: None,
        cloud_spec: String::new(),
        endpoint: None,
        created_at: created_at(),
        is_read_refused: false,
        pod_cidrs: vec!["192.168.0.0/16".into()],
        service_cidrs: vec!["10.128.0.0/12".into()],
        service_domain: "cluster.local".into(),
    }
}

pub(crate) fn machine(cluster: &ClusterId, name: &str, role: Role) -> MachineSpec {
    MachineSpec {
        id: MachineId {
            cluster: cluster.clone(),
            name: name.into(),
        },
        labels: BTreeMap::new(),
        role,
        caller: Caller::Machine,
        version: "v1.36.3".into(),
        zone: None,
        region: None,
        cloud_spec: String::new(),
        instance_type: None,
        market: Market::OnDemand,
        hardware: None,
        image: None,
        start_up: BTreeMap::new(),
        allocation: Allocation::default(),
        started_at: None,
        reached: BTreeMap::new(),
        is_deregistered: false,
        etcd_member_removed: false,
        etcd_image_tag: None,
        files: None,
        kubeadm: None,
        update: None,
    }
}

/// Creates a machine, and registers it with the load balancer if it is of the control plane.
pub(crate) fn provide(cloud: &Cloud, spec: MachineSpec) -> Result<(), MachineError> {
    let id = spec.id.clone();
    let role = spec.role;
    cloud.ensure_machine(spec)?;
    if role == Role::ControlPlane {
        cloud.register_backend(&id)
    } else {
        Ok(())
    }
}

/// The stages that a machine has reached, for adopting it.
pub(crate) fn reached(cloud: &Cloud, id: &MachineId) -> BTreeMap<Stage, Timestamp> {
    let seen = cloud.observe_machine(id).unwrap();
    Stage::ALL
        .into_iter()
        .filter_map(|stage| Some((stage, seen.reached(stage)?)))
        .collect()
}

/// A client certificate like those that KCP puts into kubeconfigs.
pub(crate) fn admin(authority: &Authority) -> Leaf {
    client_certificate(authority, "kubernetes-admin", &["system:masters"])
}

pub(crate) fn client_certificate(authority: &Authority, name: &str, groups: &[&str]) -> Leaf {
    let end = Timestamp::from_second(created_at().as_second() + 5 * 365 * 86_400).unwrap();
    let request = LeafRequest {
        common_name: name.into(),
        organizations: groups.iter().map(|&group| group.to_owned()).collect(),
        dns_names: Vec::new(),
        ip_addresses: Vec::new(),
        server_auth: false,
        client_auth: true,
        not_before: created_at(),
        not_after: end,
        identity: format!("test/{name}"),
    };
    authority.issue(&request).unwrap()
}

/// TLS of a client that trusts the authority, presents the certificate and offers the protocols.
pub(crate) fn client_tls(
    trusted: &Authority,
    certificate: Option<&Leaf>,
    protocols: &[&str],
) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from(trusted.certificate_der().to_vec()))
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match certificate {
        Some(leaf) => {
            let certificate = CertificateDer::from(leaf.certificate_der().to_vec());
            let key = PrivateKeyDer::try_from(leaf.key_der().to_vec()).unwrap();
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = protocols
        .iter()
        .map(|protocol| protocol.as_bytes().to_vec())
        .collect();
    TlsConnector::from(Arc::new(config))
}

pub(crate) async fn connect(
    endpoint: &Endpoint,
    tls: &TlsConnector,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
    let name = ServerName::try_from(endpoint.host.clone()).unwrap();
    tls.connect(name, stream).await
}

/// An HTTP client on one connection.
pub(crate) enum Http {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

impl Http {
    /// A connection with a client certificate like those that KCP puts into kubeconfigs.
    pub(crate) async fn of_admin(endpoint: &Endpoint, authority: &Authority) -> std::io::Result<Self> {
        Self::connect(endpoint, &client_tls(authority, Some(&admin(authority)), &[])).await
    }

    pub(crate) async fn connect(endpoint: &Endpoint, tls: &TlsConnector) -> std::io::Result<Self> {
        let stream = connect(endpoint, tls).await?;
        let two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let io = TokioIo::new(stream);
        if two {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io)
                .await
                .map_err(std::io::Error::other)?;
            tokio::spawn(connection);
            Ok(Self::Two(sender))
        } else {
            let (sender, connection) = http1::handshake(io).await.map_err(std::io::Error::other)?;
            tokio::spawn(connection.with_upgrades());
            Ok(Self::One(sender))
        }
    }

    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::One(sender) => sender.send_request(request).await,
            Self::Two(sender) => sender.send_request(request).await,
        }
    }

    /// Gets a path. Returns the body as JSON, or as a JSON string if it is not JSON.
    pub(crate) async fn get(&mut self, path: &str) -> hyper::Result<(StatusCode, Value)> {
        let uri = match self {
            Self::One(_) => path.to_owned(),
            Self::Two(_) => format!("https://127.0.0.1{path}"),
        };
        let request = Request::get(uri)
            .header("host", "127.0.0.1")
            .body(Full::default())
            .unwrap();
        let response = self.send(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        let text = String::from_utf8_lossy(&body).into_owned();
        Ok((
            status,
            serde_json::from_slice(&body).unwrap_or(Value::String(text)),
        ))
    }

    /// Sends JSON, and returns the response as [`Http::get`] does.
    pub(crate) async fn write(&mut self, method: &str, path: &str, body: &Value) -> (StatusCode, Value) {
        let kind = if method == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("https://127.0.0.1{path}"))
            .header("content-type", kind)
            .body(Full::new(body.to_string().into()))
            .unwrap();
        let response = self.send(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    /// The names of the items of a list.
    pub(crate) async fn names(&mut self, path: &str) -> Vec<String> {
        let (status, list) = self.get(path).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{list}");
        let items = list["items"].as_array().unwrap();
        items
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }
}
