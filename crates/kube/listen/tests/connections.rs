//! The limits on clients of a server, on paused time where no socket is needed.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{
    Request, Response, StatusCode,
    header::{CONTENT_LENGTH, RETRY_AFTER},
};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{client::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use nephele_listen::{
    BodyError, Http, Limits, Peer, Protocol, REFUSALS_MAX, RequestBody, Session, serve, session_of,
};
use rustls::pki_types::PrivateKeyDer;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
    net::TcpStream,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// `/watch` never ends, `/unread` does not read the body; any other path reads the body of the request and returns
/// it.
async fn answer(request: Request<RequestBody>) -> Result<Answer, Infallible> {
    if request.uri().path() == "/watch" {
        let begun = stream::once(async { Ok(Frame::data(Bytes::from_static(b"begun"))) });
        return Ok(Response::new(BodyExt::boxed(StreamBody::new(
            begun.chain(stream::pending()),
        ))));
    }
    if request.uri().path() == "/unread" {
        return Ok(Response::new(Full::new(Bytes::from_static(b"not read")).boxed()));
    }
    let text = match request.into_body().collect().await {
        Ok(body) => format!("{} bytes", body.to_bytes().len()),
        Err(error @ BodyError::TimedOut(_)) => error.to_string(),
        Err(error @ BodyError::Connection(_)) => panic!("{error}"),
    };
    Ok(Response::new(Full::new(Bytes::from(text)).boxed()))
}

fn connect(protocol: Protocol, limits: Limits) -> (DuplexStream, JoinHandle<()>) {
    let (client, server) = duplex(4096);
    let http = Http::new(limits, TaskTracker::new());
    let serving = tokio::spawn(async move {
        let stop = std::future::pending();
        http.serve(server, protocol, service_fn(answer), None, stop)
            .await
            .expect("an orderly connection");
    });
    (client, serving)
}

#[tokio::test]
async fn the_task_of_a_connection_takes_little_memory_beside_the_connection() {
    let http = Http::new(Limits::default(), TaskTracker::new());
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let (_client, server) = duplex(4096);
        let serving = http.serve(server, protocol, service_fn(answer), None, std::future::pending());
        let bytes = size_of_val(&serving);
        assert!(bytes <= 512, "{bytes} bytes, {protocol:?}");
    }
}

async fn read_until(client: &mut DuplexStream, end: &str) -> String {
    let mut text = Vec::new();
    while !text.ends_with(end.as_bytes()) {
        assert_ne!(client.read_buf(&mut text).await.expect("it is open"), 0, "closed");
    }
    String::from_utf8(text).expect("text")
}

