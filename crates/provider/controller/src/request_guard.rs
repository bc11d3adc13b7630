//! The guard between the manager and the management API: no text that a user chose becomes a part of a request's path or
//! query unchecked.
//!
//! The client library puts names into paths unchanged, so a name such as `x/status?dryRun=All` makes another request than
//! the one that was meant. The guard lets a request pass only if its path consists of the segments that requests of this
//! program have, each a DNS label or subdomain, about a resource that the program uses, and its query of parameters that it
//! uses. Without the resources, `namespaces/a/b/secrets` would be an object `secrets` of the resource `b`. The in-process
//! management API of the tests has the same guard, and fails the test.
//!
//! The guard cannot see what follows a `#`: the client library drops it before. So names from references are checked
//! where they are read, too (see [`owner_of_kind`](crate::owner_of_kind)).

use http::{Method, Request, Uri};
use kube::{Client, client::Body};
use nephele_api::names::{is_dns_label, is_dns_subdomain, shown};

/// The parameters of requests that read.
const OF_READS: [&str; 10] = [
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
];
/// The parameters of requests that write.
const OF_WRITES: [&str; 1] = ["fieldManager"];
/// The only subresource that this program writes.
const STATUS: &str = "status";

/// Why a request is not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsafeRequest {
    /// A part of the path cannot be what it stands for.
    #[error("refused to send a request: the {what} {text:?} is not a {wanted}")]
    Segment {
        /// The meaning of the part, such as `name`.
        what: &'static str,
        /// The part, at most 64 characters of it.
        text: String,
        /// What it has to be.
        wanted: &'static str,
    },
    /// The query has a parameter that this program does not use, or one twice, or a value that is not encoded.
    #[error("refused to send a request: the parameter {0:?} is not one of such a request")]
    Parameter(String),
    /// No request of this program has such a method and path.
    #[error("refused to send a request: {method} {path:?} is no request of this program")]
    Shape {
        method: Method,
        /// The path, at most 64 characters of it.
        path: String,
    },
}

impl UnsafeRequest {
    /// Whether this is why a request failed.
    #[must_use]
    pub fn caused(error: &kube::Error) -> bool {
        matches!(error, kube::Error::Service(source) if source.is::<Self>())
    }
}

/// Whether a program uses a resource, by its API group and its plural.
pub type KnownResource = fn(&str, &str) -> bool;

/// A client with the guard in front: it refuses unsafe requests before they are sent.
#[must_use]
pub fn guarded(client: Client, is_known: KnownResource) -> Client {
    let namespace = client.default_namespace().to_owned();
    let valid_until = *client.valid_until();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        let checked = check_request(request.method(), request.uri(), is_known);
        async move {
            checked.map_err(|error| kube::Error::Service(Box::new(error)))?;
            client.send(request).await
        }
    });
    Client::new(service, namespace).with_valid_until(valid_until)
}

/// Whether a request may be sent.
///
/// # Errors
/// With the part of the path or of the query that it must not have.
pub fn check_request(
    method: &Method,
    uri: &Uri,
    is_known: impl Fn(&str, &str) -> bool,
) -> Result<(), UnsafeRequest> {
    let names_object = check_path(method, uri.path(), is_known)?;
    match uri.query() {
        // The client library writes no `?` behind the name of an object that it reads, so this one was in the name.
        Some(query) if names_object && method == Method::GET => Err(UnsafeRequest::Parameter(shown(query))),
        query => check_query(method, query.unwrap_or_default()),
    }
}

