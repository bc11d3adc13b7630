//! Addresses and links of the node.

use std::{net::IpAddr, process::Command};

use anyhow::Context;

use crate::command::capture;

/// Addresses of the cluster: private ones that neither kind nor kubeadm use by default.
pub(super) struct Network;

impl Network {
    /// The node's own address, on its own link.
    pub(super) const NODE: &str = "10.251.0.1";
    pub(super) const PODS: &str = "10.245.0.0/24";
    pub(super) const SERVICES: &str = "10.97.0.0/16";
    pub(super) const API_SERVICE: &str = "10.97.0.1";
    pub(super) const DNS_SERVICE: &str = "10.97.0.10";
    /// The link that carries the node's address.
    const NODE_LINK: &str = "nephele0";
    /// The bridge of the pods; the bridge plug-in creates it.
    pub(super) const POD_BRIDGE: &str = "nephele-pods";

    pub(super) fn address(text: &str) -> IpAddr {
        text.parse().expect("the constants are addresses")
    }
}

pub(super) fn up() -> anyhow::Result<()> {
    carry(Network::NODE_LINK, Network::NODE)?;
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("failed to turn IP forwarding on")
}

pub(super) fn down() -> anyhow::Result<()> {
    [Network::POD_BRIDGE, Network::NODE_LINK]
        .into_iter()
        .try_for_each(remove)
}

/// Adds an address to this machine, on a new link.
pub(super) fn carry(link: &str, address: &str) -> anyhow::Result<()> {
    if !exists(link) {
        ip(&["link", "add", link, "type", "bridge"])?;
    }
    ip(&["addr", "replace", &format!("{address}/32"), "dev", link])?;
    ip(&["link", "set", link, "up"])
}

/// Removes a link, if it exists.
pub(super) fn remove(link: &str) -> anyhow::Result<()> {
    if exists(link) {
        ip(&["link", "delete", link])
    } else {
        Ok(())
    }
}

/// Whether a link exists. Asks the kernel with `ip`: /sys shows the links of the network namespace it was mounted in,
/// which may be another one.
fn exists(link: &str) -> bool {
    ip(&["link", "show", link]).is_ok()
}

fn ip(args: &[&str]) -> anyhow::Result<()> {
    capture(Command::new("ip").args(args)).map(|_| ())
}
