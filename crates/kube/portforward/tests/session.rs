//! Whole sessions, over both transports, with a client that behaves like moby/spdystream.

#![allow(
    clippy::unwrap_used,
    reason = "the client and the ports of the tests are no tests to clippy"
)]

mod client;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use client::{Client, Frame, Running, serve};
use futures::future::BoxFuture;
use nephele_portforward::{ConnectError, Duplex, SessionError, Target};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream},
    sync::{Notify, mpsc},
};
use tokio_tungstenite::tungstenite::Message;

/// Sends back all bytes. This and the next constants are the ports of the test targets.
const ECHO: u16 = 7;
/// Sends a greeting and ends.
const GREETING: u16 = 13;
/// Sends the number of received bytes after their end.
const COUNT: u16 = 80;
/// Refuses connections.
const CLOSED: u16 = 81;
/// Never reads.
const STUCK: u16 = 82;
/// Passes the other end of the connection to the test.
const HELD: u16 = 83;

struct Ports {
    held: mpsc::UnboundedSender<DuplexStream>,
    open: Arc<AtomicUsize>,
    closed: Arc<Notify>,
}

/// A connection to a target. Counts the open connections of the session.
struct Counted {
    io: DuplexStream,
    open: Arc<AtomicUsize>,
    closed: Arc<Notify>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
        self.closed.notify_one();
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        out: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.io).poll_read(cx, out)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        std::pin::Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl Target for Ports {
    fn connect(&self, port: u16) -> BoxFuture<'static, Result<Box<dyn Duplex>, ConnectError>> {
        if port == CLOSED {
            return Box::pin(async { Err(ConnectError("connection refused".to_owned())) });
        }
        let (io, mut far) = tokio::io::duplex(4096);
        self.open.fetch_add(1, Ordering::SeqCst);
        let counted = Counted {
            io,
            open: self.open.clone(),
            closed: self.closed.clone(),
        };
        match port {
            HELD => self.held.send(far).unwrap(),
            _ => {
                tokio::spawn(async move {
                    match port {
                        ECHO => {
                            let (mut from, mut to) = tokio::io::split(far);
                            let _ = tokio::io::copy(&mut from, &mut to).await;
                            let _ = to.shutdown().await;
                        }
                        GREETING => far.write_all(b"hello").await.unwrap(),
                        COUNT => {
                            let mut all = Vec::new();
                            far.read_to_end(&mut all).await.unwrap();
                            far.write_all(all.len().to_string().as_bytes()).await.unwrap();
                        }
                        STUCK => std::future::pending().await,
                        _ => panic!("port {port} is not part of the tests"),
                    }
                });
            }
        }
        Box::pin(async { Ok(Box::new(counted) as Box<dyn Duplex>) })
    }
}

/// The server's side of a test.
struct Server {
    session: Running,
    held: mpsc::UnboundedReceiver<DuplexStream>,
    open: Arc<AtomicUsize>,
    closed: Arc<Notify>,
}

async fn spdy() -> (Client<DuplexStream>, Server) {
    connect(Client::spdy).await
}

async fn tunnel() -> (Client<client::Messages>, Server) {
    connect(Client::tunnel).await
}

async fn connect<C>(shake_hands: impl AsyncFnOnce(DuplexStream) -> C) -> (C, Server) {
    let (sender, held) = mpsc::unbounded_channel();
    let (open, closed) = <(Arc<AtomicUsize>, Arc<Notify>)>::default();
    let ports = Ports {
        held: sender,
        open: open.clone(),
        closed: closed.clone(),
    };
    let (io, running) = serve(Arc::new(ports));
    let client = shake_hands(io).await;
    (
        client,
        Server {
            session: running.await.unwrap(),
            held,
            open,
            closed,
        },
    )
}

impl Server {
    /// Waits until the session has no connection to a target.
    async fn all_closed(&self) {
        while self.open.load(Ordering::SeqCst) > 0 {
            self.closed.notified().await;
        }
    }
}

fn noise(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 % 251) as u8).collect()
}

/// The traffic of Cluster API's control plane provider: one connection, some bytes each way, then both sides close.
async fn echoes<IO: AsyncRead + AsyncWrite + Unpin>(client: &mut Client<IO>) {
    client.forward(1, ECHO, "0").await;
    for length in [1, 517, 4096, 20_000] {
        let sent = noise(length);
        client.data(3, false, &sent).await;
        let mut seen = Vec::new();
        while seen.len() < length {
            match client.of(3).await {
                Frame::Data {
                    fin: false, bytes, ..
                } => seen.extend(bytes),
                other => panic!("{other:?} instead of the echo"),
            }
        }
        assert!(seen == sent, "the echo of {length} bytes");
    }
    client.data(3, true, b"bye").await;
    let ends = client.whole(&[1, 3]).await;
    assert_eq!(
        (ends[&1].as_slice(), ends[&3].as_slice()),
        (&b""[..], &b"bye"[..])
    );
}

