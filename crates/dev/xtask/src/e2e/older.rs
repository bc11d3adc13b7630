//! The releases of Cluster API that tests start clusters of, beside the newest one.

use crate::cluster::{ClusterApi, Tools};

/// The release of each contract, with the variable that tells its name to the tests.
pub(super) const OLDER: [(&str, ClusterApi); 2] = [
    ("NEPHELE_CLUSTER_API_V1BETA1", ClusterApi::V1_8),
    ("NEPHELE_CLUSTER_API_V1BETA2", ClusterApi::V1_13),
];

/// Builds what the cache does not have. A compiler takes all CPUs for minutes: an API server beside it does not answer
/// in time, so no test must have to build first.
pub(super) fn build() -> anyhow::Result<()> {
    OLDER
        .iter()
        .try_for_each(|(_, release)| Tools::build(*release).map(drop))
}

/// The variable for releases of the same contract.
pub(super) fn variable(release: ClusterApi) -> &'static str {
    OLDER
        .iter()
        .find(|(_, older)| older.contract() == release.contract())
        .expect("there is a release of each contract")
        .0
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn each_release_has_the_variable_of_its_contract() {
        for release in ClusterApi::value_variants() {
            let contract = release.contract().to_uppercase();
            assert!(variable(*release).ends_with(&contract), "{}", release.name());
        }
    }
}
