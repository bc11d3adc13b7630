//! Connections to a server or through a proxy to it.

use std::task::{Context, Poll};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use futures::future::{BoxFuture, FutureExt as _, TryFutureExt as _};
use http::{HeaderValue, Uri};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{
    client::legacy::connect::{
        HttpConnector,
        proxy::{SocksV5, Tunnel},
    },
    rt::TokioIo,
};
use kube::client::ConfigExt as _;
use tokio::net::TcpStream;
use tower::{BoxError, Service, ServiceExt as _};

use crate::{
    connections::Patience,
    proxy::{Proxy, Scheme},
    server::Server,
    trust::trust_own,
};

/// Why there is no connection through a proxy.
#[derive(Debug, thiserror::Error)]
#[error("failed to connect through the proxy {proxy}")]
struct ThroughProxy {
    proxy: Proxy,
    source: BoxError,
}

/// Connects to a server, through its proxy if there is one.
#[derive(Clone)]
pub(crate) struct Connector {
    way: Way,
    proxy: Option<Proxy>,
}

#[derive(Clone)]
enum Way {
    Direct(HttpConnector),
    Http(Tunnel<HttpConnector>),
    Https(Tunnel<HttpsConnector<HttpConnector>>),
    Socks(SocksV5<HttpConnector>),
}

/// Connectors with TLS, where the server has `https`.
pub(crate) struct WithTls {
    /// Agrees on HTTP/2 where the server speaks it.
    pub(crate) any_version: HttpsConnector<Connector>,
    pub(crate) http1: HttpsConnector<Connector>,
}

/// Connects with TLS, where the server has `https`.
///
/// # Errors
/// When the certificates of the configuration cannot be used.
pub(crate) fn with_tls(server: &Server, patience: Patience) -> kube::Result<WithTls> {
    let config = &server.config;
    let mut tls = config.rustls_client_config()?;
    // The authorities of a pod are read again when their file changes, and are never those of a person.
    if let Some(authorities) = &config.root_cert
        && config.root_cert_file.is_none()
        && !config.accept_invalid_certs
        && !authorities.is_empty()
    {
        trust_own(&mut tls, authorities).map_err(kube::Error::Service)?;
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    // For what HTTP cannot ask: the kernel of a machine that is gone answers no probe and acknowledges no data.
    tcp.set_keepalive(Some(patience.pong_within));
    tcp.set_keepalive_interval(Some(patience.pong_within / 3));
    tcp.set_keepalive_retries(Some(6));
    #[cfg(any(target_os = "linux", target_os = "android"))]
    tcp.set_tcp_user_timeout(Some(patience.answer));
    let way = match &server.proxy {
        None => Way::Direct(tcp),
        Some(proxy) => match proxy.scheme {
            Scheme::Http => Way::Http(tunnel(proxy, tcp)),
            // As for client-go, the authorities of the cluster vouch for its proxy.
            Scheme::Https => {
                let builder = HttpsConnectorBuilder::new()
                    .with_tls_config(tls.clone())
                    .https_or_http();
                Way::Https(tunnel(proxy, builder.enable_http1().wrap_connector(tcp)))
            }
            Scheme::Socks => Way::Socks(socks(proxy, tcp)),
        },
    };
    let connector = Connector {
        way,
        proxy: server.proxy.clone(),
    };
    let builder = |tls| -> kube::Result<_> {
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let Some(name) = config.tls_server_name.clone() else {
            return Ok(builder);
        };
        let name = name
            .try_into()
            .map_err(|error| kube::Error::Service(Box::new(error)))?;
        Ok(builder.with_server_name_resolver(FixedServerNameResolver::new(name)))
    };
    Ok(WithTls {
        any_version: builder(tls.clone())?
            .enable_all_versions()
            .wrap_connector(connector.clone()),
        http1: builder(tls)?.enable_http1().wrap_connector(connector),
    })
}

fn tunnel<C>(proxy: &Proxy, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.url.clone(), connector);
    let Some((name, password)) = &proxy.credentials else {
        return tunnel;
    };
    let credentials = format!("Basic {}", BASE64.encode(format!("{name}:{password}")));
    tunnel.with_auth(HeaderValue::try_from(credentials).expect("base64 is a value of a header"))
}

fn socks(proxy: &Proxy, connector: HttpConnector) -> SocksV5<HttpConnector> {
    let socks = SocksV5::new(proxy.url.clone(), connector);
    match proxy.credentials.clone() {
        Some((name, password)) => socks.with_auth(name, password),
        None => socks,
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Each connection waits in its own future.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let stream = match self.way.clone() {
            Way::Direct(tcp) => {
                return tcp
                    .oneshot(server)
                    .map_ok(MaybeHttpsStream::Http)
                    .err_into()
                    .boxed();
            }
            Way::Http(tunnel) => tunnel
                .oneshot(server)
                .map_ok(MaybeHttpsStream::Http)
                .err_into()
                .boxed(),
            Way::Https(tunnel) => tunnel.oneshot(server).err_into().boxed(),
            Way::Socks(socks) => socks
                .oneshot(server)
                .map_ok(MaybeHttpsStream::Http)
                .err_into()
                .boxed(),
        };
        let proxy = self.proxy.clone();
        stream
            .map_err(move |source: BoxError| match proxy {
                Some(proxy) => ThroughProxy { proxy, source }.into(),
                None => source,
            })
            .boxed()
    }
}
