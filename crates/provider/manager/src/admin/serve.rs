use std::{
    collections::HashMap,
    io,
    net::{self, IpAddr},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use http::Request;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use nephele_listen::{Limits, Peer, Session};
use parking_lot::Mutex;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Connections at a time. There are only a few probes and scrapers.
pub(crate) const CONNECTIONS_MAX: usize = 64;
/// Connections of these that newcomers do not end: [`KEPT_OF_PEER_MAX`] of each of eight peers. So a peer with thousands
/// of connections does not end those of the kubelet, of a scraper and of a port-forward.
const KEPT_MAX: usize = 16;
/// Connections of one peer that newcomers do not end. The kubelet has one for each of its two probes.
const KEPT_OF_PEER_MAX: usize = 2;
/// How long a connection may have no request. Probes come every 10 s, each on a connection of its own.
const IDLE: Duration = Duration::from_secs(30);
/// The longest time to receive the body of a request. The longest body is a checkpoint of a thousand clusters, through a
/// port-forward.
const BODY_MAX: Duration = Duration::from_secs(60);

/// The address from which a request came, as an extension of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CallerAddress(pub(crate) IpAddr);

/// Serves `router` on at most so many connections of the listener until `shutdown`, then lets requests in flight finish.
///
/// # Errors
///
/// When tokio refuses the listener.
pub(crate) async fn serve(
    listener: net::TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    connections_max: usize,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let limits = Limits {
        connections_max,
        unauthenticated_max: connections_max - KEPT_MAX,
        idle: IDLE,
        body: BODY_MAX,
        ..Limits::default()
    };
    let service = TowerToHyperService::new(router);
    let kept = KeptPlaces::default();
    let session = move |peer: Peer<'_>| {
        let caller = CallerAddress(peer.address.ip().to_canonical());
        let place = kept.take(caller.0);
        let is_authenticated = place.is_some();
        Session {
            service: OfCaller {
                service: service.clone(),
                caller,
                _place: place,
            },
            is_authenticated,
        }
    };
    nephele_listen::serve(listener, move || tls.clone(), limits, session, shutdown).await
}

/// How many connections of each peer are kept. It has peers with such connections only, so at most [`KEPT_MAX`].
#[derive(Clone, Default)]
struct KeptPlaces(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// A kept connection.
struct KeptPlace {
    places: KeptPlaces,
    peer: IpAddr,
}

impl KeptPlaces {
    /// A place for a connection of this peer, if the peer may have another one.
    fn take(&self, peer: IpAddr) -> Option<KeptPlace> {
        let mut places = self.0.lock();
        let all: usize = places.values().sum();
        let own = places.get(&peer).copied().unwrap_or(0);
        if all >= KEPT_MAX || own >= KEPT_OF_PEER_MAX {
            return None;
        }
        places.insert(peer, own + 1);
        Some(KeptPlace {
            places: self.clone(),
            peer,
        })
    }
}

impl Drop for KeptPlace {
    fn drop(&mut self) {
        let mut places = self.places.0.lock();
        if let Some(own) = places.get_mut(&self.peer) {
            *own -= 1;
            if *own == 0 {
                places.remove(&self.peer);
            }
        }
    }
}

/// The service of one connection, which tells each request from where it came.
struct OfCaller<S> {
    service: S,
    caller: CallerAddress,
    /// Given back with the connection.
    _place: Option<KeptPlace>,
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for OfCaller<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn call(&self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(self.caller);
        self.service.call(request)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpSocket, TcpStream},
    };

    use super::*;

    /// A connection from an address of the loopback network.
    async fn connect(server: net::SocketAddr, last: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket
            .bind((Ipv4Addr::new(127, 0, 0, last), 0).into())
            .expect("bound");
        socket.connect(server).await.expect("connected")
    }

    async fn probe(stream: &mut TcpStream) -> String {
        let asked = stream
            .write_all(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
            .await;
        let mut answer = vec![0; 12];
        match asked.and(stream.read_exact(&mut answer).await) {
            Ok(_) => String::from_utf8_lossy(&answer).into_owned(),
            Err(_) => "closed".to_owned(),
        }
    }

    #[tokio::test]
    async fn a_peer_with_many_connections_does_not_end_those_of_the_kubelet() {
        let listener = net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let router = Router::new().route("/healthz", get(|| async { "ok" }));
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve(listener, None, router, CONNECTIONS_MAX, stop.clone()));
        let mut kubelet = connect(address, 2).await;
        assert_eq!(probe(&mut kubelet).await, "HTTP/1.1 200");
        let mut strangers = Vec::new();
        for _ in 0..4 * CONNECTIONS_MAX {
            strangers.push(connect(address, 3).await);
        }
        // The last one is answered, so all were accepted.
        assert_eq!(probe(strangers.last_mut().expect("some")).await, "HTTP/1.1 200");
        let mut rest = vec![0; 1024];
        assert!(
            kubelet.try_read(&mut rest).is_ok_and(|length| length > 0),
            "the rest of the first answer"
        );
        assert_eq!(probe(&mut kubelet).await, "HTTP/1.1 200");
        drop(strangers);
        stop.cancel();
        server.await.expect("no panic").expect("served");
    }

    #[test]
    fn a_peer_keeps_two_connections_and_all_peers_keep_sixteen() {
        let places = KeptPlaces::default();
        let peer = |last: u8| IpAddr::from([10, 0, 0, last]);
        let mut kept: Vec<_> = (0..20)
            .flat_map(|last| (0..3).map(move |_| last))
            .collect::<Vec<u8>>()
            .into_iter()
            .filter_map(|last| places.take(peer(last)))
            .collect();
        assert_eq!(
            (
                kept.len(),
                kept.iter().filter(|place| place.peer == peer(0)).count()
            ),
            (16, 2)
        );
        kept.truncate(1);
        assert_eq!(places.0.lock().clone(), HashMap::from([(peer(0), 1)]));
    }
}
