use std::{io, net};

use axum::Router;
use nephele_webhook::serve_router;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Connections served at a time; further ones wait in the listener's backlog. Probes and scrapes are a handful.
const CONNECTIONS_MAX: usize = 64;

/// Serves `router` on the listener until `shutdown`, then lets requests in flight finish.
///
/// # Errors
///
/// When the listener cannot be handed to tokio.
pub(crate) async fn serve(
    listener: net::TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    shutdown: CancellationToken,
) -> io::Result<()> {
    serve_router(listener, tls, router, CONNECTIONS_MAX, shutdown).await
}
