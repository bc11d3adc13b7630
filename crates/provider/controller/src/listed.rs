//! Whether the first list of a watch is complete.

use tokio::sync::watch;

/// Tells any number of readers that the first list of a watch is complete.
///
/// `Store::wait_until_ready` of kube-runtime keeps the waker of the reader that was polled last, and wakes no other.
#[derive(Clone, Debug)]
pub struct Listed(watch::Receiver<bool>);

impl Listed {
    /// Waits for the first list. False if the watch ended before it, on shutdown.
    pub async fn wait(mut self) -> bool {
        self.0.wait_for(|listed| *listed).await.is_ok()
    }

    /// Whether both tell of the same watch.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }

    /// Whether the first list is complete by now.
    #[must_use]
    pub fn already(&self) -> bool {
        *self.0.borrow()
    }
}

/// The first list of a watch, as its writer has it.
#[derive(Debug)]
pub struct Listing(watch::Sender<bool>);

impl Listing {
    /// A list that is not complete, and what its readers wait for.
    #[must_use]
    pub fn start() -> (Self, Listed) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), Listed(receiver))
    }

    /// Tells the readers that the list is complete. Returns whether they had been told before.
    pub fn finished(&self) -> bool {
        self.0.send_replace(true)
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
        let readers = (0..3)
            .map(|_| tokio::spawn(listed.clone().wait()))
            .collect::<Vec<_>>();
        tokio::task::yield_now().await;
        let before = [listing.finished(), listing.finished()];
        let told = join_all(readers)
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect::<Vec<_>>();
        assert_eq!(
            (told, listed.already(), before),
            (vec![true; 3], true, [false, true])
        );
    }

    #[tokio::test]
    async fn readers_are_told_when_the_watch_ends_before() {
        let (listing, listed) = Listing::start();
        drop(listing);
        assert!(!listed.wait().await);
    }
}
