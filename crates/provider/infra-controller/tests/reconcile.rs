//! Both controllers against a management API in this process, with a real cloud. The test plays Cluster API core.

use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::Condition};
use kube::api::ListParams;
use nephele_api::{
    conditions::{self, reasons, types},
    core::{Bootstrap, Cluster, Machine},
    finalizers,
    infrastructure::v1beta2::{
        ControlPlaneEndpoint, InMemoryCluster, InMemoryClusterStatus, InMemoryMachine, InMemoryMachineSpec,
        InMemoryMachineStatus, Initialization, termination::TERMINATE_ANNOTATION,
    },
    labels,
};
use nephele_cloud::{Backend, Cloud, LoadBalancer, StageObservation};
use nephele_model::{Endpoint, Stage};
use nephele_testkit::objects::{self, Purpose};
use serde_json::{Value, json};

use crate::world::{Setup, World, is_ready, reason};

const PROVISIONED: Option<Initialization> = Some(Initialization {
    provisioned: Some(true),
});

#[tokio::test(start_paused = true)]
async fn a_cluster_with_a_control_plane_and_a_worker_comes_up() {
    let world = World::start(11_000);
    let object = world.cluster("demo").await;
    let endpoint = object.spec.control_plane_endpoint.clone();
    assert_eq!(
        endpoint,
        Some(ControlPlaneEndpoint {
            host: "127.0.0.1".into(),
            port: 11_000
        })
    );
    assert_eq!(
        object.metadata.finalizers,
        Some(vec![finalizers::CLUSTER.to_owned()])
    );

    world.authorities("demo").await;
    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    world.bootstrap("cp").await;
    let machine = world.ready(&machine).await;
    assert_eq!(machine.spec.provider_id, "in-memory://cp");
    let status = machine.status.clone().unwrap_or_default();
    assert_eq!(status.initialization, PROVISIONED);
    assert!(
        status
            .addresses
            .iter()
            .any(|address| address.kind == "InternalIP"),
        "{:?}",
        status.addresses
    );
    let observed = world
        .cloud
        .observe_cluster(&World::id("demo"))
        .expect("it is there");
    assert_eq!(
        (observed.backends, observed.machines, observed.authorities_set),
        (1, 1, true)
    );
    let balancer = world
        .cloud
        .describe_load_balancer(&World::id("demo"))
        .expect("it answers");
    let endpoint = Endpoint {
        host: "127.0.0.1".into(),
        port: 11_000,
    };
    let address = status
        .addresses
        .iter()
        .find(|address| address.kind == "InternalIP")
        .expect("one");
    let up = Backend {
        address: address.address.clone(),
        out_of_service: None,
    };
    assert_eq!(
        balancer,
        Some(LoadBalancer {
            endpoint,
            backends: [("cp".to_owned(), up)].into()
        })
    );

    let worker = world.machine(&objects::worker("demo", "w")).await;
    let waiting = world.waits(&worker, "WaitingForControlPlaneInitialized").await;
    assert_eq!(waiting.spec.provider_id, "");
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    world.waits(&worker, "WaitingForBootstrapData").await;
    world.bootstrap("w").await;
    let worker = world.ready(&worker).await;
    assert_eq!(worker.spec.provider_id, "in-memory://w");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_before_the_owner_is_there() {
    let world = World::start(11_100);
    let cluster = world.api.create(&objects::cluster("demo")).await;
    let mut orphan = objects::in_memory_cluster(&cluster);
    orphan.metadata.owner_references = None;
    let orphan = world.api.create(&orphan).await;
    let mut machine = objects::in_memory_machine(&objects::worker("demo", "w"));
    machine.metadata.owner_references = None;
    let machine = world.api.create(&machine).await;
    // Another cluster, created later, is provisioned: so both were reconciled.
    world.cluster("other").await;
    assert_eq!(world.api.get::<InMemoryCluster>("demo").await, orphan);
    assert_eq!(world.api.get::<InMemoryMachine>("w").await, machine);

    let mut owned = orphan.clone();
    objects::own(&mut owned, &cluster);
    let owners = json!({ "metadata": { "ownerReferences": owned.metadata.owner_references } });
    world.api.patch::<InMemoryCluster>("demo", &owners).await;
    world.provisioned("demo").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_another_version_that_is_no_controller_counts() {
    let world = World::start(11_200);
    let cluster = world.api.create(&objects::cluster("demo")).await;
    let mut object = objects::in_memory_cluster(&cluster);
    for owner in object.metadata.owner_references.iter_mut().flatten() {
        owner.api_version = "cluster.x-k8s.io/v1beta1".into();
        owner.controller = None;
    }
    world.api.create(&object).await;
    world.provisioned("demo").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_externally_managed_cluster_is_left_alone() {
    let world = World::start(11_300);
    let cluster = world.api.create(&objects::cluster("demo")).await;
    let mut object = objects::in_memory_cluster(&cluster);
    objects::annotate(&mut object, nephele_controller::MANAGED_BY_ANNOTATION, "");
    let object = world.api.create(&object).await;
    world.cluster("other").await;
    assert_eq!(world.api.get::<InMemoryCluster>("demo").await, object);
    assert_eq!(world.cloud.observe_cluster(&World::id("demo")), None);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_the_user_chose_is_kept() {
    let world = World::start(11_400);
    let mut cluster = objects::cluster("demo");
    cluster.spec.control_plane_endpoint = Some(nephele_api::core::Endpoint {
        host: "lb.example".into(),
        port: 11_450,
    });
    let cluster = world.api.create(&cluster).await;
    world.api.create(&objects::in_memory_cluster(&cluster)).await;
    let object = world.provisioned("demo").await;
    let expected = ControlPlaneEndpoint {
        host: "lb.example".into(),
        port: 11_450,
    };
    assert_eq!(object.spec.control_plane_endpoint, Some(expected));
    world.stop().await;
}

/// The message of a condition of an InMemoryCluster that is false for want of its port.
async fn told(world: &World, name: &str) -> String {
    let of = |object: &InMemoryCluster| {
        let status = object.status.clone().unwrap_or_default();
        let balancer = conditions::find(&status.conditions, types::LOAD_BALANCER_AVAILABLE).cloned();
        balancer
            .filter(|balancer| balancer.reason == "PortUnavailable")
            .map(|balancer| balancer.message)
    };
    let object = world
        .api
        .eventually(name, "to be told of its port", |object| of(object).is_some())
        .await;
    of(&object).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_port_that_two_users_choose_is_told_with_its_field_and_a_cluster_gets_another() {
    let world = World::start(17_600);
    let own = |host: &str| {
        Some(ControlPlaneEndpoint {
            host: host.into(),
            port: 17_650,
        })
    };
    for (name, endpoint) in [
        ("first", own("a.example")),
        ("second", own("b.example")),
        ("third", None),
    ] {
        let mut cluster = objects::cluster(name);
        if endpoint.is_none() {
            let endpoint = nephele_api::core::Endpoint {
                host: "c.example".into(),
                port: 17_650,
            };
            cluster.spec.control_plane_endpoint = Some(endpoint);
        }
        let cluster = world.api.create(&cluster).await;
        let mut object = objects::in_memory_cluster(&cluster);
        object.spec.control_plane_endpoint = endpoint;
        world.api.create(&object).await;
        if name == "first" {
            world.provisioned(name).await;
        }
    }
    let taken = "failed to listen on port 17650: it belongs to cluster default/first; spec.controlPlaneEndpoint.port of";
    assert_eq!(
        told(&world, "second").await,
        format!(
            "{taken} the InMemoryCluster asks for it and cannot change: make the cluster again with another port, or \
             without one"
        )
    );
    assert_eq!(
        told(&world, "third").await,
        format!("{taken} the Cluster asks for it: choose another port, or leave it out")
    );
    // The spec of the Cluster is the user's: it can be corrected.
    let without = json!({ "spec": { "controlPlaneEndpoint": { "host": "c.example", "port": 0 } } });
    world.api.patch::<Cluster>("third", &without).await;
    let third = world.provisioned("third").await;
    let expected = ControlPlaneEndpoint {
        host: "c.example".into(),
        port: 17_600,
    };
    assert_eq!(third.spec.control_plane_endpoint, Some(expected));
    // And one that is made again gets its own port, although the port that it asked for is free by then.
    for name in ["first", "second"] {
        world.api.delete::<InMemoryCluster>(name).await;
        world.api.eventually_gone::<InMemoryCluster>(name).await;
    }
    world
        .api
        .create(&objects::in_memory_cluster(&world.api.get("second").await))
        .await;
    let second = world.provisioned("second").await;
    let expected = ControlPlaneEndpoint {
        host: "127.0.0.1".into(),
        port: 17_601,
    };
    assert_eq!(second.spec.control_plane_endpoint, Some(expected));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_host_without_a_port_and_a_port_without_a_host_are_completed() {
    let world = World::start(17_700);
    for (name, host, port, expected) in [
        ("hosted", "a.example", 0, ("a.example", 17_700)),
        ("ported", "", 17_750, ("127.0.0.1", 17_750)),
    ] {
        let cluster = world.api.create(&objects::cluster(name)).await;
        let mut object = objects::in_memory_cluster(&cluster);
        object.spec.control_plane_endpoint = Some(ControlPlaneEndpoint {
            host: host.into(),
            port,
        });
        world.api.create(&object).await;
        let object = world.provisioned(name).await;
        let expected = ControlPlaneEndpoint {
            host: expected.0.into(),
            port: expected.1,
        };
        assert_eq!(object.spec.control_plane_endpoint, Some(expected));
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_endpoint_is_there_when_the_flag_is() {
    let world = World::start(11_500);
    let cluster = world.api.create(&objects::cluster("demo")).await;
    world.api.create(&objects::in_memory_cluster(&cluster)).await;
    let seen = world
        .api
        .eventually::<InMemoryCluster>("demo", "to be provisioned", InMemoryCluster::is_provisioned)
        .await;
    assert!(seen.spec.control_plane_endpoint.is_some());
    let writes: Vec<_> = world.writes("demo");
    assert_eq!(
        writes[writes.len() - 2..],
        [
            "patch inmemoryclusters".to_owned(),
            "patch inmemoryclusters/status".to_owned()
        ]
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_gate_holds_a_machine_and_says_so() {
    let world = World::start(11_600);
    let cluster = world.api.create(&objects::cluster("demo")).await;
    world.api.create(&objects::in_memory_cluster(&cluster)).await;
    world.provisioned("demo").await;
    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    world
        .waits(&machine, "WaitingForClusterInfrastructureReady")
        .await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(false)))
        .await;
    world.waits(&machine, "WaitingForBootstrapData").await;
    world.bootstrap("cp").await;
    world.waits(&machine, "WaitingForCertificateAuthorities").await;
    world.authorities("demo").await;
    world.ready(&machine).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_machine_has_any_name_that_cluster_api_allows() {
    let world = World::start(11_700);
    world.cluster("demo").await;
    world.authorities("demo").await;
    let name = "x".repeat(63);
    let machine = world.machine(&objects::control_plane("demo", &name)).await;
    world.bootstrap(&name).await;
    let machine = world.ready(&machine).await;
    assert_eq!(machine.spec.provider_id, format!("in-memory://{name}"));
    let observed = world
        .cloud
        .observe_cluster(&World::id("demo"))
        .expect("it is there");
    let [member] = observed.etcd_members.as_slice() else {
        panic!("{:?}", observed.etcd_members)
    };
    assert!(member.len() <= 58 && member.starts_with("xxxx"), "{member}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_authority_is_told_on_the_cluster_and_on_those_who_wait_for_it() {
    let world = World::start(11_800);
    world.cluster("demo").await;
    world
        .api
        .create(&objects::secret("demo", Purpose::Cluster, b"garbage", b"garbage"))
        .await;
    let object = world
        .api
        .eventually::<InMemoryCluster>("demo", "to say so", |object| {
            let status = object.status.clone().unwrap_or_default();
            reason(&status.conditions, types::CERTIFICATE_AUTHORITIES_AVAILABLE)
                == Some("InvalidCertificateAuthority")
        })
        .await;
    let status = object.status.unwrap_or_default();
    assert_eq!(reason(&status.conditions, types::READY), Some("NotReady"));
    assert_eq!(status.initialization, PROVISIONED);
    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    world.bootstrap("cp").await;
    let waiting = world.waits(&machine, "InvalidCertificateAuthority").await;
    let status = waiting.status.unwrap_or_default();
    let message = &conditions::find(&status.conditions, types::VM_PROVISIONED)
        .expect("a condition")
        .message;
    assert!(
        message.starts_with("Secret demo-ca holds no usable certificate authority"),
        "{message}"
    );

    // With the Secret corrected, everything continues.
    let good = objects::authority_secret("demo", Purpose::Cluster);
    let name = Purpose::Cluster.secret_name("demo");
    world
        .api
        .patch::<Secret>(&name, &json!({ "data": good.data }))
        .await;
    world.ready(&machine).await;
    world
        .api
        .eventually::<InMemoryCluster>("demo", "to be ready again", |object| {
            let status = object.status.clone().unwrap_or_default();
            conditions::is_true(&status.conditions, types::READY)
        })
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn authorities_that_a_user_brings_without_label_or_type_are_found() {
    let world = World::start(11_900);
    for purpose in [Purpose::Cluster, Purpose::Etcd] {
        let mut secret = objects::authority_secret("demo", purpose);
        secret.metadata.labels = None;
        secret.type_ = Some("kubernetes.io/tls".into());
        world.api.create(&secret).await;
    }
    world.cluster("demo").await;
    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    world.bootstrap("cp").await;
    world.ready(&machine).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_told_first_and_holds_even_deletion() {
    let world = World::start(12_000);
    world.cluster("demo").await;
    world.authorities("demo").await;
    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    world.bootstrap("cp").await;
    let machine = world.ready(&machine).await;
    world
        .api
        .patch::<Cluster>("demo", &json!({ "spec": { "paused": true } }))
        .await;
    let message = "Cluster spec.paused is set to true";
    world.paused("cp", message).await;
    world
        .api
        .eventually::<InMemoryCluster>("demo", "to be paused", |object| {
            let status = object.status.clone().unwrap_or_default();
            conditions::is_true(&status.conditions, types::PAUSED)
        })
        .await;

    world.api.delete::<InMemoryMachine>("cp").await;
    // The annotation changes the message: so the object was reconciled after the deletion request.
    let annotation = json!({ "metadata": { "annotations": { "cluster.x-k8s.io/paused": "" } } });
    world.api.patch::<InMemoryMachine>("cp", &annotation).await;
    let held = world
        .paused(
            "cp",
            &format!("{message}, InMemoryMachine has the cluster.x-k8s.io/paused annotation"),
        )
        .await;
    assert!(held.metadata.deletion_timestamp.is_some());
    assert_eq!(held.metadata.finalizers, machine.metadata.finalizers);
    assert!(
        world
            .cloud
            .observe_machine(&World::machine_id("demo", "cp"))
            .is_some()
    );

    let none = json!({ "metadata": { "annotations": { "cluster.x-k8s.io/paused": null } } });
    world.api.patch::<InMemoryMachine>("cp", &none).await;
    world.paused("cp", message).await;
    world
        .api
        .patch::<Cluster>("demo", &json!({ "spec": { "paused": false } }))
        .await;
    world.api.eventually_gone::<InMemoryMachine>("cp").await;
    world
        .api
        .eventually::<InMemoryCluster>("demo", "to continue", |object| {
            let status = object.status.clone().unwrap_or_default();
            reason(&status.conditions, types::PAUSED) == Some("NotPaused")
        })
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deletion_takes_the_machines_then_the_cluster_and_frees_the_port() {
    let world = World::start(12_100);
    world.cluster("demo").await;
    world.authorities("demo").await;
    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    world.bootstrap("cp").await;
    world.ready(&machine).await;
    world.api.delete::<InMemoryMachine>("cp").await;
    world.api.eventually_gone::<InMemoryMachine>("cp").await;
    assert_eq!(
        world.cloud.observe_machine(&World::machine_id("demo", "cp")),
        None
    );
    assert_eq!(
        world
            .cloud
            .observe_cluster(&World::id("demo"))
            .map(|seen| seen.backends),
        Some(0)
    );
    let balancer = || {
        world
            .cloud
            .describe_load_balancer(&World::id("demo"))
            .expect("it answers")
    };
    assert_eq!(balancer().map(|balancer| balancer.backends), Some([].into()));
    world.api.delete::<InMemoryCluster>("demo").await;
    world.api.eventually_gone::<InMemoryCluster>("demo").await;
    assert_eq!(
        (world.cloud.observe_cluster(&World::id("demo")), balancer()),
        (None, None)
    );
    // Its port waits for a cluster of its name.
    world.api.delete::<Cluster>("demo").await;
    for (name, expected) in [("other", 12_101), ("demo", 12_100)] {
        let cluster = world.cluster(name).await;
        let endpoint = cluster.spec.control_plane_endpoint;
        assert_eq!(endpoint.map(|endpoint| endpoint.port), Some(expected), "{name}");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deletion_does_not_wait_for_gates_or_owners() {
    let world = World::start(12_200);
    world.cluster("demo").await;
    let gated = world.machine(&objects::control_plane("demo", "gated")).await;
    world.waits(&gated, "WaitingForBootstrapData").await;
    world.api.delete::<InMemoryMachine>("gated").await;
    world.api.eventually_gone::<InMemoryMachine>("gated").await;

    let lost = world.machine(&objects::control_plane("demo", "lost")).await;
    world.waits(&lost, "WaitingForBootstrapData").await;
    world
        .api
        .patch::<InMemoryMachine>("lost", &json!({ "metadata": { "ownerReferences": null } }))
        .await;
    world.api.delete::<InMemoryMachine>("lost").await;
    world.api.eventually_gone::<InMemoryMachine>("lost").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_everything_is_as_it_was() {
    let world = World::start(12_300);
    world.cluster("demo").await;
    world.authorities("demo").await;
    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    world.bootstrap("cp").await;
    let machine = world.ready(&machine).await;
    let seen = world
        .cloud
        .observe_machine(&World::machine_id("demo", "cp"))
        .expect("it is there");
    let cluster = world.served_cluster("demo").await;

    let world = world.restart().await;
    world
        .until("the machine is taken over", |cloud| {
            let seen = cloud.observe_cluster(&World::id("demo"));
            seen.is_some_and(|seen| seen.backends == 1 && seen.authorities_set)
        })
        .await;
    let again = world
        .cloud
        .observe_machine(&World::machine_id("demo", "cp"))
        .expect("it is there");
    assert_eq!(
        (&again.allocation, &again.provider_id, &again.zone),
        (&seen.allocation, &seen.provider_id, &seen.zone)
    );
    for stage in Stage::ALL {
        assert!(
            matches!(again.stages[&stage], StageObservation::Reached { .. }),
            "{stage:?}"
        );
    }
    // Nothing was written for it. A cluster created afterwards is up, so everything before it was reconciled.
    world.cluster("other").await;
    assert_eq!(world.api.get::<InMemoryMachine>("cp").await, machine);
    assert_eq!(world.api.get::<InMemoryCluster>("demo").await, cluster);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_settled_world_is_not_written_to() {
    let world = World::start(12_400);
    world.cluster("demo").await;
    world.authorities("demo").await;
    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    world.bootstrap("cp").await;
    let machine = world.ready(&machine).await;
    let cluster = world.served_cluster("demo").await;
    let _ = world.api.take_writes();
    // Each of these patches triggers both controllers.
    for value in ["1", "2", "3"] {
        let touch = json!({ "metadata": { "annotations": { "touched": value } } });
        world.api.patch::<Cluster>("demo", &touch).await;
        world.api.patch::<Machine>("cp", &touch).await;
    }
    world.cluster("other").await;
    assert_eq!(world.writes("demo"), ["patch clusters"; 3]);
    assert_eq!(world.api.get::<InMemoryMachine>("cp").await, machine);
    assert_eq!(world.api.get::<InMemoryCluster>("demo").await, cluster);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_delays_is_up_after_five_writes() {
    let world = World::start(12_500);
    world.cluster("demo").await;
    world.authorities("demo").await;
    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    world.waits(&machine, "WaitingForBootstrapData").await;
    world.bootstrap("cp").await;
    world.ready(&machine).await;
    let writes = world.writes("cp");
    let ours: Vec<_> = writes
        .iter()
        .filter(|write| write.contains("inmemorymachines"))
        .collect();
    assert!(ours.len() <= 5, "{ours:?}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_was_taken_away_is_restored() {
    let world = World::start(12_600);
    world.cluster("demo").await;
    world
        .api
        .patch::<InMemoryCluster>("demo", &json!({ "metadata": { "finalizers": null } }))
        .await;
    world
        .api
        .eventually::<InMemoryCluster>("demo", "to have its finalizer", |object| {
            object.metadata.finalizers.as_deref() == Some(&[finalizers::CLUSTER.to_owned()])
        })
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_was_terminated_is_told_by_conditions_and_stays_gone() {
    let world = World::start(16_700);
    world.cluster("demo").await;
    world.authorities("demo").await;
    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    world.bootstrap("cp").await;
    let up = world.ready(&machine).await;
    let id = World::machine_id("demo", "cp");
    let asked = |value: Value| json!({ "metadata": { "annotations": { TERMINATE_ANNOTATION: value } } });
    world.api.patch::<InMemoryMachine>("cp", &asked(json!(""))).await;
    world.waits(&machine, "InstanceTerminated").await;
    // The end of the instance is written down after the condition.
    let is_told = |machine: &InMemoryMachine| {
        let told = machine.status.iter().flat_map(|status| &status.conditions);
        let generation = machine.metadata.generation;
        machine.termination().is_some() && told.map(|one| one.observed_generation).all(|of| of == generation)
    };
    let gone = world.api.eventually("cp", "to be told in whole", is_told).await;
    assert_eq!(world.cloud.observe_machine(&id), None);
    let before = up.status.clone().unwrap_or_default();
    let after = gone.status.clone().unwrap_or_default();
    let told: Vec<_> = after
        .conditions
        .iter()
        .map(|is| (is.type_.as_str(), is.status.as_str()))
        .collect();
    let unmet = [
        "VMProvisioned",
        "NodeProvisioned",
        "EtcdProvisioned",
        "APIServerProvisioned",
        "Ready",
    ];
    let expected: Vec<_> = ["Paused"]
        .into_iter()
        .chain(unmet)
        .map(|kind| (kind, "False"))
        .collect();
    assert_eq!(told, expected);
    let ready = conditions::find(&after.conditions, types::READY).expect("it is there");
    let message = "VMProvisioned: The simulated instance was terminated and stays gone";
    assert_eq!(
        (ready.reason.as_str(), ready.message.as_str()),
        ("NotReady", message)
    );
    // The rest of the object is unchanged, and the machine still counts as provisioned.
    let but_for_that = |object: &InMemoryMachine| InMemoryMachineSpec {
        instance: None,
        ..object.spec.clone()
    };
    assert_eq!(but_for_that(&gone), but_for_that(&up));
    assert!(gone.termination().is_some());
    assert_eq!(
        InMemoryMachineStatus {
            conditions: before.conditions.clone(),
            ..after
        },
        before
    );

    // Not even when the annotation is removed.
    world
        .api
        .patch::<InMemoryMachine>("cp", &asked(Value::Null))
        .await;
    let world = world.restart().await;
    let worker = world.machine(&objects::worker("demo", "w")).await;
    world.waits(&worker, "WaitingForControlPlaneInitialized").await;
    world
        .until("the cluster is taken over", |cloud| {
            cloud.observe_cluster(&World::id("demo")).is_some()
        })
        .await;
    // The annotation triggers a reconcile, and the test waits for it.
    let touch = json!({ "metadata": { "annotations": { "touched": "" } } });
    world.api.patch::<InMemoryMachine>("cp", &touch).await;
    world.cluster("other").await;
    assert_eq!(world.api.get::<InMemoryMachine>("cp").await.status, gone.status);
    assert_eq!(world.cloud.observe_machine(&id), None);
    world.api.delete::<InMemoryMachine>("cp").await;
    world.api.eventually_gone::<InMemoryMachine>("cp").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn machines_beyond_the_limit_of_their_namespace_wait_for_room_and_those_that_are_there_stay() {
    let world = World::start_with(Setup {
        machines_max: Some(2),
        ..Setup::at(16_800)
    });
    world.cluster("demo").await;
    world.cluster("other").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    world
        .api
        .patch_status::<Cluster>("other", &json!(objects::provisioned(true)))
        .await;
    let mut machines = Vec::new();
    for (cluster, name) in [("demo", "a"), ("other", "b"), ("demo", "c"), ("demo", "d")] {
        let machine = world.machine(&objects::worker(cluster, name)).await;
        world.bootstrap(name).await;
        if ["a", "b"].contains(&name) {
            world.ready(&machine).await;
        } else {
            world.waits(&machine, reasons::QUOTA_EXCEEDED).await;
        }
        machines.push(machine);
    }
    let waiting = world.api.get::<InMemoryMachine>("c").await;
    let conditions = waiting.status.clone().unwrap_or_default().conditions;
    let ready = conditions::find(&conditions, types::READY).expect("it has the condition Ready");
    assert_eq!(
        (ready.status.as_str(), ready.message.as_str()),
        (
            "False",
            "VMProvisioned: the cloud refused CreateInstance: quota of 2 instances is used up"
        )
    );
    let is_there = |cloud: &Cloud, cluster: &str, name: &str| {
        cloud.observe_machine(&World::machine_id(cluster, name)).is_some()
    };
    // No machine retries on a timer: the deletion of one machine wakes the one that waited longest, and no other.
    world.api.delete::<InMemoryMachine>("a").await;
    world.ready(&machines[2]).await;
    assert!(!is_there(&world.cloud, "demo", "d"));
    // A lower quota removes no machine.
    let setup = Setup {
        machines_max: Some(1),
        ..Setup::at(16_800)
    };
    let world = world.restart_with(setup).await;
    world
        .until("both are taken over", |cloud| {
            is_there(cloud, "demo", "c") && is_there(cloud, "other", "b")
        })
        .await;
    assert!(!is_there(&world.cloud, "demo", "d"));
    for name in ["b", "c"] {
        world.api.delete::<InMemoryMachine>(name).await;
        world.api.eventually_gone::<InMemoryMachine>(name).await;
    }
    world.ready(&machines[3]).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_filter_leaves_what_is_not_labelled() {
    let world = World::start_with(Setup {
        watch_filter: Some("mine".into()),
        ..Setup::at(12_700)
    });
    let cluster = world.api.create(&objects::cluster("demo")).await;
    let foreign = world.api.create(&objects::in_memory_cluster(&cluster)).await;
    let cluster = world.api.create(&objects::cluster("mine")).await;
    let mut object = objects::in_memory_cluster(&cluster);
    objects::label(&mut object, nephele_controller::WATCH_FILTER_LABEL, "mine");
    world.api.create(&object).await;
    world.provisioned("mine").await;
    assert_eq!(world.api.get::<InMemoryCluster>("demo").await, foreign);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn delays_are_waited_for_stage_by_stage() {
    let world = World::start(12_800);
    world.cluster("demo").await;
    world.authorities("demo").await;
    let machine = objects::control_plane("demo", "cp");
    let mut object = objects::in_memory_machine(&machine);
    object.spec = objects::starting_in("150ms");
    let machine = world.api.create(&machine).await;
    objects::own(&mut object, &machine);
    object
        .metadata
        .owner_references
        .as_mut()
        .map(|owners| owners.remove(0));
    let object = world.api.create(&object).await;
    assert!(!is_ready(&object));
    let booting = world.waits(&object, "WaitingForStartupTimeout").await;
    assert_eq!(booting.spec.provider_id, "");
    let ready = world.ready(&object).await;
    let list = ready.status.unwrap_or_default().conditions;
    let since = |kind| conditions::true_since(&list, kind).expect("it holds");
    assert!(since(types::VM_PROVISIONED) <= since(types::NODE_PROVISIONED));
    assert!(since(types::NODE_PROVISIONED) <= since(types::API_SERVER_PROVISIONED));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_of_a_pool_has_an_empty_bootstrap_name_and_boots() {
    let world = World::start(12_900);
    world.cluster("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    let mut machine = objects::worker("demo", "w");
    machine.spec.bootstrap = Some(Bootstrap {
        config_ref: None,
        data_secret_name: Some(String::new()),
    });
    let machine = world.api.create(&machine).await;
    let object = world.api.create(&objects::in_memory_machine(&machine)).await;
    assert_eq!(
        labels::value(&object.metadata, labels::CLUSTER_NAME),
        Some("demo")
    );
    world.ready(&object).await;
    world.stop().await;
}

/// The kubeconfig in a Secret, as JSON.
fn kubeconfig(secret: &Secret) -> serde_json::Value {
    let text = &secret.data.as_ref().expect("a kubeconfig has data")["value"].0;
    serde_json::from_slice(text).expect("JSON")
}

#[tokio::test(start_paused = true)]
async fn a_kubeadm_cluster_has_a_kubeconfig_for_its_endpoint_when_it_is_provisioned() {
    let world = World::start(13_000);
    world.kubeadm_cluster("demo").await;
    world.provisioned("demo").await;
    let config = kubeconfig(&world.api.get::<Secret>("demo-kubeconfig").await);
    assert_eq!(
        config["clusters"][0]["cluster"]["server"],
        "https://127.0.0.1:13000"
    );
    world
        .until("its authorities are in use", |cloud| {
            cloud
                .observe_cluster(&World::id("demo"))
                .is_some_and(|seen| seen.authorities_set)
        })
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_authority_whose_key_is_elsewhere_is_told_by_the_cluster_and_its_machines() {
    let world = World::start(18_700);
    let mut external = objects::authority_secret("demo", Purpose::Cluster);
    let whole = external.data.clone();
    external.data.as_mut().expect("data").remove("tls.key");
    world.api.create(&external).await;
    world.cluster("demo").await;
    world
        .api
        .create(&objects::authority_secret("demo", Purpose::Etcd))
        .await;
    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    world.bootstrap("cp").await;
    let machine = world.waits(&machine, "InvalidCertificateAuthority").await;
    let expected = "Secret demo-ca has no tls.key: a certificate authority whose key is elsewhere cannot be used, because \
                    the simulated API servers need certificates of it";
    let is_told = |list: &[Condition], kind: &str| {
        conditions::find(list, kind).is_some_and(|condition| condition.message == expected)
    };
    let status = machine.status.clone().unwrap_or_default();
    assert!(is_told(&status.conditions, types::VM_PROVISIONED), "{status:?}");
    world
        .api
        .eventually::<InMemoryCluster>("demo", expected, |object| {
            let status = object.status.clone().unwrap_or_default();
            is_told(&status.conditions, types::CERTIFICATE_AUTHORITIES_AVAILABLE)
        })
        .await;
    world
        .api
        .patch::<Secret>("demo-ca", &json!({ "data": whole }))
        .await;
    world.ready(&machine).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_made_of_an_external_etcd() {
    let world = World::start(18_800);
    let external = json!({ "etcd": { "external": { "endpoints": ["https://etcd.example:2379"] } } });
    world.configured_cluster("demo", external).await;
    world.provisioned("demo").await;
    let secrets = world
        .api
        .api::<Secret>()
        .list(&ListParams::default())
        .await
        .expect("it answers");
    let mut names: Vec<_> = secrets
        .items
        .iter()
        .filter_map(|secret| secret.metadata.name.clone())
        .collect();
    names.sort();
    assert_eq!(names, ["demo-ca", "demo-kubeconfig", "demo-proxy"]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn credentials_are_completed_around_those_that_are_there() {
    let world = World::start(13_100);
    // An authority of a user, who need not label it, and a Secret that an earlier manager created before it stopped.
    let mut authority = objects::authority_secret("demo", Purpose::Cluster);
    authority.metadata.labels = None;
    let authority = world.api.create(&authority).await;
    let proxy = Secret {
        data: None,
        ..objects::authority_secret("demo", Purpose::Etcd)
    };
    let proxy = Secret {
        metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            name: Some("demo-proxy".into()),
            ..proxy.metadata
        },
        ..proxy
    };
    let proxy = world.api.create(&proxy).await;
    world.kubeadm_cluster("demo").await;
    world.provisioned("demo").await;
    assert_eq!(world.api.get::<Secret>("demo-ca").await, authority);
    assert_eq!(world.api.get::<Secret>("demo-proxy").await, proxy);
    assert!(
        world
            .api
            .get::<Secret>("demo-etcd")
            .await
            .data
            .is_some_and(|data| data.contains_key("tls.key"))
    );
    let config = kubeconfig(&world.api.get::<Secret>("demo-kubeconfig").await);
    let expected = json!(authority.data.expect("an authority has data")["tls.crt"]);
    assert_eq!(
        config["clusters"][0]["cluster"]["certificate-authority-data"],
        expected
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_authority_that_cannot_sign_gets_no_kubeconfig() {
    let world = World::start(13_200);
    let authority = objects::secret("demo", Purpose::Cluster, b"garbage", b"garbage");
    world.api.create(&authority).await;
    world.kubeadm_cluster("demo").await;
    world.provisioned("demo").await;
    let names = world
        .api
        .api::<Secret>()
        .list(&ListParams::default())
        .await
        .expect("a list");
    let names: Vec<_> = names.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(names, ["demo-ca", "demo-etcd", "demo-proxy"]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn credentials_are_left_to_the_control_plane_provider_when_so_told() {
    let world = World::start_with(Setup {
        prepare_credentials: false,
        ..Setup::at(13_300)
    });
    world.kubeadm_cluster("demo").await;
    world.provisioned("demo").await;
    let secrets = world
        .api
        .api::<Secret>()
        .list(&ListParams::default())
        .await
        .expect("a list");
    assert_eq!(secrets.items, []);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_boots_is_due_when_it_was_after_a_restart() {
    let world = World::start(13_400);
    world.cluster("demo").await;
    world.authorities("demo").await;
    let machine = world.api.create(&objects::control_plane("demo", "cp")).await;
    let mut object = objects::in_memory_machine(&machine);
    object.spec = objects::starting_in("10m");
    let object = world.api.create(&object).await;
    let booting = world.waits(&object, "WaitingForStartupTimeout").await;
    let id = World::machine_id("demo", "cp");
    let before = world.cloud.observe_machine(&id).expect("it is there").stages;
    assert!(
        matches!(before[&Stage::Vm], StageObservation::Waiting { .. }),
        "{before:?}"
    );

    let world = world.restart().await;
    world
        .until("the machine is taken over", |cloud| {
            cloud.observe_machine(&id).is_some()
        })
        .await;
    assert_eq!(
        world.cloud.observe_machine(&id).expect("it is there").stages,
        before
    );
    world.cluster("other").await;
    assert_eq!(world.api.get::<InMemoryMachine>("cp").await, booting);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn machines_of_an_externally_managed_cluster_work_and_the_cluster_is_not_touched() {
    let world = World::start(13_500);
    let cluster = world.api.create(&objects::cluster("demo")).await;
    let mut object = objects::in_memory_cluster(&cluster);
    objects::annotate(&mut object, nephele_controller::MANAGED_BY_ANNOTATION, "someone");
    object.spec.control_plane_endpoint = Some(ControlPlaneEndpoint {
        host: "lb.example".into(),
        port: 13_550,
    });
    object.status = Some(InMemoryClusterStatus {
        initialization: PROVISIONED,
        ..InMemoryClusterStatus::default()
    });
    let object = world.api.create(&object).await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(false)))
        .await;
    world.authorities("demo").await;
    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    world.bootstrap("cp").await;
    world.ready(&machine).await;
    let seen = world.cloud.observe_cluster(&World::id("demo")).expect("it runs");
    assert_eq!(
        (seen.endpoint.to_string().as_str(), seen.backends),
        ("lb.example:13550", 1)
    );
    assert_eq!(world.api.get::<InMemoryCluster>("demo").await, object);

    // It has no finalizer, so it is deleted at once; its simulated cluster is deleted with its Cluster.
    world.api.delete::<InMemoryMachine>("cp").await;
    world.api.eventually_gone::<InMemoryMachine>("cp").await;
    world.api.delete::<InMemoryCluster>("demo").await;
    world.api.eventually_gone::<InMemoryCluster>("demo").await;
    world.api.delete::<Cluster>("demo").await;
    world
        .until("the port is free", |cloud| {
            cloud.observe_cluster(&World::id("demo")).is_none()
        })
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_published_endpoint_survives_another_advertised_host_and_says_so() {
    let world = World::start(13_600);
    let object = world.cluster("demo").await;
    let endpoint = object.spec.control_plane_endpoint.clone();
    let elsewhere = Setup {
        advertise_host: "nephele.example",
        ..Setup::at(13_600)
    };
    let world = world.restart_with(elsewhere).await;
    let message = "Published under 127.0.0.1, which cannot change and has to lead to the manager; the manager advertises \
                   nephele.example";
    let told = world
        .api
        .eventually::<InMemoryCluster>("demo", message, |object| {
            let status = object.status.clone().unwrap_or_default();
            let balancer = conditions::find(&status.conditions, types::LOAD_BALANCER_AVAILABLE);
            balancer.is_some_and(|balancer| balancer.message == message)
        })
        .await;
    assert_eq!(told.spec.control_plane_endpoint, endpoint);
    // Only once: another reconcile writes nothing.
    world
        .api
        .patch::<Cluster>(
            "demo",
            &json!({ "metadata": { "annotations": { "touched": "1" } } }),
        )
        .await;
    let other = world.cluster("other").await;
    assert_eq!(
        other
            .spec
            .control_plane_endpoint
            .map(|endpoint| endpoint.host)
            .as_deref(),
        Some("nephele.example")
    );
    assert_eq!(world.api.get::<InMemoryCluster>("demo").await, told);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_etcd_member_that_was_removed_stays_away_over_a_restart() {
    let world = World::start(13_700);
    world.cluster("demo").await;
    world.authorities("demo").await;
    for name in ["cp-1", "cp-2"] {
        let mut machine = objects::control_plane("demo", name);
        // The control plane provider removed its hook from the Machine that is being deleted.
        machine.metadata.finalizers = Some(vec!["machine.cluster.x-k8s.io".into()]);
        let object = world.machine(&machine).await;
        world.bootstrap(name).await;
        world.ready(&object).await;
    }
    world.api.delete::<Machine>("cp-2").await;
    let world = world.restart().await;
    world
        .until("both are taken over", |cloud| {
            cloud
                .observe_cluster(&World::id("demo"))
                .is_some_and(|seen| seen.backends == 2)
        })
        .await;
    let seen = world.cloud.observe_cluster(&World::id("demo")).expect("it runs");
    assert_eq!(seen.etcd_members, ["cp-1"]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_runs_behind_paused_objects_keeps_running_and_nothing_is_written_of_it() {
    let world = World::start(18_400);
    world.cluster("demo").await;
    world.authorities("demo").await;
    let machine = world.api.create(&objects::control_plane("demo", "cp")).await;
    let mut slow = objects::in_memory_machine(&machine);
    slow.spec = objects::starting_in("500ms");
    let slow = world.api.create(&slow).await;
    world.waits(&slow, "WaitingForStartupTimeout").await;
    world
        .api
        .patch::<Cluster>("demo", &json!({ "spec": { "paused": true } }))
        .await;
    let message = "Cluster spec.paused is set to true";
    let paused = world.paused("cp", message).await;
    world.paused_cluster("demo", message).await;
    let _ = world.api.take_writes();

    world
        .until("the machine is up", |cloud| {
            cloud
                .observe_cluster(&World::id("demo"))
                .is_some_and(|seen| seen.backends == 1)
        })
        .await;
    // When another cluster is up, all reconciles that this triggered are done.
    world.cluster("other").await;
    let names = ["demo", "cp"];
    let written: Vec<_> = world
        .api
        .take_writes()
        .into_iter()
        .filter(|write| names.contains(&write.name.as_str()))
        .collect();
    assert_eq!(
        written.len(),
        0,
        "{:?}",
        written.iter().map(|write| &write.resource).collect::<Vec<_>>()
    );
    assert_eq!(world.api.get::<InMemoryMachine>("cp").await, paused);

    world
        .api
        .patch::<Cluster>("demo", &json!({ "spec": { "paused": false } }))
        .await;
    world.ready(&slow).await;
    world.stop().await;
}
