//! Requests drawn from a seed: every verb, path and patch type, mostly about objects that exist.

use bytes::Bytes;
use rand::{RngExt as _, SeedableRng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use crate::{body, client::Outcome, patch};

/// The sizes of a head and of a body in bytes beyond which a server may end the connection.
const HEAD_MAX: usize = 16 * 1024;
const BODY_MAX: usize = 3 * 1024 * 1024;

/// A request to send.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) target: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
}

impl Request {
    /// The name under which the request is counted: the method, with the type of a patch, and whether it is a watch.
    pub(crate) fn verb(&self) -> &'static str {
        let content_type = self.headers.iter().find(|(name, _)| *name == "content-type");
        match (self.method, content_type.map_or("", |(_, value)| value)) {
            ("GET", _) if self.is_watch() => "GET watch",
            ("PATCH", "application/json-patch+json") => "PATCH json",
            ("PATCH", "application/merge-patch+json") => "PATCH merge",
            ("PATCH", "application/strategic-merge-patch+json") => "PATCH strategic merge",
            ("PATCH", "application/apply-patch+yaml") => "PATCH apply",
            (method, _) => method,
        }
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.method == "GET" && self.target.contains("watch=")
    }

    /// Whether a server may end the connection because of the request's size.
    pub(crate) fn beyond_limit(&self) -> bool {
        let head: usize = self
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        head + self.target.len() > HEAD_MAX || self.body.len() > BODY_MAX
    }

    /// The request in one line, cut to a readable length.
    pub(crate) fn brief(&self) -> String {
        let body = String::from_utf8_lossy(&self.body);
        let cut = |text: &str| text.chars().take(400).collect::<String>();
        let length = self.body.len();
        format!(
            "{} {} {:?} {length} bytes {}",
            self.method,
            cut(&self.target),
            self.headers,
            cut(&body)
        )
    }
}

/// The requested collections: group and version, plural, kind, and whether their objects are namespaced.
const KINDS: [(&str, &str, &str, bool); 24] = [
    ("api/v1", "configmaps", "ConfigMap", true),
    ("api/v1", "secrets", "Secret", true),
    ("api/v1", "pods", "Pod", true),
    ("api/v1", "services", "Service", true),
    ("api/v1", "endpoints", "Endpoints", true),
    ("api/v1", "events", "Event", true),
    ("api/v1", "persistentvolumeclaims", "PersistentVolumeClaim", true),
    ("api/v1", "serviceaccounts", "ServiceAccount", true),
    ("api/v1", "nodes", "Node", false),
    ("api/v1", "namespaces", "Namespace", false),
    ("api/v1", "persistentvolumes", "PersistentVolume", false),
    ("apis/apps/v1", "deployments", "Deployment", true),
    ("apis/apps/v1", "daemonsets", "DaemonSet", true),
    ("apis/apps/v1", "statefulsets", "StatefulSet", true),
    ("apis/batch/v1", "cronjobs", "CronJob", true),
    ("apis/batch/v1", "jobs", "Job", true),
    ("apis/coordination.k8s.io/v1", "leases", "Lease", true),
    ("apis/events.k8s.io/v1", "events", "Event", true),
    ("apis/networking.k8s.io/v1", "ingresses", "Ingress", true),
    (
        "apis/policy/v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        true,
    ),
    (
        "apis/rbac.authorization.k8s.io/v1",
        "clusterroles",
        "ClusterRole",
        false,
    ),
    (
        "apis/apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        false,
    ),
    ("apis/storage.k8s.io/v1", "storageclasses", "StorageClass", false),
    ("apis/x.io/v1", "things", "Thing", true),
];

const SUBRESOURCES: [&str; 12] = [
    "status",
    "scale",
    "eviction",
    "binding",
    "log",
    "portforward",
    "exec",
    "token",
    "finalize",
    "proxy",
    "status/x",
    "%2e",
];

const PLAIN: [&str; 18] = [
    "/",
    "/api",
    "/apis",
    "/api/v1",
    "/apis/apps",
    "/apis/apps/v1",
    "/apis/x.io/v1",
    "/apis/none",
    "/version",
    "/healthz",
    "/livez?verbose",
    "/readyz",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/api/v1",
    "/metrics",
    "/api/v1/",
    "//",
];

