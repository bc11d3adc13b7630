//! What a tenant does in its namespace of the management cluster.

use std::fmt::Write as _;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::whole::{NAMESPACES, Whole};

/// Objects of one kind that a tenant changes all the time.
const OBJECTS: usize = 50;
/// Steps of a Scenario that have manifests. Those of one Scenario have 1 MiB at most.
const STEPS: usize = 14;
/// About as many bytes as the manifests of a step may have.
const MANIFESTS_BYTES: usize = 60 * 1024;

/// Runs as many Scenarios as there are places for, with manifests of the largest size, and changes all of them all the time.
pub(super) async fn scenarios(whole: &Whole) {
    let step = |number: usize| {
        let mut manifests = format!(
            "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {{name: c{number}}}\nspec:\n"
        );
        while manifests.len() < MANIFESTS_BYTES {
            let _ = writeln!(manifests, "  f{:05}: [[], {{}}, ~]", manifests.len());
        }
        json!({ "apply": { "manifests": manifests } })
    };
    let waiting = json!({ "wait": { "cluster": "none", "condition": "Available", "within": "8760h" } });
    let steps: Vec<_> = std::iter::once(waiting).chain((0..STEPS).map(step)).collect();
    let change = |round: u64| json!({ "op": "replace", "path": "/spec/steps/0/wait/within", "value": format!("{}h", 1 + round) });
    changed(whole, "Scenario", |_| json!({ "steps": steps }), change).await;
}

/// Makes Faults with large selectors, and changes all of them all the time.
pub(super) async fn faults(whole: &Whole) {
    let values: Vec<_> = (0..200).map(|value| format!("value-{value}")).collect();
    let fault = |index: usize| {
        let selector = json!({ "matchExpressions": [
            { "key": format!("key-{index}"), "operator": "NotIn", "values": values },
        ] });
        match index % 2 {
            0 => json!({
                "match": { "operations": ["CreateInstance"], "clusterSelector": selector },
                "effect": { "fail": { "reason": "Throttled" } },
            }),
            _ => json!({ "match": { "machineSelector": selector }, "effect": { "notReady": {} } }),
        }
    };
    let change = |round: u64| json!({ "op": "add", "path": "/spec/budget", "value": { "for": format!("{}h", 1 + round) } });
    changed(whole, "Fault", fault, change).await;
}

/// Creates objects of a kind of ours, and patches one after the other for ever.
async fn changed(whole: &Whole, kind: &str, spec: impl Fn(usize) -> Value, change: impl Fn(u64) -> Value) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cloud.nephele.dev", "v1alpha1", kind));
    let api: Api<DynamicObject> = Api::namespaced_with(whole.client.clone(), NAMESPACES[0], &resource);
    let name = |index: usize| format!("hostile-{index}");
    for index in 0..OBJECTS {
        let object = DynamicObject::new(&name(index), &resource).data(json!({ "spec": spec(index) }));
        if let Err(error) = api.create(&PostParams::default(), &object).await {
            eprintln!("{kind}: {error}");
        }
    }
    for round in 0.. {
        for index in 0..OBJECTS {
            let patch = serde_json::from_value(json!([change(round)])).expect("a patch");
            let patched = api.patch(&name(index), &PatchParams::default(), &Patch::<()>::Json(patch)).await;
            if let Err(error) = patched {
                if round == 0 {
                    eprintln!("{kind}: {error}");
                }
                sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

/// Deletes what tenants have made, so that the next attack begins without it.
pub(super) async fn clean_up(whole: &Whole) {
    for kind in ["Scenario", "Fault"] {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cloud.nephele.dev", "v1alpha1", kind));
        let api: Api<DynamicObject> = Api::namespaced_with(whole.client.clone(), NAMESPACES[0], &resource);
        if let Err(error) = api.delete_collection(&DeleteParams::default(), &ListParams::default()).await {
            eprintln!("{kind}: {error}");
        }
    }
}

/// Creates many objects that nothing belongs to.
pub(super) async fn objects(whole: &Whole) {
    let maps: Api<ConfigMap> = Api::namespaced(whole.client.clone(), NAMESPACES[0]);
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "infrastructure.cluster.x-k8s.io",
        "v1beta2",
        "InMemoryMachine",
    ));
    let machines: Api<DynamicObject> = Api::namespaced_with(whole.client.clone(), NAMESPACES[0], &resource);
    let mut index = 0_u64;
    loop {
        index += 1;
        let object = DynamicObject::new(&format!("hostile-{index}"), &resource).data(json!({ "spec": {} }));
        if machines.create(&PostParams::default(), &object).await.is_err() {
            sleep(Duration::from_millis(10)).await;
        }
        let _ = maps.get_opt("none").await;
    }
}
