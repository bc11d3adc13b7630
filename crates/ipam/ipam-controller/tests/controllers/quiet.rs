//! The requests of the controllers, and their order, while nothing fails but watches and responses are late.
//!
//! Delays are drawn from a seed. Time is paused: it jumps to the next timer.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use axum::body::Body;
use futures::{StreamExt as _, future::join_all};
use http::{Method, Request, Response};
use kube::Client;
use nephele_api::ipam::{
    PoolKind,
    v1beta2::{IPAddress, IPAddressClaim},
};
use nephele_testkit::{ManagementApi, objects::NAMESPACE};
use parking_lot::Mutex;
use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseError},
};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};

use crate::{
    draws::Draws,
    world::{World, settings, spec},
};

/// How long an API server works on a request that it is busy with.
const WORK: Duration = Duration::from_millis(10);
/// The most events of one watch that are delayed at the same time; more than the claims cause.
const ON_THEIR_WAY_MAX: usize = 10_000;
/// Longer than any delay.
const QUIET: Duration = Duration::from_secs(10);

/// Requests by method, kind and code, and when the status of each claim was written.
#[derive(Default)]
struct Sent {
    requests: Mutex<BTreeMap<String, usize>>,
    told: Mutex<Vec<(String, Instant)>>,
}

impl Sent {
    fn take(&self) -> BTreeMap<String, usize> {
        std::mem::take(&mut *self.requests.lock())
    }
}

/// How late requests, responses and watches are.
#[derive(Clone, Copy)]
struct Delays {
    seed: u64,
    /// The longest delay of a request, and of its response.
    request: Duration,
    /// The longest delay of each watch.
    watch: Duration,
    /// How many requests the API server handles at a time; none for no limit.
    at_a_time: Option<usize>,
}

fn client(api: &ManagementApi, delays: Delays, sent: &Arc<Sent>) -> Client {
    let draws = Arc::new(Mutex::new(Draws(delays.seed)));
    let work = Arc::new(Semaphore::new(delays.at_a_time.unwrap_or(Semaphore::MAX_PERMITS)));
    let server = api.server().clone();
    let sent = Arc::clone(sent);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let server = server.clone();
        let sent = Arc::clone(&sent);
        let work = Arc::clone(&work);
        let draw = |most: Duration| Duration::from_micros(draws.lock().next(1 + most.as_micros() as u64));
        let before = draw(delays.request);
        let after = draw(delays.request);
        let lag = draw(delays.watch);
        async move {
            let path = request.uri().path().to_owned();
            let query = request.uri().query().unwrap_or_default().to_owned();
            let method = request.method().clone();
            if query.contains("watch=") {
                let response: Response<Body> = server.handle(request.map(Body::new)).await;
                return Ok::<_, Infallible>(response.map(|body| late(body, lag)));
            }
            sleep(before).await;
            let turn = work.acquire().await.expect("it is never closed");
            if delays.at_a_time.is_some() {
                sleep(WORK).await;
            }
            let response: Response<Body> = server.handle(request.map(Body::new)).await;
            drop(turn);
            let parts: Vec<&str> = path.rsplit('/').collect();
            if method == Method::PATCH && parts[0] == "status" && parts[2] == "ipaddressclaims" {
                sent.told.lock().push((parts[1].to_owned(), Instant::now()));
            }
            let kind = ["ipaddressclaims", "ipaddresses", "inclusterippools"]
                .into_iter()
                .find(|kind| path.contains(&format!("/{kind}")))
                .unwrap_or("other");
            let subresource = if parts[0] == "status" { "/status" } else { "" };
            let what = format!("{method} {kind}{subresource} {}", response.status().as_u16());
            *sent.requests.lock().entry(what).or_default() += 1;
            sleep(after).await;
            Ok(response)
        }
    });
    Client::new(service, NAMESPACE)
}

/// Delays all watch events by `lag`, in order.
fn late(body: Body, lag: Duration) -> Body {
    let later = body.into_data_stream().map(move |news| {
        let due = sleep(lag);
        async move {
            due.await;
            news
        }
    });
    Body::from_stream(later.buffered(ON_THEIR_WAY_MAX))
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("claim-{number:04}")).collect()
}

/// Checks for three writes per claim and at most one write of the pool per five claims; no request is refused, and
/// nothing is read.
fn check(
    mut requests: BTreeMap<String, usize>,
    expected: [&str; 3],
    claims: usize,
) -> Result<(), TestCaseError> {
    let of_pool = requests
        .remove("PATCH inclusterippools/status 200")
        .unwrap_or_default();
    // Events are not about claims that get an address.
    requests.retain(|what, _| !what.contains("other"));
    prop_assert_eq!(requests, expected.map(|what| (what.to_owned(), claims)).into());
    prop_assert!(of_pool <= claims.div_ceil(5), "{} writes of the pool", of_pool);
    Ok(())
}

