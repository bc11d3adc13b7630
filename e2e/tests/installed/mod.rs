//! Our providers as people install them: by clusterctl from release folders, with no variable set, as pods. What an upgrade,
//! another pod and another leader come to for clusters that are there. One test, since there is one installation.
//! `cargo xtask installed` runs it, on the machine where the pods are.

mod available;
mod clusterctl;
mod life;
