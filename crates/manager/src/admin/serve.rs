use std::{io, net, time::Duration};

use axum::Router;
use hyper_util::service::TowerToHyperService;
use nephele_listen::{Limits, Peer, Session};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Connections at a time. There are only a few probes and scrapers.
const CONNECTIONS_MAX: usize = 64;
/// The longest time to receive the body of a request. The longest body is a checkpoint of a thousand clusters, through a
/// port-forward.
const BODY_MAX: Duration = Duration::from_secs(60);

/// Serves `router` on the listener until `shutdown`, then lets requests in flight finish.
///
/// # Errors
///
/// When tokio refuses the listener.
pub(crate) async fn serve(
    listener: net::TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let limits = Limits {
        connections_max: CONNECTIONS_MAX,
        unauthenticated_max: CONNECTIONS_MAX,
        body: BODY_MAX,
        ..Limits::default()
    };
    let service = TowerToHyperService::new(router);
    let session = move |_: Peer<'_>| Session::unauthenticated(service.clone());
    nephele_listen::serve(listener, move || tls.clone(), limits, session, shutdown).await
}