#[tokio::test]
async fn bytes_are_forwarded_by_spdy() {
    let (mut client, server) = spdy().await;
    echoes(&mut client).await;
    client.go_away().await;
    assert_eq!(client.read().await, Some(Frame::GoAway { last: 3, status: 0 }));
    assert_eq!(client.read().await, None);
    assert!(matches!(server.session.await, Ok(Ok(()))));
    assert_eq!(server.open.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn bytes_are_forwarded_by_websocket_tunnel() {
    let (mut client, server) = tunnel().await;
    echoes(&mut client).await;
    client.go_away().await;
    assert_eq!(client.read().await, Some(Frame::GoAway { last: 3, status: 0 }));
    assert_eq!(client.read().await, None);
    assert!(matches!(server.session.await, Ok(Ok(()))));
}

#[tokio::test]
async fn websocket_close_and_ping_are_answered() {
    use futures::{SinkExt as _, StreamExt as _};
    let (mut client, server) = tunnel().await;
    client
        .io
        .socket
        .send(Message::Ping("are you there".into()))
        .await
        .unwrap();
    let pong = client.io.socket.next().await.unwrap().unwrap();
    assert_eq!(pong, Message::Pong("are you there".into()));
    client.io.socket.close(None).await.unwrap();
    let Some(Ok(Message::Close(Some(close)))) = client.io.socket.next().await else {
        panic!("a close is answered with a close")
    };
    assert_eq!(u16::from(close.code), 1000);
    assert!(client.io.socket.next().await.is_none());
    assert!(matches!(server.session.await, Ok(Ok(()))));
}

#[tokio::test]
async fn websocket_message_of_any_length_passes() {
    use futures::SinkExt as _;
    let (mut client, _server) = tunnel().await;
    client.forward(1, COUNT, "0").await;
    // A data frame of a mebibyte in one message, like a single large write of client-go.
    let frame = [&b"\x00\x00\x00\x03\x01\x10\x00\x00"[..], &noise(1 << 20)].concat();
    client
        .io
        .socket
        .send(Message::Binary(frame.into()))
        .await
        .unwrap();
    assert_eq!(client.whole(&[3]).await[&3], b"1048576");
}

#[tokio::test]
async fn text_message_ends_a_tunnel_with_a_protocol_error() {
    use futures::{SinkExt as _, StreamExt as _};
    let (mut client, server) = tunnel().await;
    client.io.socket.send(Message::text("hello")).await.unwrap();
    let last = client
        .io
        .socket
        .by_ref()
        .filter_map(async |message| match message {
            Ok(Message::Close(Some(close))) => Some(u16::from(close.code)),
            _ => None,
        });
    assert_eq!(std::pin::pin!(last).next().await, Some(1002));
    assert!(matches!(server.session.await, Ok(Err(SessionError::Read(_)))));
}

#[tokio::test]
async fn tunnel_that_breaks_off_between_messages_is_at_its_end() {
    let (mut client, server) = tunnel().await;
    client.ping(1).await;
    assert_eq!(client.read().await, Some(Frame::Ping(1)));
    drop(client);
    assert!(matches!(server.session.await, Ok(Ok(()))));
}

#[tokio::test]
async fn one_session_carries_connections_to_several_ports() {
    let (mut client, _server) = spdy().await;
    client.forward(1, ECHO, "0").await;
    client.forward(5, GREETING, "1").await;
    client.forward(9, COUNT, "2").await;
    client.data(3, true, b"echoed").await;
    client.data(11, false, b"12345").await;
    client.data(11, true, b"678").await;
    let ends = client.whole(&[1, 3, 5, 7, 9, 11]).await;
    let text = |id: u32| String::from_utf8_lossy(&ends[&id]).into_owned();
    assert_eq!([text(1), text(3)], ["", "echoed"]);
    assert_eq!([text(5), text(7)], ["", "hello"]);
    assert_eq!([text(9), text(11)], ["", "8"]);
    // The ids continue after those of ended streams.
    client.forward(13, GREETING, "3").await;
    assert_eq!(client.whole(&[15]).await[&15], b"hello");
}

#[tokio::test]
async fn failure_to_connect_is_text_on_the_error_stream() {
    let (mut client, _server) = spdy().await;
    client.forward(1, CLOSED, "0").await;
    let text = client.whole(&[1]).await.remove(&1).unwrap();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "error forwarding port 81: connection refused"
    );
    assert_eq!(client.of(3).await, Frame::Reset { id: 3, status: 5 });
    client.forward(5, GREETING, "1").await;
    assert_eq!(client.whole(&[7]).await[&7], b"hello");
}

#[tokio::test]
async fn pings_are_echoed_while_data_flows() {
    let (mut client, _server) = spdy().await;
    client.forward(1, ECHO, "0").await;
    client.ping(1).await;
    assert_eq!(client.read().await, Some(Frame::Ping(1)));
    client.ping(3).await;
    assert_eq!(client.read().await, Some(Frame::Ping(3)));
}

#[tokio::test]
async fn reset_of_the_data_stream_drops_the_target() {
    let (mut client, mut server) = spdy().await;
    client.forward(1, HELD, "0").await;
    let mut target = server.held.recv().await.unwrap();
    client.reset(3).await;
    assert_eq!(client.whole(&[1]).await[&1], b"");
    assert_eq!(target.read(&mut [0; 8]).await.unwrap(), 0);
    server.all_closed().await;
}

#[tokio::test]
async fn target_sees_the_end_of_input_and_may_still_answer() {
    let (mut client, mut server) = spdy().await;
    client.forward(1, HELD, "0").await;
    let mut target = server.held.recv().await.unwrap();
    client.data(3, true, b"question").await;
    let mut question = Vec::new();
    target.read_to_end(&mut question).await.unwrap();
    assert_eq!(question, b"question");
    target.write_all(b"answer").await.unwrap();
    drop(target);
    assert_eq!(client.whole(&[1, 3]).await[&3], b"answer");
}

#[tokio::test]
async fn client_that_vanishes_takes_its_targets_along() {
    let (mut client, mut server) = spdy().await;
    client.forward(1, HELD, "0").await;
    let mut target = server.held.recv().await.unwrap();
    drop(client);
    assert!(matches!(server.session.await, Ok(Ok(()))));
    assert_eq!(target.read(&mut [0; 8]).await.unwrap(), 0);
}

#[tokio::test]
async fn dropped_session_takes_its_targets_along() {
    let (mut client, server) = spdy().await;
    client.forward(1, STUCK, "0").await;
    assert_eq!(server.open.load(Ordering::SeqCst), 1);
    server.session.abort();
    server.all_closed().await;
    assert_eq!(client.read().await, None);
}

#[tokio::test(start_paused = true)]
async fn target_that_does_not_read_holds_the_client_back() {
    let (mut client, server) = spdy().await;
    client.forward(1, STUCK, "0").await;
    let mut sent = 0;
    let flood = async {
        let piece = noise(4096);
        loop {
            client.data(3, false, &piece).await;
            sent += piece.len();
        }
    };
    // Paused time advances only when all tasks wait.
    assert!(tokio::time::timeout(Duration::from_secs(1), flood).await.is_err());
    // The pipes of the test buffer 20 KiB, the session 8 KiB and five pieces of 8 KiB.
    assert!(sent <= 80 * 1024, "{sent} bytes were taken");
    // The connection of a client that stays stuck is dropped.
    assert!(matches!(server.session.await, Ok(Err(SessionError::Idle))));
}

#[tokio::test(start_paused = true)]
async fn silent_client_is_let_go_and_one_that_pings_is_kept() {
    let (mut client, server) = spdy().await;
    client.forward(1, HELD, "0").await;
    for ping in 0..100 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        client.ping(2 * ping + 1).await;
        assert_eq!(client.read().await, Some(Frame::Ping(2 * ping + 1)));
    }
    assert!(!server.session.is_finished(), "the session continues");
    assert_eq!(client.read().await, Some(Frame::GoAway { last: 3, status: 0 }));
    assert!(matches!(server.session.await, Ok(Err(SessionError::Idle))));
}

