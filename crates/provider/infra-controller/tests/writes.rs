//! The writes and their order, as a client sees them that watches every version of an object, and writes that meet
//! changes of others. The test plays Cluster API core.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures::{StreamExt as _, TryStreamExt as _};
use kube::{
    Resource, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, WatchEvent, WatchParams},
};
use nephele_api::{
    conditions::{self, types},
    core::{Cluster, Machine},
    finalizers,
    infrastructure::v1beta2::{FailureDomain, InMemoryCluster, InMemoryMachine},
};
use nephele_testkit::{Write, objects};
use serde_json::json;

use crate::world::{Setup, World, is_ready, reason};

/// Every version of an object from `first` to `last`, as a watch delivers them.
async fn history<K>(world: &World, first: &K, last: &K) -> Vec<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let of_object = WatchParams::default().fields(&format!("metadata.name={}", first.name_any()));
    let from = first.resource_version().expect("it is there");
    let events = world
        .api
        .api::<K>()
        .watch(&of_object, &from)
        .await
        .expect("it can be watched");
    let mut events = std::pin::pin!(events);
    let mut versions = vec![first.clone()];
    while versions.last().and_then(ResourceExt::resource_version) != last.resource_version() {
        match events
            .try_next()
            .await
            .expect("the watch continues")
            .expect("the last version comes")
        {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => versions.push(object),
            other => panic!("{other:?}"),
        }
    }
    versions
}

fn domain(name: &str) -> FailureDomain {
    FailureDomain {
        name: name.into(),
        control_plane: Some(true),
        ..FailureDomain::default()
    }
}

/// A cluster with two failure domains, as core copies them to the Cluster.
async fn in_domains(world: &World, name: &str) {
    let cluster = world.api.create(&objects::cluster(name)).await;
    let mut object = objects::in_memory_cluster(&cluster);
    object.spec.failure_domains = vec![domain("zone-a"), domain("zone-b")];
    world.api.create(&object).await;
    let object = world.provisioned(name).await;
    let status = object.status.unwrap_or_default();
    assert_eq!(status.failure_domains, [domain("zone-a"), domain("zone-b")]);
    let mut shown = json!(objects::provisioned(true));
    shown["failureDomains"] = json!(status.failure_domains);
    world.api.patch_status::<Cluster>(name, &shown).await;
}