/// Returns whether the path names an object.
fn check_path(
    method: &Method,
    path: &str,
    is_known: impl Fn(&str, &str) -> bool,
) -> Result<bool, UnsafeRequest> {
    let shape = || UnsafeRequest::Shape {
        method: method.clone(),
        path: shown(path),
    };
    let segments: Vec<&str> = path.strip_prefix('/').ok_or_else(shape)?.split('/').collect();
    let (group, about) = match segments.as_slice() {
        ["version" | "api" | "apis"] if method == Method::GET => return Ok(false),
        ["api", version, about @ ..] => {
            segment("version", version, is_version(version), "version")?;
            ("", about)
        }
        ["apis", group] if method == Method::GET => {
            segment("API group", group, is_dns_subdomain(group), "DNS subdomain")?;
            return Ok(false);
        }
        ["apis", group, version, about @ ..] => {
            segment("API group", group, is_dns_subdomain(group), "DNS subdomain")?;
            segment("version", version, is_version(version), "version")?;
            (*group, about)
        }
        _ => return Err(shape()),
    };
    let about = match about {
        ["namespaces", namespace, about @ ..] if !about.is_empty() => {
            segment("namespace", namespace, is_dns_label(namespace), "DNS label")?;
            about
        }
        about => about,
    };
    let (resource, name, subresource) = match about {
        [] if method == Method::GET => return Ok(false),
        [resource] => (*resource, None, None),
        [resource, name] => (*resource, Some(*name), None),
        [resource, name, subresource] => (*resource, Some(*name), Some(*subresource)),
        _ => return Err(shape()),
    };
    segment(
        "resource",
        resource,
        is_known(group, resource),
        "resource that this program uses",
    )?;
    if let Some(name) = name {
        segment("name", name, is_dns_subdomain(name), "DNS subdomain")?;
    }
    let is_known = match (method.as_str(), name, subresource) {
        ("GET", _, None) | ("POST", None, None) | ("PUT" | "PATCH" | "DELETE", Some(_), None) => true,
        ("PUT" | "PATCH", Some(_), Some(subresource)) => subresource == STATUS,
        _ => false,
    };
    if is_known {
        Ok(name.is_some())
    } else {
        Err(shape())
    }
}

fn segment(
    what: &'static str,
    text: &str,
    is_valid: bool,
    wanted: &'static str,
) -> Result<(), UnsafeRequest> {
    if is_valid {
        Ok(())
    } else {
        Err(UnsafeRequest::Segment {
            what,
            text: shown(text),
            wanted,
        })
    }
}

/// Whether the text is a version of an API, such as `v1` or `v1beta2`.
fn is_version(text: &str) -> bool {
    is_dns_label(text)
        && text
            .strip_prefix('v')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn check_query(method: &Method, query: &str) -> Result<(), UnsafeRequest> {
    let known: &[&str] = if method == Method::GET {
        &OF_READS
    } else {
        &OF_WRITES
    };
    let mut seen: Vec<&str> = Vec::new();
    // The client library begins each query with an empty pair.
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !known.contains(&key) || seen.contains(&key) || !value.bytes().all(is_encoded) {
            return Err(UnsafeRequest::Parameter(shown(key)));
        }
        seen.push(key);
    }
    Ok(())
}

