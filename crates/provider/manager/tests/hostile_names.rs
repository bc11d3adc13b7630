//! Whatever texts objects have: the manager sends no other requests than those it means, stays ready, and its metrics get no
//! labels of users.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use http::{Request, Response, StatusCode};
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, Resource, ResourceExt as _};
use nephele_api::{core::Cluster, infrastructure::v1beta2::InMemoryCluster};
use nephele_cloud::{InProcess, Network};
use nephele_controller::check_request;
use nephele_manager::{Clients, Config, Manager, Options};
use nephele_testkit::{CUT, ManagementApi, hostile_texts, objects, texts_of, with_text};
use parking_lot::Mutex;
use prometheus::{Registry, TextEncoder};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Resources that the manager's roles allow it to use, with those for steps of Scenarios left out: any request for another
/// one, or to change these where only steps do, is answered as by RBAC.
const ALLOWED: [&str; 30] = [
    "cloudextensionconfigs",
    "clusterfaults",
    "clusters",
    "events",
    "faults",
    "globalinclusterippools",
    "globalinclusterprefixpools",
    "inclusterippools",
    "inclusterprefixpools",
    "inmemoryclusters",
    "inmemorymachinepools",
    "inmemorymachinepooltemplates",
    "inmemorymachines",
    "inmemorymachinetemplates",
    "ipaddressclaims",
    "ipaddresses",
    "kubeadmcontrolplanes",
    "leases",
    "machinepools",
    "machines",
    "namespaces",
    "scenarios",
    "secrets",
    "simulatedclouds",
    "customresourcedefinitions",
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "tokenreviews",
    "subjectaccessreviews",
    "configmaps",
];

/// Resources of steps in [`samples`].
const OF_STEPS: [&str; 1] = ["machinesets"];

fn is_meant(_group: &str, resource: &str) -> bool {
    ALLOWED.contains(&resource) || OF_STEPS.contains(&resource)
}

/// What the manager asked for that it must not.
#[derive(Default)]
struct Seen {
    requests: AtomicUsize,
    refused: AtomicUsize,
    wrong: Mutex<Vec<String>>,
}

/// The management API as the manager sees it: with roles, and with a look at each request.
fn watched(api: &ManagementApi, seen: &Arc<Seen>) -> Client {
    let server = api.server().clone();
    let seen = Arc::clone(seen);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let server = server.clone();
        let seen = Arc::clone(&seen);
        async move {
            seen.requests.fetch_add(1, Ordering::Relaxed);
            let method = request.method().clone();
            let uri = request.uri().clone();
            if let Err(error) = check_request(&method, &uri, is_meant) {
                seen.wrong.lock().push(format!("{method} {uri}: {error}"));
            }
            if uri.path().contains(CUT) {
                seen.wrong
                    .lock()
                    .push(format!("{method} {uri}: the client library has cut a name"));
            }
            let segments: Vec<&str> = uri.path().split('/').collect();
            let is_group = segments.get(1) == Some(&"apis");
            let rest = &segments[if is_group { 4 } else { 3 }.min(segments.len())..];
            let resource = match rest {
                ["namespaces", _, resource, ..] => Some(*resource),
                [resource, ..] => Some(*resource),
                [] => None,
            };
            let is_steps = method == "DELETE" && uri.path().contains("/clusters/");
            if is_group && segments.get(2).is_some_and(|group| group.contains("evil")) {
                seen.wrong
                    .lock()
                    .push(format!("{method} {uri}: a user chose the API group"));
            }
            if resource.is_some_and(|resource| !ALLOWED.contains(&resource) || is_steps) {
                seen.refused.fetch_add(1, Ordering::Relaxed);
                return Ok::<_, Infallible>(forbidden(resource.unwrap_or_default()));
            }
            Ok(server.handle(request.map(Body::new)).await)
        }
    });
    Client::new(service, objects::NAMESPACE)
}

