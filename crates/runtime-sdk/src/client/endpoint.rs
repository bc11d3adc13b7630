//! Where an extension is: a URL or a Service.

use std::{fmt, time::Duration};

use http::{
    Uri,
    uri::{Authority, InvalidUri, Scheme},
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::wire::{self, Bytes};

/// How an extension is reached (Cluster API, `extensionconfig_types.go`): by a URL or as a Service of the cluster, and
/// what its certificate is judged by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientConfig {
    /// `https://host[:port][/path][?query]`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// The Service, instead of the URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceReference>,
    /// The certificate authorities that the extension's certificate may come from, in PEM; those of the system when
    /// there are none.
    #[serde(skip_serializing_if = "Bytes::is_empty")]
    pub ca_bundle: Bytes,
}

/// A Service of the cluster that the caller runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What the paths of hooks begin with, from `/` on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Its port, 443 when nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
}

impl ServiceReference {
    /// Whether anything is said.
    fn is_defined(&self) -> bool {
        *self != Self::default()
    }
}

/// Why no address comes of a [`ClientConfig`].
#[derive(Debug, Error)]
pub enum EndpointError {
    /// There is neither.
    #[error("neither a service nor a url is given")]
    Neither,
    /// There are both.
    #[error("both a service and a url are given")]
    Both,
    /// The URL is none.
    #[error("the url {url:?} is not one")]
    Url {
        /// What was given.
        url: String,
        /// The cause.
        #[source]
        source: InvalidUri,
    },
    /// The URL has no host.
    #[error("the url {0:?} has no host")]
    Host(String),
    /// The URL has a user in it.
    #[error("a url with a user in it is not called")]
    User,
    /// The URL is not one of HTTPS.
    #[error("expected the scheme https, not {0:?}")]
    Scheme(String),
    /// The Service is none.
    #[error("service {namespace}/{name} is not a name of a Service")]
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The port is none.
    #[error("{0} is not a port from 1 to 65535")]
    Port(i64),
    /// The path is none.
    #[error("the path {0:?} is not one that begins with a slash")]
    Path(String),
}

/// The address of an extension, checked.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    authority: Authority,
    /// The path that those of hooks are appended to, without a slash at its end.
    path: String,
    query: Option<String>,
}

impl Endpoint {
    /// The address that a configuration says.
    ///
    /// # Errors
    /// When it says none, or one that cannot be called.
    pub fn new(config: &ClientConfig) -> Result<Self, EndpointError> {
        match config.service.as_ref().filter(|service| service.is_defined()) {
            Some(_) if !config.url.is_empty() => Err(EndpointError::Both),
            Some(service) => Self::of_service(service),
            None if config.url.is_empty() => Err(EndpointError::Neither),
            None => Self::of_url(&config.url),
        }
    }

    fn of_service(service: &ServiceReference) -> Result<Self, EndpointError> {
        let ServiceReference { namespace, name, path, port } = service;
        if !wire::is_dns_label(namespace) || !wire::is_dns_label(name) {
            return Err(EndpointError::Service { namespace: namespace.clone(), name: name.clone() });
        }
        let host = format!("{name}.{namespace}.svc");
        let authority = match port {
            None => host,
            Some(port) if (1..=65535).contains(port) => format!("{host}:{port}"),
            Some(port) => return Err(EndpointError::Port((*port).into())),
        };
        let authority = authority.parse().expect("labels and a port are an authority");
        let parsed = path.parse::<http::uri::PathAndQuery>();
        if !path.is_empty() && (!path.starts_with('/') || parsed.is_err()) {
            return Err(EndpointError::Path(path.clone()));
        }
        let (path, query) = match path.split_once('?') {
            None => (path.as_str(), None),
            Some((path, query)) => (path, Some(query.to_owned())),
        };
        Ok(Self { authority, path: clean(path), query })
    }

    fn of_url(url: &str) -> Result<Self, EndpointError> {
        let uri: Uri = url.parse().map_err(|source| EndpointError::Url { url: url.to_owned(), source })?;
        if uri.scheme() != Some(&Scheme::HTTPS) {
            return Err(EndpointError::Scheme(uri.scheme_str().unwrap_or_default().to_owned()));
        }
        let authority = uri.authority().ok_or_else(|| EndpointError::Host(url.to_owned()))?;
        if authority.as_str().contains('@') {
            return Err(EndpointError::User);
        }
        if authority.host().is_empty() {
            return Err(EndpointError::Host(url.to_owned()));
        }
        let after_host = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
        if let Some(port) = after_host.strip_prefix(':')
            && !port.parse::<u16>().is_ok_and(|port| port > 0)
        {
            return Err(EndpointError::Port(port.parse().unwrap_or(0)));
        }
        Ok(Self {
            authority: authority.clone(),
            path: clean(uri.path()),
            query: uri.query().map(ToOwned::to_owned),
        })
    }

