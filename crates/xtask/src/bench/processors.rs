//! Processor time of the programs that a cluster on this machine is made of.

use std::{collections::BTreeMap, fs};

use anyhow::Context;
use nephele_e2e::manager::{self, Provider};

/// Whose time is counted, by name of the process; our own is that of the load.
const PROGRAMS: [&str; 3] = ["kube-apiserver", "etcd", "kube-controller"];

/// Seconds of processor time so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Processors(BTreeMap<&'static str, f64>);

/// The names that [`Processors::seconds`] knows, in the order in which they are shown.
pub(super) const SHOWN: [&str; 5] = ["manager", "kube-apiserver", "etcd", "kube-controller", "load"];

impl Processors {
    /// What they have used so far, with the manager of this provider.
    pub(super) fn now(provider: Provider) -> anyhow::Result<Self> {
        let mut seconds = BTreeMap::new();
        for entry in fs::read_dir("/proc").context("failed to list processes")? {
            let entry = entry.context("failed to list processes")?;
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            // One that ends meanwhile has no name any more. Names are cut after 15 characters (proc_pid_comm(5)).
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            let Some(program) = PROGRAMS.into_iter().find(|program| *program == name.trim_end()) else {
                continue;
            };
            *seconds.entry(program).or_default() += manager::cpu_seconds(id)?;
        }
        seconds.insert("manager", manager::cpu_seconds(manager::process(provider)?)?);
        seconds.insert("load", manager::cpu_seconds(std::process::id())?);
        Ok(Self(seconds))
    }

    /// What they have used since.
    pub(super) fn since(&self, before: &Self) -> Self {
        let used = |(name, seconds): (&&'static str, &f64)| {
            (*name, seconds - before.0.get(name).copied().unwrap_or_default())
        };
        Self(self.0.iter().map(used).collect())
    }

    /// Of one of them; none if it was not found.
    pub(super) fn seconds(&self, program: &str) -> Option<f64> {
        self.0.get(program).copied()
    }
}
