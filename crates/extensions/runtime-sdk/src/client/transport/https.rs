//! HTTPS over kept connections.

use std::{
    collections::BTreeMap,
    error::Error,
    io,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use parking_lot::Mutex;
use rustls::{CertificateError, ClientConfig, RootCertStore, crypto::CryptoProvider};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use tokio::time::{Instant, timeout_at};

use super::{
    error::{BoxedError, TransportError, TrustError},
    exchange::{Incoming, Outgoing, Transport},
    identity::Identity,
    resolve::Resolver,
};

/// The longest response, as documented for Cluster API's own client. There the limit is not enforced for responses with
/// status 200; here it is.
const RESPONSE_LIMIT: usize = 20 << 20;

/// How many bytes are read of an answer with another HTTP status than 200, for the error message.
const QUOTED: usize = 512;

/// Settings of the connections.
#[derive(Clone, Debug)]
pub struct HttpsSettings {
    /// The longest response, in bytes. 20 MiB by default.
    pub response_limit: usize,
    /// The number of idle connections to keep per host. With HTTP/2 there is only one.
    pub idle_per_host: usize,
    /// How long an idle connection is kept.
    pub idle_for: Duration,
    /// How long the TLS settings of a host are kept, with its connections.
    pub keep_for: Duration,
    /// The number of hosts whose TLS settings and connections are kept. The oldest are dropped first.
    pub hosts: usize,
    /// Whether to use HTTP/1.1 only.
    pub http1_only: bool,
    /// Addresses of hosts that DNS does not resolve, or not correctly: for callers outside the cluster. The port is
    /// used if the extension's URL has none.
    pub hosts_at: BTreeMap<String, SocketAddr>,
}

impl Default for HttpsSettings {
    fn default() -> Self {
        Self {
            response_limit: RESPONSE_LIMIT,
            idle_per_host: 25,
            idle_for: Duration::from_secs(90),
            keep_for: Duration::from_secs(24 * 3600),
            // At 30 to 50 KiB per connection, this is about 12 MiB.
            hosts: 256,
            http1_only: false,
            hosts_at: BTreeMap::new(),
        }
    }
}

type HttpClient = Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>;

/// Calls over HTTPS, with HTTP/2 where the extension supports it, otherwise HTTP/1.1. Connections are kept.
/// Redirects are not followed: an extension must not send its callers elsewhere.
#[derive(Debug)]
pub struct Https {
    settings: HttpsSettings,
    provider: Arc<CryptoProvider>,
    resolver: Resolver,
    state: Mutex<State>,
    system: OnceLock<Arc<RootCertStore>>,
}

#[derive(Debug, Default)]
struct State {
    identity: Option<Identity>,
    clients: BTreeMap<Trusted, (Instant, HttpClient)>,
}

/// The host without port, and the CA bundle: the TLS settings depend on nothing else.
type Trusted = (String, Arc<[u8]>);

impl Default for Https {
    fn default() -> Self {
        Self::new(HttpsSettings::default())
    }
}

impl Https {
    /// A transport without connections.
    #[must_use]
    pub fn new(settings: HttpsSettings) -> Self {
        Self {
            resolver: Resolver::new(settings.hosts_at.clone()),
            settings,
            provider: Arc::new(rustls::crypto::aws_lc_rs::default_provider()),
            state: Mutex::default(),
            system: OnceLock::new(),
        }
    }

    /// Shows this identity, or none, to extensions from the next call on. Existing connections are dropped.
    pub fn set_identity(&self, identity: Option<Identity>) {
        let mut state = self.state.lock();
        state.identity = identity;
        state.clients.clear();
    }

    /// The number of hosts whose TLS settings and connections are kept now.
    #[must_use]
    pub fn hosts(&self) -> usize {
        self.state.lock().clients.len()
    }

    fn client(&self, call: &Outgoing, now: Instant) -> Result<HttpClient, TrustError> {
        let key = (
            call.uri.host().unwrap_or_default().to_owned(),
            call.ca_bundle.clone(),
        );
        let mut state = self.state.lock();
        if let Some((since, client)) = state.clients.get(&key)
            && now.duration_since(*since) < self.settings.keep_for
        {
            return Ok(client.clone());
        }
        let client = self.connect(&key.1, state.identity.as_ref())?;
        if state.clients.len() >= self.settings.hosts.max(1) {
            let oldest = state
                .clients
                .iter()
                .min_by_key(|(_, (since, _))| *since)
                .map(|(key, _)| key.clone());
            oldest.map(|key| state.clients.remove(&key));
        }
        state.clients.insert(key, (now, client.clone()));
        Ok(client)
    }

    fn connect(&self, ca_bundle: &[u8], identity: Option<&Identity>) -> Result<HttpClient, TrustError> {
        let config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(TrustError::Versions)?
            .with_root_certificates(self.roots(ca_bundle)?);
        let config = match identity.map(|identity| &identity.inner) {
            None => config.with_no_client_auth(),
            Some(pair) => config
                .with_client_auth_cert(pair.certificates.clone(), pair.key.clone_key())
                .map_err(TrustError::Identity)?,
        };
        let mut http = HttpConnector::new_with_resolver(self.resolver.clone());
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_keepalive(Some(Duration::from_secs(30)));
        let builder = HttpsConnectorBuilder::new().with_tls_config(config).https_only();
        let https = if self.settings.http1_only {
            builder.enable_http1().wrap_connector(http)
        } else {
            builder.enable_all_versions().wrap_connector(http)
        };
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(self.settings.idle_for)
            .pool_max_idle_per_host(self.settings.idle_per_host)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            // Detects HTTP/2 connections whose peer has vanished.
            .http2_keep_alive_interval(Duration::from_secs(30))
            .http2_keep_alive_timeout(Duration::from_secs(15))
            .http2_adaptive_window(true)
            .build(https);
        Ok(client)
    }

    fn roots(&self, ca_bundle: &[u8]) -> Result<Arc<RootCertStore>, TrustError> {
        if ca_bundle.is_empty() {
            let system = self.system.get_or_init(|| {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                Arc::new(roots)
            });
            return if system.is_empty() {
                Err(TrustError::System)
            } else {
                Ok(system.clone())
            };
        }
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca_bundle) {
            roots
                .add(certificate.map_err(TrustError::Bundle)?)
                .map_err(TrustError::Certificate)?;
        }
        if roots.is_empty() {
            return Err(TrustError::Empty);
        }
        Ok(Arc::new(roots))
    }

    async fn exchange(&self, client: HttpClient, call: Outgoing) -> Result<Incoming, TransportError> {
        let mut request = Request::new(Full::new(call.body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = call.uri;
        // Upstream sends no content type; extensions that check it expect this one.
        let json = http::HeaderValue::from_static("application/json");
        request.headers_mut().insert(http::header::CONTENT_TYPE, json);
        let response = client.request(request).await.map_err(|error| {
            if error.is_connect() {
                TransportError::Connect(cause(&error))
            } else {
                TransportError::Exchange(cause(&error))
            }
        })?;
        let (head, mut body) = response.into_parts();
        let code = head.status.as_u16();
        if head.status != StatusCode::OK {
            let mut beginning = Vec::new();
            while beginning.len() <= QUOTED
                && let Some(Ok(frame)) = body.frame().await
            {
                if let Ok(data) = frame.into_data() {
                    let room = QUOTED + 1 - beginning.len();
                    beginning.extend_from_slice(&data[..data.len().min(room)]);
                }
            }
            return Ok(Incoming {
                code,
                body: beginning.into(),
            });
        }
        let limit = self.settings.response_limit;
        if body.size_hint().lower() > limit as u64 {
            return Err(TransportError::TooLarge { limit });
        }
        match Limited::new(body, limit).collect().await {
            Ok(collected) => Ok(Incoming {
                code,
                body: collected.to_bytes(),
            }),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                Err(TransportError::TooLarge { limit })
            }
            Err(error) => Err(TransportError::Exchange(error)),
        }
    }
}

impl Transport for Https {
    fn send(&self, call: Outgoing) -> BoxFuture<'_, Result<Incoming, TransportError>> {
        Box::pin(async move {
            let deadline = call.deadline;
            let client = self
                .client(&call, Instant::now())
                .map_err(TransportError::Trust)?;
            timeout_at(deadline, self.exchange(client, call))
                .await
                .unwrap_or(Err(TransportError::Timeout))
        })
    }
}

/// The cause of an error of the HTTP client. The client's own message names no cause.
fn cause(error: &hyper_util::client::legacy::Error) -> BoxedError {
    let mut texts: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(error) = next {
        let text = tls_within(error).map_or_else(|| error.to_string(), of_tls);
        if !texts.iter().any(|said| said.contains(&text)) {
            texts.push(text);
        }
        next = error.source();
    }
    if texts.is_empty() {
        texts.push(error.to_string());
    }
    texts.join(": ").into()
}

/// The TLS error inside an error.
fn tls_within<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => tls_within(inner),
        None => error.downcast_ref(),
    }
}

/// The text of a TLS error without the current time. It ends up in conditions, which should not change while the error
/// stays the same.
fn of_tls(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. }) => {
            format!(
                "invalid peer certificate: expired at {} seconds since 1970",
                not_after.as_secs()
            )
        }
        rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. }) => {
            format!(
                "invalid peer certificate: not valid before {} seconds since 1970",
                not_before.as_secs()
            )
        }
        other => other.to_string(),
    }
}
