//! Whether an installation fits what is on the cluster, and which roles it has. Pure.

use anyhow::{bail, ensure};

use super::management::{Found, Owner};

/// clusterctl's names of the providers that the manager can be.
const INFRASTRUCTURE: &str = "infrastructure-in-memory";
const IPAM: &str = "ipam-in-cluster";

/// What the manager is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Roles {
    /// Whether it is the IPAM provider, too.
    pub(super) ipam: bool,
    /// Why it is not the IPAM provider.
    pub(super) note: Option<String>,
}

/// The roles of the manager on a cluster.
///
/// # Errors
/// When the manager cannot work there, or another program looks after its objects. The message says what to do.
pub(super) fn roles(found: &Found) -> anyhow::Result<Roles> {
    ensure!(
        found.cluster_api,
        "Cluster API is not installed on this cluster: install it first, with `CLUSTER_TOPOLOGY=true clusterctl init`"
    );
    let by_clusterctl = |name: &str| found.providers.iter().find(|(provider, _)| provider == name);
    if let Some((_, namespace)) = by_clusterctl(INFRASTRUCTURE) {
        bail!(
            "clusterctl has installed the provider in-memory in the namespace {namespace}: upgrade it with \
             `clusterctl upgrade apply`, or remove it with `clusterctl delete --infrastructure in-memory` first"
        );
    }
    let note = match (by_clusterctl(IPAM), found.pools) {
        (Some((_, namespace)), _) => Some(format!(
            "clusterctl has installed the IPAM provider in-cluster in the namespace {namespace}, which keeps that role"
        )),
        (None, Owner::Others) => Some(
            "another installation has the kinds of the IPAM provider in-cluster and keeps that role"
                .to_owned(),
        ),
        (None, Owner::None | Owner::Us) => None,
    };
    Ok(Roles {
        ipam: note.is_none(),
        note,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Found {
        Found {
            cluster_api: true,
            providers: Vec::new(),
            pools: Owner::None,
        }
    }

    fn with_provider(name: &str) -> Found {
        Found {
            providers: vec![(name.to_owned(), "there".to_owned())],
            ..found()
        }
    }

    #[test]
    fn the_manager_has_both_roles_unless_another_ipam_provider_is_there() {
        let both = Roles {
            ipam: true,
            note: None,
        };
        assert_eq!(roles(&found()).expect("roles"), both);
        assert_eq!(
            roles(&Found {
                pools: Owner::Us,
                ..found()
            })
            .expect("roles"),
            both
        );
        for found in [
            with_provider(IPAM),
            Found {
                pools: Owner::Others,
                ..found()
            },
        ] {
            let roles = roles(&found).expect("roles");
            assert!(!roles.ipam && roles.note.is_some(), "{roles:?}");
        }
    }

    #[test]
    fn nothing_is_installed_without_cluster_api_or_over_what_clusterctl_looks_after() {
        let message = |found: &Found| roles(found).expect_err("refused").to_string();
        assert!(
            message(&Found {
                cluster_api: false,
                ..found()
            })
            .contains("clusterctl init")
        );
        assert!(message(&with_provider(INFRASTRUCTURE)).contains("clusterctl delete"));
    }
}
