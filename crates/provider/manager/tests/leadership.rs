//! The writes of a manager at the end of its leadership, while a reconcile takes longer than the grace period.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{Method, Request};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    client::Body,
};
use nephele_manager::{Config, Manager, Options, RunError};
use nephele_testkit::{ManagementApi, PATIENCE, eventually, objects};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{sync::Notify, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

/// The requests of a manager, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// A write of an InMemoryCluster was requested. It is held until the test releases it.
    WriteBegun,
    /// The write was sent.
    WriteSent,
    /// The write is over, sent or not.
    WriteEnded,
    /// The lease was released.
    LeaseGivenUp,
    /// The manager learned that another process has the lease.
    LeaseLost,
}

/// The connection of a manager to its management API. It holds writes of InMemoryClusters.
#[derive(Clone, Default)]
struct Line {
    seen: Arc<Mutex<Vec<Seen>>>,
    open: Arc<AtomicBool>,
    opened: Arc<Notify>,
}

struct Ended(Line);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.note(Seen::WriteEnded);
    }
}

impl Line {
    fn note(&self, what: Seen) {
        self.seen.lock().push(what);
    }

    fn client(&self, to: Client) -> Client {
        let line = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let line = line.clone();
            let to = to.clone();
            async move { Ok::<_, Infallible>(line.send(&to, request).await.expect("in this process")) }
        });
        Client::new(service, "default")
    }

    async fn send(&self, to: &Client, request: Request<Body>) -> Result<http::Response<Body>, kube::Error> {
        let is_write = request.method() != Method::GET;
        if is_write && request.uri().path().contains("/inmemoryclusters/") {
            self.note(Seen::WriteBegun);
            let _ended = Ended(self.clone());
            while !self.open.load(Ordering::Acquire) {
                let opened = self.opened.notified();
                if !self.open.load(Ordering::Acquire) {
                    opened.await;
                }
            }
            self.note(Seen::WriteSent);
            return to.send(request).await;
        }
        if is_write && request.uri().path().contains("/leases/") {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let lease: Value = serde_json::from_slice(&body).expect("JSON");
            if lease["spec"]["holderIdentity"].is_null() {
                self.note(Seen::LeaseGivenUp);
            }
            return to.send(Request::from_parts(head, Body::from(body))).await;
        }
        if request.uri().path().contains("/leases/") {
            let (head, body) = to.send(request).await?.into_parts();
            let body = body.collect_bytes().await?;
            let lease: Value = serde_json::from_slice(&body).expect("JSON");
            if lease["spec"]["holderIdentity"] == "another" {
                self.note(Seen::LeaseLost);
            }
            return Ok(http::Response::from_parts(head, Body::from(body)));
        }
        to.send(request).await
    }

    async fn until(&self, what: Seen) {
        let look = async || {
            let seen = self.seen.lock().clone();
            if seen.contains(&what) { Ok(()) } else { Err(seen) }
        };
        eventually(&format!("{what:?}"), look).await;
    }
}

struct Running {
    line: Line,
    api: ManagementApi,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

/// A manager that leads and has a reconcile of an InMemoryCluster in flight.
async fn reconciling(workload_ports: &str) -> Running {
    let options = Options {
        health_address: "0".into(),
        diagnostics_address: "0".into(),
        bind_address: "127.0.0.1".into(),
        workload_ports: workload_ports.into(),
        leader_elect: true,
        identity: "me".into(),
        pod_namespace: "default".into(),
        // The lease is renewed often, and not lost because the machine is busy.
        lease_duration: Duration::from_secs(60),
        renew_deadline: Duration::from_secs(40),
        retry_period: Duration::from_millis(50),
        ..Options::default()
    };
    let api = ManagementApi::start();
    let line = Line::default();
    let client = line.client(api.client());
    let manager = Manager::build(Config::new(options).expect("valid"), client).expect("free ports");
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(manager.run(shutdown.clone()));
    let cluster = api.create(&objects::cluster("slow")).await;
    api.create(&objects::in_memory_cluster(&cluster)).await;
    line.until(Seen::WriteBegun).await;
    Running {
        line,
        api,
        shutdown,
        task,
    }
}

#[tokio::test]
async fn the_lease_is_given_up_only_after_the_slowest_reconcile_has_ended() {
    let manager = reconciling("18700-18709").await;
    manager.shutdown.cancel();
    let result = timeout(PATIENCE, manager.task)
        .await
        .expect("an end in bounded time")
        .expect("no panic");
    result.expect("an orderly end");
    assert_eq!(
        *manager.line.seen.lock(),
        [Seen::WriteBegun, Seen::WriteEnded, Seen::LeaseGivenUp],
        "the reconcile is aborted before the lease is released, and its write is not sent"
    );
}

#[tokio::test]
async fn nothing_is_written_after_the_lease_is_lost() {
    let manager = reconciling("18710-18719").await;
    let leases = Api::<Lease>::namespaced(manager.api.client(), "default");
    let taken = Patch::Merge(json!({ "spec": { "holderIdentity": "another" } }));
    leases
        .patch(
            "controller-leader-election-nephele",
            &PatchParams::default(),
            &taken,
        )
        .await
        .expect("patched");
    manager.line.until(Seen::LeaseLost).await;
    // The write ends by itself. Otherwise it could be sent once the connection is open.
    let _ = timeout(Duration::from_secs(3), manager.line.until(Seen::WriteEnded)).await;
    manager.line.open.store(true, Ordering::Release);
    manager.line.opened.notify_waiters();
    let result = timeout(PATIENCE, manager.task)
        .await
        .expect("an end in bounded time")
        .expect("no panic");
    result.expect_err("it cannot continue");
    assert_eq!(
        *manager.line.seen.lock(),
        [Seen::WriteBegun, Seen::LeaseLost, Seen::WriteEnded]
    );
}
