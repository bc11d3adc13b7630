use std::{io, sync::LazyLock, time::Duration};

use nephele_budget::Owner;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::in_turn::OwnTurns;

/// Of all servers of this process, which share its threads. Signing and agreeing on a key takes a good part of a
/// millisecond, and whoever has no credentials can ask for it.
static HANDSHAKES: LazyLock<OwnTurns> = LazyLock::new(OwnTurns::default);

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

/// Performs the server side of a TLS handshake with a client of `owner` within `limit`. Those of one owner are worked on one
/// at a time.
///
/// # Errors
/// When the client does not finish the handshake.
pub async fn handshake<IO>(
    io: IO,
    acceptor: TlsAcceptor,
    limit: Duration,
    owner: Owner,
) -> Result<TlsStream<IO>, HandshakeError>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let accepted = timeout(limit, HANDSHAKES.in_turn(owner, acceptor.accept(io))).await;
    accepted
        .map_err(|_elapsed| HandshakeError::TimedOut(limit))?
        .map_err(HandshakeError::Failed)
}
