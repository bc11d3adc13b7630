//! Removes what the kubelet leaves behind: containers, their shims and networks, mounts, packet filter rules. It only
//! touches objects of the cluster's own containerd and state folder.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::Context;
use rustix::process::Signal;
use serde_json::Value;

use super::{
    images,
    layout::Layout,
    process::{Processes, signal},
};
use crate::{
    command::capture,
    wait::{self, LOOK_EVERY, Look},
};

const LIMIT: Duration = Duration::from_secs(20);

/// Ends the remaining containers and removes their networks.
pub(super) fn containers(layout: &Layout, processes: &Processes) -> anyhow::Result<()> {
    if !processes.is_running("containerd") {
        return Ok(());
    }
    let program = layout.at("bin/ctr");
    let ctr = |args: &[&str]| images::ctr(layout, &program, args);
    for id in ctr(&["containers", "list", "--quiet"])?.split_whitespace() {
        let network = network_namespace(&ctr(&["containers", "info", id])?);
        // A container without a task has ended already.
        if ctr(&["tasks", "kill", "--signal", "SIGKILL", id]).is_ok() {
            wait::until(&format!("container {id} to end"), LIMIT, LOOK_EVERY, || {
                Ok(match ctr(&["tasks", "delete", id]) {
                    Ok(_) => Look::Done(()),
                    Err(error) if error.to_string().contains("not found") => Look::Done(()),
                    Err(error) => Look::NotYet(error.to_string()),
                })
            })?;
        }
        ctr(&["containers", "delete", id])?;
        if let Some(network) = network.filter(|network| network.exists()) {
            let name = network.file_name().expect("namespaces are named by files");
            capture(Command::new("ip").args(["netns", "delete"]).arg(name))?;
        }
    }
    Ok(())
}

/// The pod network namespace in a container's record, if the container has one.
fn network_namespace(info: &str) -> Option<PathBuf> {
    let info: Value = serde_json::from_str(info).ok()?;
    let namespaces = info["Spec"]["linux"]["namespaces"].as_array()?;
    let path = namespaces
        .iter()
        .find(|namespace| namespace["type"] == "network")?["path"]
        .as_str()?;
    path.starts_with("/run/netns/").then(|| path.into())
}

/// Ends the remaining shims of the cluster's containerd.
pub(super) fn shims(layout: &Layout) -> anyhow::Result<()> {
    let socket = layout.containerd_socket();
    for pid in shims_of(&socket)? {
        signal(pid, Signal::KILL)?;
    }
    wait::until("shims to end", LIMIT, LOOK_EVERY, || {
        let left = shims_of(&socket)?;
        Ok(if left.is_empty() {
            Look::Done(())
        } else {
            Look::NotYet(format!("processes {left:?}"))
        })
    })
}

fn shims_of(socket: &Path) -> anyhow::Result<Vec<i32>> {
    let mut shims = Vec::new();
    for entry in fs::read_dir("/proc").context("failed to list processes")? {
        let entry = entry.context("failed to list processes")?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = arguments.split(|byte| *byte == 0);
        let is_shim = words
            .next()
            .is_some_and(|program| program.ends_with(b"containerd-shim-runc-v2"));
        if is_shim && words.any(|word| word == socket.as_os_str().as_encoded_bytes()) {
            shims.push(pid);
        }
    }
    Ok(shims)
}

/// Removes kube-proxy's packet filter rules. Errors are ignored, because remaining rules do no harm.
pub(super) fn proxy_rules(layout: &Layout) {
    let program = layout.at("bin/kube-proxy");
    if program.exists() && layout.at("kube-proxy.kubeconfig").exists() {
        let _ = capture(Command::new(program).arg("--cleanup"));
    }
}

/// Unmounts everything below a folder, innermost first.
pub(super) fn mounts(folder: &Path) -> anyhow::Result<()> {
    let table = fs::read_to_string("/proc/self/mountinfo").context("failed to read the mounts")?;
    for point in mount_points(&table, folder).into_iter().rev() {
        capture(Command::new("umount").arg("--lazy").arg(&point))?;
    }
    Ok(())
}

/// Mount points below a folder in the order of mounting (proc_pid_mountinfo(5), field 5).
fn mount_points(table: &str, folder: &Path) -> Vec<PathBuf> {
    let points = table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|point| point.replace("\\040", " "));
    points
        .map(PathBuf::from)
        .filter(|point| point != folder && point.starts_with(folder))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mounts_below_the_folder_are_found_in_order() {
        let table = "1 0 8:1 / / rw - ext4 a rw\n2 1 0:5 / /s/a rw - tmpfs t rw\n3 2 0:5 / /s/a/b\\040c rw - tmpfs t rw\n\
                     4 1 0:5 / /state rw - tmpfs t rw\n";
        assert_eq!(
            mount_points(table, Path::new("/s")),
            [PathBuf::from("/s/a"), PathBuf::from("/s/a/b c")]
        );
    }

    #[test]
    fn the_network_of_a_pod_is_read_from_its_record() {
        let info = |path: &str| {
            format!(
                r#"{{"Spec":{{"linux":{{"namespaces":[{{"type":"pid"}},{{"type":"network","path":"{path}"}}]}}}}}}"#
            )
        };
        assert_eq!(
            network_namespace(&info("/run/netns/cni-1")),
            Some("/run/netns/cni-1".into())
        );
        assert_eq!(network_namespace(&info("/proc/1/ns/net")), None);
    }
}
