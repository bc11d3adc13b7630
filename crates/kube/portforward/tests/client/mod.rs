//! The client side as in client-go and moby/spdystream, written from the specification: it uses no code of the crate
//! except the dictionary. The server is hyper over an in-process pipe.

use std::{
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use futures::{SinkExt as _, StreamExt as _};
use hyper_util::rt::TokioIo;
use nephele_portforward::{SessionError, Target, accept};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf},
    sync::oneshot,
    task::JoinHandle,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Error, Message, client::IntoClientRequest as _},
};

#[path = "../../src/dictionary.rs"]
#[allow(dead_code, unreachable_pub)]
mod dictionary;

/// The task of a session.
pub(crate) type Running = JoinHandle<Result<(), SessionError>>;

/// Serves one connection with `target`. Returns the client's end of the pipe and, after the handshake, the session.
pub(crate) fn serve(target: Arc<dyn Target>) -> (DuplexStream, oneshot::Receiver<Running>) {
    let (near, far) = tokio::io::duplex(16 * 1024);
    let (sender, running) = oneshot::channel();
    let sender = Arc::new(std::sync::Mutex::new(Some(sender)));
    let service = hyper::service::service_fn(move |request| {
        let answer = accept(request, target.clone());
        if let Some(session) = answer.session {
            let sender = sender.lock().unwrap().take().unwrap();
            sender.send(tokio::spawn(session)).unwrap();
        }
        std::future::ready(Ok::<_, Infallible>(answer.response))
    });
    let http = hyper::server::conn::http1::Builder::new();
    tokio::spawn(http.serve_connection(TokioIo::new(far), service).with_upgrades());
    (near, running)
}

/// A frame from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Reply { id: u32, headers: u32 },
    Reset { id: u32, status: u32 },
    Ping(u32),
    GoAway { last: u32, status: u32 },
    Data { id: u32, fin: bool, bytes: Vec<u8> },
}

/// The client side of a SPDY connection.
pub(crate) struct Client<IO> {
    pub(crate) io: IO,
    compress: Compress,
    decompress: Decompress,
    received: BytesMut,
    /// Received frames of streams that the test has not read yet.
    frames: VecDeque<Frame>,
}

