//! What a tenant does in its namespace of the management cluster.

use std::{fmt::Write as _, time::Duration};

use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
        PostParams,
    },
};
use nephele_api::{core::Machine, infrastructure::v1beta2::InMemoryMachine};
use nephele_testkit::objects;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::whole::{NAMESPACES, Whole, cluster_in, create};

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
            let patched = api
                .patch(&name(index), &PatchParams::default(), &Patch::<()>::Json(patch))
                .await;
            if let Err(error) = patched {
                if round == 0 {
                    eprintln!("{kind}: {error}");
                }
                sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

/// Machines that boot at a time, with the same bootstrap data. Each machine reads them for itself.
const BOOTS: usize = 300;
/// The name of these machines begins with it, and the label tells them from the others.
const BOOTING: &str = "hostile-boot";
/// A Secret may have 1 MiB of data.
const BOOTSTRAP_BYTES: usize = (1 << 20) - 64;

/// Lets machines boot for ever, hundreds at a time, with bootstrap data of the largest size that are read in whole.
pub(super) async fn boots(whole: &Whole) {
    let namespace = NAMESPACES[0];
    let mut data = "#cloud-config\nwrite_files: []\nx:\n".to_owned();
    while data.len() < BOOTSTRAP_BYTES {
        data.push_str("- [0,0,0,0,0,0,0,0]\n");
    }
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(BOOTING.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some([("value".to_owned(), ByteString(data.into_bytes()))].into()),
        ..Secret::default()
    };
    if let Err(error) = create(&whole.client, namespace, secret).await {
        eprintln!("Secret: {error:#}");
    }
    for round in 0_u64.. {
        for index in 0..BOOTS {
            let booted = boot(whole, &format!("{BOOTING}-{round}-{index}")).await;
            if let Err(error) = booted {
                if round == 0 && index == 0 {
                    eprintln!("Machine: {error:#}");
                }
                sleep(Duration::from_millis(10)).await;
            }
        }
        delete_booted(whole).await;
    }
}

async fn boot(whole: &Whole, name: &str) -> anyhow::Result<()> {
    let namespace = NAMESPACES[0];
    let mut machine = objects::worker(&cluster_in(namespace), name);
    objects::label(&mut machine, BOOTING, "");
    if let Some(bootstrap) = &mut machine.spec.bootstrap {
        bootstrap.data_secret_name = Some(BOOTING.to_owned());
    }
    let machine = create(&whole.client, namespace, machine).await?;
    create(&whole.client, namespace, objects::in_memory_machine(&machine))
        .await
        .map(drop)
}

async fn delete_booted(whole: &Whole) {
    let ours = ListParams::default().labels(BOOTING);
    let machines: Api<Machine> = Api::namespaced(whole.client.clone(), NAMESPACES[0]);
    let in_memory: Api<InMemoryMachine> = Api::namespaced(whole.client.clone(), NAMESPACES[0]);
    let _ = in_memory.delete_collection(&DeleteParams::default(), &ours).await;
    let _ = machines.delete_collection(&DeleteParams::default(), &ours).await;
}

/// Deletes what tenants have made, so that the next attack begins without it.
pub(super) async fn clean_up(whole: &Whole) {
    delete_booted(whole).await;
    for kind in ["Scenario", "Fault"] {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cloud.nephele.dev", "v1alpha1", kind));
        let api: Api<DynamicObject> = Api::namespaced_with(whole.client.clone(), NAMESPACES[0], &resource);
        if let Err(error) = api
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .await
        {
            eprintln!("{kind}: {error}");
        }
    }
}

/// Creates many objects that nothing belongs to.
pub(super) async fn unowned(whole: &Whole) {
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
