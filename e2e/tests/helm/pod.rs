//! The manager's pod.

use std::{fs, time::Duration};

use anyhow::{Context, ensure};
use nephele_e2e::{
    Look, Management,
    management::kinds,
    manager::{self, Provider},
    state, until,
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::helm::chart::NAMESPACE;

pub(crate) const LIMIT: Duration = Duration::from_secs(120);
/// The time limit of one request.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
const HEALTH: u16 = 9440;
const METRICS: u16 = 8443;

/// A running pod.
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) address: String,
}

impl Pod {
    /// Waits until only one pod exists, which runs and does not have this name.
    pub(crate) async fn other_than(management: &Management, name: &str) -> anyhow::Result<Self> {
        until("one pod of the manager to run", LIMIT, async || {
            let pods = management
                .list(kinds::POD, NAMESPACE, "control-plane=controller-manager")
                .await?;
            let [pod] = pods.as_slice() else {
                return Ok(Look::NotYet(format!("{} pods", pods.len())));
            };
            let address = pod["status"]["podIP"].as_str().unwrap_or_default();
            let running = pod["status"]["phase"] == "Running" && !address.is_empty();
            Ok(if running && state::name(pod) != name {
                Look::Done(Self {
                    name: state::name(pod).to_owned(),
                    address: address.to_owned(),
                })
            } else {
                Look::NotYet(state::line(pod))
            })
        })
        .await
    }

    /// Deletes the pod, and returns its successor.
    pub(crate) async fn replaced(self, management: &Management) -> anyhow::Result<Self> {
        management.delete(kinds::POD, NAMESPACE, &self.name).await?;
        Self::other_than(management, &self.name).await
    }

    /// The Pod object.
    pub(crate) async fn object(&self, management: &Management) -> anyhow::Result<Value> {
        management.get(kinds::POD, NAMESPACE, &self.name).await
    }

    /// Waits until it is ready.
    pub(crate) async fn ready(&self, management: &Management) -> anyhow::Result<()> {
        until("the manager to be ready", LIMIT, async || {
            let ready = state::is(&self.object(management).await?, "Ready", "True");
            Ok(Look::when(ready, || "not ready".to_owned()))
        })
        .await
        .with_context(|| format!("pod {}", self.name))
    }

    /// Waits until it leads. It is ready before, like a standby replica.
    pub(crate) async fn leads(&self, management: &Management) -> anyhow::Result<()> {
        until("the manager to lead", LIMIT, async || {
            let leases = management.list(kinds::LEASE, NAMESPACE, "").await?;
            let holders: Vec<_> = leases
                .iter()
                .map(|lease| &lease["spec"]["holderIdentity"])
                .collect();
            let leads = holders.iter().any(|holder| **holder == self.name.as_str());
            Ok(Look::when(leads, || format!("{holders:?}")))
        })
        .await
    }

    /// The pod's readiness report.
    pub(crate) async fn readiness(&self) -> anyhow::Result<String> {
        self.http(HEALTH, "/readyz?verbose").await
    }

    /// The pod's metrics.
    pub(crate) async fn metrics(&self) -> anyhow::Result<String> {
        self.http(METRICS, "/metrics").await
    }

    async fn http(&self, port: u16, path: &str) -> anyhow::Result<String> {
        let exchange = async {
            let mut stream = TcpStream::connect((self.address.as_str(), port)).await?;
            let request = format!("GET {path} HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.map(|_| answer)
        };
        let answer = timeout(ANSWER_LIMIT, exchange)
            .await
            .context("no answer in time")?;
        answer.with_context(|| format!("failed to get {path} of {}", self.address))
    }

    /// Checks in `/proc` that the security settings of the process are in effect.
    pub(crate) fn is_restricted() -> anyhow::Result<()> {
        let id = manager::process(Provider::Infrastructure)?;
        let read = |name: &str| {
            fs::read_to_string(format!("/proc/{id}/{name}")).with_context(|| format!("failed to read {name}"))
        };
        let status = read("status")?;
        let field = |name: &str| -> Vec<&str> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(|line| line.split_whitespace().collect())
                .unwrap_or_default()
        };
        let user = ["65532"; 4];
        let group = ["65532"; 4];
        ensure!(
            field("Uid:") == user && field("Gid:") == group,
            "it is {:?}",
            field("Uid:")
        );
        for capabilities in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            ensure!(
                field(capabilities) == ["0000000000000000"],
                "{capabilities} {:?}",
                field(capabilities)
            );
        }
        ensure!(field("NoNewPrivs:") == ["1"], "it may gain privileges");
        // 2 is filtered (proc_pid_status(5)).
        ensure!(field("Seccomp:") == ["2"], "no system call is filtered");
        let mounts = read("mountinfo")?;
        let root = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .find(|fields| fields[4] == "/");
        let options = root.context("no root file system")?[5].to_owned();
        ensure!(
            options.split(',').any(|option| option == "ro"),
            "the root file system is mounted {options}"
        );
        Ok(())
    }
}
