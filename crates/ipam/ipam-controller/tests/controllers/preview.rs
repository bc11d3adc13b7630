//! What is told of a Fault of addresses before it begins is what it hits.

use std::{collections::BTreeSet, fmt::Debug, sync::Arc, time::Duration};

use kube::{Resource, ResourceExt as _, core::NamespaceResourceScope};
use nephele_api::{
    cloud::v1alpha1::{Fault, FaultSpec},
    core::Cluster,
    ipam::{PoolKind, annotations::WANTED_ADDRESS, v1alpha2::InClusterIPPool, v1beta2::IPAddressClaim},
};
use nephele_ipam_controller::{Moment, Objects, Preview, preview};
use nephele_testkit::objects::NAMESPACE;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::world::{World, claim, spec};

const IP: PoolKind = PoolKind::InClusterIPPool;
/// The finalizer of a controller that does not run here.
const HELD: &str = "example.com/held";

/// A claim on a pool, of a Cluster.
fn claim_of(name: &str, pool: &str, cluster: &str) -> IPAddressClaim {
    let mut claim = claim(name, IP, pool);
    claim.spec.cluster_name = cluster.to_owned();
    claim
}

/// Two pools with two addresses each, which claims have, and more claims: some wait for an address, and some do not ask.
async fn world() -> World {
    let world = World::start().await;
    for (name, network) in [("one", 0), ("two", 1)] {
        let range = format!("10.0.{network}.1-10.0.{network}.2");
        world.pool(name, spec(&[&range], 24, "")).await;
    }
    for (name, team) in [("blue", "b"), ("red", "r"), ("still", "r"), ("former", "r")] {
        world.cluster(name, None, false).await;
        let labels = json!({ "metadata": { "labels": { "team": team } } });
        world.api.patch::<Cluster>(name, &labels).await;
    }
    for (name, pool, cluster) in [
        ("bound-blue", "one", "blue"),
        ("bound-former", "one", "former"),
        ("bound-none", "two", ""),
        ("bound-still", "two", "still"),
    ] {
        world.api.create(&claim_of(name, pool, cluster)).await;
        world.bound(name).await;
    }
    world.delete::<Cluster>(NAMESPACE, "former").await;
    let paused = json!({ "spec": { "paused": true } });
    world.api.patch::<Cluster>("still", &paused).await;
    for (name, pool, cluster, reason) in [
        ("waits-blue", "one", "blue", "PoolExhausted"),
        ("waits-red", "two", "red", "PoolExhausted"),
        ("waits-none", "one", "", "PoolExhausted"),
        ("waits-still", "two", "still", "Paused"),
        ("waits-deleted", "one", "red", "PoolExhausted"),
    ] {
        world.api.create(&claim_of(name, pool, cluster)).await;
        world.waits(name, reason).await;
    }
    world.api.create(&claim_of("waits-absent", "one", "absent")).await;
    let mut mistaken = claim_of("mistaken", "one", "blue");
    mistaken
        .annotations_mut()
        .insert(WANTED_ADDRESS.to_owned(), "none".to_owned());
    world.api.create(&mistaken).await;
    world.waits("mistaken", "AllocationFailed").await;
    let mut foreign = claim_of("foreign", "one", "blue");
    foreign.spec.pool_ref.kind = "ForeignPool".to_owned();
    world.api.create(&foreign).await;
    let held = json!({ "metadata": { "finalizers": [HELD] } });
    world.api.patch::<IPAddressClaim>("waits-deleted", &held).await;
    world.delete::<IPAddressClaim>(NAMESPACE, "waits-deleted").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world
}

async fn list<K>(world: &World) -> Vec<Arc<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let listed = world.api_in::<K>(NAMESPACE).list(&Default::default()).await;
    listed.expect("a list").items.into_iter().map(Arc::new).collect()
}

