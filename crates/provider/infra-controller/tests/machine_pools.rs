//! The controllers against a management API in this process, with a real cloud. The test plays Cluster API core: it
//! creates a Machine for each InMemoryMachine of a pool, and finishes their deletions one after the other.

use std::{collections::BTreeMap, pin::pin};

use futures::{StreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    ResourceExt,
    api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::watcher,
};
use nephele_api::{
    conditions::{self, types},
    core,
    core::{
        Bootstrap, Machine, MachinePool, MachinePoolSpec, MachinePoolTemplate, MachineSpec, ObjectReference,
    },
    finalizers, infrastructure,
    infrastructure::v1beta2::{
        InMemoryMachine, InMemoryMachinePool,
        pool_machine::{POOL_NAME_LABEL, VERSION_ANNOTATION, label_value},
        termination::TERMINATE_ANNOTATION,
    },
    labels,
};
use nephele_testkit::{
    Damage,
    objects::{self, NAMESPACE},
};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::{
    damage::act,
    world,
    world::{World, is_ready},
};

/// The part of Cluster API core for pools: a Machine for each machine of a pool, and the deletion of Machines.
struct Core(JoinHandle<()>);

impl Drop for Core {
    fn drop(&mut self) {
        self.0.abort();
    }
}

const HELD: &str = "machine.cluster.x-k8s.io";

impl Core {
    fn start(world: &World) -> Self {
        let client = world.api.client();
        Self(tokio::spawn(async move {
            let machines: Api<Machine> = Api::namespaced(client.clone(), NAMESPACE);
            let objects: Api<InMemoryMachine> = Api::namespaced(client.clone(), NAMESPACE);
            let pools: Api<MachinePool> = Api::namespaced(client, NAMESPACE);
            let events = stream::select(
                watcher(machines.clone(), watcher::Config::default()).map(|_| ()),
                watcher(objects.clone(), watcher::Config::default()).map(|_| ()),
            );
            let mut events = pin!(events);
            while events.next().await.is_some() {
                // A refused request is tried again with the next event: it is refused because something changed.
                let _ = look(&machines, &objects, &pools).await;
            }
        }))
    }
}

async fn look(
    machines: &Api<Machine>,
    objects: &Api<InMemoryMachine>,
    pools: &Api<MachinePool>,
) -> kube::Result<()> {
    let of_pools = ListParams::default().labels(POOL_NAME_LABEL);
    let pools = pools.list(&ListParams::default()).await?.items;
    let there: BTreeMap<_, _> = objects
        .list(&of_pools)
        .await?
        .into_iter()
        .map(|object| (object.name_any(), object))
        .collect();
    let known: BTreeMap<_, _> = machines
        .list(&of_pools)
        .await?
        .into_iter()
        .map(|machine| (machine.name_any(), machine))
        .collect();
    for (name, object) in &there {
        let label = labels::value(&object.metadata, POOL_NAME_LABEL);
        let Some(pool) = pools
            .iter()
            .find(|pool| Some(label_value(&pool.name_any()).as_str()) == label)
        else {
            continue;
        };
        let machine = match known.get(name) {
            Some(machine) => machine.clone(),
            None => {
                machines
                    .create(&PostParams::default(), &machine(pool, object))
                    .await?
            }
        };
        if nephele_controller::owner_machine(&object.metadata).is_none() {
            let mut owned = object.clone();
            objects::own(&mut owned, &machine);
            let owners = json!({ "metadata": { "ownerReferences": owned.metadata.owner_references } });
            objects
                .patch(name, &PatchParams::default(), &Patch::Merge(owners))
                .await?;
        }
    }
    for machine in known
        .values()
        .filter(|machine| machine.metadata.deletion_timestamp.is_some())
    {
        let name = machine.name_any();
        match there.get(&name) {
            Some(object) if object.metadata.deletion_timestamp.is_none() => {
                objects.delete(&name, &DeleteParams::default()).await?;
            }
            Some(_) => {}
            None => {
                let released = json!({ "metadata": { "finalizers": null } });
                machines
                    .patch(&name, &PatchParams::default(), &Patch::Merge(released))
                    .await?;
            }
        }
    }
    Ok(())
}

