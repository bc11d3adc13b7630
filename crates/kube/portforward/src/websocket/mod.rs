//! The tunnel: SPDY bytes in WebSocket binary messages. The boundaries of messages have no meaning (KEP-4006).

mod frame;

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes, BytesMut};
use frame::{Decoder, Event};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes that are read at a time.
const READ_BYTES: usize = 8 * 1024;

/// The most bytes in a message that is sent.
const WRITE_MAX: usize = 32 * 1024;

/// Bytes in the outbox up to which pongs are added; further pongs are omitted, as RFC 6455 section 5.5.3 allows.
const PONGS_MAX: usize = 1024;

/// Close codes of RFC 6455 section 7.4.1. Kubernetes clients treat 1000 as an end of file and any other code as an
/// error.
const NORMAL: u16 = 1000;
const PROTOCOL_ERROR: u16 = 1002;

/// A WebSocket connection after its handshake, as a stream of bytes. One task must poll both halves.
pub(crate) struct Tunnel<IO> {
    io: IO,
    decoder: Decoder,
    /// Bytes that are read but not decoded.
    inbox: BytesMut,
    /// Bytes that are decoded but not passed on.
    received: Bytes,
    /// Bytes that are encoded but not written: at most a message and some pongs.
    outbox: BytesMut,
    /// Whether the client has ended its side.
    ended: bool,
    /// Whether this side has ended: the close frame is in the outbox or sent.
    closed: bool,
    close_code: u16,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Tunnel<IO> {
    /// Takes over a connection after the handshake.
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

    /// Decodes until there are bytes to pass on, or the client has ended; false if more bytes have to be read first.
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
            // Sends pongs and the response to a close if possible. If the connection is broken, the writer notices.
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
            // A client that has closed does not read any more, not even a GOAWAY.
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
            // Frees the buffer, because sessions are idle most of the time.
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
