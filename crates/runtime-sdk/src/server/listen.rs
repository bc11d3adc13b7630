//! Connections: `nephele-listen` accepts, encrypts and ends them.

use std::{io, net, time::Duration};

use hyper_util::service::TowerToHyperService;
use nephele_listen::{Limits, Peer, Session};
use tokio_util::sync::CancellationToken;

use super::{service::Service, tls::Tls};

/// How long calls may go on after `shutdown`; no call is allowed more.
const DRAIN_MAX: Duration = Duration::from_secs(30);

/// Serves an extension on the listener until `shutdown`, then lets calls in flight end, for 30 s at most. HTTP/2 and
/// HTTP/1.1 are spoken. While it runs, files of [`Tls::load`] are followed.
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
    // Callers need no certificate, so that all of them are alike. The service bounds bodies more tightly.
    let limits =
        Limits { connections_max, unauthenticated_max: connections_max, drain: DRAIN_MAX, ..Limits::DEFAULT };
    let router = TowerToHyperService::new(service.router());
    let session = move |_: Peer<'_>| Session::unauthenticated(router.clone());
    let follower = tokio::spawn(tls.clone().follow(service.metrics().clone(), shutdown.clone()));
    // The configuration of now: connections that are there keep the certificate that they began with.
    let served =
        nephele_listen::serve(listener, move || Some(tls.acceptor()), limits, session, shutdown).await;
    follower.abort();
    served
}
