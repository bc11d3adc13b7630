//! A port of this machine that leads to a port of the manager's pod: one port-forward stream for each connection.
//!
//! ```text
//!  kubectl ──▶ 127.0.0.1:port ──▶ management API server ──▶ kubelet ──▶ pod:port   (WebSocket, v4.channel.k8s.io)
//! ```

use std::{net::SocketAddr, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use nephele_listen::explained;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep, timeout, timeout_at},
};

use super::plan::Backend;
use crate::{
    exit::Problem,
    loopback::loopback,
    provider::{ManagerPod, Managers},
};

/// Connections to all clusters. Each needs two sockets and each listener one, so that 256 connections to 400 clusters
/// stay below 1,024 open files, where that is the limit. Each buffers 2 MiB at most.
const CONNECTIONS_MAX: usize = 256;

/// Connections to one cluster: a quarter, so that one cluster does not lock out the others. More wait in the listener's
/// queue.
const CONNECTIONS_OF_CLUSTER_MAX: usize = 64;

/// How long a connection waits for a pod that answers: while the manager is replaced, usually some seconds.
const PATIENCE: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_millis(500);

/// How long the management cluster may take to open a stream.
const OPEN_MAX: Duration = Duration::from_secs(15);

/// How much a client may send before the pod has answered. It is kept for the case that the pod does not answer. A TLS
/// client sends one message of a few kilobytes.
const UNANSWERED_MAX: usize = 64 * 1024;

/// What all forwards share.
#[derive(Clone)]
pub(super) struct Forwarder {
    client: Client,
    managers: watch::Receiver<Managers>,
    connections: Arc<Semaphore>,
}

