//! The tunnel: SPDY bytes in WebSocket binary messages, whose boundaries mean nothing (KEP-4006).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use futures::{Sink as _, Stream as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

/// The longest message that is taken. A client makes a message of each write, and writes 32 KiB at most (Go's
/// `io.Copy`); four times that leaves room for others.
const MESSAGE_MAX: usize = 128 * 1024;

/// How much is sent in a message.
const WRITE_MAX: usize = 32 * 1024;

/// A WebSocket connection as a stream of bytes.
pub(crate) struct Tunnel<IO> {
    socket: WebSocketStream<IO>,
    received: Bytes,
    closing: Closing,
}

/// How far the end of our side has got.
#[derive(Clone, Copy)]
enum Closing {
    Open,
    Flush,
    Shutdown,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Tunnel<IO> {
    /// Takes over a connection whose handshake was answered.
    pub(crate) async fn new(io: IO) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(8 * 1024)
            // Messages are written as they come: the session has put together what belongs together.
            .write_buffer_size(0)
            .max_write_buffer_size(2 * WRITE_MAX)
            .max_message_size(Some(MESSAGE_MAX))
            .max_frame_size(Some(MESSAGE_MAX));
        Self {
            socket: WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await,
            received: Bytes::new(),
            closing: Closing::Open,
        }
    }
}

fn to_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        Error::ConnectionClosed | Error::AlreadyClosed => io::ErrorKind::BrokenPipe.into(),
        other => io::Error::new(io::ErrorKind::InvalidData, other),
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for Tunnel<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.received.is_empty() {
            match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
                Some(Ok(Message::Binary(bytes))) => self.received = bytes,
                // Pings are answered by the library, on the next poll.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Text(_))) => {
                    let error = io::Error::new(io::ErrorKind::InvalidData, "text message in a tunnel");
                    return Poll::Ready(Err(error));
                }
                Some(Ok(Message::Close(_)) | Err(Error::ConnectionClosed | Error::AlreadyClosed)) | None => {
                    return Poll::Ready(Ok(()));
                }
                Some(Err(error)) => return Poll::Ready(Err(to_io(error))),
            }
        }
        let length = self.received.len().min(out.remaining());
        out.put_slice(&self.received[..length]);
        self.received.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Tunnel<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut self.socket).poll_ready(cx)).map_err(to_io)?;
        let length = bytes.len().min(WRITE_MAX);
        let message = Message::Binary(Bytes::copy_from_slice(&bytes[..length]));
        Pin::new(&mut self.socket).start_send(message).map_err(to_io)?;
        Poll::Ready(Ok(length))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx).map_err(to_io)
    }

    /// Closes with code 1000, which Kubernetes clients take for an end of file and any other code for an error.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.closing {
                Closing::Open => {
                    // Not ready means closed, by the client or by an error, with nothing left to send but the
                    // answer to a close, which the flush below takes along.
                    if ready!(Pin::new(&mut self.socket).poll_ready(cx)).is_ok() {
                        let close = CloseFrame { code: CloseCode::Normal, reason: "".into() };
                        let _ = Pin::new(&mut self.socket).start_send(Message::Close(Some(close)));
                    }
                    self.closing = Closing::Flush;
                }
                Closing::Flush => {
                    // The client may have closed its side already.
                    let _ = ready!(Pin::new(&mut self.socket).poll_flush(cx));
                    self.closing = Closing::Shutdown;
                }
                Closing::Shutdown => return Pin::new(self.socket.get_mut()).poll_shutdown(cx),
            }
        }
    }
}
