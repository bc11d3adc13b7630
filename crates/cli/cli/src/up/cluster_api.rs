//! `nephele up --cluster-api`: Cluster API's own managers beside this process.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use jiff::Timestamp;
use nephele_access::Environment;
use nephele_cluster_api::{
    self as cluster_api, ApiServer, ClusterApi, Components, FILES_TO_BRING, Given, Launcher, Puller,
    RELEASES, Registry, Version, Wanted,
};

use super::attach::webhooks::LocalWebhooks;
use crate::{access, embedded::Folder, hold, loopback::loopback};

/// Gates of Cluster API that are off in its releases, and that the clusters of this program need.
const GATES_ON: [&str; 2] = ["CLUSTER_TOPOLOGY", "EXP_RUNTIME_SDK"];

#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster API itself")]
pub(super) struct ClusterApiArgs {
    /// Run Cluster API's own managers, in place of the stand-in; with VERSION, download what is missing.
    #[arg(long, value_name = "VERSION", require_equals = true, value_parser = Version::parse)]
    pub(super) cluster_api: Option<Option<Version>>,
    /// Where the images are [default: the registry in each Deployment]
    #[arg(
        long,
        value_name = "HOST",
        requires = "cluster_api",
        value_parser = Registry::parse
    )]
    registry: Option<Registry>,
    /// Where the releases are [default: those of Cluster API on GitHub]
    #[arg(
        long,
        value_name = "URL",
        requires = "cluster_api",
        conflicts_with = "providers"
    )]
    components_url: Option<String>,
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

/// Cluster API's managers on their API server.
pub(super) struct Managers {
    pub(super) cluster_api: ClusterApi,
    /// Our webhooks, if the API server has started with our definitions, which lead to them.
    pub(super) webhooks: Option<LocalWebhooks>,
}

impl ClusterApiArgs {
    /// Starts the managers, and an API server with our definitions unless `attach` names one.
    pub(super) async fn start(
        &self,
        attach: Option<&PathBuf>,
        environment: &Environment,
        folder: &Folder,
        now: Timestamp,
    ) -> anyhow::Result<Managers> {
        if loopback() != cluster_api::ADDRESS {
            bail!(
                "this machine has no {}, which the managers of Cluster API need: they ask their own webhooks there",
                cluster_api::ADDRESS
            );
        }
        let (components, programs) = self.managers(environment).await?;
        let webhooks = match attach {
            Some(_) => None,
            None => Some(LocalWebhooks::prepare(folder, now)?),
        };
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
            programs,
            api_server,
            definitions: match &webhooks {
                Some(webhooks) => {
                    let definitions = webhooks.definitions()?.into_iter();
                    definitions.map(serde_json::to_value).collect::<Result<_, _>>()?
                }
                None => Vec::new(),
            },
            environment: environment.clone(),
        };
        Ok(Managers {
            cluster_api: cluster_api::start(wanted, now).await?,
            webhooks,
        })
    }

    /// What the files of components hold, and the programs of their providers.
    async fn managers(
        &self,
        environment: &Environment,
    ) -> anyhow::Result<(Components, BTreeMap<String, PathBuf>)> {
        let given = self.programs()?;
        let variable = |name: &str| {
            let value = std::env::var(name).ok();
            value.or_else(|| GATES_ON.contains(&name).then(|| "true".to_owned()))
        };
        let Some(mut puller) = self.puller(environment)? else {
            return Ok((cluster_api::read(&self.providers, &variable)?, given));
        };
        let files = match self.providers.is_empty() {
            true => {
                let releases = self.components_url.as_deref().unwrap_or(RELEASES);
                puller.components(releases).await?
            }
            false => self.providers.clone(),
        };
        let components = cluster_api::read(&files, &variable)?;
        let programs = puller.programs(&components, given).await?;
        Ok((components, programs))
    }

    /// It pulls what no flag names, if there is a version.
    fn puller(&self, environment: &Environment) -> anyhow::Result<Option<Puller>> {
        let Some(version) = self.cluster_api.clone().flatten() else {
            if self.registry.is_some() || self.components_url.is_some() {
                bail!("--registry and --components-url need a version, such as --cluster-api=v1.14.2");
            }
            if self.providers.is_empty() {
                bail!(
                    "--cluster-api needs a version, such as --cluster-api=v1.14.2, or files: {FILES_TO_BRING}"
                );
            }
            return Ok(None);
        };
        let cache = cache(&|name| std::env::var_os(name))
            .context("failed to find a cache folder: set XDG_CACHE_HOME or HOME to an absolute path")?;
        Ok(Some(Puller::new(
            version,
            self.registry.clone(),
            cache,
            environment.clone(),
        )))
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

/// The folder of what is pulled. A path that is not absolute counts as none, as the XDG Base Directory Specification has it.
fn cache(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name| {
        let path = variable(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    Some(caches?.join("nephele"))
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
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        up: crate::up::UpArgs,
    }

    fn args(arguments: &[&str]) -> Result<ClusterApiArgs, clap::Error> {
        let only = Only::try_parse_from(["up"].iter().chain(arguments));
        only.map(|only| only.up.cluster_api)
    }

    async fn refused(arguments: &[&str]) -> String {
        let args = args(arguments).expect("valid");
        let managers = args.managers(&Environment::default()).await;
        managers.expect_err("something is missing").to_string()
    }

    #[test]
    fn the_version_is_a_value_that_may_be_left_out() {
        let version = |arguments: &[&str]| args(arguments).map(|args| args.cluster_api).ok();
        assert_eq!(version(&[]), Some(None));
        assert_eq!(version(&["--cluster-api"]), Some(Some(None)));
        let named = Version::parse("v1.14.2").expect("a version");
        assert_eq!(version(&["--cluster-api=v1.14.2"]), Some(Some(Some(named))));
        for arguments in [
            &["--cluster-api", "v1.14.2"][..],
            &["--cluster-api=../v1"],
            &["--registry", "mirror.example"],
            &["--cluster-api=v1", "--registry", "https://mirror.example"],
            &[
                "--cluster-api=v1",
                "--components-url",
                "https://a.example",
                "--provider",
                "a.yaml",
            ],
        ] {
            assert_eq!(version(arguments), None, "{arguments:?}");
        }
    }

    #[tokio::test]
    async fn without_a_version_the_message_says_what_to_bring() {
        let files = format!(
            "--cluster-api needs a version, such as --cluster-api=v1.14.2, or files: {FILES_TO_BRING}"
        );
        assert_eq!(refused(&["--cluster-api"]).await, files);
        assert_eq!(
            refused(&["--cluster-api", "--registry", "mirror.example"]).await,
            "--registry and --components-url need a version, such as --cluster-api=v1.14.2"
        );
    }

    #[test]
    fn what_is_pulled_is_kept_in_the_cache_folder_of_the_user() {
        let found = |variables: &[(&str, &str)]| {
            cache(&|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| value.into())
            })
        };
        let home = ("HOME", "/home/me");
        for (variables, expected) in [
            (&[home][..], Some("/home/me/.cache/nephele")),
            (&[home, ("XDG_CACHE_HOME", "/cache")], Some("/cache/nephele")),
            (&[home, ("XDG_CACHE_HOME", "")], Some("/home/me/.cache/nephele")),
            (&[("XDG_CACHE_HOME", "cache")], None),
            (&[], None),
        ] {
            assert_eq!(found(variables), expected.map(PathBuf::from), "{variables:?}");
        }
    }

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
