//! Access to a management cluster, as `kubectl` has it.

use std::{
    fs::{self, File},
    io::Read as _,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use kube::{
    Api, Client,
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, DynamicObject},
};
use nephele_access::{Environment, ReadError, Server, read_file, read_usual, usual_files};
use rustix::fs::{Mode, OFlags};

use crate::{
    exit::{Exit, Problem},
    manager_socket,
};

/// How long a connection to the API server may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// What to do when there is no usable kubeconfig.
const NOT_FOUND: &str = "failed to find the management cluster; set --kubeconfig, --context or KUBECONFIG \
                         (`kind export kubeconfig` writes one, and `nephele up` prints the path of its own)";

/// The longest token that is read, in bytes. Those of Kubernetes have about one thousand.
const TOKEN_MAX: u64 = 64 * 1024;

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
pub(crate) async fn of_file(
    file: &Path,
    options: &KubeConfigOptions,
    environment: &Environment,
) -> anyhow::Result<Server> {
    let server = Server::of(read_file(file)?, options, environment).await;
    server.with_context(|| format!("failed to use kubeconfig {}", file.display()))
}

/// How to reach the cluster of the user's kubeconfig; in a pod without one, that of its service account, unless a context
/// is wanted.
pub(crate) async fn usual(options: &KubeConfigOptions) -> anyhow::Result<Server> {
    match usual_kubeconfig() {
        Ok(kubeconfig) => Ok(Server::of(kubeconfig, options, &Environment::of_process()).await?),
        Err(ReadError::Missing(_) | ReadError::Unknown)
            if options.context.is_none() && std::env::var_os(IN_POD).is_some() =>
        {
            Ok(Server::in_cluster()?)
        }
        Err(error) => Err(error.into()),
    }
}

fn usual_kubeconfig() -> Result<Kubeconfig, ReadError> {
    let variable = std::env::var_os("KUBECONFIG");
    read_usual(&usual_files(variable.as_deref(), std::env::home_dir().as_deref()))
}

/// A management cluster.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) client: Client,
    /// The namespace of `--namespace`, or else of the context.
    pub(crate) namespace: String,
    /// The socket of a manager that is a process of this machine.
    pub(crate) manager: Option<PathBuf>,
    /// The token for the manager that lies beside the kubeconfig.
    pub(crate) token: Option<String>,
}

impl AccessArgs {
    /// Whether a flag says which management cluster or namespace is meant.
    pub(crate) fn is_given(&self) -> bool {
        let TargetArgs { kubeconfig, context } = &self.target;
        [kubeconfig.is_some(), context.is_some(), self.namespace.is_some()].contains(&true)
    }

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
        let mut server = self.server().await?;
        server.config.connect_timeout = Some(CONNECT_MAX);
        let namespace = server.config.default_namespace.clone();
        let client = server
            .client()
            .context("failed to set up a client of the management cluster")?;
        let file = self.file();
        Ok(Access {
            client,
            namespace,
            manager: file.as_deref().and_then(manager_socket::beside),
            // Another context may be one of another cluster.
            token: file
                .as_deref()
                .filter(|_| self.context.is_none())
                .and_then(token_beside),
        })
    }

    /// The name of the context that is used; `None` for a kubeconfig without one, and in a pod.
    pub(crate) fn context(&self) -> Option<String> {
        let of_file = || match &self.kubeconfig {
            Some(file) => read_file(file).ok(),
            None => usual_kubeconfig().ok(),
        };
        self.context.clone().or_else(|| of_file()?.current_context)
    }

    /// The kubeconfig, if a flag or the environment names one.
    fn file(&self) -> Option<PathBuf> {
        let of_environment = || match usual_files(std::env::var_os("KUBECONFIG").as_deref(), None).as_slice()
        {
            [file] => Some(file.clone()),
            _ => None,
        };
        self.kubeconfig.clone().or_else(of_environment)
    }

    /// The server, and how it is reached.
    pub(crate) async fn server(&self) -> anyhow::Result<Server> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let (server, failed) = match &self.kubeconfig {
            Some(file) => {
                let server = of_file(file, &options, &Environment::of_process()).await;
                (server, "failed to use --kubeconfig")
            }
            None => (usual(&options).await, NOT_FOUND),
        };
        server.map_err(|error| Problem::unreachable(failed, error).into())
    }
}

/// The token beside a kubeconfig, if there is one: in `NAME.token` beside `NAME.kubeconfig`, as `nephele workshop class` writes
/// them. In a folder where others may write, a file of theirs does not count, nor a link.
fn token_beside(kubeconfig: &Path) -> Option<String> {
    kubeconfig
        .extension()
        .filter(|extension| *extension == "kubeconfig")?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let token = rustix::fs::open(kubeconfig.with_extension("token"), flags, Mode::empty()).ok()?;
    let token = File::from(token);
    let found = token.metadata().ok()?;
    let is_of_its_owner = found.uid() == fs::metadata(kubeconfig).ok()?.uid();
    if !found.is_file() || !is_of_its_owner {
        return None;
    }
    let mut text = String::new();
    token.take(TOKEN_MAX).read_to_string(&mut text).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

impl Access {
    /// Tells who may not list something in all namespaces that only the namespace of their context is shown.
    pub(crate) fn tell_of_one_namespace(&self, what: &str) {
        eprintln!(
            "{what} shows namespace {} alone: your account may not list everything in all namespaces.",
            self.namespace
        );
    }

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
        let mut resources = found
            .resources_by_stability()
            .into_iter()
            .map(|(resource, _)| resource);
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

/// A kind that the management cluster does not have.
pub(crate) fn not_installed(group: &str, kind: &str) -> Problem {
    let message =
        format!("the management cluster has no {kind} of {group}; is the provider installed there?");
    Problem::new(Exit::NotFound, message)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_token_lies_beside_the_kubeconfig_of_the_same_name_and_is_no_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("written");
            path
        };
        let kubeconfig = write("workshop-07.kubeconfig", "");
        assert_eq!(token_beside(&kubeconfig), None);
        let token = write("workshop-07.token", " secret\n");
        assert_eq!(token_beside(&kubeconfig).as_deref(), Some("secret"));
        write("workshop-07.token", "\n");
        assert_eq!(token_beside(&kubeconfig), None);
        // One for the API server, beside a kubeconfig that no command of ours has written.
        write("config.token", "other");
        assert_eq!(token_beside(&write("config", "")), None);
        assert_eq!(token_beside(&write("config.yaml", "")), None);
        fs::remove_file(&token).expect("removed");
        symlink(folder.path().join("config.token"), &token).expect("linked");
        assert_eq!(token_beside(&kubeconfig), None);
    }
}
