//! A workload cluster, seen from the management cluster.

use std::time::Duration;

use anyhow::Context;
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::{
    Look, Management, Workload,
    management::{Kind, kinds},
    state,
    wait::{LIMIT, until},
};

/// The label of everything that belongs to a cluster.
const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";

/// A role of machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Machines of the control plane.
    ControlPlane,
    /// All other machines.
    Worker,
}

/// A workload cluster.
#[derive(Clone)]
pub struct Cluster {
    /// The management cluster with its objects.
    pub management: Management,
    /// The namespace of its objects.
    pub namespace: String,
    pub name: String,
}

impl Cluster {
    /// Waits until the cluster is available with exactly these numbers of machines, all up to date and ready.
    ///
    /// # Errors
    ///
    /// When it is not available in time, with the conditions of all its objects.
    pub async fn settled(&self, control_plane: usize, workers: usize) -> anyhow::Result<()> {
        let what = format!(
            "{} to be available with {control_plane} + {workers} machines",
            self.name
        );
        self.until(&what, async || {
            let cluster = self.get().await?;
            let is = |kind: &str, status: &str| state::is(&cluster, kind, status);
            let quiet = ["ScalingUp", "ScalingDown", "RollingOut"]
                .iter()
                .all(|kind| is(kind, "False"));
            let machines = self.machines(None).await?;
            let ready = machines
                .iter()
                .filter(|machine| state::is(machine, "Ready", "True"));
            let (of_control_plane, others): (Vec<_>, Vec<_>) =
                ready.partition(|machine| is_control_plane(machine));
            let complete = (of_control_plane.len(), others.len()) == (control_plane, workers)
                && machines.len() == control_plane + workers;
            let settled = is("Available", "True") && quiet && complete;
            Ok(Look::when(settled, || format!("{} machines", machines.len())))
        })
        .await
    }

    /// Waits until the cluster is available.
    ///
    /// # Errors
    ///
    /// When it is not available in time, with the conditions of all its objects.
    pub async fn available(&self) -> anyhow::Result<()> {
        self.until(&format!("{} to be available", self.name), async || {
            let found = self.get().await?;
            Ok(Look::when(state::is(&found, "Available", "True"), || {
                state::line(&found)
            }))
        })
        .await
    }

    /// Waits until the InfrastructureReady condition of a worker's Machine contains this text.
    ///
    /// # Errors
    ///
    /// When none has it in time, with the conditions of all its objects.
    pub async fn worker_says(&self, expected: &str) -> anyhow::Result<()> {
        self.until(
            &format!("a worker of {} to say: {expected}", self.name),
            async || {
                let workers = self.machines(Some(Role::Worker)).await?;
                let says = workers.iter().any(|machine| {
                    let ready = state::condition(machine, "InfrastructureReady");
                    ready.is_some_and(|ready| {
                        ready["message"]
                            .as_str()
                            .is_some_and(|text| text.contains(expected))
                    })
                });
                Ok(Look::when(says, || format!("{workers:?}")))
            },
        )
        .await
    }

    /// Waits until a condition holds for the cluster.
    ///
    /// # Errors
    ///
    /// When it does not hold in time, with the conditions of all objects of the cluster. They are read only then,
    /// because that takes six requests, and many tests wait at once.
    pub async fn until<T>(
        &self,
        what: &str,
        look: impl AsyncFnMut() -> anyhow::Result<Look<T>>,
    ) -> anyhow::Result<T> {
        self.until_within(LIMIT, what, look).await
    }

    /// Waits as [`Cluster::until`] does, for up to `limit`.
    ///
    /// # Errors
    ///
    /// As those of [`Cluster::until`].
    pub async fn until_within<T>(
        &self,
        limit: Duration,
        what: &str,
        look: impl AsyncFnMut() -> anyhow::Result<Look<T>>,
    ) -> anyhow::Result<T> {
        match until(what, limit, look).await {
            Ok(value) => Ok(value),
            Err(error) => {
                let state = self.state().await.unwrap_or_else(|error| format!("{error:#}"));
                Err(error.context(state))
            }
        }
    }

    /// The Cluster object.
    ///
    /// # Errors
    ///
    /// When it does not exist.
    pub async fn get(&self) -> anyhow::Result<Value> {
        self.management
            .get(kinds::CLUSTER, &self.namespace, &self.name)
            .await
    }

    /// An object in the cluster's namespace that has to exist.
    ///
    /// # Errors
    ///
    /// When it does not exist.
    pub async fn object(&self, kind: Kind, name: &str) -> anyhow::Result<Value> {
        self.management.get(kind, &self.namespace, name).await
    }

    /// The InMemoryCluster. With a ClusterClass, its name differs from that of the cluster.
    ///
    /// # Errors
    ///
    /// When the cluster has no InMemoryCluster.
    pub async fn infrastructure(&self) -> anyhow::Result<Value> {
        let found = self.of_kind(kinds::IN_MEMORY_CLUSTER).await?;
        found
            .into_iter()
            .next()
            .with_context(|| format!("{} has no InMemoryCluster", self.name))
    }

    /// The Machines, or the Machines of a role.
    ///
    /// # Errors
    ///
    /// When the API server does not answer.
    pub async fn machines(&self, role: Option<Role>) -> anyhow::Result<Vec<Value>> {
        let mut machines = self.of_kind(kinds::MACHINE).await?;
        machines.retain(|machine| match role {
            None => true,
            Some(Role::ControlPlane) => is_control_plane(machine),
            Some(Role::Worker) => !is_control_plane(machine),
        });
        Ok(machines)
    }

