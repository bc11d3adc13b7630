//! Reads metrics through a port-forward of the API server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use http::{Request, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::targets::Target;

/// How long reading the metrics of a controller may take.
const SCRAPE_MAX: Duration = Duration::from_secs(10);
/// The most bytes of metrics. Cluster API's core controller has about one mebibyte.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// What it takes to read metrics.
pub(super) struct Scraper {
    pub(super) client: Client,
    /// Of an account that may read metrics; empty for none.
    pub(super) token: String,
    pub(super) tls: TlsConnector,
}

impl Scraper {
    /// The metrics of a controller.
    pub(super) async fn metrics(&self, target: &Target) -> anyhow::Result<String> {
        match timeout(SCRAPE_MAX, self.request(target)).await {
            Ok(result) => result,
            Err(_) => bail!("its metrics did not come within {SCRAPE_MAX:?}"),
        }
    }

    async fn request(&self, target: &Target) -> anyhow::Result<String> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), &target.namespace);
        let forwarded = pods.portforward(&target.pod, &[target.port]).await;
        let mut forwarded = forwarded.context("failed to forward a port of its pod")?;
        let stream = forwarded.take_stream(target.port).context("the port was not forwarded")?;
        if !target.is_tls {
            return get(stream, &self.token).await;
        }
        let name = ServerName::try_from("localhost").context("failed to name the server")?;
        let stream = self.tls.connect(name, stream).await;
        get(stream.context("failed to connect to its metrics")?, &self.token).await
    }
}

async fn get(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    token: &str,
) -> anyhow::Result<String> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .context("failed to connect to its metrics")?;
    let mut request = Request::get("/metrics").header(header::HOST, "localhost");
    if !token.is_empty() {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Empty::<Bytes>::new()).context("failed to make a request")?;
    let answered = async {
        let answer = sender.send_request(request).await.context("failed to read its metrics")?;
        if !answer.status().is_success() {
            bail!("failed to read its metrics: {}", answer.status());
        }
        let body = Limited::new(answer.into_body(), BYTES_MAX).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("failed to read its metrics: {error}"))?;
        Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
    };
    // The connection ends with the answer.
    tokio::pin!(answered);
    tokio::select! {
        answer = &mut answered => answer,
        ended = connection => {
            ended.context("failed to read its metrics")?;
            answered.await
        }
    }
}

/// Connects to the controllers that serve their metrics over TLS.
pub(super) fn tls() -> anyhow::Result<TlsConnector> {
    let provider = CryptoProvider::get_default().context("no cryptography provider is installed")?.clone();
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let config = builder
        .context("failed to set up TLS")?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Accepts the certificates that controllers sign themselves at start. Nobody else knows them; the API server leads the
/// connection to the pod, and the token that is sent there may only read metrics.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
