//! The address of an extension: a URL or a Service.

use std::{fmt, time::Duration};

use http::{
    Uri,
    uri::{Authority, InvalidUri, Scheme},
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::wire::{self, Bytes};

/// How an extension is reached (Cluster API, `extensionconfig_types.go`): by a URL or as a Service of the cluster, with
/// the certificate authorities to trust.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientConfig {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// The Service, instead of the URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceReference>,
    /// The certificate authorities that may have signed the extension's certificate, in PEM. If empty, those of the
    /// system.
    #[serde(skip_serializing_if = "Bytes::is_empty")]
    pub ca_bundle: Bytes,
}

/// A Service of the cluster that the caller runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceReference {
    pub namespace: String,
    pub name: String,
    /// The prefix of the hooks' paths. It begins with `/`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Its port; 443 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
}

impl ServiceReference {
    /// Whether any field is set.
    fn is_defined(&self) -> bool {
        *self != Self::default()
    }
}

/// Why a [`ClientConfig`] has no valid address.
#[derive(Debug, Error)]
pub enum EndpointError {
    /// There is neither a Service nor a URL.
    #[error("neither a service nor a url is given")]
    Neither,
    /// There are both a Service and a URL.
    #[error("both a service and a url are given")]
    Both,
    /// The URL is malformed.
    #[error("the url {url:?} is malformed")]
    Url {
        url: String,
        #[source]
        source: InvalidUri,
    },
    /// The URL has no host.
    #[error("the url {0:?} has no host")]
    Host(String),
    /// The URL contains a user.
    #[error("the url must not contain a user")]
    User,
    /// The scheme of the URL is not HTTPS.
    #[error("expected the scheme https, not {0:?}")]
    Scheme(String),
    /// The namespace or the name of the Service is invalid.
    #[error("{namespace}/{name} is not a valid name of a Service")]
    Service { namespace: String, name: String },
    /// The port is invalid.
    #[error("{0} is not a port from 1 to 65535")]
    Port(i64),
    /// The path is invalid.
    #[error("{0:?} is not a path that begins with a slash")]
    Path(String),
}

/// The validated address of an extension.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    authority: Authority,
    /// The prefix of the hooks' paths, without a slash at its end.
    path: String,
    query: Option<String>,
}

impl Endpoint {
    /// The address in a configuration.
    ///
    /// # Errors
    /// When the address is missing, invalid or cannot be called.
    pub fn new(config: &ClientConfig) -> Result<Self, EndpointError> {
        match config.service.as_ref().filter(|service| service.is_defined()) {
            Some(_) if !config.url.is_empty() => Err(EndpointError::Both),
            Some(service) => Self::of_service(service),
            None if config.url.is_empty() => Err(EndpointError::Neither),
            None => Self::of_url(&config.url),
        }
    }

    fn of_service(service: &ServiceReference) -> Result<Self, EndpointError> {
        let ServiceReference {
            namespace,
            name,
            path,
            port,
        } = service;
        if !wire::is_dns_label(namespace) || !wire::is_dns_label(name) {
            return Err(EndpointError::Service {
                namespace: namespace.clone(),
                name: name.clone(),
            });
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
        Ok(Self {
            authority,
            path: clean(path),
            query,
        })
    }

    fn of_url(url: &str) -> Result<Self, EndpointError> {
        let uri: Uri = url.parse().map_err(|source| EndpointError::Url {
            url: url.to_owned(),
            source,
        })?;
        if uri.scheme() != Some(&Scheme::HTTPS) {
            return Err(EndpointError::Scheme(
                uri.scheme_str().unwrap_or_default().to_owned(),
            ));
        }
        let authority = uri
            .authority()
            .ok_or_else(|| EndpointError::Host(url.to_owned()))?;
        if authority.as_str().contains('@') {
            return Err(EndpointError::User);
        }
        if authority.host().is_empty() {
            return Err(EndpointError::Host(url.to_owned()));
        }
        let after_host = authority
            .as_str()
            .strip_prefix(authority.host())
            .unwrap_or_default();
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

    /// Host and port, as in the labels of metrics.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.authority.as_str()
    }

    /// The host, for which the extension's certificate has to be valid.
    #[must_use]
    pub fn host(&self) -> &str {
        self.authority.host()
    }

    /// The URL of a hook's path, with the caller's timeout in its query: the extension can stop when the caller no
    /// longer waits.
    ///
    /// # Errors
    /// When the path is invalid.
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

/// A path without empty parts, `.` and `..`. It begins with a slash and does not end with one; `/` becomes empty.
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
        let service = ServiceReference {
            namespace: namespace.into(),
            name: name.into(),
            path: path.into(),
            port,
        };
        ClientConfig {
            service: Some(service),
            ..ClientConfig::default()
        }
    }

    fn url(url: &str) -> ClientConfig {
        ClientConfig {
            url: url.into(),
            ..ClientConfig::default()
        }
    }

    fn uri(config: &ClientConfig) -> String {
        let path = HookId::new("test.example.com", "v1", "Hook").path(Some("Name"));
        Endpoint::new(config)
            .unwrap()
            .uri(&path, Duration::from_secs(10))
            .unwrap()
            .to_string()
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
            assert_eq!(
                uri(&config),
                format!("{expected}/test.example.com/v1/hook/name?timeout=10s")
            );
        }
        assert_eq!(
            uri(&url("https://h/p?a=b")),
            "https://h/p/test.example.com/v1/hook/name?a=b&timeout=10s"
        );
        let empty = ClientConfig {
            service: Some(ServiceReference::default()),
            ..url("https://h")
        };
        assert_eq!(uri(&empty), "https://h/test.example.com/v1/hook/name?timeout=10s");
    }

    /// URL-4, and the refusals of WH-3.
    #[test]
    fn what_cannot_be_called_is_refused() {
        let both = ClientConfig {
            url: "https://h".into(),
            ..service("s", "n", "", None)
        };
        for (config, expected) in [
            (ClientConfig::default(), "neither a service nor a url is given"),
            (both, "both a service and a url are given"),
            (url("http://h"), "expected the scheme https, not \"http\""),
            (url("/path"), "expected the scheme https, not \"\""),
            (url("https://user:word@h"), "the url must not contain a user"),
            (url("https://h:0"), "0 is not a port from 1 to 65535"),
            (url("https://h:90000"), "90000 is not a port from 1 to 65535"),
            (url("https://h h"), "the url \"https://h h\" is malformed"),
            (
                service("s", "n", "", Some(90000)),
                "90000 is not a port from 1 to 65535",
            ),
            (
                service("s", "n", "", Some(-1)),
                "-1 is not a port from 1 to 65535",
            ),
            (service("s", "", "", None), "/s is not a valid name of a Service"),
            (
                service("S", "n", "", None),
                "n/S is not a valid name of a Service",
            ),
            (
                service("s", "n", "https://example.com", None),
                "\"https://example.com\" is not a path that begins with a slash",
            ),
            (
                service("s", "n", "/a b", None),
                "\"/a b\" is not a path that begins with a slash",
            ),
        ] {
            assert_eq!(Endpoint::new(&config).unwrap_err().to_string(), expected);
        }
    }
}