#[tokio::test(start_paused = true)]
async fn a_connection_outlasts_the_idle_time_of_clients_in_go() {
    let (mut client, serving) = connect(Protocol::Http1, Limits::default());
    for _ in 0..2 {
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .expect("it is open");
        read_until(&mut client, "0 bytes").await;
        sleep(Duration::from_secs(91)).await;
    }
    drop(client);
    serving.await.expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_sends_nothing_or_half_a_head_ends_when_it_has_been_idle_for_too_long() {
    for sent in ["", "GET / HTTP/1.1\r\nHo"] {
        let (mut client, serving) = connect(Protocol::Http1, Limits::default());
        let started = Instant::now();
        client.write_all(sent.as_bytes()).await.expect("it is open");
        assert_eq!(
            client.read(&mut [0; 64]).await.expect("an orderly end"),
            0,
            "{sent:?}"
        );
        assert!(started.elapsed() < Limits::DEFAULT.idle + Limits::DEFAULT.drain + Duration::from_secs(1));
        serving.await.expect("no panic");
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_of_http2_ends_and_one_with_a_watch_stays() {
    for (path, ends) in [("/", true), ("/watch", false)] {
        let (client, _serving) = connect(Protocol::Http2, Limits::default());
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(client))
            .await
            .expect("HTTP/2");
        let connection = tokio::spawn(connection);
        let request = Request::get(format!("http://a{path}")).body(Full::<Bytes>::default());
        let response = sender
            .send_request(request.expect("a request"))
            .await
            .expect("an answer");
        let mut body = response.into_body();
        body.frame().await.expect("a frame").expect("it is whole");
        sleep(Limits::DEFAULT.idle * 3).await;
        assert_eq!(connection.is_finished(), ends, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn head_is_answered_without_a_body_and_with_its_length() {
    let (client, _serving) = connect(Protocol::Http2, Limits::default());
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(client))
        .await
        .expect("HTTP/2");
    tokio::spawn(connection);
    for (path, length) in [("/", Some("7")), ("/watch", None)] {
        let request = Request::head(format!("http://a{path}")).body(Full::<Bytes>::default());
        let response = sender
            .send_request(request.expect("a request"))
            .await
            .expect("an answer");
        let header = response
            .headers()
            .get(CONTENT_LENGTH)
            .map(|value| value.to_str().expect("text").to_owned());
        let body = response
            .into_body()
            .collect()
            .await
            .expect("an orderly end")
            .to_bytes();
        assert_eq!((header.as_deref(), body.as_ref()), (length, &b""[..]), "{path}");
    }
}

/// Sends a request whose body is not read, and another request after it. Returns whether the first response says that
/// the connection closes, and whether there is a second response.
async fn ask_twice(head: &str, body: Vec<u8>) -> (bool, bool) {
    let (client, _serving) = connect(Protocol::Http1, Limits::default());
    let (mut reader, mut writer) = tokio::io::split(client);
    let head = format!("POST /unread HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n");
    let writing = tokio::spawn(async move {
        writer.write_all(head.as_bytes()).await?;
        writer.write_all(&body).await?;
        writer.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await
    });
    let mut text = Vec::new();
    // A connection that is kept ends when it has been idle for too long.
    let _ = reader.read_to_end(&mut text).await;
    // The client may notice while writing that the connection is closed.
    let _ = writing.await.expect("no panic");
    let text = String::from_utf8(text).expect("text");
    let (first, rest) = text.split_once("not read").expect("the answer to the first");
    (first.contains("connection: close\r\n"), rest.contains("0 bytes"))
}

#[tokio::test(start_paused = true)]
async fn the_response_announces_the_close_when_an_unread_body_ends_the_connection() {
    let chunked = [&b"7\r\nunknown\r\n"[..], b"0\r\n\r\n"].concat();
    let cases = [
        ("Content-Length: 200000", vec![b'x'; 200_000], false),
        ("Content-Length: 1000000", vec![b'x'; 1_000_000], true),
        // The length of the rest is unknown.
        ("Transfer-Encoding: chunked", chunked, true),
        // The client does not send the body, because the response came before `100 Continue`.
        ("Content-Length: 10\r\nExpect: 100-continue", Vec::new(), true),
    ];
    for (head, body, closes) in cases {
        assert_eq!(ask_twice(head, body).await, (closes, !closes), "{head}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_on_a_connection_that_closes_is_read_for_a_moment_so_that_its_answer_arrives() {
    let (mut client, serving) = connect(Protocol::Http1, Limits::default());
    let head = b"POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
    client.write_all(head).await.expect("it is open");
    read_until(&mut client, "not read").await;
    let started = Instant::now();
    // The client neither sends the rest nor closes the connection.
    client.write_all(&[b'x'; 500_000]).await.expect("it is read");
    assert_eq!(client.read(&mut [0; 64]).await.expect("an orderly end"), 0);
    assert_eq!(started.elapsed().as_secs(), 1);
    serving.await.expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_in_time_ends_with_an_error() {
    let (mut client, _serving) = connect(Protocol::Http1, Limits::default());
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n";
    client.write_all(head).await.expect("it is open");
    let (mut reader, mut writer) = tokio::io::split(client);
    // Single bytes do not extend the deadline.
    let trickle = tokio::spawn(async move {
        while writer.write_all(b"x").await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
    });
    let started = Instant::now();
    let mut text = Vec::new();
    while !text.ends_with(b"within 60s") {
        assert_ne!(reader.read_buf(&mut text).await.expect("it is open"), 0, "closed");
    }
    assert_eq!(started.elapsed().as_secs(), 60);
    trickle.abort();
}

#[tokio::test]
async fn each_request_of_a_session_has_its_user() {
    for (user, is_authenticated) in [(Some("admin"), true), (None, false)] {
        let answer = async |request: Request<RequestBody>| {
            let user = request.extensions().get::<&str>().copied().unwrap_or("unknown");
            Response::new(Full::new(Bytes::from_static(user.as_bytes())))
        };
        let session = session_of(user, answer);
        assert_eq!(session.is_authenticated, is_authenticated);
        let (client, server) = duplex(4096);
        let http = Http::new(Limits::default(), TaskTracker::new());
        let serving = async move {
            let stop = std::future::pending();
            http.serve(server, Protocol::Http1, session.service, None, stop)
                .await
        };
        tokio::spawn(serving);
        let mut client = client;
        for _ in 0..2 {
            client
                .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                .await
                .expect("it is open");
            within(read_until(&mut client, user.unwrap_or("unknown"))).await;
        }
    }
}

/// A server on a socket that authenticates clients by their ports.
struct Served {
    address: SocketAddr,
    known: Arc<parking_lot::Mutex<Vec<SocketAddr>>>,
    shutdown: CancellationToken,
    server: JoinHandle<std::io::Result<()>>,
}

fn start(limits: Limits) -> Served {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let known = Arc::<parking_lot::Mutex<Vec<SocketAddr>>>::default();
    let shutdown = CancellationToken::new();
    let knows = Arc::clone(&known);
    let session = move |peer: Peer<'_>| Session {
        service: service_fn(answer),
        is_authenticated: knows.lock().contains(&peer.address),
    };
    let server = tokio::spawn(serve(listener, || None, limits, session, shutdown.clone()));
    Served {
        address,
        known,
        shutdown,
        server,
    }
}

/// Sends a request and reads the status of the response; none if the connection is closed.
async fn ask(stream: &mut TcpStream) -> Option<StatusCode> {
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .ok()?;
    let mut text = Vec::new();
    while !text.ends_with(b"0 bytes") && !text.ends_with(b"later.\n") {
        let read = stream.read_buf(&mut text).await.ok()?;
        if read == 0 {
            return None;
        }
    }
    StatusCode::from_bytes(&text[9..12]).ok()
}

async fn within<F: Future>(future: F) -> F::Output {
    timeout(Duration::from_secs(20), future).await.expect("in time")
}

#[tokio::test]
async fn idle_connections_make_room_for_new_ones_and_authenticated_ones_stay() {
    let limits = Limits {
        connections_max: 8,
        unauthenticated_max: 4,
        ..Limits::default()
    };
    let served = start(limits);
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket
        .bind("127.0.0.1:0".parse().expect("an address"))
        .expect("a free port");
    served.known.lock().push(socket.local_addr().expect("bound"));
    let mut known = within(socket.connect(served.address)).await.expect("accepted");
    assert_eq!(within(ask(&mut known)).await, Some(StatusCode::OK));
    let mut silent = Vec::new();
    for _ in 0..32 {
        silent.push(
            within(TcpStream::connect(served.address))
                .await
                .expect("accepted"),
        );
    }
    let mut newcomer = within(TcpStream::connect(served.address))
        .await
        .expect("accepted");
    assert_eq!(within(ask(&mut newcomer)).await, Some(StatusCode::OK));
    assert_eq!(within(ask(&mut known)).await, Some(StatusCode::OK));
    // The server has closed the oldest silent connection.
    assert_eq!(within(silent[0].read(&mut [0; 8])).await.unwrap_or(0), 0);
    served.shutdown.cancel();
    drop((known, newcomer, silent));
    within(served.server)
        .await
        .expect("no panic")
        .expect("an orderly end");
}

#[tokio::test]
async fn connections_are_refused_only_when_every_place_is_an_authenticated_ones() {
    let limits = Limits {
        connections_max: 1,
        unauthenticated_max: 1,
        ..Limits::default()
    };
    let served = start(limits);
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket
        .bind("127.0.0.1:0".parse().expect("an address"))
        .expect("a free port");
    served.known.lock().push(socket.local_addr().expect("bound"));
    let mut known = within(socket.connect(served.address)).await.expect("accepted");
    assert_eq!(within(ask(&mut known)).await, Some(StatusCode::OK));
    // More than are answered at a time, and none asks. The latest ones still hear it, without waiting for others.
    let mut newcomers = Vec::new();
    for _ in 0..3 * REFUSALS_MAX {
        newcomers.push(
            within(TcpStream::connect(served.address))
                .await
                .expect("accepted"),
        );
    }
    for newcomer in newcomers.iter_mut().rev().take(REFUSALS_MAX) {
        let mut answer = String::new();
        let asked = async {
            newcomer
                .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody")
                .await?;
            newcomer.read_to_string(&mut answer).await
        };
        within(asked).await.expect("an answer");
        assert!(
            answer.starts_with("HTTP/1.1 429 ") && answer.contains("\r\nretry-after: 1\r\n"),
            "{answer}"
        );
    }
    assert_eq!(within(ask(&mut known)).await, Some(StatusCode::OK));
    drop(known);
    let again = async {
        loop {
            let mut newcomer = TcpStream::connect(served.address).await.expect("accepted");
            if ask(&mut newcomer).await == Some(StatusCode::OK) {
                return;
            }
        }
    };
    within(again).await;
    served.shutdown.cancel();
}

#[tokio::test]
async fn a_connection_of_tls_without_a_place_hears_it_in_http2_too() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let certificate = made.cert.der().clone();
    let key = made.signing_key.serialize_der();
    let mut config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], PrivateKeyDer::Pkcs8(key.into()))
        .expect("they fit");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let limits = Limits {
        connections_max: 0,
        unauthenticated_max: 0,
        ..Limits::default()
    };
    let session = |_: Peer<'_>| Session::unauthenticated(service_fn(answer));
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(serve(
        listener,
        move || Some(acceptor.clone()),
        limits,
        session,
        shutdown.clone(),
    ));

    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).expect("a certificate");
    let mut config = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(address).await.expect("accepted");
    let name = "localhost".try_into().expect("a name");
    let stream = within(TlsConnector::from(Arc::new(config)).connect(name, stream))
        .await
        .expect("TLS");
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .expect("HTTP/2");
    let connection = tokio::spawn(connection);
    let requests = [(); 3].map(|()| Request::get("http://a/watch").body(Full::<Bytes>::default()));
    let answers = requests.map(|request| sender.send_request(request.expect("a request")));
    for answer in futures::future::join_all(answers).await {
        let answer = answer.expect("an answer");
        let retry = answer
            .headers()
            .get(RETRY_AFTER)
            .map(|value| value.as_bytes().to_vec());
        assert_eq!(
            (answer.status(), retry.as_deref()),
            (StatusCode::TOO_MANY_REQUESTS, Some(&b"1"[..]))
        );
    }
    within(connection)
        .await
        .expect("no panic")
        .expect("an orderly end");
    shutdown.cancel();
    within(server).await.expect("no panic").expect("an orderly end");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_client_that_reads_nothing_loses_its_connection() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let (ended, wait) = tokio::sync::oneshot::channel::<()>();
    let ended = Arc::new(parking_lot::Mutex::new(Some(ended)));
    // A body without an end, which is dropped with the connection.
    let service = service_fn(move |_: Request<RequestBody>| {
        let ended = ended.lock().take();
        let chunks = stream::repeat_with(move || {
            let _until_dropped = &ended;
            Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; 64 * 1024])))
        });
        async move { Ok::<_, Infallible>(Response::new(StreamBody::new(chunks))) }
    });
    let session = move |_: Peer<'_>| Session::unauthenticated(service.clone());
    let limits = Limits {
        stall: Duration::from_secs(1),
        ..Limits::default()
    };
    let shutdown = CancellationToken::new();
    tokio::spawn(serve(listener, || None, limits, session, shutdown.clone()));
    let mut client = TcpStream::connect(address).await.expect("accepted");
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .expect("it is open");
    within(wait)
        .await
        .expect_err("the body is dropped with its connection");
    drop(client);
    shutdown.cancel();
}

