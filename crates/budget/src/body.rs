//! The body of a request, charged to a budget as it arrives.

use bytes::{Buf as _, Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt as _;

use crate::budget::{Budget, Grant};

/// The body of a request, and the grant for its memory.
#[derive(Default)]
pub struct Held {
    /// The whole body.
    pub bytes: Bytes,
    /// None if there is no body.
    grant: Option<Grant>,
}

/// Why a body was not read.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadError<E> {
    /// It has more bytes than it may have.
    TooLarge,
    /// Its memory is needed for others, or there is none for it.
    NoRoom,
    /// It did not arrive.
    Failed(E),
}

impl Held {
    /// Reads a body of at most `max` bytes. It takes as much of the budget as has arrived, not as much as is announced,
    /// and `state` bytes before that, for what the process keeps beside it. When memory is short, the body that has been
    /// silent for longest is dropped, so a slow client cannot block others.
    ///
    /// # Errors
    /// When the body is too large or does not arrive, or when its memory is needed for others.
    pub async fn read<B>(
        mut body: B,
        max: usize,
        budget: &Budget,
        state: usize,
    ) -> Result<Self, ReadError<B::Error>>
    where
        B: Body + Unpin,
    {
        if body.is_end_stream() {
            return Ok(Self::default());
        }
        let grant = budget.take(state).ok_or(ReadError::NoRoom)?;
        let mut bytes = BytesMut::new();
        loop {
            let frame = grant.unless_revoked(body.frame()).await.ok_or(ReadError::NoRoom)?;
            let Some(frame) = frame else { return Ok(Self { bytes: bytes.freeze(), grant: Some(grant) }) };
            let Ok(mut data) = frame.map_err(ReadError::Failed)?.into_data() else { continue };
            let more = data.remaining();
            if bytes.len().saturating_add(more) > max {
                return Err(ReadError::TooLarge);
            }
            if !grant.grow(more) {
                return Err(ReadError::NoRoom);
            }
            if bytes.is_empty() && body.is_end_stream() {
                return Ok(Self { bytes: data.copy_to_bytes(more), grant: Some(grant) });
            }
            while data.has_remaining() {
                let piece = data.chunk();
                let length = piece.len();
                bytes.extend_from_slice(piece);
                data.advance(length);
            }
        }
    }

    /// Takes so many bytes more, for what is made of the body. False if there is no room.
    #[must_use]
    pub fn grow(&self, bytes: usize) -> bool {
        self.grant.as_ref().is_none_or(|grant| grant.grow(bytes))
    }

    /// Keeps the memory from now on, whatever others need. False if it was needed before.
    #[must_use]
    pub fn keep(&self) -> bool {
        self.grant.as_ref().is_none_or(Grant::pin)
    }

    /// Waits for something, unless the memory is needed for others meanwhile.
    pub async fn while_held<T>(&self, wait: impl Future<Output = T>) -> Option<T> {
        match &self.grant {
            Some(grant) => grant.unless_revoked(wait).await,
            None => Some(wait.await),
        }
    }
}
