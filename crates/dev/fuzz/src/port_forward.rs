//! Connections to the ports of a pod.

use std::{convert::Infallible, sync::Arc};

use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use nephele_portforward::{ConnectError, Duplex, Target, accept};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::JoinSet,
};

use crate::{input::choice, simulated_time::run};

const SPDY: &str = "POST /portforward HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\
                    x-stream-protocol-version: portforward.k8s.io\r\n\r\n";
const WEBSOCKET: &str = "GET /portforward HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
                         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                         sec-websocket-protocol: SPDY/3.1+portforward.k8s.io\r\n\r\n";

/// Sends everything back on even ports, and refuses the others.
struct Echo;

impl Target for Echo {
    fn connect(&self, port: u16) -> BoxFuture<'static, Result<Box<dyn Duplex>, ConnectError>> {
        Box::pin(async move {
            if port % 2 == 1 {
                return Err(ConnectError("connection refused".to_owned()));
            }
            let (near, far) = tokio::io::duplex(64);
            tokio::spawn(async move {
                let (mut reader, mut writer) = tokio::io::split(far);
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
                let _ = writer.shutdown().await;
            });
            Ok(Box::new(near) as Box<dyn Duplex>)
        })
    }
}

/// Frames of SPDY, frames of WebSocket, frames of SPDY in those of WebSocket, or a handshake.
pub(crate) fn port_forward(data: &[u8]) {
    let Some((kind, bytes)) = choice(data, 4) else {
        return;
    };
    let handshake = [SPDY, WEBSOCKET, WEBSOCKET, ""][kind];
    let bytes = if kind == 2 {
        in_frames(bytes)
    } else {
        bytes.to_vec()
    };
    run(async {
        let (near, far) = tokio::io::duplex(1 << 16);
        let served = tokio::spawn(serve(far));
        let (mut reader, mut writer) = tokio::io::split(near);
        let sent = async {
            // The server may end before it has read everything.
            let _ = writer.write_all(handshake.as_bytes()).await;
            let _ = writer.write_all(&bytes).await;
            let _ = writer.shutdown().await;
        };
        let mut answer = Vec::new();
        let _ = futures::future::join(sent, reader.read_to_end(&mut answer)).await;
        served.await.expect("the server does not panic");
    });
}

/// Binary frames of a client, with a mask of zeros (RFC 6455, section 5.2).
fn in_frames(bytes: &[u8]) -> Vec<u8> {
    let frame = |part: &[u8]| {
        let length = 0x80 | u8::try_from(part.len()).expect("a part is short");
        [&[0x82, length, 0, 0, 0, 0], part].concat()
    };
    bytes.chunks(125).flat_map(frame).collect()
}

/// Serves one connection, and the session that it becomes.
async fn serve(io: tokio::io::DuplexStream) {
    let sessions = Arc::new(parking_lot::Mutex::new(JoinSet::new()));
    let started = Arc::clone(&sessions);
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = accept(request, Arc::new(Echo));
        if let Some(session) = answer.session {
            started.lock().spawn(session);
        }
        std::future::ready(Ok::<Response<String>, Infallible>(answer.response))
    });
    // An error says that the client broke the protocol.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(io), service)
        .with_upgrades()
        .await;
    let mut sessions = std::mem::take(&mut *sessions.lock());
    while let Some(session) = sessions.join_next().await {
        let _ = session.expect("the session does not panic");
    }
}
