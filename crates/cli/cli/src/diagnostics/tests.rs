//! Commands against a management API in which tenants have everything that looks like the manager.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http::Method;
use hyper::body::Bytes;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    apps::v1::Deployment,
    coordination::v1::Lease,
    rbac::v1::{ClusterRole, PolicyRule, Role},
};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use nephele_manager::{DIAGNOSTICS_AUDIENCE, DIAGNOSTICS_CERTIFICATE, LEADER_ELECTION_ID};
use nephele_pki::{Authority, KeyAlgorithm, LeafRequest};
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::{
    access::Access,
    forwarding_api::{Management, SYSTEM, TOKEN},
    load,
    provider::ProviderArgs,
};

/// Namespaces of tenants, whose objects come before and after those of the manager in lists.
const TENANTS: [&str; 2] = ["aaa", "zzz"];
const OURS: &str = "infrastructure-in-memory";

/// What servers in pods were told.
type Heard = Arc<Mutex<Vec<String>>>;

/// Listens, answers everything with an empty success, and writes down what it hears.
async fn server(tls: Option<TlsAcceptor>, heard: &Heard) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let heard = Arc::clone(heard);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let tls = tls.clone();
            let heard = Arc::clone(&heard);
            tokio::spawn(async move {
                match tls {
                    None => answer(&mut socket, &heard).await,
                    Some(tls) => {
                        if let Ok(mut stream) = tls.accept(socket).await {
                            answer(&mut stream, &heard).await;
                        }
                    }
                }
            });
        }
    });
    address
}

async fn answer(stream: &mut (impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin), heard: &Heard) {
    let mut request = vec![0; 4096];
    let Ok(length) = stream.read(&mut request).await else {
        return;
    };
    heard
        .lock()
        .push(String::from_utf8_lossy(&request[..length]).to_lowercase());
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    // The client may be gone.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// TLS with a new certificate, and its fingerprint.
fn certificate() -> (TlsAcceptor, String) {
    let now = Timestamp::now();
    let not_before = now - SignedDuration::from_hours(1);
    let not_after = now + SignedDuration::from_hours(1);
    let authority =
        Authority::generate("ca", KeyAlgorithm::EcdsaP256, not_before, not_after).expect("generated");
    let request = LeafRequest {
        common_name: "diagnostics".to_owned(),
        organizations: Vec::new(),
        dns_names: vec!["localhost".to_owned()],
        ip_addresses: Vec::new(),
        server_auth: true,
        client_auth: false,
        not_before,
        not_after,
        identity: "diagnostics".to_owned(),
    };
    let leaf = authority.issue(&request).expect("issued");
    let key = PrivateKeyDer::Pkcs8(leaf.key_der().to_vec().into());
    let chain = vec![CertificateDer::from(leaf.certificate_der().to_vec())];
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("fitting");
    (
        TlsAcceptor::from(Arc::new(config)),
        nephele_manager::fingerprint(leaf.certificate_der()),
    )
}

async fn lease(management: &Management, namespace: &str, holder: &str, certificate: &str) {
    let lease = json!({
        "metadata": {"name": LEADER_ELECTION_ID, "annotations": {DIAGNOSTICS_CERTIFICATE: certificate}},
        "spec": {"holderIdentity": holder},
    });
    management.create_in::<Lease>(namespace, lease).await;
}

/// A management cluster with a manager, and with impostors in the namespaces of tenants. Returns what they hear.
async fn cluster() -> (Management, Heard, Heard) {
    let management = Management::start().await;
    let manager = Heard::default();
    let impostors = Heard::default();
    let (tls, fingerprint) = certificate();
    management.pod("manager", "Running").await;
    management.listens(SYSTEM, "manager", server(Some(tls), &manager).await);
    lease(&management, SYSTEM, "manager", &fingerprint).await;
    for tenant in TENANTS {
        management.namespace(tenant).await;
        let (tls, fingerprint) = certificate();
        let labels = json!({"cluster.x-k8s.io/provider": OURS, "control-plane": "controller-manager"});
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "manager"}]}});
        let deployment = json!({
            "metadata": {"name": "nephele-controller-manager", "labels": labels},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        });
        management.create_in::<Deployment>(tenant, deployment).await;
        lease(&management, tenant, "manager", &fingerprint).await;
        for (pod, provider, args) in [
            ("manager", OURS, &["--leader-elect"][..]),
            (
                "insecure",
                OURS,
                &["--leader-elect", "--insecure-diagnostics=true"],
            ),
            ("core", "cluster-api", &["--insecure-diagnostics"]),
        ] {
            management.pod_in(tenant, pod, "Running", provider, args).await;
            let insecure = args.iter().any(|arg| arg.starts_with("--insecure"));
            management.listens(
                tenant,
                pod,
                server((!insecure).then(|| tls.clone()), &impostors).await,
            );
        }
    }
    (management, manager, impostors)
}

