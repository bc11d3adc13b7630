//! Our providers as people install them: with clusterctl from release folders, with no variable set, as pods. Tests
//! the effect of an upgrade, another pod and another leader on existing clusters, and that our program can install
//! itself. The tests run one by one, because a cluster has one installation. `cargo xtask installed` runs them, on the
//! machine of the pods.

mod attach;
mod available;
pub(crate) mod clusterctl;
mod doctor;
pub(crate) mod life;
mod page;
mod quickstart;
