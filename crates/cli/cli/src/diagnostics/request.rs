//! Asks controllers for their diagnostics, through a port-forward of the API server.

use std::sync::Arc;

use anyhow::Context as _;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited, combinators::UnsyncBoxBody};
use hyper::body::{Body, Bytes};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::CryptoProvider,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use super::targets::Target;

/// What it takes to ask controllers.
pub(crate) struct Diagnostics {
    client: Client,
    /// Of an account that may read the path; empty for none.
    token: String,
    provider: Arc<CryptoProvider>,
}

/// The answer of a controller.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: UnsyncBoxBody<Bytes, anyhow::Error>,
}

impl Answer {
    pub(super) fn of<B>(response: Response<B>) -> Self
    where
        B: Body<Data = Bytes, Error: Into<anyhow::Error>> + Send + 'static,
    {
        let (head, body) = response.into_parts();
        Self {
            status: head.status,
            body: body.map_err(Into::into).boxed_unsync(),
        }
    }

    /// The whole body as text.
    ///
    /// # Errors
    /// When it is longer than this many bytes, or the connection breaks.
    pub(crate) async fn text(self, bytes_max: usize) -> anyhow::Result<String> {
        let body = Limited::new(self.body, bytes_max).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("failed to read the answer: {error}"))?;
        Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
    }
}

impl Diagnostics {
    /// Asks with this token; empty for none.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub(crate) fn new(client: Client, token: String) -> anyhow::Result<Self> {
        let provider = CryptoProvider::get_default()
            .context("no cryptography provider is installed")?
            .clone();
        Ok(Self {
            client,
            token,
            provider,
        })
    }

    /// The client of the API server.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Sends the token from now on.
    pub(crate) fn set_token(&mut self, token: String) {
        self.token = token;
    }

    /// Asks a controller for a path.
    ///
    /// # Errors
    /// When the controller cannot be reached.
    pub(crate) async fn get(&self, target: &Target, path: &str) -> anyhow::Result<Answer> {
        self.send(target, Method::GET, path, Bytes::new()).await
    }

    /// Sends a request to a controller, on a connection of its own that ends with the answer. The token is sent over TLS
    /// alone, and the request is sent only if the certificate is the target's.
    ///
    /// # Errors
    /// When the controller cannot be reached.
    pub(crate) async fn send(
        &self,
        target: &Target,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<Answer> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost");
        if target.is_tls && !self.token.is_empty() {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", self.token));
        }
        let request = request
            .body(Full::new(body))
            .context("failed to make a request")?;
        let pods = Api::<Pod>::namespaced(self.client.clone(), &target.namespace);
        let forwarded = pods.portforward(&target.pod, &[target.port]).await;
        let mut forwarded = forwarded.context("failed to forward a port of its pod")?;
        let stream = forwarded
            .take_stream(target.port)
            .context("the port was not forwarded")?;
        if !target.is_tls {
            return send(stream, request).await;
        }
        let name = ServerName::try_from("localhost").context("failed to name the server")?;
        let stream = tls(&self.provider, target.certificate.clone())?
            .connect(name, stream)
            .await;
        send(stream.context("failed to connect to its diagnostics")?, request).await
    }
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<Answer> {
    let connected = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = connected.context("failed to connect to its diagnostics")?;
    // It ends when the answer was read or dropped. The reader of the answer is told about a broken connection.
    tokio::spawn(connection);
    let answer = sender
        .send_request(request)
        .await
        .context("failed to read its diagnostics")?;
    Ok(Answer::of(answer))
}

/// Connects to controllers that serve their diagnostics over TLS.
fn tls(provider: &Arc<CryptoProvider>, certificate: Option<String>) -> anyhow::Result<TlsConnector> {
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let verifier = Published {
        certificate,
        provider: provider.clone(),
    };
    let config = builder
        .context("failed to set up TLS")?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Controllers sign their certificates themselves at start. Accepts the one of which the fingerprint was published. Of
/// Cluster API's controllers none is known: the API server leads the connection to the pod, and the token that is sent
/// there may only read metrics.
#[derive(Debug)]
struct Published {
    certificate: Option<String>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Published {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.certificate {
            Some(published) if *published != nephele_manager::fingerprint(end_entity) => Err(Error::General(
                "the certificate is not the one that the manager publishes in its lease".to_owned(),
            )),
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
