//! A namespace for one test.

use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use crate::{
    Cluster, Look, Management, Shape,
    management::{Kind, kinds},
    state, templates,
    wait::until,
};

/// How long the deletion of a cluster may take.
const DELETION_LIMIT: Duration = Duration::from_secs(180);

/// The kinds of objects that Cluster API and the provider create for a cluster.
pub const MADE: [Kind; 10] = [
    kinds::CLUSTER,
    kinds::CONTROL_PLANE,
    kinds::MACHINE_DEPLOYMENT,
    kinds::MACHINE_SET,
    kinds::MACHINE,
    kinds::KUBEADM_CONFIG,
    kinds::IN_MEMORY_CLUSTER,
    kinds::IN_MEMORY_MACHINE,
    kinds::MACHINE_POOL,
    kinds::IN_MEMORY_MACHINE_POOL,
];

/// A namespace that belongs to one test. [`Scope::finish`] removes it; after a failure it stays for inspection.
pub struct Scope {
    pub management: Management,
    pub namespace: String,
}

impl Scope {
    /// Creates a namespace with the name of the test.
    ///
    /// # Errors
    ///
    /// When the management cluster cannot be reached.
    pub async fn new(test: &str) -> anyhow::Result<Self> {
        Self::on(Management::connect().await?, test).await
    }

    /// Creates a namespace with the name of the test on this management cluster.
    ///
    /// # Errors
    ///
    /// When the management cluster cannot be reached.
    pub async fn on(management: Management, test: &str) -> anyhow::Result<Self> {
        // Tests are processes that begin at the same time, so a name made of the time was given twice.
        let namespace = management.generate_namespace(&format!("e2e-{test}-")).await?;
        Ok(Self {
            management,
            namespace,
        })
    }

    /// Creates a cluster without ClusterClass.
    ///
    /// # Errors
    ///
    /// When an object is refused.
    pub async fn plain(&self, name: &str, shape: Shape) -> anyhow::Result<Cluster> {
        self.plain_with(name, shape, |_| {}).await
    }

    /// Creates a cluster without ClusterClass, with changes to its objects.
    ///
    /// # Errors
    ///
    /// When an object is refused.
    pub async fn plain_with(
        &self,
        name: &str,
        shape: Shape,
        change: impl Fn(&mut Value),
    ) -> anyhow::Result<Cluster> {
        let mut objects = templates::plain(&self.namespace, name, shape)?;
        objects.iter_mut().for_each(change);
        self.management.apply(&self.namespace, &objects).await?;
        Ok(self.cluster(name))
    }

    /// Creates a cluster without ClusterClass whose workers are a machine pool.
    ///
    /// # Errors
    ///
    /// When an object is refused.
    pub async fn with_machine_pool(&self, name: &str, shape: Shape) -> anyhow::Result<Cluster> {
        let objects = templates::machine_pool(&self.namespace, name, shape)?;
        self.management.apply(&self.namespace, &objects).await?;
        Ok(self.cluster(name))
    }

    /// Creates a cluster whose machines and load balancer get addresses from a pool of its own, with changes to its objects.
    ///
    /// # Errors
    ///
    /// When an object is refused.
    pub async fn pooled_with(
        &self,
        name: &str,
        shape: Shape,
        change: impl Fn(&mut Value),
    ) -> anyhow::Result<Cluster> {
        let mut objects = templates::pooled(&self.namespace, name, shape)?;
        objects.iter_mut().for_each(change);
        self.management.apply(&self.namespace, &objects).await?;
        Ok(self.cluster(name))
    }

    /// Creates a cluster of the released ClusterClass, and the class if it is missing.
    ///
    /// # Errors
    ///
    /// When an object is refused.
    pub async fn of_class(&self, name: &str, shape: Shape) -> anyhow::Result<Cluster> {
        self.of_class_with(name, shape, |_| {}).await
    }

    /// Creates a cluster of the released ClusterClass, with changes to its Cluster.
    ///
    /// # Errors
    ///
    /// When an object is refused.
    pub async fn of_class_with(
        &self,
        name: &str,
        shape: Shape,
        change: impl Fn(&mut Value),
    ) -> anyhow::Result<Cluster> {
        self.management
            .apply(&self.namespace, &templates::class()?)
            .await?;
        let mut objects = templates::topology(&self.namespace, name, shape)?;
        objects.iter_mut().for_each(change);
        self.management.apply(&self.namespace, &objects).await?;
        Ok(self.cluster(name))
    }

    /// Deletes all clusters, claims and pools, waits until none of their objects is left, and removes the namespace.
    ///
    /// # Errors
    ///
    /// When an object is left.
    pub async fn finish(self) -> anyhow::Result<()> {
        for name in self.management.names(kinds::CLUSTER, &self.namespace).await? {
            self.management
                .delete(kinds::CLUSTER, &self.namespace, &name)
                .await?;
        }
        self.nothing_is_left().await?;
        self.release_all().await?;
        self.management
            .delete(kinds::NAMESPACE, "", &self.namespace)
            .await
    }

    /// Waits until no object that was created for a cluster is left.
    ///
    /// # Errors
    ///
    /// When an object is left.
    pub async fn nothing_is_left(&self) -> anyhow::Result<()> {
        until(
            &format!("{} to be empty", self.namespace),
            DELETION_LIMIT,
            async || {
                let mut left = Vec::new();
                for kind in MADE {
                    left.extend(
                        self.management
                            .list(kind, &self.namespace, "")
                            .await?
                            .iter()
                            .map(state::line),
                    );
                }
                let secrets = self
                    .management
                    .list(kinds::SECRET, &self.namespace, "cluster.x-k8s.io/cluster-name")
                    .await?;
                left.extend(secrets.iter().map(state::line));
                Ok(Look::when(left.is_empty(), || left.join("\n")))
            },
        )
        .await
        .context("deletion")
    }

    /// A cluster of this name, whether it exists or not.
    #[must_use]
    pub fn cluster(&self, name: &str) -> Cluster {
        Cluster {
            management: self.management.clone(),
            namespace: self.namespace.clone(),
            name: name.to_owned(),
        }
    }
}
