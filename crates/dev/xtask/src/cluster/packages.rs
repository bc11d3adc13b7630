//! Packages of the distribution.

use std::{path::Path, process::Command};

use anyhow::{Context, bail};

use crate::command::{is_installed, show};

/// Programs or files, with their Debian packages.
const PACKAGES: [(&str, &str); 6] = [
    ("runc", "runc"),
    ("/usr/lib/cni/bridge", "containernetworking-plugins"),
    ("iptables", "iptables"),
    ("ip", "iproute2"),
    ("buildah", "buildah"),
    ("umount", "mount"),
];

/// Installs missing packages as root on Debian or a relative of it; otherwise reports them.
pub(super) fn install(with_node: bool) -> anyhow::Result<()> {
    if !is_installed("go") {
        bail!("Go is not installed: the cluster's programs are built from their Go modules");
    }
    if !with_node {
        return Ok(());
    }
    let root = rustix::process::geteuid().is_root();
    if !root {
        bail!(
            "running containers needs root: run as root, or with --no-node for an API server without a node"
        );
    }
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    if !is_installed("apt-get") {
        bail!("not installed: {} (the names are Debian's)", missing.join(", "));
    }
    println!("Installing {}", missing.join(", "));
    let apt = |args: &[&str]| {
        show(
            Command::new("apt-get")
                .arg("-qq")
                .args(args)
                .env("DEBIAN_FRONTEND", "noninteractive"),
        )
    };
    apt(&["update"]).context("failed to update the package lists")?;
    let install = ["install", "-y", "--no-install-recommends"]
        .into_iter()
        .chain(missing)
        .collect::<Vec<_>>();
    apt(&install)?;
    match self::missing().as_slice() {
        [] => Ok(()),
        missing => bail!("still not installed: {}", missing.join(", ")),
    }
}

fn missing() -> Vec<&'static str> {
    let is_there = |what: &str| {
        if what.starts_with('/') {
            Path::new(what).exists()
        } else {
            is_installed(what)
        }
    };
    PACKAGES
        .into_iter()
        .filter(|(what, _)| !is_there(what))
        .map(|(_, package)| package)
        .collect()
}
