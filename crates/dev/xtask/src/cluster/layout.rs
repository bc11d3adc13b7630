//! Where the state of a cluster is.

use std::{fs, path::PathBuf};

use anyhow::Context;

use super::process::Processes;
use crate::paths;

/// Folders of the cluster's state.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(super) state: PathBuf,
}

impl Layout {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            state: paths::cache()?.join("cluster"),
        })
    }

    /// The folders of programs without a cluster.
    pub(crate) fn of_programs() -> anyhow::Result<Self> {
        Ok(Self {
            state: paths::cache()?.join("programs"),
        })
    }

    /// The folders of a cluster without a node.
    pub(super) fn bare(name: &str) -> anyhow::Result<Self> {
        Ok(Self {
            state: paths::cache()?.join(format!("cluster-{name}")),
        })
    }

    pub(super) fn exists(&self) -> bool {
        self.state.exists()
    }

    pub(super) fn remove(&self) -> anyhow::Result<()> {
        fs::remove_dir_all(&self.state).with_context(|| format!("failed to remove {}", self.state.display()))
    }

    /// A folder or file of the state.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.state.join(name)
    }

    pub(super) fn pki(&self) -> PathBuf {
        self.at("pki")
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.at("admin.kubeconfig")
    }

    pub(super) fn processes(&self) -> anyhow::Result<Processes> {
        Processes::new(self.at("pid"), self.at("log"))
    }
    /// The socket of containerd.
    pub(crate) fn containerd_socket(&self) -> PathBuf {
        self.at("containerd/containerd.sock")
    }
}
