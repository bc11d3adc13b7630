//! The menu of attacks. Each runs until it is dropped.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::sleep};

use super::{
    spdy, tenant,
    whole::{READER, READER_OF_OURS, Whole},
    wire::{Connection, Payload, Server},
};

const MIB: usize = 1 << 20;
/// The media type of most bodies.
const JSON: &str = "application/json";
/// The address from which attacks come; the neighbours have another one, as pods and nodes have.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Streams of one hostile connection.
const STREAMS: usize = 24;

/// What an attacker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Attack {
    /// Bodies of the largest size whose last byte does not come.
    StalledBodies,
    /// Lists that are not read, in streams without a window.
    UnreadLists,
    /// JSON patches that move many elements, many times.
    JsonPatches,
    /// Field selectors over objects of many small values.
    FieldSelectors,
    /// Tables of such objects.
    Tables,
    /// Bodies of the largest size with as many values as fit.
    DenseBodies,
    /// As many port-forwards as are given.
    PortForwards,
    /// As many connections inside of port-forwards as are given, and TLS handshakes in them.
    PortForwardPairs,
    /// As many watches as are given, and changes that they show.
    Watches,
    /// Objects of the largest size, as many as are taken.
    Fills,
    /// As many small requests at a time as connections and streams allow.
    ManyRequests,
    /// Scenarios whose manifests nest.
    TenantScenarios,
    /// Faults with large selectors, and changes of them.
    TenantFaults,
    /// Many objects of our kinds.
    TenantObjects,
    /// Machines that boot with bootstrap data of the largest size, hundreds of them.
    TenantBoots,
    /// Conversions of as many values as fit, without credentials.
    OpenConversions,
    /// Admission reviews of as many values as fit, without credentials.
    OpenReviews,
    /// Reviews whose last byte does not come, without credentials.
    OpenStalledReviews,
    /// Calls of hooks of as many values as fit, without credentials.
    OpenHooks,
    /// Calls of hooks whose last byte does not come, without credentials.
    OpenStalledHooks,
    /// TLS handshakes with the webhooks and a cluster, without credentials.
    OpenHandshakes,
    /// Connections to the port of the probes, which stay silent.
    OpenProbes,
    /// Requests to the diagnostics with ever new tokens.
    OpenDiagnostics,
    /// Readers of everything that the diagnostics show, also of those that read slowly.
    DiagnosticsReaders,
}

impl Attack {
    /// The whole menu.
    pub(super) const MENU: [Self; 24] = [
        Self::StalledBodies,
        Self::UnreadLists,
        Self::JsonPatches,
        Self::FieldSelectors,
        Self::Tables,
        Self::DenseBodies,
        Self::PortForwards,
        Self::PortForwardPairs,
        Self::Watches,
        Self::ManyRequests,
        Self::Fills,
        Self::TenantScenarios,
        Self::TenantFaults,
        Self::TenantObjects,
        Self::TenantBoots,
        Self::OpenConversions,
        Self::OpenReviews,
        Self::OpenStalledReviews,
        Self::OpenHooks,
        Self::OpenStalledHooks,
        Self::OpenHandshakes,
        Self::OpenProbes,
        Self::OpenDiagnostics,
        Self::DiagnosticsReaders,
    ];

