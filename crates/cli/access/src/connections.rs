//! The connections to an API server.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use futures::future::{BoxFuture, FutureExt as _};
use http::{Request, Response, Version, header::UPGRADE};
use http_body_util::BodyExt as _;
use hyper_rustls::HttpsConnector;
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{
        Client,
        connect::{CaptureConnection, capture_connection},
    },
    rt::{TokioExecutor, TokioTimer},
};
use kube::client::{Body, ClientBuilder, ConfigExt as _, DynBody, retry::RetryPolicy};
use tokio::time::sleep;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt as _, retry::RetryLayer, util::BoxService};
use tower_http::timeout::TimeoutBody;

use crate::{
    connector::{self, Connector},
    server::Server,
};

/// Sends requests to an API server.
pub type Connections = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// How long connections may be unused or silent. A load balancer or a node that fails ends no connection: it forgets it,
/// and without limits a request would wait for a quarter of an hour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// The time after which an unused connection is closed.
    pub(crate) idle: Duration,
    /// The time without data after which an HTTP/2 connection with requests in flight is asked whether it is alive.
    pub(crate) ping_after: Duration,
    /// The time that the answer to that may take.
    pub(crate) pong_within: Duration,
    /// On HTTP/1.1, which cannot ask: the time without data after which a request is given up. Not that of a watch.
    pub(crate) answer: Duration,
}

impl Patience {
    /// A dead connection is found within 45 s, as client-go finds it (`ReadIdleTimeout` and `PingTimeout` in
    /// `k8s.io/apimachinery/pkg/util/net/http.go`).
    ///
    /// A connection takes some 40 KiB, and a burst over HTTP/1.1 opens one for each of its requests. The lease is renewed
    /// more often than an unused connection is closed, and work after a pause can afford a new handshake.
    pub(crate) const USUAL: Self = Self {
        idle: Duration::from_secs(5),
        ping_after: Duration::from_secs(30),
        pong_within: Duration::from_secs(15),
        answer: Duration::from_secs(45),
    };
}

/// Bytes that may arrive on one HTTP/2 stream before it is read, and on all streams of a connection: the numbers of Go
/// (`transportDefaultStreamFlow`, `transportDefaultConnFlow`). A watch that is read late must not hold up the others.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 1 << 30;

/// Why a request was given up.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {0:?}")]
struct Silent(Duration);

/// The layers of [`ClientBuilder::try_from`], over connections that are closed when they are not used, that notice when
/// the server is gone, and that go through the proxies which kube's own ones are not built with. They speak HTTP/2 where
/// the server does. The layer that traces requests is left out: callers report what fails. kube's own connections stay
/// until the API server closes them, after 90 s.
///
/// # Errors
/// When the credentials or certificates of the configuration cannot be used.
pub(crate) fn builder(server: &Server, patience: Patience) -> kube::Result<ClientBuilder<Connections>> {
    let config = &server.config;
    let connected = connector::with_tls(server, patience)?;
    let client = |connector: HttpsConnector<Connector>| {
        let mut connector = TimeoutConnector::new(connector);
        connector.set_connect_timeout(config.connect_timeout);
        connector.set_read_timeout(config.read_timeout);
        connector.set_write_timeout(config.write_timeout);
        connector.set_reset_reader_on_write(config.reset_reader_on_write);
        Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(patience.idle)
            .pool_timer(TokioTimer::new())
            .http2_keep_alive_interval(patience.ping_after)
            .http2_keep_alive_timeout(patience.pong_within)
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(CONNECTION_WINDOW)
            .build::<_, Body>(connector)
    };
    let sender = Sender {
        usual: client(connected.any_version),
        upgrades: client(connected.http1),
        answer: patience.answer,
    };
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(
            config
                .default_retry
                .then(|| RetryLayer::new(RetryPolicy::server_retry())),
        )
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(sender);
    Ok(ClientBuilder::new(
        service.boxed(),
        config.default_namespace.clone(),
    ))
}

