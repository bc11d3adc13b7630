//! The cost of claims in the controllers, which run on one thread with an API server in the same process.
//!
//! ```sh
//! cargo bench -p nephele-ipam-controller --bench claims -- [CLAIMS [POOLS]]
//! ```
//!
//! It counts the requests per claim and the CPU time of the controllers and of the API server, each on its own
//! threads. Without a network, etcd and webhooks a claim costs less than on a cluster: use it to compare two
//! versions of the controllers, and `cargo xtask bench claims` for rates.
#![allow(clippy::print_stdout, reason = "a command for people")]

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fs,
    num::NonZeroU16,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::body::Body;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Request;
use kube::{
    Client, ResourceExt as _,
    api::{Api, DeleteParams, PostParams},
    runtime::watcher::{self, Event},
};
use nephele_api::{
    core::ObjectReference,
    ipam::{
        GROUP, PoolKind,
        v1alpha2::{InClusterIPPool, InClusterIPPoolSpec},
        v1beta2::{IPAddressClaim, IPAddressClaimSpec},
    },
};
use nephele_controller::wall_clock;
use nephele_ipam_controller::{Metrics, OverlapPolicy, Settings};
use nephele_testkit::{Backstage, ManagementApi, objects::NAMESPACE};
use parking_lot::Mutex;
use tokio::runtime::{Handle, Runtime};

/// Thread names, by which CPU time is attributed.
const CONTROLLERS: &str = "controllers";
const SERVER: &str = "server";
/// Requests of the load that are in flight at a time.
const REQUESTS_MAX: usize = 32;
/// Frames of a response that the server may be ahead of the reader.
const FRAMES_MAX: usize = 64;

/// Requests of the controllers by method, plural, subresource and status; without watches.
type Requests = Arc<Mutex<BTreeMap<String, usize>>>;

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.parse().ok());
    let claims = numbers.next().unwrap_or(2000);
    let pools = numbers.next().unwrap_or(1);
    let server = runtime(SERVER);
    let controllers = runtime(CONTROLLERS);
    server.block_on(async {
        let api = ManagementApi::start();
        let requests = Requests::default();
        let client = client(&api, &server, &requests);
        let backstage = {
            // Events are published by a task of the controllers.
            let _entered = controllers.enter();
            Backstage::of(client, wall_clock())
        };
        let shutdown = backstage.shutdown.clone();
        let run = controllers.spawn(run(backstage));
        measure(&api, &requests, claims, pools).await;
        shutdown.cancel();
        run.await.expect("no panic");
    });
    controllers.shutdown_background();
    server.shutdown_background();
}

fn runtime(name: &str) -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(1)
        .thread_name(name)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// A client whose requests are counted, and answered on the threads of the server.
fn client(api: &ManagementApi, server: &Runtime, requests: &Requests) -> Client {
    let api = api.server().clone();
    let handle = server.handle().clone();
    let requests = Arc::clone(requests);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let api = api.clone();
        let handle = handle.clone();
        let requests = Arc::clone(&requests);
        async move {
            let method = request.method().clone();
            let path = request.uri().path().to_owned();
            let watches = request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch="));
            let answer = handle.spawn(async move { api.handle(request.map(Body::new)).await });
            let response = answer.await.expect("no panic");
            if !watches {
                let what = format!("{method} {} {}", resource(&path), response.status().as_u16());
                *requests.lock().entry(what).or_default() += 1;
            }
            Ok::<_, Infallible>(response.map(|body| Body::from_stream(pumped(body, &handle))))
        }
    });
    Client::new(service, NAMESPACE)
}

/// The body, read on the threads of the server.
fn pumped(
    body: Body,
    server: &Handle,
) -> impl stream::Stream<Item = Result<bytes::Bytes, axum::Error>> + use<> {
    let (sender, receiver) = tokio::sync::mpsc::channel(FRAMES_MAX);
    server.spawn(async move {
        let mut frames = body.into_data_stream();
        while let Some(frame) = frames.next().await {
            if sender.send(frame).await.is_err() {
                break;
            }
        }
    });
    stream::unfold(receiver, |mut receiver| async {
        Some((receiver.recv().await?, receiver))
    })
}

/// The plural, with the subresource after a slash.
fn resource(path: &str) -> String {
    let known = ["ipaddressclaims", "ipaddresses", "inclusterippools"];
    let resource = known
        .into_iter()
        .find(|known| path.contains(&format!("/{known}")))
        .unwrap_or("others");
    format!(
        "{resource}{}",
        if path.ends_with("/status") { "/status" } else { "" }
    )
}

async fn run(backstage: Backstage) {
    let Backstage {
        client,
        registry,
        services,
        shutdown,
    } = backstage;
    let metrics = Metrics::register(&registry).expect("a new registry");
    let settings = Settings {
        watch_namespace: None,
        watch_filter: None,
        concurrency: NonZeroU16::new(64).expect("not zero"),
        reclaim_orphans: false,
        overlap: OverlapPolicy::Off,
        seed: "bench".into(),
    };
    let run = nephele_ipam_controller::run(client, services, metrics, settings, shutdown);
    run.await.expect("the controllers run until they are stopped");
}