async fn quiet(delays: Delays) -> Result<(), TestCaseError> {
    const CLAIMS: usize = 80;
    let api = ManagementApi::start();
    let sent = Arc::new(Sent::default());
    let client = client(&api, delays, &sent);
    let world = World::through(api, client, settings());
    world.pool("pool", spec(&["10.0.0.0/16"], 16, "10.0.0.1")).await;
    world.counts("pool", [65533, 0, 65533, 0]).await;
    sleep(QUIET).await;
    sent.take();
    let names = names(CLAIMS);
    join_all(
        names
            .iter()
            .map(|name| world.claim(name, PoolKind::InClusterIPPool, "pool")),
    )
    .await;
    join_all(names.iter().map(|name| world.bound(name))).await;
    sleep(QUIET).await;
    let bind = [
        "PATCH ipaddressclaims 200",
        "PATCH ipaddressclaims/status 200",
        "POST ipaddresses 201",
    ];
    check(sent.take(), bind, CLAIMS)?;
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
    sleep(QUIET).await;
    let release = [
        "DELETE ipaddresses 200",
        "PATCH ipaddressclaims 200",
        "PATCH ipaddresses 200",
    ];
    check(sent.take(), release, CLAIMS)?;
    prop_assert_eq!(world.addresses().await, Vec::<IPAddress>::new());
    world.stop().await;
    Ok(())
}

proptest! {
    #![proptest_config(Config { cases: 8, max_shrink_iters: 0, failure_persistence: None, ..Config::default() })]

    #[test]
    fn no_request_is_refused_or_sent_in_vain(seed: u64, request in 0..400_u64, watch in 0..4000_u64) {
        let delays = Delays {
            seed,
            request: Duration::from_millis(request),
            watch: Duration::from_millis(watch),
            at_a_time: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(quiet(delays))?;
    }
}

#[tokio::test(start_paused = true)]
async fn claims_are_served_first_in_first_out_while_the_api_server_is_busy() {
    const CLAIMS: usize = 300;
    let api = ManagementApi::start();
    let sent = Arc::new(Sent::default());
    let delays = Delays {
        seed: 7,
        request: Duration::ZERO,
        watch: Duration::ZERO,
        at_a_time: Some(4),
    };
    let client = client(&api, delays, &sent);
    let world = World::through(api, client, settings());
    world.pool("pool", spec(&["10.0.0.0/16"], 16, "10.0.0.1")).await;
    world.counts("pool", [65533, 0, 65533, 0]).await;
    sleep(QUIET).await;
    sent.told.lock().clear();
    // The claims arrive faster than they can be served, and not in the order of their names.
    let names: Vec<String> = names(CLAIMS)
        .into_iter()
        .map(|name| name.chars().rev().collect())
        .collect();
    let mut created = BTreeMap::new();
    for name in &names {
        world.claim(name, PoolKind::InClusterIPPool, "pool").await;
        created.insert(name.clone(), Instant::now());
        sleep(Duration::from_millis(2)).await;
    }
    join_all(names.iter().map(|name| world.bound(name))).await;
    let told = std::mem::take(&mut *sent.told.lock());
    assert_eq!(told.len(), CLAIMS);
    let place: BTreeMap<&str, usize> = told
        .iter()
        .enumerate()
        .map(|(place, (name, _))| (name.as_str(), place))
        .collect();
    // A claim is never overtaken by more claims than are served at a time.
    let overtaken = names
        .iter()
        .enumerate()
        .map(|(order, name)| place[name.as_str()].saturating_sub(order));
    let most = overtaken.max().expect("there are claims");
    let mut latencies: Vec<Duration> = told.iter().map(|(name, at)| *at - created[name]).collect();
    latencies.sort();
    let p50 = latencies[CLAIMS / 2];
    let p99 = latencies[CLAIMS * 99 / 100];
    println!("overtaken by {most} at most; p50 {p50:?}, p99 {p99:?}");
    assert!(
        most <= 2 * usize::from(settings().concurrency.get()),
        "overtaken by {most}"
    );
    // The backlog grows evenly.
    assert!(p99 < p50 * 5 / 2, "p50 {p50:?}, p99 {p99:?}");
    world.stop().await;
}
