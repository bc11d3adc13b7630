//! Our providers as people install them: with clusterctl from release folders, with no variable set, as pods. Tests
//! the effect of an upgrade, another pod and another leader on existing clusters. It is one test, because there is one
//! installation. `cargo xtask installed` runs it, on the machine of the pods.

mod available;
mod clusterctl;
mod life;
