//! HTTP on one connection.

use std::{error::Error, pin::Pin, sync::Arc, time::Duration};

use http::{
    HeaderValue, Method, Request, Response,
    header::{CONNECTION, CONTENT_LENGTH},
};
use http_body::Body;
use http_body_util::Empty;
use hyper::{
    body::Incoming,
    rt::Executor,
    server::conn::{http1, http2},
    service::{Service, service_fn},
};
use hyper_util::rt::TokioIo;
use nephele_budget::{Budget, Grant};
use nephele_poll_time::timed;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_rustls::server::TlsStream;
use tokio_util::{either::Either, task::TaskTracker};

use crate::{
    body::RequestBody,
    limits::Limits,
    paced::Paced,
    response::{Counted, Unread},
};

/// The longest head of a request, in bytes. Most of it is a bearer token or a cookie. Go's default of 1 MiB is more
/// than any client needs.
const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Bytes of responses that may wait on one HTTP/2 stream until the client's window has room.
const SEND_BYTES_MAX: usize = 64 * 1024;

/// The version of HTTP that a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

impl Protocol {
    /// The version that TLS negotiated (ALPN); HTTP/1.1 if nothing was negotiated.
    pub fn negotiated<IO>(stream: &TlsStream<IO>) -> Self {
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            Self::Http2
        } else {
            Self::Http1
        }
    }
}

/// Serves HTTP on connections. Cheap to clone.
#[derive(Clone)]
pub struct Http {
    pub limits: Limits,
    /// Tracks the tasks for streams of HTTP/2 connections and for the reading of unwanted bodies.
    pub tasks: TaskTracker,
    /// Memory for responses that are not written yet. When it is short, the connection ends that made no progress for
    /// longest.
    pub responses: Budget,
}

impl Http {
    /// With a budget of [`Limits::responses_bytes_max`] of its own.
    #[must_use]
    pub fn new(limits: Limits, tasks: TaskTracker) -> Self {
        let bytes = limits.responses_bytes_max;
        Self {
            limits,
            tasks,
            responses: Budget::new(bytes, bytes),
        }
    }

    /// Serves requests on one connection until the client closes it, it has been idle for too long, or `stop` is
    /// ready. In the last two cases requests in flight have [`Limits::drain`] to end. `grant` is the connection's
    /// place, which each request marks as used.
    ///
    /// If a request upgrades the connection, the connection belongs to the upgrade from then on.
    ///
    /// The future is small, because a future that is moved into another one takes its size twice. The connection is
    /// allocated once, in the size that its protocol takes.
    ///
    /// # Errors
    /// When the connection breaks, or the client breaks the protocol.
    pub fn serve<IO, S, B, Stop>(
        &self,
        io: IO,
        protocol: Protocol,
        service: S,
        grant: Option<Arc<Grant>>,
        stop: Stop,
    ) -> impl Future<Output = Result<(), hyper::Error>> + use<IO, S, B, Stop>
    where
        Stop: Future<Output = ()>,
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Service<Request<RequestBody>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn Error + Send + Sync>> + Send,
        B: Body + Unpin + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let Limits {
            body,
            drain,
            idle,
            stall,
            ..
        } = self.limits;
        let unread = Unread::new(&self.responses, self.limits.responses_bytes_max / 2);
        let activity = Activity::new(grant);
        let quiet = activity.clone();
        let slow = Arc::clone(&unread);
        let ended = Box::pin(async move {
            tokio::select! {
                () = stop => {}
                () = quiet.idle_for(idle, stall, &slow) => tracing::debug!("Ending an idle connection"),
                () = slow.revoked() => tracing::debug!("Ending a connection whose responses are not read"),
            }
        });
        let tasks = self.tasks.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let in_flight = activity.begin();
            let is_head = request.method() == Method::HEAD;
            let (request, closes) = RequestBody::of(request, body, &tasks);
            // The task of an HTTP/2 stream lives as long as the response, and has the size of this future.
            let answer = Box::pin(service.call(request));
            let unread = Arc::clone(&unread);
            async move {
                let (mut head, body) = answer.await?.into_parts();
                if closes.get() {
                    head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
                }
                if is_head {
                    // On HTTP/2 hyper sends the body that it gets, and clients treat data after HEAD as a protocol
                    // error.
                    if let Some(length) = body.size_hint().exact() {
                        head.headers
                            .entry(CONTENT_LENGTH)
                            .or_insert_with(|| length.into());
                    }
                    return Ok(Response::from_parts(
                        head,
                        http_body_util::Either::Left(Empty::new()),
                    ));
                }
                // The request is in flight until the whole response is sent: a watch is a long response.
                let body = Counted::new(body, unread, in_flight);
                Ok::<_, S::Error>(Response::from_parts(head, http_body_util::Either::Right(body)))
            }
        });
        let io = TokioIo::new(Paced::new(io));
        match protocol {
            Protocol::Http2 => {
                let connection = http2::Builder::new(Tracked(self.tasks.clone()))
                    .max_concurrent_streams(self.limits.streams_max)
                    .initial_stream_window_size(self.limits.stream_window)
                    .initial_connection_window_size(self.limits.connection_window)
                    .max_send_buf_size(SEND_BYTES_MAX)
                    .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).expect("some kilobytes"))
                    .serve_connection(io, service);
                Either::Left(run(
                    Box::pin(connection),
                    http2::Connection::graceful_shutdown,
                    ended,
                    drain,
                ))
            }
            Protocol::Http1 => {
                // `Activity` counts the idle time for both protocols, including the time for the head of a request.
                let connection = http1::Builder::new()
                    .header_read_timeout(None)
                    .max_buf_size(HEAD_BYTES_MAX)
                    .serve_connection(io, service)
                    .with_upgrades();
                Either::Right(run(
                    Box::pin(connection),
                    http1::UpgradeableConnection::graceful_shutdown,
                    ended,
                    drain,
                ))
            }
        }
    }
}

