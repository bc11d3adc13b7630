//! The management API.

use std::{
    convert::Infallible,
    fmt::Debug,
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::body::Body;
use http::{Method, Request, Response, StatusCode, Uri};
use jiff::Timestamp;
use k8s_openapi::{NamespaceResourceScope, api::events::v1::Event};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use nephele_apiserver::{
    ApiServer, Authentication, Key, RequestInfo, RequestObserver, Settings, Store, StoreOptions, Version,
};
use nephele_controller::{Clock, check_request};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{objects::NAMESPACE, patience::eventually_of};

/// Definitions by name.
pub type Definitions = Vec<(String, Value)>;

static DEFINITIONS: OnceLock<Definitions> = OnceLock::new();

/// The CRDs by name. A debug build needs longer to derive them from their types than most tests take.
pub fn definitions() -> &'static Definitions {
    DEFINITIONS.get_or_init(|| {
        let core = [
            nephele_api::core::loose_crds(),
            nephele_api::core::loose_class_crds(),
        ]
        .concat();
        let all = [nephele_api::crds(), core, nephele_api::ipam::loose_crds()]
            .into_iter()
            .flatten();
        all.map(|definition| {
            let value = serde_json::to_value(&definition).expect("a definition is JSON");
            (definition.name_any(), value)
        })
        .collect()
    })
}

/// Takes the CRDs that another process of this program has derived. No effect if this process has derived them itself.
pub fn take_definitions(derived: Definitions) {
    drop(DEFINITIONS.set(derived));
}

/// Resources of the core group that tests use.
const CORE: [&str; 8] = [
    "configmaps",
    "events",
    "namespaces",
    "nodes",
    "pods",
    "secrets",
    "serviceaccounts",
    "services",
];

/// A Kubernetes API server in this process, with our kinds and Cluster API's. Cheap to clone, and all clones share
/// their state.
#[derive(Clone)]
pub struct ManagementApi {
    server: ApiServer,
    client: Client,
    clock: Clock,
    log: Arc<Log>,
}

/// A clock that begins now and follows the time of tokio, also where a test pauses it.
fn tokio_clock() -> Clock {
    let began = Timestamp::now();
    let start = Instant::now();
    Arc::new(move || began + start.elapsed())
}

/// A request that changed something, or tried to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Write {
    pub verb: &'static str,
    /// The plural, with the subresource after a slash.
    pub resource: String,
    /// The object's name, empty for a creation.
    pub name: String,
    /// The HTTP status code of the answer.
    pub code: u16,
}

/// The writes so far. Owned by the management API.
#[derive(Default)]
struct Log(Mutex<Vec<Write>>);

impl RequestObserver for Log {
    fn observe(&self, request: &RequestInfo, code: u16, _: Duration) {
        if !matches!(
            request.verb,
            "create" | "update" | "patch" | "delete" | "deletecollection"
        ) {
            return;
        }
        let separator = if request.subresource.is_empty() { "" } else { "/" };
        self.0.lock().push(Write {
            verb: request.verb,
            resource: format!("{}{separator}{}", request.resource, request.subresource),
            name: request.name.clone(),
            code,
        });
    }
}

impl ManagementApi {
    /// Starts a new API server that has only namespaces and CRDs. Needs a Tokio runtime.
    #[must_use]
    pub fn start() -> Self {
        Self::start_at("management", tokio_clock())
    }

    /// As [`ManagementApi::start`], with this clock. API servers with different names give different uids.
    #[must_use]
    pub fn start_at(name: &str, clock: Clock) -> Self {
        let options = StoreOptions {
            uid_seed: name.to_owned(),
            ..StoreOptions::default()
        };
        let store = Store::new(options);
        let now = clock();
        store.create_default_namespaces(now);
        for (name, definition) in definitions() {
            let key = Key::new("apiextensions.k8s.io", "customresourcedefinitions", "", name);
            store
                .create(now, &key, definition.clone())
                .expect("the definition is taken");
        }
        let log = Arc::new(Log::default());
        let settings = Settings {
            version: Version {
                major: "1".into(),
                minor: "36".into(),
                git_version: "v1.36.3".into(),
            },
            authentication: Authentication::AllowAll,
            clock: clock.clone(),
            observer: Some(log.clone()),
        };
        let server = ApiServer::new(store, Arc::new(settings));
        let client = connect(server.clone());
        Self {
            server,
            client,
            clock,
            log,
        }
    }