#[tokio::test(start_paused = true)]
async fn stream_without_its_other_is_told_after_half_a_minute() {
    let (mut client, _server) = spdy().await;
    client
        .open(1, &[("streamtype", "error"), ("port", "80"), ("requestid", "4")])
        .await;
    assert_eq!(client.of(1).await, Frame::Reply { id: 1, headers: 0 });
    let before = tokio::time::Instant::now();
    let text = client.whole(&[1]).await.remove(&1).unwrap();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "request 4: timed out waiting for streams"
    );
    assert_eq!(before.elapsed().as_secs(), 30);
}

#[tokio::test]
async fn broken_frame_ends_the_session_with_a_farewell() {
    let (mut client, server) = spdy().await;
    client
        .send(b"\x80\x02\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01")
        .await;
    assert_eq!(client.read().await, Some(Frame::GoAway { last: 0, status: 1 }));
    assert_eq!(client.read().await, None);
    let error = server.session.await.unwrap().unwrap_err();
    assert_eq!(error.category(), "protocol");
}

#[tokio::test]
async fn client_that_goes_away_gets_what_is_still_to_come() {
    let (mut client, mut server) = spdy().await;
    client.forward(1, HELD, "0").await;
    let mut target = server.held.recv().await.unwrap();
    client.go_away().await;
    client.data(3, false, b"x").await;
    assert_eq!(target.read_u8().await.unwrap(), b'x');
    let sent = noise(50_000);
    let (all, written) = tokio::join!(client.whole(&[1, 3]), async {
        target.write_all(&sent).await.unwrap();
        drop(target);
    });
    let () = written;
    assert!(all[&3] == sent);
    assert_eq!(client.read().await, Some(Frame::GoAway { last: 3, status: 0 }));
    assert!(matches!(server.session.await, Ok(Ok(()))));
}
