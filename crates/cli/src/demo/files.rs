//! The demo's files: kubeconfigs and a log. Only their owner can read them.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tracing_subscriber::EnvFilter;

use super::clusters;

/// A directory for the demo's files.
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The requested directory, or a new one.
    pub(super) fn open(wanted: Option<PathBuf>) -> anyhow::Result<Self> {
        let path = match wanted {
            Some(path) => {
                std::path::absolute(&path).with_context(|| format!("failed to resolve {}", path.display()))?
            }
            None => fresh(),
        };
        DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(&path)
            .with_context(|| format!("failed to create {}", path.display()))?;
        Ok(Self { path })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file that contains a private key.
    pub(super) fn write(&self, name: &str, content: &str) -> anyhow::Result<PathBuf> {
        let path = self.path(name);
        create(&path)
            .and_then(|mut file| file.write_all(content.as_bytes()))
            .with_context(|| format!("failed to write {}", path.display()))?;
        Ok(path)
    }

    /// Writes the kubeconfig of each cluster. Returns the names of the clusters with the files.
    pub(super) async fn write_workloads(&self, client: &Client) -> anyhow::Result<Vec<(String, PathBuf)>> {
        let mut written = Vec::new();
        for cluster in clusters::plan().clusters {
            let name = format!("{}-kubeconfig", cluster.name);
            let api = Api::<Secret>::namespaced(client.clone(), &cluster.namespace);
            let secret = api.get(&name).await.with_context(|| format!("failed to read Secret {name}"))?;
            let value = secret.data.as_ref().and_then(|data| data.get("value"));
            let value = value.with_context(|| format!("failed to find a kubeconfig in Secret {name}"))?;
            let text = String::from_utf8_lossy(&value.0);
            written.push((cluster.name.clone(), self.write(&format!("{}.kubeconfig", cluster.name), &text)?));
        }
        Ok(written)
    }
}

fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// A path for a new directory, which no other demo uses.
fn fresh() -> PathBuf {
    let base = std::env::temp_dir().join(format!("nephele-demo-{}", std::process::id()));
    let numbered = (1..).map(|number| base.with_extension(number.to_string()));
    std::iter::once(base.clone()).chain(numbered).find(|path| !path.exists()).expect("some number is free")
}

/// Sets up logging to a file, because the terminal shows the progress.
pub(super) fn log_to(folder: &Folder) -> anyhow::Result<()> {
    let path = folder.path("demo.log");
    let file = create(&path).with_context(|| format!("failed to write {}", path.display()))?;
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_env_filter(EnvFilter::new("warn,kube_client::client::builder=off,nephele=debug"))
        .with_writer(std::sync::Mutex::new(file));
    subscriber.try_init().map_err(anyhow::Error::from_boxed).context("failed to set up logging")
}