fn forbidden(resource: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": format!("{resource} is forbidden: User \"me\" cannot get resource \"{resource}\""),
    });
    let response = Response::builder()
        .status(StatusCode::FORBIDDEN)
        .header("content-type", "application/json");
    response.body(Body::from(status.to_string())).expect("a response")
}

/// An object of each kind that the manager reads, with every field that has a text which names something.
fn samples() -> Vec<(&'static str, Value)> {
    let cluster_owner =
        json!([{ "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "other", "uid": "u" }]);
    let labels = json!({ "cluster.x-k8s.io/cluster-name": "other" });
    let capi = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default";
    let ours = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/default";
    let ipam = "/apis/ipam.cluster.x-k8s.io";
    let cloud = "/apis/cloud.nephele.dev/v1alpha1";
    let text = |parts: [&str; 2]| -> &'static str { Box::leak(parts.concat().into_boxed_str()) };
    let reference =
        |group: &str, kind: &str, name: &str| json!({ "apiGroup": group, "kind": kind, "name": name });
    let infrastructure = "infrastructure.cluster.x-k8s.io";
    vec![
        (
            text([capi, "/clusters"]),
            json!({ "kind": "Cluster", "apiVersion": "cluster.x-k8s.io/v1beta2", "metadata": {}, "spec": {
                "infrastructureRef": reference(infrastructure, "InMemoryCluster", "x"),
                "controlPlaneRef": reference("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", "cp"),
                "clusterNetwork": { "serviceDomain": "cluster.local", "pods": { "cidrBlocks": ["192.168.0.0/16"] } },
            } }),
        ),
        (
            text([ours, "/inmemoryclusters"]),
            json!({ "kind": "InMemoryCluster", "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
                "metadata": { "labels": labels, "ownerReferences": cluster_owner, "annotations": { "a": "b" } },
                "spec": { "controlPlaneEndpoint": { "host": "127.0.0.1", "port": 20900 }, "cloudRef": { "name": "default" } },
                "status": { "initialization": { "provisioned": true } } }),
        ),
        (
            text([capi, "/machines"]),
            json!({ "kind": "Machine", "apiVersion": "cluster.x-k8s.io/v1beta2", "metadata": { "labels": labels }, "spec": {
                "clusterName": "other", "version": "v1.36.3", "providerID": "in-memory://a", "failureDomain": "north-1a",
                "infrastructureRef": reference(infrastructure, "InMemoryMachine", "m"),
                "bootstrap": { "dataSecretName": "s", "configRef": reference("bootstrap.cluster.x-k8s.io", "KubeadmConfig", "c") },
            } }),
        ),
        (
            text([ours, "/inmemorymachines"]),
            json!({ "kind": "InMemoryMachine", "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
                "metadata": { "labels": labels, "ownerReferences": [
                    { "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "m", "uid": "u" },
                    { "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "InMemoryMachinePool", "name": "p", "uid": "u" },
                ] },
                "spec": { "instanceType": "small", "image": "any", "market": "Spot", "network": { "addressesFromPools": [
                    reference("ipam.cluster.x-k8s.io", "InClusterIPPool", "pool") ] } } }),
        ),
        (
            text([capi, "/machinepools"]),
            json!({ "kind": "MachinePool", "apiVersion": "cluster.x-k8s.io/v1beta2", "metadata": { "labels": labels }, "spec": {
                "clusterName": "other", "replicas": 1, "providerIDList": ["in-memory://a"], "failureDomains": ["a"],
                "template": { "spec": { "clusterName": "other", "version": "v1.36.3",
                    "infrastructureRef": reference(infrastructure, "InMemoryMachinePool", "p"),
                    "bootstrap": { "dataSecretName": "s" } } },
            } }),
        ),
        (
            text([ours, "/inmemorymachinepools"]),
            json!({ "kind": "InMemoryMachinePool", "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
                "metadata": { "labels": labels, "ownerReferences": [
                    { "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool", "name": "p", "uid": "u" }] },
                "spec": { "providerIDList": ["in-memory://a"], "template": { "instanceType": "small" } } }),
        ),
        (
            text([ours, "/inmemorymachinetemplates"]),
            json!({ "kind": "InMemoryMachineTemplate", "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
                "metadata": { "labels": labels, "ownerReferences": cluster_owner },
                "spec": { "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "instanceType": "small", "image": "any" } } } }),
        ),
        (
            text([ipam, "/v1alpha2/namespaces/default/inclusterippools"]),
            json!({ "kind": "InClusterIPPool", "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2", "metadata": { "labels": { "a": "b" } },
                "spec": { "addresses": ["10.1.0.1-10.1.0.9"], "prefix": 24, "gateway": "10.1.0.254" } }),
        ),
        (
            text([ipam, "/v1alpha2/globalinclusterippools"]),
            json!({ "kind": "GlobalInClusterIPPool", "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2", "metadata": {},
                "spec": { "addresses": ["10.2.0.1-10.2.0.9"], "prefix": 24 } }),
        ),
        (
            text([ipam, "/v1beta2/namespaces/default/ipaddressclaims"]),
            json!({ "kind": "IPAddressClaim", "apiVersion": "ipam.cluster.x-k8s.io/v1beta2",
                "metadata": { "labels": labels, "annotations": { "a": "b" }, "ownerReferences": cluster_owner },
                "spec": { "clusterName": "other", "poolRef": reference("ipam.cluster.x-k8s.io", "InClusterIPPool", "pool") },
                "status": { "addressRef": { "name": "a" } } }),
        ),
        (
            text([ipam, "/v1beta2/namespaces/default/ipaddresses"]),
            json!({ "kind": "IPAddress", "apiVersion": "ipam.cluster.x-k8s.io/v1beta2",
                "metadata": { "labels": labels, "ownerReferences": [
                    { "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim", "name": "c", "uid": "u" }] },
                "spec": { "claimRef": { "name": "c" }, "address": "10.0.0.3", "prefix": 24, "gateway": "10.0.0.1",
                    "poolRef": reference("ipam.cluster.x-k8s.io", "InClusterIPPool", "pool") } }),
        ),
        (
            text([cloud, "/namespaces/default/simulatedclouds"]),
            json!({ "kind": "SimulatedCloud", "apiVersion": "cloud.nephele.dev/v1alpha1", "metadata": { "labels": { "a": "b" } },
                "spec": { "seed": "amber", "regions": [{ "name": "n", "zones": [{ "name": "n-a" }] }],
                    "instanceTypes": [{ "name": "m", "cpu": 2, "memory": "8Gi", "price": "0.1" }],
                    "images": [{ "name": "u", "kubernetes": ["1.36"] }], "latency": { "vm": { "fixed": "1s" } } } }),
        ),
        (
            text([cloud, "/namespaces/default/faults"]),
            json!({ "kind": "Fault", "apiVersion": "cloud.nephele.dev/v1alpha1",
                "metadata": { "ownerReferences": [{ "apiVersion": "cloud.nephele.dev/v1alpha1", "kind": "Scenario", "name": "s", "uid": "u" }] },
                "spec": { "match": { "operations": ["CreateInstance"], "zones": ["n-a"], "regions": ["n"], "names": ["x"],
                    "machineSelector": { "matchLabels": { "a": "b" } } },
                    "effect": { "fail": { "reason": "InsufficientCapacity", "message": "no", "retryAfter": "10s" } },
                    "budget": { "for": "10m" } } }),
        ),
        (
            text([cloud, "/clusterfaults"]),
            json!({ "kind": "ClusterFault", "apiVersion": "cloud.nephele.dev/v1alpha1", "metadata": {},
                "spec": { "namespaceSelector": { "matchLabels": { "a": "b" } }, "match": { "operations": ["CreateInstance"] },
                    "effect": { "fail": { "reason": "InsufficientCapacity" } }, "budget": { "count": 3 } } }),
        ),
        (
            text([cloud, "/namespaces/default/scenarios"]),
            json!({ "kind": "Scenario", "apiVersion": "cloud.nephele.dev/v1alpha1", "metadata": {}, "spec": { "steps": [
                { "parallel": [
                    { "steps": [{ "wait": { "cluster": "c", "condition": "Available", "within": "1s" } }] },
                    { "steps": [{ "expect": { "within": "0", "object": { "apiVersion": "cluster.x-k8s.io/v1beta2",
                        "kind": "Machine", "name": "m", "field": "spec.version", "value": "v1" } } }] },
                    { "steps": [{ "clock": { "cloud": "c", "rate": "2" } }] },
                    { "steps": [{ "scale": { "kind": "Cluster", "name": "c", "replicas": 1 } }] },
                    { "steps": [{ "upgrade": { "cluster": "c", "version": "v1.36.3" } }] },
                    { "steps": [{ "delete": { "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c" } }] },
                    { "forEach": ["c"], "steps": [{ "delete": { "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "name": "$(item)" } }] },
                    { "steps": [{ "apply": { "manifests": "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {name: x}}" } }] },
                ] },
            ] } }),
        ),
        (
            text([cloud, "/cloudextensionconfigs"]),
            json!({ "kind": "CloudExtensionConfig", "apiVersion": "cloud.nephele.dev/v1alpha1",
                "metadata": { "annotations": { "runtime.cluster.x-k8s.io/inject-ca-from-secret": "default/s" } },
                "spec": { "clientConfig": { "service": { "namespace": "default", "name": "q", "path": "/m" } },
                    "namespaceSelector": { "matchLabels": { "unused": "here" } }, "settings": { "most": "10" } } }),
        ),
        (
            "/api/v1/namespaces/default/secrets",
            json!({ "kind": "Secret", "apiVersion": "v1", "metadata": { "labels": labels, "ownerReferences": cluster_owner },
                "type": "cluster.x-k8s.io/secret", "stringData": { "tls.crt": "a" } }),
        ),
    ]
}

/// An owner of a kind that is not served: garbage collection cannot tell whether it exists, and leaves its objects alone.
fn keeper() -> Value {
    json!({ "apiVersion": "unserved.io/v1", "kind": "Keeper", "name": "k", "uid": "k" })
}

fn kept<K: Resource<DynamicType = ()>>(mut object: K) -> K {
    object
        .owner_references_mut()
        .push(serde_json::from_value(keeper()).expect("a reference"));
    object
}

/// Sends a user's request, and returns its status and the object.
async fn send(
    api: &ManagementApi,
    method: &str,
    path: &str,
    kind: &str,
    body: &Value,
) -> (StatusCode, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind);
    let request = request.body(Body::from(body.to_string())).expect("a request");
    let response = api.server().handle(request).await;
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX)
        .await
        .expect("a body");
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

/// The labels of requests in the metrics.
fn labels_of(registry: &Registry) -> BTreeSet<String> {
    let text = TextEncoder::new()
        .encode_to_string(&registry.gather())
        .expect("text");
    let of_requests = |line: &&str| line.starts_with("nephele_management_requests_total");
    let labels = text
        .lines()
        .filter(of_requests)
        .filter_map(|line| line.split(['{', '}']).nth(1));
    labels.map(str::to_owned).collect()
}

/// Lets a manager look at every object that differs from a sample in one text, for each of the samples.
#[tokio::test(start_paused = true)]
async fn no_text_of_an_object_becomes_another_request_changes_readiness_or_makes_a_label() {
    let mut created = 0;
    for (path, sample) in samples() {
        created += look_at_all(path, &sample).await;
    }
    assert!(created > 1000, "{created} were taken by the API server");
}

async fn look_at_all(path: &str, sample: &Value) -> usize {
    let kind = sample["kind"].as_str().expect("a kind");
    let api = ManagementApi::start();
    let seen = Arc::new(Seen::default());
    let registry = Registry::new();
    let options = Options {
        roles: "infrastructure,ipam".into(),
        health_address: String::new(),
        diagnostics_address: String::new(),
        workload_ports: "20000-20999".into(),
        leader_elect: false,
        ..Options::default()
    };
    let config = Config::new(options).expect("valid");
    let manager = Manager::build_with(config, Clients::one(watched(&api, &seen)), registry.clone());
    let manager = manager.expect("nothing to listen on");
    let manager = manager.within(api.clock(), Network::InProcess(InProcess::default()));
    let readiness = manager.readiness();
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(manager.run(shutdown.clone()));
    let cluster = api.create(&objects::cluster("other")).await;
    let machine = api.create(&objects::worker("other", "m")).await;
    api.create(&objects::in_memory_machine(&machine)).await;
    api.create(&objects::in_memory_cluster(&cluster)).await;
    api.create::<Secret>(&objects::authority_secret("other", objects::Purpose::Cluster))
        .await;
    api.eventually("other", "to be provisioned", InMemoryCluster::is_provisioned)
        .await;
    api.patch_status::<Cluster>("other", &json!(objects::provisioned(true)))
        .await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(readiness.waiting(), [""; 0], "{kind}: before");

    let mut created = 0;
    for (number, place) in texts_of(sample).into_iter().enumerate() {
        if ["/kind", "/apiVersion"].contains(&place.as_str()) {
            continue;
        }
        for (index, text) in hostile_texts().into_iter().enumerate() {
            let mut object = with_text(sample, &place, &text);
            let mut name = format!("h-{number}-{index}");
            match kind {
                // As Cluster API's core, which makes the Cluster the owner.
                "Cluster" => {
                    drop(
                        api.create(&kept(objects::in_memory_cluster(&objects::cluster(&name))))
                            .await,
                    );
                }
                "InMemoryCluster" => drop(api.create::<Cluster>(&objects::cluster(&name)).await),
                "Machine" => {
                    let machine = objects::worker("other", &name);
                    api.create(&kept(objects::in_memory_machine(&machine))).await;
                }
                // The claim of a machine that waits for its address.
                "IPAddressClaim" => {
                    let machine = api.create(&objects::worker("other", &name)).await;
                    let mut waiting = objects::in_memory_machine(&machine);
                    let pool = json!({ "apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "none" });
                    let network =
                        serde_json::from_value(json!({ "addressesFromPools": [pool] })).expect("a network");
                    waiting.spec.network = Some(network);
                    api.create(&waiting).await;
                    name.push_str("-0-0");
                }
                _ => {}
            }
            object["metadata"]["name"] = name.as_str().into();
            if object["spec"]["infrastructureRef"]["name"] == "x" {
                object["spec"]["infrastructureRef"]["name"] = name.as_str().into();
            }
            match object["metadata"]["ownerReferences"].as_array_mut() {
                Some(owners) => owners.push(keeper()),
                None => object["metadata"]["ownerReferences"] = json!([keeper()]),
            }
            let (status, _) = send(&api, "POST", path, "application/json", &object).await;
            if !status.is_success() {
                continue;
            }
            created += 1;
            if object.get("status").is_some() {
                let path = format!("{path}/{name}/status");
                let patch = json!({ "status": object["status"] });
                send(&api, "PATCH", &path, "application/merge-patch+json", &patch).await;
            }
        }
        sleep(Duration::from_secs(5)).await;
    }
    // Several retries of each.
    sleep(Duration::from_secs(60)).await;
    let wrong = std::mem::take(&mut *seen.wrong.lock());
    let known = [""; 0];
    assert_eq!(
        wrong.iter().take(20).collect::<Vec<_>>(),
        known,
        "{kind}: {} in all",
        wrong.len()
    );
    assert_eq!(readiness.waiting(), known, "{kind}");
    let gates = readiness.states().len();
    assert!(gates < 60, "{kind}: {gates} gates");
    let labels = labels_of(&registry);
    assert!(labels.len() < 120, "{kind}: {labels:?}");
    assert!(
        labels.iter().all(|labels| labels.len() < 200),
        "{kind}: {labels:?}"
    );
    assert!(!task.is_finished(), "{kind}: the manager has ended");
    shutdown.cancel();
    task.await.expect("no panic").expect("an orderly end");
    created
}
