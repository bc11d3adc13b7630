//! The tunnel: SPDY bytes in WebSocket binary messages, whose boundaries mean nothing (KEP-4006).

mod frame;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use frame::{Decoder, Event};

/// How much is read at a time.
const READ_BYTES: usize = 8 * 1024;

/// How much is sent in a message.
const WRITE_MAX: usize = 32 * 1024;

/// Pongs that may wait until the client reads; further ones are omitted, as RFC 6455 section 5.5.3 allows.
const PONGS_MAX: usize = 1024;

/// Close codes of RFC 6455 section 7.4.1. Kubernetes clients take 1000 for an end of file and any other code for an
/// error.
const NORMAL: u16 = 1000;
const PROTOCOL_ERROR: u16 = 1002;

/// A WebSocket connection, after its handshake, as a stream of bytes. Both halves must be polled by one task.
pub(crate) struct Tunnel<IO> {
    io: IO,
    decoder: Decoder,
    /// Read but not decoded.
    inbox: BytesMut,
    /// Decoded but not passed on.
    received: Bytes,
    /// Encoded but not written: a message and a few pongs at most.
    outbox: BytesMut,
    /// The client has ended its side.
    ended: bool,
    /// This side has ended; the close frame is in the outbox or sent.
    closed: bool,
    close_code: u16,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Tunnel<IO> {
    /// Takes over a connection whose handshake was answered.
    pub(crate) fn new(io: IO) -> Self {
        Self {
            io,
            decoder: Decoder::default(),
            inbox: BytesMut::new(),
            received: Bytes::new(),
            outbox: BytesMut::new(),
            ended: false,
            closed: false,
            close_code: NORMAL,
        }
    }

    /// Decodes until there are bytes to pass on; false when more have to be read first.
    fn decode(&mut self) -> io::Result<bool> {
        while self.received.is_empty() && !self.ended {
            match self.decoder.decode(&mut self.inbox) {
                Ok(None) => return Ok(false),
                Ok(Some(Event::Data(bytes))) => self.received = bytes,
                Ok(Some(Event::Ping(bytes))) => {
                    if !self.closed && self.outbox.len() <= PONGS_MAX {
                        frame::pong(&bytes, &mut self.outbox);
                    }
                }
                Ok(Some(Event::Close)) => {
                    self.ended = true;
                    self.close();
                }
                Err(error) => {
                    self.ended = true;
                    self.close_code = PROTOCOL_ERROR;
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
        }
        Ok(true)
    }

    fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            frame::close(self.close_code, &mut self.outbox);
        }
    }

    fn poll_outbox(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.outbox.is_empty() {
            let written = ready!(Pin::new(&mut self.io).poll_write(cx, &self.outbox))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.outbox.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    /// Reads some bytes into the inbox; false at the end.
    fn poll_inbox(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let held = self.inbox.len();
        self.inbox.resize(held + READ_BYTES, 0);
        let mut buffer = ReadBuf::new(&mut self.inbox[held..]);
        let polled = Pin::new(&mut self.io).poll_read(cx, &mut buffer);
        let read = buffer.filled().len();
        self.inbox.truncate(held + read);
        ready!(polled)?;
        if read > 0 {
            return Poll::Ready(Ok(true));
        }
        self.ended = true;
        if held > 0 || !self.decoder.is_between_frames() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        Poll::Ready(Ok(false))
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for Tunnel<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let decoded = self.decode()?;
            // Pongs and the answer to a close go out when they can. If they cannot, the writer finds out.
            if !self.outbox.is_empty()
                && let Poll::Ready(Ok(())) = self.poll_outbox(cx)
            {
                let _ = Pin::new(&mut self.io).poll_flush(cx);
            }
            if decoded {
                break;
            }
            if !ready!(self.poll_inbox(cx))? {
                break;
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
        if self.closed {
            // A client that has closed reads nothing more, not even a farewell.
            return Poll::Ready(Ok(bytes.len()));
        }
        ready!(self.poll_outbox(cx))?;
        let length = bytes.len().min(WRITE_MAX);
        frame::message(&bytes[..length], &mut self.outbox);
        match self.poll_outbox(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(length)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_outbox(cx))?;
        if self.outbox.is_empty() {
            // Sessions are idle most of their life.
            self.outbox = BytesMut::new();
        }
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.close();
        ready!(self.poll_outbox(cx))?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
