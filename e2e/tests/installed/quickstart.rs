//! The quickstart of the book: from the program alone to Nodes, and back to nothing. `kind load` is replaced by the
//! containerd of the node.

use std::time::Instant;

use anyhow::Context;
use nephele_e2e::{
    Look, Management, Scope, management::kinds, manager, manager::Provider, templates, until, wait::LIMIT,
};

use super::{
    clusterctl::{Releases, objects},
    life::{is_ours, left},
    program::{Connected, nephele},
};

#[tokio::test]
async fn the_program_installs_itself_leads_to_clusters_over_another_pod_and_leaves_nothing()
-> anyhow::Result<()> {
    let releases = Releases::from_environment()?;
    let socket = std::env::var("NEPHELE_E2E_CONTAINERD").context("NEPHELE_E2E_CONTAINERD is not set")?;
    let started = Instant::now();
    let install = ["install", "--load", &format!("containerd:{socket}")];
    nephele(&install).await?;
    let management = Management::connect().await?;
    let scope = Scope::on(management.clone(), "quickstart").await?;
    let template = std::env::temp_dir().join(format!("{}.yaml", scope.namespace));
    std::fs::write(&template, nephele(&["template", "topology"]).await?)
        .context("failed to write a template")?;
    let mut generate = vec!["generate", "cluster", "demo", "--target-namespace", &scope.namespace];
    generate.extend(["--from", template.to_str().context("a path is text")?]);
    generate.extend(["--kubernetes-version", templates::VERSION, "--worker-machine-count", "2"]);
    let manifest = releases.clusterctl(&generate).await?;
    std::fs::remove_file(&template).context("failed to remove the template")?;
    scope.management.apply(&scope.namespace, &objects(&manifest)?).await?;

    let mut connected = Connected::start(&scope.namespace)?;
    let cluster = format!("{}-demo", scope.namespace);
    let nodes = connected.ready_nodes(&cluster, 3).await?;
    println!("{} s from the program to Nodes\n{nodes}", started.elapsed().as_secs());

    let provider = Provider::Infrastructure;
    let leads = async || Ok(Look::Done(manager::leader(&management, provider).await?));
    let leader = until("the leader's process to be known", LIMIT, leads).await?;
    management.delete(kinds::POD, provider.namespace(), &leader.pod).await?;
    manager::another_leads(&management, provider, &leader).await?;
    connected.ready_nodes(&cluster, 3).await?;
    connected.interrupt().await?;

    let refused = nephele(&["uninstall"]).await.err().context("it was uninstalled under a cluster")?;
    assert!(refused.to_string().contains("kubectl delete cluster"), "{refused:#}");
    scope.finish().await?;
    nephele(&["uninstall"]).await?;
    let left = left().await?;
    assert!(!left.lines().any(is_ours), "{left}");
    Ok(())
}