#[tokio::test]
async fn a_server_that_stops_gives_requests_in_flight_time_and_no_more() {
    let limits = Limits {
        drain: Duration::from_millis(50),
        ..Limits::default()
    };
    let served = start(limits);
    let mut client = TcpStream::connect(served.address).await.expect("accepted");
    client
        .write_all(b"GET /watch HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .expect("it is open");
    let mut text = Vec::new();
    while !text.windows(5).any(|window| window == b"begun") {
        assert_ne!(
            within(client.read_buf(&mut text)).await.expect("it is open"),
            0,
            "closed"
        );
    }
    served.shutdown.cancel();
    within(served.server)
        .await
        .expect("no panic")
        .expect("an orderly end");
    assert!(
        TcpStream::connect(served.address).await.is_err(),
        "it still listens"
    );
}

/// A connection whose client gives its response so much room. What it keeps keeps the connection open.
async fn unread(window: u32, http: Http) -> (JoinHandle<()>, impl Sized) {
    let (client, server) = duplex(4096);
    let serving = tokio::spawn(async move {
        let big = async |_: Request<RequestBody>| {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(vec![0; 100_000]))))
        };
        let stop = std::future::pending();
        let _ = http
            .serve(server, Protocol::Http2, service_fn(big), None, stop)
            .await;
    });
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window);
    let (mut sender, connection) = builder.handshake(TokioIo::new(client)).await.expect("HTTP/2");
    let connection = tokio::spawn(connection);
    let request = Request::get("http://a/")
        .body(Full::<Bytes>::default())
        .expect("a request");
    let response = sender
        .send_request(request)
        .await
        .expect("the head of a response");
    (serving, (sender, connection, response))
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_not_read_ends_its_connection_whatever_the_window() {
    let limits = Limits::default();
    for window in [0, 1] {
        let started = Instant::now();
        let http = Http::new(limits, TaskTracker::new());
        let (serving, _kept) = unread(window, http.clone()).await;
        serving.await.expect("no panic");
        assert!(
            started.elapsed() <= limits.idle + 2 * limits.stall + limits.drain,
            "{:?}",
            started.elapsed()
        );
        assert_eq!(http.responses.granted(), 0, "window {window}");
    }
}

#[tokio::test(start_paused = true)]
async fn responses_that_are_not_read_take_no_more_memory_than_there_is() {
    let limits = Limits {
        responses_bytes_max: 250_000,
        drain: Duration::ZERO,
        ..Limits::default()
    };
    let http = Http::new(limits, TaskTracker::new());
    let started = Instant::now();
    let mut first = Vec::new();
    for _ in 0..3 {
        first.push(unread(1, http.clone()).await);
    }
    // There is room for two responses of 100,000 bytes, so the connection that made no progress for longest ended.
    first.swap_remove(0).0.await.expect("no panic");
    assert_eq!(
        (started.elapsed(), http.responses.granted()),
        (Duration::ZERO, 200_000)
    );
}
