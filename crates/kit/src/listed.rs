//! Whether a store has had its first list.

use tokio::sync::watch;

/// Tells any number of readers that a store has had its first list.
///
/// `Store::wait_until_ready` of kube-runtime keeps the waker of the reader that was polled last, and wakes no other.
#[derive(Clone, Debug)]
pub struct Listed(watch::Receiver<bool>);

impl Listed {
    /// Waits for the first list. False if the watch ended before it, on shutdown.
    pub async fn wait(mut self) -> bool {
        self.0.wait_for(|listed| *listed).await.is_ok()
    }

    /// Whether the store has had its first list by now.
    #[must_use]
    pub fn already(&self) -> bool {
        *self.0.borrow()
    }
}

/// The writer of a [`Listed`].
pub(crate) struct Listing(watch::Sender<bool>);

impl Listing {
    pub(crate) fn start() -> (Self, Listed) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), Listed(receiver))
    }

    pub(crate) fn finished(&self) {
        self.0.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    #[tokio::test]
    async fn every_reader_is_told() {
        let (listing, listed) = Listing::start();
        assert!(!listed.already());
        let readers = (0..3).map(|_| tokio::spawn(listed.clone().wait())).collect::<Vec<_>>();
        tokio::task::yield_now().await;
        listing.finished();
        let told = join_all(readers).await.into_iter().map(Result::unwrap).collect::<Vec<_>>();
        assert_eq!((told, listed.already()), (vec![true; 3], true));
    }

    #[tokio::test]
    async fn readers_are_told_when_the_watch_ends_before() {
        let (listing, listed) = Listing::start();
        drop(listing);
        assert!(!listed.wait().await);
    }
}
