//! The manager uses each right of its roles: a recorded run against the files in `config`.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use http::{Method, Request, Uri};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use nephele_controller::wall_clock;
use nephele_fake_capi::{Plan, PlannedClusters};
use parking_lot::Mutex;
use serde::Deserialize as _;
use serde_json::{Value, json};
use serde_yaml_ng::Deserializer;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{Folder, Management, ManagerSettings, Tasks};
use nephele_access::Kinds;

/// A file of `config`.
macro_rules! config {
    ($name:literal) => {
        include_str!(concat!("../../../../../config/", $name))
    };
}

/// The roles of the manager as both providers, without those for its lease, its certificate and the steps of Scenarios.
const ROLES: [&str; 4] = [
    config!("rbac/role.yaml"),
    config!("rbac/cluster_fault_role.yaml"),
    config!("ipam/role.yaml"),
    config!("ipam/cluster_fault_role.yaml"),
];

/// Rights that no request of this run shows, by a part of them, with the reason.
const UNSEEN: [(&str, &str); 13] = [
    (
        "/finalizers.",
        "the API server asks for it when an owner reference blocks a deletion",
    ),
    ("reviews.", "only diagnostics with authentication review callers"),
    (
        "patch events.",
        "an Event that happens again is counted, which takes minutes",
    ),
    (
        "delete inmemorymachines.",
        "a pool deletes those for which Cluster API has made no Machine",
    ),
    (
        "get kubeadmcontrolplanes.",
        "the stand-in plays no KubeadmControlPlane, for which Secrets are prepared",
    ),
    ("create secrets.", "as above"),
    (
        "get ipaddressclaims/status.",
        "Cluster API's contract of IPAM providers lists it",
    ),
    ("update ipaddressclaims.", "as above"),
    ("update ipaddressclaims/status.", "as above"),
    ("update ipaddresses.", "as above"),
    ("update inclusterippools/status.", "as above"),
    ("update inclusterprefixpools/status.", "as above"),
    ("update globalincluster", "as above"),
];

/// The longest time of a step, and the time without a new right after which the next one begins.
const STEP_LIMIT: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_secs(8);

const NAMESPACE: &str = "team";

/// A cluster with addresses from a pool, and something of every other kind.
const OBJECTS: &str = r#"
apiVersion: ipam.cluster.x-k8s.io/v1alpha2
kind: InClusterIPPool
metadata: {name: machines}
spec: {addresses: [10.0.0.10-10.0.0.99], prefix: 24, gateway: 10.0.0.1}
---
apiVersion: ipam.cluster.x-k8s.io/v1alpha2
kind: GlobalInClusterIPPool
metadata: {name: everybody}
spec: {addresses: [10.0.1.10-10.0.1.99], prefix: 24, gateway: 10.0.1.1}
---
apiVersion: ipam.cluster.x-k8s.io/v1alpha2
kind: InClusterPrefixPool
metadata: {name: pods}
spec: {prefixes: ["fd00:30::/48"], allocationPrefixLength: 64}
---
apiVersion: ipam.cluster.x-k8s.io/v1alpha2
kind: GlobalInClusterPrefixPool
metadata: {name: everybody}
spec: {prefixes: ["fd00:40::/48"], allocationPrefixLength: 64}
---
apiVersion: ipam.cluster.x-k8s.io/v1beta2
kind: IPAddressClaim
metadata: {name: of-everybody}
spec: {poolRef: {apiGroup: ipam.cluster.x-k8s.io, kind: GlobalInClusterIPPool, name: everybody}}
---
apiVersion: ipam.cluster.x-k8s.io/v1beta2
kind: IPAddressClaim
metadata: {name: of-pods}
spec: {poolRef: {apiGroup: ipam.cluster.x-k8s.io, kind: InClusterPrefixPool, name: pods}}
---
apiVersion: ipam.cluster.x-k8s.io/v1beta2
kind: IPAddressClaim
metadata: {name: prefix-of-everybody}
spec: {poolRef: {apiGroup: ipam.cluster.x-k8s.io, kind: GlobalInClusterPrefixPool, name: everybody}}
---
apiVersion: cloud.nephele.dev/v1alpha1
kind: SimulatedCloud
metadata: {name: default}
spec: {}
---
apiVersion: cloud.nephele.dev/v1alpha1
kind: Fault
metadata: {name: address}
spec: {match: {names: [unowned]}, effect: {notReady: {}}, budget: {count: 1}}
---
apiVersion: cloud.nephele.dev/v1alpha1
kind: Scenario
metadata: {name: short}
spec: {steps: [{fault: {name: silence, spec: {effect: {notReady: {}}, budget: {count: 1}}, for: 1s}}, {pause: 1s}]}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo}
spec:
  topology:
    classRef: {name: in-memory}
    version: v1.36.3
    variables: [{name: addressesFromPools, value: [{name: machines}]}]
    workers:
      machineDeployments: [{class: default-worker, name: workers, replicas: 1}]
      machinePools: [{class: default-worker, name: pool, replicas: 2}]
