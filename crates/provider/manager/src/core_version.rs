//! Selects the version of Cluster API's own kinds that the manager requests.
//!
//! The manager reads and writes these kinds as `v1beta2`. Cluster API before 1.11 serves only `v1beta1`, and
//! [`nephele_api::core`] reads the fields that it needs in both versions. So the manager requests `v1beta1` if a group
//! is not served as `v1beta2`, and writes objects with that version.
//!
//! ```text
//!  manager ── /apis/cluster.x-k8s.io/v1beta2/… ──▶ speaking(client) ── /apis/cluster.x-k8s.io/v1beta1/… ──▶ API server
//! ```

use std::sync::Arc;

use http::{
    HeaderValue, Method, Request, Response, StatusCode, Uri, header::CONTENT_LENGTH, uri::PathAndQuery,
};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::Value;
use tracing::{info, warn};

/// The groups of Cluster API that exist in both versions and that the manager uses.
const GROUPS: [&str; 3] = [
    "cluster.x-k8s.io",
    "controlplane.cluster.x-k8s.io",
    "ipam.cluster.x-k8s.io",
];
const NEW: &str = "v1beta2";
const OLD: &str = "v1beta1";

/// For each of [`GROUPS`], whether it is requested in the older version.
type Older = [bool; GROUPS.len()];

/// Returns a client that requests Cluster API's kinds in a version that is served. The first refused request shows that
/// `v1beta2` is not served. That request fails, and its caller has to retry.
pub(crate) fn speaking(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let valid_until = *client.valid_until();
    let older = Arc::new(Mutex::new(Older::default()));
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        let older = Arc::clone(&older);
        async move {
            let group = group(request.uri());
            let now = *older.lock();
            let response = client.send(spoken(request, now).await?).await?;
            if let Some(group) = group
                && is_of_no_version(&response)
                && let Some(found) = is_older(&client, GROUPS[group]).await
            {
                older.lock()[group] = found;
                if now[group] != found {
                    let version = if found { OLD } else { NEW };
                    info!(
                        group = GROUPS[group],
                        version, "Switched to the version that Cluster API serves"
                    );
                }
            }
            Ok::<_, kube::Error>(response)
        }
    });
    Client::new(service, namespace).with_valid_until(valid_until)
}

/// Whether the API server does not serve the path of the request. If only the object is missing, the answer is JSON.
fn is_of_no_version(response: &Response<Body>) -> bool {
    let kind = response
        .headers()
        .get(http::header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    response.status() == StatusCode::NOT_FOUND && !kind.is_some_and(|kind| kind.contains("json"))
}

/// Whether the group is served only in the older version. `None` when it is served in no version, or the API server
/// does not answer.
async fn is_older(client: &Client, group: &str) -> Option<bool> {
    let request = Request::get(format!("/apis/{group}"))
        .body(Vec::new())
        .expect("a path of words");
    let found: Value = match client.request(request).await {
        Ok(found) => found,
        Err(error) => {
            warn!(group, %error, "Failed to find the versions of Cluster API");
            return None;
        }
    };
    let versions = found["versions"]
        .as_array()?
        .iter()
        .filter_map(|version| version["version"].as_str());
    let mut new = false;
    let mut old = false;
    for version in versions {
        new |= version == NEW;
        old |= version == OLD;
    }
    (new || old).then_some(!new)
}

/// The request in the served version.
async fn spoken(request: Request<Body>, older: Older) -> Result<Request<Body>, kube::Error> {
    if older == Older::default() {
        return Ok(request);
    }
    let (mut head, body) = request.into_parts();
    let of_group = group(&head.uri).filter(|group| older[*group]);
    if let Some(group) = of_group {
        head.uri = in_version(&head.uri, GROUPS[group]);
    }
    if !matches!(head.method, Method::POST | Method::PUT | Method::PATCH) {
        return Ok(Request::from_parts(head, body));
    }
    let bytes = body.collect_bytes().await?;
    let Ok(mut object) = serde_json::from_slice::<Value>(&bytes) else {
        return Ok(Request::from_parts(head, Body::from(bytes)));
    };
    say_version(&mut object, older);
    if of_group.is_some() {
        object
            .pointer_mut("/status/conditions")
            .map(leave_empty_messages_out);
    }
    let text = serde_json::to_vec(&object).map_err(kube::Error::SerdeError)?;
    if head.headers.contains_key(CONTENT_LENGTH) {
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    }
    Ok(Request::from_parts(head, Body::from(text)))
}

/// The index of the group in [`GROUPS`], if the request is for its newer version.
fn group(uri: &Uri) -> Option<usize> {
    let mut segments = uri.path().strip_prefix("/apis/")?.split('/');
    let group = segments.next()?;
    let version = segments.next()?;
    if version != NEW {
        return None;
    }
    GROUPS.iter().position(|known| *known == group)
}

/// The same path and query, in the older version of the group.
fn in_version(uri: &Uri, group: &str) -> Uri {
    let old = |text: &str| {
        let from = format!("/apis/{group}/{NEW}");
        let to = format!("/apis/{group}/{OLD}");
        text.replacen(&from, &to, 1)
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = parts.path_and_query.map(|path| {
        PathAndQuery::try_from(old(path.as_str())).expect("a version is as good a segment as another")
    });
    Uri::from_parts(parts).expect("only the path is another")
}

/// Sets the served version in objects, their owner references and all other references.
fn say_version(value: &mut Value, older: Older) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "apiVersion" => {
                        let known = GROUPS.iter().zip(older).find(|(group, older)| {
                            *older
                                && text.strip_suffix(NEW).and_then(|text| text.strip_suffix('/'))
                                    == Some(group)
                        });
                        if let Some((group, _)) = known {
                            *text = format!("{group}/{OLD}");
                        }
                    }
                    _ => say_version(value, older),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| say_version(item, older)),
        _ => {}
    }
}

