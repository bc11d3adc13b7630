//! CPU time of the programs that make up a cluster on this machine.

use std::{collections::BTreeMap, fs};

use anyhow::Context;
use nephele_e2e::manager;

/// The programs, by process name. This process, which is the load, is not among them.
const PROGRAMS: [&str; 3] = ["kube-apiserver", "etcd", "kube-controller"];

/// Seconds of CPU time so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Processors(BTreeMap<&'static str, f64>);

/// The name of the busy time of the whole machine. The table shows the part of it that belongs to no listed program.
const BUSY: &str = "others";
const IDLE: &str = "idle";

/// The names that [`Processors::seconds`] knows, in the order of the table.
pub(super) const SHOWN: [&str; 7] = [
    "manager",
    "kube-apiserver",
    "etcd",
    "kube-controller",
    "load",
    BUSY,
    IDLE,
];

impl Processors {
    /// CPU time so far, with this process as the manager.
    pub(super) fn now(manager: u32) -> anyhow::Result<Self> {
        let mut seconds = BTreeMap::new();
        for (program, id) in programs()? {
            *seconds.entry(program).or_default() += manager::cpu_seconds(id)?;
        }
        seconds.insert("manager", manager::cpu_seconds(manager)?);
        seconds.insert("load", manager::cpu_seconds(std::process::id())?);
        let stat = fs::read_to_string("/proc/stat").context("failed to read the times of the machine")?;
        let (busy, idle) = machine(&stat).context("failed to read the times of the machine")?;
        let known: f64 = seconds.values().sum();
        seconds.insert(BUSY, busy - known);
        seconds.insert(IDLE, idle);
        Ok(Self(seconds))
    }

    /// CPU time since then.
    pub(super) fn since(&self, before: &Self) -> Self {
        let used = |(name, seconds): (&&'static str, &f64)| {
            (*name, seconds - before.0.get(name).copied().unwrap_or_default())
        };
        Self(self.0.iter().map(used).collect())
    }

    /// The time of one program; `None` if it was not found.
    pub(super) fn seconds(&self, program: &str) -> Option<f64> {
        self.0.get(program).copied()
    }
}

/// The processes of the programs.
fn programs() -> anyhow::Result<Vec<(&'static str, u32)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("failed to list processes")? {
        let entry = entry.context("failed to list processes")?;
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process that has ended meanwhile has no name. Names are cut after 15 characters (proc_pid_comm(5)).
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        found.extend(
            PROGRAMS
                .into_iter()
                .find(|program| *program == name.trim_end())
                .map(|program| (program, id)),
        );
    }
    Ok(found)
}

/// Resident memory of a program in MiB: of all its processes.
pub(super) fn resident_mib(program: &str) -> anyhow::Result<f64> {
    let its = programs()?.into_iter().filter(|(name, _)| *name == program);
    let kib = its
        .map(|(_, id)| manager::resident_kib(id))
        .sum::<anyhow::Result<u64>>()?;
    Ok(kib as f64 / 1024.0)
}

/// Seconds that all CPUs together were busy and idle (proc_stat(5): user, nice, system, idle, iowait, irq, softirq,
/// steal, in USER_HZ of which there are 100 a second).
fn machine(stat: &str) -> Option<(f64, f64)> {
    let times = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace()
        .take(8)
        .map(str::parse::<u64>);
    let [user, nice, system, idle, iowait, irq, softirq, steal] =
        times.collect::<Result<Vec<_>, _>>().ok()?.try_into().ok()?;
    let seconds = |ticks: u64| ticks as f64 / 100.0;
    Some((
        seconds(user + nice + system + irq + softirq + steal),
        seconds(idle + iowait),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_the_machine_is_in_use_or_not() {
        let stat = "cpu  100 200 300 1000 50 1 2 3 7 9\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(machine(stat), Some((6.06, 10.5)));
    }
}
