//! The managers: their processes on this machine, and their leader.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt as _, path::Path, process::Command, time::Duration};

use anyhow::{Context, bail};
use serde_json::json;

use crate::{Look, Management, management::kinds, until};

/// How long managers may take to start, or to take over from a manager that died.
const LIMIT: Duration = Duration::from_secs(120);

const POD: &[u8] = b"POD_NAME=";

/// A provider with its own managers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// The provider of clusters and machines.
    Infrastructure,
    /// The provider of pools and claims.
    Ipam,
}

impl Provider {
    /// The namespace of its managers.
    #[must_use]
    pub fn namespace(self) -> &'static str {
        match self {
            Self::Infrastructure => "nephele-system",
            Self::Ipam => "capi-ipam-in-cluster-system",
        }
    }

    /// The Deployment of its managers.
    #[must_use]
    pub fn deployment(self) -> &'static str {
        match self {
            Self::Infrastructure => "nephele-controller-manager",
            Self::Ipam => "capi-ipam-in-cluster-controller-manager",
        }
    }

    /// clusterctl's name of the provider.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Infrastructure => "infrastructure-in-memory",
            Self::Ipam => "ipam-in-cluster",
        }
    }
}

/// A manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub id: u32,
    /// The pod it runs in.
    pub pod: String,
}

/// The process id of a provider's manager.
///
/// # Errors
///
/// When there is not exactly one on this machine, or it is not visible to this user.
pub fn process(provider: Provider) -> anyhow::Result<u32> {
    match processes(provider)?.as_slice() {
        [process] => Ok(process.id),
        [] => bail!("no manager of {provider:?} runs on this machine, or only root can see it"),
        several => bail!("several managers of {provider:?} run on this machine: {several:?}"),
    }
}

/// The process id of the only container of the only pod in a namespace.
///
/// # Errors
///
/// When there is not exactly one, or its process is not on this machine.
pub async fn process_in(management: &Management, namespace: &str) -> anyhow::Result<u32> {
    let pods = management.list(kinds::POD, namespace, "").await?;
    let statuses = pods.iter().flat_map(|pod| {
        pod["status"]["containerStatuses"]
            .as_array()
            .into_iter()
            .flatten()
    });
    let containers: Vec<_> = statuses
        .filter_map(|status| status["containerID"].as_str())
        .collect();
    let [container] = containers.as_slice() else {
        bail!("{} containers run in {namespace}, not one", containers.len());
    };
    let (_, id) = container
        .rsplit_once('/')
        .with_context(|| format!("{container} has no id"))?;
    for entry in fs::read_dir("/proc").context("failed to list processes")? {
        let entry = entry.context("failed to list processes")?;
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // The runtime puts the container's processes into a group with its id (cgroups(7)).
        if fs::read_to_string(entry.path().join("cgroup")).is_ok_and(|groups| groups.contains(id)) {
            return Ok(process);
        }
    }
    bail!("no process of container {id} runs on this machine, or only root can see it")
}

/// The visible managers of a provider on this machine. If `KUBECONFIG` is that of a cluster without a node, these are
/// the managers of that cluster, otherwise those in pods.
///
/// # Errors
///
/// When processes cannot be listed.
pub fn processes(provider: Provider) -> anyhow::Result<Vec<Process>> {
    let folder = std::env::var_os("KUBECONFIG").and_then(|file| Some(Path::new(&file).parent()?.to_owned()));
    let Found { in_pods, beside } = find(provider, folder.as_deref())?;
    Ok(if beside.is_empty() { in_pods } else { beside })
}

/// The visible managers of a provider on this machine whose credentials are in this folder.
///
/// # Errors
///
/// When processes cannot be listed.
pub(crate) fn processes_of(provider: Provider, folder: &Path) -> anyhow::Result<Vec<Process>> {
    Ok(find(provider, Some(folder))?.beside)
}

/// The managers of a provider on this machine.
#[derive(Default)]
struct Found {
    in_pods: Vec<Process>,
    /// Those whose credentials are in a folder.
    beside: Vec<Process>,
}

