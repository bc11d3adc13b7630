use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Version, header::EXPECT};
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

/// The most bytes of an unwanted body that are read to keep the connection; the limit of Go's server
/// (net/http/server.go, `maxPostHandlerReadBytes`).
const UNWANTED_BYTES_MAX: u64 = 256 * 1024;

/// How long the rest of a body is read before the connection closes. A closed socket answers data with a reset, which
/// can destroy the response before the client has read it (RFC 9112, section 9.6).
const LINGER: Duration = Duration::from_secs(1);

/// The body of a request, which has to arrive in time.
///
/// With HTTP/1.1 the next request follows the body on the connection. So the rest of a body that is dropped early is
/// still read, up to a limit. If the rest is longer, the connection closes, and the response says so.
#[derive(Debug)]
pub struct RequestBody {
    /// None once the body is dropped.
    incoming: Option<Incoming>,
    limit: Duration,
    deadline: Instant,
    /// Created at the first wait for the body, because most requests have no body.
    timer: Option<Pin<Box<Sleep>>>,
    /// None if the next request does not have to wait for the end of this body.
    rest: Option<Rest>,
}

/// How the rest of an unwanted body is read.
#[derive(Debug)]
struct Rest {
    /// The tracker of the tasks that read rests of bodies.
    tasks: TaskTracker,
    /// Whether the client waits for `100 Continue`. Such a client may never send the body.
    is_expected: bool,
    closes: Arc<AtomicBool>,
}

/// Whether the connection closes after a request. The response has to say so, or the client would send its next
/// request on this connection.
pub(crate) struct Closes(Option<Arc<AtomicBool>>);

impl Closes {
    /// Whether the connection closes, as far as known. Call it when the response is ready.
    pub(crate) fn get(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|closes| closes.load(Ordering::Relaxed))
    }
}

impl RequestBody {
    /// The body of a request, which has to arrive within `limit`. A task of `tasks` reads the rest of a dropped body.
    pub(crate) fn of(
        request: Request<Incoming>,
        limit: Duration,
        tasks: &TaskTracker,
    ) -> (Request<Self>, Closes) {
        let is_followed = request.version() < Version::HTTP_2 && !request.body().is_end_stream();
        let closes = is_followed.then(Arc::<AtomicBool>::default);
        let rest = closes.clone().map(|closes| Rest {
            tasks: tasks.clone(),
            is_expected: request.headers().contains_key(EXPECT),
            closes,
        });
        let deadline = Instant::now() + limit;
        let request = request.map(|incoming| Self {
            incoming: Some(incoming),
            limit,
            deadline,
            timer: None,
            rest,
        });
        (request, Closes(closes))
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let (Some(incoming), Some(rest)) = (self.incoming.take(), &self.rest) else {
            return;
        };
        if incoming.is_end_stream() {
            return;
        }
        let is_short = incoming
            .size_hint()
            .exact()
            .is_some_and(|left| left <= UNWANTED_BYTES_MAX);
        let now = Instant::now();
        let closes = rest.is_expected || !is_short || self.deadline <= now;
        rest.closes.store(closes, Ordering::Relaxed);
        if !rest.is_expected {
            let until = if closes {
                self.deadline.min(now + LINGER)
            } else {
                self.deadline
            };
            rest.tasks.spawn(timeout_at(until, discard(incoming)));
        }
    }
}

async fn discard(mut incoming: Incoming) {
    while let Some(Ok(_)) = incoming.frame().await {}
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
        self.incoming
            .as_ref()
            .map_or_else(SizeHint::default, Incoming::size_hint)
    }
}