/// An open port. Its connections end when it is dropped.
pub(super) struct Forward {
    pub(super) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Forwarder {
    pub(super) fn new(client: Client, managers: watch::Receiver<Managers>) -> Self {
        Self {
            client,
            managers,
            connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        }
    }

    /// Listens on the backend's own port, or on any other when it is not free. `tell` gets the reason when the backend
    /// cannot be reached.
    pub(super) async fn open(
        &self,
        backend: Backend,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> std::io::Result<Forward> {
        let host = loopback();
        let bind = |port| TcpListener::bind((host, port));
        let listener = match bind(backend.port).await {
            Ok(listener) => listener,
            Err(_) => bind(0).await.map_err(explained)?,
        };
        let address = listener.local_addr()?;
        Ok(Forward {
            address,
            task: tokio::spawn(self.clone().accept(listener, backend, Arc::new(tell))),
        })
    }

    /// Opens a stream and closes it again, to find a missing permission before the first connection.
    pub(super) async fn probe(&self, backend: &Backend) -> Result<(), Problem> {
        let pod = self
            .managers
            .borrow()
            .candidates(&backend.host)
            .first()
            .map(|&pod| pod.clone());
        let Some(pod) = pod else { return Ok(()) };
        match timeout(OPEN_MAX, self.api(&pod).portforward(&pod.name, &[backend.port])).await {
            Ok(Err(error)) if is_forbidden(&error) => Err(Problem::request(
                "forward a port of the manager's pod",
                &permission(&pod),
                error,
            )),
            // Anything else may pass.
            _ => Ok(()),
        }
    }

    fn api(&self, pod: &ManagerPod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &pod.namespace)
    }

    async fn accept(
        self,
        listener: TcpListener,
        backend: Backend,
        tell: Arc<impl Fn(&str) + Send + Sync + 'static>,
    ) {
        let own = Arc::new(Semaphore::new(CONNECTIONS_OF_CLUSTER_MAX));
        let mut connections = JoinSet::new();
        loop {
            let place = own
                .clone()
                .acquire_owned()
                .await
                .expect("the semaphore is never closed");
            let Ok((socket, _)) = listener.accept().await else {
                // Too many open files, for example. A connection may end meanwhile.
                sleep(RETRY).await;
                continue;
            };
            let shared = self
                .connections
                .clone()
                .acquire_owned()
                .await
                .expect("the semaphore is never closed");
            while connections.try_join_next().is_some() {}
            let forwarder = self.clone();
            let backend = backend.clone();
            let tell = tell.clone();
            connections.spawn(async move {
                forwarder.serve(socket, &backend, &*tell).await;
                drop((place, shared));
            });
        }
    }

    async fn serve(mut self, mut socket: TcpStream, backend: &Backend, tell: &impl Fn(&str)) {
        // Answers are not delayed; without it, they would still be right.
        let _ = socket.set_nodelay(true);
        let deadline = Instant::now() + PATIENCE;
        let mut unanswered = Vec::new();
        for attempt in 0.. {
            if self.managers.borrow().candidates(&backend.host).is_empty() {
                tell("the manager has no running pod that leads");
            }
            let Ok(pod) = timeout_at(deadline, self.candidate(&backend.host, attempt)).await else {
                return;
            };
            let connected = self
                .connect(&pod, backend.port, &mut socket, &mut unanswered, deadline)
                .await;
            match connected {
                Ok(Connected::Answered(mut stream)) => {
                    tell("");
                    tokio::select! {
                        _ = copy_bidirectional(&mut socket, &mut stream) => {}
                        () = self.gone(&pod) => {}
                    }
                    return;
                }
                Ok(Connected::ClientLeft) => return,
                Err(reason) => tell(&reason),
            }
            if Instant::now() >= deadline {
                return;
            }
            sleep(RETRY).await;
        }
    }

    /// The pod to try, as soon as there is one.
    async fn candidate(&mut self, host: &str, attempt: usize) -> ManagerPod {
        let nth = |managers: &Managers| {
            let candidates = managers.candidates(host);
            candidates
                .get(attempt % candidates.len().max(1))
                .map(|&pod| pod.clone())
        };
        loop {
            let pod = nth(&self.managers.borrow_and_update());
            if let Some(pod) = pod {
                return pod;
            }
            if self.managers.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    async fn gone(&mut self, pod: &ManagerPod) {
        let followed = self
            .managers
            .wait_for(|managers| !managers.has(&pod.uid))
            .await
            .is_ok();
        if !followed {
            std::future::pending::<()>().await;
        }
    }

    /// Connects to a pod. Until the pod answers, it may turn out that it does not serve the port yet, so what the
    /// client says is kept for the next attempt.
    async fn connect(
        &self,
        pod: &ManagerPod,
        port: u16,
        socket: &mut TcpStream,
        unanswered: &mut Vec<u8>,
        deadline: Instant,
    ) -> Result<Connected<impl AsyncRead + AsyncWrite + Unpin + use<>>, String> {
        let opened = timeout(OPEN_MAX, self.api(pod).portforward(&pod.name, &[port])).await;
        let mut streams = match opened {
            Ok(Ok(streams)) => streams,
            Ok(Err(error)) if is_forbidden(&error) => {
                return Err(format!("you need the permission to {}", permission(pod)));
            }
            Ok(Err(kube::Error::Api(status))) => return Err(status.message.clone()),
            Ok(Err(error)) => return Err(nephele_controller::chain(&error)),
            Err(_) => return Err("the management cluster does not answer in time".to_owned()),
        };
        let refused = streams.take_error(port);
        let stream = streams.take_stream(port);
        let mut stream = stream.expect("the port was asked for");
        stream
            .write_all(unanswered)
            .await
            .map_err(|error| error.to_string())?;
        let mut said = vec![0; 16 * 1024];
        let mut answer = vec![0; 16 * 1024];
        let answered = async {
            loop {
                tokio::select! {
                    read = stream.read(&mut answer) => return match read {
                        Ok(length @ 1..) => Ok(Some(length)),
                        Ok(0) | Err(_) => Err(()),
                    },
                    read = socket.read(&mut said), if unanswered.len() < UNANSWERED_MAX => match read {
                        Ok(length @ 1..) => {
                            unanswered.extend_from_slice(&said[..length]);
                            stream.write_all(&said[..length]).await.map_err(drop)?;
                        }
                        Ok(0) | Err(_) => return Ok(None),
                    },
                }
            }
        };
        let silent = "the manager's pod does not answer on this port";
        match timeout_at(deadline, answered).await {
            Ok(Ok(Some(length))) => {
                let sent = socket.write_all(&answer[..length]).await;
                Ok(if sent.is_ok() {
                    Connected::Answered(stream)
                } else {
                    Connected::ClientLeft
                })
            }
            Ok(Ok(None)) => Ok(Connected::ClientLeft),
            Ok(Err(())) => {
                let reason = match refused {
                    Some(refused) => timeout(RETRY, refused).await.ok().flatten(),
                    None => None,
                };
                Err(reason.unwrap_or_else(|| silent.to_owned()))
            }
            Err(_) => Err(silent.to_owned()),
        }
    }
}

enum Connected<S> {
    Answered(S),
    ClientLeft,
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

/// Kubernetes asks for `get`, because a WebSocket begins as a GET, and since 1.35 also for `create`.
fn permission(pod: &ManagerPod) -> String {
    format!(
        "create pods/portforward, and to get it, in namespace {}",
        pod.namespace
    )
}
