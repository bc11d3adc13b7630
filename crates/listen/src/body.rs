use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until};

/// Why the body of a request did not arrive.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The client took too long.
    #[error("the body of the request did not arrive within {0:?}")]
    TimedOut(Duration),
    /// The connection broke.
    #[error("failed to read the body of the request")]
    Connection(#[source] hyper::Error),
}

/// The body of a request, which has to arrive in time.
#[derive(Debug)]
pub struct RequestBody {
    incoming: Incoming,
    limit: Duration,
    deadline: Instant,
    /// Made when the body is first waited for: most requests have none.
    timer: Option<Pin<Box<Sleep>>>,
}

impl RequestBody {
    pub(crate) fn new(incoming: Incoming, limit: Duration) -> Self {
        Self { incoming, limit, deadline: Instant::now() + limit, timer: None }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Connection)));
        }
        let deadline = self.deadline;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if !timer.is_elapsed() {
            ready!(timer.as_mut().poll(context));
        }
        Poll::Ready(Some(Err(BodyError::TimedOut(self.limit))))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
