//! Misbehaving extensions, with TLS on loopback.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::pending,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{Request, Response, Version, body::Frame, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use nephele_runtime_sdk::client::transport::{Https, HttpsSettings};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// The host of every server here.
pub(crate) const HOST: &str = "extension.test.svc";

/// An authority and the leaves it signs.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

pub(crate) struct Leaf {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    pub(crate) fn leaf(&self) -> Leaf {
        self.leaf_of(&params(&[HOST]))
    }

    pub(crate) fn leaf_of(&self, params: &CertificateParams) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Leaf {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

/// A certificate for these names.
pub(crate) fn params(names: &[&str]) -> CertificateParams {
    let mut params =
        CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
    params.distinguished_name.push(DnType::CommonName, HOST);
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params
}

/// TLS settings of a server: certificate, protocols, and the authority of client certificates if it asks for them.
pub(crate) fn tls(leaf: &Leaf, protocols: &[&str], clients_of: Option<&Authority>) -> Arc<ServerConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients_of {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots
                .add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap())
                .unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let certificate = CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).unwrap();
    let mut config = builder.with_single_cert(vec![certificate], key).unwrap();
    config.alpn_protocols = protocols
        .iter()
        .map(|protocol| protocol.as_bytes().to_vec())
        .collect();
    Arc::new(config)
}

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) version: Version,
    pub(crate) target: String,
    pub(crate) content_type: Option<String>,
    pub(crate) body: serde_json::Value,
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A body with a declared length.
    Body(u16, Bytes),
    /// A body without a declared length: a piece, repeated.
    Pieces(u16, Bytes, usize),
    /// The beginning of a body, and then nothing.
    Stalls(Bytes),
    /// No answer.
    Nothing,
    /// A redirect.
    Redirect(String),
}

pub(crate) fn success() -> Reply {
    Reply::Body(
        200,
        Bytes::from_static(b"{\"status\":\"Success\",\"retryAfterSeconds\":0}"),
    )
}

/// A server that runs until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
    hits: Arc<Mutex<Vec<Hit>>>,
    tls: Arc<Mutex<Arc<ServerConfig>>>,
    open: Arc<Mutex<JoinSet<()>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        self.open.lock().abort_all();
    }
}

impl Server {
    /// A server that speaks HTTP.
    pub(crate) async fn http(
        tls: Arc<ServerConfig>,
        reply: impl Fn(&Hit) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::http_at("127.0.0.1:0".parse().unwrap(), tls, reply).await
    }

    /// A server that speaks HTTP at an address.
    pub(crate) async fn http_at(
        address: SocketAddr,
        tls: Arc<ServerConfig>,
        reply: impl Fn(&Hit) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let hits: Arc<Mutex<Vec<Hit>>> = Arc::default();
        let reply = Arc::new(reply);
        let seen = hits.clone();
        Self::start(address, tls, hits, move |stream| {
            let reply = reply.clone();
            let hits = seen.clone();
            async move {
                let service = service_fn(move |request| answer(request, reply.clone(), hits.clone()));
                let builder = auto::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            }
        })
        .await
    }

    /// A server that reads the head of a request, writes these bytes, and ends the connection.
    pub(crate) async fn raw(tls: Arc<ServerConfig>, bytes: &'static [u8]) -> Self {
        Self::start(
            "127.0.0.1:0".parse().unwrap(),
            tls,
            Arc::default(),
            move |mut stream: TlsStream<TcpStream>| async move {
                let mut head = Vec::new();
                while !head.windows(4).any(|window| window == b"\r\n\r\n") {
                    if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                let _ = stream.write_all(bytes).await;
                let _ = stream.shutdown().await;
            },
        )
        .await
    }

    async fn start<F: Future<Output = ()> + Send + 'static>(
        address: SocketAddr,
        tls: Arc<ServerConfig>,
        hits: Arc<Mutex<Vec<Hit>>>,
        serve: impl Fn(TlsStream<TcpStream>) -> F + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = Arc::new(Mutex::new(tls));
        let connections = Arc::new(AtomicUsize::new(0));
        let open: Arc<Mutex<JoinSet<()>>> = Arc::default();
        let config = tls.clone();
        let count = connections.clone();
        let tasks = open.clone();
        let serve = Arc::new(serve);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let acceptor = TlsAcceptor::from(config.lock().clone());
                let serve = serve.clone();
                tasks.lock().spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve(stream).await;
                    }
                });
            }
        });
        Self {
            address,
            connections,
            hits,
            tls,
            open,
            task,
        }
    }

    pub(crate) fn hits(&self) -> Vec<Hit> {
        self.hits.lock().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Changes the TLS settings, and ends existing connections.
    pub(crate) async fn restart(&self, tls: Arc<ServerConfig>) {
        *self.tls.lock() = tls;
        let mut open = std::mem::take(&mut *self.open.lock());
        open.shutdown().await;
    }
}

async fn answer(
    request: Request<hyper::body::Incoming>,
    reply: Arc<impl Fn(&Hit) -> Reply>,
    hits: Arc<Mutex<Vec<Hit>>>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let hit = Hit {
        version: head.version,
        target: head
            .uri
            .path_and_query()
            .map(ToString::to_string)
            .unwrap_or_default(),
        content_type: head
            .headers
            .get("content-type")
            .map(|value| value.to_str().unwrap().to_owned()),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let reply = reply(&hit);
    hits.lock().push(hit);
    let (code, body) = match reply {
        Reply::Body(code, bytes) => (code, Full::new(bytes).boxed_unsync()),
        Reply::Pieces(code, bytes, times) => {
            let pieces = stream::repeat(bytes)
                .take(times)
                .map(|piece| Ok(Frame::data(piece)));
            (code, StreamBody::new(pieces).boxed_unsync())
        }
        Reply::Stalls(bytes) => {
            let pieces = stream::iter([Ok(Frame::data(bytes))]).chain(stream::pending());
            (200, StreamBody::new(pieces).boxed_unsync())
        }
        Reply::Nothing => pending().await,
        Reply::Redirect(location) => {
            let response = Response::builder().status(302).header("location", location);
            return Ok(response.body(Full::new(Bytes::new()).boxed_unsync()).unwrap());
        }
    };
    Ok(Response::builder().status(code).body(body).unwrap())
}

/// A transport that resolves [`HOST`] to an address.
pub(crate) fn https(address: SocketAddr) -> Https {
    Https::new(settings(address))
}

pub(crate) fn settings(address: SocketAddr) -> HttpsSettings {
    HttpsSettings {
        hosts_at: BTreeMap::from([(HOST.to_owned(), address)]),
        ..HttpsSettings::default()
    }
}

/// The timeout of calls that are expected to time out.
pub(crate) const SOON: Duration = Duration::from_secs(1);
