//! Objects that register extensions, from the object to the call.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use nephele_runtime_sdk::{
    catalog::Catalog,
    client::{
        Client, ClientConfig, LabelSelector, Metrics, Registry, RegistryError, Subject, WarmUp, chain,
        extension_config::{
            Condition, ExtensionConfig, ExtensionKind, HandlerStatus, KubeNamespaces, Metadata, Mode, Next,
            Reconciler, ReconcilerError, Status, WarmUpError, WarmUpSettings,
        },
    },
    hooks::{BeforeClusterCreate, Hook, HookMeta, Settings},
    request, response,
    wire::Object,
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    api_server::ApiServer,
    script::{Answer, Asked, Script, request, success},
};

const CONFIGS: &str = "/apis/runtime.cluster.x-k8s.io/v1beta2/extensionconfigs";

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000_000).unwrap()
}

fn path(name: &str) -> String {
    format!("{CONFIGS}/{name}")
}

fn config(name: &str) -> Value {
    json!({
        "apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
        "metadata": { "name": name },
        "spec": { "clientConfig": { "url": format!("https://{name}"), "caBundle": "Y2E=" }, "namespaceSelector": {} },
    })
}

fn offering(names: &[&str]) -> Answer {
    let handlers: Vec<Value> = names
        .iter()
        .map(|name| {
            json!({ "name": name, "requestHook": {
                "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "BeforeClusterCreate",
            } })
        })
        .collect();
    Answer::Json(json!({ "status": "Success", "handlers": handlers }))
}

type Discovering = Arc<Mutex<Box<dyn Fn(&Asked) -> Answer + Send>>>;

/// An API server, extensions with a configurable behaviour, and a caller.
struct World {
    server: ApiServer,
    script: Arc<Script>,
    discovery: Discovering,
    client: Client,
}

impl World {
    fn new() -> Self {
        let server = ApiServer::default();
        let discovery: Discovering =
            Arc::new(Mutex::new(Box::new(|_| offering(&["third", "first", "second"]))));
        let discover = discovery.clone();
        let script = Script::new(move |asked| {
            if asked.path.ends_with("/discovery") {
                discover.lock()(asked)
            } else {
                success()
            }
        });
        let client = Client::builder(Catalog::cluster_api())
            .registry(Registry::new())
            .namespaces(KubeNamespaces::new(server.client()))
            .transport(script.clone())
            .metrics(Metrics::register(&prometheus::Registry::new()).unwrap())
            .build();
        Self {
            server,
            script,
            discovery,
            client,
        }
    }

    fn discovery(&self, answer: impl Fn(&Asked) -> Answer + Send + 'static) {
        *self.discovery.lock() = Box::new(answer);
    }

    fn reconciler(&self, mode: Mode) -> Reconciler<ExtensionConfig> {
        Reconciler::new(self.server.client(), self.client.clone(), mode)
    }

    /// A read-only caller for the same objects.
    fn reader(&self) -> (Client, Reconciler<ExtensionConfig>) {
        let client = Client::builder(Catalog::cluster_api())
            .transport(self.script.clone())
            .build();
        let reconciler = Reconciler::new(self.server.client(), client.clone(), Mode::ReadOnly);
        (client, reconciler)
    }

    fn condition(&self, name: &str, kind: &str) -> Option<Condition> {
        let object = self.server.get(&path(name));
        let conditions = serde_json::from_value(object["status"]["conditions"].clone()).unwrap_or_default();
        let conditions: Vec<Condition> = conditions;
        conditions.into_iter().find(|condition| condition.kind == kind)
    }
}

fn handlers(client: &Client) -> Vec<String> {
    client.registry().handlers(&BeforeClusterCreate::id()).unwrap()
}

async fn ready(reconciler: &Reconciler<ExtensionConfig>) {
    reconciler.warm_up(WarmUpSettings::default(), now).await.unwrap();
}

