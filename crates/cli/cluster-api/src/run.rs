//! The start and the end of everything.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail};
use futures::future::{join_all, select_all};
use jiff::Timestamp;
use kube::{Client, config::KubeConfigOptions};
use nephele_access::{Environment, Kinds, Server, read_file};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};
use tracing::{info, warn};

use crate::{
    binaries::Binaries,
    control_plane::ControlPlane,
    install,
    launch::{Launcher, Process},
    manager::{Addresses, Manager},
    manifests::Components,
    ports::free_addresses,
    serving::{WebhookAuthority, lead, write_certificate},
};

/// How long a process may take until it is ready.
const READY_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
/// How long one look may take.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// What to start.
#[derive(Clone)]
pub struct Wanted {
    /// The folder for data, certificates, kubeconfigs and logs.
    pub folder: PathBuf,
    /// It starts every process, so that none outlives this one.
    pub launcher: Launcher,
    /// What the files of providers hold.
    pub components: Components,
    /// The program of each provider, by clusterctl's name of it, such as `bootstrap-kubeadm`.
    pub programs: BTreeMap<String, PathBuf>,
    pub api_server: ApiServer,
    /// Further definitions, which are applied with those of the providers: an API server takes several at a time.
    pub definitions: Vec<Value>,
    /// What the environment says of proxies.
    pub environment: Environment,
}

/// Where the objects are.
#[derive(Clone)]
pub enum ApiServer {
    /// One that is started, with its etcd.
    Started(Binaries),
    /// One that runs on this machine, by its kubeconfig and with a client for it.
    Running {
        /// The managers read it, and it may ask for no input.
        kubeconfig: PathBuf,
        /// A client with its credentials.
        client: Client,
    },
}

/// A process that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Managed {
    /// What it is: `etcd`, `kube-apiserver`, or clusterctl's name of a provider.
    pub name: String,
    /// The id of the process.
    pub id: u32,
    /// The file with its output.
    pub log: PathBuf,
    /// Where a manager serves its metrics.
    pub metrics: Option<SocketAddr>,
}

/// Cluster API on this machine. Everything ends when it is dropped; [`ClusterApi::stop`] ends it in order.
pub struct ClusterApi {
    kubeconfig: PathBuf,
    processes: Vec<Process>,
    metrics: BTreeMap<String, SocketAddr>,
    /// The webhooks on an API server that stays, which would refuse every write once nothing answers them.
    webhooks: Vec<Value>,
    /// Whether the API server is one of the processes.
    has_api_server: bool,
    kinds: Kinds,
}

/// A manager with its program, its addresses and its folder.
struct Planned {
    manager: Manager,
    program: PathBuf,
    addresses: Addresses,
    folder: PathBuf,
}

