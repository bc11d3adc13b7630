//! What a backup, a person or the garbage collector does to objects: they lose their status, finalizers or owners, an owner
//! has another version of its API, they are created again in any order, or deleted in any order. Each object is then as
//! before, or gone completely.

use std::{fmt::Debug, time::Duration};

use k8s_openapi::NamespaceResourceScope;
use kube::{
    Resource, ResourceExt as _,
    api::{Api, DeleteParams, Patch, PatchParams, PostParams},
};
use nephele_api::{
    core::{Cluster, Machine},
    finalizers,
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine},
};
use nephele_testkit::{
    Damage, Owners,
    objects::{self, NAMESPACE},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::world::{World, is_ready};

const MACHINES: [&str; 2] = ["cp", "w"];

/// A cluster `demo` with two machines that are up.
async fn inhabited(port: u16) -> World {
    let world = World::start(port);
    world.cluster("demo").await;
    world.authorities("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    for machine in [objects::control_plane("demo", "cp"), objects::worker("demo", "w")] {
        let object = world.machine(&machine).await;
        world.bootstrap(&machine.name_any()).await;
        world.ready(&object).await;
    }
    world
}

/// What stays of a cluster and its machines whatever happens: endpoint, provider IDs, addresses and finalizers.
async fn identity(world: &World) -> Value {
    let cluster = world.api.get::<InMemoryCluster>("demo").await;
    let mut all =
        json!({ "demo": [cluster.spec.control_plane_endpoint, cluster.spec.origin, cluster.finalizers()] });
    for name in MACHINES {
        let machine = world.api.get::<InMemoryMachine>(name).await;
        let status = machine.status.clone().unwrap_or_default();
        let origin = machine.origin().map(|origin| origin.start_time);
        all[name] = json!([
            machine.spec.provider_id,
            status.addresses,
            origin,
            machine.finalizers()
        ]);
    }
    all
}

/// Waits until everything is up and held.
async fn recovered(world: &World) -> Value {
    let is_held = |held: &[String], finalizer: &str| held.iter().any(|name| name == finalizer);
    world
        .api
        .eventually::<InMemoryCluster>("demo", "to recover", |object| {
            object.is_provisioned() && is_held(object.finalizers(), finalizers::CLUSTER)
        })
        .await;
    for name in MACHINES {
        world
            .api
            .eventually::<InMemoryMachine>(name, "to recover", |object| {
                is_ready(object) && is_held(object.finalizers(), finalizers::MACHINE)
            })
            .await;
    }
    world
        .until("all machines are there", |cloud| {
            cloud
                .observe_cluster(&World::id("demo"))
                .is_some_and(|seen| seen.machines == MACHINES.len())
        })
        .await;
    identity(world).await
}

async fn damage_all(world: &World, damage: Damage) {
    damage.inflict(&world.api.api::<InMemoryCluster>(), "demo").await;
    for name in MACHINES {
        damage.inflict(&world.api.api::<InMemoryMachine>(), name).await;
    }
}

async fn own_all_again(
    world: &World,
    damage: Damage,
    cluster: &InMemoryCluster,
    machines: &[InMemoryMachine],
) {
    damage.own_again(&world.api.api(), cluster).await;
    for machine in machines {
        damage.own_again(&world.api.api(), machine).await;
    }
}

async fn machines(world: &World) -> Vec<InMemoryMachine> {
    let mut machines = Vec::new();
    for name in MACHINES {
        machines.push(world.api.get(name).await);
    }
    machines
}

#[tokio::test(start_paused = true)]
async fn damaged_objects_recover_while_the_manager_runs_and_over_a_restart() {
    let mut world = inhabited(19_500).await;
    let before = recovered(&world).await;
    for damage in Damage::all() {
        let cluster = world.api.get::<InMemoryCluster>("demo").await;
        let owned = machines(&world).await;
        damage_all(&world, damage).await;
        act().await;
        own_all_again(&world, damage, &cluster, &owned).await;
        assert_eq!(recovered(&world).await, before, "{damage:?} while it runs");

        let api = world.api.client();
        let clusters: Api<InMemoryCluster> = Api::namespaced(api.clone(), NAMESPACE);
        let members: Api<InMemoryMachine> = Api::namespaced(api, NAMESPACE);
        let of_cluster = clusters.clone();
        let of_machines = members.clone();
        world = world
            .restart_after(async move {
                damage.inflict(&of_cluster, "demo").await;
                for name in MACHINES {
                    damage.inflict(&of_machines, name).await;
                }
            })
            .await;
        act().await;
        own_all_again(&world, damage, &cluster, &owned).await;
        assert_eq!(recovered(&world).await, before, "{damage:?} over a restart");
    }
    world.stop().await;
}

/// As a restoration of a backup does. The objects are there twice while one of them is missing.
#[tokio::test(start_paused = true)]
async fn objects_that_are_created_again_in_any_order_are_what_they_were() {
    let mut world = inhabited(19_600).await;
    let before = recovered(&world).await;
    for order in 0..6 {
        let cluster = world.api.get::<InMemoryCluster>("demo").await;
        let owned = machines(&world).await;
        let api = world.api.client();
        let clusters: Api<InMemoryCluster> = Api::namespaced(api.clone(), NAMESPACE);
        let members: Api<InMemoryMachine> = Api::namespaced(api, NAMESPACE);
        let gone_clusters = clusters.clone();
        let gone_members = members.clone();
        world = world
            .restart_after(async move {
                erase(&gone_clusters, "demo").await;
                for name in MACHINES {
                    erase(&gone_members, name).await;
                }
            })
            .await;
        let keeps_owners = order % 2 == 0;
        let mut steps = ["demo", "cp", "w"];
        steps.rotate_left(order / 2);
        for step in steps {
            if step == "demo" {
                clusters
                    .create(&PostParams::default(), &of_backup(&cluster, keeps_owners))
                    .await
                    .expect("taken");
            } else {
                let machine = owned
                    .iter()
                    .find(|machine| machine.name_any() == step)
                    .expect("known");
                members
                    .create(&PostParams::default(), &of_backup(machine, keeps_owners))
                    .await
                    .expect("taken");
            }
            act().await;
        }
        let damage = Damage {
            status: true,
            finalizers: true,
            owners: Owners::Gone,
        };
        own_all_again(&world, damage, &cluster, &owned).await;
        assert_eq!(
            recovered(&world).await,
            before,
            "{steps:?}, owners: {keeps_owners}"
        );
    }
    world.stop().await;
}

/// Lets the controllers act. Simulated time passes only when they have nothing to do.
pub(crate) async fn act() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

/// Removes an object without its provider.
async fn erase<K: Resource + Clone + Debug + DeserializeOwned>(api: &Api<K>, name: &str) {
    let none = json!({ "metadata": { "finalizers": null } });
    api.patch(name, &PatchParams::default(), &Patch::Merge(&none))
        .await
        .expect("it is taken");
    api.delete(name, &DeleteParams::default())
        .await
        .expect("it is there");
}

/// An object as a backup has it.
fn of_backup<K: Serialize + DeserializeOwned>(object: &K, keeps_owners: bool) -> K {
    let mut value = serde_json::to_value(object).expect("an object");
    value.as_object_mut().expect("fields").remove("status");
    let metadata = value["metadata"].as_object_mut().expect("fields");
    metadata.retain(|field, _| {
        ["name", "namespace", "labels", "annotations"].contains(&field.as_str())
            || (keeps_owners && field == "ownerReferences")
    });
    serde_json::from_value(value).expect("an object")
}

/// Then nothing at the object says any more where its machine is.
#[tokio::test(start_paused = true)]
async fn a_machine_without_owner_and_labels_leaves_nothing_in_the_cloud() {
    let world = inhabited(19_750).await;
    let none = json!({ "metadata": { "labels": null, "ownerReferences": null } });
    world.api.patch::<InMemoryMachine>("w", &none).await;
    world.api.delete::<InMemoryMachine>("w").await;
    world.api.eventually_gone::<InMemoryMachine>("w").await;
    assert_eq!(world.cloud.observe_machine(&World::machine_id("demo", "w")), None);
    world.stop().await;
}

/// As the end of a namespace: nothing waits for anything, and the owners may go first.
#[tokio::test(start_paused = true)]
async fn everything_goes_in_whatever_order_it_is_deleted_and_damaged() {
    const KINDS: [&str; 4] = ["Cluster", "InMemoryCluster", "Machine", "InMemoryMachine"];
    for round in 0..8_usize {
        let world = inhabited(19_700).await;
        let damage = Damage::all().nth(round * 3 % 11).expect("there are eleven");
        let mut order = KINDS;
        order.rotate_left(round % KINDS.len());
        if round >= KINDS.len() {
            order.reverse();
        }
        damage_all(&world, damage).await;
        for kind in order {
            match kind {
                "Cluster" => delete::<Cluster>(&world, &["demo"]).await,
                "InMemoryCluster" => delete::<InMemoryCluster>(&world, &["demo"]).await,
                "Machine" => delete::<Machine>(&world, &MACHINES).await,
                _ => delete::<InMemoryMachine>(&world, &MACHINES).await,
            }
        }
        world.api.eventually_gone::<InMemoryCluster>("demo").await;
        for name in MACHINES {
            world.api.eventually_gone::<InMemoryMachine>(name).await;
        }
        world
            .until(&format!("nothing is left: {order:?} {damage:?}"), |cloud| {
                let machines = MACHINES
                    .iter()
                    .filter_map(|name| cloud.observe_machine(&World::machine_id("demo", name)));
                cloud.observe_cluster(&World::id("demo")).is_none() && machines.count() == 0
            })
            .await;
        world.stop().await;
    }
}

async fn delete<K>(world: &World, names: &[&str])
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    for name in names {
        // One whose finalizers are gone may be gone, too.
        let _ = world.api.api::<K>().delete(name, &DeleteParams::default()).await;
    }
}
