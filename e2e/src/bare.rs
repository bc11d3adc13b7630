//! Management clusters that belong to one test, without a node: `cargo xtask cluster up --bare`.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    Look, Management,
    management::kinds,
    manager::{self, Process, Provider},
    program, until,
};

/// How long a manager may take to become ready, to lead or to end.
const MANAGER_LIMIT: Duration = Duration::from_secs(120);

/// The logs that are not those of managers.
const SERVERS: [&str; 4] = [
    "certificates.log",
    "etcd.log",
    "kube-apiserver.log",
    "kube-controller-manager.log",
];
/// How many lines of each manager's log a failed test shows.
const LOG_LINES: usize = 20;

/// The older release of Cluster API that tests of a contract use, such as `1.8` for `v1beta1`. `cargo xtask e2e` says
/// which, and has built its programs before the first test.
///
/// # Errors
///
/// When something else runs the tests.
pub fn release_of(contract: &str) -> anyhow::Result<String> {
    let variable = format!("NEPHELE_CLUSTER_API_{}", contract.to_uppercase());
    std::env::var(&variable).with_context(|| format!("{variable} is not set: run `cargo xtask e2e`"))
}

/// A management cluster: a real API server, unmodified Cluster API, and our providers, all of them processes of
/// this machine. [`Bare::down`] removes it. After a failure it says what its managers logged last, and it stays for
/// inspection, unless other tests need its processors.
pub struct Bare {
    /// The management cluster, with administrator permissions.
    pub management: Management,
    name: String,
    /// The arguments it was started with.
    more: Vec<String>,
    environment: BTreeMap<String, String>,
    is_down: bool,
}

impl Bare {
    /// Starts a management cluster. Our providers are in this namespace, or else each in its own.
    ///
    /// # Errors
    ///
    /// When it does not start, with the output.
    pub async fn up(name: &str, target_namespace: Option<&str>) -> anyhow::Result<Self> {
        let namespace = target_namespace.map(|namespace| ["--target-namespace", namespace]);
        Self::up_with(name, namespace.as_ref().map_or(&[], |args| &args[..])).await
    }

    /// Starts a management cluster with this release of Cluster API, such as `1.13`.
    ///
    /// # Errors
    ///
    /// When it does not start, with the output.
    pub async fn of_release(name: &str, cluster_api: &str) -> anyhow::Result<Self> {
        Self::up_with(name, &["--cluster-api", cluster_api]).await
    }

    /// Starts a management cluster with our runtime extension, registered with Cluster API as `nephele`.
    ///
    /// # Errors
    ///
    /// When it does not start, with the output.
    pub async fn with_runtime_extension(name: &str) -> anyhow::Result<Self> {
        Self::up_with(name, &["--runtime-extension"]).await
    }

    /// The same with this release of Cluster API, such as `1.8`.
    ///
    /// # Errors
    ///
    /// When it does not start, with the output.
    pub async fn with_runtime_extension_of_release(name: &str, cluster_api: &str) -> anyhow::Result<Self> {
        Self::up_with(name, &["--runtime-extension", "--cluster-api", cluster_api]).await
    }

    async fn up_with(name: &str, more: &[&str]) -> anyhow::Result<Self> {
        bring_up(name, more).await?;
        let environment: BTreeMap<_, _> = cluster(&["env", "--bare", name])
            .await?
            .lines()
            .filter_map(|line| line.strip_prefix("export ")?.split_once('='))
            .map(|(variable, value)| (variable.to_owned(), value.to_owned()))
            .collect();
        let kubeconfig = environment
            .get("KUBECONFIG")
            .context("the cluster has no kubeconfig")?;
        let management = Management::of(Path::new(kubeconfig)).await?;
        let more = more.iter().map(|&word| word.to_owned()).collect();
        Ok(Self {
            management,
            name: name.to_owned(),
            more,
            environment,
            is_down: false,
        })
    }

    /// Restarts managers that have ended or whose Deployments have been replaced, as a node would, and waits until all are
    /// ready. Installs our providers again if they are gone.
    ///
    /// # Errors
    ///
    /// When a manager does not become ready, with the end of its log.
    pub async fn follow_deployments(&self) -> anyhow::Result<()> {
        bring_up(
            &self.name,
            &self.more.iter().map(String::as_str).collect::<Vec<_>>(),
        )
        .await
    }

    /// Kills the manager of a provider. [`Bare::follow_deployments`] restarts it.
    ///
    /// # Errors
    ///
    /// When the provider has no manager.
    pub async fn kill_manager(&self, label: &str) -> anyhow::Result<()> {
        let file = self.state().join("pid").join(label);
        let started = std::fs::read(&file).with_context(|| format!("failed to read {}", file.display()))?;
        let started: serde_json::Value =
            serde_json::from_slice(&started).with_context(|| format!("failed to read {}", file.display()))?;
        let mut command = Command::new("kill");
        command.arg("-KILL").arg(started["pid"].to_string());
        program::run(command).await.map(drop)
    }

