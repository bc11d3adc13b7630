//! The fence between a leader and the API server: requests pass while the process leads, and none passes afterwards.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use http::{Request, Response};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The error of a request that was not sent, or whose response is not awaited, because the process does not lead.
#[derive(Debug, thiserror::Error)]
#[error("this process does not lead any more")]
pub struct NotLeading;

/// Lets requests pass until it is closed, or until the time of the last extension. A closed fence never opens again.
/// Cheap to clone; all clones are the same fence.
#[derive(Debug, Clone, Default)]
pub struct Fence {
    closed: CancellationToken,
    /// `None` if the fence is open until it is closed.
    open_until: Arc<Mutex<Option<Instant>>>,
}

impl Fence {
    /// Lets no request pass any more, and ends the requests that are in flight.
    pub fn close(&self) {
        self.closed.cancel();
    }

    /// Lets requests pass until this time, unless the fence is extended again. A process that was suspended for longer
    /// sends no request when it resumes, whichever of its tasks runs first.
    pub fn extend(&self, until: Instant) {
        *self.open_until.lock() = Some(until);
    }

    /// Whether requests pass.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.closed.is_cancelled() && self.open_until.lock().is_none_or(|until| Instant::now() < until)
    }

    /// A client with this fence in front. Its requests fail once the fence is closed; open watches continue.
    #[must_use]
    pub fn guard(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let valid_until = *client.valid_until();
        let fence = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let client = client.clone();
            let fence = fence.clone();
            async move { fence.pass(client.send(request)).await }
        });
        Client::new(service, namespace).with_valid_until(valid_until)
    }

    /// Checks the fence at each poll of the request, because the request may have waited meanwhile.
    async fn pass(
        &self,
        request: impl Future<Output = Result<Response<Body>, kube::Error>>,
    ) -> Result<Response<Body>, kube::Error> {
        let mut request = pin!(request);
        let mut closed = pin!(self.closed.cancelled());
        poll_fn(|context| {
            if closed.as_mut().poll(context).is_ready() || !self.is_open() {
                return Poll::Ready(Err(kube::Error::Service(Box::new(NotLeading))));
            }
            request.as_mut().poll(context)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use tokio::time::{advance, sleep};

    use super::*;

    /// A client whose requests are sent after one second and answered after another second.
    fn slow() -> (Client, Arc<AtomicUsize>) {
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&sent);
        let service = tower::service_fn(move |_: Request<Body>| {
            let sent = Arc::clone(&counted);
            async move {
                sleep(Duration::from_secs(1)).await;
                sent.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_secs(1)).await;
                Ok::<_, Infallible>(Response::new(Body::empty()))
            }
        });
        (Client::new(service, "default"), sent)
    }

    async fn ask(client: &Client) -> Result<(), String> {
        let request = Request::get("/version").body(Body::empty()).expect("a request");
        client
            .send(request)
            .await
            .map(drop)
            .map_err(|error| crate::chain(&error))
    }

    #[tokio::test(start_paused = true)]
    async fn requests_pass_until_the_fence_is_closed_and_those_on_their_way_end_at_once() {
        let (client, sent) = slow();
        let fence = Fence::default();
        let client = fence.guard(client);
        assert_eq!(ask(&client).await, Ok(()));
        let waiting = tokio::spawn({
            let client = client.clone();
            async move { ask(&client).await }
        });
        sleep(Duration::from_millis(500)).await;
        let closed_at = Instant::now();
        fence.close();
        let refused = waiting.await.expect("no panic").expect_err("it does not lead");
        assert!(refused.contains("does not lead"), "{refused}");
        assert!(ask(&client).await.is_err());
        assert_eq!(
            (sent.load(Ordering::Relaxed), closed_at.elapsed()),
            (1, Duration::ZERO)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_slept_beyond_its_time_sends_nothing_that_waited_for_its_turn() {
        let (client, sent) = slow();
        let fence = Fence::default();
        fence.extend(Instant::now() + Duration::from_secs(10));
        let guarded = fence.guard(client);
        let waiting = tokio::spawn({
            let client = guarded.clone();
            async move { ask(&client).await }
        });
        tokio::task::yield_now().await;
        advance(Duration::from_secs(11)).await;
        assert!(waiting.await.expect("no panic").is_err());
        assert_eq!((sent.load(Ordering::Relaxed), fence.is_open()), (0, false));
    }
}
