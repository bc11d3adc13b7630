//! The client's side of a port-forward by SPDY/3.1, as client-go plays it (`tools/portforward`).

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use flate2::{Compress, Compression, FlushCompress};
use http::{Request, StatusCode};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, duplex},
    sync::oneshot,
};

use super::Http;

/// A forwarded connection: its bytes, and what its error stream says at the end.
pub(crate) struct Forwarded {
    pub stream: DuplexStream,
    pub error: oneshot::Receiver<String>,
}

/// Forwards one connection to a port of a pod of kube-system.
pub(crate) async fn forward(http: Http, pod: &str, port: u16) -> Forwarded {
    try_forward(http, pod, port).await.expect("the server answers")
}

/// As [`forward`]. None if the server has no place for the connection, and ends it when the request comes.
pub(crate) async fn try_forward(mut http: Http, pod: &str, port: u16) -> Option<Forwarded> {
    let request = Request::post(format!("/api/v1/namespaces/kube-system/pods/{pod}/portforward"))
        .header("host", "127.0.0.1")
        .header("connection", "Upgrade")
        .header("upgrade", "SPDY/3.1")
        .header("x-stream-protocol-version", "portforward.k8s.io")
        .body(Full::default())
        .unwrap();
    let response = http.send(request).await.ok()?;
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    let io = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    let (near, far) = duplex(64 * 1024);
    let (sender, error) = oneshot::channel();
    tokio::spawn(async move {
        let said = pump(io, far, port).await;
        let _ = sender.send(said);
        drop(http);
    });
    Some(Forwarded { stream: near, error })
}

/// Opens the two streams and copies until either side is done. Header blocks are compressed without the dictionary,
/// which zlib lets a sender choose; the server's are empty and ignored.
async fn pump(io: impl AsyncRead + AsyncWrite, far: DuplexStream, port: u16) -> String {
    let (mut from_server, mut to_server) = tokio::io::split(io);
    let (mut from_user, mut to_user) = tokio::io::split(far);
    let mut compress = Compress::new(Compression::fast(), true);
    let mut opening = BytesMut::new();
    for (id, kind) in [(1, "error"), (3, "data")] {
        open(
            &mut opening,
            &mut compress,
            id,
            &[
                ("streamtype", kind),
                ("port", &port.to_string()),
                ("requestid", "0"),
            ],
        );
    }
    // The error stream carries nothing this way.
    data(&mut opening, 1, true, &[]);
    to_server.write_all(&opening).await.unwrap();
    let upload = async {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let read = from_user.read(&mut buffer).await.unwrap_or(0);
            let mut out = BytesMut::new();
            data(&mut out, 3, read == 0, &buffer[..read]);
            if to_server.write_all(&out).await.is_err() || read == 0 {
                return std::future::pending::<()>().await;
            }
        }
    };
    let download = async {
        let mut said = String::new();
        let mut buffer = BytesMut::new();
        while from_server.read_buf(&mut buffer).await.unwrap_or(0) > 0 {
            while let Some((word, flags, body)) = take_frame(&mut buffer) {
                match word {
                    1 => said.push_str(&String::from_utf8_lossy(&body)),
                    // RST_STREAM: a connection that failed ends so, after what its error stream said.
                    0x8003_0003 => return said,
                    3 if to_user.write_all(&body).await.is_err() => return said,
                    3 if flags & 1 == 1 => {
                        let _ = to_user.shutdown().await;
                        return said;
                    }
                    _ => {}
                }
            }
        }
        said
    };
    tokio::select! {
        () = upload => unreachable!("it waits for the other side"),
        said = download => said,
    }
}

fn open(out: &mut BytesMut, compress: &mut Compress, id: u32, headers: &[(&str, &str)]) {
    let mut plain = Vec::new();
    plain.put_u32(headers.len() as u32);
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        plain.put_u32(text.len() as u32);
        plain.put_slice(text.as_bytes());
    }
    let mut block = Vec::with_capacity(1024);
    compress
        .compress_vec(&plain, &mut block, FlushCompress::Sync)
        .unwrap();
    out.put_u32(0x8003_0001);
    out.put_u32(10 + block.len() as u32);
    out.put_u32(id);
    out.put_slice(&[0; 6]);
    out.put_slice(&block);
}

fn data(out: &mut BytesMut, id: u32, fin: bool, bytes: &[u8]) {
    out.put_u32(id);
    out.put_u32(u32::from(fin) << 24 | bytes.len() as u32);
    out.put_slice(bytes);
}

fn take_frame(buffer: &mut BytesMut) -> Option<(u32, u8, Bytes)> {
    if buffer.len() < 8 {
        return None;
    }
    let word = (&buffer[..4]).get_u32();
    let length = (&buffer[4..8]).get_u32();
    let flags = (length >> 24) as u8;
    let length = (length & 0xff_ffff) as usize;
    if buffer.len() < 8 + length {
        return None;
    }
    buffer.advance(8);
    Some((word, flags, buffer.split_to(length).freeze()))
}
