//! What a control plane machine that joins a cluster gets from it: what kubeadm was told when it initialized the cluster.

use nephele_apiserver::Key;
use nephele_model::{Role, Stage};

use super::{Cluster, State};
use crate::{spec::MachineSpec, user_data::KubeadmCluster};

impl Cluster {
    /// Gives a new control plane machine what kubeadm reads in the cluster that it joins.
    pub(super) fn join(&self, state: &State, spec: &mut MachineSpec) {
        if spec.started_at.is_some() || spec.role != Role::ControlPlane {
            return;
        }
        let Some(kubeadm) = &mut spec.kubeadm else { return };
        if kubeadm.cluster.is_none()
            && let Some(first) = first_control_plane(state)
        {
            let known = first.cluster_configuration();
            let mut published = self.published();
            if let (Some(published), Some(known)) = (&mut published, known) {
                // The ConfigMap does not say which phases were skipped.
                (published.skips_proxy, published.skips_dns) = (known.skips_proxy, known.skips_dns);
            }
            kubeadm.cluster = published.or_else(|| known.cloned());
        }
        let tag = kubeadm.cluster.as_ref().map(|cluster| &cluster.etcd_image_tag);
        spec.etcd_image_tag = tag.filter(|tag| !tag.is_empty()).cloned();
    }

    /// What the ConfigMap of kubeadm says, unless a client made it larger than any kubeadm would.
    fn published(&self) -> Option<KubeadmCluster> {
        const READ_MAX: usize = 64 * 1024;
        let key = Key::new("", "configmaps", "kube-system", "kubeadm-config");
        let value = self.cluster_server.store.get(&key)?.value();
        let text = value["data"]["ClusterConfiguration"]
            .as_str()
            .filter(|text| text.len() <= READ_MAX)?;
        KubeadmCluster::published(text)
    }
}

/// The machine whose API server came up first.
pub(super) fn first_control_plane(state: &State) -> Option<&MachineSpec> {
    let up = state.machines.values().filter_map(|machine| {
        Some((
            machine.reached(Stage::ApiServer)?,
            &machine.spec.version,
            &machine.spec,
        ))
    });
    up.min_by_key(|(reached, version, _)| (*reached, *version))
        .map(|(.., spec)| spec)
}
