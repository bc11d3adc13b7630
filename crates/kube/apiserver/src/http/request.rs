//! The verb and target of a request, derived from path and method as Kubernetes does
//! (`apiserver/pkg/endpoints/request/requestinfo.go`).

use http::{Method, Request};

/// A parsed request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`. For paths that are not
    /// resource paths, the method in lower case.
    pub verb: &'static str,
    /// API group, empty for the core group.
    pub group: String,
    pub version: String,
    pub namespace: String,
    /// Plural of the kind. Empty for paths that are not resource paths.
    pub resource: String,
    /// Name of the object, empty for collections.
    pub name: String,
    pub subresource: String,
}

impl RequestInfo {
    /// Parses a request.
    #[must_use]
    pub fn of<B>(request: &Request<B>) -> Self {
        let is_watch = |pair: &str| {
            pair == "watch"
                || pair
                    .strip_prefix("watch=")
                    .is_some_and(|value| !matches!(value, "false" | "0"))
        };
        let watch = request
            .uri()
            .query()
            .is_some_and(|query| query.split('&').any(is_watch));
        Self::parse(request.method(), request.uri().path(), watch)
    }

    /// Whether the path is a resource path.
    #[must_use]
    pub fn is_resource(&self) -> bool {
        !self.resource.is_empty()
    }

    /// Parses `method` and the path, which is still percent-encoded. `watch` is the query parameter of that name.
    #[must_use]
    pub fn parse(method: &Method, path: &str, watch: bool) -> Self {
        let mut info = Self {
            verb: plain_verb(method),
            ..Self::default()
        };
        let segments: Option<Vec<String>> = path
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(percent_decode)
            .collect();
        let Some(segments) = segments else { return info };
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let rest = match segments.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => {
                (*version).clone_into(&mut info.version);
                rest
            }
            ["apis", group, version, rest @ ..] if !rest.is_empty() => {
                (*group).clone_into(&mut info.group);
                (*version).clone_into(&mut info.version);
                rest
            }
            _ => return info,
        };
        // `namespaces/x` is the namespace itself, `namespaces/x/pods` is a collection in it. The subresources of a
        // namespace have known names.
        let rest = match rest {
            ["namespaces", namespace, inner, ..] if !matches!(*inner, "status" | "finalize") => {
                (*namespace).clone_into(&mut info.namespace);
                &rest[2..]
            }
            _ => rest,
        };
        match rest {
            [resource] => (*resource).clone_into(&mut info.resource),
            [resource, name] => {
                (*resource).clone_into(&mut info.resource);
                (*name).clone_into(&mut info.name);
            }
            [resource, name, subresource @ ..] => {
                (*resource).clone_into(&mut info.resource);
                (*name).clone_into(&mut info.name);
                info.subresource = subresource.join("/");
            }
            [] => {}
        }
        info.verb = match (plain_verb(method), info.name.is_empty()) {
            ("get" | "head", true) if watch => "watch",
            ("get" | "head", true) => "list",
            ("head", false) => "get",
            ("post", _) => "create",
            ("put", _) => "update",
            ("delete", true) => "deletecollection",
            (verb, _) => verb,
        };
        info
    }
}

fn plain_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "other",
    }
}

/// Decodes `%xx`. None if an escape is invalid or the bytes are not UTF-8.
#[must_use]
pub fn percent_decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            let value = digit(bytes.next())? * 16 + digit(bytes.next())?;
            out.push(u8::try_from(value).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::query::Options;

    #[test]
    fn no_pattern_takes_longer_than_its_length_allows() {
        nephele_growth::assert_linear("path of a request", 16 * 1024, &["/", "/api/v1/"], |text| {
            let _ = RequestInfo::parse(&Method::GET, text, false);
        });
        nephele_growth::assert_linear("query", 16 * 1024, &["", "labelSelector="], |text| {
            let _ = Options::parse(Some(text));
        });
    }

    fn check(method: &Method, path: &str, expected: [&str; 7]) {
        let info = RequestInfo::parse(method, path, path.contains("watch"));
        let seen = [
            info.verb,
            &info.group,
            &info.version,
            &info.namespace,
            &info.resource,
            &info.name,
            &info.subresource,
        ];
        assert_eq!(seen, expected, "{method} {path}");
    }

    #[test]
    fn paths_are_read_as_the_real_server_reads_them() {
        check(
            &Method::GET,
            "/api/v1/nodes",
            ["list", "", "v1", "", "nodes", "", ""],
        );
        check(
            &Method::GET,
            "/api/v1/nodes/a",
            ["get", "", "v1", "", "nodes", "a", ""],
        );
        check(
            &Method::PATCH,
            "/api/v1/nodes/a/status",
            ["patch", "", "v1", "", "nodes", "a", "status"],
        );
        check(
            &Method::GET,
            "/api/v1/namespaces",
            ["list", "", "v1", "", "namespaces", "", ""],
        );
        check(
            &Method::DELETE,
            "/api/v1/namespaces/x",
            ["delete", "", "v1", "", "namespaces", "x", ""],
        );
        check(
            &Method::PUT,
            "/api/v1/namespaces/x/status",
            ["update", "", "v1", "", "namespaces", "x", "status"],
        );
        check(
            &Method::POST,
            "/api/v1/namespaces/x/pods",
            ["create", "", "v1", "x", "pods", "", ""],
        );
        check(
            &Method::POST,
            "/api/v1/namespaces/x/pods/p/eviction",
            ["create", "", "v1", "x", "pods", "p", "eviction"],
        );
        check(
            &Method::DELETE,
            "/apis/apps/v1/namespaces/x/deployments",
            ["deletecollection", "apps", "v1", "x", "deployments", "", ""],
        );
        check(
            &Method::GET,
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%3Ab",
            [
                "get",
                "rbac.authorization.k8s.io",
                "v1",
                "",
                "clusterroles",
                "a:b",
                "",
            ],
        );
        check(&Method::GET, "/healthz", ["get", "", "", "", "", "", ""]);
        check(&Method::GET, "/apis/apps/v1", ["get", "", "", "", "", "", ""]);
        check(&Method::GET, "/api/v1/nodes/%zz", ["get", "", "", "", "", "", ""]);
    }
}
