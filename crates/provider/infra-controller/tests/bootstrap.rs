//! What the bootstrap data of machines say is what their cluster shows, also after the Secrets are gone and the process began
//! again.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::api::{Api, DeleteParams, ObjectMeta};
use nephele_api::{core::Cluster, infrastructure::v1beta2::InMemoryMachine};
use nephele_testkit::objects::{self, NAMESPACE};
use serde_json::{Value, json};

use crate::world::World;

/// As Cluster API's kubeadm bootstrap provider writes it.
pub(crate) fn cloud_config(path: &str, documents: &str) -> String {
    let indented = documents.replace('\n', "\n      ");
    format!(
        "## template: jinja\n#cloud-config\nwrite_files:\n-   path: {path}\n    content: |\n      {indented}\n"
    )
}

/// The Secret of this name with bootstrap data.
pub(crate) async fn give(world: &World, name: &str, data: &str) {
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.into()),
            namespace: Some(NAMESPACE.into()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(
            "value".to_owned(),
            ByteString(data.as_bytes().to_vec()),
        )])),
        ..Secret::default()
    };
    world.api.create(&secret).await;
}

/// Gives a Machine its bootstrap data.
async fn boot(world: &World, machine: &str, data: &str) {
    give(world, &format!("{machine}-bootstrap"), data).await;
    world.bootstrap(machine).await;
}

async fn take(world: &World, machine: &str) {
    let secrets: Api<Secret> = Api::namespaced(world.api.client(), NAMESPACE);
    let name = format!("{machine}-bootstrap");
    secrets
        .delete(&name, &DeleteParams::default())
        .await
        .expect("it is there");
}

/// What the cluster shows: taints and labels of Nodes, and images of pods and addons.
fn shown(world: &World) -> Value {
    let objects = world
        .cloud
        .cluster_objects(&World::id("demo"))
        .expect("it is there");
    let objects: Value = serde_json::from_slice(&objects).expect("a line of JSON");
    let mut shown = BTreeMap::new();
    for record in objects["objects"].as_array().expect("a list") {
        let name = record["name"].as_str().expect("a name");
        let object = &record["object"];
        let value = match record["resource"].as_str() {
            Some("nodes") => json!([object["spec"]["taints"], object["metadata"]["labels"]["pool"]]),
            Some("pods") => object["spec"]["containers"][0]["image"].clone(),
            Some("daemonsets" | "deployments") => object
                .pointer("/spec/template/spec/containers/0/image")
                .cloned()
                .unwrap_or_default(),
            _ => continue,
        };
        shown.insert(name.to_owned(), value);
    }
    json!(shown)
}

