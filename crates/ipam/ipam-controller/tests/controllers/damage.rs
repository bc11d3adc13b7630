//! What a backup, a person or the garbage collector does to pools, claims and addresses: they lose their status, finalizers or
//! owners, an owner has another version of its API, they are created again in any order, or deleted in any order. Each claim
//! then has the address that it had, or everything is gone.

use std::{collections::BTreeMap, fmt::Debug, time::Duration};

use kube::{
    Resource, ResourceExt as _,
    api::{DeleteParams, PostParams},
    core::NamespaceResourceScope,
};
use nephele_api::ipam::{
    PoolKind, finalizers,
    v1alpha2::InClusterIPPool,
    v1beta2::{IPAddress, IPAddressClaim},
};
use nephele_testkit::{Damage, ManagementApi, objects::NAMESPACE};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::world::{World, settings, spec};

const CLAIMS: [&str; 2] = ["a", "b"];

async fn inflict_on_all(damage: Damage, api: &ManagementApi) {
    for name in CLAIMS {
        damage.inflict(&api.api::<IPAddressClaim>(), name).await;
        damage.inflict(&api.api::<IPAddress>(), name).await;
    }
    damage.inflict(&api.api::<InClusterIPPool>(), "pool").await;
}

/// Lets the controllers act. Simulated time passes only when they have nothing to do.
async fn act() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

async fn served() -> World {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.1-10.0.0.9"], 24, "")).await;
    for name in CLAIMS {
        world.claim(name, PoolKind::InClusterIPPool, "pool").await;
        world.bound(name).await;
    }
    world.counts("pool", [9, 2, 7, 0]).await;
    world
}

/// Waits until everything is bound, held and owned, and returns the addresses of the claims.
async fn recovered(world: &World) -> BTreeMap<String, String> {
    let mut addresses = BTreeMap::new();
    for name in CLAIMS {
        let is_held = |held: &[String], finalizer: &str| held.iter().any(|name| name == finalizer);
        world
            .eventually::<IPAddressClaim>(NAMESPACE, name, "to be held", |claim| {
                is_held(claim.finalizers(), finalizers::CLAIM)
            })
            .await;
        world
            .eventually::<IPAddress>(NAMESPACE, name, "to be held and owned", |address| {
                is_held(address.finalizers(), finalizers::ADDRESS) && address.owner_references().len() == 2
            })
            .await;
        addresses.insert(name.to_owned(), world.bound(name).await.spec.address);
    }
    world.counts("pool", [9, 2, 7, 0]).await;
    world
        .eventually::<InClusterIPPool>(NAMESPACE, "pool", "to be held", |pool| {
            pool.finalizers().iter().any(|name| name == finalizers::POOL)
        })
        .await;
    addresses
}

#[tokio::test(start_paused = true)]
async fn damaged_objects_recover_while_the_manager_runs_and_over_a_restart() {
    let mut world = served().await;
    let before = recovered(&world).await;
    for damage in Damage::all() {
        inflict_on_all(damage, &world.api).await;
        act().await;
        assert_eq!(recovered(&world).await, before, "{damage:?} while it runs");
        let api = world.stop().await;
        inflict_on_all(damage, &api).await;
        world = World::over(api, settings());
        act().await;
        assert_eq!(recovered(&world).await, before, "{damage:?} over a restart");
    }
    world.stop().await;
}

/// An object as a backup has it.
fn of_backup<K: Serialize + DeserializeOwned>(object: &K) -> K {
    let mut value = serde_json::to_value(object).expect("an object");
    value.as_object_mut().expect("fields").remove("status");
    let metadata = value["metadata"].as_object_mut().expect("fields");
    metadata.retain(|field, _| ["name", "namespace", "labels", "ownerReferences"].contains(&field.as_str()));
    serde_json::from_value(value).expect("an object")
}

async fn erase<K>(api: &ManagementApi, name: &str)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    api.patch::<K>(name, &json!({ "metadata": { "finalizers": null } }))
        .await;
    api.api::<K>()
        .delete(name, &DeleteParams::default())
        .await
        .expect("it is there");
}

/// Their owners have the uids of the backup.
#[tokio::test(start_paused = true)]
async fn objects_that_are_created_again_in_any_order_are_what_they_were() {
    let mut world = served().await;
    let before = recovered(&world).await;
    for first in 0..3 {
        for is_reversed in [false, true] {
            let pool = world.api.get::<InClusterIPPool>("pool").await;
            let mut claims = Vec::new();
            let mut addresses = Vec::new();
            for name in CLAIMS {
                claims.push(world.api.get::<IPAddressClaim>(name).await);
                addresses.push(world.api.get::<IPAddress>(name).await);
            }
            let api = world.stop().await;
            for name in CLAIMS {
                erase::<IPAddressClaim>(&api, name).await;
                erase::<IPAddress>(&api, name).await;
            }
            erase::<InClusterIPPool>(&api, "pool").await;
            world = World::over(api, settings());
            let mut order = ["pool", "claims", "addresses"];
            order.rotate_left(first);
            if is_reversed {
                order.reverse();
            }
            let params = PostParams::default();
            for step in order {
                match step {
                    "pool" => {
                        world
                            .api
                            .api()
                            .create(&params, &of_backup(&pool))
                            .await
                            .expect("it is taken");
                    }
                    "claims" => {
                        for claim in &claims {
                            world
                                .api
                                .api()
                                .create(&params, &of_backup(claim))
                                .await
                                .expect("it is taken");
                        }
                    }
                    _ => {
                        for address in &addresses {
                            // A claim that came first has one already.
                            let _ = world.api.api().create(&params, &of_backup(address)).await;
                        }
                    }
                }
                act().await;
            }
            assert_eq!(recovered(&world).await, before, "{order:?}");
        }
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn everything_goes_in_whatever_order_it_is_deleted_and_damaged() {
    for (round, damage) in Damage::all().enumerate() {
        let world = served().await;
        inflict_on_all(damage, &world.api).await;
        let mut order = ["pool", "claims", "addresses"];
        order.rotate_left(round % 3);
        let params = DeleteParams::default();
        for step in order {
            // What lost its finalizers may be gone, and the garbage collector deletes what it owned.
            for name in CLAIMS {
                match step {
                    "claims" => drop(world.api.api::<IPAddressClaim>().delete(name, &params).await),
                    "addresses" => drop(world.api.api::<IPAddress>().delete(name, &params).await),
                    _ => {}
                }
            }
            if step == "pool" {
                drop(world.api.api::<InClusterIPPool>().delete("pool", &params).await);
            }
        }
        for name in CLAIMS {
            world.gone::<IPAddressClaim>(NAMESPACE, name).await;
            world.gone::<IPAddress>(NAMESPACE, name).await;
        }
        world.gone::<InClusterIPPool>(NAMESPACE, "pool").await;
        world.stop().await;
    }
}
