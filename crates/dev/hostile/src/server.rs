//! The server under attack, on a loopback port.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    sync::Arc,
};

use anyhow::Context as _;
use axum::body::Body;
use http::{Request, StatusCode};
use jiff::{SignedDuration, Timestamp};
use nephele_apiserver::{ApiServer, Authentication, Key, Settings, Store, StoreOptions, UserInfo, Version};
use nephele_listen::{Limits, Peer, session_of};
use nephele_pki::{Authority, KeyAlgorithm, LeafRequest, parse_client};
use rustls::{ClientConfig, RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// A server and its address.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// The TLS settings of an administrator, except the protocols.
    pub(crate) client: ClientConfig,
    api: ApiServer,
}

impl Server {
    /// Starts a server with a custom kind. It runs until the process ends.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("failed to listen")?;
        let address = listener.local_addr().context("failed to read the address")?;
        let api = api_server()?;
        let (acceptor, client) = credentials()?;
        let served = api.clone();
        let session = move |peer: Peer<'_>| {
            let api = served.clone();
            session_of(peer.certificates.first().and_then(user), move |request| {
                let api = api.clone();
                async move { api.handle(request.map(Body::new)).await }
            })
        };
        let tls = move || Some(acceptor.clone());
        let never = CancellationToken::new();
        tokio::spawn(nephele_listen::serve(
            listener,
            tls,
            Limits::DEFAULT,
            session,
            never,
        ));
        Ok(Self { address, client, api })
    }

    /// Whether every object can still be listed, as an object and as a table.
    pub(crate) async fn answers(&self) -> bool {
        for kind in self.api.store().resource_types() {
            let group = if kind.group.is_empty() {
                "api".to_owned()
            } else {
                format!("apis/{}", kind.group)
            };
            for accept in ["application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"] {
                let uri = format!("/{group}/{}/{}", kind.versions[0], kind.plural);
                let mut request = Request::get(&uri)
                    .header("accept", accept)
                    .body(Body::empty())
                    .expect("a path");
                request.extensions_mut().insert(UserInfo::default());
                let status = self.api.handle(request).await.status();
                if status != StatusCode::OK {
                    println!("{uri} as {accept}: {status}");
                    return false;
                }
            }
        }
        true
    }
}

fn api_server() -> anyhow::Result<ApiServer> {
    let store = Store::new(StoreOptions {
        uid_seed: "hostile".to_owned(),
        ..StoreOptions::default()
    });
    let now = Timestamp::now();
    store.create_default_namespaces(now);
    let columns = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
        {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    let definition = json!({
        "metadata": {"name": "things.x.io"},
        "spec": {"group": "x.io", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
                 "versions": [{"name": "v1", "served": true, "storage": true, "additionalPrinterColumns": columns,
                               "subresources": {"status": {}, "scale": {}}}]},
    });
    let key = Key::new(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "",
        "things.x.io",
    );
    store
        .create(now, &key, definition)
        .context("failed to define a kind")?;
    let settings = Settings {
        version: Version {
            major: "1".into(),
            minor: "36".into(),
            git_version: "v1.36.3".into(),
        },
        authentication: Authentication::Required,
        clock: Arc::new(Timestamp::now),
        observer: None,
    };
    Ok(ApiServer::new(store, Arc::new(settings)))
}

fn credentials() -> anyhow::Result<(TlsAcceptor, ClientConfig)> {
    let now = Timestamp::now();
    let not_before = now - SignedDuration::from_mins(5);
    let not_after = now + SignedDuration::from_hours(24);
    let authority = Authority::generate("hostile", KeyAlgorithm::EcdsaP256, not_before, not_after)?;
    let request = |common_name: &str, is_server: bool| LeafRequest {
        common_name: common_name.to_owned(),
        organizations: if is_server {
            Vec::new()
        } else {
            vec!["system:masters".to_owned()]
        },
        dns_names: Vec::new(),
        ip_addresses: if is_server {
            vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]
        } else {
            Vec::new()
        },
        server_auth: is_server,
        client_auth: !is_server,
        not_before,
        not_after,
        identity: common_name.to_owned(),
    };
    let server = authority.issue(&request("kube-apiserver", true))?;
    let client = authority.issue(&request("admin", false))?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(authority.certificate_der().to_vec()))?;
    let roots = Arc::new(roots);
    let chain = |leaf: &nephele_pki::Leaf| vec![CertificateDer::from(leaf.certificate_der().to_vec())];
    let key = |leaf: &nephele_pki::Leaf| PrivateKeyDer::Pkcs8(leaf.key_der().to_vec().into());
    let verifier = WebPkiClientVerifier::builder(roots.clone()).build()?;
    let mut acceptor = ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain(&server), key(&server))?;
    acceptor.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let client = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain(&client), key(&client))?;
    Ok((TlsAcceptor::from(Arc::new(acceptor)), client))
}

fn user(certificate: &CertificateDer<'_>) -> Option<UserInfo> {
    let identity = parse_client(certificate).ok()?;
    Some(UserInfo {
        name: identity.common_name,
        groups: identity.organizations,
    })
}
