//! A cluster that runs.

use super::{kubectl::Kubectl, layout::Layout, tools::Tools};

/// A running cluster, and its tools.
pub(crate) struct Cluster {
    pub(crate) layout: Layout,
    pub(crate) tools: Tools,
    pub(crate) kubectl: Kubectl,
}
