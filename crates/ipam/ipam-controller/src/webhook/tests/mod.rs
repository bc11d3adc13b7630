//! The identifiers of the rows are those of the in-cluster provider's suite.

mod address_pools;
mod prefix_pools;

use std::{convert::Infallible, mem::take, sync::Arc};

use http::Request;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, PostParams},
    client::Body,
};
use nephele_api::ipam::v1beta2::IPAddress;
use nephele_testkit::ManagementApi;
use parking_lot::Mutex;
use serde_json::json;

use super::*;

const NAMESPACE: &str = "default";

/// An admission request, except the object's metadata.
#[derive(Clone)]
enum Ask {
    Create(Value),
    Update(Value, Value),
    Delete(Value),
}

/// The warnings, or the code and the message of the denial.
type Answer = Result<Vec<String>, (i32, String)>;

/// A pool called `pool` with this spec, and annotations.
fn pool(spec: &Value, annotations: &Value) -> Value {
    json!({ "metadata": { "name": "pool", "annotations": annotations }, "spec": spec })
}

async fn ask(api: &ManagementApi, kind: PoolKind, ask: Ask) -> Answer {
    match kind {
        PoolKind::InClusterIPPool => ask_of::<InClusterIPPool>(api, kind, ask).await,
        PoolKind::GlobalInClusterIPPool => ask_of::<GlobalInClusterIPPool>(api, kind, ask).await,
        PoolKind::InClusterPrefixPool => ask_of::<InClusterPrefixPool>(api, kind, ask).await,
        PoolKind::GlobalInClusterPrefixPool => ask_of::<GlobalInClusterPrefixPool>(api, kind, ask).await,
    }
}

async fn ask_of<K>(api: &ManagementApi, kind: PoolKind, ask: Ask) -> Answer
where
    K: Resource<DynamicType = ()> + HasSpec + DeserializeOwned,
    K::Spec: PoolRules,
{
    let uid = existing(api, kind, &ApiResource::erase::<K>(&())).await;
    let read = |mut value: Value| {
        value["metadata"]["uid"] = uid.as_str().into();
        serde_json::from_value::<K>(value).expect("a pool")
    };
    let change = match ask {
        Ask::Create(pool) => Change::Create(read(pool)),
        Ask::Update(old, new) => Change::Update {
            old: read(old),
            new: read(new),
        },
        Ask::Delete(pool) => Change::Delete(read(pool)),
    };
    let namespace = kind.is_namespaced().then(|| NAMESPACE.to_owned());
    // As when a namespace is deleted: an API server does not name the object then.
    let name = if matches!(change, Change::Delete(_)) {
        ""
    } else {
        "pool"
    }
    .to_owned();
    let request = AdmissionRequest {
        name,
        namespace,
        user: "alice".to_owned(),
        dry_run: false,
        change,
    };
    let in_use = in_use(&api.client(), kind, &request);
    let answer = decide(kind, request, &in_use).await;
    answer.map_err(|denial| (denial.code(), denial.message().to_owned()))
}

/// The pools of a kind.
fn pools(api: &ManagementApi, kind: PoolKind, resource: &ApiResource) -> Api<DynamicObject> {
    match kind.is_namespaced() {
        true => Api::namespaced_with(api.client(), NAMESPACE, resource),
        false => Api::all_with(api.client(), resource),
    }
}

/// The uid of the pool `pool`, which is created unless it exists. Its spec does not matter: a review brings its own.
async fn existing(api: &ManagementApi, kind: PoolKind, resource: &ApiResource) -> String {
    let pools = pools(api, kind, resource);
    if let Some(pool) = pools.get_opt("pool").await.expect("an answer") {
        return pool.uid().expect("a uid");
    }
    let spec = match kind.has_prefixes() {
        true => json!({ "prefixes": ["fd00::/62"] }),
        false => json!({ "addresses": ["10.0.0.10-10.0.0.20"], "prefix": 24 }),
    };
    let pool = DynamicObject::new("pool", resource).data(json!({ "spec": spec }));
    pools
        .create(&PostParams::default(), &pool)
        .await
        .expect("created")
        .uid()
        .expect("a uid")
}