async fn measure(api: &ManagementApi, requests: &Requests, claims: usize, pools: usize) {
    let pool = |index: usize| format!("pool-{:03}", index % pools);
    for index in 0..pools {
        let spec = InClusterIPPoolSpec {
            addresses: vec!["10.0.0.0/8".into()],
            prefix: 8,
            ..InClusterIPPoolSpec::default()
        };
        let mut object = InClusterIPPool::new(&pool(index), spec);
        object.metadata.namespace = Some(NAMESPACE.into());
        api.create(&object).await;
    }
    let names: Vec<String> = (0..claims).map(|index| format!("claim-{index:06}")).collect();
    let of_claims: Api<IPAddressClaim> = api.api();
    let create = PostParams::default();
    let delete = DeleteParams::default();

    let phase = Phase::start(requests);
    let creations = stream::iter(names.iter().enumerate()).map(|(index, name)| {
        let reference = ObjectReference {
            api_group: GROUP.into(),
            kind: PoolKind::InClusterIPPool.as_str().into(),
            name: pool(index),
        };
        let spec = IPAddressClaimSpec {
            cluster_name: String::new(),
            pool_ref: reference,
        };
        let of_claims = &of_claims;
        let create = &create;
        async move {
            let created = Instant::now();
            of_claims.create(create, &IPAddressClaim::new(name, spec)).await?;
            Ok::<_, kube::Error>((name.clone(), created))
        }
    });
    let bound = async {
        let mut bound = BTreeMap::new();
        let mut events = watcher::watcher(of_claims.clone(), watcher::Config::default()).boxed();
        while bound.len() < claims {
            let event = events
                .try_next()
                .await
                .expect("a healthy watch")
                .expect("it does not end");
            if let Event::Apply(claim) | Event::InitApply(claim) = event
                && claim.address_name().is_some()
            {
                bound.entry(claim.name_any()).or_insert_with(Instant::now);
            }
        }
        bound
    };
    let created = creations.buffer_unordered(REQUESTS_MAX).try_collect::<Vec<_>>();
    let (created, bound) = tokio::join!(created, bound);
    let created = created.expect("claims are accepted");
    let mut latencies: Vec<Duration> = created
        .iter()
        .map(|(name, created)| bound[name].duration_since(*created))
        .collect();
    latencies.sort();
    phase.end("bound", claims);
    println!(
        "latency: p50 {:?}, p99 {:?}",
        latencies[claims / 2],
        latencies[claims * 99 / 100]
    );

    let phase = Phase::start(requests);
    let deletions =
        stream::iter(&names).map(|name| async { of_claims.delete(name, &delete).await.map(drop) });
    deletions
        .buffer_unordered(REQUESTS_MAX)
        .try_collect::<Vec<_>>()
        .await
        .expect("claims are deleted");
    while !of_claims
        .list_metadata(&Default::default())
        .await
        .expect("a list")
        .items
        .is_empty()
    {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    phase.end("released", claims);
}

/// The requests, the time and the CPU times at the beginning of a phase.
struct Phase<'a> {
    requests: &'a Requests,
    start: Instant,
    seconds: [f64; 2],
}

impl<'a> Phase<'a> {
    fn start(requests: &'a Requests) -> Self {
        requests.lock().clear();
        Self {
            requests,
            start: Instant::now(),
            seconds: [CONTROLLERS, SERVER].map(seconds),
        }
    }

    fn end(&self, what: &str, claims: usize) {
        let per_claim = |value: f64| value / claims as f64;
        let rate = claims as f64 / self.start.elapsed().as_secs_f64();
        let [controllers, server] = [CONTROLLERS, SERVER].map(seconds);
        let ms =
            [controllers - self.seconds[0], server - self.seconds[1]].map(|used| per_claim(used * 1000.0));
        println!(
            "{what}: {claims} claims, {rate:.0}/s; CPU ms per claim: {CONTROLLERS} {:.2}, {SERVER} {:.2}",
            ms[0], ms[1]
        );
        for (what, count) in &*self.requests.lock() {
            println!("  {:.3} {what}", per_claim(*count as f64));
        }
    }
}

/// CPU time of the threads of this name so far (proc_pid_stat(5), in hundredths of a second).
fn seconds(name: &str) -> f64 {
    let threads = fs::read_dir("/proc/self/task").expect("this is Linux").flatten();
    let of_name = threads.filter(|thread| {
        fs::read_to_string(thread.path().join("comm")).is_ok_and(|found| found.trim_end() == name)
    });
    let ticks = of_name.filter_map(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        let fields = stat.rsplit_once(") ")?.1.split(' ').map(str::parse::<f64>);
        Some(fields.skip(11).take(2).flatten().sum::<f64>())
    });
    ticks.sum::<f64>() / 100.0
}