impl Client<DuplexStream> {
    /// Performs the handshake of client-go's `transport/spdy`.
    pub(crate) async fn spdy(mut io: DuplexStream) -> Self {
        let request = "POST /portforward HTTP/1.1\r\nHost: nephele\r\nContent-Length: 0\r\nConnection: Upgrade\r\n\
                       Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: portforward.k8s.io\r\n\r\n";
        io.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(io.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        assert!(head.starts_with("http/1.1 101 "), "{head}");
        assert!(
            head.contains("x-stream-protocol-version: portforward.k8s.io\r\n"),
            "{head}"
        );
        Self::new(io)
    }
}

impl Client<Messages> {
    /// Performs the handshake of client-go's `tools/portforward` for its tunnel.
    pub(crate) async fn tunnel(io: DuplexStream) -> Self {
        let mut request = "ws://nephele/portforward".into_client_request().unwrap();
        let protocol = "SPDY/3.1+portforward.k8s.io";
        request
            .headers_mut()
            .insert("sec-websocket-protocol", protocol.parse().unwrap());
        // The library checks the key and the protocol of the response.
        let (socket, response) = tokio_tungstenite::client_async(request, io).await.unwrap();
        assert_eq!(response.headers()["sec-websocket-protocol"], protocol);
        Self::new(Messages {
            socket,
            received: Bytes::new(),
        })
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Client<IO> {
    fn new(io: IO) -> Self {
        let mut compress = Compress::new(Compression::best(), true);
        compress.set_dictionary(dictionary::DICTIONARY).unwrap();
        let decompress = Decompress::new(true);
        Self {
            io,
            compress,
            decompress,
            received: BytesMut::new(),
            frames: VecDeque::new(),
        }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.io.write_all(bytes).await.unwrap();
        self.io.flush().await.unwrap();
    }

    /// Opens a stream without waiting for its reply.
    pub(crate) async fn open(&mut self, id: u32, headers: &[(&str, &str)]) {
        let mut plain = Vec::new();
        plain.put_u32(u32::try_from(headers.len()).unwrap());
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            plain.put_u32(u32::try_from(text.len()).unwrap());
            plain.put_slice(text.as_bytes());
        }
        let mut block = Vec::with_capacity(plain.len() + 128);
        self.compress
            .compress_vec(&plain, &mut block, FlushCompress::Sync)
            .unwrap();
        let mut frame = Vec::new();
        frame.put_slice(b"\x80\x03\x00\x01");
        frame.put_u32(u32::try_from(10 + block.len()).unwrap());
        frame.put_u32(id);
        frame.put_bytes(0, 6);
        frame.put_slice(&block);
        self.send(&frame).await;
    }

    pub(crate) async fn data(&mut self, id: u32, fin: bool, bytes: &[u8]) {
        let mut frame = Vec::new();
        frame.put_u32(id);
        frame.put_u32(u32::from(fin) << 24 | u32::try_from(bytes.len()).unwrap());
        frame.put_slice(bytes);
        self.send(&frame).await;
    }

    pub(crate) async fn reset(&mut self, id: u32) {
        let mut frame = b"\x80\x03\x00\x03\x00\x00\x00\x08".to_vec();
        frame.put_u32(id);
        frame.put_u32(5);
        self.send(&frame).await;
    }

    pub(crate) async fn go_away(&mut self) {
        self.send(b"\x80\x03\x00\x07\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00")
            .await;
    }

    pub(crate) async fn ping(&mut self, id: u32) {
        let mut frame = b"\x80\x03\x00\x06\x00\x00\x00\x04".to_vec();
        frame.put_u32(id);
        self.send(&frame).await;
    }

    /// Opens the two streams of a connection, `error` and `error + 2`, and waits for each reply as clients do.
    pub(crate) async fn forward(&mut self, error: u32, port: u16, request: &str) {
        let port = port.to_string();
        for (id, kind) in [(error, "error"), (error + 2, "data")] {
            self.open(
                id,
                &[("streamtype", kind), ("port", &port), ("requestid", request)],
            )
            .await;
            assert_eq!(self.of(id).await, Frame::Reply { id, headers: 0 });
            if kind == "error" {
                self.data(id, true, b"").await;
            }
        }
    }

    /// The next frame of a stream.
    pub(crate) async fn of(&mut self, stream: u32) -> Frame {
        let of_stream = |frame: &Frame| match frame {
            Frame::Reply { id, .. } | Frame::Reset { id, .. } | Frame::Data { id, .. } => *id == stream,
            Frame::Ping(_) | Frame::GoAway { .. } => false,
        };
        if let Some(at) = self.frames.iter().position(of_stream) {
            return self.frames.remove(at).unwrap();
        }
        loop {
            let frame = self.read().await.expect("the server has more to say");
            if of_stream(&frame) {
                return frame;
            }
            self.frames.push_back(frame);
        }
    }

    /// All bytes of some streams up to the end of each, by stream.
    pub(crate) async fn whole(&mut self, streams: &[u32]) -> BTreeMap<u32, Vec<u8>> {
        let mut all = BTreeMap::new();
        for &stream in streams {
            let whole: &mut Vec<u8> = all.entry(stream).or_default();
            loop {
                match self.of(stream).await {
                    Frame::Data { fin, bytes, .. } => {
                        whole.extend(bytes);
                        if fin {
                            break;
                        }
                    }
                    other => panic!("{other:?} instead of data"),
                }
            }
        }
        all
    }

    /// The next frame of any kind; none at the end.
    pub(crate) async fn read(&mut self) -> Option<Frame> {
        let header = self.take(8).await?;
        let word = (&header[..]).get_u32();
        let flags = header[4];
        let length = usize::try_from((&header[4..]).get_u32() & 0xff_ffff).unwrap();
        let mut body = self.take(length).await.expect("frames are whole");
        Some(match word {
            0x8003_0002 => {
                let id = body.get_u32();
                let mut plain = Vec::with_capacity(256);
                let mut inflate = |block: &[u8], decompress: &mut Decompress| {
                    decompress.decompress_vec(block, &mut plain, FlushDecompress::Sync)
                };
                let before = self.decompress.total_in();
                if inflate(&body, &mut self.decompress).is_err() {
                    self.decompress.set_dictionary(dictionary::DICTIONARY).unwrap();
                    let taken = usize::try_from(self.decompress.total_in() - before).unwrap();
                    inflate(&body[taken..], &mut self.decompress).unwrap();
                }
                assert_eq!(plain.len(), 4, "no headers");
                Frame::Reply {
                    id,
                    headers: (&plain[..]).get_u32(),
                }
            }
            0x8003_0003 => Frame::Reset {
                id: body.get_u32(),
                status: body.get_u32(),
            },
            0x8003_0006 => Frame::Ping(body.get_u32()),
            0x8003_0007 => Frame::GoAway {
                last: body.get_u32(),
                status: body.get_u32(),
            },
            id if id >> 31 == 0 => Frame::Data {
                id,
                fin: flags & 1 == 1,
                bytes: body.to_vec(),
            },
            other => panic!("frame of type {other:#x}"),
        })
    }

    async fn take(&mut self, length: usize) -> Option<Bytes> {
        while self.received.len() < length {
            if self.io.read_buf(&mut self.received).await.unwrap() == 0 {
                assert!(self.received.is_empty(), "frames are whole");
                return None;
            }
        }
        Some(self.received.split_to(length).freeze())
    }
}

/// Binary messages as a byte stream. Each message is cut in two to show that boundaries have no meaning.
pub(crate) struct Messages {
    pub(crate) socket: WebSocketStream<DuplexStream>,
    received: Bytes,
}

impl AsyncRead for Messages {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        while self.received.is_empty() {
            match std::task::ready!(self.socket.poll_next_unpin(cx)) {
                Some(Ok(Message::Binary(bytes))) => self.received = bytes,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(close))) => {
                    // client-go treats any other code as an error.
                    assert_eq!(close.map(|close| u16::from(close.code)), Some(1000));
                    return Poll::Ready(Ok(()));
                }
                None | Some(Err(Error::ConnectionClosed)) => return Poll::Ready(Ok(())),
                other => panic!("{other:?} in the tunnel"),
            }
        }
        let length = self.received.len().min(out.remaining());
        out.put_slice(&self.received.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Messages {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        std::task::ready!(self.socket.poll_ready_unpin(cx)).map_err(std::io::Error::other)?;
        let length = bytes.len().div_ceil(2);
        let message = Message::Binary(Bytes::copy_from_slice(&bytes[..length]));
        self.socket
            .start_send_unpin(message)
            .map_err(std::io::Error::other)?;
        Poll::Ready(Ok(length))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.socket.poll_flush_unpin(cx).map_err(std::io::Error::other)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.socket.poll_close_unpin(cx).map_err(std::io::Error::other)
    }
}
