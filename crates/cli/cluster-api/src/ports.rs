//! Free ports of this machine.

use std::{
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    ops::RangeInclusive,
    sync::atomic::{AtomicU16, Ordering},
};

use anyhow::bail;

/// Below the ports that systems give to outgoing connections (32768 and higher on Linux, 49152 on macOS): one of those may be
/// taken by a connection between the choice and the start of the process. And below the usual ports of workload clusters.
const RANGE: RangeInclusive<u16> = 10_500..=19_999;
/// How far the first choices of two processes with consecutive ids are apart: more than a run needs.
const STRIDE: u32 = 61;

/// The address on which every process listens. A manager's own health check asks its webhooks there (controller-runtime,
/// `pkg/webhook`), so no other address would do.
pub const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Addresses on which nothing listens, each with another port.
pub(crate) fn free_addresses<const COUNT: usize>() -> anyhow::Result<[SocketAddr; COUNT]> {
    Ok(free_ports()?.map(|port| SocketAddr::new(ADDRESS, port)))
}

/// Ports on which nothing listens, each another one, also over several calls. Processes of the same moment begin to look at
/// different places, so that tests can run in parallel.
///
/// # Errors
/// When all ports are taken.
pub fn free_ports<const COUNT: usize>() -> anyhow::Result<[u16; COUNT]> {
    static TRIED: AtomicU16 = AtomicU16::new(0);
    let mut ports = [0; COUNT];
    for port in &mut ports {
        let mut candidates =
            RANGE.map(|_| candidate(std::process::id(), TRIED.fetch_add(1, Ordering::Relaxed)));
        let Some(found) = candidates.find(|port| is_free(*port)) else {
            bail!(
                "no port from {} to {} is free on this machine",
                RANGE.start(),
                RANGE.end()
            );
        };
        *port = found;
    }
    Ok(ports)
}

/// The port that a process tries as its nth.
fn candidate(process: u32, nth: u16) -> u16 {
    let count = u32::from(RANGE.end() - RANGE.start()) + 1;
    let place = (process.wrapping_mul(STRIDE).wrapping_add(u32::from(nth))) % count;
    RANGE.start() + u16::try_from(place).expect("it is less than the number of ports")
}

/// Whether nothing listens on a port, on any address. Where a family of addresses is missing, nothing listens there.
fn is_free(port: u16) -> bool {
    let addresses: [IpAddr; 4] = [
        Ipv6Addr::UNSPECIFIED.into(),
        Ipv6Addr::LOCALHOST.into(),
        Ipv4Addr::UNSPECIFIED.into(),
        Ipv4Addr::LOCALHOST.into(),
    ];
    let is_taken = |address: &IpAddr| match TcpListener::bind((*address, port)) {
        Ok(_) => false,
        Err(error) => error.kind() == ErrorKind::AddrInUse,
    };
    !addresses.iter().any(is_taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_not_given() {
        let [first, second] = free_ports().expect("free ports");
        assert_ne!(first, second);
        assert!(RANGE.contains(&first) && RANGE.contains(&second));
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).expect("it is free");
        assert!(!is_free(first));
        drop(taken);
        assert!(is_free(first));
    }

    #[test]
    fn processes_of_the_same_moment_try_different_ports() {
        let tries = |process: u32| (0..STRIDE as u16).map(move |nth| candidate(process, nth));
        let ports: std::collections::BTreeSet<_> = (1_000..1_010).flat_map(tries).collect();
        assert_eq!(ports.len(), 10 * STRIDE as usize);
        assert_eq!(
            candidate(0, u16::MAX),
            10_500 + u16::try_from(65_535 % 9_500).expect("small")
        );
    }
}
