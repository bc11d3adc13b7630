//! The targets of ports, and the copying between a target and a stream.

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
};

use crate::frame::Frame;

/// A stream of bytes in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// Why a port cannot be reached. The text goes to the client.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ConnectError(pub String);

/// The backend of a pod's ports.
pub trait Target: Send + Sync + 'static {
    /// Connects to `port`. The returned stream is dropped when the forwarded connection ends.
    fn connect(&self, port: u16) -> BoxFuture<'static, Result<Box<dyn Duplex>, ConnectError>>;
}

/// The bytes that are read from a target at a time: half a TLS record, the longest usual response of a control plane.
const READ_BYTES: usize = 8 * 1024;

/// Serves one forwarded connection: connects, then copies both ways until the target ends. The text of an error is
/// sent to the client.
pub(crate) async fn forward(
    connecting: BoxFuture<'static, Result<Box<dyn Duplex>, ConnectError>>,
    stream: u32,
    mut incoming: mpsc::Receiver<Bytes>,
    outgoing: mpsc::Sender<Frame>,
) -> Result<(), String> {
    let connection = connecting.await.map_err(|error| error.to_string())?;
    let (mut from_target, mut to_target) = tokio::io::split(connection);
    let upload = async {
        while let Some(bytes) = incoming.recv().await {
            // A target that does not accept more data may still send data, for example a TLS alert.
            if to_target.write_all(&bytes).await.is_err() || to_target.flush().await.is_err() {
                incoming.close();
                return;
            }
        }
        // The client has ended its side and may still read.
        let _ = to_target.shutdown().await;
    };
    let download = async {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(READ_BYTES);
            let read = (&mut from_target)
                .take(READ_BYTES as u64)
                .read_buf(&mut buffer)
                .await;
            if read.map_err(|error| format!("failed to read from the target: {error}"))? == 0 {
                return Ok(());
            }
            let frame = Frame::Data {
                id: stream,
                fin: false,
                bytes: buffer.split().freeze(),
            };
            if outgoing.send(frame).await.is_err() {
                // The session is over.
                return Ok(());
            }
        }
    };
    let mut upload = std::pin::pin!(upload);
    let mut download = std::pin::pin!(download);
    tokio::select! {
        result = &mut download => result,
        () = &mut upload => download.await,
    }
}
