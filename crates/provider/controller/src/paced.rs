//! A stream whose reader lets others run after some work.

use futures::{Stream, StreamExt as _};
use tokio::task::yield_now;

/// The most objects that a controller is told of at a stretch. Each costs it some microseconds.
pub(crate) const TOLD_AT_ONCE_MAX: usize = 256;

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
