//! Connections to workload clusters, through the managers that serve them.

use std::{io, sync::Arc, time::Duration};

use axum::body::Body;
use http::{Request, Response};
use kube::Client;
use nephele_apiserver::UserInfo;
use nephele_cloud::InProcess;
use parking_lot::Mutex;
use tokio::time::timeout;

/// How long a client waits for an answer, as in Cluster API.
const CLIENT_WAITS: Duration = Duration::from_secs(10);

/// The networks of the running managers. Cheap to clone, and all clones share their state.
#[derive(Clone, Default)]
pub(crate) struct Hub(Arc<Mutex<Vec<InProcess>>>);

impl Hub {
    /// Sets the networks of the running managers.
    pub(crate) fn set(&self, managers: impl Iterator<Item = InProcess>) {
        *self.0.lock() = managers.collect();
    }

    /// The ports that are served, once for each manager that serves them.
    pub(crate) fn ports(&self) -> Vec<u16> {
        self.0.lock().iter().flat_map(InProcess::ports).collect()
    }

    /// Sends a request to a cluster, as its administrator.
    pub(crate) async fn reach(&self, port: u16, request: Request<Body>) -> io::Result<Response<Body>> {
        let network = self
            .0
            .lock()
            .iter()
            .find(|network| network.ports().contains(&port))
            .cloned();
        let network = network.ok_or(io::ErrorKind::ConnectionRefused)?;
        let groups = vec!["system:masters".to_owned()];
        network
            .request(
                port,
                UserInfo {
                    name: "kubernetes-admin".to_owned(),
                    groups,
                },
                request,
            )
            .await
    }

    /// How the stand-in for Cluster API connects to clusters: through the port in their kubeconfig.
    pub(crate) fn connect(&self) -> nephele_fake_capi::Connect {
        let hub = self.clone();
        Arc::new(move |config| {
            let hub = hub.clone();
            let port = config.cluster_url.port_u16().unwrap_or(443);
            let service = tower::service_fn(move |request: Request<kube::client::Body>| {
                let hub = hub.clone();
                async move { timeout(CLIENT_WAITS, hub.reach(port, request.map(Body::new))).await? }
            });
            Ok(Client::new(service, "default"))
        })
    }
}
