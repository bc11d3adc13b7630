//! Earlier releases of Cluster API, unmodified, each on a management cluster without a node.

use nephele_e2e::Bare;

mod contract_v1beta1;
mod contract_v1beta2;

/// A management cluster with the release of Cluster API that `cargo xtask e2e --cluster-api` asks for, or else with this
/// one.
async fn management(default: &str) -> anyhow::Result<Bare> {
    let release = std::env::var("NEPHELE_CLUSTER_API").unwrap_or_else(|_| default.to_owned());
    Bare::of_release(&format!("release-{}", release.replace('.', "-")), &release).await
}