/// Starts everything, and returns when every manager is ready.
///
/// # Errors
/// When a provider has no program, an object is refused, or a process ends or is not ready in time.
pub async fn start(wanted: Wanted, now: Timestamp) -> anyhow::Result<ClusterApi> {
    let Wanted {
        folder,
        launcher,
        components,
        programs,
        api_server,
        definitions,
        environment,
    } = wanted;
    let planned = plan(&components, programs, &folder)?;
    let mut objects = components.objects;
    let authority = WebhookAuthority::new(now)?;
    let serving: Vec<_> = planned
        .iter()
        .map(|planned| (&planned.manager, planned.addresses.webhooks))
        .collect();
    lead(&authority, &mut objects, &serving);
    for planned in &planned {
        write_certificate(&authority, &planned.manager, &planned.folder)?;
    }
    objects.extend(definitions);
    let (webhooks, objects): (Vec<_>, Vec<_>) =
        objects.into_iter().partition(install::is_webhook_configuration);
    let (mut processes, kubeconfig, client, started) = match api_server {
        ApiServer::Started(binaries) => {
            let mut control_plane = ControlPlane::start(&binaries, &folder, &launcher, now)?;
            let kubeconfig = control_plane.kubeconfig("management")?;
            let client = client(&kubeconfig, &environment).await?;
            answers(&client, &mut control_plane.processes, WITHOUT_ROLES).await?;
            info!("The API server takes definitions");
            let processes = std::mem::take(&mut control_plane.processes);
            (processes, kubeconfig, client, Some(control_plane))
        }
        ApiServer::Running { kubeconfig, client } => (Vec::new(), kubeconfig, client, None),
    };
    let kinds = Kinds::new(client.clone());
    install::apply(&kinds, &objects).await?;
    info!("The objects of the providers are applied");
    let first = processes.len();
    for planned in &planned {
        let kubeconfig = match &started {
            Some(control_plane) => control_plane.kubeconfig(&planned.manager.label)?,
            None => kubeconfig.clone(),
        };
        processes.push(planned.start(&launcher, &kubeconfig)?);
    }
    let deadline = Instant::now() + READY_WITHIN;
    for (planned, process) in planned.iter().zip(&mut processes[first..]) {
        ready(planned.addresses.health, process, deadline).await?;
    }
    answers(&client, &mut processes, ALL_CHECKS).await?;
    info!("The API server and the managers are ready");
    let metrics = planned
        .iter()
        .map(|planned| (planned.manager.label.clone(), planned.addresses.diagnostics));
    let running = ClusterApi {
        kubeconfig,
        metrics: metrics.collect(),
        processes,
        webhooks,
        has_api_server: started.is_some(),
        kinds,
    };
    // Only now: an API server that stays would refuse every write, should the start fail with webhooks that lead nowhere.
    match install::apply(&running.kinds, &running.webhooks).await {
        Ok(()) => Ok(running),
        // The first error is the one to show.
        Err(error) => {
            if let Err(left) = running.stop().await {
                warn!(error = %nephele_controller::chain(left.as_ref()), "Failed to remove the webhooks");
            }
            Err(error)
        }
    }
}

impl ClusterApi {
    /// The kubeconfig of an administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The processes that run.
    #[must_use]
    pub fn processes(&self) -> Vec<Managed> {
        let running = self.processes.iter().filter_map(|process| {
            Some(Managed {
                name: process.name().to_owned(),
                id: process.id()?,
                log: process.log().to_owned(),
                metrics: self.metrics.get(process.name()).copied(),
            })
        });
        running.collect()
    }

    /// Waits until a process ends, which none should.
    pub async fn ended(&mut self) -> anyhow::Error {
        if self.processes.is_empty() {
            return std::future::pending().await;
        }
        let waiting = self.processes.iter_mut().map(|process| Box::pin(process.ended()));
        select_all(waiting).await.0
    }

    /// Ends all processes. Where the API server goes with them, they are killed, because nothing of their data is kept. On one
    /// that stays, the webhooks are removed, and the managers end in an orderly way.
    ///
    /// # Errors
    /// When a webhook cannot be removed. The processes are stopped all the same.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        if self.has_api_server {
            join_all(self.processes.iter_mut().map(Process::kill)).await;
            return Ok(());
        }
        let removed = install::delete(&self.kinds, &self.webhooks).await;
        join_all(self.processes.iter_mut().map(Process::stop)).await;
        removed
    }
}

/// Gives each Deployment its program and its addresses.
fn plan(
    components: &Components,
    mut programs: BTreeMap<String, PathBuf>,
    folder: &Path,
) -> anyhow::Result<Vec<Planned>> {
    let managers = components.deployments.iter().map(Manager::read);
    let managers = managers.collect::<anyhow::Result<Vec<_>>>()?;
    let mut labels = managers.iter().map(|manager| manager.label.as_str());
    // One that is misspelt is missing under its right name, too.
    if let Some(unknown) = programs
        .keys()
        .find(|name| !labels.clone().any(|label| label == *name))
    {
        let known: Vec<_> = labels.by_ref().collect();
        bail!(
            "no file has the provider {unknown} (--run); there are {}",
            known.join(", ")
        );
    }
    let mut planned = Vec::new();
    for manager in managers {
        let Some(program) = programs.remove(&manager.label) else {
            bail!(
                "the provider {0} has no program: name it with --run {0}=FILE",
                manager.label
            );
        };
        if !program.is_file() {
            bail!("{} is not a file (--run {}=…)", program.display(), manager.label);
        }
        planned.push(Planned {
            addresses: free_addresses::<3>()?.into(),
            folder: folder.join(&manager.label),
            program,
            manager,
        });
    }
    Ok(planned)
}

