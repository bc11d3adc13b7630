//! A manager that lacks a permission names it, is not ready, keeps working, and recovers when it gets the permission.

use std::{
    convert::Infallible,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use http::{Request, Response, StatusCode};
use kube::Client;
use nephele_manager::{Config, Manager, Options};
use nephele_testkit::{ManagementApi, PATIENCE, eventually};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::fmt::MakeWriter;

use crate::fetch::fetch;

/// A permission that is refused, with the gate and the metric sample that show it.
struct Case {
    path: &'static str,
    method: &'static str,
    gate: &'static str,
    sample: &'static str,
    leader_elect: bool,
}

const CASES: [Case; 3] = [
    Case {
        path: "/inmemorymachines",
        method: "GET",
        gate: "permission to list inmemorymachines.infrastructure.cluster.x-k8s.io",
        sample: "group=\"infrastructure.cluster.x-k8s.io\",permitted=\"false\",resource=\"inmemorymachines\",verb=\"list\"",
        leader_elect: false,
    },
    Case {
        path: "/secrets",
        method: "GET",
        gate: "permission to list secrets",
        sample: "group=\"\",permitted=\"false\",resource=\"secrets\",verb=\"list\"",
        leader_elect: false,
    },
    // A manager that cannot take the lease does nothing else.
    Case {
        path: "/leases",
        method: "POST",
        gate: "permission to create leases.coordination.k8s.io",
        sample: "group=\"coordination.k8s.io\",permitted=\"false\",resource=\"leases\",verb=\"create\"",
        leader_elect: true,
    },
];

/// The API server as a client without a permission sees it, until the permission is granted.
fn without(case: &'static Case, api: &ManagementApi, missing: &Arc<AtomicBool>) -> Client {
    let server = api.server().clone();
    let missing = Arc::clone(missing);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let server = server.clone();
        let missing = Arc::clone(&missing);
        async move {
            let asked = request.method() == case.method && request.uri().path().ends_with(case.path);
            let watches = request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch="));
            if asked && !watches && missing.load(Ordering::Acquire) {
                return Ok::<_, Infallible>(refusal(case));
            }
            Ok(server.handle(request.map(Body::new)).await)
        }
    });
    Client::new(service, "default")
}

fn refusal(case: &Case) -> Response<Body> {
    let (verb, resource) = case.gate["permission to ".len()..]
        .split_once(' ')
        .expect("a verb and a resource");
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": format!("{resource} is forbidden: User \"me\" cannot {verb} resource \"{resource}\""),
    });
    Response::builder()
        .status(StatusCode::FORBIDDEN)
        .header("content-type", "application/json")
        .body(Body::from(status.to_string()))
        .expect("a response")
}

/// The log output.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn a_missing_permission_is_named_in_readiness_log_and_metrics_until_it_is_granted() {
    for case in &CASES {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(log.clone())
            .with_ansi(false)
            .finish();
        // The runtime of a test has one thread.
        let logging = tracing::subscriber::set_default(subscriber);
        let missing = Arc::new(AtomicBool::new(true));
        let client = without(case, &ManagementApi::start(), &missing);
        let options = Options {
            health_address: "127.0.0.1:0".into(),
            diagnostics_address: "127.0.0.1:0".into(),
            insecure_diagnostics: true,
            bind_address: "127.0.0.1".into(),
            leader_elect: case.leader_elect,
            retry_period: Duration::from_millis(50),
            ..Options::default()
        };
        let manager = Manager::build(Config::new(options).expect("valid"), client).expect("free ports");
        let health = manager.health_address();
        let diagnostics = manager.diagnostics_address();
        let health = health.expect("served");
        let diagnostics = diagnostics.expect("served");
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(manager.run(shutdown.clone()));

        let until = async |wanted: &str| {
            let look = async || {
                let (status, body) = fetch(health, "/readyz").await;
                let has_line = body.lines().any(|line| line.starts_with(wanted));
                if has_line { Ok(status) } else { Err(body) }
            };
            eventually(wanted, look).await
        };
        assert_eq!(until(&format!("[-]{} failed", case.gate)).await, 503);
        assert_eq!(fetch(health, "/healthz").await.0, 200);
        let (_, metrics) = fetch(diagnostics, "/metrics").await;
        let sample = format!("nephele_management_requests_total{{{}}} ", case.sample);
        assert!(
            metrics.lines().any(|line| line.starts_with(&sample)),
            "{sample} is not in\n{metrics}"
        );
        let logged = String::from_utf8(log.0.lock().clone()).expect("text");
        let said = format!("Missing {}; not ready before a role grants it", case.gate);
        assert_eq!(logged.matches(&said).count(), 1, "{logged}");

        missing.store(false, Ordering::Release);
        assert_eq!(until("ok").await, 200);
        let logged = String::from_utf8(log.0.lock().clone()).expect("text");
        assert!(logged.contains(&format!("Got {}", case.gate)), "{logged}");
        drop(logging);
        shutdown.cancel();
        timeout(PATIENCE, task)
            .await
            .expect("an end in bounded time")
            .expect("no panic")
            .expect("an orderly end");
    }
}
