//! Access to a management cluster, as `kubectl` has it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, Config};

use crate::exit::{Exit, Problem};

/// How long a connection to the API server may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The environment variable that containers in a pod have.
const IN_POD: &str = "KUBERNETES_SERVICE_HOST";

/// Flags that say which management cluster.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TargetArgs {
    /// Kubeconfig of the management cluster [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// Flags that say which management cluster, and which namespace there.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AccessArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Namespace [default: that of the context]
    #[arg(long, short, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
}

/// How to reach the cluster of a kubeconfig file.
pub(crate) async fn of_file(file: &Path, options: &KubeConfigOptions) -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read_from(file).map_err(|error| match error {
        // It names the file, too.
        KubeconfigError::ReadConfig(cause, _) => anyhow::Error::new(cause),
        other => anyhow::Error::new(other),
    });
    let kubeconfig = kubeconfig.with_context(|| format!("failed to read kubeconfig {}", file.display()))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, options).await;
    config.with_context(|| format!("failed to use kubeconfig {}", file.display()))
}

/// A management cluster.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) client: Client,
    /// The namespace of `--namespace`, or else of the context.
    pub(crate) namespace: String,
}

impl AccessArgs {
    /// A client of the management cluster. Sends no request yet.
    pub(crate) async fn open(&self) -> anyhow::Result<Access> {
        let mut access = self.target.open().await?;
        access.namespace = self.namespace.clone().unwrap_or(access.namespace);
        Ok(access)
    }
}

impl TargetArgs {
    /// A client of the management cluster. Sends no request yet.
    pub(crate) async fn open(&self) -> anyhow::Result<Access> {
        let mut config = self.config().await?;
        config.connect_timeout = Some(CONNECT_MAX);
        let namespace = config.default_namespace.clone();
        let client =
            Client::try_from(config).context("failed to set up a client of the management cluster")?;
        Ok(Access { client, namespace })
    }

    /// The name of the context that is used; `None` for a kubeconfig without one, and in a pod.
    pub(crate) fn context(&self) -> Option<String> {
        let of_file = || match &self.kubeconfig {
            Some(file) => Kubeconfig::read_from(file).ok(),
            None => Kubeconfig::read().ok(),
        };
        self.context.clone().or_else(|| of_file()?.current_context)
    }

    async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let advice = "failed to find the management cluster; set --kubeconfig, --context or KUBECONFIG";
        match &self.kubeconfig {
            Some(file) => of_file(file, &options).await,
            None => match Config::from_kubeconfig(&options).await {
                Ok(config) => Ok(config),
                // In a pod, its service account.
                Err(_) if self.context.is_none() && std::env::var_os(IN_POD).is_some() => {
                    Config::incluster().context(advice)
                }
                Err(error) => Err(error).context(advice),
            },
        }
    }
}

impl Access {
    /// A kind in its most stable version. Which kinds there are depends on what is installed.
    pub(crate) async fn kind(&self, group: &str, kind: &str) -> anyhow::Result<ApiResource> {
        let found = kube::discovery::group(&self.client, group).await;
        let found = match found {
            Ok(group) => group,
            Err(kube::Error::Discovery(_)) => return Err(not_installed(group, kind).into()),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                return Err(not_installed(group, kind).into());
            }
            Err(error) => {
                return Err(Problem::request("read which kinds there are", "read /apis", error).into());
            }
        };
        // The kinds of a group need not all be in its preferred version: pools are not.
        let mut resources = found.resources_by_stability().into_iter().map(|(resource, _)| resource);
        let resource = resources.find(|resource| resource.kind == kind);
        resource.ok_or_else(|| not_installed(group, kind).into())
    }

    /// The objects of a kind in one namespace, or in all.
    pub(crate) fn api(&self, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        }
    }
}

fn not_installed(group: &str, kind: &str) -> Problem {
    let message =
        format!("the management cluster has no {kind} of {group}; is the provider installed there?");
    Problem::new(Exit::NotFound, message)
}
