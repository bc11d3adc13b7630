//! Our providers as people install them: by clusterctl from release folders, with no variable set, as pods. Tests
//! the effect of an upgrade, another pod and another leader on existing clusters. It is one test, since there is
//! one installation. `cargo xtask installed` runs it, on the machine of the pods.

mod available;
mod clusterctl;
mod life;