/// Runs a connection until it ends. If `ended` is ready first, requests in flight have at most `drain` to end.
async fn run<C>(
    mut connection: Pin<Box<C>>,
    graceful_shutdown: fn(Pin<&mut C>),
    ended: impl Future<Output = ()>,
    drain: Duration,
) -> Result<(), hyper::Error>
where
    C: Future<Output = Result<(), hyper::Error>>,
{
    tokio::select! {
        result = connection.as_mut() => result,
        () = ended => {
            graceful_shutdown(connection.as_mut());
            timeout(drain, connection).await.unwrap_or(Ok(()))
        }
    }
}

/// Runs the streams of a connection as tracked tasks.
#[derive(Clone)]
struct Tracked(TaskTracker);

impl<F> Executor<F> for Tracked
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(timed("HTTP/2 stream", future));
    }
}

/// The requests in flight on a connection.
#[derive(Clone)]
struct Activity(Arc<Shared>);

struct Shared {
    requests: Mutex<Requests>,
    grant: Option<Arc<Grant>>,
}

struct Requests {
    in_flight: usize,
    /// When the last request in flight ended, or when the connection began if there was none.
    idle_since: Instant,
}

impl Activity {
    fn new(grant: Option<Arc<Grant>>) -> Self {
        let requests = Mutex::new(Requests {
            in_flight: 0,
            idle_since: Instant::now(),
        });
        Self(Arc::new(Shared { requests, grant }))
    }

    fn begin(&self) -> InFlight {
        self.0.requests.lock().in_flight += 1;
        self.touch();
        InFlight(self.clone())
    }

    fn touch(&self) {
        if let Some(grant) = &self.0.grant {
            grant.touch();
        }
    }

    /// Waits until no request has been in flight for `limit`, or until a response has not been read for `stall`, or twice
    /// as long at most.
    async fn idle_for(&self, limit: Duration, stall: Duration, unread: &Unread) {
        loop {
            let idle_since = {
                let requests = self.0.requests.lock();
                (requests.in_flight == 0).then_some(requests.idle_since)
            };
            match idle_since {
                Some(since) if since.elapsed() >= limit => return,
                Some(since) => sleep_until(since + limit).await,
                // The idle time starts when the request ends.
                None => {
                    sleep(limit.min(stall)).await;
                    if unread.next_round() {
                        return;
                    }
                }
            }
        }
    }
}

struct InFlight(Activity);

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut requests = self.0.0.requests.lock();
        requests.in_flight -= 1;
        requests.idle_since = Instant::now();
        drop(requests);
        self.0.touch();
    }
}
