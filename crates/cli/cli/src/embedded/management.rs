//! The embedded management API: Nephele's API server with the kinds of Cluster API and of Nephele. The manager calls it
//! within the process, and `kubectl` calls it over TLS.

use std::{
    convert::Infallible,
    net::{IpAddr, TcpListener},
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::Context as _;
use axum::{Router, body::Body};
use http::{Request, Response};
use jiff::SignedDuration;
use kube::{Client, ResourceExt as _};
use nephele_apiserver::{ApiServer, Authentication, Key, Settings, Store, StoreOptions, UserInfo, Version};
use nephele_controller::{Clock, Credentials, kubeconfig};
use nephele_listen::{Limits, Peer, session_of};
use nephele_pki::{Authority, KeyAlgorithm, Leaf, LeafRequest, parse_client};
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::conversion::conversions;
use crate::{exit::Problem, loopback::loopback};

/// How many changes a watch may lag behind.
const EVENT_LOG_CAPACITY: usize = 16 * 1024;
const EVENT_LOG_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The limits for clients. Suites in Java and Python have a connection for each watch. 512 connections need 512 sockets
/// and some 20 MiB. Half of them are reserved for clients with a certificate. Further ones are answered with 429.
const LIMITS: Limits = Limits {
    connections_max: 512,
    unauthenticated_max: 256,
    // The end of the process waits for this time.
    drain: Duration::from_millis(500),
    ..Limits::DEFAULT
};

/// The version that the management API says it has. Its end tells it from other API servers: it calls no webhooks.
pub(crate) const GIT_VERSION: &str = "v1.36.3+nephele";

/// Whether a client's API server is the embedded one of `nephele up` or `nephele demo`.
///
/// # Errors
/// When it does not answer.
pub(crate) async fn is_embedded(client: &Client) -> Result<bool, Problem> {
    let version = client.apiserver_version().await;
    let version = version.map_err(|error| {
        Problem::request(
            "ask the management cluster for its version",
            "get /version",
            error,
        )
    })?;
    Ok(version.git_version == GIT_VERSION)
}

/// How many bytes of objects the management API stores: the most that etcd is made for (`--quota-backend-bytes`). They
/// are those of the person who runs it.
const BYTES_MAX: usize = 8 << 30;

/// The embedded management API.
pub(crate) struct Management {
    /// A client in this process.
    pub(crate) client: Client,
    /// The URL for other programs.
    pub(crate) server: String,
    /// A kubeconfig for other programs.
    pub(crate) kubeconfig: String,
    /// The routes of the manager's cloud, once there is a manager.
    routes: Routes,
}

/// Answers the paths of the manager's diagnostics that tell about its cloud, so that commands need no port-forward.
type Routes = Arc<OnceLock<Router>>;

/// The paths that the manager answers.
const ROUTES: [&str; 2] = ["/journal", "/checkpoint"];

impl Management {
    /// Starts the API on a free port of the loopback interface, with all definitions. It runs until `stop`. Its name is
    /// that of the cluster in the kubeconfig.
    pub(crate) fn start(name: &str, clock: &Clock, stop: CancellationToken) -> anyhow::Result<Self> {
        let server = server(name, clock)?;
        let listener = TcpListener::bind((loopback(), 0));
        let listener = listener.context("failed to listen for the management API")?;
        let address = listener
            .local_addr()
            .context("failed to read the address of the management API")?;
        let url = format!("https://{address}");
        let (tls, kubeconfig) = credentials(name, &url, address.ip(), clock)?;
        let served = server.clone();
        let routes = Routes::default();
        let of_manager = Arc::clone(&routes);
        let session = move |peer: Peer<'_>| {
            let server = served.clone();
            let routes = Arc::clone(&of_manager);
            session_of(peer.certificates.first().and_then(user), move |request| {
                let server = server.clone();
                let routes = Arc::clone(&routes);
                async move { answer(&server, &routes, request.map(Body::new)).await }
            })
        };
        tokio::spawn(nephele_listen::serve(
            listener,
            move || Some(tls.clone()),
            LIMITS,
            session,
            stop,
        ));
        Ok(Self {
            client: in_process(server),
            server: url,
            kubeconfig,
            routes,
        })
    }

    /// Answers the paths of a manager's cloud from now on, for clients with a certificate.
    pub(crate) fn serve_cloud(&self, routes: Router) {
        self.routes.get_or_init(|| routes);
    }
}

