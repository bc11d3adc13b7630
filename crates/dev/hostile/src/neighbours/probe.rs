//! What the neighbour sees: the latency of its requests, of webhooks, of hooks and of probes, and the renewals of the
//! lease.

use std::{sync::Arc, time::Duration};

use nephele_poll_time::take_longest;
use serde_json::json;
use tikv_jemalloc_ctl::{epoch, stats};
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    whole::Whole,
    wire::{Connection, Payload, Server},
};

/// The time between two requests of one prober.
const INTERVAL: Duration = Duration::from_millis(20);

/// What the probers saw.
#[derive(Debug, Default, Clone)]
pub(super) struct Seen {
    pub(super) latencies: [Vec<Duration>; 4],
    /// Requests that were refused or not answered.
    pub(super) failures: [u64; 4],
    /// The longest time between two renewals of the lease.
    pub(super) renewal_max: Duration,
    /// The longest poll of each kind of task, longest first.
    pub(super) polls: Vec<(&'static str, Duration)>,
    /// The most memory that was allocated beyond that before, in bytes.
    pub(super) allocated_max: usize,
}

/// Who is asked.
pub(super) const ASKED: [&str; 4] = ["cluster", "webhook", "extension", "healthz"];
/// The place of the probes of health in [`ASKED`].
pub(super) const HEALTH: usize = 3;

impl Seen {
    /// The latency that 99 of 100 requests do not exceed. A failure counts as the longest.
    pub(super) fn p99(&self, asked: usize) -> Duration {
        let latencies = &self.latencies[asked];
        latencies
            .get(latencies.len().saturating_sub(1 + latencies.len() / 100))
            .copied()
            .unwrap_or_default()
    }
}

/// Probes for a time.
pub(super) async fn probe(whole: &Arc<Whole>, time: Duration) -> Seen {
    let end = Instant::now() + time;
    let _ = take_longest();
    let targets = [&whole.neighbour, &whole.webhook, &whole.extension, &whole.health];
    let mut probers = Vec::new();
    for (asked, server) in targets.into_iter().enumerate() {
        probers.push(tokio::spawn(ask(asked, server.clone(), end)));
    }
    let renewals = tokio::spawn(renewals(whole.clone(), end));
    let memory = tokio::spawn(memory(end));
    let mut seen = Seen::default();
    for (asked, prober) in probers.into_iter().enumerate() {
        let (mut latencies, failures) = prober.await.expect("a prober does not panic");
        latencies.sort();
        seen.latencies[asked] = latencies;
        seen.failures[asked] = failures;
    }
    seen.renewal_max = renewals.await.expect("the reader of the lease does not panic");
    seen.polls = take_longest();
    seen.allocated_max = memory.await.expect("the reader of the memory does not panic");
    seen
}

async fn ask(asked: usize, server: Server, end: Instant) -> (Vec<Duration>, u64) {
    let mut latencies = Vec::new();
    let mut failures = 0;
    let mut connection = None;
    let mut round = 0_u64;
    let mut next = Instant::now();
    while Instant::now() < end {
        let started = Instant::now();
        if let Err(error) = once(asked, round, &server, &mut connection).await {
            failures += 1;
            connection = None;
            if failures < 4 {
                eprintln!("{}: {error:#}", ASKED[asked]);
            }
        }
        latencies.push(started.elapsed());
        round += 1;
        next = (next + INTERVAL).max(Instant::now());
        sleep_until(next).await;
    }
    (latencies, failures)
}

async fn once(
    asked: usize,
    round: u64,
    server: &Server,
    connection: &mut Option<Connection>,
) -> anyhow::Result<()> {
    // Kubelet opens a connection for each probe.
    let mut used = match connection.take() {
        Some(connection) if asked != HEALTH => connection,
        _ => tokio::time::timeout(super::wire::ANSWER_MAX, server.connect(asked != HEALTH, None)).await??,
    };
    let (method, path, body) = match asked {
        0 if round.is_multiple_of(2) => ("GET", "/api/v1/namespaces/default".to_owned(), String::new()),
        0 => {
            let path = "/api/v1/namespaces/default/configmaps".to_owned();
            let name = format!("probe-{round}-{}", jiff::Timestamp::now().as_nanosecond());
            (
                "POST",
                path,
                json!({ "metadata": { "name": name }, "data": { "a": "b" } }).to_string(),
            )
        }
        1 => {
            let object = json!({
                "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2", "kind": "InClusterIPPool",
                "metadata": { "name": "one" }, "spec": { "addresses": ["10.0.0.1"], "prefix": 24 },
            });
            let review = json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
                "request": {
                    "uid": "1", "desiredAPIVersion": "ipam.cluster.x-k8s.io/v1alpha1", "objects": [object],
                },
            });
            ("POST", "/convert".to_owned(), review.to_string())
        }
        2 => {
            let path = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery".to_owned();
            let request = json!({
                "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": "DiscoveryRequest",
            });
            ("POST", path, request.to_string())
        }
        _ => ("GET", "/healthz".to_owned(), String::new()),
    };
    let (code, answer) = used
        .exchange(server.request(method, &path, "application/json", Payload::of(body)))
        .await?;
    anyhow::ensure!(
        (200..300).contains(&code),
        "{method} {path}: {code} {}",
        String::from_utf8_lossy(&answer)
    );
    *connection = Some(used);
    Ok(())
}

/// The longest time between two renewals.
async fn renewals(whole: Arc<Whole>, end: Instant) -> Duration {
    let mut longest = Duration::ZERO;
    let mut last = whole.renewed();
    let mut since = Instant::now();
    while Instant::now() < end {
        sleep(Duration::from_millis(20)).await;
        longest = longest.max(since.elapsed());
        let renewed = whole.renewed();
        if renewed != last {
            (last, since) = (renewed, Instant::now());
        }
    }
    longest
}

/// The most bytes that were allocated beyond those at the start.
async fn memory(end: Instant) -> usize {
    let before = allocated();
    let mut most = before;
    while Instant::now() < end {
        sleep(Duration::from_millis(2)).await;
        most = most.max(allocated());
    }
    most.saturating_sub(before)
}

/// The bytes that are allocated now.
pub(super) fn allocated() -> usize {
    epoch::advance()
        .and_then(|_| stats::allocated::read())
        .unwrap_or_default()
}
