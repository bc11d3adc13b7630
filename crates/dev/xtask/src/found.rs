//! What programs need to know of a cluster to use it.

use std::path::PathBuf;

/// A running cluster.
pub(crate) struct Found {
    pub(crate) kubeconfig: PathBuf,
    /// The folder of its own `kubectl` and `clusterctl`; `None` to use those of the PATH.
    pub(crate) programs: Option<PathBuf>,
    /// Our program, which clusters without a node run as a process; `None` on an existing cluster.
    pub(crate) program: Option<PathBuf>,
}
