//! Clusters come up, are found, and lose machines.

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
    config::Kubeconfig,
};
use nepheletest::{Machine, Nephele};

use crate::objects::{cluster_with, clusters_in, expect_error, small_file};

#[tokio::test]
async fn cluster_of_a_file_is_up_with_its_nodes() -> anyhow::Result<()> {
    let nephele = Nephele::builder().file(small_file()).start().await?;
    let small = nephele.cluster("default", "small").await?;
    let nodes = Api::<Node>::all(small.client()?)
        .list(&ListParams::default())
        .await?;
    let from_nodes: Vec<_> = nodes.items.iter().map(ResourceExt::name_any).collect();
    let machines = small.machines().await?;
    let from_machines: Vec<_> = machines.into_iter().filter_map(|machine| machine.node).collect();
    assert_eq!(from_nodes.len(), 3);
    assert_eq!(from_nodes, from_machines);
    for path in [
        nephele.kubeconfig(),
        nephele.log(),
        nephele.journal(),
        small.kubeconfig(),
    ] {
        assert!(path.is_file(), "{}", path.display());
    }
    Ok(nephele.stop().await?)
}

#[tokio::test]
async fn later_cluster_is_found() -> anyhow::Result<()> {
    let nephele = Nephele::builder().start().await?;
    let absent = nephele.cluster("default", "later").await;
    expect_error(
        absent,
        &["failed to get Secret default/later-kubeconfig", "not found"],
    );
    let clusters = clusters_in(nephele.client()?, "default");
    clusters
        .create(&PostParams::default(), &cluster_with("default", "later", 0))
        .await?;
    let later = nephele.wait_for_cluster("default", "later").await?;
    assert_eq!(Kubeconfig::read_from(later.kubeconfig())?.clusters.len(), 1);
    assert_eq!((later.namespace(), later.name()), ("default", "later"));
    Ok(nephele.stop().await?)
}

#[tokio::test]
async fn clusters_whose_files_want_one_name_are_told_apart() -> anyhow::Result<()> {
    let builder = Nephele::builder()
        .object(cluster_with("a-b", "c", 0))
        .object(cluster_with("a", "b-c", 0));
    let nephele = builder.start().await?;
    let first = nephele.cluster("a-b", "c").await?;
    let second = nephele.cluster("a", "b-c").await?;
    assert_ne!(first.kubeconfig(), second.kubeconfig());
    assert_ne!(first.config().cluster_url, second.config().cluster_url);
    Ok(nephele.stop().await?)
}

#[tokio::test]
async fn terminated_machine_is_replaced() -> anyhow::Result<()> {
    let nephele = Nephele::builder()
        .object(cluster_with("default", "small", 2))
        .start()
        .await?;
    let small = nephele.cluster("default", "small").await?;
    let before = small.machines().await?;
    let worker = before
        .iter()
        .find(|machine| !machine.is_control_plane)
        .expect("it has two workers");
    small.terminate_machine(&worker.name).await?;
    nephele
        .wait_until(
            "another Machine is in its place",
            async || -> anyhow::Result<()> {
                let after = small.machines().await?;
                let is_up = |machine: &Machine| {
                    machine.is_ready && machine.node.is_some() && machine.name != worker.name
                };
                anyhow::ensure!(
                    after.len() == before.len() && after.iter().all(is_up),
                    "the Machines are {after:?}"
                );
                Ok(())
            },
        )
        .await?;
    let node = worker.node.as_deref().expect("its Machine had a Node");
    assert!(Api::<Node>::all(small.client()?).get_opt(node).await?.is_none());
    Ok(nephele.stop().await?)
}

#[tokio::test]
async fn machine_that_does_not_exist_is_not_terminated() -> anyhow::Result<()> {
    let nephele = Nephele::builder()
        .object(cluster_with("default", "small", 0))
        .start()
        .await?;
    let small = nephele.cluster("default", "small").await?;
    let terminated = small.terminate_machine("absent").await;
    expect_error(terminated, &["failed to get Machine default/absent", "not found"]);
    Ok(nephele.stop().await?)
}
