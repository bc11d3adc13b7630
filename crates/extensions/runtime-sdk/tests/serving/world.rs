//! An extension with real TLS on loopback, and its clients.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Frame, Incoming},
    client::conn::{http1, http2},
    header::HeaderMap,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use nephele_runtime_sdk::server::{Service, Tls, serve};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use serde_json::Value;
use tokio::{net::TcpStream, task::JoinHandle};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

/// Longer than any test should take. A test that takes longer has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

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
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Leaf {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    pub(crate) fn tls(&self) -> Tls {
        let leaf = self.leaf();
        Tls::from_pem(leaf.certificate, leaf.key, None).unwrap()
    }
}

/// A running server, with the token that stops it.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: CancellationToken,
    pub(crate) task: JoinHandle<std::io::Result<()>>,
}

pub(crate) fn start(service: Service, tls: Tls) -> Running {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(serve(service, listener, tls, shutdown.clone()));
    Running {
        address,
        shutdown,
        task,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// Both protocols, and no negotiation, which means HTTP/1.1.
pub(crate) const PROTOCOLS: [Option<Protocol>; 3] = [Some(Protocol::Http1), Some(Protocol::Http2), None];

type Sent = http_body_util::combinators::BoxBody<Bytes, std::convert::Infallible>;

pub(crate) enum Client {
    Http1(http1::SendRequest<Sent>),
    Http2(http2::SendRequest<Sent>),
}

/// An answer, read completely.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{self:?}");
        assert_eq!(self.headers["content-type"], "application/json");
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr, authority: &str, protocol: Option<Protocol>) -> Self {
        Self::try_connect(address, authority, protocol, None)
            .await
            .unwrap()
    }

    /// Connects, and checks whether the server accepted the connection.
    pub(crate) async fn try_connect(
        address: SocketAddr,
        authority: &str,
        protocol: Option<Protocol>,
        leaf: Option<&Leaf>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes())?)?;
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut config = match leaf {
            None => builder.with_no_client_auth(),
            Some(leaf) => builder.with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(leaf.certificate.as_bytes())?],
                PrivateKeyDer::from_pem_slice(leaf.key.as_bytes())?,
            )?,
        };
        config.alpn_protocols = match protocol {
            None => Vec::new(),
            Some(Protocol::Http1) => vec![b"http/1.1".to_vec()],
            Some(Protocol::Http2) => vec![b"h2".to_vec()],
        };
        let stream = TcpStream::connect(address).await?;
        // As Go does.
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost")?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        let io = TokioIo::new(stream);
        if protocol == Some(Protocol::Http2) {
            assert_eq!(agreed.as_deref(), Some(&b"h2"[..]));
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
            tokio::spawn(connection);
            Ok(Self::Http2(sender))
        } else {
            let (sender, connection) = http1::handshake(io).await?;
            tokio::spawn(connection);
            Ok(Self::Http1(sender))
        }
    }

    /// Posts as Go does: without a content type.
    pub(crate) async fn post(&mut self, path: &str, body: impl Into<Bytes>) -> Answer {
        self.send(Method::POST, path, Full::new(body.into()).boxed())
            .await
            .unwrap()
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send(Method::GET, path, Full::default().boxed())
            .await
            .unwrap()
    }

    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Sent,
    ) -> Result<Answer, hyper::Error> {
        let request = Request::builder().method(method).body(body).unwrap();
        let response = match self {
            Self::Http1(sender) => {
                sender.ready().await?;
                let (mut parts, body) = request.into_parts();
                parts.uri = path.parse().unwrap();
                parts.headers.insert("host", "localhost".parse().unwrap());
                sender.send_request(Request::from_parts(parts, body)).await?
            }
            Self::Http2(sender) => {
                sender.ready().await?;
                let (mut parts, body) = request.into_parts();
                parts.uri = format!("https://localhost{path}").parse().unwrap();
                sender.send_request(Request::from_parts(parts, body)).await?
            }
        };
        collected(response).await
    }
}

async fn collected(response: Response<Incoming>) -> Result<Answer, hyper::Error> {
    let (parts, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Answer {
        status: parts.status,
        headers: parts.headers,
        body,
    })
}

/// A body of unknown length.
pub(crate) fn pieces(body: &[u8]) -> Sent {
    let frames: Vec<_> = body
        .chunks(4096)
        .map(|piece| Ok::<_, std::convert::Infallible>(Frame::data(Bytes::copy_from_slice(piece))))
        .collect();
    StreamBody::new(futures::stream::iter(frames)).boxed()
}

/// A body that begins and then stalls.
pub(crate) fn stalled(beginning: &'static [u8]) -> Sent {
    let beginning = Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from_static(beginning)));
    let beginning = futures::stream::iter([beginning]);
    let body = StreamBody::new(futures::StreamExt::chain(beginning, futures::stream::pending()));
    assert_eq!(body.size_hint().exact(), None);
    body.boxed()
}
