//! All requests of the controllers for a claim while the watch of claims lags, and the order in which they serve claims
//! while the management API is slower than they are.
//!
//! Time is paused: it jumps to the next timer.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use axum::body::Body;
use futures::{StreamExt as _, future::join_all, stream};
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use nephele_api::ipam::{
    PoolKind,
    v1beta2::{IPAddress, IPAddressClaim},
};
use nephele_testkit::{ManagementApi, objects::NAMESPACE};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    sync::{Semaphore, mpsc},
    time::{Instant, sleep, sleep_until},
};

use crate::world::{World, settings, spec};

const CLAIMS: usize = 60;

/// The lag of the watch of claims: far longer than a release takes.
const LAG: Duration = Duration::from_secs(2);
/// The most parts of watches that are delayed at the same time; more than the claims cause.
const ON_THEIR_WAY_MAX: usize = 10_000;

/// How long the busy management API works on a request.
const WORK: Duration = Duration::from_millis(10);

/// One request of the controllers that is not a watch.
#[derive(Debug)]
struct Sent {
    /// Method, plural, and subresource after a slash, with the code of the response unless it is a success.
    what: String,
    /// The object's name, empty for a list.
    name: String,
    /// Positions in the order of all requests and responses.
    sent: usize,
    answered: usize,
}

#[derive(Default)]
struct Log {
    events: Mutex<usize>,
    requests: Mutex<Vec<Sent>>,
}

impl Log {
    fn event(&self) -> usize {
        let mut events = self.events.lock();
        *events += 1;
        *events
    }

    /// Takes the requests that were sent since the last call.
    fn take(&self) -> Vec<Sent> {
        std::mem::take(&mut *self.requests.lock())
    }

    /// A client with a limit of requests in progress, each of which takes [`WORK`].
    fn busy_client(api: &ManagementApi, at_a_time: usize) -> Client {
        let server = api.server().clone();
        let work = Arc::new(Semaphore::new(at_a_time));
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let server = server.clone();
            let work = Arc::clone(&work);
            async move {
                if !request
                    .uri()
                    .query()
                    .is_some_and(|query| query.contains("watch="))
                {
                    let _permit = work.acquire().await.expect("it is never closed");
                    sleep(WORK).await;
                }
                let response: Response<Body> = server.handle(request.map(Body::new)).await;
                Ok::<_, Infallible>(response)
            }
        });
        Client::new(service, NAMESPACE)
    }

    /// A client that records its requests, and whose watches of claims lag.
    fn client(self: &Arc<Self>, api: &ManagementApi) -> Client {
        let log = Arc::clone(self);
        let server = api.server().clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let log = Arc::clone(&log);
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.expect("it is in memory").to_bytes();
                let path = head.uri.path().to_owned();
                let query = head.uri.query().unwrap_or_default();
                let watches = query.contains("watch=");
                let (mut what, mut name) = described(&path);
                if head.method == Method::POST {
                    let object: Value = serde_json::from_slice(&body).expect("JSON");
                    object["metadata"]["name"]
                        .as_str()
                        .unwrap_or_default()
                        .clone_into(&mut name);
                }
                what = format!("{} {what}", head.method);
                let sent = log.event();
                let response: Response<Body> =
                    server.handle(Request::from_parts(head, Body::from(body))).await;
                if !response.status().is_success() {
                    what = format!("{what} {}", response.status().as_u16());
                }
                let answered = log.event();
                Ok::<_, Infallible>(match (watches, what.as_str()) {
                    (true, "GET ipaddressclaims") => response.map(behind),
                    (true, _) => response,
                    (false, _) => {
                        log.requests.lock().push(Sent {
                            what,
                            name,
                            sent,
                            answered,
                        });
                        response
                    }
                })
            }
        });
        Client::new(service, NAMESPACE)
    }
}

/// The plural with the subresource, and the name.
fn described(path: &str) -> (String, String) {
    let mut parts = path
        .trim_start_matches("/apis/")
        .trim_start_matches("/api/")
        .split('/')
        .skip(2)
        .peekable();
    if parts.next_if_eq(&"namespaces").is_some() {
        parts.next();
    }
    let plural = parts.next().unwrap_or_default();
    let name = parts.next().unwrap_or_default();
    let separator = if parts.peek().is_some() { "/" } else { "" };
    (
        format!("{plural}{separator}{}", parts.next().unwrap_or_default()),
        name.to_owned(),
    )
}

