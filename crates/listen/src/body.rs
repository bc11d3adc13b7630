use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::EXPECT;
use http::{Request, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tokio_util::task::TaskTracker;

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

/// Bytes of a body that nobody wants which are still read, as many as Go's server reads (net/http/server.go,
/// `maxPostHandlerReadBytes`).
const UNWANTED_BYTES_MAX: usize = 256 * 1024;

/// The body of a request, which has to arrive in time.
///
/// One that is dropped before its end is read on for a while where the next request can only follow it: HTTP/1.1 would
/// have to close the connection otherwise, and a client that is still sending may never see the answer.
#[derive(Debug)]
pub struct RequestBody {
    /// None once it is dropped.
    incoming: Option<Incoming>,
    limit: Duration,
    deadline: Instant,
    /// Made when the body is first waited for: most requests have none.
    timer: Option<Pin<Box<Sleep>>>,
    /// Where the rest is read, if it has to be.
    discarding: Option<TaskTracker>,
}

impl RequestBody {
    /// The body of a request that has so long to arrive. What is left of it is read as a task of `tasks`.
    pub(crate) fn of(request: Request<Incoming>, limit: Duration, tasks: &TaskTracker) -> Request<Self> {
        // A client that waits for `100 Continue` has sent nothing that would have to be read.
        let discards = request.version() < Version::HTTP_2 && !request.headers().contains_key(EXPECT);
        let discarding = discards.then(|| tasks.clone());
        let deadline = Instant::now() + limit;
        request.map(|incoming| Self { incoming: Some(incoming), limit, deadline, timer: None, discarding })
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let (Some(incoming), Some(tasks)) = (self.incoming.take(), &self.discarding) else { return };
        if !incoming.is_end_stream() {
            // It ends at the deadline, with the connection, or when enough is read.
            tasks.spawn(timeout_at(self.deadline, discard(incoming)));
        }
    }
}

async fn discard(mut incoming: Incoming) {
    let mut read = 0;
    while read <= UNWANTED_BYTES_MAX {
        match incoming.frame().await {
            Some(Ok(frame)) => read += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => return,
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let incoming = self.incoming.as_mut().expect("it is not dropped yet");
        if let Poll::Ready(frame) = Pin::new(incoming).poll_frame(context) {
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
        self.incoming.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(SizeHint::default, Incoming::size_hint)
    }
}
