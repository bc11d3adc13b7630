//! Calls served over TLS on kept connections: calls per second, calls per second of the server's CPU time, which is the
//! rate of one otherwise idle core, latencies, and the memory of an idle server. The server and the clients have one
//! thread each.
//!
//! `cargo bench -p nephele-runtime-sdk`. Without `--bench`, as with `cargo test --benches`, it runs only for a
//! moment.
#![allow(clippy::unwrap_used, reason = "what fails here has failed the test")]
#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

#[path = "../tests/serving/world.rs"]
#[allow(dead_code, reason = "tests use all of it")]
mod world;

use std::{
    env, fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use nephele_runtime_sdk::{
    hooks::{BeforeClusterCreate, BeforeClusterCreateResponse},
    server::Extension,
};
use serde_json::json;
use tokio::runtime::Builder;
use world::{Authority, Client, Protocol, start};

const PATH: &str = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/before-create?timeout=10s";

fn main() {
    let long = env::args().any(|argument| argument == "--bench");
    let time = Duration::from_secs(if long { 5 } else { 0 }) + Duration::from_millis(200);
    let authority = Authority::new("authority");
    let tls = authority.tls();
    let before = resident();
    let (told, address) = std::sync::mpsc::channel();
    thread::spawn(move || {
        Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(async move {
                let extension =
                    Extension::new().on(BeforeClusterCreate, "before-create", |request, _| async move {
                        assert!(!request.cluster.is_absent());
                        Ok(BeforeClusterCreateResponse::default())
                    });
                let running = start(extension.build().unwrap(), tls);
                told.send((running.address, fs::read_link("/proc/thread-self").unwrap()))
                    .unwrap();
                running.task.await.unwrap().unwrap();
            });
    });
    let (address, thread) = address.recv().unwrap();
    let clients = Builder::new_current_thread().enable_all().build().unwrap();
    clients.block_on(async {
        Client::connect(address, &authority.pem, None)
            .await
            .post(PATH, body())
            .await
            .json();
    });
    println!(
        "idle server after a call: {} KiB over the {} KiB of the process before",
        resident() - before,
        before
    );
    for (protocol, connections) in [(Protocol::Http1, 16), (Protocol::Http2, 16)] {
        let before = processor(&thread);
        let mut took = clients.block_on(async {
            let begun = Instant::now();
            let mut tasks = Vec::new();
            for _ in 0..connections {
                let mut client = Client::connect(address, &authority.pem, Some(protocol)).await;
                tasks.push(tokio::spawn(async move {
                    let body = body();
                    let mut took = Vec::new();
                    while begun.elapsed() < time {
                        let sent = Instant::now();
                        let answer = client.post(PATH, body.clone()).await;
                        assert_eq!(answer.status, 200);
                        took.push(sent.elapsed());
                    }
                    took
                }));
            }
            let mut took = Vec::new();
            for task in tasks {
                took.extend(task.await.unwrap());
            }
            took
        });
        let processor = processor(&thread) - before;
        took.sort_unstable();
        let at = |part: f64| {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "an index"
            )]
            let index = (took.len() as f64 * part) as usize;
            took[index.min(took.len() - 1)]
        };
        #[allow(clippy::cast_precision_loss, reason = "a rate")]
        let per = |time: Duration| took.len() as f64 / time.as_secs_f64().max(0.001);
        println!(
            "{protocol:?}, {connections} connections: {:.0} calls/s, {:.0} per second of processor time, p50 {:?}, p99 {:?}",
            per(time),
            per(processor),
            at(0.5),
            at(0.99)
        );
    }
}

/// A request as large as Cluster API's for a small cluster.
fn body() -> Vec<u8> {
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": { "name": "cluster", "namespace": "default", "labels": { "a": "b" }, "annotations": {} },
        "spec": { "topology": { "classRef": { "name": "class" }, "version": "v1.36.0", "workers": {
            "machineDeployments": [{ "class": "worker", "name": "md-0", "replicas": 3 }],
        }, "variables": [{ "name": "zone", "value": "a" }] } },
    });
    let request = json!({
        "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": "BeforeClusterCreateRequest",
        "settings": { "a": "b" }, "cluster": cluster,
    });
    request.to_string().into_bytes()
}

/// The time that a thread had a CPU (Linux, `Documentation/scheduler/sched-stats.rst`).
fn processor(thread: &Path) -> Duration {
    let stat = fs::read_to_string(Path::new("/proc").join(thread).join("schedstat")).unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

/// The resident memory of the process, in KiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok())
        .unwrap_or_default()
}
