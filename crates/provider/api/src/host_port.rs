//! A host and a port as one text.

use std::fmt;

/// Writes `host:port`, and an IPv6 address in brackets (RFC 3986, section 3.2.2).
pub(crate) fn write(f: &mut fmt::Formatter<'_>, host: &str, port: i32) -> fmt::Result {
    if host.contains(':') {
        write!(f, "[{host}]:{port}")
    } else {
        write!(f, "{host}:{port}")
    }
}

#[cfg(test)]
mod tests {
    use crate::{core::Endpoint, infrastructure::v1beta2::ControlPlaneEndpoint};

    #[test]
    fn an_ipv6_address_is_in_brackets_before_its_port() {
        for (host, text) in [
            ("10.0.0.4", "10.0.0.4:6443"),
            ("::1", "[::1]:6443"),
            ("a.b", "a.b:6443"),
        ] {
            let host = host.to_owned();
            assert_eq!(
                Endpoint {
                    host: host.clone(),
                    port: 6443
                }
                .to_string(),
                text
            );
            assert_eq!(ControlPlaneEndpoint { host, port: 6443 }.to_string(), text);
        }
    }
}
