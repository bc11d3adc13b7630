//! `nephele up --cluster-api`: Cluster API's own managers beside this process.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use jiff::Timestamp;
use nephele_access::Environment;
use nephele_cluster_api::{self as cluster_api, ApiServer, ClusterApi, Given, Launcher, Wanted};

use crate::{access, embedded::Folder, hold};

/// Gates of Cluster API that are off in its releases, and that the clusters of this program need.
const GATES_ON: [&str; 2] = ["CLUSTER_TOPOLOGY", "EXP_RUNTIME_SDK"];

#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster API itself")]
pub(super) struct ClusterApiArgs {
    /// Run Cluster API's own managers, in place of the stand-in.
    #[arg(long)]
    pub(super) cluster_api: bool,
    /// With --cluster-api: a file of components, such as core-components.yaml of a release; repeatable.
    #[arg(long = "provider", value_name = "FILE", requires = "cluster_api")]
    providers: Vec<PathBuf>,
    /// With --cluster-api: the program of a provider, such as cluster-api=FILE; repeatable.
    #[arg(long, value_name = "PROVIDER=FILE", requires = "cluster_api", value_parser = program)]
    run: Vec<(String, PathBuf)>,
    /// kube-apiserver [default: as envtest finds it]
    #[arg(
        long,
        value_name = "FILE",
        requires = "cluster_api",
        conflicts_with = "attach"
    )]
    api_server: Option<PathBuf>,
    /// etcd [default: as envtest finds it]
    #[arg(
        long,
        value_name = "FILE",
        requires = "cluster_api",
        conflicts_with = "attach"
    )]
    etcd: Option<PathBuf>,
}

impl ClusterApiArgs {
    /// Starts the managers, and an API server unless `attach` names one.
    pub(super) async fn start(
        &self,
        attach: Option<&PathBuf>,
        environment: &Environment,
        folder: &Folder,
        now: Timestamp,
    ) -> anyhow::Result<ClusterApi> {
        if self.providers.is_empty() {
            bail!(
                "--cluster-api needs files: --provider core-components.yaml --provider bootstrap-components.yaml \
                 --provider control-plane-components.yaml, which each release of Cluster API has, and the programs of \
                 their images, /manager, as --run cluster-api=FILE --run bootstrap-kubeadm=FILE \
                 --run control-plane-kubeadm=FILE"
            );
        }
        let variable = |name: &str| {
            let value = std::env::var(name).ok();
            value.or_else(|| GATES_ON.contains(&name).then(|| "true".to_owned()))
        };
        let components = cluster_api::read(&self.providers, &variable)?;
        let api_server = match attach {
            Some(file) => {
                let found =
                    access::of_file(file, &kube::config::KubeConfigOptions::default(), environment).await;
                let client = found.context("--attach")?.client();
                ApiServer::Running {
                    kubeconfig: std::path::absolute(file)
                        .with_context(|| format!("failed to resolve {}", file.display()))?,
                    client: client.context("failed to set up the client of the management API")?,
                }
            }
            None => {
                let given = Given {
                    api_server: self.api_server.clone(),
                    etcd: self.etcd.clone(),
                };
                let variable =
                    |name: &str| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
                ApiServer::Started(cluster_api::find(given, &variable, &|path| path.is_file())?)
            }
        };
        let wanted = Wanted {
            folder: folder.root().to_owned(),
            launcher: Launcher {
                program: std::env::current_exe().context("failed to find this program")?,
                arguments: vec![hold::COMMAND.into()],
                logs: folder.root().to_owned(),
            },
            components,
            programs: self.programs()?,
            api_server,
        };
        cluster_api::start(wanted, now).await
    }

    fn programs(&self) -> anyhow::Result<BTreeMap<String, PathBuf>> {
        let mut programs = BTreeMap::new();
        for (provider, file) in &self.run {
            let file =
                std::path::absolute(file).with_context(|| format!("failed to resolve {}", file.display()))?;
            if programs.insert(provider.clone(), file).is_some() {
                bail!("--run names the provider {provider} twice");
            }
        }
        Ok(programs)
    }
}

/// Reads `PROVIDER=FILE`.
fn program(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((provider, file)) if !provider.is_empty() && !file.is_empty() => {
            Ok((provider.to_owned(), file.into()))
        }
        _ => Err("expected a provider and its program, such as bootstrap-kubeadm=./manager".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_named_by_its_provider() {
        assert_eq!(
            program("cluster-api=/a=b"),
            Ok(("cluster-api".to_owned(), "/a=b".into()))
        );
        for text in ["cluster-api", "=a", "a="] {
            assert!(program(text).is_err(), "{text}");
        }
    }
}