/// EC-1, EC-2.
#[tokio::test(start_paused = true)]
async fn an_extension_is_paused_or_not_then_discovered_then_registered() {
    let world = World::new();
    let reconciler = world.reconciler(Mode::ReadWrite);
    let waits = reconciler.reconcile("ext1", now).await.unwrap();
    assert_eq!(waits, Next::After(Duration::from_secs(10)));
    ready(&reconciler).await;
    world.server.put(&path("ext1"), &config("ext1"));

    reconciler.reconcile("ext1", now).await.unwrap();
    assert_eq!(world.condition("ext1", "Paused").unwrap().reason, "NotPaused");
    assert_eq!(
        (world.condition("ext1", "Discovered"), world.script.count()),
        (None, 0)
    );
    assert_eq!(world.server.writes(), ["status of ext1"]);

    assert_eq!(reconciler.reconcile("ext1", now).await.unwrap(), Next::OnChange);
    let object = world.server.get(&path("ext1"));
    let names: Vec<&str> = object["status"]["handlers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|handler| handler["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["first.ext1", "second.ext1", "third.ext1"]);
    let discovered = world.condition("ext1", "Discovered").unwrap();
    assert_eq!(
        (discovered.status.as_str(), discovered.observed_generation),
        ("True", 1)
    );
    assert_eq!(
        object["status"]["deprecated"]["v1beta1"]["conditions"][0]["status"],
        "True"
    );
    assert_eq!(
        handlers(&world.client),
        ["first.ext1", "second.ext1", "third.ext1"]
    );
    assert_eq!(world.server.writes(), ["status of ext1"]);

    reconciler.reconcile("ext1", now).await.unwrap();
    assert_eq!(
        world.server.writes(),
        [""; 0],
        "what is so already is not written"
    );
    assert_eq!(world.script.count(), 2);
    world
        .client
        .call_all::<BeforeClusterCreate>(&Subject::new("ns", "c"), &request())
        .await
        .unwrap();
    assert_eq!(world.script.count(), 5);
}

/// EC-4, EC-5, and a pause.
#[tokio::test(start_paused = true)]
async fn what_an_extension_offers_no_longer_is_not_called_and_what_is_paused_stays() {
    let world = World::new();
    world.server.put(&path("ext1"), &config("ext1"));
    let reconciler = world.reconciler(Mode::ReadWrite);
    ready(&reconciler).await;
    assert_eq!(handlers(&world.client).len(), 3);
    reconciler.reconcile("ext1", now).await.unwrap(); // Writes the condition Paused.

    world.discovery(|_| offering(&["first"]));
    let mut paused = world.server.get(&path("ext1"));
    paused["metadata"]["annotations"] = json!({ "cluster.x-k8s.io/paused": "" });
    world.server.put(&path("ext1"), &paused);
    for _ in 0..2 {
        reconciler.reconcile("ext1", now).await.unwrap();
    }
    assert!(world.condition("ext1", "Paused").unwrap().is_true());
    assert_eq!(handlers(&world.client).len(), 3);

    let mut changed = world.server.get(&path("ext1"));
    changed["metadata"]["annotations"] = json!({});
    changed["spec"]["clientConfig"]["url"] = json!("https://elsewhere");
    world.server.put(&path("ext1"), &changed);
    for _ in 0..2 {
        reconciler.reconcile("ext1", now).await.unwrap();
    }
    assert_eq!(handlers(&world.client), ["first.ext1"]);
    assert_eq!(world.script.asked().last().unwrap().host, "elsewhere");

    world.server.remove(&path("ext1"));
    reconciler.reconcile("ext1", now).await.unwrap();
    assert_eq!(handlers(&world.client), [""; 0]);
}

