//! The caches and clients that all reconcilers share.

use std::sync::{Arc, atomic::AtomicBool};

use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, runtime::reflector::ObjectRef};
use nephele_api::{
    core::{Cluster, Machine, MachinePool},
    infrastructure::{
        GROUP,
        v1beta2::{InMemoryCluster, InMemoryMachine, InMemoryMachinePool},
    },
    labels,
};
use nephele_cloud::{CallError, Changed, Cloud, Hardware, Model};
use nephele_controller::{Cache, Clock, Events, StatusThrottle, owner_cluster};
use nephele_model::{CloudError, ClusterId};
use tokio::sync::{Semaphore, broadcast};
use tokio_stream::wrappers::BroadcastStream;

use crate::{
    authorities::Ledger,
    claims::ClaimCache,
    clouds::Clouds,
    fault::Faults,
    machine_hooks::MachineHooks,
    machine_index::MachineIndex,
    resolved_cloud::{Location, ResolvedCloud, ResolvedClouds},
    secret::AuthoritySecret,
};

/// How many clusters are queued for a slow listener before it has to reconcile all machines: as many as the clusters
/// that one manager is designed for.
const WOKEN_MAX: usize = 1024;

/// How many machines read their bootstrap data at a time. The Secret of one takes at most 4 MiB with the response that it comes
/// in, and what is parsed of it 8 MiB: 48 MiB for all.
pub(crate) const BOOTS_MAX: usize = 4;

/// Shared by all reconcilers.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) cloud: Cloud,
    pub(crate) clock: Clock,
    pub(crate) events: Events,
    pub(crate) clusters: Cache<Cluster>,
    pub(crate) machines: Cache<Machine>,
    pub(crate) machine_pools: Cache<MachinePool>,
    pub(crate) pool_machines: Cache<InMemoryMachine>,
    pub(crate) secrets: Cache<AuthoritySecret>,
    pub(crate) authorities: Ledger,
    pub(crate) machine_triggers: Triggers,
    pub(crate) machine_index: MachineIndex,
    pub(crate) claims: ClaimCache,
    /// The SimulatedClouds, as the cloud has them.
    pub(crate) clouds: Clouds,
    pub(crate) resolved_clouds: ResolvedClouds,
    /// When the backends in the status of each cluster were written last. No more entries than there are clusters.
    pub(crate) backends_written: StatusThrottle<ClusterId>,
    /// Whether the machines of before a restart are reserved in the cloud. Until then it does not know whom it expects.
    pub(crate) machines_reserved: AtomicBool,
    pub(crate) faults: Faults,
    /// The hooks before a machine is created and after it is deleted.
    pub(crate) hooks: Arc<dyn MachineHooks>,
    /// The turns of machines whose bootstrap data are read.
    pub(crate) boots: Semaphore,
    /// Whether to create a new cluster's credentials before its control plane provider does.
    pub(crate) prepare_credentials: bool,
}

impl Context {
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// The Cluster with this id, if the cache has it.
    pub(crate) fn cluster(&self, id: &ClusterId) -> Option<Arc<Cluster>> {
        self.clusters.get(&id.namespace, &id.name)
    }

    /// The hardware that the cloud would give to machines of a model. None before the SimulatedCloud of their cluster
    /// is known, and while the cloud delays the call.
    pub(crate) fn describe(
        &self,
        namespace: &str,
        resolved_cloud: Option<&ResolvedCloud>,
        model: &Model,
    ) -> Option<Result<Hardware, CloudError>> {
        let resolved_cloud = resolved_cloud?;
        // There is a default cloud also without a SimulatedCloud.
        if let Location::Missing(name) = &resolved_cloud.location {
            return Some(Err(CloudError::UnknownCloud(name.clone())));
        }
        match self
            .cloud
            .describe_model(namespace, resolved_cloud.cloud_spec(), model)
        {
            Ok(hardware) => Some(Ok(hardware)),
            Err(CallError::Refused { source, .. }) => Some(Err(source)),
            Err(CallError::Delayed { .. }) => None,
        }
    }
}

