//! The manager under attack: the whole of it, on loopback ports, with a workload cluster in each of two namespaces.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{NamespaceResourceScope, api::core::v1::Namespace};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use nephele_api::{core::Cluster, infrastructure::v1beta2::InMemoryCluster};
use nephele_apiserver::Key;
use nephele_manager::{Clients, Config, Manager, Options, Urgent};
use nephele_pki::{Authority, KeyAlgorithm, LeafRequest};
use nephele_testkit::{
    ManagementApi,
    objects::{self, Purpose},
};
use prometheus::Registry;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::aws_lc_rs::default_provider,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::wire::{Payload, Server};

/// How long the manager and its clusters may take to start.
const START_MAX: Duration = Duration::from_secs(60);

/// Ports that are free on machines of developers.
const WEBHOOK_PORT: u16 = 15_301;
const EXTENSION_PORT: u16 = 15_302;
const WORKLOAD_PORTS: &str = "18700-18709";

/// The namespaces of the hostile tenant and of its neighbour.
pub(super) const NAMESPACES: [&str; 2] = ["hostile", "neighbour"];

/// A running manager.
pub(super) struct Whole {
    pub(super) api: ManagementApi,
    /// A client of the management API.
    pub(super) client: Client,
    pub(super) health: Server,
    pub(super) webhook: Server,
    pub(super) extension: Server,
    pub(super) diagnostics: Server,
    /// The cluster whose client is hostile.
    pub(super) hostile: Server,
    pub(super) neighbour: Server,
    _urgent: Urgent,
}

impl Whole {
    /// Starts a manager and two clusters, on the current runtime, and a management API on another one.
    pub(super) async fn start(elsewhere: Handle) -> anyhow::Result<Self> {
        let api = ManagementApi::start();
        let client = client_of(&api, elsewhere);
        let options = Options {
            roles: "infrastructure,ipam,runtime-extension".into(),
            leader_elect: true,
            identity: "attacked".into(),
            pod_namespace: "default".into(),
            health_address: "127.0.0.1:0".into(),
            diagnostics_address: "127.0.0.1:0".into(),
            bind_address: "127.0.0.1".into(),
            advertise_host: Some("127.0.0.1".into()),
            webhook_host: "127.0.0.1".into(),
            webhook_port: WEBHOOK_PORT,
            runtime_extension_port: EXTENSION_PORT,
            workload_ports: WORKLOAD_PORTS.into(),
            ..Options::default()
        };
        let urgent = Urgent::start().context("failed to start a thread")?;
        let lease = {
            // A client has a task, which is where it was made.
            let _there = urgent.handle().enter();
            api.refusing(|_, _| false)
        };
        let urgent_too = urgent.handle().clone();
        let clients = Clients {
            lease,
            urgent: urgent_too,
            reviews: reviewing(),
            ..Clients::one(client.clone())
        };
        let manager = Manager::build_with(Config::new(options)?, clients, Registry::new())?;
        let health = Server {
            address: manager.health_address().context("health is served")?,
            tls: None,
            from: Ipv4Addr::LOCALHOST,
        };
        let diagnostics = manager.diagnostics_address().context("diagnostics are served")?;
        tokio::spawn(manager.run(CancellationToken::new()));
        let [hostile, neighbour] = NAMESPACES;
        let hostile = cluster(&api, hostile).await?;
        let neighbour = cluster(&api, neighbour).await?;
        let anyone = Some(Arc::new(anyone()));
        let open = |port| Server {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            tls: anyone.clone(),
            from: Ipv4Addr::LOCALHOST,
        };
        let whole = Self {
            _urgent: urgent,
            health,
            webhook: open(WEBHOOK_PORT),
            extension: open(EXTENSION_PORT),
            diagnostics: Server {
                address: diagnostics,
                ..open(0)
            },
            api,
            client,
            hostile,
            neighbour,
        };
        whole.until_ready().await?;
        Ok(whole)
    }

    async fn until_ready(&self) -> anyhow::Result<()> {
        answers(&self.health, "/readyz", &[200])
            .await
            .context("the manager does not become ready")?;
        answers(&self.webhook, "/convert", &[405])
            .await
            .context("the webhooks do not answer")?;
        answers(&self.extension, "/", &[404])
            .await
            .context("the runtime extension does not answer")
    }

    /// When the lease was renewed last.
    pub(super) fn renewed(&self) -> Option<String> {
        let key = Key::new(
            "coordination.k8s.io",
            "leases",
            "default",
            "controller-leader-election-nephele",
        );
        let lease = self.api.server().store().get(&key)?.value();
        lease.pointer("/spec/renewTime")?.as_str().map(str::to_owned)
    }
}

/// A client whose requests are answered elsewhere.
fn client_of(api: &ManagementApi, elsewhere: Handle) -> Client {
    let client = api.client();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let client = client.clone();
        let answering = elsewhere.spawn(async move { client.send(request).await });
        async move {
            answering
                .await
                .map_err(std::io::Error::other)?
                .map_err(std::io::Error::other)
        }
    });
    Client::new(service, "default")
}

/// The token of a caller who may read the metrics.
pub(super) const READER: &str = "reader";
/// The token of a caller who may read the journal and checkpoints.
pub(super) const READER_OF_OURS: &str = "reader-of-ours";