/// EC-6.
#[tokio::test(start_paused = true)]
async fn an_extension_that_is_dead_now_stays_registered() {
    let world = World::new();
    world.server.put(&path("ext1"), &config("ext1"));
    let reconciler = world.reconciler(Mode::ReadWrite);
    ready(&reconciler).await;
    reconciler.reconcile("ext1", now).await.unwrap();
    world.discovery(|_| Answer::Refuse);
    let error = reconciler.reconcile("ext1", now).await.unwrap_err();
    let text =
        "failed to discover extension \"ext1\": http call failed: failed to connect: connection refused";
    assert_eq!((chain(&error).as_str(), error.category()), (text, "connect"));
    let discovered = world.condition("ext1", "Discovered").unwrap();
    assert_eq!(discovered.reason, "NotDiscovered");
    assert_eq!(discovered.message, format!("Error in discovery: {text}"));
    assert_eq!(handlers(&world.client).len(), 3);
    assert_eq!(
        world.server.get(&path("ext1"))["status"]["handlers"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    world.server.writes();
    reconciler.reconcile("ext1", now).await.unwrap_err();
    assert_eq!(world.server.writes(), [""; 0], "the condition reads the same");
}

fn injected(world: &World) {
    let mut object = config("ext1");
    object["metadata"]["annotations"] =
        json!({ "runtime.cluster.x-k8s.io/inject-ca-from-secret": "ns/certs" });
    object["spec"]["clientConfig"]["caBundle"] = json!(null);
    world.server.put(&path("ext1"), &object);
}

fn secret(world: &World, data: &Value) {
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "certs", "namespace": "ns" },
        "data": data });
    world.server.put("/api/v1/namespaces/ns/secrets/certs", &secret);
}

/// EC-7, EC-8.
#[tokio::test(start_paused = true)]
async fn a_bundle_is_injected_before_the_extension_is_asked() {
    let world = World::new();
    let reconciler = world.reconciler(Mode::ReadWrite);
    ready(&reconciler).await;
    injected(&world);
    reconciler.reconcile("ext1", now).await.unwrap();
    let error = reconciler.reconcile("ext1", now).await.unwrap_err();
    assert_eq!(
        chain(&error),
        "failed to inject the CA bundle: there is no Secret ns/certs"
    );
    secret(&world, &json!({ "tls.crt": "eA==" }));
    let error = reconciler.reconcile("ext1", now).await.unwrap_err();
    assert_eq!(
        chain(&error),
        "failed to inject the CA bundle: Secret ns/certs has no ca.crt"
    );
    assert_eq!(
        (world.condition("ext1", "Discovered"), world.script.count()),
        (None, 0)
    );

    for bundle in ["b25l", "dHdv"] {
        secret(&world, &json!({ "ca.crt": bundle }));
        world.server.writes();
        reconciler.reconcile("ext1", now).await.unwrap();
        let object = world.server.get(&path("ext1"));
        assert_eq!(object["spec"]["clientConfig"]["caBundle"], bundle);
        let discovered = world.condition("ext1", "Discovered").unwrap();
        assert_eq!(
            json!(discovered.observed_generation),
            object["metadata"]["generation"]
        );
        assert_eq!(world.server.writes(), ["spec of ext1", "status of ext1"]);
    }
    assert_eq!(handlers(&world.client).len(), 3);
}

/// EC-3, EC-9.
#[tokio::test(start_paused = true)]
async fn one_that_only_reads_registers_what_the_other_found_out() {
    let world = World::new();
    let writer = world.reconciler(Mode::ReadWrite);
    let (client, reader) = world.reader();
    ready(&writer).await;
    ready(&reader).await;
    injected(&world);
    secret(&world, &json!({ "ca.crt": "b25l" }));
    let error = reader.reconcile("ext1", now).await.unwrap_err();
    assert_eq!(
        chain(&error),
        "failed to use \"ext1\", which another process discovers: caBundle is not set"
    );
    for _ in 0..2 {
        writer.reconcile("ext1", now).await.unwrap();
    }
    world.server.writes();
    let asked = world.script.count();
    reader.reconcile("ext1", now).await.unwrap();
    assert_eq!(handlers(&client), ["first.ext1", "second.ext1", "third.ext1"]);
    assert_eq!((world.server.writes().len(), world.script.count()), (0, asked));
    let mut changed = world.server.get(&path("ext1"));
    changed["spec"]["settings"] = json!({ "a": "b" });
    world.server.put(&path("ext1"), &changed);
    assert_eq!(
        reader.reconcile("ext1", now).await.unwrap_err().category(),
        "unusable"
    );
    assert_eq!(handlers(&client).len(), 3);
    world.server.remove(&path("ext1"));
    reader.reconcile("ext1", now).await.unwrap();
    assert_eq!(handlers(&client), [""; 0]);
}