/// Delays all watch events by [`LAG`], in order. They are read when they are sent, as a connection does, however slowly the
/// client takes them.
fn behind(body: Body) -> Body {
    let (on_their_way, arrived) = mpsc::channel(ON_THEIR_WAY_MAX);
    tokio::spawn(async move {
        let mut news = body.into_data_stream();
        while let Some(frames) = news.next().await {
            if on_their_way.send((Instant::now() + LAG, frames)).await.is_err() {
                return;
            }
        }
    });
    Body::from_stream(stream::unfold(arrived, |mut arrived| async move {
        let (due, frames) = arrived.recv().await?;
        sleep_until(due).await;
        Some((frames, arrived))
    }))
}

/// How often each request was sent, without writes of the pool, whose number is checked here.
fn tally(requests: &[Sent]) -> BTreeMap<&str, usize> {
    let mut tally = BTreeMap::new();
    for request in requests {
        *tally.entry(request.what.as_str()).or_default() += 1;
    }
    let of_pool = tally.remove("PATCH inclusterippools/status").unwrap_or_default();
    assert!(of_pool <= CLAIMS / 5, "{of_pool} writes of the pool");
    tally
}

/// Checks that for each claim the first request was answered before the second one was sent.
fn assert_order(requests: &[Sent], first: &str, second: &str) {
    let of = |what: &str| -> BTreeMap<&str, &Sent> {
        let such = requests.iter().filter(|request| request.what == what);
        such.map(|request| (request.name.as_str(), request)).collect()
    };
    let firsts = of(first);
    let seconds = of(second);
    assert_eq!(firsts.len(), CLAIMS);
    for (name, first) in firsts {
        assert!(
            first.answered < seconds[name].sent,
            "{first:?} and {:?}",
            seconds[name]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_twice_and_nothing_out_of_turn_while_the_watch_is_behind() {
    let api = ManagementApi::start();
    let log = Arc::new(Log::default());
    let client = log.client(&api);
    let world = World::through(api, client, settings());
    world.pool("pool", spec(&["10.0.0.0/16"], 16, "10.0.0.1")).await;
    world.counts("pool", [65533, 0, 65533, 0]).await;
    let names: Vec<String> = (0..CLAIMS).map(|number| format!("claim-{number}")).collect();
    log.take();
    join_all(
        names
            .iter()
            .map(|name| world.claim(name, PoolKind::InClusterIPPool, "pool")),
    )
    .await;
    join_all(names.iter().map(|name| world.bound(name))).await;
    sleep(LAG * 5).await;
    let bind = log.take();
    let expected = [
        ("PATCH ipaddressclaims", CLAIMS),
        ("PATCH ipaddressclaims/status", CLAIMS),
        ("POST ipaddresses", CLAIMS),
    ];
    assert_eq!(tally(&bind), expected.into());
    // The finalizer comes before the address, and the status only after it.
    assert_order(&bind, "PATCH ipaddressclaims", "POST ipaddresses");
    assert_order(&bind, "POST ipaddresses", "PATCH ipaddressclaims/status");

    join_all(
        names
            .iter()
            .map(|name| world.delete::<IPAddressClaim>(NAMESPACE, name)),
    )
    .await;
    join_all(
        names
            .iter()
            .map(|name| world.gone::<IPAddressClaim>(NAMESPACE, name)),
    )
    .await;
    sleep(LAG * 5).await;
    let release = log.take();
    let expected = [
        ("DELETE ipaddresses", CLAIMS),
        ("PATCH ipaddressclaims", CLAIMS),
        ("PATCH ipaddresses", CLAIMS),
    ];
    assert_eq!(tally(&release), expected.into());
    assert_order(&release, "DELETE ipaddresses", "PATCH ipaddressclaims");
    assert_eq!(world.addresses().await, Vec::<IPAddress>::new());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_on_a_pool_of_its_own_is_served_while_many_wait_for_another() {
    const MANY: usize = 700;
    let api = ManagementApi::start();
    let client = Log::busy_client(&api, 4);
    let world = World::through(api, client, settings());
    for pool in ["large", "small"] {
        world.pool(pool, spec(&["10.0.0.0/16"], 16, "10.0.0.1")).await;
        world.counts(pool, [65533, 0, 65533, 0]).await;
    }
    let names: Vec<String> = (0..MANY).map(|number| format!("claim-{number}")).collect();
    join_all(
        names
            .iter()
            .map(|name| world.claim(name, PoolKind::InClusterIPPool, "large")),
    )
    .await;
    let start = Instant::now();
    let mut slowest = Duration::ZERO;
    for name in ["first", "second", "third"] {
        let asked = Instant::now();
        world.claim(name, PoolKind::InClusterIPPool, "small").await;
        world.bound(name).await;
        slowest = slowest.max(asked.elapsed());
    }
    join_all(names.iter().map(|name| world.bound(name))).await;
    let all = start.elapsed();
    assert!(slowest * 5 < all, "{slowest:?} of {all:?}");
    world.stop().await;
}
