//! The two streams of one forwarded connection, and what is behind the port.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

use crate::frame::Frame;

/// A stream of bytes in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// Why a port cannot be reached. The text goes to the client.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ConnectError(pub String);

/// What is behind the ports of a pod.
pub trait Target: Send + Sync + 'static {
    /// Connects to `port`.
    fn connect(&self, port: u16) -> BoxFuture<'static, Result<Box<dyn Duplex>, ConnectError>>;
}

/// How much is read from the target at a time: a TLS record and some.
const READ_BYTES: usize = 18 * 1024;

/// The streams of a pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) error: u32,
    pub(crate) data: u32,
    pub(crate) port: u16,
}

/// Connects a pair to its port and copies both ways until either side is done. Failures go to the error stream as
/// text, as the kubelet sends them. Both streams are finished at the end.
pub(crate) async fn serve(
    pair: Pair,
    target: Arc<dyn Target>,
    mut incoming: mpsc::Receiver<Bytes>,
    outgoing: mpsc::Sender<Frame>,
) -> Pair {
    let failure = match target.connect(pair.port).await {
        Err(error) => Some(error.to_string()),
        Ok(connection) => copy(pair.data, connection, &mut incoming, &outgoing).await.err(),
    };
    let message = failure.map_or_else(Bytes::new, |text| {
        Bytes::from(format!("an error occurred forwarding {}: {text}", pair.port))
    });
    // When the session is over nobody listens, and nothing is left to say.
    let _ = outgoing.send(Frame::Data { id: pair.error, fin: true, bytes: message }).await;
    let _ = outgoing.send(Frame::Data { id: pair.data, fin: true, bytes: Bytes::new() }).await;
    pair
}

async fn copy(
    id: u32,
    connection: Box<dyn Duplex>,
    incoming: &mut mpsc::Receiver<Bytes>,
    outgoing: &mpsc::Sender<Frame>,
) -> Result<(), String> {
    let (mut from_target, mut to_target) = tokio::io::split(connection);
    let upload = async {
        while let Some(bytes) = incoming.recv().await {
            to_target.write_all(&bytes).await.map_err(|error| format!("failed to write: {error}"))?;
        }
        to_target.shutdown().await.map_err(|error| format!("failed to close: {error}"))
    };
    let download = async {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(READ_BYTES);
            let read = from_target.read_buf(&mut buffer).await;
            if read.map_err(|error| format!("failed to read: {error}"))? == 0 {
                return Ok(());
            }
            let frame = Frame::Data { id, fin: false, bytes: buffer.split().freeze() };
            if outgoing.send(frame).await.is_err() {
                return Ok(());
            }
        }
    };
    // A client that is done sending may still read; a target that is done ends the connection.
    let mut upload = std::pin::pin!(upload);
    let mut download = std::pin::pin!(download);
    tokio::select! {
        result = &mut download => result,
        result = &mut upload => match result {
            Ok(()) => download.await,
            Err(error) => Err(error),
        },
    }
}
