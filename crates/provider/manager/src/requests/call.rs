use std::fmt;

use http::{Method, Uri};

/// A request as RBAC roles describe it (kubernetes,
/// staging/src/k8s.io/apiserver/pkg/endpoints/request/requestinfo.go).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub(crate) verb: &'static str,
    /// The API group; empty for the core one.
    pub(crate) group: String,
    /// The plural, with the subresource after a slash.
    pub(crate) resource: String,
    /// The namespace; `None` for cluster-scoped objects and for lists over all namespaces.
    pub(crate) namespace: Option<String>,
}

impl Call {
    /// The call of a request; `None` when the request is not about objects.
    pub(crate) fn of(method: &Method, uri: &Uri) -> Option<Self> {
        let mut segments = uri.path().split('/').filter(|segment| !segment.is_empty());
        let group = match segments.next()? {
            "api" => String::new(),
            "apis" => segments.next()?.to_owned(),
            _ => return None,
        };
        let _version = segments.next()?;
        let mut rest: Vec<&str> = segments.collect();
        let mut namespace = None;
        // The path of a Namespace object itself has no further segments.
        if rest.len() > 2 && rest[0] == "namespaces" {
            namespace = Some(rest[1].to_owned());
            rest.drain(..2);
        }
        let (resource, has_name) = match rest.as_slice() {
            [resource] => ((*resource).to_owned(), false),
            [resource, _name] => ((*resource).to_owned(), true),
            [resource, _name, subresource, ..] => (format!("{resource}/{subresource}"), true),
            [] => return None,
        };
        let watches = || {
            let pairs = uri.query().unwrap_or_default().split('&');
            pairs
                .into_iter()
                .any(|pair| matches!(pair, "watch=true" | "watch=1"))
        };
        let verb = match (method.as_str(), has_name) {
            ("GET", _) if watches() => "watch",
            ("GET", true) => "get",
            ("GET", false) => "list",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", true) => "delete",
            ("DELETE", false) => "deletecollection",
            _ => return None,
        };
        Some(Self {
            verb,
            group,
            resource,
            namespace,
        })
    }
}

impl fmt::Display for Call {
    /// Without the namespace: `list secrets`, `patch inmemorymachines/status.infrastructure.cluster.x-k8s.io`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.group.is_empty() { "" } else { "." };
        write!(f, "{} {}{separator}{}", self.verb, self.resource, self.group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart_as_roles_do() {
        let cases = [
            ("GET /api/v1/secrets?labelSelector=a", "list secrets", None),
            (
                "GET /api/v1/secrets?watch=true&labelSelector=a",
                "watch secrets",
                None,
            ),
            (
                "GET /api/v1/namespaces/n/secrets?watch=1",
                "watch secrets",
                Some("n"),
            ),
            ("GET /api/v1/namespaces/n/secrets/s", "get secrets", Some("n")),
            ("GET /api/v1/namespaces/n", "get namespaces", None),
            ("GET /api/v1/namespaces", "list namespaces", None),
            (
                "POST /apis/events.k8s.io/v1/namespaces/n/events",
                "create events.events.k8s.io",
                Some("n"),
            ),
            (
                "PATCH /apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/n/inmemorymachines/m/status",
                "patch inmemorymachines/status.infrastructure.cluster.x-k8s.io",
                Some("n"),
            ),
            (
                "PUT /apis/coordination.k8s.io/v1/namespaces/n/leases/l",
                "update leases.coordination.k8s.io",
                Some("n"),
            ),
            (
                "DELETE /apis/cluster.x-k8s.io/v1beta2/namespaces/n/machines/m",
                "delete machines.cluster.x-k8s.io",
                Some("n"),
            ),
            (
                "DELETE /api/v1/namespaces/n/secrets",
                "deletecollection secrets",
                Some("n"),
            ),
            (
                "POST /apis/authentication.k8s.io/v1/tokenreviews",
                "create tokenreviews.authentication.k8s.io",
                None,
            ),
        ];
        for (request, expected, namespace) in cases {
            let (method, uri) = request.split_once(' ').expect("a method and a URI");
            let call = Call::of(&method.parse().expect("a method"), &uri.parse().expect("a URI"));
            let call = call.unwrap_or_else(|| panic!("{request} names objects"));
            assert_eq!(
                (call.to_string().as_str(), call.namespace.as_deref()),
                (expected, namespace),
                "{request}"
            );
        }
        for other in [
            "/version",
            "/",
            "/apis",
            "/api/v1",
            "/apis/apps/v1",
            "/openapi/v3/apis/apps/v1",
        ] {
            assert_eq!(
                Call::of(&Method::GET, &other.parse().expect("a URI")),
                None,
                "{other}"
            );
        }
    }
}
