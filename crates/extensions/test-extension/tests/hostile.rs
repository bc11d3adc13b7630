//! Random requests to the whole extension. A caller controls everything in a request, and the extension has permissions
//! in the management API.

use std::{
    convert::Infallible,
    mem::take,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Body,
    http::{Request, StatusCode},
};
use http_body_util::BodyExt as _;
use kube::Client;
use nephele_controller::wall_clock;
use nephele_runtime_sdk::wire::is_dns_subdomain;
use nephele_test_extension::{Access, extension};
use nephele_testkit::{ManagementApi, objects};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};
use tower::ServiceExt as _;

const PREFIX: &str = "/hooks.runtime.cluster.x-k8s.io/v1alpha1";
const HOOKS: [&str; 16] = [
    "afterclusterupgrade/after-cluster-upgrade",
    "beforeclustercreate/before-cluster-create",
    "aftercontrolplaneinitialized/after-control-plane-initialized",
    "beforeclusterupgrade/before-cluster-upgrade",
    "beforecontrolplaneupgrade/before-control-plane-upgrade",
    "aftercontrolplaneupgrade/after-control-plane-upgrade",
    "beforeworkersupgrade/before-workers-upgrade",
    "afterworkersupgrade/after-workers-upgrade",
    "beforeclusterdelete/before-cluster-delete",
    "discovervariables/discover-variables",
    "generatepatches/generate-patches",
    "validatetopology/validate-topology",
    "generateupgradeplan/generate-upgrade-plan",
    "canupdatemachine/can-update-machine",
    "canupdatemachineset/can-update-machineset",
    "updatemachine/update-machine",
];
/// The namespace of the extension.
const NAMESPACE: &str = "default";
/// The longest response to a caller without patches, in bytes: the longest message and the JSON around it.
const RESPONSE_MAX: usize = 9 << 10;
/// A placeholder for a deeply nested value in a body.
const DEEP: &str = "@deep@";

/// Requests to the management API, as method, path and query.
type Asked = Arc<Mutex<Vec<(String, String, Option<String>)>>>;

/// A client of the API that records its requests.
fn observed(api: &ManagementApi, asked: &Asked) -> Client {
    let server = api.server().clone();
    let asked = Arc::clone(asked);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let method = request.method().to_string();
        let uri = request.uri();
        let asking = (method, uri.path().to_owned(), uri.query().map(str::to_owned));
        asked.lock().expect("no test panics with it").push(asking);
        let server = server.clone();
        async move { Ok::<_, Infallible>(server.handle(request.map(Body::new)).await) }
    });
    Client::new(service, NAMESPACE)
}

struct World {
    router: Router,
    asked: Asked,
}

impl World {
    /// An extension for one namespace, which has the machine `w`.
    async fn new() -> Self {
        let api = ManagementApi::start();
        let machine = api.create(&objects::worker("demo", "w")).await;
        api.create(&objects::in_memory_machine(&machine)).await;
        let asked = Asked::default();
        let access = Access::new(observed(&api, &asked), Some(NAMESPACE.to_owned()));
        let router = extension(&access, wall_clock())
            .build()
            .expect("an extension")
            .router();
        Self { router, asked }
    }

    /// The answer to a call, and the requests to the management API that it caused.
    async fn call(
        &self,
        hook: &str,
        body: String,
    ) -> (StatusCode, Vec<u8>, Vec<(String, String, Option<String>)>) {
        let request = Request::post(format!("{PREFIX}/{hook}"))
            .body(Body::from(body))
            .expect("a request");
        let response = self.router.clone().oneshot(request).await.expect("an answer");
        let status = response.status();
        let body = response
            .into_body()
            .collect()
            .await
            .expect("a whole body")
            .to_bytes()
            .to_vec();
        (
            status,
            body,
            take(&mut *self.asked.lock().expect("no test panics with it")),
        )
    }
}

/// Whether a request stays within the ConfigMaps and machines of the namespace.
fn is_allowed((method, path, query): &(String, String, Option<String>)) -> bool {
    let config_maps = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let machines =
        format!("/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/inmemorymachines");
    let of = |folder: &str| path.strip_prefix(folder)?.strip_prefix('/').map(is_dns_subdomain);
    let named = of(&config_maps).or_else(|| of(&machines)).unwrap_or_default();
    let known_query = query
        .as_deref()
        .is_none_or(|query| query.is_empty() || (query.starts_with("fieldManager=") && !query.contains('&')));
    known_query
        && match method.as_str() {
            "GET" | "PATCH" => named,
            "POST" => *path == config_maps,
            _ => false,
        }
}

