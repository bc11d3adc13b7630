//! The connection of one manager to the management API, with simulated failures.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use futures::StreamExt as _;
use http::{Method, Request, Response, StatusCode, header};
use kube::Client;
use nephele_apiserver::ApiServer;
use parking_lot::Mutex;
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use crate::scenario::draws_about;

/// The kinds whose objects may be hidden: the end of their path, and the kind of their list.
const AWAY: [(&str, &str); 3] = [
    ("/inmemoryclusters", "InMemoryClusterList"),
    ("/inmemorymachines", "InMemoryMachineList"),
    ("/inmemorymachinepools", "InMemoryMachinePoolList"),
];

/// A request at the moment when a manager sends it.
pub(crate) struct Sent<'a> {
    pub(crate) identity: &'a str,
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
}

/// Called for each request before it is sent.
pub(crate) type Witness = Arc<dyn Fn(&Sent<'_>) + Send + Sync>;

/// The state of connections; shared by all connections of a world.
pub(crate) struct Conditions {
    /// Whether requests fail at random.
    pub(crate) trouble: Arc<AtomicBool>,
    /// Whether the objects of clusters and machines are hidden from managers.
    pub(crate) away: Arc<AtomicBool>,
}

/// The connection of one manager.
pub(crate) struct Connection {
    server: ApiServer,
    seed: u64,
    /// The identity of the manager that is connected.
    identity: String,
    conditions: Conditions,
    witness: Witness,
    /// How often each request was made, by method and path.
    requests: Mutex<HashMap<String, u64>>,
    frozen_until: Mutex<Instant>,
    severed: AtomicBool,
}

/// What happens to one request.
enum Fate {
    Arrives,
    /// It never arrives.
    Lost,
    /// It arrives, but the answer does not.
    AnswerLost,
    /// It arrives long after its sender got a connection error.
    GivenUp,
    /// The server answers with this error and does nothing.
    Refused(StatusCode, &'static str),
}

impl Fate {
    fn draw(draws: &mut ChaCha8Rng, is_update: bool) -> Self {
        match draws.random_range(0..120_u8) {
            0..3 => Self::Lost,
            3..6 => Self::AnswerLost,
            6..8 => Self::GivenUp,
            8..11 if is_update => Self::Refused(StatusCode::CONFLICT, "Conflict"),
            11..13 => Self::Refused(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            13 => Self::Refused(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
            _ => Self::Arrives,
        }
    }
}

/// What happens to one watch.
enum WatchFate {
    Lasts,
    /// It ends after some time, and no events are delivered until the manager watches again.
    Cut(Duration),
    /// The resourceVersion is too old: the server answers that it expired.
    Expired,
}

impl WatchFate {
    fn draw(draws: &mut ChaCha8Rng) -> Self {
        match draws.random_range(0..20_u8) {
            0 => Self::Expired,
            1..5 => Self::Cut(Duration::from_millis(draws.random_range(1..40_000))),
            _ => Self::Lasts,
        }
    }
}

impl Connection {
    pub(crate) fn new(
        server: ApiServer,
        seed: u64,
        identity: String,
        conditions: Conditions,
        witness: Witness,
    ) -> Arc<Self> {
        Arc::new(Self {
            server,
            seed,
            identity,
            conditions,
            witness,
            requests: Mutex::default(),
            frozen_until: Mutex::new(Instant::now()),
            severed: AtomicBool::new(false),
        })
    }

    pub(crate) fn client(self: &Arc<Self>) -> Client {
        let connection = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let connection = Arc::clone(&connection);
            async move { connection.send(request.map(Body::new)).await }
        });
        Client::new(service, "default")
    }

    /// For this time nothing arrives on either side; afterwards everything arrives.
    pub(crate) fn freeze(&self, time: Duration) {
        *self.frozen_until.lock() = Instant::now() + time;
    }

    pub(crate) fn thaw(&self) {
        *self.frozen_until.lock() = Instant::now();
    }

    /// The process is gone: none of its later requests arrives.
    pub(crate) fn sever(&self) {
        self.severed.store(true, Ordering::Relaxed);
    }

    async fn thawed(&self) {
        loop {
            let until = *self.frozen_until.lock();
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }

    async fn send(self: Arc<Self>, request: Request<Body>) -> io::Result<Response<Body>> {
        if self.severed.load(Ordering::Relaxed) {
            return Err(lost());
        }
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        (self.witness)(&Sent {
            identity: &self.identity,
            method: &method,
            path: &path,
        });
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        let kind = AWAY
            .iter()
            .find(|(end, _)| method == Method::GET && path.ends_with(end));
        if let Some((_, list)) = kind.filter(|_| self.conditions.away.load(Ordering::Relaxed)) {
            return Ok(self.nothing(is_watch, list).await);
        }
        let number = self.number_of(format!("{method} {path} {is_watch}"));
        let mut draws = draws_about(self.seed, &[&self.identity, method.as_str(), &path], number);
        if !self.conditions.trouble.load(Ordering::Relaxed) {
            self.thawed().await;
            return self.answer(request).await;
        }
        if is_watch {
            return self.watch(request, WatchFate::draw(&mut draws)).await;
        }
        let is_update = matches!(method, Method::PUT | Method::PATCH);
        let fate = Fate::draw(&mut draws, is_update);
        self.carry(request, fate, draws).await
    }

    /// Counts a request. Returns how many there were of it.
    fn number_of(&self, request: String) -> u64 {
        let mut requests = self.requests.lock();
        let count = requests.entry(request).or_default();
        *count += 1;
        *count
    }

    /// Carries a request to its fate, with delays.
    async fn carry(
        self: Arc<Self>,
        request: Request<Body>,
        fate: Fate,
        mut draws: ChaCha8Rng,
    ) -> io::Result<Response<Body>> {
        let mut delay = || match draws.random_range(0..10_u8) {
            0 => Duration::from_millis(draws.random_range(0..4_000)),
            _ => Duration::from_millis(draws.random_range(0..20)),
        };
        let before = delay();
        let after = delay();
        let late = Duration::from_millis(draws.random_range(0..30_000));
        let connection = Arc::clone(&self);
        let deliver = async move |before: Duration| {
            sleep(before).await;
            connection.thawed().await;
            let response = connection.answer(request).await;
            sleep(after).await;
            connection.thawed().await;
            response
        };
        match fate {
            Fate::Lost => {
                sleep(before).await;
                Err(lost())
            }
            Fate::Refused(code, reason) => {
                sleep(before).await;
                Ok(refusal(code, reason))
            }
            Fate::GivenUp => {
                tokio::spawn(deliver(late));
                sleep(before).await;
                Err(lost())
            }
            // In a task of its own, because the request arrives even if its sender is gone.
            Fate::AnswerLost => {
                let _ = tokio::spawn(deliver(before)).await;
                Err(lost())
            }
            Fate::Arrives => tokio::spawn(deliver(before)).await.map_err(io::Error::other)?,
        }
    }

    /// The answer for hidden objects: an empty list, or a watch that ends as expired when they are visible again.
    async fn nothing(&self, is_watch: bool, list: &str) -> Response<Body> {
        if is_watch {
            while self.conditions.away.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(500)).await;
            }
            return refusal(StatusCode::GONE, "Expired");
        }
        let api_version = "infrastructure.cluster.x-k8s.io/v1beta2";
        let metadata = json!({ "resourceVersion": "1" });
        json_body(&json!({ "kind": list, "apiVersion": api_version, "metadata": metadata, "items": [] }))
    }

    async fn answer(&self, request: Request<Body>) -> io::Result<Response<Body>> {
        Ok(self.server.handle(request).await)
    }

    async fn watch(&self, request: Request<Body>, fate: WatchFate) -> io::Result<Response<Body>> {
        self.thawed().await;
        match fate {
            WatchFate::Lasts => self.answer(request).await,
            WatchFate::Expired => Ok(refusal(StatusCode::GONE, "Expired")),
            WatchFate::Cut(after) => {
                let (head, body) = self.answer(request).await?.into_parts();
                let frames = body.into_data_stream().take_until(Box::pin(sleep(after)));
                Ok(Response::from_parts(head, Body::from_stream(frames)))
            }
        }
    }
}

fn lost() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the connection was lost")
}

fn refusal(code: StatusCode, reason: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "code": code.as_u16(), "message": format!("the world answers {reason}"),
        "details": { "retryAfterSeconds": 1 },
    });
    let mut response = json_body(&status);
    *response.status_mut() = code;
    response
}

fn json_body(value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