/// Conditions of `v1beta1` have no message or one of at least one character (Cluster API 1.10, IPAddressClaim), and those of
/// `v1beta2` may have an empty one.
fn leave_empty_messages_out(conditions: &mut Value) {
    for condition in conditions
        .as_array_mut()
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        condition.retain(|field, value| field != "message" || value != "");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CLUSTERS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/n/clusters?watch=true&a=v1beta2";

    type Asked = Arc<Mutex<Vec<(String, Value)>>>;
    type Versions = Arc<Mutex<Vec<&'static str>>>;

    /// A management API that serves Cluster API's kinds in these versions, and records its requests.
    fn api(versions: &[&'static str]) -> (Client, Asked, Versions) {
        let asked = Asked::default();
        let versions = Arc::new(Mutex::new(versions.to_vec()));
        let log = Arc::clone(&asked);
        let now = Arc::clone(&versions);
        let service = tower::service_fn(move |request: Request<Body>| {
            let log = Arc::clone(&log);
            let versions = now.lock().clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.expect("in memory");
                let path = head.uri.to_string();
                log.lock()
                    .push((path.clone(), serde_json::from_slice(&body).unwrap_or_default()));
                let answer = |code: u16, kind: &str, text: Value| {
                    Response::builder()
                        .status(code)
                        .header("content-type", kind)
                        .body(Body::from(text.to_string().into_bytes()))
                };
                let group = path
                    .strip_prefix("/apis/")
                    .is_some_and(|group| GROUPS.contains(&group));
                let served = versions
                    .iter()
                    .any(|version| path.contains(&format!("/{version}/")));
                let response = if group {
                    let versions: Vec<_> = versions
                        .iter()
                        .map(|version| json!({"version": version}))
                        .collect();
                    answer(200, "application/json", json!({"versions": versions}))
                } else if !served && path.contains("cluster.x-k8s.io") {
                    answer(404, "text/plain; charset=utf-8", json!("404 page not found"))
                } else {
                    let status =
                        json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
                    answer(404, "application/json", status)
                };
                Ok::<_, kube::Error>(response.expect("a response"))
            }
        });
        (speaking(Client::new(service, "default")), asked, versions)
    }

    async fn send(client: &Client, method: Method, path: &str, body: &Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .body(Body::from(body.to_string().into_bytes()));
        client
            .send(request.expect("a request"))
            .await
            .expect("a response");
    }

    #[tokio::test]
    async fn the_older_version_is_asked_for_once_the_newer_one_was_refused() {
        let (client, asked, _) = api(&[OLD]);
        send(&client, Method::GET, CLUSTERS, &Value::Null).await;
        send(&client, Method::GET, CLUSTERS, &Value::Null).await;
        let owner =
            |version: &str| json!({"apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "Cluster"});
        let ours =
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "InMemoryMachine"});
        let object = |version: &str| json!({"apiVersion": "v1", "metadata": {"ownerReferences": [owner(version), ours.clone()]}});
        send(
            &client,
            Method::POST,
            "/api/v1/namespaces/n/secrets",
            &object(NEW),
        )
        .await;
        // The versions of the other group are not known yet.
        let claims = "/apis/ipam.cluster.x-k8s.io/v1beta2/ipaddressclaims";
        send(&client, Method::GET, claims, &Value::Null).await;
        let old = "/apis/cluster.x-k8s.io/v1beta1/namespaces/n/clusters?watch=true&a=v1beta2";
        let expected = [
            (CLUSTERS, Value::Null),
            ("/apis/cluster.x-k8s.io", Value::Null),
            (old, Value::Null),
            ("/api/v1/namespaces/n/secrets", object(OLD)),
            (claims, Value::Null),
            ("/apis/ipam.cluster.x-k8s.io", Value::Null),
        ];
        assert_eq!(
            *asked.lock(),
            expected.map(|(path, body)| (path.to_owned(), body))
        );
    }

    #[tokio::test]
    async fn nothing_is_looked_up_while_the_newer_version_is_served() {
        let (client, asked, _) = api(&[NEW, OLD]);
        let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster"});
        send(&client, Method::GET, CLUSTERS, &Value::Null).await;
        send(&client, Method::PUT, CLUSTERS, &object).await;
        assert_eq!(
            *asked.lock(),
            [(CLUSTERS.to_owned(), Value::Null), (CLUSTERS.to_owned(), object)]
        );
    }

    #[tokio::test]
    async fn the_newer_version_is_asked_for_again_when_the_older_one_went() {
        let (client, asked, versions) = api(&[OLD]);
        send(&client, Method::GET, CLUSTERS, &Value::Null).await;
        *versions.lock() = vec![NEW];
        asked.lock().clear();
        send(&client, Method::GET, CLUSTERS, &Value::Null).await;
        send(&client, Method::GET, CLUSTERS, &Value::Null).await;
        let old = CLUSTERS.replacen(NEW, OLD, 1);
        let paths: Vec<_> = asked.lock().iter().map(|(path, _)| path.clone()).collect();
        assert_eq!(paths, [&old, "/apis/cluster.x-k8s.io", CLUSTERS]);
    }

    #[tokio::test]
    async fn conditions_of_the_older_version_have_no_empty_message() {
        let (client, asked, _) = api(&[OLD]);
        let claim = "/apis/ipam.cluster.x-k8s.io/v1beta2/namespaces/n/ipaddressclaims/c/status";
        let conditions = |messages: [Value; 2]| json!({"status": {"conditions": messages}});
        let written = conditions([
            json!({"type": "Ready", "message": ""}),
            json!({"type": "X", "message": "no"}),
        ]);
        // The first request finds out which version is served.
        for _ in 0..2 {
            send(&client, Method::PATCH, claim, &written).await;
        }
        let last = asked.lock().last().cloned();
        let expected = conditions([json!({"type": "Ready"}), json!({"type": "X", "message": "no"})]);
        assert_eq!(last, Some((claim.replacen(NEW, OLD, 1), expected)));
    }

    #[test]
    fn only_kinds_of_cluster_api_get_the_older_version() {
        let text =
            "ipam.cluster.x-k8s.io/v1alpha2 infrastructure.cluster.x-k8s.io/v1beta2 cluster.x-k8s.io/v1beta1";
        for version in text.split(' ') {
            let mut object = json!({"apiVersion": version});
            say_version(&mut object, [true; GROUPS.len()]);
            assert_eq!(object, json!({"apiVersion": version}));
        }
    }
}