    /// Host and port, as metrics name them.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.authority.as_str()
    }

    /// The host, which the extension's certificate has to be for.
    #[must_use]
    pub fn host(&self) -> &str {
        self.authority.host()
    }

    /// The URL of a hook's path, with how long the caller waits: the extension may stop when nobody waits any more.
    ///
    /// # Errors
    /// When the path is none.
    pub fn uri(&self, hook_path: &str, timeout: Duration) -> Result<Uri, http::Error> {
        let path = clean(&format!("{}/{hook_path}", self.path));
        let query = match &self.query {
            Some(query) if !query.is_empty() => {
                format!("{query}&timeout={}", nephele_go_duration::format(timeout))
            }
            _ => format!("timeout={}", nephele_go_duration::format(timeout)),
        };
        Uri::builder()
            .scheme(Scheme::HTTPS)
            .authority(self.authority.clone())
            .path_and_query(format!("{path}?{query}"))
            .build()
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}{}", self.authority, self.path)
    }
}

/// A path as POSIX cleans it: with a slash at its beginning, none at its end, and nothing to go back over.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.iter().flat_map(|part| ["/", part]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::HookId;

    fn service(name: &str, namespace: &str, path: &str, port: Option<i32>) -> ClientConfig {
        let service =
            ServiceReference { namespace: namespace.into(), name: name.into(), path: path.into(), port };
        ClientConfig { service: Some(service), ..ClientConfig::default() }
    }

    fn url(url: &str) -> ClientConfig {
        ClientConfig { url: url.into(), ..ClientConfig::default() }
    }

    fn uri(config: &ClientConfig) -> String {
        let path = HookId::new("test.example.com", "v1", "Hook").path(Some("Name"));
        Endpoint::new(config).unwrap().uri(&path, Duration::from_secs(10)).unwrap().to_string()
    }

    /// URL-1, URL-2, URL-3.
    #[test]
    fn the_path_of_the_hook_is_appended() {
        let bundled = ClientConfig {
            ca_bundle: Bytes(b"ca".to_vec()),
            ..service("extension-service", "test1", "", Some(8443))
        };
        for (config, expected) in [
            (
                service("extension-service", "test1", "", Some(8443)),
                "https://extension-service.test1.svc:8443",
            ),
            (bundled, "https://extension-service.test1.svc:8443"),
            (service("s", "n", "", None), "https://s.n.svc"),
            (service("s", "n", "/pre/", Some(443)), "https://s.n.svc:443/pre"),
            (url("https://extension-host.com"), "https://extension-host.com"),
            (url("https://extension-host.com/"), "https://extension-host.com"),
            (url("https://h:1/pre/"), "https://h:1/pre"),
            (url("https://h/a//b/../c"), "https://h/a/c"),
            (url("https://h/../.."), "https://h"),
            (url("https://[::1]:9443/x"), "https://[::1]:9443/x"),
        ] {
            assert_eq!(uri(&config), format!("{expected}/test.example.com/v1/hook/name?timeout=10s"));
        }
        assert_eq!(uri(&url("https://h/p?a=b")), "https://h/p/test.example.com/v1/hook/name?a=b&timeout=10s");
        let empty = ClientConfig { service: Some(ServiceReference::default()), ..url("https://h") };
        assert_eq!(uri(&empty), "https://h/test.example.com/v1/hook/name?timeout=10s");
    }

    /// URL-4, and of WH-3 what the webhook refuses.
    #[test]
    fn what_cannot_be_called_is_refused() {
        let both = ClientConfig { url: "https://h".into(), ..service("s", "n", "", None) };
        for (config, expected) in [
            (ClientConfig::default(), "neither a service nor a url is given"),
            (both, "both a service and a url are given"),
            (url("http://h"), "expected the scheme https, not \"http\""),
            (url("/path"), "expected the scheme https, not \"\""),
            (url("https://user:word@h"), "a url with a user in it is not called"),
            (url("https://h:0"), "0 is not a port from 1 to 65535"),
            (url("https://h:90000"), "90000 is not a port from 1 to 65535"),
            (url("https://h h"), "the url \"https://h h\" is not one"),
            (service("s", "n", "", Some(90000)), "90000 is not a port from 1 to 65535"),
            (service("s", "n", "", Some(-1)), "-1 is not a port from 1 to 65535"),
            (service("s", "", "", None), "service /s is not a name of a Service"),
            (service("S", "n", "", None), "service n/S is not a name of a Service"),
            (
                service("s", "n", "https://example.com", None),
                "the path \"https://example.com\" is not one that begins with a slash",
            ),
            (service("s", "n", "/a b", None), "the path \"/a b\" is not one that begins with a slash"),
        ] {
            assert_eq!(Endpoint::new(&config).unwrap_err().to_string(), expected);
        }
    }
}