    /// The chart, rendered for a namespace.
    ///
    /// # Errors
    ///
    /// When the values are invalid.
    pub async fn chart(&self, namespace: &str, values: &Value) -> anyhow::Result<Vec<Value>> {
        let mut command = Command::new(variable("NEPHELE_XTASK")?);
        command.args(["chart", "--render", namespace, "--values", &values.to_string()]);
        let text = program::run(command).await?;
        let documents = serde_yaml_ng::Deserializer::from_str(&text).map(Value::deserialize);
        let objects: Result<Vec<_>, _> = documents.collect();
        let objects = objects.context("failed to read what was rendered")?;
        Ok(objects.into_iter().filter(|object| !object.is_null()).collect())
    }

    /// Starts another manager of ours with these credentials, as a process of this machine, until it is dropped.
    ///
    /// # Errors
    ///
    /// When there is no program.
    pub fn manager(&self, kubeconfig: &Path, args: &[String]) -> anyhow::Result<Manager> {
        let mut command = Command::new(variable("NEPHELE_PROGRAM")?);
        command
            .arg("manager")
            .args(args)
            .arg("--kubeconfig")
            .arg(kubeconfig);
        Manager::start(command, kubeconfig.with_extension("log"))
    }

    /// Starts one more manager of a provider, as a higher number of replicas in its Deployment would, and waits until it
    /// is ready. It runs until it is dropped, and does not serve webhooks.
    ///
    /// # Errors
    ///
    /// When it does not become ready, with its log.
    pub async fn replica(&self, provider: Provider, pod: &str) -> anyhow::Result<Manager> {
        let namespace = provider.namespace();
        let name = provider.deployment();
        let deployment = self.management.get(kinds::DEPLOYMENT, namespace, name).await?;
        let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array();
        let args = args.context("the manager has no arguments")?;
        let mut command = Command::new(variable("NEPHELE_PROGRAM")?);
        command.arg("manager").args(args.iter().filter_map(Value::as_str));
        command.env(
            "KUBECONFIG",
            self.state()
                .join("managers")
                .join(provider.label())
                .join("kubeconfig"),
        );
        command.env("POD_NAMESPACE", namespace).env("POD_NAME", pod);
        let mut manager = Manager::start(command, self.state().join("log").join(format!("{pod}.log")))?;
        until(&format!("manager {pod} to be ready"), MANAGER_LIMIT, async || {
            let is_ready = manager.is_ready().await?;
            Ok(Look::when(is_ready, || manager.log()))
        })
        .await?;
        Ok(manager)
    }

    /// The leading manager of a provider, once there is one.
    ///
    /// # Errors
    ///
    /// When no manager leads.
    pub async fn leader(&self, provider: Provider) -> anyhow::Result<Process> {
        until(
            &format!("a manager of {provider:?} to lead"),
            MANAGER_LIMIT,
            async || {
                let processes = manager::processes_of(provider, &self.state())?;
                manager::leader_among(&processes, &self.management, provider)
                    .await
                    .map(Look::Done)
            },
        )
        .await
    }

    /// Stops the management cluster and deletes its state.
    ///
    /// # Errors
    ///
    /// When a process does not end.
    pub async fn down(mut self) -> anyhow::Result<()> {
        cluster(&["down", "--bare", &self.name]).await?;
        self.is_down = true;
        Ok(())
    }

    /// The kubeconfig of its administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.environment
            .get("KUBECONFIG")
            .map(PathBuf::from)
            .unwrap_or_default()
    }

    /// The folder of its releases.
    #[must_use]
    pub fn repository(&self) -> PathBuf {
        let configuration = self
            .environment
            .get("CLUSTERCTL_CONFIG")
            .map(PathBuf::from)
            .unwrap_or_default();
        configuration.parent().map(Path::to_owned).unwrap_or_default()
    }

    /// The folder of its state.
    fn state(&self) -> PathBuf {
        self.repository().parent().map(Path::to_owned).unwrap_or_default()
    }

    /// The logs of its managers.
    fn logs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.state().join("log"))
            .into_iter()
            .flatten()
            .flatten();
        let mut logs: Vec<_> = entries
            .filter(|entry| !SERVERS.iter().any(|server| entry.file_name() == *server))
            .map(|entry| entry.path())
            .collect();
        logs.sort();
        logs
    }

    /// Runs clusterctl on the management cluster and returns the output.
    ///
    /// # Errors
    ///
    /// When it fails, with its output.
    pub async fn clusterctl(&self, args: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("clusterctl");
        command.args(args).env("KUBECONFIG", self.kubeconfig());
        command.arg("--config").arg(
            self.environment
                .get("CLUSTERCTL_CONFIG")
                .map_or("", String::as_str),
        );
        command
            .env("CLUSTER_TOPOLOGY", "true")
            .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true");
        program::run(command).await
    }

    /// Runs kubectl on the management cluster as its administrator and returns the output.
    ///
    /// # Errors
    ///
    /// When it fails, with its output.
    pub async fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(self.kubeconfig()).args(args);
        program::run(command).await
    }
}

