//! Calls of an extension over TLS on kept connections: calls per second, and calls per second of CPU time, which is the
//! rate of one otherwise idle core. The extension and the caller run in different threads.
//!
//! `cargo bench -p nephele-runtime-sdk --bench calling`. Without `--bench`, as with `cargo test --benches`, it runs
//! only for a moment.
#![allow(clippy::unwrap_used, reason = "what fails here has failed the test")]
#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

#[path = "../tests/serving/world.rs"]
#[allow(dead_code, reason = "tests use all of it")]
mod world;

use std::{
    collections::BTreeMap,
    env, fs,
    net::SocketAddr,
    num::NonZeroUsize,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use nephele_runtime_sdk::{
    catalog::Catalog,
    client::{
        CallAll, Client, ClientConfig, LabelSelector, Registration, Registry, Subject, UnknownHooks,
        transport::{Https, HttpsSettings},
    },
    hooks::{BeforeClusterCreate, BeforeClusterCreateRequest, BeforeClusterCreateResponse},
    server::Extension,
    wire::{Bytes, Object},
};
use serde_json::json;
use tokio::runtime::Builder;
use world::{Authority, start};

fn main() {
    let long = env::args().any(|argument| argument == "--bench");
    let time = Duration::from_secs(if long { 5 } else { 0 }) + Duration::from_millis(200);
    let authority = Authority::new("authority");
    let address = extension(&authority);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for (http1_only, protocol) in [(true, "HTTP/1.1"), (false, "HTTP/2")] {
            let client = caller(&authority, address, http1_only).await;
            for at_once in [1, 16] {
                measure(&client, protocol, at_once, time).await;
            }
        }
    });
}

/// An extension in a thread of its own, with a trivial handler.
fn extension(authority: &Authority) -> SocketAddr {
    let tls = authority.tls();
    let (told, address) = mpsc::channel();
    thread::spawn(move || {
        Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(async move {
                let extension = Extension::new().on(BeforeClusterCreate, "before-create", |_, _| async {
                    Ok(BeforeClusterCreateResponse::default())
                });
                let running = start(extension.build().unwrap(), tls);
                told.send(running.address).unwrap();
                running.task.await.unwrap().unwrap();
            });
    });
    address.recv().unwrap()
}

async fn caller(authority: &Authority, address: SocketAddr, http1_only: bool) -> Client {
    let settings = HttpsSettings {
        http1_only,
        hosts_at: BTreeMap::from([("localhost".to_owned(), address)]),
        ..HttpsSettings::default()
    };
    let client = Client::builder(Catalog::cluster_api())
        .registry(Registry::of([]).unwrap())
        .transport(Arc::new(Https::new(settings)))
        .build();
    let client_config = ClientConfig {
        url: "https://localhost".into(),
        ca_bundle: Bytes(authority.pem.clone().into_bytes()),
        ..ClientConfig::default()
    };
    let discovered = client
        .discover("bench", &client_config, UnknownHooks::Refuse)
        .await
        .unwrap();
    let registration = Registration {
        name: "bench".into(),
        client_config,
        namespace_selector: Some(LabelSelector::default()),
        handlers: discovered.handlers,
        ..Registration::default()
    };
    client.registry().add(registration).unwrap();
    client
}

async fn measure(client: &Client, protocol: &str, at_once: usize, time: Duration) {
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": { "name": "c", "namespace": "ns", "labels": { "a": "b" } },
        "spec": { "topology": { "classRef": { "name": "class" }, "version": "v1.36.3" } },
    });
    let cluster = Object::try_from(cluster).unwrap();
    let request = BeforeClusterCreateRequest {
        cluster,
        ..BeforeClusterCreateRequest::default()
    };
    let subject = Subject::new("ns", "c");
    let how = CallAll {
        total: None,
        at_once: NonZeroUsize::MIN,
    };
    let begun = Instant::now();
    let before = processor();
    let mut took: Vec<Duration> = stream::repeat(())
        .take_while(|()| async { begun.elapsed() < time })
        .map(|()| async {
            let begun = Instant::now();
            client
                .call_all_with::<BeforeClusterCreate>(&subject, &request, how)
                .await
                .unwrap();
            begun.elapsed()
        })
        .buffer_unordered(at_once)
        .collect()
        .await;
    let elapsed = begun.elapsed();
    let processor = processor() - before;
    took.sort();
    let per = |time: Duration| took.len() as f64 / time.as_secs_f64().max(0.01);
    println!(
        "{protocol}, {at_once} at a time: {:.0} calls/s, {:.0} per second of processor time, p99 {:?}",
        per(elapsed),
        per(processor),
        took[took.len() * 99 / 100]
    );
}

/// The CPU time of this thread (Linux, `proc_pid_stat(5)`; ticks are of 10 ms).
fn processor() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11..13]
        .iter()
        .map(|ticks| ticks.parse::<u64>().unwrap())
        .sum();
    Duration::from_millis(10 * ticks)
}
