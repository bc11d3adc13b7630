//! The management API of a run.

use std::path::PathBuf;

use kube::Client;

use crate::embedded::Management;

/// The management API of this run, embedded or attached.
pub(super) struct ManagementApi {
    pub(super) client: Client,
    pub(super) kubeconfig: PathBuf,
    pub(super) server: String,
    /// The management API, if it is in this process.
    pub(super) embedded: Option<Management>,
}