/// WARM-1.
#[tokio::test(start_paused = true)]
async fn all_extensions_are_registered_at_warm_up() {
    let world = World::new();
    for name in ["ext1", "ext2", "ext3"] {
        world.server.put(&path(name), &config(name));
    }
    let start = Instant::now();
    let reconciler = world.reconciler(Mode::ReadWrite);
    let report = reconciler
        .warm_up(WarmUpSettings::all_or_nothing(), now)
        .await
        .unwrap();
    assert_eq!(report.registered.len(), 3);
    assert_eq!(
        (handlers(&world.client).len(), start.elapsed()),
        (9, Duration::ZERO)
    );
    for name in ["ext1", "ext2", "ext3"] {
        assert!(world.condition(name, "Discovered").unwrap().is_true());
    }
    let again = reconciler.warm_up(WarmUpSettings::default(), now).await;
    assert!(matches!(again, Err(WarmUpError::Registry(RegistryError::Ready))));
}

/// WARM-2.
#[tokio::test(start_paused = true)]
async fn one_that_only_reads_waits_for_the_other() {
    let world = World::new();
    for name in ["ext1", "ext2"] {
        world.server.put(&path(name), &config(name));
    }
    let (client, reader) = world.reader();
    let settings = WarmUpSettings {
        patience: Duration::from_secs(3),
        ..WarmUpSettings::all_or_nothing()
    };
    let error = reader.warm_up(settings, now).await.unwrap_err();
    assert_eq!(
        chain(&error),
        "failed to warm up the registry: condition Discovered is not set yet",
        "the error names one reason once"
    );
    assert!(!client.registry().is_ready());
    ready(&world.reconciler(Mode::ReadWrite)).await;
    reader.warm_up(settings, now).await.unwrap();
    assert_eq!(handlers(&client).len(), 6);
}

fn one_dead(asked: &Asked) -> Answer {
    if asked.host == "ext2" {
        Answer::Silent
    } else {
        offering(&["first"])
    }
}

/// WARM-3, as in Cluster API.
#[tokio::test(start_paused = true)]
async fn a_dead_extension_ends_a_warm_up_of_all_or_nothing() {
    let world = World::new();
    for name in ["ext1", "ext2", "ext3"] {
        world.server.put(&path(name), &config(name));
    }
    world.discovery(one_dead);
    let reconciler = world.reconciler(Mode::ReadWrite);
    let error = reconciler
        .warm_up(WarmUpSettings::all_or_nothing(), now)
        .await
        .unwrap_err();
    assert_eq!(
        chain(&error),
        "failed to warm up the registry: failed to discover extension \"ext2\": no answer came in 10s"
    );
    assert!(!world.client.registry().is_ready());
    assert!(world.condition("ext3", "Discovered").unwrap().is_true());
    assert!(!world.condition("ext2", "Discovered").unwrap().is_true());
    let asked = world.script.asked();
    let of = |host: &str| asked.iter().filter(|asked| asked.host == host).count();
    assert_eq!(
        (of("ext1"), of("ext3")),
        (1, 1),
        "what was found out is not asked again"
    );
    assert!(of("ext2") > 3);
}