#[tokio::test(start_paused = true)]
async fn a_cluster_shows_what_its_bootstrap_data_say_and_does_so_after_a_restart() {
    let world = World::start(13_800);
    world.cluster("demo").await;
    world.authorities("demo").await;
    let init = "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nimageRepository: mirror.example\n\
                etcd: {local: {imageTag: 3.6.5-0}}\n---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n\
                nodeRegistration:\n  taints: []\n  kubeletExtraArgs: [{name: node-labels, value: pool=one}]\n\
                skipPhases: [addon/kube-proxy]";
    let join = "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\nnodeRegistration:\n  taints:\n  \
                - {key: gpu, effect: NoSchedule}";
    let of_init = cloud_config("/run/kubeadm/kubeadm.yaml", init);
    let of_join = cloud_config("/run/kubeadm/kubeadm-join-config.yaml", join);
    let machines = [
        (objects::control_plane("demo", "cp-1"), &of_init),
        (objects::control_plane("demo", "cp-2"), &of_join),
        (objects::worker("demo", "w"), &of_join),
    ];
    for (machine, data) in &machines {
        let object = world.machine(machine).await;
        boot(&world, object.metadata.name.as_deref().expect("a name"), data).await;
        world.ready(&object).await;
        world
            .api
            .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
            .await;
    }
    let gpu = json!([[{ "key": "gpu", "effect": "NoSchedule" }], null]);
    let mut expected = json!({
        "cp-1": [null, "one"], "cp-2": gpu, "w": gpu,
        "coredns": format!("mirror.example/coredns:{}", nephele_cloud::DNS_IMAGE_TAG),
    });
    for machine in ["cp-1", "cp-2"] {
        expected[format!("etcd-{machine}")] = "mirror.example/etcd:3.6.5-0".into();
        for component in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
            expected[format!("{component}-{machine}")] = format!("mirror.example/{component}:v1.36.3").into();
        }
    }
    assert_eq!(shown(&world), expected);

    for machine in ["cp-1", "cp-2", "w"] {
        take(&world, machine).await;
    }
    let world = world.restart().await;
    let all = ["cp-1", "cp-2", "w"].map(|name| World::machine_id("demo", name));
    world
        .until("all machines are back", |cloud| {
            all.iter().all(|id| {
                cloud
                    .observe_machine(id)
                    .is_some_and(|seen| seen.stages.keys().all(|stage| seen.reached(*stage).is_some()))
            })
        })
        .await;
    assert_eq!(shown(&world), expected);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn bootstrap_data_that_are_not_there_or_not_known_change_nothing() {
    let world = World::start(13_900);
    world.cluster("demo").await;
    world.authorities("demo").await;
    for (name, data) in [("cp-1", None), ("cp-2", Some("#!/bin/sh\nkubeadm init\n"))] {
        let object = world.machine(&objects::control_plane("demo", name)).await;
        match data {
            Some(data) => boot(&world, name, data).await,
            None => world.bootstrap(name).await,
        }
        let object = world.ready(&object).await;
        assert_eq!(object.origin().and_then(|origin| origin.kubeadm), None);
    }
    let usual = json!([
        { "key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule" },
        { "key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule" },
    ]);
    let shown = shown(&world);
    assert_eq!([&shown["cp-1"][0], &shown["cp-2"][0]], [&usual, &usual]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_external_etcd_has_no_member_on_a_machine() {
    let world = World::start(14_900);
    world.cluster("demo").await;
    world.authorities("demo").await;
    let object = world.machine(&objects::control_plane("demo", "cp")).await;
    let documents = "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n\
                     etcd: {external: {endpoints: ['https://etcd.example:2379']}}";
    boot(
        &world,
        "cp",
        &cloud_config("/run/kubeadm/kubeadm.yaml", documents),
    )
    .await;
    world.ready(&object).await;
    assert_eq!(shown(&world).get("etcd-cp"), None);
    let observed = world
        .cloud
        .observe_cluster(&World::id("demo"))
        .expect("it is there");
    assert_eq!((observed.backends, observed.etcd_members), (1, vec![]));
    let object: InMemoryMachine = world.api.get("cp").await;
    let kubeadm = object
        .origin()
        .and_then(|origin| origin.kubeadm)
        .and_then(|kubeadm| kubeadm.cluster);
    assert_eq!(
        kubeadm.map(|cluster| cluster.external_etcd),
        Some(vec!["https://etcd.example:2379".to_owned()])
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_machine_that_joins_has_what_the_cluster_shows_by_then() {
    let world = World::start(20_700);
    world.cluster("demo").await;
    world.authorities("demo").await;
    let init = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nimageRepository: old.example\n\
                proxy: {disabled: true}";
    let join = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration";
    for (name, path, documents) in [
        ("cp-1", "/run/kubeadm/kubeadm.yaml", init),
        ("cp-2", "/run/kubeadm/kubeadm-join-config.yaml", join),
    ] {
        let object = world.machine(&objects::control_plane("demo", name)).await;
        boot(&world, name, &cloud_config(path, documents)).await;
        world.ready(&object).await;
    }
    // The first one is replaced, and after a restart the other is the oldest.
    world.api.delete::<InMemoryMachine>("cp-1").await;
    world.api.eventually_gone::<InMemoryMachine>("cp-1").await;
    world.api.delete::<nephele_api::core::Machine>("cp-1").await;
    let world = world.restart().await;
    let id = World::machine_id("demo", "cp-2");
    world
        .until("it is back", |cloud| {
            let seen = cloud.observe_machine(&id);
            seen.is_some_and(|seen| seen.stages.keys().all(|stage| seen.reached(*stage).is_some()))
        })
        .await;
    let shown = shown(&world);
    assert_eq!(shown["kube-apiserver-cp-2"], "old.example/kube-apiserver:v1.36.3");
    assert_eq!(
        (shown.get("kube-proxy"), shown.get("coredns").is_some()),
        (None, true)
    );
    world.stop().await;
}