    /// The clock of the API server. Controllers that are tested with it should have the same one.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// A client with all rights.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A client whose requests get the status 503 when `refused` returns true for their method and path.
    #[must_use]
    pub fn refusing(&self, refused: fn(&str, &str) -> bool) -> Client {
        self.answering(StatusCode::SERVICE_UNAVAILABLE, refused)
    }

    /// A client whose requests are forbidden, by method and path, as by an admission webhook.
    #[must_use]
    pub fn forbidding(&self, forbidden: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Client {
        self.answering(StatusCode::FORBIDDEN, forbidden)
    }

    fn answering(
        &self,
        status: StatusCode,
        refused: impl Fn(&str, &str) -> bool + Send + Sync + 'static,
    ) -> Client {
        let server = self.server.clone();
        let refused = Arc::new(refused);
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let server = server.clone();
            let refused = Arc::clone(&refused);
            assert_safe(&server, &request);
            async move {
                if refused(request.method().as_str(), request.uri().path()) {
                    let mut response = Response::new(Body::from("refused"));
                    *response.status_mut() = status;
                    return Ok::<_, Infallible>(response);
                }
                Ok(server.handle(request.map(Body::new)).await)
            }
        });
        Client::new(service, NAMESPACE)
    }

    /// The server, for tests that send HTTP requests to it.
    #[must_use]
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// The requests that changed something since the last call, or tried to; Events are left out.
    #[must_use]
    pub fn take_writes(&self) -> Vec<Write> {
        let mut writes = std::mem::take(&mut *self.log.0.lock());
        writes.retain(|write| write.resource != "events");
        writes
    }

    /// The events about an object in [`NAMESPACE`], in the order in which they were published: type, reason and note.
    pub async fn story(&self, kind: &str, name: &str) -> Vec<[String; 3]> {
        let events = self
            .api::<Event>()
            .list(&ListParams::default())
            .await
            .expect("a list");
        let concerns = |event: &Event| {
            let about = event.regarding.as_ref();
            about.is_some_and(|about| {
                (about.kind.as_deref(), about.name.as_deref()) == (Some(kind), Some(name))
            })
        };
        let mut events: Vec<_> = events.into_iter().filter(concerns).collect();
        events.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
        let words = |event: Event| [event.type_, event.reason, event.note].map(Option::unwrap_or_default);
        events.into_iter().map(words).collect()
    }

    /// A typed API for the kind `K` in [`NAMESPACE`].
    #[must_use]
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Creates an object with its status.
    pub async fn create<K>(&self, object: &K) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + Serialize + DeserializeOwned,
    {
        let name = object.name_any();
        let api = self.api::<K>();
        let created = api.create(&PostParams::default(), object).await;
        let created = created.unwrap_or_else(|error| panic!("{} {name} is not taken: {error}", K::kind(&())));
        let value = serde_json::to_value(object).expect("an object is JSON");
        match value.get("status") {
            Some(status) => self.patch_status::<K>(&name, status).await,
            None => created,
        }
    }

    /// An API for objects of the kind `K` of any shape.
    #[must_use]
    pub fn shapeless<K>(&self) -> Api<DynamicObject>
    where
        K: Resource<DynamicType = ()>,
    {
        let resource = ApiResource::erase::<K>(&());
        let kind = K::kind(&());
        if kind == "ClusterFault" || kind.starts_with("Global") {
            return Api::all_with(self.client.clone(), &resource);
        }
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
    }

    /// Creates an object of the kind `K`, whatever the shape of its spec is: the server checks no schema.
    pub async fn create_shapeless<K>(&self, name: &str, spec: &Value)
    where
        K: Resource<DynamicType = ()>,
    {
        let object = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": { "name": name }, "spec": spec,
        });
        let object = serde_json::from_value(object).expect("an object");
        let created = self
            .shapeless::<K>()
            .create(&PostParams::default(), &object)
            .await;
        created.unwrap_or_else(|error| panic!("{} {name} is not taken: {error}", K::kind(&())));
    }

    /// Waits until a condition of an object, of any shape, has this reason. Returns its message.
    pub async fn eventually_says<K>(&self, name: &str, condition: &str, reason: &str) -> String
    where
        K: Resource<DynamicType = ()>,
    {
        let message = |object: &DynamicObject| {
            let listed = object.data.pointer("/status/conditions")?.as_array()?;
            let ready = listed
                .iter()
                .find(|one| one["type"] == condition && one["reason"] == reason)?;
            Some(ready["message"].as_str()?.to_owned())
        };
        let says = |object: Option<&DynamicObject>| object.and_then(message).is_some();
        let what = format!("to have {condition} with {reason}");
        let object = eventually_of(&self.shapeless::<K>(), name, &what, says).await;
        object.as_ref().and_then(message).expect("it says so")
    }

    /// Reads an existing object.
    pub async fn get<K>(&self, name: &str) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned,
    {
        let found = self.api::<K>().get(name).await;
        found.unwrap_or_else(|error| panic!("{} {name} is not there: {error}", K::kind(&())))
    }

    /// Merges a patch into an object.
    pub async fn patch<K>(&self, name: &str, patch: &Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned,
    {
        let patched = self
            .api::<K>()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.unwrap_or_else(|error| panic!("{} {name} is not patched: {error}", K::kind(&())))
    }

    /// Merges a patch into the status of an object.
    pub async fn patch_status<K>(&self, name: &str, status: &Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned,
    {
        let patch = Patch::Merge(json!({ "status": status }));
        let patched = self
            .api::<K>()
            .patch_status(name, &PatchParams::default(), &patch)
            .await;
        patched
            .unwrap_or_else(|error| panic!("the status of {} {name} is not patched: {error}", K::kind(&())))
    }

    /// Requests the deletion of an object.
    pub async fn delete<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned,
    {
        let deleted = self.api::<K>().delete(name, &DeleteParams::default()).await;
        deleted.unwrap_or_else(|error| panic!("{} {name} is not deleted: {error}", K::kind(&())));
    }

    /// Waits until `wanted` holds for the object, and returns the object. Otherwise fails the test with the last state.
    pub async fn eventually<K>(&self, name: &str, what: &str, wanted: impl Fn(&K) -> bool + Send + Sync) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned + Serialize + Send + Sync + 'static,
    {
        let is_so = |object: Option<&K>| object.is_some_and(&wanted);
        eventually_of(&self.api(), name, what, is_so)
            .await
            .expect("an absent object is not as wanted")
    }

    /// Waits until there is no object of this name.
    pub async fn eventually_gone<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned + Serialize + Send + Sync + 'static,
    {
        eventually_of(&self.api::<K>(), name, "to be gone", |object| object.is_none()).await;
    }
}

/// A client that calls the server without a socket.
fn connect(server: ApiServer) -> Client {
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let server = server.clone();
        assert_safe(&server, &request);
        async move {
            let response: Response<Body> = server.handle(request.map(Body::new)).await;
            Ok::<_, Infallible>(response)
        }
    });
    Client::new(service, NAMESPACE)
}