/// Creates an IPAddress of the pool, as another program would.
async fn use_address(api: &ManagementApi, namespace: &str, kind: PoolKind, address: &str, prefix: i32) {
    let name = address.replace([':', '.'], "-");
    let object: IPAddress = serde_json::from_value(json!({
        "metadata": { "name": format!("a{name}a"), "namespace": namespace },
        "spec": {
            "claimRef": { "name": "claim" },
            "poolRef": { "apiGroup": GROUP, "kind": kind.as_str(), "name": "pool" },
            "address": address, "prefix": prefix,
        },
    }))
    .expect("an address");
    let addresses: Api<IPAddress> = Api::namespaced(api.client(), namespace);
    addresses
        .create(&PostParams::default(), &object)
        .await
        .expect("created");
}

async fn free_all(api: &ManagementApi, namespace: &str) {
    let addresses: Api<IPAddress> = Api::namespaced(api.client(), namespace);
    addresses
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .expect("deleted");
}

fn kinds(prefixes: bool) -> impl Iterator<Item = PoolKind> {
    PoolKind::ALL
        .into_iter()
        .filter(move |kind| kind.has_prefixes() == prefixes)
}

const ALLOWED: Answer = Ok(Vec::new());

#[tokio::test]
async fn a_pool_is_deleted_only_when_nothing_is_in_use_unless_an_annotation_says_otherwise() {
    let refused: Answer = Err((400, IN_USE.to_owned()));
    for kind in PoolKind::ALL {
        let api = ManagementApi::start();
        let (address, spec) = match kind.has_prefixes() {
            true => ("fd00::", json!({ "prefixes": ["fd00::/62"] })),
            false => (
                "10.0.0.10",
                json!({ "addresses": ["10.0.0.10-10.0.0.20"], "prefix": 24, "gateway": "10.0.0.1" }),
            ),
        };
        let delete = |annotations: Value| Ask::Delete(pool(&spec, &annotations));
        assert_eq!(ask(&api, kind, delete(json!({}))).await, ALLOWED, "{kind}");
        use_address(&api, NAMESPACE, kind, address, 64).await;
        assert_eq!(
            ask(&api, kind, delete(json!({}))).await,
            refused,
            "W1, X13 {kind}"
        );
        for annotation in [
            "ipam.cluster.x-k8s.io/skip-validate-delete-webhook",
            "clusterctl.cluster.x-k8s.io/delete-for-move",
        ] {
            let asked = ask(&api, kind, delete(json!({ annotation: "" }))).await;
            assert_eq!(asked, ALLOWED, "W3, X14, E12 {kind} {annotation}");
        }
        assert_eq!(
            ask(&api, kind, delete(json!({ "other": "" }))).await,
            refused,
            "{kind}"
        );
        free_all(&api, NAMESPACE).await;
        assert_eq!(
            ask(&api, kind, delete(json!({}))).await,
            ALLOWED,
            "W1, X13 {kind}"
        );
        // An IPAddress of a pool of the same name but of another kind.
        for other in PoolKind::ALL.into_iter().filter(|other| *other != kind) {
            let other_address = if other.has_prefixes() {
                "fd00::"
            } else {
                "10.0.0.10"
            };
            use_address(&api, NAMESPACE, other, other_address, 64).await;
            assert_eq!(
                ask(&api, kind, delete(json!({}))).await,
                ALLOWED,
                "{kind} {other}"
            );
            free_all(&api, NAMESPACE).await;
        }
        // An IPAddress of a pool of the same name and kind in another namespace.
        let elsewhere =
            serde_json::from_value(json!({ "metadata": { "name": "elsewhere" } })).expect("a namespace");
        let namespaces: Api<Namespace> = Api::all(api.client());
        namespaces
            .create(&PostParams::default(), &elsewhere)
            .await
            .expect("created");
        use_address(&api, "elsewhere", kind, address, 64).await;
        let expected = if kind.is_namespaced() {
            ALLOWED
        } else {
            refused.clone()
        };
        assert_eq!(ask(&api, kind, delete(json!({}))).await, expected, "{kind}");
    }
}