/// An API server that knows these tokens, and lets their owners do everything.
fn reviewing() -> Client {
    let service = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
        let bytes = request.into_body().collect_bytes().await?;
        let mut review: Value = serde_json::from_slice(&bytes)?;
        let audiences = review["spec"]["audiences"].clone();
        let user = json!({ "username": "reader" });
        review["status"] = match review["spec"]["token"].as_str() {
            None => json!({ "allowed": true }),
            Some(READER) => json!({ "authenticated": true, "user": user }),
            Some(READER_OF_OURS) => json!({ "authenticated": true, "audiences": audiences, "user": user }),
            Some(_) => json!({ "authenticated": false }),
        };
        Ok::<_, tower::BoxError>(http::Response::new(axum::body::Body::from(review.to_string())))
    });
    Client::new(service, "default")
}

/// Waits until a path answers with one of these codes.
async fn answers(server: &Server, path: &str, codes: &[u16]) -> anyhow::Result<()> {
    let asking = async {
        loop {
            if let Ok(mut connection) = server.connect(false, None).await {
                let request = server.request("GET", path, "text/plain", Payload::of(""));
                if connection
                    .exchange(request)
                    .await
                    .is_ok_and(|(code, _)| codes.contains(&code))
                {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(START_MAX, asking)
        .await
        .with_context(|| format!("{path} does not answer in time"))
}

/// The name of the cluster in a namespace.
pub(super) fn cluster_in(namespace: &str) -> String {
    format!("{namespace}-cluster")
}

/// Makes a namespace with a cluster that has one control plane machine. Returns how its administrator reaches it.
async fn cluster(api: &ManagementApi, namespace: &str) -> anyhow::Result<Server> {
    let client = api.client();
    let object: Namespace = serde_json::from_value(json!({ "metadata": { "name": namespace } }))?;
    Api::all(client.clone())
        .create(&PostParams::default(), &object)
        .await?;
    let name = cluster_in(namespace);
    let cluster = create(&client, namespace, objects::cluster(&name)).await?;
    create(&client, namespace, objects::in_memory_cluster(&cluster)).await?;
    let clusters: Api<InMemoryCluster> = Api::namespaced(client.clone(), namespace);
    let (host, port) = loop {
        let object = clusters.get(&name).await?;
        let endpoint = object.spec.control_plane_endpoint.clone();
        if let Some(endpoint) = endpoint.filter(|_| object.is_provisioned()) {
            break (endpoint.host, endpoint.port);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let status = Patch::Merge(json!({ "status": objects::provisioned(false) }));
    Api::<Cluster>::namespaced(client.clone(), namespace)
        .patch_status(&name, &PatchParams::default(), &status)
        .await?;
    let now = Timestamp::now();
    let not_before = now - SignedDuration::from_hours(1);
    let not_after = now + SignedDuration::from_hours(24);
    let authority = Authority::generate("kubernetes", KeyAlgorithm::EcdsaP256, not_before, not_after)?;
    let certificate = authority.certificate_pem();
    let key = authority.key_pem();
    let secret = objects::secret(&name, Purpose::Cluster, certificate.as_bytes(), key.as_bytes());
    create(&client, namespace, secret).await?;
    create(
        &client,
        namespace,
        objects::authority_secret(&name, Purpose::Etcd),
    )
    .await?;
    let machine = create(
        &client,
        namespace,
        objects::control_plane(&name, &format!("{name}-0")),
    )
    .await?;
    let mut in_memory = objects::in_memory_machine(&machine);
    in_memory.spec = objects::starting_in("0s");
    create(&client, namespace, in_memory).await?;
    let address = format!("{host}:{port}")
        .parse()
        .context("failed to read the endpoint")?;
    let server = Server {
        address,
        tls: Some(Arc::new(administrator(&authority, not_before, not_after)?)),
        from: Ipv4Addr::LOCALHOST,
    };
    answers(&server, "/api/v1/namespaces/default", &[200])
        .await
        .context("the cluster does not answer")?;
    Ok(server)
}

pub(super) async fn create<K>(client: &Client, namespace: &str, mut object: K) -> anyhow::Result<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    object.meta_mut().namespace = Some(namespace.to_owned());
    let created = Api::namespaced(client.clone(), namespace)
        .create(&PostParams::default(), &object)
        .await;
    created.with_context(|| format!("failed to create {} {}", K::kind(&()), object.name_any()))
}

fn administrator(
    authority: &Authority,
    not_before: Timestamp,
    not_after: Timestamp,
) -> anyhow::Result<ClientConfig> {
    let leaf = authority.issue(&LeafRequest {
        common_name: "admin".to_owned(),
        organizations: vec!["system:masters".to_owned()],
        dns_names: Vec::new(),
        ip_addresses: Vec::new(),
        server_auth: false,
        client_auth: true,
        not_before,
        not_after,
        identity: "admin".to_owned(),
    })?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(authority.certificate_der().to_vec()))?;
    let chain = vec![CertificateDer::from(leaf.certificate_der().to_vec())];
    let key = PrivateKeyDer::Pkcs8(leaf.key_der().to_vec().into());
    Ok(ClientConfig::builder()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)?)
}

/// The TLS of a client without credentials, who believes any server.
fn anyone() -> ClientConfig {
    ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer))
        .with_no_client_auth()
}

#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
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
        default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