fn find(provider: Provider, folder: Option<&Path>) -> anyhow::Result<Found> {
    let namespace = format!("POD_NAMESPACE={}", provider.namespace());
    let mut found = Found::default();
    for entry in fs::read_dir("/proc").context("failed to list processes")? {
        let entry = entry.context("failed to list processes")?;
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let variables = || environment.split(|byte| *byte == 0);
        if !variables().any(|variable| variable == namespace.as_bytes()) {
            continue;
        }
        let pod = variables()
            .find_map(|variable| variable.strip_prefix(POD))
            .unwrap_or_default();
        let process = Process {
            id,
            pod: String::from_utf8_lossy(pod).into_owned(),
        };
        let mut words = command.split(|byte| *byte == 0);
        let kubeconfig = variables().find_map(|variable| variable.strip_prefix(b"KUBECONFIG="));
        match kubeconfig.map(|file| Path::new(OsStr::from_bytes(file))) {
            None if words.next().is_some_and(|program| program.ends_with(b"/manager")) => {
                found.in_pods.push(process);
            }
            Some(file) if folder.is_some_and(|folder| file.starts_with(folder)) => {
                found.beside.push(process);
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Changes the number of a provider's managers, and waits until they run and one of them leads.
///
/// # Errors
///
/// When that takes too long.
pub async fn scale(management: &Management, provider: Provider, replicas: usize) -> anyhow::Result<()> {
    let patch = json!({"spec": {"replicas": replicas}});
    management
        .patch(
            kinds::DEPLOYMENT,
            provider.namespace(),
            provider.deployment(),
            &patch,
        )
        .await?;
    settled(management, provider, replicas).await
}

/// Restarts a provider's manager with more arguments.
///
/// # Errors
///
/// When it does not start.
pub async fn add_arguments(
    management: &Management,
    provider: Provider,
    arguments: &[String],
) -> anyhow::Result<()> {
    let namespace = provider.namespace();
    let name = provider.deployment();
    let mut deployment = management.get(kinds::DEPLOYMENT, namespace, name).await?;
    let mut containers = deployment["spec"]["template"]["spec"]["containers"].take();
    let there = containers[0]["args"]
        .as_array_mut()
        .context("the manager has no arguments")?;
    for argument in arguments {
        if there.iter().all(|one| one != argument) {
            there.push(json!(argument));
        }
    }
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    management
        .patch(kinds::DEPLOYMENT, namespace, name, &patch)
        .await?;
    settled(management, provider, 1).await
}

/// Waits until a provider has this many managers, all started after the last change of its Deployment, and one leads.
async fn settled(management: &Management, provider: Provider, replicas: usize) -> anyhow::Result<()> {
    until(
        &format!("{replicas} managers of {provider:?} to run"),
        LIMIT,
        async || {
            let deployment = management
                .get(kinds::DEPLOYMENT, provider.namespace(), provider.deployment())
                .await?;
            let status = &deployment["status"];
            let counts = ["replicas", "updatedReplicas", "readyReplicas"];
            let rolled_out = status["observedGeneration"] == deployment["metadata"]["generation"]
                && counts.iter().all(|count| status[count] == json!(replicas));
            let processes = processes(provider)?;
            if !rolled_out || processes.len() != replicas {
                return Ok(Look::NotYet(format!("{processes:?}; {status}")));
            }
            leader(management, provider).await.map(|_| Look::Done(()))
        },
    )
    .await
}

/// The leading manager of a provider, by its lease.
///
/// # Errors
///
/// When no manager on this machine leads.
pub async fn leader(management: &Management, provider: Provider) -> anyhow::Result<Process> {
    leader_among(&processes(provider)?, management, provider).await
}

/// The leading manager among these processes, by its lease.
pub(crate) async fn leader_among(
    processes: &[Process],
    management: &Management,
    provider: Provider,
) -> anyhow::Result<Process> {
    let holder = holder(management, provider).await?;
    let found = processes.iter().find(|process| process.pod == holder).cloned();
    found.with_context(|| format!("the leader {holder:?} is not among {processes:?}"))
}

/// Waits until another manager leads.
///
/// # Errors
///
/// When that takes too long.
pub async fn another_leads(
    management: &Management,
    provider: Provider,
    before: &Process,
) -> anyhow::Result<()> {
    until("another manager to lead", LIMIT, async || {
        let holder = holder(management, provider).await?;
        Ok(Look::when(!holder.is_empty() && holder != before.pod, || {
            format!("{holder:?} leads")
        }))
    })
    .await
}

async fn holder(management: &Management, provider: Provider) -> anyhow::Result<String> {
    let leases = management.list(kinds::LEASE, provider.namespace(), "").await?;
    let [lease] = leases.as_slice() else {
        bail!("{} leases of {provider:?}", leases.len())
    };
    Ok(lease["spec"]["holderIdentity"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

/// Kills a process without warning, as the kernel does when memory is short.
///
/// # Errors
///
/// When it may not be killed.
pub fn kill(pid: u32) -> anyhow::Result<()> {
    signal(pid, "KILL")
}

/// Ends a process in an orderly way, as the kubelet does with the pod that is deleted.
///
/// # Errors
///
/// When it may not be ended.
pub fn end(pid: u32) -> anyhow::Result<()> {
    signal(pid, "TERM")
}

/// Suspends a process in the middle of its work, as an overloaded machine does.
///
/// # Errors
///
/// When it may not be stopped.
pub fn stall(pid: u32) -> anyhow::Result<()> {
    signal(pid, "STOP")
}

/// Resumes a suspended process.
///
/// # Errors
///
/// When there is no such process any more.
pub fn resume(pid: u32) -> anyhow::Result<()> {
    signal(pid, "CONT")
}

fn signal(pid: u32, signal: &str) -> anyhow::Result<()> {
    let arguments = [format!("-{signal}"), pid.to_string()];
    let status = Command::new("kill")
        .args(arguments)
        .status()
        .context("failed to run kill")?;
    if status.success() {
        Ok(())
    } else {
        bail!("failed to send {signal} to process {pid}: {status}")
    }
}

/// Resident memory of a process in KiB.
///
/// # Errors
///
/// When there is no such process.
pub fn resident_kib(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .context("failed to read the status of a process")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("no resident memory")?;
    line.trim()
        .trim_end_matches(" kB")
        .parse()
        .context("failed to read the resident memory")
}

/// CPU time of a process, in seconds.
///
/// # Errors
///
/// When there is no such process.
pub fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let stat =
        fs::read_to_string(format!("/proc/{pid}/stat")).context("failed to read the times of a process")?;
    cpu_ticks(&stat)
        .map(|ticks| ticks as f64 / TICKS_PER_SECOND)
        .context("failed to read the times of a process")
}

/// The ticks per second in user space, which do not depend on the kernel's own tick (USER_HZ, time(7)).
const TICKS_PER_SECOND: f64 = 100.0;

/// The time in user and in kernel mode (proc_pid_stat(5), fields 14 and 15). The process name may have any characters.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11).map(str::parse::<u64>);
    Some(fields.next()?.ok()? + fields.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_kernel_time_add_up() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194304 1 0 0 0 30 12 0 0 20 0 1 0 8765 1 1";
        assert_eq!(cpu_ticks(stat), Some(42));
    }
}
