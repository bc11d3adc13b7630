//! `nephele up --seed`.

use jiff::{SignedDuration, Timestamp};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
};

use crate::{Up, client, file, text};

/// How long the virtual machines of three workers took, the shortest first: their names are random.
async fn delays(seed: &str, ports: &str) -> Vec<SignedDuration> {
    let mut up = Up::start(&[
        "-f",
        &file("jitter.yaml"),
        "--port-range",
        ports,
        "--no-page",
        "--seed",
        seed,
    ]);
    let line = up.line();
    let client = client(text(&line, "/management/kubeconfig")).await;
    let kind = GroupVersionKind::gvk("infrastructure.cluster.x-k8s.io", "v1beta2", "InMemoryMachine");
    let machines: Api<DynamicObject> = Api::namespaced_with(client, "default", &ApiResource::from_gvk(&kind));
    let workers = ListParams::default().labels("topology.cluster.x-k8s.io/deployment-name=workers");
    let workers = machines.list(&workers).await.expect("a list");
    let time = |worker: &DynamicObject, field: &str| -> Timestamp {
        let origin = &worker.data["spec"]["instance"]["origin"];
        text(origin, field).parse().expect("a time")
    };
    let took =
        |worker: &DynamicObject| time(worker, "/reached/vm").duration_since(time(worker, "/startTime"));
    let mut delays: Vec<_> = workers.iter().map(took).collect();
    delays.sort();
    delays
}

#[tokio::test]
async fn the_same_seed_gives_the_same_delays_and_another_gives_others() {
    let first = delays("amber", "27100-27119").await;
    assert_eq!(first.len(), 3);
    assert_eq!(delays("amber", "27120-27139").await, first);
    assert_ne!(delays("otter", "27140-27159").await, first);
}
