//! A management API on a socket, with port-forward and tokens, for tests. Our kinds name the manager's namespace.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    Router,
    body::Body,
    extract::{Path as UrlPath, State},
    response::IntoResponse as _,
    routing::{get, post},
};
use futures::{SinkExt as _, StreamExt as _};
use http::{Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use nephele_api::core::Cluster;
use nephele_testkit::ManagementApi;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, handshake::derive_accept_key, protocol::Role},
};

const NAMESPACE: &str = "default";
/// The namespace that our definitions name.
pub(crate) const SYSTEM: &str = "nephele-system";
/// The token of each account.
pub(crate) const TOKEN: &str = "token-of-an-account";

/// As Cluster API publishes it.
const KUBECONFIG: &str = "{current-context: c, clusters: [{name: c, cluster: {server: 'https://h:1'}}],
    users: [{name: u, user: {token: t}}], contexts: [{name: c, context: {cluster: c, user: u}}]}";

pub(crate) struct Management {
    api: ManagementApi,
    shared: Arc<Shared>,
    folder: tempfile::TempDir,
    address: SocketAddr,
    server: JoinHandle<()>,
}

struct Shared {
    api: ManagementApi,
    /// The addresses of the pods that listen, by namespace and name.
    pods: std::sync::Mutex<BTreeMap<(String, String), SocketAddr>>,
    /// The pods to which a port was forwarded, and the accounts for which a token was requested with its audiences.
    asked: std::sync::Mutex<Vec<String>>,
    forbidden: AtomicBool,
}

impl Management {
    pub(crate) async fn start() -> Self {
        // The binary does this for every command.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let api = ManagementApi::start();
        let shared = Shared {
            api: api.clone(),
            pods: Default::default(),
            asked: Default::default(),
            forbidden: AtomicBool::new(false),
        };
        let shared = Arc::new(shared);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let router = Router::new()
            .route(
                "/api/v1/namespaces/{namespace}/pods/{pod}/portforward",
                get(forward),
            )
            .route(
                "/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
                post(token),
            )
            .fallback(
                |State(shared): State<Arc<Shared>>, request: Request<Body>| async move {
                    shared.api.server().handle(request).await
                },
            )
            .with_state(shared.clone());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.expect("a server") });
        let folder = tempfile::tempdir().expect("a folder");
        let management = Self {
            api,
            shared,
            folder,
            address,
            server,
        };
        let kubeconfig = format!(
            "{{current-context: c, clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}],
              contexts: [{{name: c, context: {{cluster: c, user: u, namespace: {NAMESPACE}}}}}]}}"
        );
        std::fs::write(management.kubeconfig(), kubeconfig).expect("written");
        management.namespace(SYSTEM).await;
        management
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder().join("management.kubeconfig")
    }

    pub(crate) fn stop(&self) {
        self.server.abort();
    }

    /// From now on no account may forward ports.
    pub(crate) fn forbid(&self) {
        self.shared.forbidden.store(true, Ordering::Relaxed);
    }

    pub(crate) fn client(&self) -> Client {
        let address = self.address;
        let config = kube::Config::new(format!("http://{address}").parse().expect("an address"));
        nephele_access::Server::direct(config).client().expect("a client")
    }

    /// Creates a namespace.
    pub(crate) async fn namespace(&self, name: &str) {
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": name}})).expect("valid");
        let namespaces = Api::<Namespace>::all(self.api.client());
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .expect("created");
    }

    /// Who was asked by a port-forward, and which tokens were requested.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.shared.asked.lock().expect("no panic").clone()
    }

    /// A pod of the manager.
    pub(crate) async fn pod(&self, name: &str, phase: &str) {
        self.pod_in(
            SYSTEM,
            name,
            phase,
            "infrastructure-in-memory",
            &["--leader-elect"],
        )
        .await;
    }

    /// A pod of the manager of a provider, at least by its labels.
    pub(crate) async fn pod_in(
        &self,
        namespace: &str,
        name: &str,
        phase: &str,
        provider: &str,
        args: &[&str],
    ) {
        let labels = json!({"cluster.x-k8s.io/provider": provider, "control-plane": "controller-manager"});
        let pod = json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"containers": [{"name": "manager", "args": args}]},
        });
        self.create_in::<Pod>(namespace, pod).await;
        // As with a real API server, a new pod is pending.
        let status = Patch::Merge(json!({"status": {"phase": phase}}));
        let pods = Api::<Pod>::namespaced(self.api.client(), namespace);
        pods.patch_status(name, &PatchParams::default(), &status)
            .await
            .expect("patched");
    }

    /// Lets this address answer at all ports of the pod.
    pub(crate) fn listens(&self, namespace: &str, pod: &str, address: SocketAddr) {
        let pod = (namespace.to_owned(), pod.to_owned());
        self.shared.pods.lock().expect("no panic").insert(pod, address);
    }

    /// Lets the pod listen.
    pub(crate) async fn serve(&self, pod: &str) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        self.listens(SYSTEM, pod, address);
        let pod = pod.to_owned();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(answer(socket, pod.clone()));
            }
        });
    }

    pub(crate) async fn delete_pod(&self, name: &str) {
        self.shared
            .pods
            .lock()
            .expect("no panic")
            .remove(&(SYSTEM.to_owned(), name.to_owned()));
        let now = DeleteParams {
            grace_period_seconds: Some(0),
            ..DeleteParams::default()
        };
        Api::<Pod>::namespaced(self.api.client(), SYSTEM)
            .delete(name, &now)
            .await
            .expect("deleted");
    }

    /// A cluster with an endpoint and a kubeconfig.
    pub(crate) async fn cluster(&self, name: &str) {
        let endpoint = json!({"host": "nephele-workload.nephele-system.svc", "port": 1});
        self.create_cluster(name, &json!({"controlPlaneEndpoint": endpoint}))
            .await;
        let name = format!("{name}-kubeconfig");
        let secrets = Api::<Secret>::namespaced(self.api.client(), NAMESPACE);
        if secrets.get_opt(&name).await.expect("an answer").is_none() {
            self.create::<Secret>(json!({"metadata": {"name": name}, "stringData": {"value": KUBECONFIG}}))
                .await;
        }
    }

    pub(crate) async fn create_cluster(&self, name: &str, spec: &Value) {
        let mut spec = spec.clone();
        spec["infrastructureRef"] =
            json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "InMemoryCluster", "name": name});
        self.create::<Cluster>(json!({"metadata": {"name": name}, "spec": spec}))
            .await;
    }

    pub(crate) async fn delete_cluster(&self, name: &str) {
        let clusters = Api::<Cluster>::namespaced(self.api.client(), NAMESPACE);
        clusters
            .delete(name, &DeleteParams::default())
            .await
            .expect("deleted");
    }

    async fn create<K>(&self, object: Value)
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
    {
        self.create_in::<K>(NAMESPACE, object).await;
    }

    pub(crate) async fn create_in<K>(&self, namespace: &str, mut object: Value)
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
    {
        object["apiVersion"] = K::api_version(&()).into();
        object["kind"] = K::kind(&()).into();
        let object: K = serde_json::from_value(object).expect("an object");
        Api::namespaced(self.api.client(), namespace)
            .create(&PostParams::default(), &object)
            .await
            .expect("created");
    }
}