    /// The objects of a kind that belong to the cluster.
    ///
    /// # Errors
    ///
    /// When the API server does not answer.
    pub async fn of_kind(&self, kind: Kind) -> anyhow::Result<Vec<Value>> {
        self.management
            .list(kind, &self.namespace, &format!("{CLUSTER_LABEL}={}", self.name))
            .await
    }

    /// Changes the number of control plane machines of a cluster without ClusterClass.
    ///
    /// # Errors
    ///
    /// When the request is refused.
    pub async fn scale_control_plane(&self, replicas: u32) -> anyhow::Result<()> {
        self.patch(
            kinds::CONTROL_PLANE,
            &self.control_plane(),
            &json!({"spec": {"replicas": replicas}}),
        )
        .await
    }

    /// Changes the number of worker machines of a cluster without ClusterClass.
    ///
    /// # Errors
    ///
    /// When the request is refused.
    pub async fn scale_workers(&self, replicas: u32) -> anyhow::Result<()> {
        self.patch(
            kinds::MACHINE_DEPLOYMENT,
            &self.workers(),
            &json!({"spec": {"replicas": replicas}}),
        )
        .await
    }

    /// Name of the KubeadmControlPlane of a cluster without ClusterClass.
    #[must_use]
    pub fn control_plane(&self) -> String {
        format!("{}-control-plane", self.name)
    }

    /// Name of the MachineDeployment of a cluster without ClusterClass.
    #[must_use]
    pub fn workers(&self) -> String {
        format!("{}-workers", self.name)
    }

    /// Applies a merge patch to an object in the cluster's namespace.
    ///
    /// # Errors
    ///
    /// When the request is refused.
    pub async fn patch(&self, kind: Kind, name: &str, patch: &Value) -> anyhow::Result<()> {
        self.management.patch(kind, &self.namespace, name, patch).await
    }

    /// Deletes the cluster, without waiting until it is gone.
    ///
    /// # Errors
    ///
    /// When the request is refused.
    pub async fn delete(&self) -> anyhow::Result<()> {
        self.management
            .delete(kinds::CLUSTER, &self.namespace, &self.name)
            .await
    }

    /// Host and port of the API server.
    ///
    /// # Errors
    ///
    /// When there is no endpoint yet.
    pub async fn endpoint(&self) -> anyhow::Result<(String, u16)> {
        let cluster = self.get().await?;
        let endpoint = &cluster["spec"]["controlPlaneEndpoint"];
        let port = endpoint["port"]
            .as_u64()
            .and_then(|port| u16::try_from(port).ok());
        let host = endpoint["host"].as_str().map(str::to_owned);
        host.zip(port)
            .with_context(|| format!("{} has no endpoint", self.name))
    }

    /// The kubeconfig that Cluster API publishes.
    ///
    /// # Errors
    ///
    /// When there is no kubeconfig yet.
    pub async fn kubeconfig(&self) -> anyhow::Result<String> {
        let secret = self
            .object(kinds::SECRET, &format!("{}-kubeconfig", self.name))
            .await?;
        let value = secret["data"]["value"]
            .as_str()
            .context("the kubeconfig Secret is empty")?;
        let bytes = BASE64_STANDARD
            .decode(value)
            .context("failed to decode the kubeconfig")?;
        String::from_utf8(bytes).context("the kubeconfig is not text")
    }

    /// The cluster as its administrator sees it.
    ///
    /// # Errors
    ///
    /// When there is no kubeconfig yet.
    pub async fn workload(&self) -> anyhow::Result<Workload> {
        Workload::connect(&self.kubeconfig().await?).await
    }

    /// The cluster as its administrator sees it at this address, for endpoints whose host only pods can resolve.
    ///
    /// # Errors
    ///
    /// When there is no kubeconfig yet.
    pub async fn workload_at(&self, address: &str) -> anyhow::Result<Workload> {
        let mut kubeconfig: serde_yaml_ng::Value =
            serde_yaml_ng::from_str(&self.kubeconfig().await?).context("failed to read the kubeconfig")?;
        let (host, port) = self.endpoint().await?;
        let cluster = &mut kubeconfig["clusters"][0]["cluster"];
        let published = format!("https://{host}:{port}");
        anyhow::ensure!(
            cluster["server"] == published.as_str(),
            "the kubeconfig is of {:?}",
            cluster["server"]
        );
        cluster["server"] = format!("https://{address}:{port}").into();
        cluster["tls-server-name"] = host.into();
        let kubeconfig = serde_yaml_ng::to_string(&kubeconfig).context("failed to write the kubeconfig")?;
        Workload::connect(&kubeconfig).await
    }

    /// The bad conditions of the cluster and of all its objects.
    ///
    /// # Errors
    ///
    /// When the API server does not answer.
    pub async fn state(&self) -> anyhow::Result<String> {
        let mut lines = vec![state::line(&self.get().await?)];
        for kind in [
            kinds::IN_MEMORY_CLUSTER,
            kinds::CONTROL_PLANE,
            kinds::MACHINE_DEPLOYMENT,
            kinds::MACHINE,
            kinds::IN_MEMORY_MACHINE,
        ] {
            lines.extend(self.of_kind(kind).await?.iter().map(state::line));
        }
        Ok(lines.join("\n"))
    }
}

fn is_control_plane(machine: &Value) -> bool {
    machine["metadata"]["labels"]["cluster.x-k8s.io/control-plane"].is_string()
}