/// Whether a resource is one of Kubernetes itself, or was defined in this API server, now or at its start.
fn is_known(server: &ApiServer, group: &str, resource: &str) -> bool {
    let is_of_kubernetes = match group {
        "" => CORE.contains(&resource),
        group => !group.contains('.') || (group.ends_with(".k8s.io") && !group.ends_with(".x-k8s.io")),
    };
    let name = format!("{resource}.{group}");
    let definition = Key::new("apiextensions.k8s.io", "customresourcedefinitions", "", &name);
    is_of_kubernetes
        || definitions().iter().any(|(defined, _)| *defined == name)
        || server.store().get(&definition).is_some()
}

/// Fails the test when the guard of the manager would refuse a request. Tests may also delete collections, as users do, and ask
/// by a dry run and apply by force, as commands for people do.
fn assert_safe<B>(server: &ApiServer, request: &Request<B>) {
    const OF_PEOPLE: [&str; 2] = ["dryRun=All", "force=true"];
    let method = request.method();
    let uri = request.uri();
    let others = uri
        .query()
        .unwrap_or_default()
        .split('&')
        .filter(|parameter| !OF_PEOPLE.contains(parameter));
    let query: String = others
        .filter(|parameter| !parameter.is_empty())
        .map(|parameter| format!("&{parameter}"))
        .collect();
    let uri = &if query.is_empty() {
        uri.path().to_owned()
    } else {
        format!("{}?{query}", uri.path())
    };
    let uri = &uri
        .parse::<Uri>()
        .unwrap_or_else(|error| panic!("{method} {uri}: {error}"));
    let check = |method| check_request(method, uri, |group, resource| is_known(server, group, resource));
    let is_users = || method == Method::DELETE && check(&Method::GET).is_ok();
    if let Err(error) = check(method)
        && !is_users()
    {
        panic!("{method} {uri}: {error}");
    }
}