"#;

/// Rights as `verb resource.group`.
type Rights = BTreeSet<String>;

fn granted() -> Rights {
    let documents = ROLES.iter().flat_map(|text| Deserializer::from_str(text));
    let roles = documents.map(|document| Value::deserialize(document).expect("YAML"));
    let rules = roles.flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default());
    let texts = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|text| Some(text.as_str()?.to_owned()))
            .collect()
    };
    let mut rights = Rights::new();
    for rule in rules {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                rights.extend(
                    texts(&rule["verbs"])
                        .iter()
                        .map(|verb| format!("{verb} {resource}.{group}")),
                );
            }
        }
    }
    rights
}

/// The right that a request needs.
fn needed(method: &Method, uri: &Uri) -> Option<String> {
    let mut parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
    let group = match *parts.first()? {
        "api" => String::new(),
        _ => parts.remove(1).to_owned(),
    };
    let mut rest = parts.split_off(2.min(parts.len()));
    if rest.len() > 2 && rest[0] == "namespaces" {
        rest.drain(..2);
    }
    let resource = [rest.first().copied(), rest.get(2).copied()];
    let resource = resource.into_iter().flatten().collect::<Vec<_>>().join("/");
    let watches = uri.query().is_some_and(|query| query.contains("watch=true"));
    let verb = match (method.as_str(), rest.len()) {
        (_, 0) => return None,
        ("GET", _) if watches => "watch",
        ("GET", 1) => "list",
        ("GET", _) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        _ => "delete",
    };
    Some(format!("{verb} {resource}.{group}"))
}

/// The same client, which writes down the rights that it needs.
fn recording(inner: &Client, used: &Arc<Mutex<Rights>>) -> Client {
    let inner = inner.clone();
    let used = Arc::clone(used);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        used.lock().extend(needed(request.method(), request.uri()));
        let inner = inner.clone();
        async move { inner.send(request).await }
    });
    Client::new(service, "default")
}

async fn api(client: &Client, object: &Value) -> Api<DynamicObject> {
    Kinds::new(client.clone())
        .api(object)
        .await
        .expect("an answer")
        .expect("a served kind")
}

async fn create_all(client: &Client, text: &str) {
    for document in Deserializer::from_str(text) {
        let mut object = Value::deserialize(document).expect("YAML");
        let is_namespaced = object["kind"].as_str().is_some_and(|kind| {
            !["Global", "ClusterFault", "CloudExtensionConfig"]
                .iter()
                .any(|scoped| kind.starts_with(scoped))
        });
        if is_namespaced {
            object["metadata"]["namespace"] = json!(NAMESPACE);
        }
        let api = api(client, &object).await;
        let object = serde_json::from_value(object).expect("an object");
        api.create(&PostParams::default(), &object)
            .await
            .expect("created");
    }
}