impl Planned {
    fn start(&self, launcher: &Launcher, kubeconfig: &Path) -> anyhow::Result<Process> {
        let (namespace, name) = self.manager.place();
        launcher.start(&self.manager.label, &self.program, |command| {
            command
                .args(self.manager.arguments(self.addresses, &self.folder))
                .env("POD_NAMESPACE", namespace)
                .env("POD_NAME", name)
                .envs(self.manager.variables().iter().map(|(name, value)| (name, value)))
                .env("KUBECONFIG", kubeconfig);
        })
    }
}

async fn client(kubeconfig: &Path, environment: &Environment) -> anyhow::Result<Client> {
    let server = Server::of(read_file(kubeconfig)?, &KubeConfigOptions::default(), environment).await;
    let client = server.context("failed to use our kubeconfig")?.client();
    client.context("failed to set up a client")
}

/// All that an API server checks before it is ready.
const ALL_CHECKS: &str = "/readyz";
/// All but the slowest: the built-in roles, of which administrators have no need.
const WITHOUT_ROLES: &str = "/readyz?exclude=poststarthook/rbac/bootstrap-roles\
    &exclude=poststarthook/scheduling/bootstrap-system-priority-classes";

/// Waits until the checks of the API server pass.
async fn answers(client: &Client, processes: &mut [Process], checks: &str) -> anyhow::Result<()> {
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        for process in &mut *processes {
            process.check()?;
        }
        let request = http::Request::get(checks)
            .body(Vec::new())
            .expect("a valid request");
        match timeout(LOOK_MAX, client.request_text(request)).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) if Instant::now() > deadline => {
                return Err(error)
                    .with_context(|| format!("the API server is not ready after {READY_WITHIN:?}"));
            }
            Err(_) if Instant::now() > deadline => {
                bail!("the API server does not answer after {READY_WITHIN:?}")
            }
            _ => sleep(POLL).await,
        }
    }
}

/// Waits until a manager is ready.
async fn ready(at: SocketAddr, process: &mut Process, deadline: Instant) -> anyhow::Result<()> {
    loop {
        process.check()?;
        let said = match timeout(LOOK_MAX, readiness(at)).await {
            Ok(Ok(line)) if line.contains(" 200 ") => return Ok(()),
            Ok(Ok(line)) => line,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        if Instant::now() > deadline {
            bail!(
                "{} is not ready after {READY_WITHIN:?}: {said}; its log is {}",
                process.name(),
                process.log().display()
            );
        }
        sleep(POLL).await;
    }
}

/// The first line of what a manager answers when it is asked whether it is ready.
async fn readiness(at: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(at).await?;
    stream
        .write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await?;
    let mut answer = [0; 256];
    let length = stream.read(&mut answer).await?;
    let text = String::from_utf8_lossy(&answer[..length]);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_provider_has_a_program_and_every_program_a_provider() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("manager");
        std::fs::write(&program, "").expect("written");
        let deployment = json!({
            "metadata": {"name": "m", "namespace": "n", "labels": {"cluster.x-k8s.io/provider": "core"}},
        });
        let components = Components {
            deployments: vec![deployment],
            ..Components::default()
        };
        let planned = |programs: &[(&str, &Path)]| {
            let programs = programs
                .iter()
                .map(|(name, path)| ((*name).to_owned(), (*path).to_owned()));
            let planned = plan(&components, programs.collect(), folder.path());
            planned
                .map(|planned| planned.len())
                .map_err(|error| error.to_string())
        };
        assert_eq!(planned(&[("core", &program)]), Ok(1));
        let refused = |text: &str| Err(text.to_owned());
        assert_eq!(
            planned(&[]),
            refused("the provider core has no program: name it with --run core=FILE")
        );
        assert_eq!(
            planned(&[("cor", &program)]),
            refused("no file has the provider cor (--run); there are core")
        );
        assert_eq!(
            planned(&[("core", Path::new("/nowhere"))]),
            refused("/nowhere is not a file (--run core=…)")
        );
    }
}