fn ask() -> Ask {
    Ask {
        about: "the journal",
        method: Method::GET,
        path: "/journal".to_owned(),
        body: Bytes::new(),
    }
}

fn account() -> AccountFor<'static> {
    AccountFor {
        name: "nephele-journal-1".to_owned(),
        label: ("run", "1"),
        path: "/journal",
        verbs: &["get"],
        namespace: None,
        time_limit: Duration::from_secs(60),
    }
}

async fn manager(management: &Management) -> anyhow::Result<Manager> {
    manager_for(management, account()).await
}

async fn manager_for(management: &Management, wanted: AccountFor<'_>) -> anyhow::Result<Manager> {
    let args = (ProviderArgs::default(), TokenArgs::default());
    let access = Access {
        client: management.client(),
        namespace: "default".to_owned(),
        manager: None,
        token: None,
    };
    Manager::find(&access, &args.0, &args.1, wanted).await
}

/// The roles that there are, of clusters and of namespaces.
async fn roles(management: &Management) -> [Vec<serde_json::Value>; 2] {
    let of_cluster = Api::<ClusterRole>::all(management.client());
    let of_cluster = of_cluster.list(&ListParams::default()).await.expect("a list");
    let of_namespace = Api::<Role>::all(management.client());
    let of_namespace = of_namespace.list(&ListParams::default()).await.expect("a list");
    let rules = |rules: Option<Vec<PolicyRule>>| serde_json::to_value(rules).expect("JSON");
    [
        of_cluster
            .items
            .into_iter()
            .map(|role| rules(role.rules))
            .collect(),
        of_namespace
            .items
            .into_iter()
            .map(|role| rules(role.rules))
            .collect(),
    ]
}

/// In a namespace that is gone, the account is that for all.
#[tokio::test]
async fn an_account_for_one_namespace_is_there_and_may_read_there_only() {
    let (management, _heard, _impostors) = cluster().await;
    let clusters = json!([{
        "apiGroups": ["infrastructure.cluster.x-k8s.io"], "resources": ["inmemoryclusters"], "verbs": ["get"],
    }]);
    let path = json!([{"nonResourceURLs": ["/journal"], "verbs": ["get"]}]);
    let mut seen = Vec::new();
    for namespace in [Some(TENANTS[0]), Some("gone"), None] {
        let wanted = AccountFor {
            namespace,
            ..account()
        };
        let manager = manager_for(&management, wanted).await.expect("the manager");
        seen.push(roles(&management).await);
        manager.leave().await.expect("removed");
    }
    seen.push(roles(&management).await);
    let tokens = management.asked();
    let token =
        |namespace: &str| format!("token of {namespace}/nephele-journal for [\"{DIAGNOSTICS_AUDIENCE}\"]");
    assert_eq!(
        seen,
        [
            [vec![], vec![clusters]],
            [vec![path.clone()], vec![]],
            [vec![path], vec![]],
            [vec![], vec![]],
        ]
    );
    assert_eq!(tokens, [token(TENANTS[0]), token(SYSTEM), token(SYSTEM)]);
}