/// Deletes the objects of a kind in a namespace.
async fn delete_all(client: &Client, group: &str, version: &str, kind: &str) {
    let object = json!({
        "apiVersion": format!("{group}/{version}"), "kind": kind, "metadata": {"namespace": NAMESPACE},
    });
    let api = api(client, &object).await;
    for object in api.list(&ListParams::default()).await.expect("listed") {
        match api.delete(&object.name_any(), &DeleteParams::default()).await {
            Ok(_) => {}
            // Its machine has let go of it since it was listed.
            Err(kube::Error::Api(refused)) if refused.code == 404 => {}
            Err(error) => panic!("deleted: {error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_manager_uses_each_right_that_its_roles_give_and_no_other() {
    // An error means that there is a provider already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let stop = CancellationToken::new();
    let used = Arc::<Mutex<Rights>>::default();
    let management = Management::start("rights", &wall_clock(), stop.clone()).expect("it starts");
    let folder = Folder::open(None, "nephele-rights-test").expect("a folder");
    let mut tasks = Tasks::new(stop.clone());
    let settings = ManagerSettings {
        port_range: "28300-28399".to_owned(),
        journal: folder.path("journal.jsonl"),
        name: "rights",
        seed: "rights".to_owned(),
        webhooks: None,
        has_stand_in: true,
    };
    let client = &management.client;
    let _routes = tasks
        .add_manager(recording(client, &used), settings)
        .expect("it starts");
    tasks.add_standin(client.clone(), PlannedClusters::new(Plan::default()));
    for name in [NAMESPACE, "workshop", "quota-system"] {
        let labels = json!({"example.com/workshop": (name == "workshop").to_string()});
        let namespace = serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}}));
        let namespaces = Api::<Namespace>::all(client.clone());
        namespaces
            .create(&PostParams::default(), &namespace.expect("valid"))
            .await
            .expect("created");
    }
    let authority: Secret = serde_json::from_value(json!({
        "metadata": {"name": "quota-webhook-certificate"}, "stringData": {"ca.crt": "an authority"},
    }))
    .expect("a Secret");
    let secrets = Api::<Secret>::namespaced(client.clone(), "quota-system");
    secrets
        .create(&PostParams::default(), &authority)
        .await
        .expect("created");
    for text in [
        config!("samples/cluster_fault.yaml"),
        config!("samples/cloud_extension_config.yaml"),
        config!("templates/clusterclass-in-memory.yaml"),
        OBJECTS,
    ] {
        create_all(client, text).await;
    }

    let granted = granted();
    let is_seen = |right: &&String| !UNSEEN.iter().any(|(part, _)| right.contains(part));
    let unused = || -> Vec<String> {
        let used = used.lock();
        // Who may list the objects could read one anyway. It is read when the answer to its creation was lost.
        let is_used = |right: &str| {
            let listed = right.strip_prefix("get ").map(|kind| format!("list {kind}"));
            used.contains(right) || listed.is_some_and(|listed| used.contains(&listed))
        };
        granted
            .iter()
            .filter(is_seen)
            .filter(|right| !is_used(right))
            .cloned()
            .collect()
    };
    // Each step uses what the one before has made. What a step leaves unused is for the next one.
    for step in 0..3 {
        match step {
            0 => {}
            1 => {
                let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
                    "metadata": {"namespace": NAMESPACE}});
                let smaller = json!({"spec": {"topology": {"workers": {"machinePools": [
                    {"class": "default-worker", "name": "pool", "replicas": 1}]}}}});
                let params = PatchParams::default();
                let clusters = api(client, &cluster).await;
                clusters
                    .patch("demo", &params, &Patch::Merge(&smaller))
                    .await
                    .expect("scaled");
                // The Fault of the ClusterFault is restored.
                let faults = json!({"apiVersion": "cloud.nephele.dev/v1alpha1", "kind": "Fault",
                    "metadata": {"namespace": "workshop"}});
                let faults = api(client, &faults).await;
                let changed = Patch::Merge(json!({"spec": {"budget": {"count": 9}}}));
                for fault in faults.list(&ListParams::default()).await.expect("listed") {
                    faults
                        .patch(&fault.name_any(), &params, &changed)
                        .await
                        .expect("changed");
                }
            }
            _ => {
                delete_all(client, "ipam.cluster.x-k8s.io", "v1beta2", "IPAddressClaim").await;
                delete_all(client, "cluster.x-k8s.io", "v1beta2", "Cluster").await;
                delete_all(client, "cloud.nephele.dev", "v1alpha1", "Scenario").await;
                let faults = json!({"apiVersion": "cloud.nephele.dev/v1alpha1", "kind": "ClusterFault"});
                api(client, &faults)
                    .await
                    .delete("no-room", &DeleteParams::default())
                    .await
                    .expect("deleted");
            }
        }
        let deadline = Instant::now() + STEP_LIMIT;
        let mut before = (unused().len(), Instant::now());
        while !unused().is_empty() && Instant::now() < deadline {
            sleep(Duration::from_millis(100)).await;
            let now = unused().len();
            if now != before.0 {
                before = (now, Instant::now());
            } else if before.1.elapsed() > QUIET {
                break;
            }
        }
    }
    let foreign: Vec<String> = used.lock().difference(&granted).cloned().collect();
    assert_eq!((unused(), foreign), (Vec::<String>::new(), Vec::<String>::new()));
    tasks.finish().await;
    folder.discard().expect("removed");
}
