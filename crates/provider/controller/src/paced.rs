//! Streams whose reader lets others run after some work.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures::{Stream, StreamExt as _};
use tokio::{task::yield_now, time::Instant};

/// The most objects that a controller is told of at a stretch. Each costs it some microseconds.
pub(crate) const TOLD_AT_ONCE_MAX: usize = 256;

/// How long the reader of [`in_stretches`] works before others run.
const STRETCH: Duration = Duration::from_millis(2);

/// Yields to other tasks whenever the items since the last time cost this much together, before it passes on the last of
/// them. A stream that is always ready would keep the thread until it ends.
pub(crate) fn paced<S: Stream>(
    stream: S,
    at_once: usize,
    cost: impl Fn(&S::Item) -> usize + Send,
) -> impl Stream<Item = S::Item> + Unpin {
    let mut spent = 0_usize;
    Box::pin(stream.then(move |item| {
        spent = spent.saturating_add(cost(&item));
        let is_enough = spent >= at_once;
        if is_enough {
            spent = 0;
        }
        async move {
            if is_enough {
                yield_now().await;
            }
            item
        }
    }))
}

/// The stream of [`in_stretches`].
pub(crate) struct InStretches<S> {
    stream: Pin<Box<S>>,
    /// When the stream began to be ready without a pause.
    since: Option<Instant>,
}

/// Lets other tasks run whenever a stream has been ready for two milliseconds of the runtime's clock. For work
/// of which it is not known what it costs.
pub(crate) fn in_stretches<S: Stream>(stream: S) -> InStretches<S> {
    InStretches {
        stream: Box::pin(stream),
        since: None,
    }
}

impl<S: Stream> Stream for InStretches<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= STRETCH {
            self.since = None;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = self.stream.poll_next_unpin(context);
        if polled.is_pending() {
            self.since = None;
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, stream};
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_is_always_ready_pauses_after_two_milliseconds() {
        let mut read = in_stretches(stream::iter(0..10));
        for item in [0, 1] {
            assert_eq!(read.next().now_or_never(), Some(Some(item)));
            advance(Duration::from_millis(1)).await;
        }
        assert_eq!(read.next().now_or_never(), None, "others run");
        // After the pause, it begins with another stretch.
        assert_eq!(read.next().now_or_never(), Some(Some(2)));
        let rest = read.collect::<Vec<_>>().now_or_never();
        assert_eq!(rest, Some((3..10).collect()), "no time passes");
    }
}