    /// Its name in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::StalledBodies => "cluster: stalled bodies",
            Self::UnreadLists => "cluster: lists with window 0",
            Self::JsonPatches => "cluster: JSON patches",
            Self::FieldSelectors => "cluster: field selectors",
            Self::Tables => "cluster: tables",
            Self::DenseBodies => "cluster: dense bodies",
            Self::PortForwards => "cluster: port-forwards",
            Self::PortForwardPairs => "cluster: port-forward pairs",
            Self::Watches => "cluster: watches",
            Self::ManyRequests => "cluster: many requests",
            Self::Fills => "cluster: fills",
            Self::TenantScenarios => "tenant: scenarios",
            Self::TenantFaults => "tenant: faults",
            Self::TenantObjects => "tenant: objects",
            Self::TenantBoots => "tenant: bootstrap data",
            Self::OpenConversions => "open: conversions",
            Self::OpenReviews => "open: reviews",
            Self::OpenStalledReviews => "open: stalled reviews",
            Self::OpenHooks => "open: hooks",
            Self::OpenStalledHooks => "open: stalled hooks",
            Self::OpenHandshakes => "open: handshakes",
            Self::OpenProbes => "open: probes",
            Self::OpenDiagnostics => "open: diagnostics",
            Self::DiagnosticsReaders => "reader: diagnostics",
        }
    }

    /// Prepares what the attack needs.
    pub(super) async fn prepare(self, whole: &Whole) -> anyhow::Result<()> {
        match self {
            Self::DiagnosticsReaders => fill(&whole.hostile, "configmaps", 24, &text(MIB)).await,
            Self::UnreadLists => fill(&whole.hostile, "configmaps", 64, &text(120 * 1024)).await,
            Self::JsonPatches => {
                let list = format!("[{}0]", "0,".repeat(60_000));
                fill(&whole.hostile, "pods", 1, &format!("{{\"list\":{list}}}")).await
            }
            Self::FieldSelectors | Self::Tables => {
                fill(
                    &whole.hostile,
                    "pods",
                    24,
                    &format!("{{\"list\":{}}}", dense(MIB)),
                )
                .await
            }
            _ => Ok(()),
        }
    }

    /// Attacks until it is dropped.
    pub(super) async fn run(self, whole: Arc<Whole>) {
        let [hostile, webhook, extension, health, diagnostics] = [
            &whole.hostile,
            &whole.webhook,
            &whole.extension,
            &whole.health,
            &whole.diagnostics,
        ]
        .map(|server| server.from(ADDRESS));
        let server = hostile;
        match self {
            Self::StalledBodies => stall_config_maps(server).await,
            Self::UnreadLists => unread(server).await,
            Self::JsonPatches => patch_lists(server).await,
            Self::FieldSelectors => {
                let path = "/api/v1/pods?fieldSelector=status.phase%3DNone";
                repeat(server, 4, "GET", path, JSON, Bytes::new()).await;
            }
            Self::Tables => repeat_tables(server).await,
            Self::DenseBodies => create_dense(server).await,
            Self::PortForwards => forward(server).await,
            Self::PortForwardPairs => spdy::pairs(server).await,
            Self::Watches => watch(server).await,
            Self::ManyRequests => {
                let path = "/api/v1/namespaces/default";
                repeat(server, 40, "GET", path, JSON, Bytes::new()).await;
            }
            Self::Fills => fill_for_ever(server).await,
            Self::TenantScenarios => tenant::scenarios(&whole).await,
            Self::TenantFaults => tenant::faults(&whole).await,
            Self::TenantObjects => tenant::unowned(&whole).await,
            Self::TenantBoots => tenant::boots(&whole).await,
            Self::OpenConversions => convert(webhook).await,
            Self::OpenReviews => ask_for_reviews(webhook).await,
            Self::OpenStalledReviews => {
                stall(webhook, "/convert", &[(12, 32 * MIB - 1), (80, 4 << 10)]).await;
            }
            Self::OpenHooks => {
                let body = format!("{{\"x\":{}}}", dense(20 * MIB - 64));
                repeat(extension, 1, "POST", &hook(), JSON, body.into()).await;
            }
            Self::OpenStalledHooks => stall(extension, &hook(), &[(48, 1024)]).await,
            Self::OpenHandshakes => shake_hands([webhook, server]).await,
            Self::OpenProbes => probes(health).await,
            Self::OpenDiagnostics => guess_tokens(diagnostics).await,
            Self::DiagnosticsReaders => read_diagnostics(diagnostics).await,
        }
    }
}

/// A list of about so many bytes whose values take the most memory.
fn dense(bytes: usize) -> String {
    format!("[{}{{}}]", "{\"\":0},".repeat(bytes / 7 - 1))
}

fn text(bytes: usize) -> String {
    json!({ "a": "x".repeat(bytes) }).to_string()
}

fn hook() -> String {
    "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery".to_owned()
}

/// Creates objects with this spec or data.
async fn fill(server: &Server, plural: &str, count: usize, content: &str) -> anyhow::Result<()> {
    let mut connection = server.connect(true, None).await?;
    for index in 0..count {
        let field = if plural == "pods" { "spec" } else { "data" };
        let body = format!("{{\"metadata\":{{\"name\":\"object-{index}\"}},\"{field}\":{content}}}");
        let path = format!("/api/v1/namespaces/default/{plural}");
        let request = server.request("POST", &path, JSON, Payload::of(body));
        // Where the object is refused, there is less to attack with.
        let _ = connection.exchange(request).await?;
    }
    Ok(())
}

/// Sends the same request in all streams of some connections, again and again.
async fn repeat(
    server: Server,
    connections: usize,
    method: &str,
    path: &str,
    content_type: &str,
    body: Bytes,
) {
    let request = |server: &Server| server.request(method, path, content_type, Payload::of(body.clone()));
    repeat_with(server, connections, request).await;
}

async fn stall_config_maps(server: Server) {
    let path = "/api/v1/namespaces/default/configmaps";
    // The large ones leave some room, which the small ones fill.
    stall(
        server,
        path,
        &[(24, 3 * MIB - 1), (12, 256 << 10), (24, 16 << 10), (80, 300)],
    )
    .await;
}

