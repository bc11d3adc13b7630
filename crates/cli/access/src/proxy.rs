//! Which proxy leads to a server. Pure, apart from [`Environment::of_process`].

use std::{
    fmt,
    io::{IsTerminal as _, stdin},
};

use http::Uri;
use percent_encoding::percent_decode_str;

use crate::no_proxy::{self, NoProxy};

/// What the environment says about proxies, and whether a credential plugin may ask at a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// For servers with `https`: the variable and its value.
    https: Option<(&'static str, String)>,
    http: Option<(&'static str, String)>,
    /// For which servers there is none.
    no_proxy: String,
    /// Whether a credential plugin may read standard input: it is a terminal, and nothing else reads it.
    pub(crate) has_input: bool,
}

/// Where a proxy comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The `proxy-url` of the cluster in the kubeconfig.
    Kubeconfig,
    /// A variable of the environment.
    Variable(&'static str),
}

/// A proxy. Its text is its URL without credentials, and where it comes from.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    pub(crate) scheme: Scheme,
    /// With a port, without credentials.
    pub(crate) url: Uri,
    pub(crate) credentials: Option<(String, String)>,
    origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
    Socks,
}

/// Why a proxy cannot be used.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum ProxyError {
    /// It is not a URL with a host.
    #[error("failed to read {0} as the URL of a proxy")]
    Url(Origin),
    /// There is no such kind of proxy.
    #[error("{origin} has the scheme {scheme:?}; a proxy has http, https or socks5")]
    Scheme {
        /// Where the proxy comes from.
        origin: Origin,
        scheme: String,
    },
}

impl Environment {
    /// The environment of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let variables = Self::read(|name| std::env::var(name).ok());
        Self {
            has_input: stdin().is_terminal(),
            ..variables
        }
    }

    /// The same for a process that reads its standard input itself.
    #[must_use]
    pub fn without_input(self) -> Self {
        Self {
            has_input: false,
            ..self
        }
    }

    /// An environment with these variables. The name in capitals wins; an empty variable is none.
    #[must_use]
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: [&'static str; 2]| {
            let found = names.into_iter().filter_map(|name| Some((name, variable(name)?)));
            let mut found = found.filter(|(_, value)| !value.is_empty());
            found.next()
        };
        Self {
            https: first(["HTTPS_PROXY", "https_proxy"]),
            http: first(["HTTP_PROXY", "http_proxy"]),
            no_proxy: first(["NO_PROXY", "no_proxy"])
                .map(|(_, list)| list)
                .unwrap_or_default(),
            has_input: false,
        }
    }
}

/// The proxy through which `server` is reached, as client-go decides it: the proxy of the kubeconfig for whatever server;
/// or that of the environment, but never for the loopback interface, and not for what `NO_PROXY` excludes.
///
/// # Errors
/// When there is one, and it is not the URL of an HTTP or SOCKS5 proxy. client-go uses no proxy where the variable cannot
/// be read; a request that leaves by another way than the user wants is worse than an error.
pub fn proxy_of(
    server: &Uri,
    kubeconfig: Option<&str>,
    environment: &Environment,
) -> Result<Option<Proxy>, ProxyError> {
    if let Some(url) = kubeconfig.filter(|url| !url.is_empty()) {
        return Proxy::parse(url, Origin::Kubeconfig).map(Some);
    }
    let is_plain = server.scheme_str() == Some("http");
    let (of_scheme, default_port) = match is_plain {
        true => (&environment.http, 80),
        false => (&environment.https, 443),
    };
    let Some((name, value)) = of_scheme else {
        return Ok(None);
    };
    let host = server.host().unwrap_or_default();
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    let is_here = host.eq_ignore_ascii_case("localhost")
        || no_proxy::address(host).is_some_and(|address| address.is_loopback());
    let port = server.port_u16().unwrap_or(default_port);
    if is_here || NoProxy::parse(&environment.no_proxy).has(host, port) {
        return Ok(None);
    }
    // `proxy.example:3128` is the usual way to write it.
    let url = if value.contains("://") {
        value.trim().to_owned()
    } else {
        format!("http://{}", value.trim())
    };
    Proxy::parse(&url, Origin::Variable(name)).map(Some)
}

