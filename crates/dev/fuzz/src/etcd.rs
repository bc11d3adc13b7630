//! Calls of etcd.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use nephele_etcd::{
    CallDelay, CallObserver, Connection, Delay, EtcdCluster, Member, member_id, serve_connection,
};
use parking_lot::Mutex;

use crate::{input::choice, simulated_time::run};

/// The calls that are known, and one that is not.
const PATHS: [&str; 6] = [
    "/etcdserverpb.Cluster/MemberList",
    "/etcdserverpb.Cluster/MemberRemove",
    "/etcdserverpb.Maintenance/MoveLeader",
    "/etcdserverpb.Maintenance/Alarm",
    "/etcdserverpb.Maintenance/Status",
    "/etcdserverpb.KV/Range",
];

struct Silent;

impl CallObserver for Silent {
    fn observe(&self, _: &'static str, _: &'static str, _: Duration) {}
}

impl CallDelay for Silent {
    fn delay(&self) -> Option<Delay> {
        None
    }
}

/// A connection to the first of three members.
fn connection() -> Connection {
    let mut cluster = EtcdCluster::new(1);
    let names = ["a", "b", "c"];
    for name in names {
        cluster.add_member(Member {
            id: member_id("demo", name),
            name: name.to_owned(),
            peer_urls: vec![format!("https://{name}:2380")],
            client_urls: vec![format!("https://{name}:2379")],
        });
        cluster.set_running(member_id("demo", name), true);
    }
    Connection {
        cluster: Arc::new(Mutex::new(cluster)),
        member: member_id("demo", names[0]),
        observer: Arc::new(Silent),
        delay: Arc::new(Silent),
    }
}

/// Bytes of a connection, or a message of a call.
pub(crate) fn etcd(data: &[u8]) {
    let Some((path, bytes)) = choice(data, PATHS.len() + 1) else {
        return;
    };
    run(async {
        match PATHS.get(path) {
            Some(path) => call(path, bytes).await,
            None => raw(bytes).await,
        }
    });
}

async fn raw(bytes: &[u8]) {
    let (mut near, far) = tokio::io::duplex(1 << 16);
    let served = tokio::spawn(serve_connection(far, connection()));
    let sent = async {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        // The server may end before it has read everything.
        let _ = near
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
            .await;
        let _ = near.write_all(bytes).await;
        let _ = near.shutdown().await;
        let _ = near.read_to_end(&mut Vec::new()).await;
    };
    sent.await;
    // An error says that the client broke the protocol.
    let _ = served.await.expect("no panic");
}

async fn call(path: &str, message: &[u8]) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let served = tokio::spawn(serve_connection(far, connection()));
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(near));
    let (mut client, connection) = handshake.await.expect("a connection");
    let driven = tokio::spawn(connection);
    // A gRPC message has a byte that says whether it is compressed, and its length, in front.
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
    let body = Bytes::from([&[0], &length[..], message].concat());
    let request = Request::post(format!("http://etcd{path}")).header("content-type", "application/grpc");
    let request = request.body(Full::new(body)).expect("a request");
    if let Ok(response) = client.send_request(request).await {
        assert_eq!(response.status(), 200, "gRPC has its own codes");
        let _ = response.into_body().collect().await;
    }
    drop(client);
    let _ = driven.await.expect("no panic");
    let _ = served.await.expect("no panic");
}
