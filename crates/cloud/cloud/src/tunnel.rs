//! Port-forwards to the ports of the control plane's pods. Nothing is dialled: the other end of a tunnel is in this
//! process.

use std::sync::Arc;

use axum::body::Body;
use futures::{FutureExt as _, future::BoxFuture};
use http::{Request, Response};
use nephele_apiserver::PortForward;
use nephele_etcd::{Connection, serve_connection};
use nephele_listen::{Grant, handshake};
use nephele_poll_time::timed;
use nephele_portforward::{ConnectError, Duplex, Target, accept};
use tokio::io::{DuplexStream, duplex};
use tokio_rustls::TlsAcceptor;

use crate::{
    cluster_server::{BackendPod, ClusterServer, LIMITS},
    metrics::Counted,
    serve::{serve_http, unavailable},
};

/// Bytes buffered between a tunnel and its server, each way: one TLS record.
const PIPE_BYTES: usize = 17 * 1024;

/// The tunnels of one cluster.
pub(crate) struct Tunnel {
    cluster: Arc<ClusterServer>,
}

impl Tunnel {
    pub(crate) fn of(cluster: &Arc<ClusterServer>) -> Arc<dyn PortForward> {
        Arc::new(Self {
            cluster: cluster.clone(),
        })
    }
}

impl PortForward for Tunnel {
    fn handle(&self, _: String, pod: String, request: Request<Body>) -> BoxFuture<'static, Response<Body>> {
        let Ok(place) = self.cluster.tunnels.clone().try_acquire_owned() else {
            return std::future::ready(unavailable("too many port-forwards are open")).boxed();
        };
        let target = Pod {
            cluster: self.cluster.clone(),
            name: pod,
        };
        let answer = accept(request, Arc::new(target));
        if let Some(session) = answer.session {
            let cluster = self.cluster.clone();
            let epoch = cluster.frontend.epoch();
            let broken = cluster.broken();
            self.cluster.shared.tasks.spawn(timed("port-forward", async move {
                let _open = Counted::new(&cluster.shared.metrics.tunnels);
                tokio::select! {
                    () = cluster.over.cancelled() => {}
                    () = epoch.cancelled() => {}
                    () = broken => {}
                    result = session => if let Err(error) = result {
                        tracing::debug!(error = &error as &dyn std::error::Error, "A port-forward ended early");
                    }
                }
                drop(place);
            }));
        }
        std::future::ready(answer.response.map(Body::from)).boxed()
    }
}

/// The ports of one pod.
struct Pod {
    cluster: Arc<ClusterServer>,
    name: String,
}

impl Target for Pod {
    fn connect(&self, port: u16) -> BoxFuture<'static, Result<Box<dyn Duplex>, ConnectError>> {
        let Some(backend_pod) = self.cluster.backend_pod(&self.name, port) else {
            let error = ConnectError(format!(
                "failed to connect to localhost:{port} inside of pod {}: connect: connection refused",
                self.name
            ));
            return std::future::ready(Err(error)).boxed();
        };
        // Who forwards a port is authenticated, so this place is not taken away.
        let Some(place) = self.cluster.places.take(1).filter(Grant::pin) else {
            let error = ConnectError(format!(
                "failed to connect to localhost:{port} inside of pod {}: too many connections are open",
                self.name
            ));
            return std::future::ready(Err(error)).boxed();
        };
        let (near, far) = duplex(PIPE_BYTES);
        let cluster = self.cluster.clone();
        let over = cluster.over.clone();
        self.cluster
            .shared
            .tasks
            .spawn(timed("connection in a port-forward", async move {
                tokio::select! {
                    () = over.cancelled() => {}
                    () = serve(backend_pod, far, cluster) => {}
                }
                drop(place);
            }));
        std::future::ready(Ok(Box::new(near) as Box<dyn Duplex>)).boxed()
    }
}

async fn serve(backend_pod: BackendPod, far: DuplexStream, cluster: Arc<ClusterServer>) {
    let config = match &backend_pod {
        BackendPod::Etcd { tls, .. } => tls.clone(),
        BackendPod::ApiServer(tls) => tls.config.clone(),
    };
    let stream = match handshake(far, TlsAcceptor::from(config), LIMITS.handshake, cluster.clients).await {
        Ok(stream) => stream,
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            return tracing::debug!(cluster = %cluster.id, error, "Ended a connection inside a tunnel");
        }
    };
    match backend_pod {
        BackendPod::Etcd { member, .. } => {
            let observer = Arc::new(cluster.shared.metrics.clone());
            let etcd = cluster.etcd.clone();
            let connection = Connection {
                cluster: etcd,
                member,
                observer,
                delay: cluster.clone(),
            };
            if let Err(error) = serve_connection(stream, connection).await {
                tracing::debug!(cluster = %cluster.id, error = &error as &dyn std::error::Error, "An etcd connection ended early");
            }
        }
        BackendPod::ApiServer(tls) => {
            let user = tls.user(stream.get_ref().1.peer_certificates(), (cluster.shared.clock)());
            let over = cluster.over.clone();
            serve_http(
                stream,
                &cluster,
                Tunnel::of(&cluster),
                user,
                None,
                over.cancelled(),
            )
            .await;
        }
    }
}