/// The answer of the API server, or of the manager for its own paths.
async fn answer(server: &ApiServer, routes: &Routes, request: Request<Body>) -> Response<Body> {
    let is_known = request.extensions().get::<UserInfo>().is_some();
    match routes
        .get()
        .filter(|_| is_known && ROUTES.contains(&request.uri().path()))
    {
        Some(routes) => routes
            .clone()
            .oneshot(request)
            .await
            .unwrap_or_else(|never| match never {}),
        None => server.handle(request).await,
    }
}

pub(super) fn server(name: &str, clock: &Clock) -> anyhow::Result<ApiServer> {
    let store = Store::new(StoreOptions {
        uid_seed: name.to_owned(),
        event_log_capacity: EVENT_LOG_CAPACITY,
        event_log_bytes_max: EVENT_LOG_BYTES_MAX,
        bytes_max: BYTES_MAX,
        conversions: conversions(),
        ..StoreOptions::default()
    });
    let now = clock();
    store.create_default_namespaces(now);
    for definition in nephele_api::crds().into_iter().chain(nephele_fake_capi::crds()) {
        let name = definition.name_any();
        let key = Key::new("apiextensions.k8s.io", "customresourcedefinitions", "", &name);
        store
            .create(now, &key, serde_json::to_value(definition)?)
            .with_context(|| format!("failed to define {name}"))?;
    }
    let settings = Settings {
        version: Version {
            major: "1".into(),
            minor: "36".into(),
            git_version: GIT_VERSION.into(),
        },
        authentication: Authentication::Required,
        clock: clock.clone(),
        observer: None,
    };
    Ok(ApiServer::new(store, Arc::new(settings)))
}

/// A client that calls the server without a socket.
pub(super) fn in_process(server: ApiServer) -> Client {
    let user = UserInfo {
        name: "nephele".to_owned(),
        groups: vec!["system:masters".to_owned()],
    };
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let server = server.clone();
        let user = user.clone();
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(user);
            Ok::<Response<Body>, Infallible>(server.handle(request).await)
        }
    });
    Client::new(service, "default")
}

/// The server's TLS settings and its administrator's kubeconfig, both from an authority that is made for this process.
fn credentials(
    name: &str,
    url: &str,
    address: IpAddr,
    clock: &Clock,
) -> anyhow::Result<(TlsAcceptor, String)> {
    let now = clock();
    let not_before = now - SignedDuration::from_mins(5);
    let not_after = now + SignedDuration::from_hours(24 * 30);
    let authority = Authority::generate(name, KeyAlgorithm::EcdsaP256, not_before, not_after)
        .context("failed to make the authority of the management API")?;
    let request = |common_name: &str, organizations: Vec<String>, server_auth: bool| LeafRequest {
        common_name: common_name.to_owned(),
        organizations,
        dns_names: if server_auth {
            vec!["localhost".to_owned()]
        } else {
            Vec::new()
        },
        ip_addresses: if server_auth { vec![address] } else { Vec::new() },
        server_auth,
        client_auth: !server_auth,
        not_before,
        not_after,
        identity: common_name.to_owned(),
    };
    let server = authority.issue(&request("kube-apiserver", Vec::new(), true))?;
    let admin = authority.issue(&request(
        "kubernetes-admin",
        vec!["system:masters".to_owned()],
        false,
    ))?;
    let proof = Credentials::Certificate {
        certificate: &admin.certificate_pem(),
        key: &admin.key_pem(),
    };
    let kubeconfig = kubeconfig(
        name,
        &format!("{name}-admin"),
        url,
        &authority.certificate_pem(),
        proof,
    );
    Ok((
        acceptor(&authority, &server)?,
        serde_yaml_ng::to_string(&kubeconfig)?,
    ))
}

fn acceptor(authority: &Authority, leaf: &Leaf) -> anyhow::Result<TlsAcceptor> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(authority.certificate_der().to_vec()))?;
    // Clients without a certificate get 401, as from any API server.
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots))
        .allow_unauthenticated()
        .build()?;
    let certificate = CertificateDer::from(leaf.certificate_der().to_vec());
    let key = PrivateKeyDer::Pkcs8(leaf.key_der().to_vec().into());
    let mut config = ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The user in a verified certificate.
fn user(certificate: &CertificateDer<'_>) -> Option<UserInfo> {
    let identity = parse_client(certificate).ok()?;
    Some(UserInfo {
        name: identity.common_name,
        groups: identity.organizations,
    })
}

#[cfg(test)]
mod tests;
