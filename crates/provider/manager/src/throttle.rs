//! Limits the rate of requests to the management API, and counts the requests.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response};
use parking_lot::Mutex;
use prometheus::IntCounterVec;
use tokio::time::{Instant, sleep_until};
use tower::{Layer, Service};

/// The allowed rate of requests to the management API, on average and in bursts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestRate {
    /// Requests per second in the long run.
    pub per_second: f64,
    /// Requests that may be sent at once after a quiet time.
    pub burst: u32,
}

impl Default for RequestRate {
    /// A claim for an address needs three writes, so this is about 300 claims a second, more than an API server on a
    /// few cores serves. The API server's own priority and fairness limits the load. This limit only guards against
    /// mistakes.
    fn default() -> Self {
        Self {
            per_second: 1000.0,
            burst: 2000,
        }
    }
}

/// A token bucket that assigns a time to each request. Pure.
#[derive(Debug)]
struct Bucket {
    interval: Duration,
    tolerance: Duration,
    /// When the bucket will be full again if no token is taken.
    full_at: Instant,
}

impl Bucket {
    fn new(rate: RequestRate, now: Instant) -> Self {
        let interval = Duration::try_from_secs_f64(1.0 / rate.per_second).unwrap_or(Duration::ZERO);
        Self {
            interval,
            tolerance: interval.saturating_mul(rate.burst.saturating_sub(1)),
            full_at: now,
        }
    }

    /// Takes a token and returns the time when the request may be sent.
    fn turn(&mut self, now: Instant) -> Instant {
        let full_at = self.full_at.max(now);
        self.full_at = full_at + self.interval;
        full_at
            .checked_sub(self.tolerance)
            .map_or(now, |turn| turn.max(now))
    }
}

/// Adds [`RequestRate`] and the counter `rest_client_requests_total` to a client.
#[derive(Clone)]
pub(crate) struct ThrottleLayer {
    bucket: Arc<Mutex<Bucket>>,
    requests: IntCounterVec,
    host: Arc<str>,
}

impl ThrottleLayer {
    /// `host` is the host of the management API, which requests do not have yet at this layer.
    pub(crate) fn new(rate: RequestRate, requests: IntCounterVec, host: &str) -> Self {
        Self {
            bucket: Arc::new(Mutex::new(Bucket::new(rate, Instant::now()))),
            requests,
            host: host.into(),
        }
    }
}

impl<S> Layer<S> for ThrottleLayer {
    type Service = Throttled<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let Self {
            bucket,
            requests,
            host,
        } = self.clone();
        Throttled {
            inner,
            bucket,
            requests,
            host,
        }
    }
}

pub(crate) struct Throttled<S> {
    inner: S,
    bucket: Arc<Mutex<Bucket>>,
    requests: IntCounterVec,
    host: Arc<str>,
}

impl<S, A, B> Service<Request<A>> for Throttled<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
    B: 'static,
    S::Error: 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = futures::future::BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let turn = self.bucket.lock().turn(Instant::now());
        let requests = self.requests.clone();
        let method = request.method().as_str().to_owned();
        let host = Arc::clone(&self.host);
        // The request is sent when this future is polled, after the wait.
        let answer = self.inner.call(request);
        Box::pin(async move {
            if turn > Instant::now() {
                sleep_until(turn).await;
            }
            let result = answer.await;
            let code = match &result {
                Ok(response) => response.status().as_str().to_owned(),
                Err(_) => "<error>".to_owned(),
            };
            requests.with_label_values(&[code.as_str(), &method, &host]).inc();
            result
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_at_once_and_the_rest_in_turn() {
        let start = Instant::now();
        let mut bucket = Bucket::new(
            RequestRate {
                per_second: 10.0,
                burst: 3,
            },
            start,
        );
        let waits: Vec<u128> = (0..6).map(|_| (bucket.turn(start) - start).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200, 300]);
    }

    #[test]
    fn a_quiet_time_fills_the_bucket_to_the_burst_and_no_further() {
        let start = Instant::now();
        let mut bucket = Bucket::new(
            RequestRate {
                per_second: 10.0,
                burst: 2,
            },
            start,
        );
        let later = start + Duration::from_secs(60);
        bucket.turn(start);
        let waits: Vec<u128> = (0..4).map(|_| (bucket.turn(later) - later).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100, 200]);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_wait_their_turn_and_are_counted_by_answer() {
        let opts = prometheus::Opts::new("requests_total", "Requests.");
        let requests = IntCounterVec::new(opts, &["code", "method", "host"]).expect("a valid name");
        let rate = RequestRate {
            per_second: 1.0,
            burst: 1,
        };
        let layer = ThrottleLayer::new(rate, requests.clone(), "example.org:6443");
        let mut service = layer.layer(tower::service_fn(|request: Request<()>| async move {
            match request.uri().path() {
                "/broken" => Err(std::io::Error::other("connection reset")),
                _ => Ok(Response::new(())),
            }
        }));
        let started = Instant::now();
        let mut seconds = Vec::new();
        for path in ["/api", "/api", "/broken"] {
            let request = Request::get(path).body(()).expect("a request");
            let _ = service.call(request).await;
            seconds.push(started.elapsed().as_secs());
        }
        assert_eq!(seconds, [0, 1, 2]);
        let count = |code: &str| {
            requests
                .with_label_values(&[code, "GET", "example.org:6443"])
                .get()
        };
        assert_eq!((count("200"), count("<error>")), (2, 1));
    }
}
