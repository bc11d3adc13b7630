use std::{convert::Infallible, error::Error, io, net, net::SocketAddr, sync::Arc};

use http::{Request, Response};
use http_body::Body;
use hyper::service::{Service, service_fn};
use nephele_budget::{Budget, Grant, Owner};
use rustls_pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    accept::accept,
    body::RequestBody,
    handshake::handshake,
    http::{Http, Protocol},
    limits::Limits,
    refuse::refuse,
};

/// The client of a connection, after the handshake.
#[derive(Debug, Clone, Copy)]
pub struct Peer<'a> {
    /// The address from which the client connects.
    pub address: SocketAddr,
    /// The client's verified certificate, followed by its chain; empty when there is none.
    pub certificates: &'a [CertificateDer<'static>],
}

/// The address from which a client connects: an extension of each request that [`serve`] hands over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddress(pub SocketAddr);

/// How one connection is served.
#[derive(Debug, Clone)]
pub struct Session<S> {
    pub service: S,
    /// Whether the client is authenticated. If so, its connection is not closed to make room for others.
    pub is_authenticated: bool,
}

impl<S> Session<S> {
    /// A session with an unauthenticated client.
    pub fn unauthenticated(service: S) -> Self {
        Self {
            service,
            is_authenticated: false,
        }
    }
}

/// A session with an authenticated user, or none for an unauthenticated client. Each request has the user as an
/// extension.
pub fn session_of<U, F, R, B>(
    user: Option<U>,
    answer: F,
) -> Session<
    impl Service<Request<RequestBody>, Response = Response<B>, Error = Infallible, Future: Send + 'static>
    + Send
    + use<U, F, R, B>,
>
where
    U: Clone + Send + Sync + 'static,
    F: Fn(Request<RequestBody>) -> R + Send + 'static,
    R: Future<Output = Response<B>> + Send + 'static,
    B: Body,
{
    let is_authenticated = user.is_some();
    let service = service_fn(move |mut request: Request<RequestBody>| {
        if let Some(user) = &user {
            request.extensions_mut().insert(user.clone());
        }
        let answer = answer(request);
        async move { Ok(answer.await) }
    });
    Session {
        service,
        is_authenticated,
    }
}

/// Serves HTTP/1.1 and HTTP/2 on a listener until `shutdown`. Then it closes the listener and gives requests in flight
/// at most [`Limits::drain`] to end. `tls` is called for each connection, so that a certificate can be replaced; if it
/// returns none, the connection is plain HTTP/1.1. `session` decides how a connection is served.
///
/// # Errors
/// When the listener cannot be handed to tokio.
pub async fn serve<S, B>(
    listener: net::TcpListener,
    tls: impl Fn() -> Option<TlsAcceptor>,
    limits: Limits,
    session: impl Fn(Peer<'_>) -> Session<S> + Send + Sync + 'static,
    shutdown: CancellationToken,
) -> io::Result<()>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>> + Send,
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let places = Budget::new(limits.connections_max, limits.unauthenticated_max);
    let http = Http::new(limits, TaskTracker::new());
    let session = Arc::new(session);
    let serve = |stream, address, place| {
        let tls = tls();
        let session = Arc::clone(&session);
        connection(
            stream,
            address,
            place,
            tls,
            http.clone(),
            session,
            shutdown.clone(),
        )
    };
    let refuse = |stream, address: SocketAddr| {
        let tls = tls();
        let http = http.clone();
        async move { refuse(stream, tls, &http, Owner::peer(address.ip())).await }
    };
    accept(&listener, &places, &limits, &http.tasks, &shutdown, serve, refuse).await;
    drop(listener);
    http.tasks.close();
    http.tasks.wait().await;
    Ok(())
}

async fn connection<S, B>(
    stream: TcpStream,
    address: SocketAddr,
    place: Arc<Grant>,
    tls: Option<TlsAcceptor>,
    http: Http,
    session: Arc<impl Fn(Peer<'_>) -> Session<S> + Send + Sync>,
    shutdown: CancellationToken,
) where
    S: Service<Request<RequestBody>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>> + Send,
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let begin = |certificates: &[CertificateDer<'static>]| {
        let Session {
            service,
            is_authenticated,
        } = session(Peer {
            address,
            certificates,
        });
        let service = service_fn(move |mut request: Request<RequestBody>| {
            request.extensions_mut().insert(PeerAddress(address));
            service.call(request)
        });
        // A connection whose place was revoked meanwhile is about to end.
        (service, is_authenticated && place.pin())
    };
    let stop = shutdown.cancelled();
    let result = match tls {
        None => {
            let (service, _) = begin(&[]);
            http.serve(stream, Protocol::Http1, service, Some(Arc::clone(&place)), stop)
                .await
        }
        Some(tls) => {
            let shaking = handshake(stream, tls, http.limits.handshake, Owner::peer(address.ip()));
            let shaken = shutdown.run_until_cancelled(shaking).await;
            let stream = match shaken {
                None => return,
                Some(Ok(stream)) => stream,
                Some(Err(error)) => {
                    return tracing::debug!(%address, error = &error as &dyn Error, "Ended a connection");
                }
            };
            let (service, _) = begin(stream.get_ref().1.peer_certificates().unwrap_or_default());
            let protocol = Protocol::negotiated(&stream);
            http.serve(stream, protocol, service, Some(Arc::clone(&place)), stop)
                .await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%address, error = &error as &dyn Error, "A connection ended early");
    }
}
