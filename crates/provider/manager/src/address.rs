use std::{
    fmt, io,
    net::{Ipv6Addr, TcpListener, ToSocketAddrs},
    str::FromStr,
};

/// An address to listen on as Go programs write it: `:8443`, `localhost:8443`, `[::1]:8443`, `10.0.0.1:8443`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    /// `None` for all addresses of the machine.
    host: Option<String>,
    port: u16,
}

/// Why a text is not an address to listen on.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("failed to read {0:?} as host:port")]
pub struct AddressError(String);

impl FromStr for ListenAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let failed = || AddressError(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(failed)?;
        let port = port.parse().map_err(|_| failed())?;
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or_else(failed)?,
            None if host.contains(':') => return Err(failed()),
            None => host,
        };
        Ok(Self {
            host: (!host.is_empty()).then(|| host.to_owned()),
            port,
        })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            None => write!(f, ":{}", self.port),
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Some(host) => write!(f, "{host}:{}", self.port),
        }
    }
}

impl ListenAddress {
    /// A port on a host, which is an address or a name. Without a host, the port on all addresses of the machine.
    pub(crate) fn new(host: Option<String>, port: u16) -> Self {
        Self { host, port }
    }

    /// Opens the listener, in the form that tokio takes.
    pub(crate) fn bind(&self) -> io::Result<TcpListener> {
        nephele_listen::bind(match &self.host {
            Some(host) => resolve(host, self.port)?,
            None => (Ipv6Addr::UNSPECIFIED, self.port).into(),
        })
    }
}

fn resolve(host: &str, port: u16) -> io::Result<std::net::SocketAddr> {
    (host, port)
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no address for {host}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_go_writes_them() {
        let address = |host: Option<&str>, port| {
            Ok(ListenAddress {
                host: host.map(str::to_owned),
                port,
            })
        };
        let refused = |text: &str| Err(AddressError(text.to_owned()));
        let cases = [
            (":8443", address(None, 8443)),
            ("0.0.0.0:9440", address(Some("0.0.0.0"), 9440)),
            ("localhost:0", address(Some("localhost"), 0)),
            ("[::1]:9440", address(Some("::1"), 9440)),
            ("[::]:9440", address(Some("::"), 9440)),
            ("", refused("")),
            ("8443", refused("8443")),
            ("::1:8443", refused("::1:8443")),
            ("[::1:8443", refused("[::1:8443")),
            (":65536", refused(":65536")),
            ("host:", refused("host:")),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<ListenAddress>(), expected, "{text:?}");
        }
    }

    #[test]
    fn an_address_prints_as_it_was_read() {
        for text in [":8443", "localhost:1", "[::1]:9440"] {
            assert_eq!(
                text.parse::<ListenAddress>().map(|address| address.to_string()),
                Ok(text.to_owned())
            );
        }
    }
}