fn text() -> BoxedStrategy<String> {
    let text = prop_oneof![
        6 => prop_oneof![Just("demo"), Just("w"), Just("default"), Just("ext"), Just("v1.36.4")].prop_map(String::from),
        2 => prop_oneof![
            Just("../../../secrets/other"), Just(".."), Just("."), Just(""), Just("a/b"), Just("w/status"),
            Just("w?dryRun=All"), Just("w#x"), Just("%2e%2e%2fsecrets"), Just("a b"), Just("a\r\nb: c"), Just("\0"),
            Just("kube-system"), Just("DEMO"), Just("dem\u{f6}"), Just("v1.36.4+../x"), Just("-1"), Just("99999999h"),
        ].prop_map(String::from),
        1 => "[a-z0-9./?#%-]{0,20}",
        1 => "\\PC{0,20}",
        1 => (100_usize..20_000).prop_map(|length| "a".repeat(length)),
    ];
    text.boxed()
}

/// A text where a handler expects `valid`: most often that one, so that requests with several such texts are served.
fn text_for(valid: &'static str) -> BoxedStrategy<String> {
    prop_oneof![3 => Just(valid.to_owned()), 1 => text()].boxed()
}

fn any_json() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
        Just(Value::from(DEEP)),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(text(), inner, 0..4).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
    .boxed()
}

/// An object of a kind that handlers read, or of another kind.
fn object() -> BoxedStrategy<Value> {
    let kind = prop_oneof![
        Just(("infrastructure.cluster.x-k8s.io/v1beta2", "InMemoryMachine")),
        Just((
            "infrastructure.cluster.x-k8s.io/v1beta2",
            "InMemoryMachineTemplate"
        )),
        Just((
            "infrastructure.cluster.x-k8s.io/v1beta1",
            "InMemoryClusterTemplate"
        )),
        Just(("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfig")),
        Just(("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate")),
        Just(("cluster.x-k8s.io/v1beta2", "Machine")),
    ];
    let spec = prop_oneof![
        any_json(),
        (text_for("demo"), text_for("v1.36.4"), any_json()).prop_map(|(cluster, version, any)| json!({
            "clusterName": cluster, "version": version, "image": version, "behaviour": any, "files": [any],
            "template": { "spec": { "version": version, "network": any, "behaviour": any, "failureDomains": [any] } },
        })),
    ];
    (kind, text_for("demo"), text_for(NAMESPACE), spec)
        .prop_map(|((api_version, kind), name, namespace, spec)| {
            let metadata = json!({ "name": name, "namespace": namespace });
            json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec })
        })
        .boxed()
}

/// A machine as in a valid `UpdateMachine`, so that calls reach its object.
fn desired() -> BoxedStrategy<Value> {
    let named = |kind: &'static str, name: String, namespace: String, spec: Value| {
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": kind,
            "metadata": { "name": name, "namespace": namespace }, "spec": spec,
        })
    };
    (
        text_for("w"),
        text_for(NAMESPACE),
        text_for("demo"),
        any_json(),
        object(),
    )
        .prop_map(move |(name, namespace, cluster, any, bootstrap)| {
            let spec = json!({ "clusterName": cluster, "version": name, "image": any });
            json!({
                "machine": named("Machine", name.clone(), namespace.clone(), spec.clone()),
                "infrastructureMachine": named("InMemoryMachine", name, namespace, spec),
                "bootstrapConfig": bootstrap,
            })
        })
        .boxed()
}

fn request() -> BoxedStrategy<Value> {
    let settings = (text_for("ext"), text_for("20s"), text()).prop_map(|(extension, duration, versions)| {
        json!({
            "extensionConfigName": extension, "inPlaceUpdateDuration": duration, "inPlaceUpdateJitter": duration,
            "kubernetesVersions": versions, "defaultAllHandlersToBlocking": "true",
        })
    });
    let settings = prop_oneof![4 => settings, 1 => any_json()];
    let machine = prop_oneof![3 => desired(), 1 => any_json()];
    let names = [
        "zones",
        "builtin",
        "addressesFromPools",
        "workerBehaviour",
        "controlPlaneBehaviour",
        "workerInstanceType",
    ];
    let variables = prop::collection::vec(
        (prop::sample::select(names.to_vec()), any_json())
            .prop_map(|(name, value)| json!({ "name": name, "value": value })),
        0..4,
    );
    let set = (object(), object(), object()).prop_map(|(set, infrastructure, bootstrap)| {
        json!({
            "machineSet": set, "machine": set, "infrastructureMachineTemplate": infrastructure,
            "infrastructureMachine": infrastructure, "bootstrapConfigTemplate": bootstrap, "bootstrapConfig": bootstrap,
        })
    });
    (settings, object(), text(), text(), machine, variables, set).prop_map(
        |(settings, cluster, from, to, machine, variables, set)| {
            json!({
                "settings": settings, "cluster": cluster, "fromKubernetesVersion": from, "toKubernetesVersion": to,
                "kubernetesVersion": to, "fromControlPlaneKubernetesVersion": from, "desired": machine, "current": set,
                "variables": variables,
                "items": [{
                    "uid": from, "holderReference": { "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": to },
                    "object": cluster, "variables": variables,
                }],
            })
        },
    )
    .boxed()
}