#[test]
fn paths_are_those_of_the_in_cluster_provider() {
    let api_paths = [
        "/convert",
        "/mutate-ipam-cluster-x-k8s-io-v1alpha2-globalinclusterippool",
        "/mutate-ipam-cluster-x-k8s-io-v1alpha2-globalinclusterprefixpool",
        "/mutate-ipam-cluster-x-k8s-io-v1alpha2-inclusterippool",
        "/mutate-ipam-cluster-x-k8s-io-v1alpha2-inclusterprefixpool",
        "/validate-ipam-cluster-x-k8s-io-v1alpha2-globalinclusterippool",
        "/validate-ipam-cluster-x-k8s-io-v1alpha2-globalinclusterprefixpool",
        "/validate-ipam-cluster-x-k8s-io-v1alpha2-inclusterippool",
        "/validate-ipam-cluster-x-k8s-io-v1alpha2-inclusterprefixpool",
    ];
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let client = runtime.block_on(async { ManagementApi::start().client() });
    let webhook = register(Webhook::new(), &client);
    assert_eq!(webhook.paths().collect::<Vec<_>>(), api_paths);
}

#[test]
fn an_absent_or_zero_length_is_the_default() {
    for (spec, expected) in [
        (json!({}), json!({ "allocationPrefixLength": 64 })),
        (
            json!({ "allocationPrefixLength": 0 }),
            json!({ "allocationPrefixLength": 64 }),
        ),
        (
            json!({ "allocationPrefixLength": 56 }),
            json!({ "allocationPrefixLength": 56 }),
        ),
    ] {
        let mut object = json!({ "spec": spec });
        fill_in_length(&mut object);
        assert_eq!(object, json!({ "spec": expected }));
    }
    let mut without_spec = json!({ "metadata": {} });
    fill_in_length(&mut without_spec);
    assert_eq!(without_spec.get("spec").unwrap_or(&Value::Null), &Value::Null);
}

/// An API server may ask again for the deletion of a pool that lost its finalizer meanwhile.
#[tokio::test]
async fn a_pool_that_is_gone_may_be_deleted() {
    let api = ManagementApi::start();
    let kind = PoolKind::InClusterIPPool;
    use_address(&api, NAMESPACE, kind, "10.0.0.10", 24).await;
    let gone = json!({ "metadata": { "name": "pool", "uid": "gone" }, "spec": {} });
    let change = Change::Delete(serde_json::from_value::<InClusterIPPool>(gone).expect("a pool"));
    let name = "pool".to_owned();
    let namespace = Some(NAMESPACE.to_owned());
    let request = AdmissionRequest {
        name,
        namespace,
        user: String::new(),
        dry_run: false,
        change,
    };
    let in_use = in_use(&api.client(), kind, &request);
    assert!(matches!(
        in_use.any(Some("gone")).await,
        Err(LookError::OtherPool)
    ));
    assert_eq!(
        decide(kind, request, &in_use)
            .await
            .map_err(|denial| denial.code()),
        Ok(vec![])
    );
}

/// An unknown caller costs one request and learns nothing, whatever is in use.
#[tokio::test]
async fn a_review_that_does_not_know_the_pool_is_answered_without_a_list() {
    let api = ManagementApi::start();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let server = api.server().clone();
    let noted = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        noted.lock().push(request.uri().path().to_owned());
        let server = server.clone();
        async move { Ok::<_, Infallible>(server.handle(request.map(axum::body::Body::new)).await) }
    });
    let client = Client::new(service, NAMESPACE);
    let kind = PoolKind::InClusterIPPool;
    let resource = ApiResource::erase::<InClusterIPPool>(&());
    let known = existing(&api, kind, &resource).await;
    use_address(&api, NAMESPACE, kind, "10.0.0.10", 24).await;
    for (name, uid, expected) in [
        ("pool", Some(known.as_str()), Ok(true)),
        ("pool", Some("another"), Err(())),
        ("pool", None, Err(())),
        ("absent", Some(known.as_str()), Err(())),
    ] {
        let resource = resource.clone();
        let namespace = Some(NAMESPACE.to_owned());
        let in_use = InUse {
            client: client.clone(),
            kind,
            resource,
            namespace,
            name: name.to_owned(),
        };
        assert_eq!(in_use.any(uid).await.map_err(drop), expected, "{name} {uid:?}");
        let lists = take(&mut *asked.lock())
            .iter()
            .filter(|path| path.ends_with("/ipaddresses"))
            .count();
        assert_eq!(lists, usize::from(expected.is_ok()), "{name} {uid:?}");
    }
}
