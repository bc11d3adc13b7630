//! Starts and ends.

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, Config,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use nepheletest::Nephele;

use crate::objects::{cluster_with, small_file};

#[test]
fn nephele_outlives_the_runtime_that_started_it() -> anyhow::Result<()> {
    let first = tokio::runtime::Runtime::new()?;
    let nephele = first.block_on(Nephele::builder().file(small_file()).start())?;
    let small = first.block_on(nephele.cluster("default", "small"))?;
    drop(first);
    let second = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    assert_eq!(second.block_on(small.machines())?.len(), 3);
    second.block_on(nephele.wait_for_cluster("default", "small"))?;
    Ok(second.block_on(nephele.stop())?)
}

#[tokio::test]
async fn folder_of_the_user_stays() -> anyhow::Result<()> {
    let temporary = tempfile::tempdir()?;
    let folder = temporary.path().join("nephele");
    let builder = Nephele::builder()
        .object(cluster_with("default", "small", 0))
        .folder(&folder);
    let nephele = builder.start().await?;
    assert_eq!(nephele.folder(), folder);
    let journal = nephele.journal().to_owned();
    nephele.stop().await?;
    assert!(journal.is_file());
    Ok(())
}

#[tokio::test]
async fn new_folder_is_removed() -> anyhow::Result<()> {
    let nephele = Nephele::builder().start().await?;
    let folder = nephele.folder().to_owned();
    assert!(folder.is_dir());
    nephele.stop().await?;
    assert!(!folder.exists());
    Ok(())
}

/// An API server of another Nephele stands for envtest's. No cluster is in it, because two managers would both run it.
#[tokio::test]
async fn attached_nephele_uses_the_given_api_server() -> anyhow::Result<()> {
    let given = Nephele::builder().start().await?;
    let kubeconfig = Kubeconfig::read_from(given.kubeconfig())?;
    let attached = Nephele::builder().attach(kubeconfig).start().await?;
    assert_eq!(attached.config().cluster_url, given.config().cluster_url);
    let written = Kubeconfig::read_from(attached.kubeconfig())?;
    let config = Config::from_custom_kubeconfig(written, &KubeConfigOptions::default()).await?;
    // Only the administrator may do this.
    let secrets = Api::<Secret>::namespaced(Client::try_from(config)?, "default");
    secrets.list(&ListParams::default()).await?;
    attached.stop().await?;
    Ok(given.stop().await?)
}
