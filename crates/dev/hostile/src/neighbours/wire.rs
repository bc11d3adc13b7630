//! Connections of the harness: HTTP/2 or HTTP/1.1, over TLS or plain, with bodies that may stall.

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use anyhow::Context as _;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::{
    body::{Body, Frame, Incoming, SizeHint},
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::{
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use tokio_rustls::TlsConnector;

/// How long an answer may take before it counts as a failure.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A body that repeats a piece, and may stall before its end.
pub(super) struct Payload {
    piece: Bytes,
    left: usize,
    stalls: bool,
}

impl Payload {
    /// These bytes.
    pub(super) fn of(bytes: impl Into<Bytes>) -> Self {
        let piece = bytes.into();
        Self {
            left: piece.len(),
            piece,
            stalls: false,
        }
    }

    /// The bytes that it repeats.
    pub(super) fn piece_of(self) -> Bytes {
        self.piece
    }

    /// `length` bytes, after which nothing comes, not even the end.
    pub(super) fn stalled(length: usize) -> Self {
        Self {
            piece: Bytes::from_static(&[b' '; 16 * 1024]),
            left: length,
            stalls: true,
        }
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return if self.stalls {
                Poll::Pending
            } else {
                Poll::Ready(None)
            };
        }
        let piece = self.piece.slice(..self.left.min(self.piece.len()));
        self.left -= piece.len();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0 && !self.stalls
    }

    fn size_hint(&self) -> SizeHint {
        if self.stalls {
            SizeHint::default()
        } else {
            SizeHint::with_exact(self.left as u64)
        }
    }
}

/// How to reach a server.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) tls: Option<Arc<ClientConfig>>,
    /// The address to come from.
    pub(super) from: Ipv4Addr,
}

/// One connection.
pub(super) enum Connection {
    Http1(http1::SendRequest<Payload>),
    Http2(http2::SendRequest<Payload>),
}

impl Server {
    /// Connects. Each response of an HTTP/2 connection may send `window` bytes that are not read.
    pub(super) async fn connect(&self, is_http2: bool, window: Option<u32>) -> anyhow::Result<Connection> {
        let stream = self.stream().await.context("failed to connect")?;
        stream.set_nodelay(true).context("failed to set TCP_NODELAY")?;
        let Some(tls) = &self.tls else {
            let (sender, connection) = http1::handshake(TokioIo::new(stream))
                .await
                .context("failed to speak HTTP/1.1")?;
            tokio::spawn(connection);
            return Ok(Connection::Http1(sender));
        };
        let mut config = (**tls).clone();
        config.alpn_protocols = vec![if is_http2 {
            b"h2".to_vec()
        } else {
            b"http/1.1".to_vec()
        }];
        let name = ServerName::IpAddress(self.address.ip().into());
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
        let io = TokioIo::new(connecting.await.context("failed to speak TLS")?);
        if is_http2 {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            if let Some(window) = window {
                builder.initial_stream_window_size(window);
            }
            let (sender, connection) = builder.handshake(io).await.context("failed to speak HTTP/2")?;
            tokio::spawn(connection);
            Ok(Connection::Http2(sender))
        } else {
            let (sender, connection) = http1::handshake(io).await.context("failed to speak HTTP/1.1")?;
            tokio::spawn(connection);
            Ok(Connection::Http1(sender))
        }
    }

    /// A connection that says nothing yet.
    pub(super) async fn stream(&self) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((self.from, 0).into())?;
        socket.connect(self.address).await
    }

    /// The same server for a client at another address.
    pub(super) fn from(&self, from: Ipv4Addr) -> Self {
        Self { from, ..self.clone() }
    }

    /// A request with this body.
    pub(super) fn request(
        &self,
        method: &str,
        target: &str,
        content_type: &str,
        body: Payload,
    ) -> Request<Payload> {
        let uri = format!("https://{}{target}", self.address);
        Request::builder()
            .method(method)
            .uri(uri)
            .header("host", self.address.to_string())
            .header("content-type", content_type)
            .body(body)
            .expect("the paths of the menu are paths")
    }
}

impl Connection {
    /// Sends a request and waits for the head of its answer.
    pub(super) async fn send(&mut self, mut request: Request<Payload>) -> anyhow::Result<Response<Incoming>> {
        match self {
            Self::Http1(sender) => {
                let target = request
                    .uri()
                    .path_and_query()
                    .map_or("/", |path| path.as_str())
                    .to_owned();
                *request.uri_mut() = target.parse().context("failed to read a path")?;
                sender.ready().await?;
                Ok(sender.send_request(request).await?)
            }
            Self::Http2(sender) => {
                request.headers_mut().remove("host");
                sender.ready().await?;
                Ok(sender.send_request(request).await?)
            }
        }
    }

    /// Sends a request and reads its answer. Returns the status and the size of the answer.
    pub(super) async fn exchange(&mut self, request: Request<Payload>) -> anyhow::Result<(u16, Bytes)> {
        let exchange = async {
            let response = self.send(request).await?;
            let status = response.status().as_u16();
            Ok((status, response.into_body().collect().await?.to_bytes()))
        };
        timeout(ANSWER_MAX, exchange).await.context("no answer in time")?
    }

    /// Another handle of the same connection, if it is HTTP/2.
    pub(super) fn again(&self) -> Option<Self> {
        match self {
            Self::Http1(_) => None,
            Self::Http2(sender) => Some(Self::Http2(sender.clone())),
        }
    }
}
