//! A local clusterctl repository (cluster-api, docs/book/src/clusterctl/configuration.md and
//! cmd/clusterctl/client/repository/repository_local.go): `{folder}/{provider label}/{version}/{files}`.

use std::{fs, path::PathBuf};

use anyhow::Context;

use super::{
    images::name_of_tool,
    kubectl::kustomize,
    layout::Layout,
    tools::{ClusterApi, Tools},
};
use crate::{files::write, release};

/// Provider label and name of the components file.
const PROVIDERS: [(&str, &str); 3] = [
    ("cluster-api", "core-components.yaml"),
    ("bootstrap-kubeadm", "bootstrap-components.yaml"),
    ("control-plane-kubeadm", "control-plane-components.yaml"),
];

/// The repository, and clusterctl's configuration for it.
pub(crate) struct Repository {
    folder: PathBuf,
}

impl Repository {
    /// The providers whose programs have their own images.
    pub(super) fn programs() -> impl Iterator<Item = &'static str> {
        PROVIDERS.into_iter().map(|(label, ..)| label)
    }

    /// clusterctl's configuration file.
    pub(crate) fn config_file(layout: &Layout) -> PathBuf {
        layout.at("repository/clusterctl.yaml")
    }

    /// Renders the components of Cluster API itself. The release of our providers adds theirs.
    pub(super) fn lay_out(layout: &Layout, tools: &Tools) -> anyhow::Result<Self> {
        let folder = layout.at("repository");
        let release = tools.cluster_api();
        let module = release.sources()?;
        let metadata =
            fs::read(module.join("metadata.yaml")).context("failed to read Cluster API's metadata")?;
        // Kustomize folders within the module.
        let sources = [
            release.core_config(),
            "bootstrap/kubeadm/config/default",
            "controlplane/kubeadm/config/default",
        ];
        for ((label, file), sources) in PROVIDERS.into_iter().zip(sources) {
            let place = folder.join(label).join(release.version());
            let components = kustomize(tools.program("kubectl"), &module.join(sources))?;
            write(
                &place.join(file),
                for_tests(&components, &name_of_tool(label), Lease::Long),
            )?;
            write(&place.join("metadata.yaml"), &metadata)?;
        }
        let repository = Self { folder };
        write(&Self::config_file(layout), repository.config(release))?;
        Ok(repository)
    }

    /// By the name of each manager's program: the manifest of its provider.
    pub(super) fn components(&self, cluster_api: ClusterApi) -> Vec<(&'static str, PathBuf)> {
        let place = |label: &str, file: &str| self.folder.join(label).join(cluster_api.version()).join(file);
        PROVIDERS.map(|(label, file)| (label, place(label, file))).into()
    }

    /// The folder with the providers.
    pub(crate) fn folder(layout: &Layout) -> PathBuf {
        layout.at("repository")
    }

    fn config(&self, cluster_api: ClusterApi) -> String {
        let url = |label: &str, version: &str, file: &str| self.folder.join(label).join(version).join(file);
        let core = PROVIDERS.map(|(label, file)| url(label, cluster_api.version(), file));
        let infrastructure = url(release::LABEL, release::VERSION, release::COMPONENTS);
        let ipam = url(release::IPAM_LABEL, release::VERSION, release::IPAM_COMPONENTS);
        let extension = url(
            release::RUNTIME_EXTENSION_LABEL,
            release::VERSION,
            release::RUNTIME_EXTENSION_COMPONENTS,
        );
        let [cluster_api, bootstrap, control_plane] = core;
        format!(
            "# cert-manager is there already, as far as clusterctl can see: the address is never asked.
cert-manager:
  url: file://{folder}/cert-manager.yaml
  version: v1.21.1
# Tests are not in pods, and they are not told names of Services.
NEPHELE_ADVERTISE_HOST: $(POD_IP)
providers:
  - {{name: cluster-api, type: CoreProvider, url: {cluster_api:?}}}
  - {{name: kubeadm, type: BootstrapProvider, url: {bootstrap:?}}}
  - {{name: kubeadm, type: ControlPlaneProvider, url: {control_plane:?}}}
  - {{name: in-memory, type: InfrastructureProvider, url: {infrastructure:?}}}
  - {{name: in-cluster, type: IPAMProvider, url: {ipam:?}}}
  - {{name: nephele, type: RuntimeExtensionProvider, url: {extension:?}}}
",
            folder = self.folder.display(),
        )
    }
}

/// The lease settings of managers: the defaults of Cluster API's kubeadm control plane provider
/// (controlplane/kubeadm/main.go, `InitFlags`). The 15 s of the other two providers are short on two CPUs that all
/// tests share, and a manager that loses its lease ends together with its webhooks.
const LEASE: [&str; 3] = [
    "--leader-elect-lease-duration=1m0s",
    "--leader-elect-renew-deadline=40s",
    "--leader-elect-retry-period=5s",
];

/// The timeout of a probe in seconds. With the default of one second, the kubelet killed a manager that was only slow,
/// while eighteen clusters came up at once.
const PROBE_SECONDS: u8 = 10;

/// The settings of a manager's lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lease {
    /// [`LEASE`].
    Long,
    /// Its own, because it has no flags for them.
    AsShipped,
}

/// The components with our image, which is never pulled, and with more time for leases and probes. The text is edited
/// line by line, so that nothing else changes.
pub(super) fn for_tests(components: &str, image: &str, lease: Lease) -> String {
    let mut text = String::with_capacity(components.len());
    for line in components.lines() {
        let start = line.len() - line.trim_start_matches([' ', '-']).len();
        let (indent, rest) = line.split_at(start);
        let replaced = match rest.split_once(": ") {
            Some(("image", _)) => format!("{indent}image: {image}"),
            Some(("imagePullPolicy", _)) => format!("{indent}imagePullPolicy: IfNotPresent"),
            _ => line.to_owned(),
        };
        text.push_str(&replaced);
        text.push('\n');
        if lease == Lease::Long
            && let Some(indent) = line.strip_suffix("- --leader-elect")
        {
            text.extend(LEASE.map(|argument| format!("{indent}- {argument}\n")));
        }
        let probe = ["livenessProbe:", "readinessProbe:"]
            .iter()
            .find_map(|probe| line.strip_suffix(probe));
        text.extend(probe.map(|indent| format!("{indent}  timeoutSeconds: {PROBE_SECONDS}\n")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_images_their_pull_policy_leases_and_probes_change() {
        let components = "      - args:
        - --leader-elect
        - --diagnostics-address=:8443
        image: gcr.io/x:main
        imagePullPolicy: Always
        livenessProbe:
          httpGet:
            path: /healthz
      image:
        type: string
";
        let expected = "      - args:
        - --leader-elect
        - --leader-elect-lease-duration=1m0s
        - --leader-elect-renew-deadline=40s
        - --leader-elect-retry-period=5s
        - --diagnostics-address=:8443
        image: localhost/y:e2e
        imagePullPolicy: IfNotPresent
        livenessProbe:
          timeoutSeconds: 10
          httpGet:
            path: /healthz
      image:
        type: string
";
        assert_eq!(for_tests(components, "localhost/y:e2e", Lease::Long), expected);
        let shipped: String = expected
            .split_inclusive('\n')
            .filter(|line| !line.contains("--leader-elect-"))
            .collect();
        assert_eq!(
            for_tests(components, "localhost/y:e2e", Lease::AsShipped),
            shipped
        );
    }
}