async fn patch_lists(server: Server) {
    let operations = vec![json!({"op": "add", "path": "/spec/list/0", "value": 0}); 6_000];
    let body = Bytes::from(Value::Array(operations).to_string());
    let path = "/api/v1/namespaces/default/pods/object-0";
    repeat(server, 4, "PATCH", path, "application/json-patch+json", body).await;
}

async fn create_dense(server: Server) {
    let body = format!(
        "{{\"metadata\":{{\"name\":\"a\"}},\"x\":{}}}",
        dense(3 * MIB - 64)
    );
    let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
    repeat(server, 4, "POST", path, JSON, body.into()).await;
}

async fn convert(webhook: Server) {
    let body = format!(
        "{{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"ConversionReview\",\"request\":\
         {{\"uid\":\"a\",\"desiredAPIVersion\":\"x/v1\",\"objects\":{}}}}}",
        dense(32 * MIB - 1024)
    );
    repeat(webhook, 4, "POST", "/convert", JSON, body.into()).await;
}

async fn ask_for_reviews(webhook: Server) {
    let body = format!(
        "{{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{{\"uid\":\
         \"a\",\"operation\":\"CREATE\",\"object\":{}}}}}",
        dense(8 * MIB - 1024)
    );
    let path = "/validate-ipam-cluster-x-k8s-io-v1alpha2-inclusterippool";
    repeat(webhook, 2, "POST", path, JSON, body.into()).await;
}

async fn guess_tokens(diagnostics: Server) {
    let token = AtomicU64::new(0);
    let request = |server: &Server| {
        reading(
            server,
            "/metrics",
            &format!("unknown-{}", token.fetch_add(1, Ordering::Relaxed)),
        )
    };
    repeat_with(diagnostics, 8, request).await;
}

async fn repeat_tables(server: Server) {
    let request = |server: &Server| {
        let mut request = server.request("GET", "/api/v1/pods", JSON, Payload::of(""));
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io"
            .parse()
            .expect("a header");
        request.headers_mut().insert("accept", table);
        request
    };
    repeat_with(server, 4, request).await;
}

async fn repeat_with(
    server: Server,
    connections: usize,
    request: impl Fn(&Server) -> http::Request<Payload>,
) {
    loop {
        let mut streams = JoinSet::new();
        for _ in 0..connections {
            let Ok(connection) = server.connect(true, None).await else {
                continue;
            };
            for _ in 0..STREAMS {
                let Some(mut stream) = connection.again() else {
                    continue;
                };
                let first = request(&server);
                let (head, body) = first.into_parts();
                let piece = body.piece_of();
                streams.spawn(async move {
                    loop {
                        let request = http::Request::from_parts(head.clone(), Payload::of(piece.clone()));
                        let Ok(response) = stream.send(request).await else {
                            return;
                        };
                        drain(response).await;
                    }
                });
            }
        }
        let _ = tokio::time::timeout(Duration::from_secs(5), streams.join_next()).await;
        while tokio::time::timeout(Duration::from_secs(5), streams.join_next())
            .await
            .is_ok_and(|ended| ended.is_some())
        {}
        sleep(Duration::from_millis(10)).await;
    }
}

/// Reads an answer and keeps nothing of it.
async fn drain(response: http::Response<hyper::body::Incoming>) {
    use http_body_util::BodyExt as _;
    let mut body = response.into_body();
    while let Some(Ok(_)) = body.frame().await {}
}

/// Sends bodies whose end does not come: so many of each length.
async fn stall(server: Server, path: &str, bodies: &[(usize, usize)]) {
    loop {
        let mut streams = JoinSet::new();
        for (count, length) in bodies {
            let Ok(connection) = server.connect(true, None).await else {
                continue;
            };
            for _ in 0..*count {
                let Some(mut stream) = connection.again() else {
                    continue;
                };
                let request = server.request("POST", path, JSON, Payload::stalled(*length));
                streams.spawn(async move {
                    // Without an end, the answer is a refusal.
                    let _ = stream.send(request).await;
                });
            }
        }
        let _ = tokio::time::timeout(Duration::from_secs(20), async {
            while streams.join_next().await.is_some() {}
        })
        .await;
        sleep(Duration::from_millis(10)).await;
    }
}

