use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
};

use socket2::{Domain, Protocol, Socket, Type};

/// How many connections the kernel keeps that were not accepted yet, as tokio has it.
const BACKLOG: i32 = 1024;

/// Opens a listener in the form that tokio takes. The address `::` is all of IPv6 and IPv4, or those of IPv4 on a machine
/// that has no IPv6.
///
/// # Errors
/// When the system refuses the address.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let is_all = address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let listener = if is_all {
        of_both_families(address).or_else(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Err(error),
            _ => TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())),
        })?
    } else {
        TcpListener::bind(address)?
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn of_both_families(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP))?;
    // On some machines a socket of IPv6 has IPv6 alone unless it says so (`net.ipv6.bindv6only`).
    socket.set_only_v6(false)?;
    // As the standard library does: connections that have just ended do not keep the port.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use socket2::SockRef;

    use super::*;

    #[test]
    fn all_addresses_are_those_of_both_families_whatever_the_machine_says() {
        let listener = bind((Ipv6Addr::UNSPECIFIED, 0).into()).expect("a free port");
        let address = listener.local_addr().expect("bound");
        TcpStream::connect((Ipv4Addr::LOCALHOST, address.port())).expect("IPv4");
        if address.is_ipv6() {
            assert!(!SockRef::from(&listener).only_v6().expect("an option of IPv6"));
        }
        let taken = bind(address).expect_err("in use");
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    }
}