impl Drop for Bare {
    #[expect(clippy::print_stderr, reason = "this is part of what a failed test says")]
    fn drop(&mut self) {
        if self.is_down {
            return;
        }
        for log in self.logs() {
            let text = fs::read_to_string(&log).unwrap_or_default();
            eprintln!("The last lines of {}:\n{}", log.display(), last_lines(&text));
        }
        if std::env::var_os("NEPHELE_STOP_FAILED").is_some()
            && let Ok(program) = variable("NEPHELE_XTASK")
        {
            let stop = ["cluster", "stop", "--bare", &self.name];
            let stopped = Command::new(program).args(stop).status();
            eprintln!("{}: stopped: {stopped:?}", self.name);
        }
    }
}

/// The last lines of a log, from which the cause of a failure usually shows.
fn last_lines(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

/// A manager that belongs to one test.
pub struct Manager {
    process: Child,
    addresses: [SocketAddr; 2],
    log: PathBuf,
}

impl Manager {
    /// Starts a manager that does not serve webhooks, at ports of its own.
    fn start(mut command: Command, log: PathBuf) -> anyhow::Result<Self> {
        let addresses = free_addresses()?;
        let [health, diagnostics] = &addresses;
        command.args([
            "--advertise-host=127.0.0.1",
            "--bind-address=127.0.0.1",
            "--webhook-port=0",
        ]);
        command
            .arg(format!("--health-addr={health}"))
            .arg(format!("--diagnostics-address={diagnostics}"));
        command.arg("--insecure-diagnostics=true").stdin(Stdio::null());
        let file = File::create(&log).with_context(|| format!("failed to create {}", log.display()))?;
        command
            .stderr(file.try_clone().context("failed to keep a log")?)
            .stdout(file);
        let process = command.spawn().context("failed to start a manager")?;
        Ok(Self {
            process,
            addresses,
            log,
        })
    }

    /// Ends it in an orderly way, so that it gives up its lease, and waits until it has ended.
    ///
    /// # Errors
    ///
    /// When it does not end, with its log.
    pub async fn end(mut self) -> anyhow::Result<()> {
        if !self.has_ended()? {
            manager::end(self.process.id())?;
        }
        until("the manager to end", MANAGER_LIMIT, async || {
            let has_ended = self.has_ended()?;
            Ok(Look::when(has_ended, || self.log()))
        })
        .await
    }

    fn has_ended(&mut self) -> anyhow::Result<bool> {
        Ok(self
            .process
            .try_wait()
            .context("failed to check a manager")?
            .is_some())
    }

    /// Whether it is ready.
    ///
    /// # Errors
    ///
    /// When it has ended, with its log.
    pub async fn is_ready(&mut self) -> anyhow::Result<bool> {
        if let Some(status) = self.process.try_wait().context("failed to check a manager")? {
            bail!("the manager ended: {status}\n{}", self.log());
        }
        let answer = get(self.addresses[0], "/readyz").await.unwrap_or_default();
        Ok(answer.starts_with("HTTP/1.0 200"))
    }

    /// Its metrics, as text.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub async fn metrics(&self) -> anyhow::Result<String> {
        get(self.addresses[1], "/metrics").await
    }

    /// Its log so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // The manager may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Two free addresses of this machine.
fn free_addresses() -> anyhow::Result<[SocketAddr; 2]> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("failed to find a free port");
    let listeners = [listen()?, listen()?];
    let [first, second] = listeners.map(|listener| listener.local_addr());
    Ok([first?, second?])
}

/// The answer to a request, head and body.
pub(crate) async fn get(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let ask = async {
        let mut stream = TcpStream::connect(address).await?;
        stream
            .write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes())
            .await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.map(|_| answer)
    };
    ask.await
        .with_context(|| format!("failed to get {path} of {address}"))
}

async fn bring_up(name: &str, more: &[&str]) -> anyhow::Result<()> {
    let program = variable("NEPHELE_PROGRAM")?;
    cluster(&[&["up", "--bare", name, "--program", &program], more].concat())
        .await
        .map(drop)
}

/// Runs `cargo xtask cluster`.
async fn cluster(args: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(variable("NEPHELE_XTASK")?);
    command.arg("cluster").args(args);
    program::run(command).await
}

fn variable(name: &str) -> anyhow::Result<String> {
    std::env::var(name).with_context(|| {
        format!("{name} is not set: `cargo xtask e2e` sets it where it installed the providers")
    })
}
