//! The management API of a run.

use std::path::PathBuf;

use kube::Client;
use nephele_controller::wall_clock;
use tokio_util::sync::CancellationToken;

use crate::embedded::{Folder, Management};

/// The management API of this run, embedded or attached.
pub(super) struct ManagementApi {
    pub(super) client: Client,
    pub(super) kubeconfig: PathBuf,
    pub(super) server: String,
    /// The management API, if it is in this process.
    pub(super) embedded: Option<Management>,
}

impl ManagementApi {
    /// Starts one in this process, which runs until `stop`.
    pub(super) fn embed(folder: &Folder, stop: CancellationToken) -> anyhow::Result<Self> {
        let embedded = Management::start("nephele-up", &wall_clock(), stop)?;
        Ok(Self {
            client: embedded.client.clone(),
            kubeconfig: folder.write("management.kubeconfig", &embedded.kubeconfig)?,
            server: embedded.server.clone(),
            embedded: Some(embedded),
        })
    }
}
