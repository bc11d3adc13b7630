//! The manager's process, where it runs on this machine.

use std::{fs, process::Command};

use anyhow::{Context, bail};

const NAMESPACE: &str = "POD_NAMESPACE=nephele-system";

/// The process id of the manager.
///
/// # Errors
///
/// When there is not exactly one on this machine, or we may not see it.
pub fn process() -> anyhow::Result<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("failed to list processes")? {
        let entry = entry.context("failed to list processes")?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let is_manager =
            command.split(|byte| *byte == 0).next().is_some_and(|program| program.ends_with(b"/manager"));
        if is_manager && environment.split(|byte| *byte == 0).any(|variable| variable == NAMESPACE.as_bytes())
        {
            found.push(pid);
        }
    }
    match found.as_slice() {
        [pid] => Ok(*pid),
        [] => bail!("no manager runs on this machine, or only root can see it"),
        several => bail!("several managers run on this machine: {several:?}"),
    }
}

/// Kills a process as the kernel does when memory is short: without a word.
///
/// # Errors
///
/// When it may not be killed.
pub fn kill(pid: u32) -> anyhow::Result<()> {
    let status =
        Command::new("kill").args(["-KILL", &pid.to_string()]).status().context("failed to run kill")?;
    if status.success() { Ok(()) } else { bail!("failed to kill process {pid}: {status}") }
}

/// Resident memory of a process in KiB.
///
/// # Errors
///
/// When there is no such process.
pub fn resident_kib(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .context("failed to read the status of a process")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no resident memory")?;
    line.trim().trim_end_matches(" kB").parse().context("failed to read the resident memory")
}