/// A body: a request with placeholders for deeply nested values, or no request at all.
fn body() -> BoxedStrategy<String> {
    let depth = prop_oneof![Just(1_usize), Just(60), Just(110), Just(128), Just(10_000)];
    let deep = |depth: usize| format!("{}1{}", r#"{"a":["#.repeat(depth / 2), "]}".repeat(depth / 2));
    let body = prop_oneof![
        12 => (request(), depth).prop_map(move |(request, depth)| {
            request.to_string().replace(&format!("\"{DEEP}\""), &deep(depth))
        }),
        1 => any_json().prop_map(|value| format!("{value}")),
        1 => "\\PC{0,40}",
        1 => Just("[".repeat(200_000)),
    ];
    body.boxed()
}

/// Whatever the body, a handler does not panic, requests only ConfigMaps and machines of its namespace, and gives short
/// answers.
#[test]
fn no_request_leads_out_of_the_namespace_or_ends_a_handler() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let world = runtime.block_on(World::new());
    let mut runner = TestRunner::new(Config {
        cases: 1024,
        failure_persistence: None,
        ..Config::default()
    });
    let reached = Mutex::new([0_usize; 3]);
    let result = runner.run(&(prop::sample::select(HOOKS.to_vec()), body()), |(hook, body)| {
        let sent = body.len();
        let (status, answer, asked) = runtime.block_on(world.call(hook, body));
        prop_assert_eq!(status, StatusCode::OK);
        let response: Value = serde_json::from_slice(&answer).expect("a response is JSON");
        let message = response["message"].as_str().unwrap_or_default();
        prop_assert!(!message.contains("panicked"), "{}", message);
        // Patches repeat parts of the request; other answers do not.
        let max = if response["status"] == "Success" {
            RESPONSE_MAX + 40 * sent
        } else {
            RESPONSE_MAX
        };
        prop_assert!(answer.len() <= max, "{} bytes", answer.len());
        for request in &asked {
            prop_assert!(is_allowed(request), "{:?}", request);
            let which = ["GET", "POST", "PATCH"]
                .iter()
                .position(|method| *method == request.0);
            reached.lock().expect("no case panics with it")[which.expect("one of those")] += 1;
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    // Every kind of request was reached. Otherwise the test would show nothing.
    let reached = reached.into_inner().expect("no case panics with it");
    assert!(reached.iter().all(|count| *count > 0), "{reached:?}");
}

/// Without the checks these names lead to a Secret of another namespace, and to a subresource.
#[tokio::test]
async fn names_that_lead_elsewhere_are_refused_before_anything_is_asked() {
    let world = World::new().await;
    let machine = |namespace: &str, name: &str| {
        let object = |kind: &str| {
            json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": kind,
                "metadata": { "name": name, "namespace": namespace }, "spec": { "clusterName": "demo" },
            })
        };
        json!({ "desired": { "machine": object("Machine"), "infrastructureMachine": object("InMemoryMachine") } })
    };
    let cluster = |namespace: &str, name: &str, extension: &str| {
        json!({
            "settings": { "extensionConfigName": extension },
            "cluster": { "metadata": { "name": name, "namespace": namespace } },
        })
    };
    let update = "updatemachine/update-machine";
    let create = "beforeclustercreate/before-cluster-create";
    for (hook, request, expected) in [
        (
            update,
            machine("default", "../../../../api/v1/namespaces/kube-system/secrets/x"),
            r#"the name "../../../../api/v1/namespaces/kube-system/secrets/x" of the InMemoryMachine is not a DNS subdomain"#,
        ),
        (
            update,
            machine("default", "w/status"),
            r#"the name "w/status" of the InMemoryMachine is not a DNS subdomain"#,
        ),
        (
            update,
            machine("kube-system", "w"),
            "this extension serves only the namespace default, not kube-system",
        ),
        (
            create,
            cluster("default/../kube-system", "demo", "ext"),
            r#"the namespace "default/../kube-system" is not a DNS label"#,
        ),
        (
            create,
            cluster("", "demo", "ext"),
            r#"the namespace "" is not a DNS label"#,
        ),
        (
            create,
            cluster("default", "../demo", "ext"),
            r#"the name "../demo" of the Cluster is not a DNS subdomain"#,
        ),
        (
            create,
            cluster("default", "demo", "?"),
            r#"the name "?" of the ExtensionConfig is not a DNS subdomain"#,
        ),
    ] {
        let (_, answer, asked) = world.call(hook, request.to_string()).await;
        let response: Value = serde_json::from_slice(&answer).expect("a response");
        assert_eq!(
            (response["status"].as_str(), response["message"].as_str()),
            (Some("Failure"), Some(expected))
        );
        assert_eq!(asked, []);
    }
}