#[tokio::test(start_paused = true)]
async fn provider_id_addresses_and_failure_domain_are_there_no_later_than_the_flag() {
    let world = World::start(15_000);
    in_domains(&world, "demo").await;
    let mut machine = objects::worker("demo", "w");
    machine.spec.failure_domain = "zone-b".into();
    let first = world.machine(&machine).await;
    world.bootstrap("w").await;
    let last = world.ready(&first).await;

    let mut seen_before_the_flag = false;
    let mut provisioned = 0;
    for version in history(&world, &first, &last).await {
        let status = version.status.clone().unwrap_or_default();
        if status.initialization.and_then(|flag| flag.provisioned) == Some(true) {
            provisioned += 1;
            assert_eq!(version.spec.provider_id, "in-memory://w");
            assert_eq!(status.failure_domain, "zone-b");
            assert!(!status.addresses.is_empty());
        } else {
            assert_eq!(provisioned, 0, "the flag was taken back");
            seen_before_the_flag |= !version.spec.provider_id.is_empty();
        }
    }
    assert!(
        seen_before_the_flag,
        "the provider id is written by itself, before the status"
    );
    assert!(provisioned > 0);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_placed_where_its_machine_asks_or_says_why_not() {
    let world = World::start(15_100);
    in_domains(&world, "demo").await;
    for zone in ["zone-a", "zone-b"] {
        let mut machine = objects::worker("demo", &format!("in-{zone}"));
        machine.spec.failure_domain = zone.into();
        let object = world.machine(&machine).await;
        world.bootstrap(&machine.name_any()).await;
        let object = world.ready(&object).await;
        assert_eq!(object.status.unwrap_or_default().failure_domain, zone);
        let observed = world
            .cloud
            .observe_machine(&World::machine_id("demo", &machine.name_any()));
        assert_eq!(observed.and_then(|observed| observed.zone).as_deref(), Some(zone));
    }
    let mut machine = objects::worker("demo", "nowhere");
    machine.spec.failure_domain = "zone-c".into();
    let object = world.machine(&machine).await;
    world.bootstrap("nowhere").await;
    let waiting = world.waits(&object, "UnknownFailureDomain").await;
    let status = waiting.status.unwrap_or_default();
    let told = conditions::find(&status.conditions, types::VM_PROVISIONED).expect("a condition");
    assert!(
        told.message.contains("zone-c") && told.message.contains("zone-a"),
        "{}",
        told.message
    );
    assert_eq!(
        world.cloud.observe_machine(&World::machine_id("demo", "nowhere")),
        None
    );
    world.stop().await;
}

/// State that is only in this process goes with it. Objects that outlive the process are created after the finalizer,
/// which is written with the endpoint.
#[tokio::test(start_paused = true)]
async fn a_finalizer_is_there_before_anything_that_outlives_the_manager() {
    let world = World::start(15_200);
    world.kubeadm_cluster("demo").await;
    world.provisioned("demo").await;
    let writes = world.api.take_writes();
    let position = |is: &dyn Fn(&Write) -> bool| writes.iter().position(is);
    let held = position(&|write| write.resource == "inmemoryclusters" && write.verb == "patch");
    let secret = position(&|write| write.resource == "secrets" && write.verb == "create");
    assert!(held.is_some() && secret.is_some() && held < secret, "{writes:?}");

    let first = world.api.get::<InMemoryCluster>("demo").await;
    assert_eq!(first.finalizers(), [finalizers::CLUSTER]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_version_of_a_cluster_shows_an_endpoint_without_a_finalizer() {
    let world = World::start(15_300);
    let cluster = world.api.create(&objects::cluster("demo")).await;
    let first = world.api.create(&objects::in_memory_cluster(&cluster)).await;
    let last = world.provisioned("demo").await;
    let mut published = 0;
    for version in history(&world, &first, &last).await {
        if version.spec.control_plane_endpoint.is_some() {
            published += 1;
            assert_eq!(version.finalizers(), [finalizers::CLUSTER]);
        }
    }
    assert!(published > 0);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_finalizer_is_not_taken_is_let_go() {
    static REFUSED: AtomicBool = AtomicBool::new(false);
    let refused = |method: &str, path: &str| {
        let is_refused = method == "PATCH" && path.ends_with("/inmemoryclusters/demo");
        REFUSED.fetch_or(is_refused, Ordering::SeqCst);
        is_refused
    };
    let world = World::start_with(Setup {
        refused,
        ..Setup::at(15_400)
    });
    let cluster = world.api.create(&objects::cluster("demo")).await;
    let object = world.api.create(&objects::in_memory_cluster(&cluster)).await;
    let mut changes = world.cloud.changes();
    let made_and_let_go = async {
        while !(REFUSED.load(Ordering::SeqCst) && world.cloud.observe_cluster(&World::id("demo")).is_none()) {
            changes.next().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), made_and_let_go)
        .await
        .expect("it is let go");
    assert_eq!(world.api.get::<InMemoryCluster>("demo").await, object);
    world.stop().await;
}

/// Cluster API creates the object with the MachineSet or control plane as its owner, and then replaces that owner by
/// the Machine.
#[tokio::test(start_paused = true)]
async fn a_machine_that_only_its_machine_set_owns_is_left_alone_until_the_machine_does() {
    let world = World::start(15_500);
    world.cluster("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    let machine = world.api.create(&objects::worker("demo", "w")).await;
    let owned = objects::in_memory_machine(&machine);
    for kind in ["MachineSet", "MachineDeployment"] {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", kind));
        let owner = DynamicObject::new("w", &resource);
        let owner = world.create_of_core(&resource, &owner).await;
        let mut object = owned.clone();
        object.metadata.name = Some(format!("of-{}", kind.to_lowercase()));
        object.metadata.owner_references = owner.controller_owner_ref(&resource).map(|owner| vec![owner]);
        let object = world.api.create(&object).await;
        // Another machine, created later, is up: so this one was reconciled.
        let later = world
            .machine(&objects::worker("demo", &format!("after-{}", object.name_any())))
            .await;
        world.bootstrap(&later.name_any()).await;
        world.ready(&later).await;
        assert_eq!(
            world.api.get::<InMemoryMachine>(&object.name_any()).await,
            object,
            "{kind}"
        );
        let id = World::machine_id("demo", &object.name_any());
        assert_eq!(world.cloud.observe_machine(&id), None, "{kind}");
    }
    let owners = json!({ "metadata": { "ownerReferences": owned.metadata.owner_references } });
    let handed_over = world.api.patch::<InMemoryMachine>("of-machineset", &owners).await;
    world.ready(&handed_over).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_found_by_its_owner_whatever_its_name() {
    let world = World::start(15_600);
    world.cluster("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    let mut machine = objects::worker("demo", "the-machine");
    machine.spec.bootstrap = None;
    if let Some(reference) = &mut machine.spec.infrastructure_ref {
        reference.name = "the-infrastructure".into();
    }
    let machine = world.api.create(&machine).await;
    let mut object = objects::in_memory_machine(&machine);
    object.metadata.name = Some("the-infrastructure".into());
    let object = world.api.create(&object).await;
    world.waits(&object, "WaitingForBootstrapData").await;
    // A change of the Machine is noticed, although it has another name.
    world.bootstrap("the-machine").await;
    let object = world.ready(&object).await;
    assert_eq!(object.spec.provider_id, "in-memory://the-infrastructure");
    // And it is deleted by the object's own name.
    world.api.delete::<InMemoryMachine>("the-infrastructure").await;
    world
        .api
        .eventually_gone::<InMemoryMachine>("the-infrastructure")
        .await;
    assert_eq!(
        world
            .cloud
            .observe_machine(&World::machine_id("demo", "the-infrastructure")),
        None
    );
    world.api.get::<Machine>("the-machine").await;
    world.stop().await;
}

const CLONED_FROM: [(&str, &str); 2] = [
    ("cluster.x-k8s.io/cloned-from-name", "template"),
    (
        "cluster.x-k8s.io/cloned-from-groupkind",
        "InMemoryMachineTemplate.infrastructure.cluster.x-k8s.io",
    ),
];

#[tokio::test(start_paused = true)]
async fn what_others_say_of_a_machine_stays_from_its_beginning_to_its_end() {
    let world = World::start(15_700);
    world.cluster("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    let machine = world.api.create(&objects::worker("demo", "w")).await;
    let mut object = objects::in_memory_machine(&machine);
    for (name, value) in CLONED_FROM {
        objects::annotate(&mut object, name, value);
    }
    objects::label(&mut object, "of-the-template", "first");
    object.metadata.finalizers = Some(vec!["example.com/hold".into()]);
    let first = world.api.create(&object).await;
    world.ready(&first).await;

    // Cluster API changes labels and annotations that it keeps in sync; a later write of ours does not restore the old
    // values.
    let in_step = json!({ "metadata": {
        "labels": { "of-the-template": "second", "added": "" }, "annotations": { "added": "too" },
    } });
    let changed = world.api.patch::<InMemoryMachine>("w", &in_step).await;
    world
        .api
        .patch::<InMemoryMachine>("w", &json!({ "metadata": { "labels": { "added": null } } }))
        .await;
    world.api.delete::<InMemoryMachine>("w").await;
    let last = world
        .api
        .eventually::<InMemoryMachine>("w", "to be let go by us", |object| {
            object.finalizers() == ["example.com/hold"]
        })
        .await;
    for version in history(&world, &first, &last).await {
        let annotations = version.annotations();
        for (name, value) in CLONED_FROM {
            assert_eq!(
                annotations.get(name).map(String::as_str),
                Some(value),
                "{version:?}"
            );
        }
        assert!(version.finalizers().contains(&"example.com/hold".to_owned()));
        assert_eq!(version.metadata.owner_references, first.metadata.owner_references);
    }
    let labels = last.labels();
    assert_eq!(labels.get("of-the-template").map(String::as_str), Some("second"));
    assert_eq!(
        (
            labels.get("added"),
            last.annotations().get("added").map(String::as_str)
        ),
        (None, Some("too"))
    );
    // Cluster API's test of rollouts compares annotations, so the provider adds none.
    let theirs = |name: &&String| CLONED_FROM.iter().any(|(known, _)| known == name) || *name == "added";
    let ours: Vec<_> = changed
        .annotations()
        .keys()
        .filter(|name| !theirs(name))
        .collect();
    assert_eq!(ours, [""; 0]);
    assert!(
        world
            .api
            .get::<InMemoryCluster>("demo")
            .await
            .annotations()
            .is_empty()
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_settled_machine_takes_what_is_kept_in_step_without_a_write() {
    let world = World::start(15_800);
    world.cluster("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    let machine = world.machine(&objects::worker("demo", "w")).await;
    world.bootstrap("w").await;
    world.ready(&machine).await;
    let _ = world.api.take_writes();
    let mut last = world.api.get::<InMemoryMachine>("w").await;
    for value in ["1", "2", "3"] {
        let in_step =
            json!({ "metadata": { "labels": { "in-step": value }, "annotations": { "in-step": value } } });
        last = world.api.patch::<InMemoryMachine>("w", &in_step).await;
    }
    // Another machine, created later, is up: so this one was reconciled.
    let later = world.machine(&objects::worker("demo", "later")).await;
    world.bootstrap("later").await;
    assert!(is_ready(&world.ready(&later).await));
    assert_eq!(
        world.writes("w"),
        [
            "patch inmemorymachines",
            "patch inmemorymachines",
            "patch inmemorymachines"
        ]
    );
    let now = world.api.get::<InMemoryMachine>("w").await;
    assert_eq!(now, last);
    assert_eq!(
        reason(&now.status.unwrap_or_default().conditions, types::READY),
        Some("Ready")
    );
    world.stop().await;
}

/// An extension of Cluster API carries out a change in place, and requests it from the machine in another way.
#[tokio::test(start_paused = true)]
async fn a_spec_that_changes_under_a_running_machine_changes_nothing_that_runs() {
    let world = World::start(15_900);
    world.cluster("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    let machine = world.machine(&objects::worker("demo", "w")).await;
    world.bootstrap("w").await;
    let before = world.ready(&machine).await;
    let observed = world
        .cloud
        .observe_machine(&World::machine_id("demo", "w"))
        .expect("it runs");

    let slower = json!({ "vm": { "provisioning": { "startupDuration": "1h" } } });
    let changed = json!({
        "metadata": { "annotations": { "in-place-updates.internal.cluster.x-k8s.io/update-in-progress": "" } },
        "spec": { "behaviour": slower, "instanceType": "large" },
    });
    world.api.patch::<InMemoryMachine>("w", &changed).await;
    // Another machine, created later, is up: so this one was reconciled.
    let later = world.machine(&objects::worker("demo", "later")).await;
    world.bootstrap("later").await;
    world.ready(&later).await;
    assert_eq!(
        world.cloud.observe_machine(&World::machine_id("demo", "w")),
        Some(observed)
    );
    let after = world.api.get::<InMemoryMachine>("w").await;
    let told = |machine: &InMemoryMachine| {
        let status = machine.status.clone().unwrap_or_default();
        let ready = conditions::is_true(&status.conditions, types::READY);
        (
            machine.spec.provider_id.clone(),
            status.addresses,
            status.initialization,
            ready,
        )
    };
    assert_eq!(told(&after), told(&before));
    assert_eq!(after.spec.instance_type, "large");
    world.stop().await;
}
