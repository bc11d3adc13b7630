//! Free ports of the loopback interface.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::Context as _;

/// Ports that were free a moment ago, each another one. A process that takes one until then ends the start with a message.
pub(crate) fn free<const COUNT: usize>() -> anyhow::Result<[u16; COUNT]> {
    let mut listeners = Vec::with_capacity(COUNT);
    let mut ports = [0; COUNT];
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("failed to find a free port")?;
        *port = listener
            .local_addr()
            .context("failed to find a free port")?
            .port();
        listeners.push(listener);
    }
    Ok(ports)
}