type Pool = Client<TimeoutConnector<HttpsConnector<Connector>>, Body>;

#[derive(Clone)]
struct Sender {
    usual: Pool,
    /// A connection of HTTP/2 cannot become a WebSocket.
    upgrades: Pool,
    answer: Duration,
}

impl Service<Request<Body>> for Sender {
    type Response = Response<Box<DynBody>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Each request waits in its own future.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if request.headers().contains_key(UPGRADE) {
            let answer = self.upgrades.request(request);
            return async move { Ok(answer.await?.map(boxed)) }.boxed();
        }
        let lasts = lasts(request.uri().query().unwrap_or_default());
        let captured = capture_connection(&mut request);
        let limit = self.answer;
        let answer = self.usual.request(request);
        async move {
            if lasts {
                return Ok(answer.await?.map(boxed));
            }
            let answer = tokio::select! {
                answer = answer => answer?,
                () = silence(captured, limit) => return Err(Silent(limit).into()),
            };
            Ok(match answer.version() {
                Version::HTTP_2 => answer.map(boxed),
                _ => answer.map(|body| Box::new(Box::pin(TimeoutBody::new(limit, body))) as Box<DynBody>),
            })
        }
        .boxed()
    }
}

fn boxed(body: hyper::body::Incoming) -> Box<DynBody> {
    Box::new(body.map_err(BoxError::from))
}

/// Whether the answer to a request lasts until the server ends it: a watch, or a log that is followed.
fn lasts(query: &str) -> bool {
    query
        .split('&')
        .any(|parameter| matches!(parameter, "watch=true" | "watch=1" | "follow=true" | "follow=1"))
}

/// Ends when a connection of HTTP/1.1 has been silent since its request. Of HTTP/2, pings take care.
async fn silence(mut captured: CaptureConnection, limit: Duration) {
    let is_http2 = captured
        .wait_for_connection_metadata()
        .await
        .as_ref()
        .is_some_and(hyper_util::client::legacy::connect::Connected::is_negotiated_h2);
    match is_http2 {
        true => std::future::pending().await,
        false => sleep(limit).await,
    }
}

#[cfg(test)]
mod silence;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
        sync::Barrier,
        task::JoinSet,
    };

    use super::*;

    /// Answers one request once all of a burst have arrived, then waits until the client closes the connection.
    async fn serve(mut stream: TcpStream, arrived: Arc<Barrier>) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a whole request"));
        }
        arrived.wait().await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
            .await
            .expect("the client waits");
        let mut rest = Vec::new();
        stream
            .read_to_end(&mut rest)
            .await
            .expect("the client closes in order");
        assert!(rest.is_empty(), "one request for each connection");
    }

    #[tokio::test]
    async fn the_connections_of_a_burst_are_closed_when_they_are_not_used() {
        const BURST: usize = 8;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let config = kube::Config::new(format!("http://{address}").parse().expect("an address"));
        let server = Server::direct(config);
        let patience = Patience {
            idle: Duration::from_millis(100),
            ..Patience::USUAL
        };
        let client = builder(&server, patience).expect("no certificates").build();
        let served = async {
            let mut open = JoinSet::new();
            let arrived = Arc::new(Barrier::new(BURST));
            for _ in 0..BURST {
                let (stream, _) = listener.accept().await.expect("a connection");
                open.spawn(serve(stream, Arc::clone(&arrived)));
            }
            open.join_all().await.len()
        };
        let burst = futures::future::join_all((0..BURST).map(|_| {
            let request = Request::get("/version").body(Vec::new()).expect("a request");
            client.request_text(request)
        }));
        let both = futures::future::join(served, burst);
        let (closed, answers) = tokio::time::timeout(Duration::from_secs(60), both)
            .await
            .expect("all close");
        assert_eq!((closed, answers.len()), (BURST, BURST));
        assert!(
            answers.iter().all(|answer| matches!(answer.as_deref(), Ok("{}"))),
            "{answers:?}"
        );
    }
}
