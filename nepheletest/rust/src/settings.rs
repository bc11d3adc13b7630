//! What a Builder has been told.

use std::{path::PathBuf, time::Duration};

use kube::config::Kubeconfig;

/// How long Clusters may take until they are available: the default of `nephele up`.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// How long a wait takes at most, unless [`Builder::wait_limit`](crate::Builder::wait_limit) says otherwise.
const WAIT_LIMIT: Duration = Duration::from_secs(30);

/// What to start.
pub(crate) struct Settings {
    pub(crate) program: Option<PathBuf>,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) objects: Vec<serde_json::Result<String>>,
    pub(crate) attach: Option<Kubeconfig>,
    pub(crate) stand_in: bool,
    pub(crate) providers: Vec<Provider>,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) time_limit: Duration,
    pub(crate) wait_limit: Duration,
}

/// A provider of Cluster API, whose manager runs beside Nephele.
pub(crate) struct Provider {
    /// The file that clusterctl would install, with its Deployment.
    pub(crate) components: PathBuf,
    /// What clusterctl calls it, such as `bootstrap-kubeadm`.
    pub(crate) name: String,
    /// The program that its image would run.
    pub(crate) program: PathBuf,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            program: None,
            files: Vec::new(),
            objects: Vec::new(),
            attach: None,
            stand_in: false,
            providers: Vec::new(),
            folder: None,
            time_limit: TIME_LIMIT,
            wait_limit: WAIT_LIMIT,
        }
    }
}