/// Asks for lists in streams that may not send a byte.
async fn unread(server: Server) {
    let mut kept: Vec<(Connection, JoinSet<()>)> = Vec::new();
    for _ in 0..8 {
        // A window of one byte: each answer begins, and most of it waits.
        let Ok(connection) = server.connect(true, Some(1)).await else {
            continue;
        };
        let mut streams = JoinSet::new();
        for _ in 0..STREAMS {
            let Some(mut stream) = connection.again() else {
                continue;
            };
            let request = server.request("GET", "/api/v1/configmaps", JSON, Payload::of(""));
            streams.spawn(async move {
                let response = stream.send(request).await;
                std::future::pending::<()>().await;
                drop(response);
            });
        }
        kept.push((connection, streams));
    }
    std::future::pending::<()>().await;
}

/// Opens as many port-forwards as there are.
async fn forward(server: Server) {
    let path = spdy::path(&server).await;
    loop {
        let mut kept = Vec::new();
        for _ in 0..80 {
            let Ok(mut connection) = server.connect(false, None).await else {
                continue;
            };
            let response = connection.send(spdy::upgrade(&server, &path)).await;
            kept.push((connection, response));
        }
        sleep(Duration::from_secs(2)).await;
    }
}

/// Watches everything, and changes an object.
async fn watch(server: Server) {
    let mut watches = JoinSet::new();
    for _ in 0..40 {
        let Ok(connection) = server.connect(true, None).await else {
            continue;
        };
        for _ in 0..100 {
            let Some(mut stream) = connection.again() else {
                continue;
            };
            let request = server.request("GET", "/api/v1/configmaps?watch=true", JSON, Payload::of(""));
            watches.spawn(async move {
                if let Ok(response) = stream.send(request).await {
                    drain(response).await;
                }
            });
        }
    }
    let mut index = 0_u64;
    loop {
        index += 1;
        let Ok(mut connection) = server.connect(true, None).await else {
            continue;
        };
        for step in 0..100 {
            let name = format!("watched-{index}-{step}");
            let body = json!({ "metadata": { "name": name }, "data": { "a": "x".repeat(1000) } }).to_string();
            let request = server.request(
                "POST",
                "/api/v1/namespaces/default/configmaps",
                JSON,
                Payload::of(body),
            );
            if connection.exchange(request).await.is_err() {
                break;
            }
        }
    }
}

/// Stores large objects for ever, also once they are refused.
async fn fill_for_ever(server: Server) {
    let value = Bytes::from("x".repeat(MIB));
    let mut index = 0_u64;
    loop {
        let Ok(mut connection) = server.connect(true, None).await else {
            continue;
        };
        for _ in 0..100 {
            index += 1;
            let text = std::str::from_utf8(&value).expect("letters");
            let body =
                format!("{{\"metadata\":{{\"name\":\"fill-{index}\"}},\"data\":{{\"a\":\"{text}\"}}}}");
            let request = server.request(
                "POST",
                "/api/v1/namespaces/default/configmaps",
                JSON,
                Payload::of(body),
            );
            if connection.exchange(request).await.is_err() {
                break;
            }
        }
    }
}

fn reading(server: &Server, path: &str, token: &str) -> http::Request<Payload> {
    let mut request = server.request("GET", path, JSON, Payload::of(""));
    let token = format!("Bearer {token}").parse().expect("a header");
    request.headers_mut().insert("authorization", token);
    request
}

/// Reads all that the diagnostics show, again and again, and reads the journal and a checkpoint without a window, too.
async fn read_diagnostics(server: Server) {
    let mut slow = Vec::new();
    for path in ["/journal?follow=true", "/checkpoint"] {
        let Ok(mut connection) = server.connect(true, Some(1)).await else {
            continue;
        };
        let response = connection.send(reading(&server, path, READER_OF_OURS)).await;
        slow.push((connection, response));
    }
    let asked = AtomicU64::new(0);
    let request = |server: &Server| match asked.fetch_add(1, Ordering::Relaxed) % 3 {
        0 => reading(server, "/metrics", READER),
        1 => reading(server, "/journal", READER_OF_OURS),
        _ => reading(server, "/checkpoint", READER_OF_OURS),
    };
    repeat_with(server, 8, request).await;
}

/// Connects and closes, many times at once.
async fn shake_hands(servers: [Server; 2]) {
    let mut tasks = JoinSet::new();
    for server in servers.iter().flat_map(|server| std::iter::repeat_n(server, 128)) {
        let server = server.clone();
        tasks.spawn(async move {
            loop {
                drop(server.connect(true, None).await);
            }
        });
    }
    tasks.join_all().await;
}

/// Opens connections that say nothing.
async fn probes(server: Server) {
    let mut kept = std::collections::VecDeque::new();
    loop {
        for _ in 0..8 {
            if let Ok(stream) = server.stream().await {
                kept.push_back(stream);
            }
        }
        while kept.len() > 512 {
            kept.pop_front();
        }
        sleep(Duration::from_millis(2)).await;
    }
}
