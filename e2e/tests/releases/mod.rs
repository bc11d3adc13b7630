//! Earlier releases of Cluster API, unmodified, each on a management cluster without a node.

use nephele_e2e::{Bare, release_of};

mod contract_v1beta1;
mod contract_v1beta2;

/// A management cluster with a release of Cluster API of this contract: the one that `cargo xtask e2e --cluster-api` asks
/// for, or else the one that all tests of the contract use.
async fn management(contract: &str) -> anyhow::Result<Bare> {
    let release = release_of(contract)?;
    Bare::of_release(&format!("release-{}", release.replace('.', "-")), &release).await
}
