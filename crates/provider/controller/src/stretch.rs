//! Streams whose reader lets others run after some work.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{Stream, StreamExt as _};
use parking_lot::Mutex;
use tokio::{task::yield_now, time::Instant};

/// How long a task works before others run, by the clock of its runtime.
const STRETCH: Duration = Duration::from_millis(2);
/// The most items of a stretch: of some, the cost comes later.
const ITEMS_MAX: usize = 256;

/// The work of a task since others ran. Cheap to clone; the clones are of one task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stretch(Arc<Mutex<Work>>);

#[derive(Debug, Default)]
struct Work {
    since: Option<Instant>,
    items: usize,
}

impl Stretch {
    fn is_over(&self) -> bool {
        let work = self.0.lock();
        let took = work.since.map(|since| since.elapsed());
        work.items >= ITEMS_MAX || took.is_some_and(|took| took >= STRETCH)
    }

    fn begin(&self) {
        self.0.lock().since.get_or_insert_with(Instant::now);
    }

    fn end(&self) {
        *self.0.lock() = Work::default();
    }

    fn note<T>(&self, polled: &Poll<T>) {
        self.0.lock().items += usize::from(polled.is_ready());
    }

    /// The stream that the task reads. It pauses whenever the stretch is over, and then others run and what has arrived is read.
    pub(crate) fn read<S: Stream>(self, stream: S) -> Read<S> {
        Read {
            stream: Box::pin(stream),
            stretch: self,
        }
    }

    /// A stream that the stream of [`Stretch::read`] reads. It pauses while the stretch is over: who reads it in a loop then ends
    /// the loop.
    pub(crate) fn within<S: Stream>(&self, stream: S) -> Within<S> {
        Within {
            stream: Box::pin(stream),
            stretch: self.clone(),
        }
    }
}

/// Lets other tasks run whenever a stream has been ready for two milliseconds or 256 items.
pub(crate) fn in_stretches<S: Stream>(stream: S) -> Read<S> {
    Stretch::default().read(stream)
}

/// The stream of [`Stretch::read`].
pub(crate) struct Read<S> {
    stream: Pin<Box<S>>,
    stretch: Stretch,
}

impl<S: Stream> Stream for Read<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.stretch.begin();
        if self.stretch.is_over() {
            self.stretch.end();
            return pause(context);
        }
        let polled = self.stream.poll_next_unpin(context);
        match polled.is_pending() {
            true => self.stretch.end(),
            false => self.stretch.note(&polled),
        }
        polled
    }
}

/// The stream of [`Stretch::within`].
pub(crate) struct Within<S> {
    stream: Pin<Box<S>>,
    stretch: Stretch,
}

impl<S: Stream> Stream for Within<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        if self.stretch.is_over() {
            return pause(context);
        }
        let polled = self.stream.poll_next_unpin(context);
        self.stretch.note(&polled);
        polled
    }
}

/// The task is polled again when others ran.
fn pause<T>(context: &mut Context<'_>) -> Poll<T> {
    let _ = pin!(yield_now()).poll(context);
    Poll::Pending
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

    /// As kube-runtime takes requests: all that there are, as often as it begins a reconcile.
    #[tokio::test(start_paused = true)]
    async fn a_loop_over_another_stream_ends_with_the_stretch() {
        let stretch = Stretch::default();
        let mut requests = stretch.within(stream::iter(0..100));
        let taken = stream::poll_fn(move |context| {
            let mut taken = Vec::new();
            for _ in 0..10 {
                while let Poll::Ready(Some(request)) = requests.poll_next_unpin(context) {
                    taken.push(request);
                    // The clock moves with the first poll.
                    let _ = advance(Duration::from_millis(1)).now_or_never();
                }
            }
            match taken.is_empty() {
                true => Poll::Pending,
                false => Poll::Ready(Some(taken)),
            }
        });
        let mut read = stretch.read(taken);
        assert_eq!(read.next().now_or_never(), Some(Some(vec![0, 1])));
        assert_eq!(read.next().now_or_never(), None, "others run");
        assert_eq!(read.next().now_or_never(), Some(Some(vec![2, 3])));
    }
}
