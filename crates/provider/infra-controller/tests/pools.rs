//! Machines and load balancers with addresses from pools. The test plays a foreign IPAM provider, and Cluster API core.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::DeleteParams};
use nephele_api::{
    conditions::{self, types},
    core::Cluster,
    infrastructure::v1beta2::{
        ClaimedAddress, ClusterNetwork, ClusterNetworkStatus, ControlPlaneEndpoint, InMemoryCluster,
        InMemoryMachine, MachineAddress, MachineNetwork, MachineNetworkStatus,
    },
    ipam::v1beta2::IPAddressClaim,
};
use nephele_testkit::objects;
use serde_json::json;

use crate::world::{Setup, World, foreign_pool, is_ready, reason};

/// A cluster whose workers may boot.
async fn start(first_port: u16) -> World {
    let world = World::start(first_port);
    world.cluster("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    world
}

fn message(machine: &InMemoryMachine, kind: &str) -> String {
    let list = machine.status.clone().unwrap_or_default().conditions;
    conditions::find(&list, kind)
        .map(|condition| condition.message.clone())
        .unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_machine_boots_with_the_addresses_of_its_pools_and_says_what_it_waits_for() {
    let world = start(14_000).await;
    let machine = world.pooled(&objects::worker("demo", "w"), &["v4", "v6"]).await;
    world.waits(&machine, "WaitingForIPAddress").await;
    for claim in ["w-0-0", "w-0-1"] {
        world.claimed(claim).await;
    }
    world.give("w-0-0", "10.0.0.7", 24, "10.0.0.1").await;
    world.refuse("w-0-1", "PoolExhausted", "no address is free").await;
    let waiting = world.waits(&machine, "PoolExhausted").await;
    let said = "Waiting for IPAddressClaim w-0-1 of ForeignPool v6: PoolExhausted: no address is free";
    assert_eq!(message(&waiting, types::VM_PROVISIONED), said);
    // The message that Cluster API shows on the Machine.
    assert_eq!(message(&waiting, types::READY), format!("VMProvisioned: {said}"));
    assert_eq!(world.cloud.observe_machine(&World::machine_id("demo", "w")), None);

    world.give("w-0-1", "fd00::7", 64, "").await;
    let status = world.ready(&machine).await.status.unwrap_or_default();
    let address = |kind: &str, address: &str| MachineAddress {
        kind: kind.into(),
        address: address.into(),
    };
    assert_eq!(
        status.addresses,
        [
            address("InternalIP", "10.0.0.7"),
            address("InternalIP", "fd00::7"),
            address("Hostname", "w")
        ]
    );
    let given = |address: &str, prefix, gateway: &str| ClaimedAddress {
        address: address.into(),
        prefix: Some(prefix),
        gateway: gateway.into(),
    };
    let addresses = vec![given("10.0.0.7", 24, "10.0.0.1"), given("fd00::7", 64, "")];
    assert_eq!(status.network, Some(MachineNetworkStatus { addresses }));
    let seen = world
        .cloud
        .observe_machine(&World::machine_id("demo", "w"))
        .expect("it runs")
        .allocation
        .addresses;
    assert_eq!(seen.len(), 3);
    world.stop().await;
}

/// In a pool of one address both would wait for ever otherwise.
#[tokio::test(start_paused = true)]
async fn a_worker_that_waits_for_the_control_plane_leaves_it_the_addresses() {
    let world = World::start(19_950);
    world.cluster("demo").await;
    let mut machine = objects::worker("demo", "w");
    machine.spec.bootstrap = None;
    let worker = world.pooled(&machine, &["v4"]).await;
    world.waits(&worker, "WaitingForControlPlaneInitialized").await;
    let claims = world.api.take_writes().into_iter();
    let claims: Vec<_> = claims
        .filter(|write| write.resource == "ipaddressclaims")
        .map(|write| write.verb)
        .collect();
    assert_eq!(claims, [""; 0]);
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    world.waits(&worker, "WaitingForBootstrapData").await;
    world.claimed("w-0-0").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn addresses_are_released_when_their_machine_is_gone_and_hold_the_object_until_then() {
    let world = start(14_100).await;
    let machine = world.pooled(&objects::worker("demo", "w"), &["v4"]).await;
    world.claimed("w-0-0").await;
    world.give("w-0-0", "10.0.0.7", 24, "").await;
    world.ready(&machine).await;
    world.api.delete::<InMemoryMachine>("w").await;
    let claim = world
        .api
        .eventually::<IPAddressClaim>("w-0-0", "to be released", |claim| {
            claim.metadata.deletion_timestamp.is_some()
        })
        .await;
    assert_eq!(world.cloud.observe_machine(&World::machine_id("demo", "w")), None);
    let held = world
        .api
        .eventually::<InMemoryMachine>("w", "to say that it is held", |machine| {
            message(machine, types::DELETING) == "Waiting for the release of w-0-0"
        })
        .await;
    assert_eq!(held.metadata.finalizers, machine_finalizers());
    // Another reconcile claims nothing twice.
    world
        .api
        .patch::<InMemoryMachine>("w", &json!({ "metadata": { "annotations": { "touched": "1" } } }))
        .await;
    assert_eq!(world.api.get::<IPAddressClaim>("w-0-0").await, claim);
    world.let_go("w-0-0").await;
    world.api.eventually_gone::<IPAddressClaim>("w-0-0").await;
    world.api.eventually_gone::<InMemoryMachine>("w").await;
    world.stop().await;
}

fn machine_finalizers() -> Option<Vec<String>> {
    Some(vec![nephele_api::finalizers::MACHINE.to_owned()])
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_never_got_its_address_gives_its_claims_back() {
    let world = start(14_200).await;
    let machine = world.pooled(&objects::worker("demo", "w"), &["v4", "v6"]).await;
    world.waits(&machine, "WaitingForIPAddress").await;
    world.claimed("w-0-0").await;
    world.claimed("w-0-1").await;
    world.api.delete::<InMemoryMachine>("w").await;
    for claim in ["w-0-0", "w-0-1"] {
        world
            .api
            .eventually::<IPAddressClaim>(claim, "to be released", |claim| {
                claim.metadata.deletion_timestamp.is_some()
            })
            .await;
        world.let_go(claim).await;
    }
    world.api.eventually_gone::<InMemoryMachine>("w").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn over_a_restart_no_address_is_claimed_twice_and_none_moves() {
    let world = start(14_300).await;
    let up = world.pooled(&objects::worker("demo", "up"), &["v4"]).await;
    let claim = world.claimed("up-0-0").await;
    world.give("up-0-0", "10.0.0.7", 24, "").await;
    let up = world.ready(&up).await;
    let waiting = world.pooled(&objects::worker("demo", "waiting"), &["v4"]).await;
    let waiting = world.waits(&waiting, "WaitingForIPAddress").await;
    world.claimed("waiting-0-0").await;
    let _ = world.api.take_writes();

    let world = world.restart().await;
    world
        .until("the machine is taken over", |cloud| {
            cloud.observe_machine(&World::machine_id("demo", "up")).is_some()
        })
        .await;
    world.give("waiting-0-0", "10.0.0.8", 24, "").await;
    let booted = world.ready(&waiting).await;
    assert_eq!(booted.status.unwrap_or_default().addresses[0].address, "10.0.0.8");
    assert_eq!(world.api.get::<InMemoryMachine>("up").await, up);
    let again = world.api.get::<IPAddressClaim>("up-0-0").await;
    assert_eq!((again.metadata.uid, again.spec), (claim.metadata.uid, claim.spec));
    let claims = |name: &str| -> Vec<String> {
        world
            .writes(name)
            .into_iter()
            .filter(|write| write.starts_with("create"))
            .collect()
    };
    assert_eq!(claims("waiting-0-0"), [""; 0]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_boots_over_a_restart_keeps_the_addresses_it_began_with() {
    let world = start(14_800).await;
    let machine = world.api.create(&objects::worker("demo", "w")).await;
    let mut object = objects::in_memory_machine(&machine);
    object.spec = objects::starting_in("10m");
    object.spec.network = Some(MachineNetwork {
        addresses_from_pools: vec![foreign_pool("v4")],
    });
    let object = world.api.create(&object).await;
    world.claimed("w-0-0").await;
    world.give("w-0-0", "10.0.0.7", 24, "").await;
    let booting = world.waits(&object, "WaitingForStartupTimeout").await;
    let id = World::machine_id("demo", "w");
    let before = world.cloud.observe_machine(&id).expect("it boots");

    let world = world.restart().await;
    world
        .until("the machine is taken over", |cloud| {
            cloud.observe_machine(&id).is_some()
        })
        .await;
    assert_eq!(world.cloud.observe_machine(&id), Some(before));
    world.cluster("other").await;
    assert_eq!(world.api.get::<InMemoryMachine>("w").await, booting);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_address_that_is_none_is_told() {
    let world = start(14_400).await;
    let machine = world.pooled(&objects::worker("demo", "w"), &["v4"]).await;
    world.claimed("w-0-0").await;
    world.give("w-0-0", "10.0.0.0/24", 24, "").await;
    let told = world.waits(&machine, "InvalidIPAddress").await;
    assert_eq!(
        message(&told, types::VM_PROVISIONED),
        r#"Waiting for IPAddressClaim w-0-0 of ForeignPool v4: InvalidIPAddress: IPAddress address-of-w-0-0 has the invalid address "10.0.0.0/24""#
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_cluster_apis_kinds_for_addresses_only_machines_on_pools_miss_them() {
    let world = start(14_500).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(world.api.client());
    for kind in ["ipaddressclaims", "ipaddresses"] {
        let name = format!("{kind}.ipam.cluster.x-k8s.io");
        definitions
            .delete(&name, &DeleteParams::default())
            .await
            .expect("it was there");
    }
    let plain = world.machine(&objects::worker("demo", "plain")).await;
    let pooled = world.pooled(&objects::worker("demo", "pooled"), &["v4"]).await;
    world.waits(&pooled, "IPAMNotInstalled").await;
    world.bootstrap("plain").await;
    world.ready(&plain).await;
    // Nothing was claimed, so nothing has to be released.
    world.api.delete::<InMemoryMachine>("pooled").await;
    world.api.eventually_gone::<InMemoryMachine>("pooled").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_load_balancers_address_comes_from_its_pool_before_the_cluster_is_provisioned() {
    let world = World::start(14_600);
    let cluster = world.api.create(&objects::cluster("demo")).await;
    let mut object = objects::in_memory_cluster(&cluster);
    object.spec.network = Some(ClusterNetwork {
        control_plane_address_from_pool: Some(foreign_pool("v4")),
    });
    world.api.create(&object).await;
    world.claimed("demo-load-balancer").await;
    world.refuse("demo-load-balancer", "PoolExhausted", "").await;
    let waiting = world
        .api
        .eventually::<InMemoryCluster>("demo", "to say so", |object| {
            let status = object.status.clone().unwrap_or_default();
            reason(&status.conditions, types::LOAD_BALANCER_AVAILABLE) == Some("PoolExhausted")
        })
        .await;
    assert_eq!(
        (waiting.is_provisioned(), waiting.spec.control_plane_endpoint),
        (false, None)
    );
    world.give("demo-load-balancer", "10.0.0.7", 24, "10.0.0.1").await;
    let object = world.provisioned("demo").await;
    // The address is only in the status; clients connect to the endpoint.
    let endpoint = ControlPlaneEndpoint {
        host: "127.0.0.1".into(),
        port: 14_600,
    };
    assert_eq!(object.spec.control_plane_endpoint, Some(endpoint));
    let address = ClaimedAddress {
        address: "10.0.0.7".into(),
        prefix: Some(24),
        gateway: "10.0.0.1".into(),
    };
    let expected = ClusterNetworkStatus {
        control_plane_address: Some(address),
    };
    assert_eq!(object.status.and_then(|status| status.network), Some(expected));

    world.api.delete::<InMemoryCluster>("demo").await;
    world
        .api
        .eventually::<InMemoryCluster>("demo", "to wait for its address", |object| {
            let status = object.status.clone().unwrap_or_default();
            let deleting = conditions::find(&status.conditions, types::DELETING);
            deleting
                .is_some_and(|condition| condition.message == "Waiting for the release of demo-load-balancer")
        })
        .await;
    assert_eq!(world.cloud.observe_cluster(&World::id("demo")), None);
    world.let_go("demo-load-balancer").await;
    world.api.eventually_gone::<InMemoryCluster>("demo").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_claims_and_their_release() {
    let world = start(14_700).await;
    world
        .api
        .patch::<Cluster>("demo", &json!({ "spec": { "paused": true } }))
        .await;
    world.pooled(&objects::worker("demo", "w"), &["v4"]).await;
    let paused = world.paused("w", "Cluster spec.paused is set to true").await;
    assert!(!is_ready(&paused));
    let claims = world
        .api
        .api::<IPAddressClaim>()
        .list(&kube::api::ListParams::default())
        .await;
    assert_eq!(claims.expect("a list").items, []);
    world
        .api
        .patch::<Cluster>("demo", &json!({ "spec": { "paused": false } }))
        .await;
    world.claimed("w-0-0").await;
    world.stop().await;
}

fn controllers(claim: &IPAddressClaim) -> Vec<(String, String)> {
    let owners = claim.metadata.owner_references.iter().flatten();
    let owners = owners.filter(|owner| owner.controller == Some(true));
    owners
        .map(|owner| (owner.kind.clone(), owner.name.clone()))
        .collect()
}

async fn disown(world: &World, claim: &str) {
    let none = json!({ "metadata": { "ownerReferences": null } });
    world.api.patch::<IPAddressClaim>(claim, &none).await;
}

#[tokio::test(start_paused = true)]
async fn owners_of_claims_that_were_taken_away_are_restored() {
    let world = World::start(16_500);
    let cluster = world.api.create(&objects::cluster("demo")).await;
    let mut object = objects::in_memory_cluster(&cluster);
    object.spec.network = Some(ClusterNetwork {
        control_plane_address_from_pool: Some(foreign_pool("v4")),
    });
    world.api.create(&object).await;
    world.claimed("demo-load-balancer").await;
    world.give("demo-load-balancer", "10.0.0.2", 24, "").await;
    world.provisioned("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    let up = world.pooled(&objects::worker("demo", "up"), &["v4", "v6"]).await;
    for (claim, address) in [("up-0-0", "10.0.0.7"), ("up-0-1", "fd00::7")] {
        world.claimed(claim).await;
        world.give(claim, address, 24, "").await;
    }
    world.ready(&up).await;
    // The claim of a waiting machine, the claims of a machine that booted, and the claim of a load balancer.
    world.pooled(&objects::worker("demo", "waits"), &["v4"]).await;
    world.claimed("waits-0-0").await;
    let claims = [
        ("waits-0-0", "InMemoryMachine", "waits"),
        ("up-0-0", "InMemoryMachine", "up"),
        ("up-0-1", "InMemoryMachine", "up"),
        ("demo-load-balancer", "InMemoryCluster", "demo"),
    ];
    for (claim, kind, name) in claims {
        let before: IPAddressClaim = world.api.get(claim).await;
        assert_eq!(controllers(&before), [(kind.to_owned(), name.to_owned())]);
        disown(&world, claim).await;
        let after = world
            .api
            .eventually::<IPAddressClaim>(claim, "to be owned again", |claim| !controllers(claim).is_empty())
            .await;
        assert_eq!(after.metadata.owner_references, before.metadata.owner_references);
    }
    // The same when it happened while no manager ran.
    let api = world.api.clone();
    let world = world
        .restart_after(async move {
            api.patch::<IPAddressClaim>("up-0-0", &json!({ "metadata": { "ownerReferences": null } }))
                .await;
        })
        .await;
    world
        .api
        .eventually::<IPAddressClaim>("up-0-0", "to be owned again", |claim| {
            !controllers(claim).is_empty()
        })
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_its_owner_is_released_with_its_machine_and_one_of_another_pool_is_not() {
    let mut setup = Setup::at(16_600);
    // So that the manager cannot restore its owner before.
    setup.refused = |method, path| method == "PATCH" && path.contains("/ipaddressclaims/");
    let world = World::start_with(setup);
    world.cluster("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    for name in ["ours", "theirs"] {
        let machine = world.pooled(&objects::worker("demo", name), &["v4"]).await;
        let claim = format!("{name}-0-0");
        world
            .api
            .eventually::<IPAddressClaim>(&claim, "to be made", |_| true)
            .await;
        world.give(&claim, "10.0.0.7", 24, "").await;
        world.ready(&machine).await;
    }
    let other = json!({ "spec": { "poolRef": { "name": "other" } } });
    world.api.patch::<IPAddressClaim>("theirs-0-0", &other).await;
    for name in ["ours", "theirs"] {
        disown(&world, &format!("{name}-0-0")).await;
        world.api.delete::<InMemoryMachine>(name).await;
        world.api.eventually_gone::<InMemoryMachine>(name).await;
    }
    let claims = world
        .api
        .api::<IPAddressClaim>()
        .list(&kube::api::ListParams::default())
        .await;
    let left: Vec<_> = claims
        .expect("a list")
        .into_iter()
        .filter_map(|claim| claim.metadata.name)
        .collect();
    assert_eq!(left, ["theirs-0-0"]);
    world.stop().await;
}
