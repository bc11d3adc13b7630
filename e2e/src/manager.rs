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

/// Processor time a process has used, in seconds.
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

/// What user space sees, whatever the kernel's own tick is (USER_HZ, time(7)).
const TICKS_PER_SECOND: f64 = 100.0;

/// Time in user and in kernel mode (proc_pid_stat(5), fields 14 and 15), read past a name with any characters in it.
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