async fn token(
    State(shared): State<Arc<Shared>>,
    UrlPath((namespace, name)): UrlPath<(String, String)>,
    axum::Json(mut request): axum::Json<Value>,
) -> axum::Json<Value> {
    // The end of the name is random.
    let account = name
        .rsplit_once('-')
        .map_or(name.as_str(), |(account, _)| account);
    let audiences = &request["spec"]["audiences"];
    shared
        .asked
        .lock()
        .expect("no panic")
        .push(format!("token of {namespace}/{account} for {audiences}"));
    request["status"] = json!({"token": TOKEN, "expirationTimestamp": "2026-03-04T05:06:07Z"});
    axum::Json(request)
}

/// What runs in a pod.
async fn answer(socket: TcpStream, pod: String) {
    let mut socket = BufReader::new(socket);
    let mut line = String::new();
    while socket.read_line(&mut line).await.is_ok_and(|length| length > 0) {
        if socket
            .write_all(format!("{pod}: {line}").as_bytes())
            .await
            .is_err()
        {
            return;
        }
        line.clear();
    }
}

/// Port-forward as a kubelet answers it: channel 0 has the data, channel 1 the error, and both begin with the port.
async fn forward(
    State(shared): State<Arc<Shared>>,
    UrlPath(pod): UrlPath<(String, String)>,
    mut request: Request<Body>,
) -> Response<Body> {
    if shared.forbidden.load(Ordering::Relaxed) {
        let status = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden",
            "message": "cannot create resource \"pods/portforward\""});
        return (StatusCode::FORBIDDEN, axum::Json(status)).into_response();
    }
    let query = request.uri().query().unwrap_or_default();
    let port = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("ports=")?.parse::<u16>().ok())
        .expect("a port");
    let key = request.headers()[header::SEC_WEBSOCKET_KEY].clone();
    shared
        .asked
        .lock()
        .expect("no panic")
        .push(format!("{}/{}", pod.0, pod.1));
    let backend = shared.pods.lock().expect("no panic").get(&pod).copied();
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let upgraded = TokioIo::new(upgrade.await.expect("an upgrade"));
        let mut socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, None).await;
        let [low, high] = port.to_le_bytes();
        for channel in [0, 1] {
            socket
                .send(Message::binary(vec![channel, low, high]))
                .await
                .expect("sent");
        }
        if let Some(backend) = backend {
            pump(&mut socket, backend).await;
        } else {
            let _ = socket
                .send(Message::binary(b"\x01connection refused".to_vec()))
                .await;
        }
        let _ = socket.close(None).await;
    });
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_ACCEPT, derive_accept_key(key.as_bytes()))
        .header(header::SEC_WEBSOCKET_PROTOCOL, "v4.channel.k8s.io")
        .body(Body::empty())
        .expect("a response")
}

async fn pump(socket: &mut WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>, backend: SocketAddr) {
    let mut backend = TcpStream::connect(backend).await.expect("the pod listens");
    let mut buffer = vec![0; 1024];
    loop {
        tokio::select! {
            message = socket.next() => match message {
                Some(Ok(Message::Binary(bytes))) => backend.write_all(&bytes[1..]).await.expect("written"),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
            length = backend.read(&mut buffer) => match length {
                Ok(length @ 1..) => {
                    let message = [&[0], &buffer[..length]].concat();
                    socket.send(Message::binary(message)).await.expect("sent");
                }
                _ => return,
            },
        }
    }
}