/// Whether the byte may be in a value of `application/x-www-form-urlencoded`.
fn is_encoded(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"*-._+%".contains(&byte)
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use http::Response;
    use k8s_openapi::api::core::v1::Secret;
    use kube::{
        Api,
        api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams},
    };
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn refused(method: &str, path: &str) -> Option<String> {
        let uri = path.parse().expect("a URI");
        let checked = check_request(&method.parse().expect("a method"), &uri, is_known);
        checked.err().map(|error| error.to_string())
    }

    fn is_known(group: &str, resource: &str) -> bool {
        let known = [
            "as",
            "globalinclusterippools",
            "leases",
            "machines",
            "namespaces",
            "secrets",
            "tokenreviews",
        ];
        !group.starts_with("evil") && known.contains(&resource)
    }

    #[test]
    fn what_controllers_send_passes() {
        for (method, path) in [
            ("GET", "/version"),
            ("GET", "/apis"),
            ("GET", "/api/v1"),
            ("GET", "/apis/cluster.x-k8s.io"),
            ("GET", "/apis/cluster.x-k8s.io/v1beta2"),
            (
                "GET",
                "/api/v1/namespaces?&limit=500&labelSelector=a%3Db%2Cc+in+%28d%29",
            ),
            ("GET", "/api/v1/namespaces/n"),
            ("GET", "/api/v1/namespaces/n/secrets/a.b-ca"),
            (
                "GET",
                "/apis/cluster.x-k8s.io/v1beta2/machines?&watch=true&timeoutSeconds=290&allowWatchBookmarks=true&resourceVersion=1",
            ),
            ("POST", "/apis/authentication.k8s.io/v1/tokenreviews?"),
            ("POST", "/api/v1/namespaces/n/secrets?"),
            ("PUT", "/apis/coordination.k8s.io/v1/namespaces/n/leases/l?"),
            (
                "PATCH",
                "/apis/ipam.cluster.x-k8s.io/v1alpha2/globalinclusterippools/p/status?&fieldManager=nephele",
            ),
            ("DELETE", "/apis/cluster.x-k8s.io/v1beta2/namespaces/n/machines/m"),
        ] {
            assert_eq!(refused(method, path), None, "{method} {path}");
        }
    }

    #[test]
    fn what_a_name_made_of_a_path_is_refused_in_words() {
        for (method, path, error) in [
            (
                "GET",
                "/apis/g.io/v1/namespaces/a/b/ipaddresses",
                "the resource \"b\" is not a resource that this program uses",
            ),
            (
                "GET",
                "/api/v1/namespaces/n/secrets/x/y?a=-ca",
                "GET \"/api/v1/namespaces/n/secrets/x/y\" is no request of this program",
            ),
            (
                "GET",
                "/api/v1/namespaces/n/secrets/any-secret?a=-ca",
                "the parameter \"a=-ca\" is not one of such a request",
            ),
            (
                "GET",
                "/api/v1/namespaces/n/secrets/any-secret?watch=true",
                "the parameter \"watch=true\" is not one of such a request",
            ),
            (
                "GET",
                "/api/v1/namespaces/n/secrets/any-secret?",
                "the parameter \"\" is not one of such a request",
            ),
            (
                "GET",
                "/api/v1/namespaces/../secrets/a",
                "the namespace \"..\" is not a DNS label",
            ),
            (
                "GET",
                "/api/v1/namespaces//secrets/a",
                "the namespace \"\" is not a DNS label",
            ),
            (
                "GET",
                "/api/v1/namespaces/n/secrets/",
                "the name \"\" is not a DNS subdomain",
            ),
            (
                "GET",
                "/api/v1/namespaces/n/secrets/..",
                "the name \"..\" is not a DNS subdomain",
            ),
            (
                "GET",
                "/api/v1/namespaces/n/secrets/a%2fb",
                "the name \"a%2fb\" is not a DNS subdomain",
            ),
            (
                "GET",
                "/apis/evil_group/v1/namespaces/n/as/b",
                "the API group \"evil_group\" is not a DNS subdomain",
            ),
            ("GET", "/apis/g.io/1/as/b", "the version \"1\" is not a version"),
            (
                "GET",
                "/apis/g.io/v1/A/b",
                "the resource \"A\" is not a resource that this program uses",
            ),
            (
                "GET",
                "/apis/evil.io/v1/as/b",
                "the resource \"as\" is not a resource that this program uses",
            ),
            ("GET", "/logs/x", "GET \"/logs/x\" is no request of this program"),
            (
                "DELETE",
                "/apis/g.io/v1/namespaces/n/as",
                "DELETE \"/apis/g.io/v1/namespaces/n/as\" is no request of this program",
            ),
            (
                "DELETE",
                "/apis/g.io/v1/namespaces/n/as/b?dryRun=All",
                "the parameter \"dryRun\" is not one of such a request",
            ),
            (
                "PATCH",
                "/apis/g.io/v1/namespaces/n/as/b?fieldManager=x?&fieldManager=y",
                "the parameter \"fieldManager\" is not one of such a request",
            ),
            (
                "PATCH",
                "/apis/g.io/v1/namespaces/n/as/b/scale",
                "PATCH \"/apis/g.io/v1/namespaces/n/as/b/scale\" is no request of this program",
            ),
        ] {
            assert_eq!(
                refused(method, path),
                Some(format!("refused to send a request: {error}")),
                "{method} {path}"
            );
        }
    }

    /// A guarded client of an API server that counts requests and serves nothing.
    fn counted() -> (Client, Arc<AtomicUsize>) {
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let service = tower::service_fn(move |_: Request<Body>| {
            count.fetch_add(1, Ordering::Relaxed);
            async {
                Ok::<_, Infallible>(
                    Response::builder()
                        .status(404)
                        .body(Body::empty())
                        .expect("a response"),
                )
            }
        });
        (guarded(Client::new(service, "default"), is_known), sent)
    }

    #[tokio::test]
    async fn a_refused_request_is_not_sent_and_its_error_is_known_through_other_layers() {
        let (client, sent) = counted();
        let client = crate::Fence::default().guard(client);
        let api: Api<Secret> = Api::namespaced(client, "default");
        let error = api.get("x/y").await.expect_err("no name");
        assert!(UnsafeRequest::caused(&error), "{error:?}");
        assert!(
            crate::chain(&error).contains("refused to send a request"),
            "{}",
            crate::chain(&error)
        );
        let error = api.get("x").await.expect_err("served nothing");
        assert!(!UnsafeRequest::caused(&error), "{error:?}");
        assert_eq!(sent.load(Ordering::Relaxed), 1);
    }

    proptest! {
        /// Whatever the client library makes of a name and a namespace: it is the request that was meant, or it is not sent,
        /// except that the library drops what follows a `#`.
        #[test]
        fn no_name_changes_the_shape_of_a_request(
            name in prop_oneof![
                "[a-z0-9./?#%&=-]{0,12}",
                // What the guard lets pass elsewhere is what a name would use.
                "a?[?&]{1,2}(watch|limit|fieldManager|resourceVersion)?=?[a-z0-9]{0,4}[?&]?",
                "\\PC{0,8}",
                any::<String>(),
            ],
            namespace in prop_oneof![Just("default".to_owned()), "[a-z0-9./?#%&=-]{0,12}"],
            verb in 0..6,
        ) {
            let asked = Arc::new(parking_lot::Mutex::new(None));
            let noted = Arc::clone(&asked);
            let service = tower::service_fn(move |request: Request<Body>| {
                *noted.lock() = Some(request.uri().path().to_owned());
                async { Ok::<_, Infallible>(Response::builder().status(404).body(Body::empty()).expect("a response")) }
            });
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            runtime.block_on(async {
                let client = guarded(Client::new(service, "default"), is_known);
                let api: Api<Secret> = Api::namespaced(client, &namespace);
                let patch = Patch::Merge(json!({}));
                match verb {
                    0 => drop(api.get(&name).await),
                    1 => drop(api.patch(&name, &PatchParams::default(), &patch).await),
                    2 => drop(api.delete(&name, &DeleteParams::default()).await),
                    3 => drop(api.list(&ListParams::default()).await),
                    4 => drop(api.create(&PostParams::default(), &Secret::default()).await),
                    _ => drop(api.watch(&WatchParams::default(), "0").await),
                }
            });
            if let Some(path) = asked.lock().take() {
                let cut = |text: &str| text.split('#').next().unwrap_or_default().to_owned();
                let whole = if verb < 3 {
                    format!("/api/v1/namespaces/{namespace}/secrets/{name}")
                } else {
                    format!("/api/v1/namespaces/{namespace}/secrets")
                };
                let cut = cut(&whole);
                let meant = cut.split('?').next().unwrap_or_default();
                prop_assert_eq!(&path, meant);
                prop_assert!(whole.contains('#') || path == whole, "{} of {}", path, whole);
            }
        }
    }
}