/// Lets the cluster reconciler trigger the reconcilers of machines, pools and templates.
pub(crate) struct Triggers(broadcast::Sender<ClusterId>);

impl Default for Triggers {
    fn default() -> Self {
        Self(broadcast::Sender::new(WOKEN_MAX))
    }
}

impl Triggers {
    /// Triggers a reconcile of the machines, pools and templates of this cluster.
    pub(crate) fn wake(&self, id: &ClusterId) {
        // Fails only while there is no listener: each controller reconciles all objects when it starts.
        let _ = self.0.send(id.clone());
    }

    pub(crate) fn listen(&self) -> impl Stream<Item = Changed> + Send + 'static {
        BroadcastStream::new(self.0.subscribe()).map(|id| id.map_or(Changed::Everything, Changed::Cluster))
    }
}

/// The InMemoryCluster that a Cluster refers to.
pub(crate) fn infrastructure_of_cluster(cluster: &Cluster) -> Option<ObjectRef<InMemoryCluster>> {
    let reference = cluster.spec.infrastructure_ref.as_ref()?;
    let namespace = cluster.metadata.namespace.as_deref()?;
    reference
        .is(GROUP, "InMemoryCluster")
        .then(|| ObjectRef::new(&reference.name).within(namespace))
}

/// The InMemoryMachine that a Machine refers to.
pub(crate) fn infrastructure_of_machine(machine: &Machine) -> Option<ObjectRef<InMemoryMachine>> {
    let reference = machine.spec.infrastructure_ref.as_ref()?;
    let namespace = machine.metadata.namespace.as_deref()?;
    reference
        .is(GROUP, "InMemoryMachine")
        .then(|| ObjectRef::new(&reference.name).within(namespace))
}

/// The InMemoryMachinePool that a MachinePool refers to.
pub(crate) fn infrastructure_of_pool(pool: &MachinePool) -> Option<ObjectRef<InMemoryMachinePool>> {
    let reference = pool.spec.template.spec.infrastructure_ref.as_ref()?;
    let namespace = pool.metadata.namespace.as_deref()?;
    reference
        .is(GROUP, "InMemoryMachinePool")
        .then(|| ObjectRef::new(&reference.name).within(namespace))
}

/// The Cluster that an object belongs to by its label.
pub(crate) fn labelled_cluster(metadata: &ObjectMeta) -> Option<ClusterId> {
    let name = labels::value(metadata, labels::CLUSTER_NAME)?.to_owned();
    Some(ClusterId {
        namespace: metadata.namespace.clone()?,
        name,
    })
}

/// The Cluster that an object belongs to by its owner, else by its label. Cluster API makes the Cluster the owner of
/// the objects that it refers to: an InMemoryCluster, and the templates of a topology.
pub(crate) fn cluster_of(metadata: &ObjectMeta) -> Option<ClusterId> {
    let owned = owner_cluster(metadata).and_then(|owner| {
        Some(ClusterId {
            namespace: metadata.namespace.clone()?,
            name: owner.name.clone(),
        })
    });
    owned.or_else(|| labelled_cluster(metadata))
}

/// The Cluster that an InMemoryMachine belongs to by its Machine, else by its label.
pub(crate) fn cluster_of_machine(metadata: &ObjectMeta, owner: Option<&Machine>) -> Option<ClusterId> {
    cluster_named_by(metadata, owner.map(|machine| machine.spec.cluster_name.as_str()))
}

/// The Cluster that an InMemoryMachinePool belongs to by its MachinePool, else by its label.
pub(crate) fn cluster_of_pool(metadata: &ObjectMeta, owner: Option<&MachinePool>) -> Option<ClusterId> {
    cluster_named_by(metadata, owner.map(|pool| pool.spec.cluster_name.as_str()))
}

fn cluster_named_by(metadata: &ObjectMeta, named: Option<&str>) -> Option<ClusterId> {
    let named = named
        .filter(|name| !name.is_empty())
        .zip(metadata.namespace.clone());
    let named = named.map(|(name, namespace)| ClusterId {
        namespace,
        name: name.to_owned(),
    });
    named.or_else(|| labelled_cluster(metadata))
}
