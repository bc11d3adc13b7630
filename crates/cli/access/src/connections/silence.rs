//! Connections that die without a word: behind a relay that keeps its sockets and copies nothing any more, as a load
//! balancer that has forgotten its connections.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _, stream};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::Frame;
use kube::Client;
use nephele_listen::{Limits, Peer, RequestBody, serve, session_of};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::{Notify, watch},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::*;

type Answer = Response<BoxBody<Bytes, std::convert::Infallible>>;

/// `/hang` is never answered, `/half` is after its first bytes never continued, a watch is continued when `told`.
async fn answer(request: Request<RequestBody>, told: Arc<Notify>) -> Answer {
    let frame = |text: &'static str| Ok(Frame::data(Bytes::from(text)));
    let body = match (request.uri().path(), request.uri().query()) {
        ("/hang", _) => std::future::pending().await,
        ("/half", _) => BodyExt::boxed(StreamBody::new(
            stream::once(async move { frame("half") }).chain(stream::pending()),
        )),
        (_, Some("watch=true")) => {
            let rest = stream::once(async move {
                told.notified().await;
                frame("second\n")
            });
            BodyExt::boxed(StreamBody::new(
                stream::once(async move { frame("first\n") }).chain(rest),
            ))
        }
        (path, _) => BodyExt::boxed(Full::from(format!("{path} of {:?}", request.version()))),
    };
    Response::new(body)
}

/// An API server behind a relay. Returns the address of the relay, and what freezes its connections.
async fn behind_a_relay(tls: Option<TlsAcceptor>, told: &Arc<Notify>) -> (SocketAddr, watch::Sender<()>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let server = listener.local_addr().expect("bound");
    let told = Arc::clone(told);
    let session = move |_: Peer<'_>| {
        let told = Arc::clone(&told);
        session_of(None::<()>, move |request| answer(request, Arc::clone(&told)))
    };
    tokio::spawn(serve(
        listener,
        move || tls.clone(),
        Limits::default(),
        session,
        CancellationToken::new(),
    ));
    let relay = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = relay.local_addr().expect("bound");
    let (freeze, frozen) = watch::channel(());
    tokio::spawn(async move {
        loop {
            let (mut client, _) = relay.accept().await.expect("a connection");
            let mut frozen = frozen.clone();
            // Those that come later are relayed.
            frozen.mark_unchanged();
            tokio::spawn(async move {
                let mut server = TcpStream::connect(server).await.expect("it listens");
                tokio::select! {
                    _ = copy_bidirectional(&mut client, &mut server) => {}
                    _ = frozen.changed() => std::future::pending().await,
                }
            });
        }
    });
    (address, freeze)
}

/// The server with a certificate of its own, and a client that is patient for a moment.
async fn start(is_http2: bool, told: &Arc<Notify>) -> (Client, watch::Sender<()>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let tls = ServerConfig::builder().with_no_client_auth();
    let mut tls = tls
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("they fit");
    if is_http2 {
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    }
    let (address, freeze) = behind_a_relay(Some(TlsAcceptor::from(Arc::new(tls))), told).await;
    let url = format!("https://localhost:{}", address.port());
    let mut config = kube::Config::new(url.parse().expect("a URL"));
    config.root_cert = Some(vec![made.cert.der().to_vec()]);
    let moment = Duration::from_millis(200);
    let patience = Patience {
        ping_after: moment,
        pong_within: moment,
        answer: moment,
        ..Patience::USUAL
    };
    (
        builder(&Server::direct(config), patience)
            .expect("certificates")
            .build(),
        freeze,
    )
}

async fn ask(client: &Client, path: &str) -> kube::Result<String> {
    let request = Request::get(path).body(Vec::new()).expect("a request");
    timeout(Duration::from_secs(60), client.request_text(request))
        .await
        .expect("it ends")
}

async fn watching(client: &Client) -> impl futures::Stream<Item = std::io::Result<String>> + Unpin + use<> {
    let request = Request::get("/a?watch=true").body(Vec::new()).expect("a request");
    let mut lines = client.request_stream(request).await.expect("an answer").lines();
    assert_eq!(
        lines.try_next().await.expect("it is open").as_deref(),
        Some("first")
    );
    lines
}

#[tokio::test]
async fn requests_and_watches_on_a_dead_connection_end_and_the_next_ones_have_another() {
    let told = Arc::new(Notify::new());
    let (client, freeze) = start(true, &told).await;
    assert_eq!(ask(&client, "/a").await.expect("an answer"), "/a of HTTP/2.0");
    let mut watch = watching(&client).await;
    let hanging = ask(&client, "/hang");
    let freezing = async {
        tokio::task::yield_now().await;
        freeze.send_replace(());
        let ended = timeout(Duration::from_secs(60), watch.try_next())
            .await
            .expect("it ends");
        assert!(ended.is_err(), "{ended:?}");
    };
    let (hung, ()) = futures::future::join(hanging, freezing).await;
    hung.expect_err("no answer");
    assert_eq!(ask(&client, "/b").await.expect("an answer"), "/b of HTTP/2.0");
}

#[tokio::test]
async fn over_http1_a_request_that_gets_no_bytes_ends_and_a_watch_stays() {
    let told = Arc::new(Notify::new());
    let (client, _freeze) = start(false, &told).await;
    assert_eq!(ask(&client, "/a").await.expect("an answer"), "/a of HTTP/1.1");
    let mut watch = watching(&client).await;
    for path in ["/hang", "/half"] {
        ask(&client, path).await.expect_err("no answer, or no end of it");
    }
    told.notify_one();
    assert_eq!(
        watch.try_next().await.expect("it is open").as_deref(),
        Some("second")
    );
}
