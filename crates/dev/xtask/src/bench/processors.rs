//! CPU time of the programs that make up a cluster on this machine.

use std::{collections::BTreeMap, fs};

use anyhow::Context;
use nephele_e2e::manager;

use crate::machine::Times;

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
        let Times { busy, idle } = Times::now()?;
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
