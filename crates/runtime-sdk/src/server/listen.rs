//! Connections: `nephele-listen` accepts, encrypts and ends them.

use std::{io, net, time::Duration};

use hyper_util::service::TowerToHyperService;
use nephele_listen::{Limits, Peer, Session};
use tokio_util::sync::CancellationToken;

use super::{service::Service, tls::Tls};

/// How long calls may go on after `shutdown`; no call is allowed more.
const DRAIN_MAX: Duration = Duration::from_secs(30);

/// Serves an extension on the listener until `shutdown`, then lets calls in flight end, for 30 s at most. Speaks
/// HTTP/2 and HTTP/1.1. While it runs, it follows the files of [`Tls::load`].
///
/// # Errors
/// When the listener cannot be handed to tokio.
pub async fn serve(
    service: Service,
    listener: net::TcpListener,
    tls: Tls,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let connections_max = service.limits().connections_max;
    // Callers need no certificate, so all of them are alike. The service has tighter bounds on bodies.
    let limits =
        Limits { connections_max, unauthenticated_max: connections_max, drain: DRAIN_MAX, ..Limits::DEFAULT };
    let router = TowerToHyperService::new(service.router());
    let session = move |_: Peer<'_>| Session::unauthenticated(router.clone());
    let follower = tokio::spawn(tls.clone().follow(service.metrics().clone(), shutdown.clone()));
    // The current configuration: existing connections keep the certificate that they began with.
    let served =
        nephele_listen::serve(listener, move || Some(tls.acceptor()), limits, session, shutdown).await;
    follower.abort();
    served
}
