use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Why a TLS handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The client took too long.
    #[error("the TLS handshake did not end within {0:?}")]
    TimedOut(Duration),
    /// The two sides could not agree, or the connection broke.
    #[error("failed to complete the TLS handshake")]
    Failed(#[source] io::Error),
}

/// Performs the server side of a TLS handshake within `limit`.
///
/// # Errors
/// When the client does not finish the handshake.
pub async fn handshake<IO>(
    io: IO,
    acceptor: TlsAcceptor,
    limit: Duration,
) -> Result<TlsStream<IO>, HandshakeError>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let accepted = timeout(limit, acceptor.accept(io)).await;
    accepted.map_err(|_elapsed| HandshakeError::TimedOut(limit))?.map_err(HandshakeError::Failed)
}