/// What a Fault hits of all claims when their pools get more addresses, or when all are deleted.
async fn hit(world: &World, spec: &FaultSpec, moment: Moment) -> Vec<String> {
    let mut fault = Fault::new("f", spec.clone());
    fault.metadata.namespace = Some(NAMESPACE.to_owned());
    world.api.create(&fault).await;
    let is_in_force = |fault: &Fault| {
        fault
            .status
            .as_ref()
            .is_some_and(|status| status.phase == "Active")
    };
    world.api.eventually("f", "to be in force", is_in_force).await;
    match moment {
        Moment::Request => {
            for (pool, network) in [("one", 0), ("two", 1)] {
                let more =
                    json!({ "spec": { "addresses": [format!("10.0.{network}.1-10.0.{network}.99")] } });
                world.api.patch::<InClusterIPPool>(pool, &more).await;
            }
        }
        Moment::Release => {
            let mut claims = list::<IPAddressClaim>(world).await;
            // No claim gets an address that another one gives back.
            claims.sort_by_key(|claim| claim.address_name().is_some());
            for claim in claims {
                world.delete::<IPAddressClaim>(NAMESPACE, &claim.name_any()).await;
            }
        }
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let status = world.api.get::<Fault>("f").await.status.unwrap_or_default();
    let hit: BTreeSet<_> = status.claims.into_iter().map(|claim| claim.name).collect();
    hit.into_iter().collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_told_of_a_fault_of_addresses_is_what_it_hits() {
    let team = |operator: &str| json!({ "matchExpressions": [{ "key": "team", "operator": operator, "values": ["b"] }] });
    let matches = [
        (
            json!({}),
            &["waits-blue", "waits-none", "waits-red"][..],
            &["bound-blue", "bound-former", "bound-none"][..],
        ),
        (
            json!({ "pools": ["one"] }),
            &["waits-blue", "waits-none"],
            &["bound-blue", "bound-former"],
        ),
        (json!({ "pools": ["three"] }), &[], &[]),
        (
            json!({ "clusterSelector": team("In") }),
            &["waits-blue"],
            &["bound-blue"],
        ),
        (
            json!({ "clusterSelector": team("NotIn") }),
            &["waits-none", "waits-red"],
            &["bound-former", "bound-none"],
        ),
    ];
    let effects = [
        (json!({ "exhausted": {} }), Moment::Request),
        (json!({ "conflict": {} }), Moment::Request),
        (
            json!({ "slow": { "duration": "1h", "jitter": "0.5" } }),
            Moment::Request,
        ),
        (json!({ "lateRelease": { "duration": "1h" } }), Moment::Release),
    ];
    let previewed = async |world: &World, effect: &Value, matches: &Value| {
        let spec = json!({ "effect": { "addresses": effect }, "match": matches });
        let spec: FaultSpec = serde_json::from_value(spec).expect("a spec");
        let objects = Objects {
            claims: list(world).await,
            clusters: list(world).await,
        };
        let told = preview(&spec, &objects, world.api.clock()()).expect("a Fault of addresses");
        (spec, told)
    };
    for (effect, moment) in effects {
        for (matches, waiting, bound) in &matches {
            let world = world().await;
            let (spec, told) = previewed(&world, &effect, matches).await;
            let claims = match moment {
                Moment::Request => waiting,
                Moment::Release => bound,
            };
            let claims = claims.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(told, Preview { claims, moment }, "{effect} {matches}");
            let hit = hit(&world, &spec, moment).await;
            assert_eq!(told.claims, hit, "{effect} {matches}");
            world.stop().await;
        }
    }
    // A delay that is over.
    let world = world().await;
    let (spec, told) = previewed(
        &world,
        &json!({ "slow": { "duration": "1ms", "jitter": "0.5" } }),
        &json!({}),
    )
    .await;
    assert_eq!(told.claims, hit(&world, &spec, told.moment).await);
    assert_eq!(told.claims, [""; 0]);
    world.stop().await;
}
