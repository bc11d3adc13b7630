//! The connections to an API server.

use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioTimer},
};
use kube::client::{Body, ClientBuilder, ConfigExt as _, DynBody, retry::RetryPolicy};
use tower::{BoxError, ServiceBuilder, ServiceExt as _, retry::RetryLayer, util::BoxService};

use crate::connector;
use crate::server::Server;

/// The time after which an unused connection is closed. A connection takes some 40 KiB, and a burst opens one for each
/// of its requests. The lease is renewed more often than that, and work after a pause can afford a new handshake.
pub const IDLE: Duration = Duration::from_secs(5);

/// Sends requests to an API server.
pub type Connections = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// The layers of [`ClientBuilder::try_from`], over connections that are closed after `idle` without a request, and
/// through the proxies that kube's own ones are not built with. The layer that traces requests is left out: callers
/// report what fails. kube's own connections stay until the API server closes them, after 90 s.
///
/// # Errors
/// When the credentials or certificates of the configuration cannot be used.
pub(crate) fn builder(server: &Server, idle: Duration) -> kube::Result<ClientBuilder<Connections>> {
    let config = &server.config;
    let mut connector = TimeoutConnector::new(connector::with_tls(server)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let client = Client::builder(TokioExecutor::new())
        .pool_idle_timeout(idle)
        .pool_timer(TokioTimer::new())
        .build::<_, Body>(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.default_retry.then(|| RetryLayer::new(RetryPolicy::server_retry())))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client)
        .map_response(|response: Response<_>| {
            response.map(|body| Box::new(body.map_err(BoxError::from)) as Box<DynBody>)
        });
    Ok(ClientBuilder::new(service.boxed(), config.default_namespace.clone()))
}
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
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.expect("the client waits");
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.expect("the client closes in order");
        assert!(rest.is_empty(), "one request for each connection");
    }

    #[tokio::test]
    async fn the_connections_of_a_burst_are_closed_when_they_are_not_used() {
        const BURST: usize = 8;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let config = kube::Config::new(format!("http://{address}").parse().expect("an address"));
        let server = Server::direct(config);
        let client = builder(&server, Duration::from_millis(100)).expect("no certificates").build();
        let served = async {
            let (mut open, arrived) = (JoinSet::new(), Arc::new(Barrier::new(BURST)));
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
        let (closed, answers) = tokio::time::timeout(Duration::from_secs(60), both).await.expect("all close");
        assert_eq!((closed, answers.len()), (BURST, BURST));
        assert!(answers.iter().all(|answer| matches!(answer.as_deref(), Ok("{}"))), "{answers:?}");
    }
}
