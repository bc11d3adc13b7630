//! Objects that `clusterctl move` moves to another management cluster: created there without a status, and then removed
//! here without their finalizers. The test plays clusterctl, Cluster API core and a foreign IPAM provider.

use std::{collections::BTreeMap, fmt::Debug, net::TcpListener};

use k8s_openapi::{NamespaceResourceScope, api::core::v1::Secret};
use kube::{Resource, ResourceExt as _};
use nephele_api::{
    conditions::reasons,
    core::{Cluster, Machine},
    infrastructure::v1beta2::{
        InMemoryCluster, InMemoryClusterStatus, InMemoryMachine, MachineNetworkStatus,
    },
    ipam::v1beta2::{IPAddress, IPAddressClaim},
};
use nephele_cloud::{ClusterObservation, MachineObservation};
use nephele_testkit::objects::{self, Purpose};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::world::{Setup, World, foreign_pool, is_ready};

/// The state of a move in clusterctl: the new uid of each object, by kind and name.
#[derive(Default)]
struct Moving {
    uids: BTreeMap<(String, String), String>,
}

impl Moving {
    /// Creates an object on the other side, after its owners, without the fields that a server adds and without a
    /// status.
    async fn bring<K>(&mut self, from: &World, to: &World, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + Serialize + DeserializeOwned,
    {
        let mut object = serde_json::to_value(from.api.get::<K>(name).await).expect("an object is JSON");
        let fields = object.as_object_mut().expect("an object");
        fields.remove("status");
        let metadata = fields["metadata"]
            .as_object_mut()
            .expect("every object has metadata");
        for of_the_server in [
            "creationTimestamp",
            "generation",
            "managedFields",
            "resourceVersion",
            "uid",
        ] {
            metadata.remove(of_the_server);
        }
        let mut owners = metadata.remove("ownerReferences").unwrap_or_default();
        for owner in owners.as_array_mut().into_iter().flatten() {
            let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
            owner["uid"] = json!(self.uids[&(text("kind"), text("name"))]);
        }
        if !owners.is_null() {
            metadata.insert("ownerReferences".into(), owners);
        }
        let created: K = to
            .api
            .create(&serde_json::from_value(object).expect("an object"))
            .await;
        let uid = created.uid().expect("the server gives one");
        self.uids
            .insert((K::kind(&()).into_owned(), name.to_owned()), uid);
    }

    /// Removes an object from the source.
    async fn take<K>(from: &World, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned,
    {
        from.api.patch::<K>(name, &delete_for_move()).await;
        from.api.delete::<K>(name).await;
        // Gone already, if nothing held it.
        if from
            .api
            .api::<K>()
            .get_opt(name)
            .await
            .expect("the API answers")
            .is_some()
        {
            from.api.patch::<K>(name, &without_finalizers()).await;
        }
    }
}

fn delete_for_move() -> Value {
    json!({ "metadata": { "annotations": { "clusterctl.cluster.x-k8s.io/delete-for-move": "" } } })
}

fn without_finalizers() -> Value {
    json!({ "metadata": { "finalizers": null } })
}

async fn pause(world: &World, paused: bool) {
    world
        .api
        .patch::<Cluster>("demo", &json!({ "spec": { "paused": paused.then_some(true) } }))
        .await;
}

const SECRETS: [Purpose; 2] = [Purpose::Cluster, Purpose::Etcd];
const MACHINES: [&str; 3] = ["cp", "plain", "pooled"];

/// Moves the cluster `demo` with its machines and its claims.
async fn move_cluster(from: &World, to: &World) {
    pause(from, true).await;
    let mut moving = Moving::default();
    moving.bring::<Cluster>(from, to, "demo").await;
    moving.bring::<InMemoryCluster>(from, to, "demo").await;
    for purpose in SECRETS {
        moving
            .bring::<Secret>(from, to, &purpose.secret_name("demo"))
            .await;
    }
    for name in MACHINES {
        moving.bring::<Machine>(from, to, name).await;
        moving.bring::<InMemoryMachine>(from, to, name).await;
    }
    for claim in ["demo-load-balancer", "pooled-0-0"] {
        moving.bring::<IPAddressClaim>(from, to, claim).await;
        moving
            .bring::<IPAddress>(from, to, &format!("address-of-{claim}"))
            .await;
    }

    for claim in ["demo-load-balancer", "pooled-0-0"] {
        Moving::take::<IPAddress>(from, &format!("address-of-{claim}")).await;
        Moving::take::<IPAddressClaim>(from, claim).await;
    }
    for name in MACHINES {
        Moving::take::<InMemoryMachine>(from, name).await;
        Moving::take::<Machine>(from, name).await;
    }
    for purpose in SECRETS {
        Moving::take::<Secret>(from, &purpose.secret_name("demo")).await;
    }
    Moving::take::<InMemoryCluster>(from, "demo").await;
    Moving::take::<Cluster>(from, "demo").await;
    pause(to, false).await;
}

/// The foreign IPAM provider finds its addresses, and names them in the claims again.
async fn rebind(world: &World) {
    for claim in ["demo-load-balancer", "pooled-0-0"] {
        let bound = json!({ "addressRef": { "name": format!("address-of-{claim}") } });
        world.api.patch_status::<IPAddressClaim>(claim, &bound).await;
    }
}

/// Everything by which users and Cluster API can identify a cluster.
#[derive(Debug, PartialEq)]
struct Identity {
    cluster: ClusterObservation,
    machines: Vec<MachineObservation>,
    /// Specs and statuses, without the transition times of conditions.
    endpoint: Value,
    network: (Option<InMemoryClusterStatus>, Vec<Option<MachineNetworkStatus>>),
    provider_ids: Vec<String>,
}

async fn identity(world: &World) -> Identity {
    world.settled_cluster(&world.provisioned("demo").await).await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    let mut machines = vec![];
    let mut networks = vec![];
    let mut provider_ids = vec![];
    for name in MACHINES {
        let machine = world.api.eventually(name, "to be ready", is_ready).await;
        machines.push(
            world
                .cloud
                .observe_machine(&World::machine_id("demo", name))
                .expect("it runs"),
        );
        networks.push(machine.status.and_then(|status| status.network));
        provider_ids.push(machine.spec.provider_id);
    }
    let object = world.served_cluster("demo").await;
    let cluster = world.cloud.observe_cluster(&World::id("demo")).expect("it runs");
    let endpoint = json!(object.spec.control_plane_endpoint);
    let balancer = object.status.map(|status| InMemoryClusterStatus {
        conditions: vec![],
        ..status
    });
    Identity {
        cluster,
        machines,
        endpoint,
        network: (balancer, networks),
        provider_ids,
    }
}

async fn start_to_move(world: &World) {
    let cluster = world.api.create(&objects::cluster("demo")).await;
    let mut object = objects::in_memory_cluster(&cluster);
    object.spec.network = Some(nephele_api::infrastructure::v1beta2::ClusterNetwork {
        control_plane_address_from_pool: Some(foreign_pool("v4")),
    });
    world.api.create(&object).await;
    world.claimed("demo-load-balancer").await;
    world.give("demo-load-balancer", "10.0.0.6", 24, "10.0.0.1").await;
    world.provisioned("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    world.authorities("demo").await;
    let machine = world.api.create(&objects::control_plane("demo", "cp")).await;
    let mut slow = objects::in_memory_machine(&machine);
    // Its stages have random durations: a second draw would give others.
    slow.spec = objects::starting_in("20ms");
    world.api.create(&slow).await;
    let machine = world.api.create(&objects::worker("demo", "plain")).await;
    world.api.create(&objects::in_memory_machine(&machine)).await;
    world.pooled(&objects::worker("demo", "pooled"), &["v4"]).await;
    world.claimed("pooled-0-0").await;
    world.give("pooled-0-0", "10.0.0.7", 24, "10.0.0.1").await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_moves_there_and_back_is_the_same_on_either_side() {
    let source = World::start(18_100);
    let target = World::start(18_100);
    start_to_move(&source).await;
    let before = identity(&source).await;

    let _ = target.api.take_writes();
    move_cluster(&source, &target).await;
    rebind(&target).await;
    assert_eq!(identity(&target).await, before);
    assert_eq!(source.cloud.clusters(), []);
    // No address was claimed a second time: only the move created claims.
    let created = |world: &World| {
        let writes = world.api.take_writes().into_iter();
        writes
            .filter(|write| write.verb == "create" && write.resource == "ipaddressclaims")
            .count()
    };
    assert_eq!(created(&target), 2);

    move_cluster(&target, &source).await;
    rebind(&source).await;
    assert_eq!(identity(&source).await, before);
    assert_eq!(target.cloud.clusters(), []);
    source.stop().await;
    target.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_for_a_move_destroys_nothing_and_gives_the_port_free_in_the_end() {
    let world = World::start(18_200);
    start_to_move(&world).await;
    let before = identity(&world).await;
    pause(&world, true).await;
    world.paused("pooled", "Cluster spec.paused is set to true").await;

    // The object is deleted but still has its finalizer: nothing is released.
    world
        .api
        .patch::<InMemoryMachine>("pooled", &delete_for_move())
        .await;
    world.api.delete::<InMemoryMachine>("pooled").await;
    let annotation = json!({ "metadata": { "annotations": { "cluster.x-k8s.io/paused": "" } } });
    world.api.patch::<InMemoryMachine>("pooled", &annotation).await;
    let message =
        "Cluster spec.paused is set to true, InMemoryMachine has the cluster.x-k8s.io/paused annotation";
    let held = world.paused("pooled", message).await;
    assert!(held.metadata.deletion_timestamp.is_some() && held.metadata.finalizers.is_some());
    assert_eq!(
        world
            .api
            .get::<IPAddressClaim>("pooled-0-0")
            .await
            .metadata
            .deletion_timestamp,
        None
    );

    // Without its finalizer the object goes, and its machine stays with its cluster.
    world
        .api
        .patch::<InMemoryMachine>("pooled", &without_finalizers())
        .await;
    world.api.eventually_gone::<InMemoryMachine>("pooled").await;
    // The next object was reconciled, so the one before was too.
    world.api.patch::<InMemoryMachine>("plain", &annotation).await;
    world.paused("plain", message).await;
    assert_eq!(
        world.cloud.observe_cluster(&World::id("demo")),
        Some(before.cluster)
    );

    Moving::take::<InMemoryCluster>(&world, "demo").await;
    world
        .until("the cluster is forgotten", |cloud| cloud.clusters().is_empty())
        .await;
    let port = before.endpoint["port"]
        .as_u64()
        .and_then(|port| u16::try_from(port).ok())
        .expect("a port");
    let bound = async {
        while TcpListener::bind(("127.0.0.1", port)).is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), bound)
        .await
        .expect("the port is free");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_simulated_goes_with_objects_that_are_taken_away_by_force() {
    let world = World::start_with(Setup::at(18_300));
    start_to_move(&world).await;
    identity(&world).await;
    world.api.delete::<InMemoryMachine>("plain").await;
    world.api.eventually_gone::<InMemoryMachine>("plain").await;

    let by_force = |name: &'static str| {
        let world = &world;
        async move {
            pause(world, true).await;
            world.paused(name, "Cluster spec.paused is set to true").await;
            world.api.delete::<InMemoryMachine>(name).await;
            world
                .api
                .patch::<InMemoryMachine>(name, &without_finalizers())
                .await;
        }
    };
    by_force("cp").await;
    let id = World::machine_id("demo", "cp");
    world
        .until("the machine is reclaimed", |cloud| {
            cloud.observe_machine(&id).is_none()
        })
        .await;
    let seen = world.cloud.observe_cluster(&World::id("demo")).expect("it runs");
    assert_eq!((seen.machines, seen.backends, seen.etcd_members), (1, 0, vec![]));

    world.api.delete::<InMemoryCluster>("demo").await;
    world
        .api
        .patch::<InMemoryCluster>("demo", &without_finalizers())
        .await;
    world
        .until("the cluster is reclaimed", |cloud| cloud.clusters().is_empty())
        .await;
    // Its Cluster still exists.
    world.api.get::<Cluster>("demo").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_machine_takes_the_room_of_one_that_was_moved_here_before_its_cluster() {
    let world = World::start_with(Setup {
        machines_max: Some(2),
        ..Setup::at(18_500)
    });
    world.cluster("other").await;
    world
        .api
        .patch_status::<Cluster>("other", &json!(objects::provisioned(true)))
        .await;
    // With the first machine, the manager reserves what the first list has.
    let first = world.machine(&objects::worker("other", "first")).await;
    world.bootstrap("first").await;
    world.ready(&first).await;
    let cluster = world.api.create(&objects::cluster("demo")).await;
    let machine = world.api.create(&objects::worker("demo", "moved")).await;
    let mut object = objects::in_memory_machine(&machine);
    object.spec.provider_id = "in-memory://moved".into();
    let origin = serde_json::from_value(json!({ "startTime": "2026-01-02T03:04:05.000000Z" }));
    object.instance_mut().origin = origin.expect("an origin");
    world.api.create(&object).await;
    let is_held = |object: &InMemoryMachine| !object.finalizers().is_empty();
    let moved = world.api.eventually("moved", "to be held", is_held).await;
    let new = world.machine(&objects::worker("other", "new")).await;
    world.bootstrap("new").await;
    world.waits(&new, reasons::QUOTA_EXCEEDED).await;

    world.api.create(&objects::in_memory_cluster(&cluster)).await;
    world.ready(&moved).await;
    assert_eq!(
        world.cloud.observe_machine(&World::machine_id("other", "new")),
        None
    );
    world.api.delete::<InMemoryMachine>("moved").await;
    world.ready(&new).await;
    world.stop().await;
}
