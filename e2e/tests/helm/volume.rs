//! A volume for the manager's state, as an administrator provides it.

use std::{fs, path::PathBuf};

use anyhow::Context;
use nephele_e2e::{Look, Management, management::kinds, until, wait::LIMIT};
use serde_json::json;

use crate::helm::chart::{NAMESPACE, kubectl};

const NAME: &str = "nephele-e2e";
/// The chart's values for a claim that the volume fits.
pub(crate) const VALUES: [&str; 4] = [
    "state.enabled=true",
    "state.type=persistentVolumeClaim",
    "state.persistentVolumeClaim.storageClassName=nephele-e2e",
    "state.persistentVolumeClaim.keep=false",
];

/// A PersistentVolume in a folder of the node, which is this machine.
pub(crate) struct Volume {
    folder: PathBuf,
}

impl Volume {
    pub(crate) async fn create(management: &Management) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("{NAME}-volume-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
        let node = kubectl(&["get", "nodes", "--output=jsonpath={.items[0].metadata.name}"]).await?;
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": NAME},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": NAME,
                "persistentVolumeReclaimPolicy": "Retain", "local": {"path": folder},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]},
                ]}]}},
            },
        });
        management.apply("", &[volume]).await?;
        Ok(Self { folder })
    }

    /// The claim that has the volume, and the volume's phase.
    pub(crate) async fn claim(&self) -> anyhow::Result<String> {
        let claim = "--output=jsonpath={.spec.claimRef.namespace}/{.spec.claimRef.name} {.status.phase}";
        kubectl(&["get", "persistentvolumes", NAME, claim]).await
    }

    /// Removes it, after the chart has removed its claim.
    pub(crate) async fn remove(self, management: &Management) -> anyhow::Result<()> {
        let released = format!("{NAMESPACE}/nephele-state Released");
        until("the volume to be released", LIMIT, async || {
            let claim = self.claim().await?;
            Ok(Look::when(claim == released, || claim.clone()))
        })
        .await?;
        management.delete(kinds::PERSISTENT_VOLUME, "", NAME).await?;
        fs::remove_dir_all(&self.folder)
            .with_context(|| format!("failed to remove {}", self.folder.display()))
    }
}
