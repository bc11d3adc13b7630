//! Connections, which `nephele-listen` accepts, encrypts and ends.

use std::{io, net, time::Duration};

use hyper_util::service::TowerToHyperService;
use nephele_listen::{Limits, Peer, Session};
use tokio_util::sync::CancellationToken;

use super::{service::Service, tls::Tls};

/// How long calls in flight may continue after `shutdown`. No call has a longer timeout.
const DRAIN_MAX: Duration = Duration::from_secs(30);

/// Serves an extension on the listener until `shutdown`, then waits up to 30 s for calls in flight. Supports HTTP/2
/// and HTTP/1.1. Meanwhile, it reloads the files of [`Tls::load`] when they change.
///
/// # Errors
/// When tokio refuses the listener.
pub async fn serve(
    service: Service,
    listener: net::TcpListener,
    tls: Tls,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let connections_max = service.limits().connections_max;
    // Callers need no certificate, so all have the same limit. The service has tighter limits for bodies.
    let limits = Limits {
        connections_max,
        unauthenticated_max: connections_max,
        drain: DRAIN_MAX,
        ..Limits::DEFAULT
    };
    let router = TowerToHyperService::new(service.router());
    let session = move |_: Peer<'_>| Session::unauthenticated(router.clone());
    let follower = tokio::spawn(tls.clone().follow(service.metrics().clone(), shutdown.clone()));
    // Each connection gets the current configuration. Existing connections keep their certificate.
    let served =
        nephele_listen::serve(listener, move || Some(tls.acceptor()), limits, session, shutdown).await;
    follower.abort();
    served
}
