//! The address for what only this machine may reach.

use std::{
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener},
};

/// 127.0.0.1, or ::1 where this machine has no IPv4.
pub(crate) fn loopback() -> IpAddr {
    let v4 = IpAddr::from(Ipv4Addr::LOCALHOST);
    let v6 = IpAddr::from(Ipv6Addr::LOCALHOST);
    chosen(v4, v6, |address| TcpListener::bind((address, 0)).map(drop))
}

/// The first one, unless only the second is there. What else fails is told by whoever listens.
fn chosen(first: IpAddr, second: IpAddr, listen: impl Fn(IpAddr) -> std::io::Result<()>) -> IpAddr {
    let is_missing = |error: std::io::Error| {
        error.kind() == ErrorKind::AddrNotAvailable
            || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
    };
    if listen(first).is_err_and(is_missing) && listen(second).is_ok() {
        second
    } else {
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_ipv4_is_reached_over_ipv6() {
        let first = IpAddr::from([127, 0, 0, 1]);
        let second = IpAddr::from(Ipv6Addr::LOCALHOST);
        let of = |of_first: Option<ErrorKind>, of_second: Option<ErrorKind>| {
            chosen(first, second, |address| {
                let kind = if address == first { of_first } else { of_second };
                kind.map_or(Ok(()), |kind| Err(kind.into()))
            })
        };
        let missing = Some(ErrorKind::AddrNotAvailable);
        assert_eq!(of(None, missing), first);
        assert_eq!(of(missing, None), second);
        assert_eq!(of(missing, missing), first);
        assert_eq!(of(Some(ErrorKind::PermissionDenied), None), first);
    }
}
