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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files, paths};

    fn read(file: &str) -> String {
        files::read(&paths::repository().join(file)).expect("readable")
    }

    #[test]
    fn the_devcontainer_has_what_the_tests_need() {
        let container: serde_json::Value =
            serde_json::from_str(&read(".devcontainer/devcontainer.json")).expect("JSON");
        let features = &container["features"];
        let rust = features["ghcr.io/devcontainers/features/rust:1"]["version"]
            .as_str()
            .expect("text");
        assert!(
            read("rust-toolchain.toml").contains(&format!("channel = {rust:?}\n")),
            "{rust}"
        );
        let go = features["ghcr.io/devcontainers/features/go:1"]["version"]
            .as_str()
            .expect("text");
        assert!(
            read(".github/workflows/release.yaml").contains(&format!("go-version: {go:?}")),
            "{go}"
        );
        let installed = container["postCreateCommand"].as_str().expect("text");
        let installed: Vec<_> = installed.split_whitespace().collect();
        let of_tests = [
            "openssl",
            "chromium",
            "chromium-driver",
            "node-typescript",
            "python3-venv",
        ];
        let needed = PACKAGES.map(|(_, package)| package).into_iter().chain(of_tests);
        let missing: Vec<_> = needed.filter(|package| !installed.contains(package)).collect();
        assert_eq!(missing, [""; 0]);
    }
}
