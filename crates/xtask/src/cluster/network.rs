//! Addresses and links of the node.

use std::{net::IpAddr, process::Command};

use anyhow::Context;

use crate::command::capture;

/// Addresses of the cluster. They are private ones that neither kind nor kubeadm take by default.
pub(super) struct Network;

impl Network {
    /// The node's own address, on a link that exists for nothing else.
    pub(super) const NODE: &str = "10.251.0.1";
    pub(super) const PODS: &str = "10.245.0.0/24";
    pub(super) const SERVICES: &str = "10.97.0.0/16";
    pub(super) const API_SERVICE: &str = "10.97.0.1";
    pub(super) const DNS_SERVICE: &str = "10.97.0.10";
    /// The link that carries the node's address.
    const NODE_LINK: &str = "nephele0";
    /// The bridge that pods are on; the bridge plug-in creates it.
    pub(super) const POD_BRIDGE: &str = "nephele-pods";

    pub(super) fn address(text: &str) -> IpAddr {
        text.parse().expect("the constants are addresses")
    }
}

pub(super) fn up() -> anyhow::Result<()> {
    if !exists(Network::NODE_LINK) {
        ip(&["link", "add", Network::NODE_LINK, "type", "bridge"])?;
    }
    ip(&["addr", "replace", &format!("{}/32", Network::NODE), "dev", Network::NODE_LINK])?;
    ip(&["link", "set", Network::NODE_LINK, "up"])?;
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("failed to turn IP forwarding on")
}

pub(super) fn down() -> anyhow::Result<()> {
    for link in [Network::POD_BRIDGE, Network::NODE_LINK] {
        if exists(link) {
            ip(&["link", "delete", link])?;
        }
    }
    Ok(())
}

/// Asked of the kernel by `ip`: /sys shows the links of the network namespace it was mounted in, which need not be ours.
fn exists(link: &str) -> bool {
    ip(&["link", "show", link]).is_ok()
}

fn ip(args: &[&str]) -> anyhow::Result<()> {
    capture(Command::new("ip").args(args)).map(|_| ())
}
