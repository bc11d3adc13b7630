//! A manager with a Role in one namespace, while objects exist in another namespace.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::body::Body;
use http::{Method, Request, Response, StatusCode};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt, api::PostParams};
use nephele_api::{
    core::Cluster,
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine, MachineNetwork, PoolReference},
    ipam::{
        v1alpha2::{InClusterIPPool, InClusterIPPoolSpec},
        v1beta2::IPAddressClaim,
    },
};
use nephele_manager::{Config, Manager, Options};
use nephele_testkit::{ManagementApi, objects};
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::sync::CancellationToken;

const OTHER: &str = "other";

/// Requests of the manager that a Role in [`objects::NAMESPACE`] cannot allow: cluster-scoped kinds, and reading
/// IPAddresses, because those of global pools are in every namespace.
fn is_of_no_namespace(method: &Method, path: &str) -> bool {
    let last = path.rsplit('/').next().unwrap_or_default();
    let is_global = [
        "globalinclusterippools",
        "globalinclusterprefixpools",
        "cloudextensionconfigs",
    ]
    .contains(&last);
    let asks_for_kinds = last.starts_with("v1");
    is_global || asks_for_kinds || (method == Method::GET && last == "ipaddresses")
}

/// The API server as a client with a Role in one namespace sees it, and the requests it refused.
fn confined(api: &ManagementApi) -> (Client, Arc<Mutex<Vec<String>>>) {
    let refused = Arc::new(Mutex::new(Vec::new()));
    let server = api.server().clone();
    let noted = Arc::clone(&refused);
    let inside = format!("/namespaces/{}/", objects::NAMESPACE);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        let allowed = path.contains(&inside) || is_of_no_namespace(&method, &path);
        if !allowed {
            noted.lock().push(format!("{method} {path}"));
        }
        let server = server.clone();
        async move {
            if allowed {
                return Ok::<_, Infallible>(server.handle(request.map(Body::new)).await);
            }
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "reason": "Forbidden", "code": 403, "message": format!("{method} {path} is forbidden"),
            });
            let mut response = Response::new(Body::from(status.to_string()));
            *response.status_mut() = StatusCode::FORBIDDEN;
            Ok(response)
        }
    });
    (Client::new(service, objects::NAMESPACE), refused)
}

/// Creates an object in a namespace.
macro_rules! create {
    ($api:expr, $namespace:expr, $object:expr) => {{
        let mut object = $object;
        object.metadata.namespace = Some($namespace.to_owned());
        let objects = Api::namespaced($api.client(), $namespace);
        objects
            .create(&PostParams::default(), &object)
            .await
            .expect("created")
    }};
}

/// A pool, a cluster, and a machine that wants an address of the pool.
async fn populate(
    api: &ManagementApi,
    namespace: &str,
) -> (InMemoryCluster, InMemoryMachine, InClusterIPPool) {
    let spec = InClusterIPPoolSpec {
        addresses: vec!["10.20.0.10".into()],
        prefix: 24,
        ..InClusterIPPoolSpec::default()
    };
    let pool = create!(api, namespace, InClusterIPPool::new("pool", spec));
    let cluster = create!(api, namespace, objects::cluster("demo"));
    let object = create!(api, namespace, objects::in_memory_cluster(&cluster));
    let machine = create!(api, namespace, objects::worker("demo", "w"));
    let mut machine = objects::in_memory_machine(&machine);
    let api_group = "ipam.cluster.x-k8s.io".into();
    let kind = "InClusterIPPool".into();
    let reference = PoolReference {
        api_group,
        kind,
        name: "pool".into(),
    };
    machine.spec.network = Some(MachineNetwork {
        addresses_from_pools: vec![reference],
    });
    (object, create!(api, namespace, machine), pool)
}

#[tokio::test]
async fn objects_of_another_namespace_are_left_alone_and_nothing_is_asked_there() {
    let api = ManagementApi::start();
    let namespaces: Api<Namespace> = Api::all(api.client());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(OTHER.into());
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .expect("a namespace");
    let there = populate(&api, OTHER).await;

    let options = Options {
        namespace: objects::NAMESPACE.into(),
        leader_elect: true,
        pod_namespace: objects::NAMESPACE.into(),
        health_address: String::new(),
        diagnostics_address: String::new(),
        bind_address: "127.0.0.1".into(),
        workload_ports: "18630-18639".into(),
        ..Options::default()
    };
    let (client, refused) = confined(&api);
    let manager = Manager::build(Config::new(options).expect("valid"), client).expect("free ports");
    let shutdown = CancellationToken::new();
    let manager = tokio::spawn(manager.run(shutdown.clone()));
    populate(&api, objects::NAMESPACE).await;
    api.eventually("demo", "to be provisioned", InMemoryCluster::is_provisioned)
        .await;
    api.patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    let is_bound = |claim: &IPAddressClaim| {
        claim
            .status
            .as_ref()
            .is_some_and(|status| status.address_ref.is_some())
    };
    api.eventually("w-0-0", "to have an address", is_bound).await;

    let (cluster, machine, pool) = there;
    let clusters: Api<InMemoryCluster> = Api::namespaced(api.client(), OTHER);
    assert_eq!(clusters.get("demo").await.expect("there"), cluster);
    let machines: Api<InMemoryMachine> = Api::namespaced(api.client(), OTHER);
    assert_eq!(machines.get("w").await.expect("there"), machine);
    let pools: Api<InClusterIPPool> = Api::namespaced(api.client(), OTHER);
    let unchanged = pools.get("pool").await.expect("there");
    assert_eq!(unchanged.resource_version(), pool.resource_version());
    let claims: Api<IPAddressClaim> = Api::namespaced(api.client(), OTHER);
    assert_eq!(
        claims
            .list(&Default::default())
            .await
            .expect("a list")
            .items
            .len(),
        0
    );
    shutdown.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(60), manager).await;
    ended
        .expect("an end in bounded time")
        .expect("no panic")
        .expect("an orderly end");
    assert_eq!(*refused.lock(), [""; 0]);
}
