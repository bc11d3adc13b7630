//! A client of webhooks: rustls and hyper over loopback, at a date that the test chooses.

use std::{convert::Infallible, error::Error, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::{SignedDuration, Timestamp};
use nephele_pki::{Authority, KeyAlgorithm, Leaf, LeafRequest};
use nephele_webhook::ServedCertificate;
use rustls::{
    ClientConfig, RootCertStore,
    client::Resumption,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
    time_provider::TimeProvider,
};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// When the tests begin.
pub(crate) fn start_of_time() -> Timestamp {
    "2026-11-21T08:00:00Z".parse().expect("a time")
}

#[derive(Debug)]
struct At(Timestamp);

impl TimeProvider for At {
    fn current_time(&self) -> Option<UnixTime> {
        let second = u64::try_from(self.0.as_second()).expect("after 1970");
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(second)))
    }
}

/// Calls webhooks at a name, trusting some authorities.
#[derive(Clone)]
pub(crate) struct Caller {
    tls: TlsConnector,
    name: ServerName<'static>,
}

impl Caller {
    /// A caller that trusts this bundle at the start of time.
    pub(crate) fn new(bundle: &str, name: &str) -> Self {
        Self::trusting(bundle, name, start_of_time())
    }

    /// A caller that trusts this bundle at this time.
    pub(crate) fn trusting(bundle: &str, name: &str, now: Timestamp) -> Self {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
            roots.add(certificate.expect("PEM")).expect("an authority");
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_details(provider, Arc::new(At(now)))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        // A resumed session would not verify the certificate again.
        config.resumption = Resumption::disabled();
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        Self {
            tls: TlsConnector::from(Arc::new(config)),
            name,
        }
    }

    /// Posts a review. Returns the status and the JSON of the answer, null when there is none.
    pub(crate) async fn post(
        &self,
        to: SocketAddr,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(u16, Value), Box<dyn Error>> {
        self.request(to, "POST", path, body).await
    }

    /// The same with any method.
    pub(crate) async fn request(
        &self,
        to: SocketAddr,
        method: &str,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(u16, Value), Box<dyn Error>> {
        let stream = TcpStream::connect(to).await?;
        // Otherwise the end of each window of a large body waits for an acknowledgement, 40 ms.
        stream.set_nodelay(true)?;
        let stream = self.tls.connect(self.name.clone(), stream).await?;
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let request = http::Request::builder()
            .method(method)
            .uri(format!("https://webhook{path}?timeout=10s"))
            .body(Full::new(Bytes::from(body)))?;
        let response = sender.send_request(request).await?;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        drop(sender);
        connection.abort();
        Ok((code, serde_json::from_slice(&body).unwrap_or_default()))
    }
}

/// Sends only the beginnings of some reviews on one connection.
pub(crate) struct SlowCaller {
    calls: Vec<tokio::task::JoinHandle<()>>,
}

impl SlowCaller {
    pub(crate) async fn start(
        caller: &Caller,
        to: SocketAddr,
        path: &str,
        calls: usize,
    ) -> Result<Self, Box<dyn Error>> {
        let stream = caller
            .tls
            .connect(caller.name.clone(), TcpStream::connect(to).await?)
            .await?;
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        let mut tasks = vec![tokio::spawn(async move {
            connection.await.expect("it is never ended");
        })];
        for _ in 0..calls {
            let begun = stream::once(async { Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"{"))) });
            let body = StreamBody::new(begun.chain(stream::pending()));
            let request = http::Request::post(format!("https://webhook{path}"))
                .header("content-length", "1000")
                .body(Box::pin(body))?;
            let mut sender = sender.clone();
            tasks.push(tokio::spawn(
                async move { drop(sender.send_request(request).await) },
            ));
        }
        Ok(Self { calls: tasks })
    }
}

impl Drop for SlowCaller {
    fn drop(&mut self) {
        self.calls.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// Files that another program would put into a folder.
pub(crate) struct LeafPem {
    pub(crate) authority: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

fn issue() -> (Authority, Leaf) {
    let not_before = start_of_time() - SignedDuration::from_hours(1);
    let not_after = start_of_time() + SignedDuration::from_hours(24);
    let authority =
        Authority::generate("test", KeyAlgorithm::EcdsaP256, not_before, not_after).expect("an authority");
    let leaf = authority
        .issue(&LeafRequest {
            common_name: "webhook".to_owned(),
            organizations: Vec::new(),
            dns_names: vec!["webhook.default.svc".to_owned()],
            ip_addresses: Vec::new(),
            server_auth: true,
            client_auth: false,
            not_before,
            not_after,
            identity: "test".to_owned(),
        })
        .expect("a leaf");
    (authority, leaf)
}

/// A new authority's leaf.
pub(crate) fn leaf_pem() -> LeafPem {
    let (authority, leaf) = issue();
    LeafPem {
        authority: authority.certificate_pem(),
        certificate: leaf.certificate_pem(),
        key: leaf.key_pem(),
    }
}

/// Serves the leaf of a new authority; returns the authority, PEM.
pub(crate) fn pem_pair(certificate: &ServedCertificate) -> String {
    let (authority, leaf) = issue();
    let chain = vec![CertificateDer::from(leaf.certificate_der().to_vec())];
    certificate
        .set(chain, PrivateKeyDer::Pkcs8(leaf.key_der().to_vec().into()))
        .expect("a pair");
    authority.certificate_pem()
}
