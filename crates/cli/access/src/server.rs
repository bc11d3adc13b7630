//! A server of a kubeconfig.

use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{
        AuthInfo, ExecConfig, ExecInteractiveMode, InClusterError, KubeConfigOptions, Kubeconfig,
        KubeconfigError,
    },
};

use crate::{
    connections::{self, Connections, Patience},
    proxy::{Environment, Proxy, ProxyError, proxy_of},
};

/// Why a server of a kubeconfig cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The kubeconfig does not say which server, or with which credentials.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// The credential plugin reads standard input, and has no terminal there.
    #[error(
        "failed to use the credential plugin {0}: it reads standard input, which is not a terminal or is read by nephele"
    )]
    NoInput(String),
    /// The proxy is none.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
}

/// An API server, and how it is reached.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its address and the credentials. Its `proxy_url` is that of the proxy, if there is one.
    pub config: Config,
    pub(crate) proxy: Option<Proxy>,
}

impl Server {
    /// The server of a kubeconfig, by its context or the one of `options`.
    ///
    /// # Errors
    /// When the kubeconfig has no such context, or the proxy to the server cannot be used.
    pub async fn of(
        kubeconfig: Kubeconfig,
        options: &KubeConfigOptions,
        environment: &Environment,
    ) -> Result<Self, ServerError> {
        let mut config = unproxied(kubeconfig, options).await?;
        if let Some(plugin) = &mut config.auth_info.exec {
            limit_input(plugin, environment.has_input)?;
        }
        let of_kubeconfig = config.proxy_url.take().map(|url| url.to_string());
        let proxy = proxy_of(&config.cluster_url, of_kubeconfig.as_deref(), environment)?;
        config.proxy_url = proxy.as_ref().map(|proxy| proxy.url.clone());
        Ok(Self { config, proxy })
    }

    /// The server of the cluster in which this process is a pod. It is in the network of the pod, so there is no proxy to
    /// it, whatever the environment says.
    ///
    /// # Errors
    /// When this is no pod with a service account.
    pub fn in_cluster() -> Result<Self, InClusterError> {
        Config::incluster().map(Self::direct)
    }

    /// A server that is reached without a proxy.
    #[must_use]
    pub fn direct(mut config: Config) -> Self {
        config.proxy_url = None;
        Self { config, proxy: None }
    }

    /// The same server for whoever has this token, with none of the credentials of this one.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        let mut config = self.config.clone();
        config.auth_info = AuthInfo {
            token: Some(token.to_owned().into()),
            ..AuthInfo::default()
        };
        Self {
            config,
            proxy: self.proxy.clone(),
        }
    }

    /// A client. Sends no request yet.
    ///
    /// # Errors
    /// When the credentials or certificates cannot be used.
    pub fn client(&self) -> kube::Result<Client> {
        Ok(self.builder()?.build())
    }

    /// A client that callers add layers to.
    ///
    /// # Errors
    /// When the credentials or certificates cannot be used.
    pub fn builder(&self) -> kube::Result<ClientBuilder<Connections>> {
        connections::builder(self, Patience::USUAL)
    }
}

/// Lets a credential plugin read standard input only where client-go does (`plugin/pkg/client/auth/exec/exec.go`,
/// `isInteractive`). kube lets it read whatever standard input is, unless its mode is `Never`.
fn limit_input(plugin: &mut ExecConfig, has_input: bool) -> Result<(), ServerError> {
    if has_input {
        return Ok(());
    }
    if plugin.interactive_mode == Some(ExecInteractiveMode::Always) {
        return Err(ServerError::NoInput(plugin.command.clone().unwrap_or_default()));
    }
    plugin.interactive_mode = Some(ExecInteractiveMode::Never);
    Ok(())
}

/// The configuration of a server on the loopback interface or in the network of this process: without a proxy, whatever
/// kubeconfig and environment say.
///
/// # Errors
/// When the kubeconfig does not say which server, or with which credentials.
pub async fn config_without_proxy(kubeconfig: Kubeconfig) -> Result<Config, KubeconfigError> {
    let mut config = unproxied(kubeconfig, &KubeConfigOptions::default()).await?;
    config.proxy_url = None;
    Ok(config)
}

/// Where a cluster names no proxy, kube takes that of `HTTPS_PROXY`, and fails when it cannot read it. A name stops it.
const NO_PROXY_NAMED: &str = "http://no-proxy.invalid/";

/// The configuration with the proxy that the kubeconfig names, and none of the environment.
async fn unproxied(
    mut kubeconfig: Kubeconfig,
    options: &KubeConfigOptions,
) -> Result<Config, KubeconfigError> {
    for cluster in kubeconfig
        .clusters
        .iter_mut()
        .filter_map(|named| named.cluster.as_mut())
    {
        let named = cluster.proxy_url.take().filter(|url| !url.is_empty());
        cluster.proxy_url = Some(named.unwrap_or_else(|| NO_PROXY_NAMED.to_owned()));
    }
    let mut config = Config::from_custom_kubeconfig(kubeconfig, options).await?;
    config.proxy_url = config.proxy_url.filter(|url| *url != NO_PROXY_NAMED);
    // A credential plugin may be told about the cluster.
    if let Some(cluster) = config
        .auth_info
        .exec
        .as_mut()
        .and_then(|plugin| plugin.cluster.as_mut())
    {
        cluster.proxy_url = cluster.proxy_url.take().filter(|url| url != NO_PROXY_NAMED);
    }
    Ok(config)
}