const REVIEWS: [&str; 4] = [
    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
];

const ACCEPTS: [&str; 8] = [
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf,application/json",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    ";;=,;as=;v",
];

/// The media type of server-side apply.
const APPLY: &str = "application/apply-patch+yaml";

/// Media types of patches.
const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    APPLY,
];

/// Draws requests. Two generators with the same seed and connection draw the same requests if they learn from
/// the same outcomes.
pub(crate) struct Generator {
    draws: ChaCha8Rng,
    /// A token to continue a list with.
    continue_token: String,
    resource_version: String,
}

/// The object or collection of a request.
struct Target {
    path: String,
    kind: &'static str,
    api_version: &'static str,
    namespace: String,
    name: String,
}

impl Generator {
    pub(crate) fn new(seed: u64, connection: u64) -> Self {
        let mut draws = ChaCha8Rng::seed_from_u64(seed);
        draws.set_stream(connection);
        Self {
            draws,
            continue_token: String::new(),
            resource_version: String::new(),
        }
    }

    /// Remembers the version and the continue token in an answer, for later requests.
    pub(crate) fn learn(&mut self, outcome: &Outcome) {
        let Outcome::Answered { body: Some(body), .. } = outcome else {
            return;
        };
        let Ok(answer) = serde_json::from_slice::<Value>(body) else {
            return;
        };
        let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        if let Some(token) = text("/metadata/continue") {
            self.continue_token = token;
        }
        if let Some(version) = text("/metadata/resourceVersion") {
            self.resource_version = version;
        }
    }

    pub(crate) fn next_request(&mut self) -> Request {
        match self.draws.random_range(0..100) {
            0..3 => self.nonsense(),
            3..8 => self.plain(),
            8..10 => self.review(),
            10..30 => self.read(),
            30..33 => self.watch(),
            33..53 => self.create(),
            53..63 => self.update(),
            63..90 => self.patch(),
            _ => self.delete(),
        }
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.draws.random_ratio(1, count)
    }

    fn any<T: Copy>(&mut self, all: &[T]) -> T {
        *all.choose(&mut self.draws)
            .expect("the tables above are not empty")
    }

    fn target(&mut self, named: bool) -> Target {
        let (group, plural, kind, namespaced) = self.any(&KINDS);
        let namespace = if self.one_in(40) {
            body::text(&mut self.draws)
        } else {
            self.any(&["default", "kube-system", "a"]).to_owned()
        };
        let name = if self.one_in(40) {
            body::text(&mut self.draws)
        } else if plural == "customresourcedefinitions" {
            self.any(&["things.x.io", "others.x.io", "b.a.x.io"]).to_owned()
        } else if plural == "namespaces" {
            self.any(&["a", "b", "default"]).to_owned()
        } else {
            format!("n{}", self.draws.random_range(0..12))
        };
        let mut path = format!("/{group}");
        if namespaced {
            path.push_str("/namespaces/");
            path.push_str(&escaped(&namespace));
        }
        path.push('/');
        path.push_str(plural);
        if named {
            path.push('/');
            path.push_str(&escaped(&name));
        }
        let api_version = group.trim_start_matches("apis/").trim_start_matches("api/");
        Target {
            path,
            kind,
            api_version,
            namespace: if namespaced { namespace } else { String::new() },
            name,
        }
    }