/// The default of this crate.
#[tokio::test(start_paused = true)]
async fn a_dead_extension_is_isolated_and_returns_by_itself() {
    let world = World::new();
    for name in ["ext1", "ext2", "ext3"] {
        world.server.put(&path(name), &config(name));
    }
    world.server.put(&path("known"), &{
        let mut known = config("known");
        known["spec"]["clientConfig"]["url"] = json!("https://ext2");
        known["status"]["handlers"] = json!([{ "name": "before.known", "requestHook": {
            "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "BeforeClusterCreate" } }]);
        known
    });
    world.server.put(
        &path("nonsense"),
        &json!({ "metadata": { "name": "nonsense" }, "spec": 1 }),
    );
    world.discovery(one_dead);
    let reconciler = world.reconciler(Mode::ReadWrite);
    let start = Instant::now();
    let report = reconciler.warm_up(WarmUpSettings::default(), now).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
    assert_eq!(report.registered, ["ext1", "ext3"].map(ToOwned::to_owned).into());
    assert_eq!(report.last_known.keys().collect::<Vec<_>>(), ["known"]);
    assert_eq!(
        report.unavailable.keys().collect::<Vec<_>>(),
        ["ext2", "nonsense"]
    );
    assert_eq!(
        handlers(&world.client),
        ["before.known", "first.ext1", "first.ext3"]
    );
    let subject = Subject::new("ns", "c");
    let error = world
        .client
        .call::<BeforeClusterCreate>("first.ext2", &subject, &request())
        .await
        .unwrap_err();
    assert_eq!(error.category(), "unavailable");

    world.discovery(|_| offering(&["first"]));
    for _ in 0..2 {
        reconciler.reconcile("ext2", now).await.unwrap();
    }
    assert_eq!(
        handlers(&world.client),
        ["before.known", "first.ext1", "first.ext2", "first.ext3"]
    );
    world
        .client
        .call::<BeforeClusterCreate>("first.ext2", &subject, &request())
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_is_an_error_and_changes_nothing() {
    let world = World::new();
    world.server.put(&path("ext1"), &config("ext1"));
    let reconciler = world.reconciler(Mode::ReadWrite);
    world.server.away(true);
    let start = Instant::now();
    let error = reconciler
        .warm_up(WarmUpSettings::default(), now)
        .await
        .unwrap_err();
    assert!(matches!(error, WarmUpError::List { .. }));
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    world.server.away(false);
    ready(&reconciler).await;
    world.server.away(true);
    assert!(matches!(
        reconciler.reconcile("ext1", now).await,
        Err(ReconcilerError::Read { .. })
    ));
    assert_eq!(handlers(&world.client).len(), 3);
}

/// Changes by other writers in the meantime are not lost.
#[tokio::test(start_paused = true)]
async fn a_status_is_written_only_over_what_was_read() {
    let world = World::new();
    let reconciler = world.reconciler(Mode::ReadWrite);
    ready(&reconciler).await;
    world.server.put(&path("ext1"), &config("ext1"));
    reconciler.reconcile("ext1", now).await.unwrap();
    let server = world.server.clone();
    world.discovery(move |_| {
        let mut object = server.get(&path("ext1"));
        object["status"]["conditions"][0]["message"] = json!("of another");
        server.put(&path("ext1"), &object);
        offering(&["first"])
    });
    let error = reconciler.reconcile("ext1", now).await.unwrap_err();
    assert!(chain(&error).contains("Conflict"), "{}", chain(&error));
    assert_eq!(world.condition("ext1", "Paused").unwrap().message, "of another");
    assert_eq!(handlers(&world.client), [""; 0]);
    world.discovery(|_| offering(&["first"]));
    reconciler.reconcile("ext1", now).await.unwrap();
    assert_eq!(handlers(&world.client), ["first.ext1"]);
}

/// NS-1 to NS-3, with namespaces of the API server.
#[tokio::test(start_paused = true)]
async fn extensions_are_called_for_the_namespaces_that_they_select() {
    let world = World::new();
    let mut selecting = config("ext1");
    selecting["spec"]["namespaceSelector"] = json!({ "matchExpressions": [
        { "key": "kubernetes.io/metadata.name", "operator": "In", "values": ["one"] },
    ] });
    world.server.put(&path("ext1"), &selecting);
    for name in ["one", "two"] {
        let labels = json!({ "kubernetes.io/metadata.name": name });
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels } });
        world
            .server
            .put(&format!("/api/v1/namespaces/{name}"), &namespace);
    }
    ready(&world.reconciler(Mode::ReadWrite)).await;
    let of = async |namespace: &str| {
        let subject = Subject::new(namespace, "c");
        world
            .client
            .handlers::<BeforeClusterCreate>(&subject)
            .await
            .map_err(|error| chain(&error))
    };
    assert_eq!(of("one").await.unwrap().len(), 3);
    assert_eq!(of("two").await.unwrap(), [""; 0]);
    let error = of("gone").await.unwrap_err();
    assert!(
        error.ends_with("failed to match the namespace: there is no namespace \"gone\""),
        "{error}"
    );
    world.server.away(true);
    let error = of("one").await.unwrap_err();
    assert!(error.contains("failed to read namespace \"one\": "), "{error}");
}

request! {
    /// The request before a machine is created.
    struct BeforeMachineCreateRequest { machine: Object }
}
response! {
    struct BeforeMachineCreateResponse: retry {}
}

/// A provider's own hook.
struct BeforeMachineCreate;

impl Hook for BeforeMachineCreate {
    type Request = BeforeMachineCreateRequest;
    type Response = BeforeMachineCreateResponse;
    const GROUP: &'static str = "hooks.example.com";
    const VERSION: &'static str = "v1";
    const NAME: &'static str = "BeforeMachineCreate";
    const META: HookMeta = HookMeta::new("Called before a machine is created");
}

/// A provider's own kind, with its own fields.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MachineExtension {
    metadata: Metadata,
    spec: MachineExtensionSpec,
    status: MachineExtensionStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MachineExtensionSpec {
    address: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MachineExtensionStatus {
    conditions: Vec<Condition>,
    handlers: Vec<HandlerStatus>,
}

impl ExtensionKind for MachineExtension {
    const GROUP: &'static str = "example.com";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "MachineExtension";
    const PLURAL: &'static str = "machineextensions";

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn client_config(&self) -> ClientConfig {
        ClientConfig {
            url: format!("https://{}", self.spec.address),
            ..ClientConfig::default()
        }
    }

    fn namespace_selector(&self) -> Option<LabelSelector> {
        Some(LabelSelector::default())
    }

    fn settings(&self) -> Settings {
        Settings::new()
    }

    fn status(&self) -> Status {
        Status {
            conditions: self.status.conditions.clone(),
            handlers: self.status.handlers.clone(),
        }
    }
}

/// A provider registers extensions of its own hooks through its own kind; handlers of unknown hooks are skipped.
#[tokio::test(start_paused = true)]
async fn a_kind_of_ones_own_registers_extensions_of_hooks_of_ones_own() {
    let server = ApiServer::default();
    let object = json!({ "metadata": { "name": "mine" }, "spec": { "address": "mine.example.com:8443" } });
    let path = "/apis/example.com/v1/machineextensions/mine";
    server.put(path, &object);
    let script = Script::new(|asked| {
        if asked.path.ends_with("/discovery") {
            let offered = |name: &str, hook: &str| {
                json!({ "name": name, "requestHook": {
                "apiVersion": "hooks.example.com/v1", "hook": hook } })
            };
            return Answer::Json(json!({ "status": "Success", "handlers": [
                offered("veto", "BeforeMachineCreate"), offered("later", "AfterMachineDelete"),
            ] }));
        }
        Answer::Json(json!({ "status": "Success", "retryAfterSeconds": 7, "message": "not on a Friday" }))
    });
    let mut catalog = Catalog::empty();
    catalog
        .add::<nephele_runtime_sdk::hooks::Discovery>()
        .unwrap()
        .add::<BeforeMachineCreate>()
        .unwrap();
    let client = Client::builder(catalog).transport(script.clone()).build();
    let reconciler = Reconciler::<MachineExtension>::new(server.client(), client.clone(), Mode::ReadWrite);
    let settings = WarmUpSettings {
        mode: WarmUp::AllOrNothing,
        ..WarmUpSettings::default()
    };
    reconciler.warm_up(settings, now).await.unwrap();
    let status = server.get(path)["status"].clone();
    assert_eq!(status["handlers"].as_array().unwrap().len(), 1);
    assert_eq!(status["handlers"][0]["name"], "veto.mine");
    assert_eq!(
        status["conditions"][0]["message"],
        "Left out: requestHook hooks.example.com/v1/AfterMachineDelete of handler \"later\" is not in the Runtime SDK \
         catalog"
    );
    let response = client
        .call_all::<BeforeMachineCreate>(&Subject::new("ns", "m"), &BeforeMachineCreateRequest::default())
        .await
        .unwrap();
    assert_eq!(
        (response.retry_after_seconds, response.message.as_str()),
        (7, "not on a Friday")
    );
    assert_eq!(
        script.asked().last().unwrap().path,
        "/hooks.example.com/v1/beforemachinecreate/veto"
    );
}
