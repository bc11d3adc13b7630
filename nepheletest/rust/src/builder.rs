//! What to start.

use std::{path::PathBuf, time::Duration};

use kube::config::Kubeconfig;
use serde::Serialize;

use crate::{
    nephele::Nephele,
    settings::{Provider, Settings},
    start_error::StartError,
};

/// What [`start`](Self::start) starts.
#[derive(Default)]
#[must_use = "it starts nothing before `start`"]
pub struct Builder(Settings);

impl Nephele {
    /// What to start.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Builder {
    /// A YAML file with objects to create at start, such as Clusters and SimulatedClouds. The start waits until its
    /// Clusters are available. Call it again for more files.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.files.push(path.into());
        self
    }

    /// An object to create at start, after those of the files: anything that serializes as a Kubernetes object, such
    /// as a [`DynamicObject`](kube::api::DynamicObject) or a `serde_json::json!`. It needs its `apiVersion` and
    /// `kind`. If it is a Cluster, the start waits until it is available.
    pub fn object(mut self, object: impl Serialize) -> Self {
        self.0.objects.push(serde_json::to_string(&object));
        self
    }

    /// Uses an API server that runs already, such as envtest's, in place of the embedded one. Nephele installs its
    /// definitions there. It plays Cluster API there only with [`stand_in`](Self::stand_in).
    ///
    /// Paths in the kubeconfig have to be absolute; [`Kubeconfig::read_from`] makes them so.
    pub fn attach(mut self, kubeconfig: Kubeconfig) -> Self {
        self.0.attach = Some(kubeconfig);
        self
    }

    /// Plays Cluster API in an attached API server, which must have no controllers of Cluster API. Without
    /// [`attach`](Self::attach) the stand-in always plays.
    pub fn stand_in(mut self) -> Self {
        self.0.stand_in = true;
        self
    }

    /// Runs the manager of a provider of Cluster API beside Nephele, in place of the stand-in: `components` is the file that
    /// clusterctl would install, and `name` what it calls the provider, such as `bootstrap-kubeadm`. Call it for Cluster
    /// API's own three providers, and for your own. The API server and etcd are those of envtest, unless
    /// [`attach`](Self::attach) names one.
    pub fn provider(
        mut self,
        components: impl Into<PathBuf>,
        name: impl Into<String>,
        program: impl Into<PathBuf>,
    ) -> Self {
        self.0.providers.push(Provider {
            components: components.into(),
            name: name.into(),
            program: program.into(),
        });
        self
    }

    /// Keeps kubeconfigs, log and journal in a folder that stays after the test. The default is a new folder that is
    /// removed.
    pub fn folder(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.folder = Some(path.into());
        self
    }

    /// How long the Clusters of files and objects may take until they are available. The default is a minute.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.0.time_limit = limit;
        self
    }

    /// How long each [`Nephele::wait_until`] and [`Nephele::wait_for_cluster`] may take. The default is 30 s.
    pub fn wait_limit(mut self, limit: Duration) -> Self {
        self.0.wait_limit = limit;
        self
    }

    /// The path of the nephele program. The default is the environment variable `NEPHELE`, or else `nephele` on
    /// `PATH`.
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.program = Some(path.into());
        self
    }

    /// Starts Nephele, and waits until the Clusters of files and objects are available.
    ///
    /// # Errors
    ///
    /// When it cannot start, with the reason that the program gives and the end of its log.
    pub async fn start(self) -> Result<Nephele, StartError> {
        Nephele::start(self.0).await
    }

    #[cfg(test)]
    pub(crate) fn into_settings(self) -> Settings {
        self.0
    }
}