    fn request(
        &mut self,
        method: &'static str,
        target: String,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> Request {
        let mut headers = vec![("accept", self.any(&ACCEPTS[..3]).to_owned())];
        if self.one_in(10) {
            headers[0].1 = self.any(&ACCEPTS).to_owned();
        }
        if !content_type.is_empty() {
            headers.push(("content-type", content_type.to_owned()));
        }
        if self.one_in(50) {
            let name = self.any(&[
                "impersonate-user",
                "impersonate-group",
                "impersonate-uid",
                "impersonate-extra-a%2fb",
            ]);
            headers.push((
                name,
                self.any(&["bob", "system:serviceaccount:a:b", "system:masters", ""])
                    .to_owned(),
            ));
        }
        if self.one_in(5000) {
            headers.push(("x-padding", "x".repeat(self.draws.random_range(1000..100_000))));
        }
        Request {
            method,
            target,
            headers,
            body: body.into(),
        }
    }

    /// A request with random bytes as path and as body.
    fn nonsense(&mut self) -> Request {
        let method = self.any(&[
            "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE",
        ]);
        let segments: Vec<_> = (0..self.draws.random_range(0..8))
            .map(|_| {
                let any = body::text(&mut self.draws);
                escaped(self.any(&[
                    "api",
                    "apis",
                    "v1",
                    "namespaces",
                    "pods",
                    "x.io",
                    "",
                    "status",
                    "%zz",
                    "watch",
                    &any,
                ]))
            })
            .collect();
        let content_type = self.any(&[
            "application/json",
            "application/vnd.kubernetes.protobuf",
            "text/plain",
            "",
        ]);
        let body = body::bytes(&mut self.draws);
        self.request(method, format!("/{}", segments.join("/")), content_type, body)
    }

    fn plain(&mut self) -> Request {
        let method = self.any(&["GET", "GET", "GET", "HEAD", "POST", "OPTIONS"]);
        let target = self.any(&PLAIN).to_owned();
        self.request(method, target, "", Vec::new())
    }

    fn review(&mut self) -> Request {
        let target = self.any(&REVIEWS).to_owned();
        let body = body::tree(&mut self.draws, 6).to_string();
        self.request("POST", target, "application/json", body)
    }

    fn read(&mut self) -> Request {
        let named = self.draws.random();
        let mut target = self.target(named).path;
        if named && self.one_in(4) {
            target = format!("{target}/{}", self.any(&SUBRESOURCES));
        }
        let query = self.query();
        let method = if self.one_in(20) { "HEAD" } else { "GET" };
        self.request(method, format!("{target}?{query}"), "", Vec::new())
    }

    fn query(&mut self) -> String {
        let mut pairs = Vec::new();
        for _ in 0..self.draws.random_range(0..4) {
            let any = body::text(&mut self.draws);
            let (name, values): (&str, Vec<&str>) = match self.draws.random_range(0..12) {
                0 => (
                    "labelSelector",
                    vec!["app=a", "app in (a,b),!x", "a notin(b", "((", "x>1,y<z", &any],
                ),
                1 => (
                    "fieldSelector",
                    vec![
                        "metadata.name=n1",
                        "spec.nodeName!=",
                        "status.phase=Running",
                        &any,
                    ],
                ),
                2 => ("limit", vec!["1", "3", "-1", "18446744073709551616", &any]),
                3 => ("continue", vec!["", "W10", &any]),
                4 => ("resourceVersion", vec!["0", "1", "18446744073709551615", &any]),
                5 => ("resourceVersionMatch", vec!["Exact", "NotOlderThan", &any]),
                6 => ("timeoutSeconds", vec!["0", "1", "18446744073709551615", &any]),
                7 => ("dryRun", vec!["All", "", &any]),
                8 => (
                    "propagationPolicy",
                    vec!["Foreground", "Orphan", "Background", &any],
                ),
                9 => ("includeObject", vec!["None", "Object", &any]),
                10 => ("sendInitialEvents", vec!["true", "false", &any]),
                _ => ("allowWatchBookmarks", vec!["true", "1", &any]),
            };
            let mut value = self.any(&values).to_owned();
            if name == "continue" && self.draws.random() {
                value.clone_from(&self.continue_token);
            } else if name == "resourceVersion" && self.draws.random() {
                value.clone_from(&self.resource_version);
            }
            pairs.push(format!("{name}={}", escaped(&value)));
        }
        pairs.join("&")
    }

    fn watch(&mut self) -> Request {
        let target = self.target(false).path;
        let query = self.query();
        self.request("GET", format!("{target}?watch=true&{query}"), "", Vec::new())
    }

    /// A body of a target's kind, mostly with the right name and namespace.
    fn object(&mut self, target: &Target) -> (String, Bytes) {
        let mut object = body::object(
            &mut self.draws,
            target.api_version,
            target.kind,
            &target.namespace,
            &target.name,
        );
        if self.one_in(20) {
            object = body::tree(&mut self.draws, 8);
        }
        if self.one_in(25) {
            let content_type = "application/vnd.kubernetes.protobuf";
            return (
                content_type.to_owned(),
                body::protobuf(&mut self.draws, target.api_version, target.kind).into(),
            );
        }
        let mut text = object.to_string().into_bytes();
        if self.one_in(2000) {
            // Larger than any server accepts.
            text.resize(BODY_MAX + self.draws.random_range(1..1_000_000), b' ');
        } else if self.one_in(100) {
            let at = self.draws.random_range(0..text.len());
            text[at] = self.draws.random();
        }
        ("application/json".to_owned(), text.into())
    }

    fn create(&mut self) -> Request {
        if self.one_in(12) {
            let name = format!("n{}", self.draws.random_range(0..12));
            let subresource = self.any(&["eviction", "binding", "token"]);
            let body = body::tree(&mut self.draws, 5).to_string();
            let target = format!("/api/v1/namespaces/default/pods/{name}/{subresource}");
            return self.request("POST", target, "application/json", body);
        }
        let target = self.target(false);
        let (content_type, body) = self.object(&target);
        let query = self.query();
        let query = if self.one_in(8) { query } else { String::new() };
        self.request("POST", format!("{}?{query}", target.path), &content_type, body)
    }

    fn update(&mut self) -> Request {
        let target = self.target(true);
        let (content_type, body) = self.object(&target);
        let subresource = if self.one_in(4) {
            format!("/{}", self.any(&SUBRESOURCES))
        } else {
            String::new()
        };
        self.request(
            "PUT",
            format!("{}{subresource}", target.path),
            &content_type,
            body,
        )
    }

    fn patch(&mut self) -> Request {
        let target = self.target(true);
        let content_type = self.any(&PATCHES);
        if content_type == APPLY && !self.one_in(10) {
            return self.apply(&target);
        }
        let body = match content_type {
            "application/json-patch+json" => patch::json(&mut self.draws),
            "application/merge-patch+json" => patch::merge(&mut self.draws),
            "application/strategic-merge-patch+json" => patch::strategic(&mut self.draws),
            _ => body::tree(&mut self.draws, 4),
        };
        let mut text = body.to_string().into_bytes();
        if self.one_in(200) {
            text = body::bytes(&mut self.draws);
        }
        let subresource = if self.one_in(5) {
            format!("/{}", self.any(&SUBRESOURCES))
        } else {
            String::new()
        };
        self.request(
            "PATCH",
            format!("{}{subresource}", target.path),
            content_type,
            text,
        )
    }

    /// An apply by one of a few managers, so that they meet each other's fields.
    fn apply(&mut self, target: &Target) -> Request {
        let (_, mut body) = self.object(target);
        if self.one_in(10) {
            let anchors = body::bytes(&mut self.draws);
            body = [b"a: &a [1, *a]\nb: {<<: *a}\n".as_slice(), &anchors]
                .concat()
                .into();
        }
        let manager = self.any(&["a", "b", "c", ""]);
        let force = self.any(&["true", "true", "false", "maybe"]);
        let dry_run = if self.one_in(10) { "&dryRun=All" } else { "" };
        let status = if self.one_in(5) { "/status" } else { "" };
        let path = format!(
            "{}{status}?fieldManager={manager}&force={force}{dry_run}",
            target.path
        );
        self.request("PATCH", path, APPLY, body)
    }

    fn delete(&mut self) -> Request {
        let named = !self.one_in(6);
        let target = self.target(named).path;
        let query = self.query();
        let body = if self.draws.random() {
            Vec::new()
        } else {
            body::options(&mut self.draws).to_string().into_bytes()
        };
        self.request("DELETE", format!("{target}?{query}"), "application/json", body)
    }
}

/// Escapes characters that a path or query cannot have. Existing escapes stay, even if they are wrong.
fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'%' | b'-' | b'.' | b'_' | b'~' | b'=' | b',' | b'!' | b'(' | b')' => {
                char::from(byte).to_string()
            }
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => format!("%{byte:02x}"),
        })
        .collect()
}
