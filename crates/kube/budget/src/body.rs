//! The body of a request, charged to a budget as it arrives.

use bytes::{Buf as _, Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::task::yield_now;

use crate::budget::{Budget, Grant};

/// The body of a request, and the grant for its memory.
#[derive(Default)]
pub struct Held {
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
        let mut pieces = Pieces::default();
        loop {
            let frame = grant
                .unless_revoked(body.frame())
                .await
                .ok_or(ReadError::NoRoom)?;
            let Some(frame) = frame else {
                return Ok(Self {
                    bytes: pieces.joined().await,
                    grant: Some(grant),
                });
            };
            let Ok(mut data) = frame.map_err(ReadError::Failed)?.into_data() else {
                continue;
            };
            let more = data.remaining();
            if pieces.length.saturating_add(more) > max {
                return Err(ReadError::TooLarge);
            }
            if !grant.grow(more) {
                return Err(ReadError::NoRoom);
            }
            if pieces.length == 0 && body.is_end_stream() {
                return Ok(Self {
                    bytes: data.copy_to_bytes(more),
                    grant: Some(grant),
                });
            }
            while data.has_remaining() {
                let piece = data.chunk();
                let length = piece.len();
                pieces.push(piece);
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

/// What has arrived of a body. One buffer for all of it would be moved each time that it grows, and a large one keeps its
/// thread for milliseconds.
#[derive(Default)]
struct Pieces {
    full: Vec<BytesMut>,
    last: BytesMut,
    /// The bytes of all of them.
    length: usize,
}

impl Pieces {
    /// The size of a piece, which is copied in less than a millisecond.
    const SIZE: usize = 1 << 20;

    fn push(&mut self, bytes: &[u8]) {
        self.last.extend_from_slice(bytes);
        self.length += bytes.len();
        if self.last.len() >= Self::SIZE {
            self.full.push(std::mem::take(&mut self.last));
        }
    }

    /// The whole body. Others run after each piece, and each piece is freed when it is copied.
    async fn joined(self) -> Bytes {
        if self.full.is_empty() {
            return self.last.freeze();
        }
        let mut whole = BytesMut::with_capacity(self.length);
        for piece in self.full.into_iter().chain([self.last]) {
            whole.extend_from_slice(&piece);
            drop(piece);
            yield_now().await;
        }
        whole.freeze()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use futures::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use proptest::prelude::*;

    use super::*;

    const MAX: usize = 6 << 20;

    /// Frames of these lengths, each of another byte.
    fn frames(lengths: &[usize]) -> Vec<Bytes> {
        let bytes = (0..=u8::MAX).cycle();
        bytes
            .zip(lengths)
            .map(|(byte, length)| Bytes::from(vec![byte; *length]))
            .collect()
    }

    /// Reads a body, and counts how often it lets others run.
    fn read(frames: &[Bytes], budget: &Budget) -> (Result<Bytes, ReadError<Infallible>>, usize) {
        let frames: Vec<_> = frames
            .iter()
            .map(|bytes| Ok(Frame::data(bytes.clone())))
            .collect();
        let mut reading = pin!(Held::read(StreamBody::new(stream::iter(frames)), MAX, budget, 0));
        let mut waits = 0;
        loop {
            match reading.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(held) => return (held.map(|held| held.bytes), waits),
                Poll::Pending => waits += 1,
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_body_is_what_has_arrived(lengths in prop::collection::vec(prop_oneof![0..10_usize, 0..2_000_000_usize], 0..8)) {
            let frames = frames(&lengths);
            let (whole, waits) = read(&frames, &Budget::new(MAX, MAX));
            let length: usize = lengths.iter().sum();
            let expected = if length > MAX { Err(ReadError::TooLarge) } else { Ok(Bytes::from(frames.concat())) };
            prop_assert!(whole == expected, "{:?} of {}", whole.map(|whole| whole.len()), length);
            // A frame makes a piece longer, and is as long as what a connection reads at once.
            let longest = lengths.iter().max().map_or(0, |longest| longest + Pieces::SIZE);
            prop_assert!(length > MAX || length / longest.max(1) <= waits + 1, "{waits} waits for {length}");
        }
    }
}