#[tokio::test]
async fn impostors_in_namespaces_of_tenants_get_neither_a_token_nor_a_connection() {
    let (management, heard, impostors) = cluster().await;
    let manager = manager(&management).await.expect("the manager");
    assert!(manager.ask(&ask()).await.expect("an answer").status.is_success());
    manager.leave().await.expect("removed");
    let requests = heard.lock().clone();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(
        requests[0].contains(&format!("authorization: bearer {TOKEN}")),
        "{requests:?}"
    );
    let token = format!("token of {SYSTEM}/nephele-journal for [\"{DIAGNOSTICS_AUDIENCE}\"]");
    assert_eq!(management.asked(), [token, format!("{SYSTEM}/manager")]);
    assert_eq!(impostors.lock().clone(), [""; 0]);
}

/// The controllers of Cluster API are in the namespaces that webhook configurations name.
#[tokio::test]
async fn impostors_of_other_controllers_get_no_token_for_metrics() {
    let (management, heard, impostors) = cluster().await;
    let configuration: ValidatingWebhookConfiguration = serde_json::from_value(json!({
        "metadata": {"name": "capi", "labels": {"cluster.x-k8s.io/provider": "cluster-api"}},
        "webhooks": [{"name": "validation.cluster.cluster.x-k8s.io", "admissionReviewVersions": ["v1"],
            "sideEffects": "None", "clientConfig": {"service": {"namespace": "capi-system", "name": "s"}}}],
    }))
    .expect("a configuration");
    let configurations = Api::<ValidatingWebhookConfiguration>::all(management.client());
    configurations
        .create(&PostParams::default(), &configuration)
        .await
        .expect("created");
    // It serves its metrics to everybody, so it gets no token.
    let plain = Heard::default();
    management.namespace("capi-system").await;
    management
        .pod_in(
            "capi-system",
            "core",
            "Running",
            "cluster-api",
            &["--insecure-diagnostics"],
        )
        .await;
    management.listens("capi-system", "core", server(None, &plain).await);
    load::sample(&management.client()).await;
    let mut asked = management.asked();
    asked.sort();
    asked.dedup();
    let token = format!("token of {SYSTEM}/nephele-load-load for null");
    assert_eq!(
        asked,
        ["capi-system/core".to_owned(), format!("{SYSTEM}/manager"), token]
    );
    assert!(heard.lock().iter().all(|request| request.contains(TOKEN)));
    assert!(!plain.lock().is_empty() && plain.lock().iter().all(|request| !request.contains(TOKEN)));
    assert_eq!(impostors.lock().clone(), [""; 0]);
}

#[tokio::test]
async fn a_pod_with_another_certificate_than_the_published_one_gets_no_token() {
    let (management, heard, _impostors) = cluster().await;
    let (tls, _) = certificate();
    management.listens(SYSTEM, "manager", server(Some(tls), &heard).await);
    let manager = manager(&management).await.expect("the manager");
    let error = manager.ask(&ask()).await.err().expect("refused");
    let message = nephele_controller::chain(error.as_ref());
    assert!(
        message.contains("not the one that the manager publishes in its lease"),
        "{message}"
    );
    assert_eq!(heard.lock().clone(), [""; 0]);
}

#[tokio::test]
async fn a_manager_that_tells_nothing_in_its_lease_is_refused_before_an_account_is_made() {
    let management = Management::start().await;
    management.pod("manager", "Running").await;
    let refused = async |management: &Management| {
        let error = manager(management).await.err().expect("refused");
        error.to_string()
    };
    let message = refused(&management).await;
    assert!(
        message.contains(&format!(
            "no pod of the manager in namespace {SYSTEM} holds its lease"
        )),
        "{message}"
    );
    let lease = json!({"metadata": {"name": LEADER_ELECTION_ID}, "spec": {"holderIdentity": "manager"}});
    management.create_in::<Lease>(SYSTEM, lease).await;
    let message = refused(&management).await;
    assert!(
        message.contains("publishes no certificate for its diagnostics"),
        "{message}"
    );
    assert_eq!(management.asked(), [""; 0]);
}
