//! `NO_PROXY`, as client-go reads it (`golang.org/x/net/http/httpproxy`).

use std::net::IpAddr;

use ipnet::IpNet;

/// Which servers no proxy of the environment is used for.
#[derive(Debug, PartialEq)]
pub(crate) struct NoProxy(Vec<Rule>);

#[derive(Debug, PartialEq)]
enum Rule {
    All,
    Network(IpNet),
    Address(IpAddr, Option<String>),
    Domain {
        /// With a dot in front.
        suffix: String,
        /// Whether the domain itself fits, too, and not only names in it.
        with_itself: bool,
        port: Option<String>,
    },
}

impl NoProxy {
    /// Reads a comma-separated list. An entry is `*`, an address, a network in CIDR notation, or a domain; addresses and
    /// domains may have a port. Entries of another form are skipped, as Go does.
    pub(crate) fn parse(list: &str) -> Self {
        let entries = list.split(',').map(|entry| entry.trim().to_lowercase());
        Self(entries.filter_map(|entry| Rule::parse(&entry)).collect())
    }

    /// Whether the server is reached without a proxy. The host has no brackets.
    pub(crate) fn has(&self, host: &str, port: u16) -> bool {
        let host = host.to_lowercase();
        let address = address(&host);
        self.0.iter().any(|rule| rule.fits(&host, address, port))
    }
}

impl Rule {
    fn parse(entry: &str) -> Option<Self> {
        if entry == "*" {
            return Some(Self::All);
        }
        if let Ok(network) = entry.parse() {
            return Some(Self::Network(network));
        }
        let (host, port) = split_port(entry);
        let port = port.map(str::to_owned);
        if let Some(address) = address(host) {
            return Some(Self::Address(address, port));
        }
        let host = host
            .strip_prefix("*.")
            .map_or_else(|| host.to_owned(), |domain| format!(".{domain}"));
        match host.starts_with('.') {
            _ if host.is_empty() => None,
            true => Some(Self::Domain {
                suffix: host,
                with_itself: false,
                port,
            }),
            false => Some(Self::Domain {
                suffix: format!(".{host}"),
                with_itself: true,
                port,
            }),
        }
    }

    fn fits(&self, host: &str, server: Option<IpAddr>, server_port: u16) -> bool {
        let fits_port = |port: &Option<String>| {
            port.as_ref()
                .is_none_or(|port| port.is_empty() || *port == server_port.to_string())
        };
        match self {
            Self::All => true,
            Self::Network(network) => server.is_some_and(|address| network.contains(&address)),
            Self::Address(address, port) => server == Some(*address) && fits_port(port),
            Self::Domain {
                suffix,
                with_itself,
                port,
            } => {
                let fits = host.ends_with(suffix) || (*with_itself && *host == suffix[1..]);
                fits && fits_port(port)
            }
        }
    }
}

/// An IP address; an IPv4 address in IPv6 notation is an IPv4 address.
pub(crate) fn address(host: &str) -> Option<IpAddr> {
    host.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

/// Splits `host:port` and `[address]:port`. An IPv6 address without brackets has no port.
fn split_port(entry: &str) -> (&str, Option<&str>) {
    if let Some(rest) = entry.strip_prefix('[')
        && let Some((address, rest)) = rest.split_once(']')
    {
        return (address, rest.strip_prefix(':'));
    }
    match entry.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, Some(port)),
        _ => (entry, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_excludes_what_it_excludes_for_client_go() {
        let rows = [
            ("*", &["any.example:1", "10.0.0.1:1"][..], &[][..]),
            ("x, * ,y", &["any.example:1"], &[]),
            ("", &[], &["any.example:443", "10.0.0.1:443"]),
            (" , ,:8080,", &[], &["any.example:8080"]),
            (
                "example.com",
                &["example.com:1", "a.b.example.com:2", "EXAMPLE.com:3"],
                &["notexample.com:1", "com:1"],
            ),
            (
                ".example.com",
                &["a.example.com:1"],
                &["example.com:1", "aexample.com:1"],
            ),
            (
                "*.example.com",
                &["a.example.com:1", "a.b.example.com:1"],
                &["example.com:1"],
            ),
            (
                "Example.COM:6443",
                &["a.example.com:6443", "example.com:6443"],
                &["example.com:443"],
            ),
            (
                "10.0.0.1",
                &["10.0.0.1:1", "::ffff:10.0.0.1:1"],
                &["10.0.0.2:1", "10.0.0.1.example:1"],
            ),
            ("10.0.0.1:6443", &["10.0.0.1:6443"], &["10.0.0.1:443"]),
            ("10.0.0.0/8", &["10.255.0.1:1"], &["11.0.0.1:1", "ten.example:1"]),
            ("10.1.2.3/8", &["10.255.0.1:1"], &["11.0.0.1:1"]),
            ("fd00::1", &["fd00::1:443"], &["fd00::2:443"]),
            ("[fd00::1]:6443", &["fd00::1:6443"], &["fd00::1:443"]),
            ("[fd00::1]", &["fd00::1:6443"], &["fd00::2:443"]),
            ("fd00::/16", &["fd00::9:443"], &["fd01::9:443"]),
            ("10.0.0.0/99, a.example", &["a.example:1"], &["10.0.0.1:1"]),
            // Spaces do not separate.
            ("a.example b.example", &[], &["a.example:1", "b.example:1"]),
        ];
        for (list, direct, proxied) in rows {
            let no_proxy = NoProxy::parse(list);
            for (servers, expected) in [(direct, true), (proxied, false)] {
                for server in servers {
                    let (host, port) = server.rsplit_once(':').expect("a port");
                    let port = port.parse().expect("a number");
                    assert_eq!(no_proxy.has(host, port), expected, "{list:?} and {server}");
                }
            }
        }
    }
}