/// The Machine of a machine of a pool, as Cluster API creates it: without version, failure domain or bootstrap data.
fn machine(pool: &MachinePool, object: &InMemoryMachine) -> Machine {
    let mut machine = objects::worker(&pool.spec.cluster_name, &object.name_any());
    machine.spec.version.clear();
    machine.spec.bootstrap = Some(Bootstrap {
        config_ref: None,
        data_secret_name: Some(String::new()),
    });
    machine.metadata.finalizers = Some(vec![HELD.into()]);
    objects::label(&mut machine, POOL_NAME_LABEL, &label_value(&pool.name_any()));
    objects::own(&mut machine, pool);
    machine
}

/// A MachinePool of a cluster `demo` with its InMemoryMachinePool, both of this name.
async fn pool(world: &World, name: &str, replicas: i32) -> InMemoryMachinePool {
    let pool = MachinePool {
        metadata: ObjectMeta {
            name: Some(name.into()),
            namespace: Some(NAMESPACE.into()),
            labels: Some([(labels::CLUSTER_NAME.to_owned(), "demo".to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: MachinePoolSpec {
            cluster_name: "demo".into(),
            replicas: Some(replicas),
            template: MachinePoolTemplate {
                spec: MachineSpec {
                    cluster_name: "demo".into(),
                    version: "v1.36.3".into(),
                    bootstrap: Some(Bootstrap {
                        config_ref: None,
                        data_secret_name: Some("bootstrap".into()),
                    }),
                    infrastructure_ref: Some(ObjectReference {
                        api_group: infrastructure::GROUP.into(),
                        kind: "InMemoryMachinePool".into(),
                        name: name.into(),
                    }),
                    ..MachineSpec::default()
                },
            },
            ..MachinePoolSpec::default()
        },
        status: None,
    };
    let pool = world.api.create(&pool).await;
    let mut object = InMemoryMachinePool::default();
    object.metadata.name = Some(name.into());
    object.metadata.namespace = Some(NAMESPACE.into());
    objects::label(&mut object, labels::CLUSTER_NAME, "demo");
    objects::own(&mut object, &pool);
    world.api.create(&object).await
}

/// A cluster whose control plane is up, with a pool, and with Cluster API core.
async fn running(port: u16, replicas: i32) -> (World, Core) {
    running_in(World::start(port), replicas).await
}

async fn running_in(world: World, replicas: i32) -> (World, Core) {
    world.cluster("demo").await;
    world.authorities("demo").await;
    world
        .api
        .patch_status::<core::Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    let core = Core::start(&world);
    pool(&world, "pool", replicas).await;
    (world, core)
}

fn is_settled(object: &InMemoryMachinePool, replicas: i32) -> bool {
    let status = object.status.clone().unwrap_or_default();
    conditions::is_true(&status.conditions, types::READY)
        && status.replicas == Some(replicas)
        && object.spec.provider_id_list.len() == usize::try_from(replicas).unwrap_or_default()
}

async fn settled(world: &World, replicas: i32) -> InMemoryMachinePool {
    let what = format!("to have {replicas} machines");
    world
        .api
        .eventually("pool", &what, |object| is_settled(object, replicas))
        .await
}

#[tokio::test(start_paused = true)]
async fn machines_of_a_pool_boot_with_the_data_of_the_pool() {
    let world = World::start(19_800);
    let documents = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\nnodeRegistration:\n  \
                     kubeletExtraArgs: [{name: node-labels, value: pool=one}]";
    let path = "/run/kubeadm/kubeadm-join-config.yaml";
    crate::bootstrap::give(
        &world,
        "bootstrap",
        &crate::bootstrap::cloud_config(path, documents),
    )
    .await;
    let (world, _core) = running_in(world, 2).await;
    settled(&world, 2).await;
    let found = world
        .api
        .api::<InMemoryMachine>()
        .list(&ListParams::default())
        .await
        .expect("a list");
    let labels = |machine: &InMemoryMachine| Some(machine.origin()?.kubeadm?.node_labels);
    let expected = Some(BTreeMap::from([("pool".to_owned(), "one".to_owned())]));
    assert_eq!(
        found.items.iter().map(labels).collect::<Vec<_>>(),
        [expected.clone(), expected]
    );
    world.stop().await;
}

async fn scale(world: &World, replicas: i32) -> InMemoryMachinePool {
    world
        .api
        .patch::<MachinePool>("pool", &json!({ "spec": { "replicas": replicas } }))
        .await;
    settled(world, replicas).await
}

fn ids(numbers: &[u32]) -> Vec<String> {
    numbers
        .iter()
        .map(|number| format!("in-memory://pool-{number}"))
        .collect()
}

async fn machines(world: &World) -> Vec<InMemoryMachine> {
    let list = world
        .api
        .api::<InMemoryMachine>()
        .list(&ListParams::default())
        .await;
    list.expect("the API answers").items
}

#[tokio::test(start_paused = true)]
async fn a_pool_of_three_gets_three_machines() {
    let (world, _core) = running(16_000, 3).await;
    let object = settled(&world, 3).await;
    assert_eq!(object.spec.provider_id_list, ids(&[0, 1, 2]));
    assert_eq!(
        object.metadata.finalizers,
        Some(vec![finalizers::MACHINE_POOL.to_owned()])
    );
    let status = json!(object.status.unwrap_or_default());
    assert_eq!(
        [
            &status["ready"],
            &status["initialization"],
            &status["infrastructureMachineKind"]
        ],
        [
            &json!(true),
            &json!({ "provisioned": true }),
            &json!("InMemoryMachine")
        ]
    );
    for machine in machines(&world).await {
        assert!(is_ready(&machine), "{machine:?}");
        let labels = json!(machine.metadata.labels);
        let expected = json!({ labels::CLUSTER_NAME: "demo", POOL_NAME_LABEL: "pool" });
        assert_eq!(labels, expected);
        // The Machine is the controller; the pool is another owner.
        let owners = machine.metadata.owner_references.clone().unwrap_or_default();
        let owners: Vec<_> = owners
            .iter()
            .map(|owner| (owner.kind.as_str(), owner.controller))
            .collect();
        assert_eq!(owners, [("InMemoryMachinePool", None), ("Machine", Some(true))]);
        let id = World::machine_id("demo", &machine.name_any());
        assert!(world.cloud.observe_machine(&id).is_some(), "{id}");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_grows_and_shrinks() {
    let (world, _core) = running(16_100, 3).await;
    settled(&world, 3).await;
    assert_eq!(
        scale(&world, 5).await.spec.provider_id_list,
        ids(&[0, 1, 2, 3, 4])
    );
    assert_eq!(scale(&world, 2).await.spec.provider_id_list, ids(&[0, 1]));
    assert_eq!(scale(&world, 3).await.spec.provider_id_list, ids(&[0, 1, 5]));
    assert_eq!(scale(&world, 0).await.spec.provider_id_list, ids(&[]));
    assert!(machines(&world).await.is_empty());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_marked_machine_goes_first_and_by_its_machine() {
    let (world, _core) = running(16_200, 3).await;
    settled(&world, 3).await;
    let marked = json!({ "metadata": { "annotations": { "cluster.x-k8s.io/delete-machine": "" } } });
    world.api.patch::<Machine>("pool-1", &marked).await;
    assert_eq!(scale(&world, 2).await.spec.provider_id_list, ids(&[0, 2]));
    world.api.eventually_gone::<Machine>("pool-1").await;
    let deleted = world
        .api
        .take_writes()
        .into_iter()
        .filter(|write| write.verb == "delete");
    let deleted: Vec<_> = deleted.map(|write| (write.resource, write.name)).collect();
    let of = |resource: &str| (resource.to_owned(), "pool-1".to_owned());
    // The second deletion is from Cluster API core.
    assert_eq!(deleted, [of("machines"), of("inmemorymachines")]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_machine_is_replaced() {
    let (world, _core) = running(16_300, 3).await;
    settled(&world, 3).await;
    world.api.delete::<Machine>("pool-1").await;
    let replaced = |object: &InMemoryMachinePool| {
        is_settled(object, 3) && object.spec.provider_id_list == ids(&[0, 2, 3])
    };
    world
        .api
        .eventually("pool", "to have replaced its machine", replaced)
        .await;
    world.api.eventually_gone::<Machine>("pool-1").await;
    world.stop().await;
}

/// Nothing else does it: a MachineHealthCheck leaves Machines of MachinePools alone.
#[tokio::test(start_paused = true)]
async fn a_machine_whose_instance_vanished_is_replaced() {
    let (world, _core) = running(17_300, 3).await;
    settled(&world, 3).await;
    let terminated = json!({ "metadata": { "annotations": { TERMINATE_ANNOTATION: "" } } });
    world.api.patch::<InMemoryMachine>("pool-1", &terminated).await;
    let replaced = |object: &InMemoryMachinePool| {
        is_settled(object, 3) && object.spec.provider_id_list == ids(&[0, 2, 3])
    };
    world
        .api
        .eventually("pool", "to have replaced its machine", replaced)
        .await;
    world.api.eventually_gone::<Machine>("pool-1").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_a_machine_deleted_behind_its_back_goes() {
    let (world, _core) = running(16_400, 2).await;
    settled(&world, 2).await;
    world.api.delete::<InMemoryMachine>("pool-0").await;
    world.api.eventually_gone::<Machine>("pool-0").await;
    let replaced =
        |object: &InMemoryMachinePool| is_settled(object, 2) && object.spec.provider_id_list == ids(&[1, 2]);
    world
        .api
        .eventually("pool", "to have replaced its machine", replaced)
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_version_replaces_machines_without_ever_having_fewer() {
    let (world, _core) = running(16_500, 3).await;
    settled(&world, 3).await;
    let version = json!({ "spec": { "template": { "spec": { "version": "v1.36.4" } } } });
    world.api.patch::<MachinePool>("pool", &version).await;
    let replaced = |object: &InMemoryMachinePool| {
        is_settled(object, 3) && object.spec.provider_id_list == ids(&[3, 4, 5])
    };
    world
        .api
        .eventually("pool", "to have new machines", replaced)
        .await;
    for machine in machines(&world).await {
        let version = machine.annotations().get(VERSION_ANNOTATION).map(String::as_str);
        assert_eq!(version, Some("v1.36.4"));
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_template_replaces_machines() {
    let (world, _core) = running(16_600, 1).await;
    settled(&world, 1).await;
    let template = json!({ "spec": { "template": { "instanceType": "large" } } });
    world.api.patch::<InMemoryMachinePool>("pool", &template).await;
    let replaced =
        |object: &InMemoryMachinePool| is_settled(object, 1) && object.spec.provider_id_list == ids(&[1]);
    world
        .api
        .eventually("pool", "to have a new machine", replaced)
        .await;
    assert_eq!(
        world
            .api
            .get::<InMemoryMachine>("pool-1")
            .await
            .spec
            .instance_type,
        "large"
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_goes_with_its_machines() {
    let (world, _core) = running(16_700, 3).await;
    settled(&world, 3).await;
    world.api.delete::<InMemoryMachinePool>("pool").await;
    world.api.eventually_gone::<InMemoryMachinePool>("pool").await;
    assert!(machines(&world).await.is_empty());
    for number in 0..3 {
        world
            .api
            .eventually_gone::<Machine>(&format!("pool-{number}"))
            .await;
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_lost_its_owner_goes_with_its_machines_too() {
    let (world, _core) = running(17_200, 2).await;
    settled(&world, 2).await;
    let alone = json!({ "metadata": { "ownerReferences": null, "labels": null } });
    world.api.patch::<InMemoryMachinePool>("pool", &alone).await;
    world.api.delete::<InMemoryMachinePool>("pool").await;
    world.api.eventually_gone::<InMemoryMachinePool>("pool").await;
    assert!(machines(&world).await.is_empty());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_pool_is_left_alone() {
    let (world, _core) = running(16_800, 1).await;
    settled(&world, 1).await;
    let annotations = |value| json!({ "metadata": { "annotations": { "cluster.x-k8s.io/paused": value } } });
    world
        .api
        .patch::<InMemoryMachinePool>("pool", &annotations(json!("")))
        .await;
    let paused = |object: &InMemoryMachinePool| {
        let status = object.status.clone().unwrap_or_default();
        conditions::is_true(&status.conditions, types::PAUSED)
    };
    world.api.eventually("pool", "to be paused", paused).await;
    world
        .api
        .patch::<MachinePool>("pool", &json!({ "spec": { "replicas": 2 } }))
        .await;
    world.api.delete::<Machine>("pool-0").await;
    world.api.eventually_gone::<Machine>("pool-0").await;
    // A pool that was created later is done: so this one was reconciled.
    pool(&world, "other", 1).await;
    world
        .api
        .eventually("other", "to have a machine", |object| is_settled(object, 1))
        .await;
    let names: Vec<_> = machines(&world).await.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["other-0"]);
    world
        .api
        .patch::<InMemoryMachinePool>("pool", &annotations(json!(null)))
        .await;
    settled(&world, 2).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_made_before_there_is_an_owner_and_bootstrap_data() {
    let world = World::start(16_900);
    world.cluster("demo").await;
    let _core = Core::start(&world);
    let mut orphan = InMemoryMachinePool::default();
    orphan.metadata.name = Some("orphan".into());
    orphan.metadata.namespace = Some(NAMESPACE.into());
    let orphan = world.api.create(&orphan).await;
    let owned = pool(&world, "pool", 1).await;
    let bootstrap =
        |name| json!({ "spec": { "template": { "spec": { "bootstrap": { "dataSecretName": name } } } } });
    world.api.delete::<InMemoryMachinePool>("pool").await;
    world.api.eventually_gone::<InMemoryMachinePool>("pool").await;
    world
        .api
        .patch::<MachinePool>("pool", &bootstrap(json!(null)))
        .await;
    let mut external = owned.clone();
    external.metadata = ObjectMeta {
        name: Some("external".into()),
        ..external.metadata
    };
    external.metadata.resource_version = None;
    external.metadata.uid = None;
    objects::annotate(&mut external, nephele_controller::MANAGED_BY_ANNOTATION, "");
    let external = world.api.create(&external).await;
    let mut again = owned;
    again.metadata.resource_version = None;
    again.metadata.uid = None;
    world.api.create(&again).await;
    let waits = |object: &InMemoryMachinePool| {
        let status = object.status.clone().unwrap_or_default();
        let ready = world::reason(&status.conditions, types::REPLICAS_READY);
        ready == Some("WaitingForBootstrapData") && status.ready == Some(false)
    };
    world
        .api
        .eventually("pool", "to wait for bootstrap data", waits)
        .await;
    world
        .api
        .patch::<MachinePool>("pool", &bootstrap(json!("data")))
        .await;
    settled(&world, 1).await;
    assert_eq!(world.api.get::<InMemoryMachinePool>("orphan").await, orphan);
    assert_eq!(world.api.get::<InMemoryMachinePool>("external").await, external);
    world.stop().await;
}

/// The longest names that Kubernetes allows are too long for label values and host names.
#[tokio::test(start_paused = true)]
async fn a_pool_with_a_long_name_has_machines() {
    let world = World::start(17_000);
    world.cluster("demo").await;
    world
        .api
        .patch_status::<core::Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    let _core = Core::start(&world);
    let name = "pool".repeat(30);
    pool(&world, &name, 2).await;
    world
        .api
        .eventually(&name, "to have machines", |object| is_settled(object, 2))
        .await;
    for machine in machines(&world).await {
        assert!(machine.name_any().len() <= 63);
        let label = labels::value(&machine.metadata, POOL_NAME_LABEL);
        assert_eq!(label, Some(label_value(&name).as_str()));
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_makes_no_machine_and_writes_nothing() {
    let (world, core) = running(17_100, 3).await;
    let before = settled(&world, 3).await;
    let _ = world.api.take_writes();
    let world = world.restart().await;
    // A pool that was created after that is done: so this one was reconciled.
    pool(&world, "other", 1).await;
    world
        .api
        .eventually("other", "to have a machine", |object| is_settled(object, 1))
        .await;
    let after: InMemoryMachinePool = world.api.get("pool").await;
    assert_eq!((after.spec, after.status), (before.spec, before.status));
    let created = world
        .api
        .take_writes()
        .into_iter()
        .filter(|write| write.verb == "create");
    let created: Vec<_> = created.map(|write| write.resource).collect();
    assert_eq!(
        created
            .iter()
            .filter(|resource| *resource == "inmemorymachines")
            .count(),
        1,
        "{created:?}"
    );
    drop(core);
    world.stop().await;
}

/// Cluster API makes the Machine an owner again, and the pool itself.
#[tokio::test(start_paused = true)]
async fn damaged_machines_of_a_pool_and_the_pool_are_what_they_were() {
    let (world, _core) = running(18_900, 2).await;
    let before = settled(&world, 2).await;
    let names = async |world: &World| {
        let found = world
            .api
            .api::<InMemoryMachine>()
            .list(&ListParams::default())
            .await
            .expect("a list");
        let mut names: Vec<_> = found.items.iter().map(ResourceExt::name_any).collect();
        names.sort();
        names
    };
    let machines = world.api.api::<InMemoryMachine>();
    let pools = world.api.api::<InMemoryMachinePool>();
    let expected = names(&world).await;
    for damage in Damage::all() {
        let owned = pools.get("pool").await.expect("it is there");
        for name in &expected {
            damage.inflict(&machines, name).await;
        }
        damage.inflict(&pools, "pool").await;
        act().await;
        damage.own_again(&pools, &owned).await;
        act().await;
        let after = settled(&world, 2).await;
        assert_eq!(names(&world).await, expected, "{damage:?}");
        assert_eq!(
            after.spec.provider_id_list, before.spec.provider_id_list,
            "{damage:?}"
        );
        assert!(
            after
                .finalizers()
                .iter()
                .any(|name| name == finalizers::MACHINE_POOL),
            "{damage:?}"
        );
        for name in &expected {
            let machine = machines.get(name).await.expect("it is there");
            let owners: Vec<_> = machine
                .owner_references()
                .iter()
                .map(|owner| owner.kind.as_str())
                .collect();
            assert!(
                owners.contains(&"InMemoryMachinePool") && owners.contains(&"Machine"),
                "{damage:?} {owners:?}"
            );
        }
    }
    world.api.delete::<MachinePool>("pool").await;
    world.api.delete::<InMemoryMachinePool>("pool").await;
    world.api.eventually_gone::<InMemoryMachinePool>("pool").await;
    assert_eq!(names(&world).await, Vec::<String>::new());
    world.stop().await;
}
