//! The bodies of responses, counted from when they are handed over until they are written.

use std::{
    error::Error,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use http_body::{Body, Frame, SizeHint};
use nephele_budget::{Budget, Grant};
use parking_lot::Mutex;

/// Why the body of a response ended early.
#[derive(Debug, thiserror::Error)]
#[error("the memory of this response was needed for others")]
struct Revoked;

/// The responses of one connection that its client has not read.
pub(crate) struct Unread {
    /// Bytes that wait to be written.
    bytes: Option<Grant>,
    /// The most that one response counts as. A larger one is not refused because of its size.
    most: usize,
    ages: Mutex<Ages>,
}

/// How many things wait for the client: pieces that are not written, and bodies that could give more. Each is counted
/// under the round in which it began to wait.
#[derive(Default)]
struct Ages {
    round: usize,
    waiting: [usize; 3],
}

impl Unread {
    pub(crate) fn new(budget: &Budget, most: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes: budget.take(0),
            most,
            ages: Mutex::default(),
        })
    }

    /// Begins another round. Returns whether something waits for longer than the whole round before it.
    pub(crate) fn next_round(&self) -> bool {
        let mut ages = self.ages.lock();
        ages.round = (ages.round + 1) % 3;
        // The place of the round before the last one is the next one's.
        let oldest = (ages.round + 1) % 3;
        ages.waiting[oldest] > 0
    }

    /// Waits until the memory is needed for others.
    pub(crate) async fn revoked(&self) {
        match &self.bytes {
            Some(bytes) => bytes.revoked().await,
            None => std::future::pending().await,
        }
    }

    /// Takes so many bytes. False if there is no room.
    fn take(&self, bytes: usize) -> bool {
        bytes == 0 || self.bytes.as_ref().is_some_and(|held| held.grow(bytes))
    }

    fn give_back(&self, bytes: usize) {
        if let Some(held) = self.bytes.as_ref().filter(|_| bytes > 0) {
            held.shrink(bytes);
        }
    }

    fn wait(self: &Arc<Self>) -> Waiting {
        let mut ages = self.ages.lock();
        let round = ages.round;
        ages.waiting[round] += 1;
        drop(ages);
        Waiting {
            unread: Arc::clone(self),
            round,
        }
    }
}

/// Something that waits for the client.
struct Waiting {
    unread: Arc<Unread>,
    round: usize,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.unread.ages.lock().waiting[self.round] -= 1;
    }
}

/// A body whose pieces count until they are written. `kept` lives as long as they.
pub(crate) struct Counted<B, K> {
    body: B,
    unread: Arc<Unread>,
    kept: Arc<K>,
    /// Set while the body waits to be asked for more.
    waiting: Option<Waiting>,
    /// Whether the length of the body is known. Then it is there from the start, and counts from the start.
    is_known: bool,
    /// Bytes that count although they are not handed over.
    ahead: usize,
    /// Whether there was no room for them.
    is_refused: bool,
}

impl<B: Body, K> Counted<B, K> {
    pub(crate) fn new(body: B, unread: Arc<Unread>, kept: K) -> Self {
        let waiting = (!body.is_end_stream()).then(|| unread.wait());
        let length = body.size_hint().exact();
        let ahead = length.map_or(0, |length| {
            usize::try_from(length).unwrap_or(usize::MAX).min(unread.most)
        });
        let has_room = unread.take(ahead);
        let ahead = if has_room { ahead } else { 0 };
        let is_known = length.is_some();
        Self {
            body,
            unread,
            kept: Arc::new(kept),
            waiting,
            is_known,
            ahead,
            is_refused: !has_room,
        }
    }
}

impl<B, K> Drop for Counted<B, K> {
    fn drop(&mut self) {
        self.unread.give_back(self.ahead);
    }
}

/// A piece of a body.
struct Piece<K> {
    bytes: Bytes,
    counted: usize,
    waiting: Waiting,
    _kept: Arc<K>,
}

impl<K> AsRef<[u8]> for Piece<K> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<K> Drop for Piece<K> {
    fn drop(&mut self) {
        self.waiting.unread.give_back(self.counted);
    }
}

impl<B, K> Body for Counted<B, K>
where
    B: Body + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    K: Send + Sync + 'static,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if this.is_refused {
            return Poll::Ready(Some(Err(Box::new(Revoked))));
        }
        // From here on the client waits for the service.
        this.waiting = None;
        let Some(frame) = ready!(Pin::new(&mut this.body).poll_frame(context)) else {
            return Poll::Ready(None);
        };
        let frame = frame.map_err(Into::into)?;
        if !this.body.is_end_stream() {
            this.waiting = Some(this.unread.wait());
        }
        let frame = match frame.into_data() {
            Err(frame) => return Poll::Ready(Some(Ok(frame.map_data(|_| Bytes::new())))),
            Ok(mut data) => data.copy_to_bytes(data.remaining()),
        };
        let counted = if this.is_known {
            let counted = frame.len().min(this.ahead);
            this.ahead -= counted;
            counted
        } else {
            let counted = frame.len().min(this.unread.most);
            if !this.unread.take(counted) {
                return Poll::Ready(Some(Err(Box::new(Revoked))));
            }
            counted
        };
        let piece = Piece {
            bytes: frame,
            counted,
            waiting: this.unread.wait(),
            _kept: Arc::clone(&this.kept),
        };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_a_whole_round_is_noticed_in_the_next_one() {
        let unread = Unread::new(&Budget::new(10, 10), 10);
        assert!(!unread.next_round());
        let waiting = unread.wait();
        assert!(!unread.next_round());
        let newer = unread.wait();
        assert!(unread.next_round());
        drop(waiting);
        assert!(unread.next_round());
        drop(newer);
        assert!((0..6).all(|_| !unread.next_round()));
    }
}
