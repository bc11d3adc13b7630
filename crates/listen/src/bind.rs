use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// Opens a listener in the form that tokio takes. The address `::` is all of IPv6 and IPv4, or those of IPv4 on a machine
/// that has no IPv6.
///
/// # Errors
/// When the system refuses the address.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address).or_else(|error| {
        let is_all = address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        if !is_all || error.kind() == io::ErrorKind::AddrInUse {
            return Err(error);
        }
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port()))
    })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