impl Proxy {
    fn parse(url: &str, origin: Origin) -> Result<Self, ProxyError> {
        let uri: Uri = url.parse().map_err(|_| ProxyError::Url(origin))?;
        let scheme = uri.scheme_str().unwrap_or_default().to_lowercase();
        // The schemes that hyper knows decide about TLS to the proxy; a SOCKS proxy has none.
        let (scheme, written, default_port) = match scheme.as_str() {
            "http" => (Scheme::Http, "http", 80),
            "https" => (Scheme::Https, "https", 443),
            "socks5" | "socks5h" => (Scheme::Socks, "socks5", 1080),
            _ => return Err(ProxyError::Scheme { origin, scheme }),
        };
        let authority = uri.authority().filter(|authority| !authority.host().is_empty());
        let authority = authority.ok_or(ProxyError::Url(origin))?;
        let credentials = authority.as_str().rsplit_once('@').map(|(credentials, _)| {
            let (name, password) = credentials.split_once(':').unwrap_or((credentials, ""));
            let decoded = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
            (decoded(name), decoded(password))
        });
        let port = authority.port_u16().unwrap_or(default_port);
        let url = format!("{written}://{}:{port}/", authority.host());
        let url = url.parse().map_err(|_| ProxyError::Url(origin))?;
        Ok(Self {
            scheme,
            url,
            credentials,
            origin,
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kubeconfig => formatter.write_str("proxy-url in the kubeconfig"),
            Self::Variable(name) => write!(formatter, "the variable {name}"),
        }
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.to_string();
        write!(formatter, "{} ({})", url.trim_end_matches('/'), self.origin)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(server: &str, kubeconfig: Option<&str>, variables: &[(&str, &str)]) -> String {
        let environment = Environment::read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        });
        match proxy_of(&server.parse().expect("a URL"), kubeconfig, &environment) {
            Ok(None) => "none".to_owned(),
            Ok(Some(proxy)) => match &proxy.credentials {
                None => proxy.to_string(),
                Some((name, password)) => format!("{proxy} as {name}/{password}"),
            },
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_environment_decides_as_for_client_go() {
        let proxy = ("HTTPS_PROXY", "http://proxy.example:3128");
        let by_variable = "http://proxy.example:3128 (the variable HTTPS_PROXY)";
        type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);
        let rows: [Row<'_>; 20] = [
            ("https://api.example", &[], "none"),
            ("https://api.example:6443", &[proxy], by_variable),
            ("https://127.0.0.1:6443", &[proxy], "none"),
            ("https://127.9.9.9:6443", &[proxy], "none"),
            ("https://[::1]:6443", &[proxy], "none"),
            ("https://[::ffff:127.0.0.1]:6443", &[proxy], "none"),
            ("https://localhost:6443", &[proxy], "none"),
            ("https://localhost.example:6443", &[proxy], by_variable),
            // The proxy may be on the loopback interface, and NO_PROXY has servers, not proxies.
            (
                "https://api.example",
                &[
                    ("HTTPS_PROXY", "http://127.0.0.1:9"),
                    ("NO_PROXY", "127.0.0.1,localhost"),
                ],
                "http://127.0.0.1:9 (the variable HTTPS_PROXY)",
            ),
            ("https://api.example", &[proxy, ("NO_PROXY", "example")], "none"),
            (
                "https://api.example",
                &[proxy, ("no_proxy", "api.example:443")],
                "none",
            ),
            ("https://[fd00::1]", &[proxy, ("NO_PROXY", "fd00::/16")], "none"),
            (
                "https://api.example",
                &[proxy, ("NO_PROXY", ""), ("no_proxy", "*")],
                "none",
            ),
            (
                "https://api.example",
                &[proxy, ("NO_PROXY", "///,,a b")],
                by_variable,
            ),
            ("http://api.example", &[proxy], "none"),
            (
                "http://api.example",
                &[("http_proxy", "proxy.example")],
                "http://proxy.example:80 (the variable http_proxy)",
            ),
            (
                "https://api.example",
                &[
                    ("HTTPS_PROXY", ""),
                    ("https_proxy", "SOCKS5://me:p%40ss@proxy.example"),
                ],
                "socks5://proxy.example:1080 (the variable https_proxy) as me/p@ss",
            ),
            // Whatever it is, it matters only to servers that are reached through it.
            ("https://127.0.0.1", &[("HTTPS_PROXY", "://")], "none"),
            (
                "https://api.example",
                &[("HTTPS_PROXY", "http://")],
                "failed to read the variable HTTPS_PROXY as the URL of a proxy",
            ),
            (
                "https://api.example",
                &[("HTTPS_PROXY", "ftp://proxy.example")],
                "the variable HTTPS_PROXY has the scheme \"ftp\"; a proxy has http, https or socks5",
            ),
        ];
        for (server, variables, expected) in rows {
            assert_eq!(
                decided(server, None, variables),
                expected,
                "{server} with {variables:?}"
            );
        }
    }

    #[test]
    fn the_kubeconfig_decides_for_every_server_and_before_the_environment() {
        let variables = [("HTTPS_PROXY", "http://other.example"), ("NO_PROXY", "*")];
        let rows = [
            (
                "https://127.0.0.1:6443",
                "http://a:b@proxy.example:1",
                "http://proxy.example:1 (proxy-url in the kubeconfig) as a/b",
            ),
            (
                "https://api.example",
                "socks5://[fd00::1]",
                "socks5://[fd00::1]:1080 (proxy-url in the kubeconfig)",
            ),
            (
                "https://api.example",
                "https://proxy.example",
                "https://proxy.example:443 (proxy-url in the kubeconfig)",
            ),
            (
                "https://api.example",
                "proxy.example:1",
                "proxy-url in the kubeconfig has the scheme \"\"; a proxy has http, https or socks5",
            ),
            (
                "https://api.example",
                "a b",
                "failed to read proxy-url in the kubeconfig as the URL of a proxy",
            ),
            // An empty one is none.
            ("https://api.example", "", "none"),
        ];
        for (server, url, expected) in rows {
            assert_eq!(
                decided(server, Some(url), &variables),
                expected,
                "{server} with {url:?}"
            );
        }
    }
}
