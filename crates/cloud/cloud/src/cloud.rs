//! [`Cloud`], the handle that reconcilers hold.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    net::IpAddr,
    ops::RangeInclusive,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use dashmap::DashMap;
use futures::Stream;
use nephele_apiserver::{Authentication, Settings};
use nephele_engine::{
    CloudSpec, Config, Cursor, Engine, Entry, EventKind, Footprint, Hardware, Model, NamespaceQuotas,
    Operation, Outcome, Previous, Record, Request, Seed, StageState, UpdateSpec, UpdateState,
};
use nephele_listen::explained;
use nephele_model::{
    Caller, CloudError, ClusterId, Endpoint, MachineId, ResourceId, ResourceKind, Role, SimTime, Stage,
};
use nephele_poll_time::timed;
use parking_lot::Mutex;
use prometheus::Registry;
use rustls::pki_types::DnsName;
use tokio::sync::broadcast;
use tokio_stream::{StreamExt as _, wrappers::BroadcastStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    clock::{CloudClock, WallClock},
    cloud_metrics::CloudMetrics,
    cluster::{Admission, Cluster, Instance},
    cluster_server::Shared,
    driver::Driver,
    error::{CallError, ClusterError, MachineError, StartError},
    follower::Follower,
    frontend::parse_version,
    journal::{JournalFilter, JournalReader, RecentRecords},
    leaks::leaked_ports,
    metrics::Metrics,
    namespace_metrics::NamespaceMetrics,
    network::{Listening, Network},
    observation::{
        Changed, ClusterObservation, Deletion, MachineObservation, StageObservation, UpdateObservation,
    },
    operation_times::{OperationTimes, creates_load_balancer},
    persisted::Persister,
    port_metrics::PortMetrics,
    ports::{PortLease, Ports, Refused, is_of_port},
    spec::{
        Allocation, Authorities, ClusterSpec, MachineSpec, MachineUpdate, PreviousCluster, PreviousMachine,
    },
    touched::Touched,
};

/// The configuration of the cloud.
#[derive(Clone)]
pub struct CloudConfig {
    /// The host that endpoints are published under: an address or a DNS name.
    pub advertise_host: String,
    /// The address that listeners bind.
    pub bind_address: IpAddr,
    /// The ports that listeners take.
    pub ports: RangeInclusive<u16>,
    /// Further ports that listeners take only for clusters that were published with them.
    pub moved_ports: Vec<RangeInclusive<u16>>,
    /// How many clusters of a namespace may have a port at a time; none means any number. Clusters that run before a restart
    /// come first.
    pub clusters_max: Option<u32>,
    /// The seed of all random draws.
    pub seed: String,
    /// How long a connection or request waits for the first backend of its cluster.
    pub connection_hold: Duration,
    /// The directory that keeps the objects of clusters over a restart. None keeps nothing.
    pub state_directory: Option<PathBuf>,
    /// How many machines a namespace may have at a time; none means any number. Machines from before a restart are
    /// adopted, however many they are.
    pub machines_max: Option<u32>,
    /// The built-in cloud, for machines whose specification names no cloud.
    pub cloud_spec: CloudSpec,
    pub clock: WallClock,
}

/// How many changes a slow listener may lag behind before it gets [`Changed::Everything`]. 4,096 ids of some 100 bytes
/// are 400 KB, and a thousand machines that boot at once make 4,000 changes.
const CHANGES_MAX: usize = 4096;

/// Records that the reader of the whole journal takes at a time: 256 pointers.
const RECORDS_MAX: usize = 256;

/// The caller of operations that only a simulated cloud has, as the journal shows it. See [`Caller`] for the others.
const CALLER: &str = "infra";

/// The longest wait for connections at shutdown. They end within a tenth of a second; more is a bug.
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

/// The cloud. Cheap to clone.
#[derive(Clone)]
pub struct Cloud {
    inner: Arc<Inner>,
}

struct Inner {
    config: CloudConfig,
    network: Network,
    driver: Arc<Driver>,
    clusters: DashMap<ClusterId, Arc<Cluster>>,
    /// Held while a cluster is created, so that no two calls create the same one, and while the port of a deleted one comes
    /// free.
    making: Mutex<Making>,
    ports: Arc<Mutex<Ports>>,
    changes: broadcast::Sender<Changed>,
    shared: Arc<Shared>,
    over: CancellationToken,
}

/// What is known about clusters before they are created.
#[derive(Default)]
struct Making {
    /// Whether the ports of all clusters from before a restart are reserved.
    endpoints_known: bool,
    /// The allocations of machines from before a restart, for clusters that are not created yet.
    machines: BTreeMap<ClusterId, BTreeMap<String, Allocation>>,
}

impl Cloud {
    /// Creates a cloud and the future that drives it. Run the future until [`Cloud::shutdown`].
    ///
    /// # Errors
    /// When its metrics are already registered, or its state directory cannot be used.
    pub fn start(
        config: CloudConfig,
        registry: &Registry,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static), StartError> {
        Self::start_on(Network::Sockets, config, registry)
    }

    /// As [`Cloud::start`], with clusters that are reached through `network`.
    ///
    /// # Errors
    /// When its metrics are already registered, or its state directory cannot be used.
    pub fn start_on(
        network: Network,
        config: CloudConfig,
        registry: &Registry,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static), StartError> {
        let metrics = Metrics::register(registry).map_err(StartError::Metrics)?;
        let state = network.open_state(config.state_directory.as_deref(), &metrics);
        let persister = Persister::new(state.map_err(StartError::State)?);
        let shared = Shared {
            tasks: TaskTracker::new(),
            metrics,
            persister,
            hold: config.connection_hold,
            clock: config.clock.clone(),
            cloud_clock: CloudClock::new(config.clock.clone()),
            seed: Seed::new(config.seed.clone()),
        };
        let config_of_engine = Config {
            quotas: NamespaceQuotas {
                instances_max: config.machines_max,
                ..NamespaceQuotas::default()
            },
            cloud_spec: config.cloud_spec.clone(),
            ..Config::default()
        };
        let lock_seconds = shared.metrics.engine_lock_seconds.clone();
        let driver = Arc::new(Driver::new(config_of_engine, &config.seed, lock_seconds));
        let of_namespaces = NamespaceMetrics::new(Arc::clone(&driver), shared.cloud_clock.clone());
        let registered = of_namespaces.and_then(|metrics| registry.register(Box::new(metrics)));
        registered.map_err(StartError::Metrics)?;
        let of_clouds = CloudMetrics::new(Arc::clone(&driver), shared.cloud_clock.clone());
        let registered = of_clouds.and_then(|metrics| registry.register(Box::new(metrics)));
        registered.map_err(StartError::Metrics)?;
        let ports = Arc::new(Mutex::new(Ports::new(
            config.ports.clone(),
            config.moved_ports.clone(),
            config.clusters_max,
        )));
        let of_ports = PortMetrics::new(Arc::clone(&driver), Arc::clone(&ports));
        let registered = of_ports.and_then(|metrics| registry.register(Box::new(metrics)));
        registered.map_err(StartError::Metrics)?;
        let inner = Arc::new(Inner {
            driver,
            clusters: DashMap::new(),
            making: Mutex::default(),
            ports,
            changes: broadcast::Sender::new(CHANGES_MAX),
            shared: Arc::new(shared),
            over: CancellationToken::new(),
            network,
            config,
        });
        let cloud = Self { inner };
        let running = cloud.clone();
        // The cursor is taken here, so that records from before the first poll of the future are read too.
        let cursor = cloud.inner.driver.look(|engine| engine.journal().end());
        let run = async move {
            tokio::join!(running.drive(), running.read_journal(cursor));
        };
        Ok((cloud, run))
    }

    /// Stops accepting, and ends the driver and all connections. Requests in flight get a tenth of a second. Afterwards
    /// another process can open the state directory.
    pub async fn shutdown(&self) {
        self.inner.over.cancel();
        self.inner.shared.tasks.close();
        if tokio::time::timeout(SHUTDOWN_MAX, self.inner.shared.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!(
                tasks = self.inner.shared.tasks.len(),
                "Left tasks behind at shutdown"
            );
        }
        self.inner.shared.persister.close().await;
    }

    /// Creates a cluster with its load balancer, unless it exists. A published endpoint is used again. Call it inside a
    /// tokio runtime.
    ///
    /// # Errors
    /// When its port is not available, the cloud refuses the load balancer, or its kept objects cannot be read.
    pub fn ensure_cluster(&self, spec: ClusterSpec) -> Result<Endpoint, ClusterError> {
        let mut making = self.inner.making.lock();
        if let Some(cluster) = self.cluster(&spec.id) {
            self.create_load_balancer(&spec, &cluster.endpoint)?;
            return Ok(cluster.endpoint.clone());
        }
        // A fault may have lost the answer of a creation that was carried out: then the load balancer has an endpoint.
        let made = || self.look(|engine| engine.get(&spec.id.load_balancer())?.spec.endpoint.clone());
        let wanted = spec.endpoint.clone().or_else(made).unwrap_or(Endpoint {
            host: String::new(),
            port: 0,
        });
        let host = if wanted.host.is_empty() {
            self.inner.config.advertise_host.clone()
        } else {
            wanted.host
        };
        if wanted.port == 0 && !making.endpoints_known {
            return Err(ClusterError::PortsUnknown);
        }
        let (listening, lease) = self.open(&spec.id, wanted.port)?;
        let endpoint = Endpoint {
            host,
            port: lease.port,
        };
        let settings = Settings {
            version: parse_version(""),
            authentication: Authentication::Required,
            clock: self.inner.config.clock.clone(),
            observer: Some(Arc::new(self.inner.shared.metrics.clone())),
        };
        let over = self.inner.over.child_token();
        let shared = self.inner.shared.clone();
        // Before the load balancer is created, because this can fail. Deleting the load balancer after a failure would
        // trigger the next attempt at once.
        let kept = shared.persister.store(&spec, (shared.clock)())?;
        self.create_load_balancer(&spec, &endpoint).inspect_err(|_| {
            if self.look(|engine| engine.get(&spec.id.load_balancer()).is_some()) {
                self.keep_port(&spec.id, endpoint.port);
            }
        })?;
        let follower = Follower::begin(&spec.id, &self.inner.driver);
        let cluster = Arc::new(Cluster::new(
            spec,
            endpoint.clone(),
            settings,
            kept,
            shared,
            follower,
            over,
        ));
        cluster.reserve(making.machines.remove(&cluster.spec.id).unwrap_or_default());
        // The load balancer is older than the follower, and something may have leaked before.
        self.catch_up(&cluster, |_| ());
        cluster.remove_previous_machines();
        self.keep_port(&cluster.spec.id, endpoint.port);
        let tasks = &self.inner.shared.tasks;
        tasks.spawn(timed(
            "listener of a cluster",
            listening.serve(cluster.cluster_server.clone(), lease),
        ));
        let cloud = self.clone();
        let kept_up = cluster.clone();
        tasks.spawn(timed("objects of a cluster", async move {
            tokio::join!(
                kept_up.keep_addons(),
                kept_up.keep_flapping(),
                kept_up.keep_restored(),
                cloud.keep_up(&kept_up)
            );
        }));
        self.inner.shared.metrics.clusters.inc();
        tracing::info!(cluster = %cluster.spec.id, %endpoint, "Created a cluster");
        self.inner.clusters.insert(cluster.spec.id.clone(), cluster);
        Ok(endpoint)
    }

    /// Reserves the published ports of clusters, and room for their load balancers, whether or not the clusters run. No
    /// other cluster gets them before [`Cloud::delete_cluster`]. If two clusters have the same port, the first one in
    /// `published` has priority.
    ///
    /// Call it once with all clusters from before a restart: until then, no cluster gets a new port.
    pub fn reserve_endpoints(&self, published: impl IntoIterator<Item = PreviousCluster>) {
        let mut making = self.inner.making.lock();
        published
            .into_iter()
            .for_each(|cluster| self.reserve_endpoint(cluster));
        making.endpoints_known = true;
    }

    /// Reserves the published port of one cluster, as [`Cloud::reserve_endpoints`] does for all.
    pub fn reserve_endpoint(&self, published: PreviousCluster) {
        let PreviousCluster {
            id: cluster,
            port,
            cloud_spec,
        } = published;
        // A cluster that runs keeps its port, whatever its object says now. What is refused here is refused again, and
        // reported, when the cluster is created.
        if self
            .cluster(&cluster)
            .is_some_and(|running| running.endpoint.port != port)
            || self.inner.ports.lock().reserve(&cluster, port).is_err()
        {
            return;
        }
        let Some(cloud_spec) = cloud_spec else { return };
        let footprint = Footprint {
            cloud_spec,
            ..Footprint::default()
        };
        let reserve = Request::Reserve {
            id: cluster.load_balancer(),
            footprint,
        };
        if let Err(error) = self.ask(reserve) {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(%cluster, error, "Failed to reserve the room of a published load balancer");
        }
    }

    /// Reserves the allocations of machines from before a restart, and room in the cloud, until each machine is created
    /// again or deleted. Call it once with all machines from before a restart, before any machine is created, and with
    /// each machine that comes later, for example from another management cluster.
    pub fn reserve_machines(&self, published: impl IntoIterator<Item = PreviousMachine>) {
        let mut making = self.inner.making.lock();
        for previous in published {
            let PreviousMachine {
                id: machine,
                has_begun,
                zone,
                cloud_spec,
                instance_type,
                market,
                hardware,
                allocation,
            } = previous;
            let processors = hardware.processors();
            let footprint = Footprint {
                zone,
                cloud_spec,
                instance_type,
                processors,
                market,
            };
            let reserve = Request::Reserve {
                id: machine.resource(),
                footprint,
            };
            if has_begun && let Err(error) = self.ask(reserve) {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(%machine, error, "Failed to reserve the room of a machine that has begun");
            }
            let MachineId { cluster: id, name } = machine;
            match self.cluster(&id) {
                Some(cluster) => cluster.reserve([(name, allocation)].into()),
                None => drop(making.machines.entry(id).or_default().insert(name, allocation)),
            }
        }
    }

    /// The host under which clusters without a host in their endpoint are published.
    #[must_use]
    pub fn advertised_host(&self) -> &str {
        &self.inner.config.advertise_host
    }

    /// Reserves the port of a cluster that has taken it. Its share was looked at before.
    fn keep_port(&self, id: &ClusterId, port: u16) {
        if let Err(refused) = self.inner.ports.lock().reserve(id, port) {
            tracing::warn!(cluster = %id, port, ?refused, "Failed to reserve the port of a cluster");
        }
    }

    /// Binds the wanted port; or that of a cluster of the same name that went a moment ago; or the lowest port that is free in
    /// the range and in the operating system. No port of a leaked load balancer is free. Called while clusters are locked,
    /// see [`Making`].
    fn open(&self, cluster: &ClusterId, wanted: u16) -> Result<(Listening, PortLease), ClusterError> {
        let config = &self.inner.config;
        let ports = &self.inner.ports;
        // A port comes free under the lock that is held here, after its load balancer has leaked.
        let leaked = self.look(leaked_ports);
        let bind = |port| self.inner.network.open(config.bind_address, port);
        // Users read messages, and know the names of their own namespace only.
        let known = |other: ClusterId| Some(other).filter(|other| other.namespace == cluster.namespace);
        let in_use = |source| ClusterError::PortInUse { port: wanted, source };
        let failed = |refused| match refused {
            Refused::Taken => in_use(None),
            Refused::Reserved(owner) => ClusterError::PortReserved {
                port: wanted,
                owner: known(owner),
            },
            Refused::Outside => ClusterError::PortOutside { port: wanted },
            Refused::ShareUsed(most) => ClusterError::ClustersMax { most },
        };
        let leaked_here = leaked
            .values()
            .filter(|other| other.namespace == cluster.namespace)
            .count();
        ports.lock().check_share(cluster, leaked_here).map_err(failed)?;
        if wanted != 0 {
            if let Some(cluster) = leaked.get(&wanted).cloned() {
                return Err(ClusterError::PortLeaked {
                    port: wanted,
                    cluster: known(cluster),
                });
            }
            let lease = PortLease::take(ports, wanted, cluster).map_err(failed)?;
            let listener = bind(wanted).map_err(|error| match is_of_port(&error) {
                true => in_use(Some(error)),
                false => ClusterError::Listen {
                    port: wanted,
                    source: explained(error),
                },
            })?;
            return Ok((listener, lease));
        }
        let is_leaked = |port| leaked.contains_key(&port);
        let now = (config.clock)();
        let former = PortLease::take_former(ports, cluster, now, is_leaked);
        if let Some(lease) = former
            && let Ok(listener) = bind(lease.port)
        {
            return Ok((listener, lease));
        }
        let first = *config.ports.start();
        let last = *config.ports.end();
        for waiting in [false, true] {
            let mut from = first;
            while let Some(lease) = PortLease::take_lowest(ports, from, waiting, now, is_leaked) {
                match bind(lease.port) {
                    Ok(listener) => return Ok((listener, lease)),
                    Err(error) if is_of_port(&error) => {}
                    Err(error) => {
                        return Err(ClusterError::Listen {
                            port: lease.port,
                            source: explained(error),
                        });
                    }
                }
                from = match lease.port.checked_add(1) {
                    Some(next) => next,
                    None => break,
                };
            }
        }
        Err(ClusterError::PortsExhausted { first, last })
    }

    /// Sets the authorities of a cluster. If they differ from before, its certificates are issued again.
    ///
    /// # Errors
    /// When the cluster does not exist or a certificate cannot be issued.
    pub fn set_authorities(&self, id: &ClusterId, authorities: Authorities) -> Result<(), ClusterError> {
        let cluster = self
            .cluster(id)
            .ok_or_else(|| ClusterError::Unknown(id.clone()))?;
        if cluster
            .set_authorities(authorities)
            .map_err(ClusterError::Issue)?
        {
            self.tell(Changed::Cluster(id.clone()));
        }
        Ok(())
    }

    /// The clusters that exist, have kept objects from before a restart, or have a reserved port, in order.
    #[must_use]
    pub fn clusters(&self) -> Vec<ClusterId> {
        let mut clusters = self.inner.shared.persister.clusters();
        clusters.extend(self.inner.clusters.iter().map(|cluster| cluster.key().clone()));
        clusters.extend(self.inner.ports.lock().clusters().cloned());
        clusters.into_iter().collect()
    }

    /// Whether a cluster is one of [`Cloud::clusters`].
    #[must_use]
    pub fn knows(&self, id: &ClusterId) -> bool {
        self.inner.clusters.contains_key(id)
            || self.inner.shared.persister.knows(id)
            || self.inner.ports.lock().clusters().any(|cluster| cluster == id)
    }

    /// The state of a cluster. None if it does not exist.
    #[must_use]
    pub fn observe_cluster(&self, id: &ClusterId) -> Option<ClusterObservation> {
        let cluster = self.cluster(id)?;
        self.catch_up(&cluster, |_| ());
        Some(ClusterObservation {
            endpoint: cluster.endpoint.clone(),
            authorities_set: cluster.has_authorities(),
            backends: cluster.backends().len(),
            machines: cluster.machine_count(),
            etcd_members: cluster.etcd_members(),
        })
    }

    /// Reports which machines have an instance or may get one, by namespace and name. The kept objects of all other
    /// machines are removed, also in clusters that are created later.
    pub fn retain_machines(&self, there: BTreeSet<(String, String)>) {
        let is_gone = |id: &ResourceId| {
            id.kind == ResourceKind::Instance && !there.contains(&(id.namespace.clone(), id.name.clone()))
        };
        self.give_up_capacity(is_gone);
        if self.inner.shared.persister.note_machines(there) {
            // Copied first: the removal wakes tasks that may lock the map of clusters.
            let clusters: Vec<_> = self
                .inner
                .clusters
                .iter()
                .map(|cluster| cluster.clone())
                .collect();
            clusters
                .iter()
                .for_each(|cluster| cluster.remove_previous_machines());
        }
    }

    /// Releases reservations and places in a line for room, for resources that will not return.
    fn give_up_capacity(&self, is_gone: impl Fn(&ResourceId) -> bool) {
        let gone: Vec<_> = self.inner.driver.look(|engine| {
            engine
                .reserved()
                .chain(engine.waiting())
                .filter(|id| is_gone(id))
                .cloned()
                .collect()
        });
        self.delete_gone(gone);
    }

    /// Deletes resources that no longer have an object. No caller would repeat a refused deletion, so faults and rates do
    /// not apply to it.
    fn delete_gone(&self, ids: impl IntoIterator<Item = ResourceId>) {
        for id in ids {
            if let Err(error) = self.ask_as(Operation::SWEEPER, Request::Delete(id.clone())) {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(resource = %id, error, "Failed to delete a resource without an object");
            }
        }
    }

    /// Changes what is kept for clusters that are created later.
    ///
    /// # Errors
    /// With the first of the clusters that exists. Then nothing is changed.
    pub(crate) fn unless_they_exist(
        &self,
        clusters: &[ClusterId],
        change: impl FnOnce(&Persister),
    ) -> Result<(), ClusterId> {
        // Locked, so that none of them is created meanwhile.
        let _making = self.inner.making.lock();
        match clusters.iter().find(|id| self.inner.clusters.contains_key(id)) {
            Some(id) => Err(id.clone()),
            None => {
                change(&self.inner.shared.persister);
                Ok(())
            }
        }
    }

    /// Deletes a cluster with its load balancer and its machines. The listener closes, connections end, all objects are
    /// forgotten, including kept ones, and the port waits a while for a cluster of the same name.
    pub fn delete_cluster(&self, id: &ClusterId) {
        self.inner.shared.persister.forget(id);
        // Locked, so that no cluster of this name is created with a load balancer that is being deleted.
        let mut making = self.inner.making.lock();
        making.machines.remove(id);
        self.inner.ports.lock().forget(id, (self.inner.config.clock)());
        let removed = self.inner.clusters.remove(id);
        self.delete_gone([id.load_balancer()]);
        drop(making);
        let cluster = id.clone();
        self.give_up_capacity(|id| id.namespace == cluster.namespace && id.cluster == cluster.name);
        let Some((_, cluster)) = removed else { return };
        cluster.cluster_server.over.cancel();
        let mut follower = cluster.follower.lock();
        // Reads all records of the cluster first, so that the names below are complete.
        self.follow(&cluster, &mut follower, |_| ());
        let resource = |name| {
            MachineId {
                cluster: id.clone(),
                name,
            }
            .resource()
        };
        self.delete_gone(cluster.machine_names().into_iter().map(resource));
        self.follow(&cluster, &mut follower, |_| ());
        follower.end(&self.inner.driver);
        drop(follower);
        self.inner.shared.metrics.clusters.dec();
        tracing::info!(cluster = %id, "Deleted a cluster");
        self.tell(Changed::Cluster(id.clone()));
    }

    /// Asks the cloud for the hardware of a machine that would be made from a model.
    ///
    /// # Errors
    /// When the cloud refuses, because it does not exist or does not offer the model.
    pub fn describe_model(&self, namespace: &str, name: &str, model: &Model) -> Result<Hardware, CallError> {
        let cloud_spec = ResourceId::cloud(namespace, name);
        let request = Request::DescribeModel {
            cloud_spec: cloud_spec.clone(),
            model: model.clone(),
        };
        let verb = "DescribeModel";
        self.ask(request)?;
        let described = self
            .inner
            .driver
            .look(|engine| engine.hardware(&cloud_spec, model));
        described.map_err(|source| CallError::Refused { verb, source })
    }

    /// Creates a machine, unless it exists. An existing machine runs the software of `spec` from now on, unless `spec`
    /// has an update: then it runs the software of the update when the update ends. Repeating the same update changes
    /// nothing.
    ///
    /// # Errors
    /// When its cluster does not exist or the cloud refuses.
    pub fn ensure_machine(&self, spec: MachineSpec) -> Result<(), MachineError> {
        let id = spec.id.clone();
        let cluster = self
            .cluster(&id.cluster)
            .ok_or_else(|| MachineError::UnknownCluster(id.cluster.clone()))?;
        if spec.role == Role::ControlPlane && DnsName::try_from(format!("etcd-{}", spec.node_name())).is_err()
        {
            return Err(MachineError::Name(id));
        }
        let update = spec.update.clone();
        let mut follower = cluster.follower.lock();
        if follower.over {
            return Err(MachineError::UnknownCluster(id.cluster));
        }
        // A former machine of this name is removed before the new one is created.
        self.follow(&cluster, &mut follower, |_| ());
        let created = match cluster.admit(spec) {
            Admission::New(spec) => Some(spec),
            // Who got no answer asks again, and does not know whether there is a machine.
            Admission::Known if self.look(|engine| engine.is_unanswered(&id.resource())) => {
                cluster.admitted(&id.name)
            }
            Admission::Known => None,
            Admission::Conflict => {
                let source = CloudError::Conflict(id.resource());
                return Err(CallError::Refused {
                    verb: "CreateInstance",
                    source,
                }
                .into());
            }
        };
        if let Some(spec) = created {
            self.create_instance(&cluster, &spec)?;
        }
        self.begin_update(&id, update.as_deref())?;
        // Stages that were already reached, and stages that take no time, are shown when this returns.
        self.follow(&cluster, &mut follower, |_| ());
        Ok(())
    }

    /// Creates the instance of a machine that its cluster has admitted.
    fn create_instance(&self, cluster: &Cluster, spec: &MachineSpec) -> Result<(), CallError> {
        let resource = spec.id.resource();
        let name = &spec.id.name;
        self.ask_as(spec.caller.as_str(), creation(spec, self.clock()))
            .inspect_err(|_| {
                // A fault may lose the answer of a creation that was carried out.
                if !self.look(|engine| engine.get(&resource).is_some()) {
                    cluster.forget_refused(name);
                }
            })
    }

    /// Begins an update, unless it is the last one that was begun.
    fn begin_update(&self, id: &MachineId, update: Option<&MachineUpdate>) -> Result<(), MachineError> {
        let Some(update) = update else { return Ok(()) };
        match self.ask_about(id, Request::Update(id.resource(), updating(update, self.clock()))) {
            // A machine that is being deleted needs no update.
            Err(CallError::Refused {
                source: CloudError::Deleting(_) | CloudError::NotFound(_),
                ..
            }) => Ok(()),
            asked => Ok(asked?),
        }
    }

    /// Asks the cloud for the state of a machine; none if it does not exist. This is a call of the cloud's API: the
    /// cloud may refuse or delay it. [`Cloud::observe_machine`] reads the state without a call.
    ///
    /// # Errors
    /// When the cloud refuses.
    pub fn describe_machine(&self, id: &MachineId) -> Result<Option<MachineObservation>, MachineError> {
        match self.ask_about(id, Request::Describe(id.resource())) {
            Ok(()) => Ok(self.observe_machine(id)),
            Err(CallError::Refused {
                source: CloudError::NotFound(_),
                ..
            }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The state of a machine. None if it does not exist.
    #[must_use]
    pub fn observe_machine(&self, id: &MachineId) -> Option<MachineObservation> {
        let cluster = self.cluster(&id.cluster)?;
        let resource = id.resource();
        let clock = self.clock();
        let seen = self.catch_up(&cluster, |engine| {
            let resource = engine.get(&resource)?;
            let stage =
                |(name, state): (_, &StageState)| Some((Stage::of_name(name)?, observe(state, clock)));
            let over = resource.update.as_ref().and_then(|update| match update.state {
                UpdateState::Over { at, .. } => Some((update.name.clone(), clock.wall_time(at))),
                UpdateState::Running { .. } => None,
            });
            let stages: BTreeMap<_, _> = resource.stages().filter_map(stage).collect();
            Some((Instance::of(resource, clock), stages, over))
        });
        let (instance, stages, over) = seen?;
        let spec = cluster.admitted(&id.name)?;
        let update = spec.update.as_deref().map(|update| {
            let ended = over.filter(|(name, _)| *name == update.name()).map(|(_, at)| at);
            UpdateObservation {
                asked_at: update.asked_at,
                ended,
            }
        });
        Some(MachineObservation {
            started_at: instance.created,
            stages,
            provider_id: id.provider_id(),
            hardware: instance.hardware,
            software: spec.software(),
            allocation: spec.allocation,
            zone: spec.zone,
            cloud_spec: spec.cloud_spec,
            region: spec.region,
            kubeadm: spec.kubeadm,
            update,
            deleting: instance.is_deleting,
            wrong: instance.visible_effects,
        })
    }

    /// Deletes a machine. Its software stops at once, and the machine is gone when the engine says so.
    ///
    /// # Errors
    /// When the cloud refuses. Then the machine continues to run.
    pub fn delete_machine(&self, id: &MachineId) -> Result<Deletion, MachineError> {
        self.delete_machine_as(self.caller_about(id).as_str(), id)
    }

    /// Deletes a machine that has no object any more. No caller would repeat a refused deletion, so faults and rates do not
    /// apply to it.
    ///
    /// # Errors
    /// When the cloud refuses. Then the machine continues to run.
    pub fn sweep_machine(&self, id: &MachineId) -> Result<Deletion, MachineError> {
        self.delete_machine_as(Operation::SWEEPER, id)
    }

    fn delete_machine_as(&self, caller: &str, id: &MachineId) -> Result<Deletion, MachineError> {
        let resource = id.resource();
        // None when it is gone.
        let since = |engine: &Engine| Some(engine.get(&resource)?.deleting.as_ref()?.since);
        let delete = || self.ask_as(caller, Request::Delete(id.resource()));
        let left = match self.cluster(&id.cluster) {
            Some(cluster) => {
                let mut follower = cluster.follower.lock();
                delete()?;
                cluster.release(&id.name);
                self.inner.shared.persister.forget_machine(id);
                let left = self.follow(&cluster, &mut follower, since);
                if left.is_none() {
                    cluster.remove_previous_machine(&id.name);
                }
                left
            }
            None => {
                delete()?;
                self.inner.shared.persister.forget_machine(id);
                if let Some(machines) = self.inner.making.lock().machines.get_mut(&id.cluster) {
                    machines.remove(&id.name);
                }
                self.inner.driver.look(since)
            }
        };
        let wall = |since| self.clock().wall_time(since);
        Ok(left.map_or(Deletion::Gone, |since| Deletion::InProgress {
            since: wall(since),
        }))
    }

    /// Restores a machine from before a restart that is to be deleted. `since` is when its deletion began, if it did: then
    /// the deletion ends when it would have. Until the machine is gone its Node is there, if its cluster is. Does nothing
    /// unless the machine is reserved, see [`Cloud::reserve_machines`]: then it was restored before, or is gone.
    ///
    /// # Errors
    /// When the cloud refuses.
    pub fn restore_deleting(
        &self,
        spec: MachineSpec,
        since: Option<jiff::Timestamp>,
    ) -> Result<(), MachineError> {
        let id = spec.id.clone();
        let since = since.map(|since| self.clock().at(since));
        let adoption = |spec: &MachineSpec| match creation(spec, self.clock()) {
            Request::Adopt { spec, previous } => Some(Request::Adopt {
                spec,
                previous: Box::new(Previous {
                    deleting: since,
                    ..*previous
                }),
            }),
            // It had not begun to boot.
            _ => None,
        };
        let resource = id.resource();
        let is_restored = self.look(|engine| engine.get(&resource).is_some());
        if !is_restored && !self.look(|engine| engine.is_reserved(&resource)) {
            return Ok(());
        }
        let Some(cluster) = self.cluster(&id.cluster) else {
            let adopt = |adopt| self.ask_as(spec.caller.as_str(), adopt);
            return Ok(adoption(&spec).map_or(Ok(()), adopt)?);
        };
        let mut follower = cluster.follower.lock();
        if follower.over {
            return Ok(());
        }
        self.follow(&cluster, &mut follower, |_| ());
        if let Some(adopt) = adoption(&spec)
            && let Admission::New(_) = cluster.admit(spec)
        {
            if !is_restored {
                self.ask_about(&id, adopt)
                    .inspect_err(|_| cluster.show_machine(&id.name, None))?;
            }
            // It may have been restored before its cluster.
            follower.note_machine(&id.name);
        }
        self.follow(&cluster, &mut follower, |_| ());
        Ok(())
    }

    /// Sends a request to the engine on behalf of the infrastructure provider.
    pub(crate) fn ask(&self, request: Request) -> Result<(), CallError> {
        self.ask_as(CALLER, request)
    }

    /// Sends a request about a machine to the engine, on behalf of its caller.
    pub(crate) fn ask_about(&self, machine: &MachineId, request: Request) -> Result<(), CallError> {
        self.ask_as(self.caller_about(machine).as_str(), request)
    }

    fn caller_about(&self, machine: &MachineId) -> Caller {
        self.cluster(&machine.cluster)
            .and_then(|cluster| cluster.caller(&machine.name))
            .unwrap_or_default()
    }

    /// As [`Cloud::ask`], for another caller.
    pub(crate) fn ask_as(&self, caller: &str, request: Request) -> Result<(), CallError> {
        let now = self.now();
        let operation = Operation {
            caller: caller.to_owned(),
            request,
            at: now,
        };
        let verb = operation.verb();
        let outcome = self.inner.driver.apply(operation);
        self.inner.shared.metrics.count_operation(verb, &outcome);
        match outcome {
            Outcome::Accepted | Outcome::AlreadyDone => Ok(()),
            Outcome::Delayed { until } => Err(CallError::Delayed {
                verb,
                until: self.clock().wall_time(until),
                after: until.since(now),
            }),
            Outcome::Refused(source) => Err(CallError::Refused { verb, source }),
        }
    }

    /// Makes a cluster show all records so far, and returns the result of `look` on the engine.
    pub(crate) fn catch_up<T>(&self, cluster: &Cluster, look: impl Fn(&Engine) -> T) -> T {
        self.follow(cluster, &mut cluster.follower.lock(), look)
    }

    /// As [`Cloud::catch_up`], for a caller that has locked the follower.
    fn follow<T>(&self, cluster: &Cluster, follower: &mut Follower, look: impl Fn(&Engine) -> T) -> T {
        let mut changed = BTreeSet::new();
        let seen = cluster.follow(follower, &self.inner.driver, &mut changed, look);
        changed.into_iter().for_each(|changed| self.tell(changed));
        seen
    }

    /// Shows new records of a cluster until it is deleted.
    async fn keep_up(&self, cluster: &Cluster) {
        loop {
            let appended = cluster.appended.notified();
            self.catch_up(cluster, |_| ());
            tokio::select! {
                () = cluster.cluster_server.over.cancelled() => return,
                () = appended => {}
            }
        }
    }

    /// How many tasks serve clusters, for diagnostics.
    #[must_use]
    pub fn task_count(&self) -> usize {
        self.inner.shared.tasks.len()
    }

    /// The changes from now on.
    pub fn changes(&self) -> impl Stream<Item = Changed> + Send + Unpin + 'static {
        BroadcastStream::new(self.inner.changes.subscribe())
            .map(|changed| changed.unwrap_or(Changed::Everything))
    }

    /// Reads the journal from now on, to keep it in a file.
    #[must_use]
    pub fn journal(&self) -> JournalReader {
        JournalReader::new(self.inner.driver.clone(), self.inner.over.clone())
    }

    /// Reads the records of the journal after number `after`, to show them; None for all that the journal has.
    #[must_use]
    pub fn recent_records(&self, filter: JournalFilter, after: Option<u64>) -> RecentRecords {
        let Inner { driver, over, .. } = &*self.inner;
        RecentRecords::new(driver.clone(), self.clock().clone(), over.clone(), filter, after)
    }

    pub(crate) fn cluster(&self, id: &ClusterId) -> Option<Arc<Cluster>> {
        self.inner.clusters.get(id).map(|cluster| cluster.clone())
    }

    /// Reads the engine.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Engine) -> T) -> T {
        self.inner.driver.look(look)
    }

    /// The cloud time.
    pub(crate) fn now(&self) -> SimTime {
        self.clock().now()
    }

    pub(crate) fn clock(&self) -> &CloudClock {
        &self.inner.shared.cloud_clock
    }

    fn tell(&self, changed: Changed) {
        // There is no listener while controllers start. They read everything then.
        let _ = self.inner.changes.send(changed);
    }

    /// Sleeps until the next deadline and lets happen what is due, until shutdown.
    async fn drive(&self) {
        loop {
            let moved = self.inner.driver.moved.notified();
            self.inner.driver.poll(self.now());
            let wait = self
                .inner
                .driver
                .look(Engine::next_deadline)
                .map(|due| self.clock().until(due));
            let due = async {
                match wait {
                    // The engine counts in milliseconds: within the same millisecond nothing new would be due.
                    Some(wait) => tokio::time::sleep(wait.max(Duration::from_millis(1))).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.inner.over.cancelled() => return,
                () = moved => {}
                () = due => {}
            }
        }
    }

    /// Reads the whole journal until shutdown: wakes the clusters of the records, sets the metrics and writes the log.
    async fn read_journal(&self, mut cursor: Cursor) {
        let mut batch = Vec::with_capacity(RECORDS_MAX);
        let mut times = OperationTimes::default();
        let mut appended = self.inner.driver.appended();
        loop {
            while self.read_some(&mut cursor, &mut batch, &mut times) {}
            tokio::select! {
                () = self.inner.over.cancelled() => return,
                _ = appended.changed() => {}
            }
        }
    }

    /// Reads the next records. Returns whether there were any.
    fn read_some(
        &self,
        cursor: &mut Cursor,
        batch: &mut Vec<Arc<Entry>>,
        times: &mut OperationTimes,
    ) -> bool {
        batch.clear();
        let names = Stage::ALL.map(Stage::name);
        let (read, new, machines, reached) = self.inner.driver.look(|engine| {
            let resource_counts = engine.resource_counts();
            let reached = names.each_ref().map(|stage| resource_counts.reached(stage));
            let read = engine.journal().read(cursor, batch);
            let new = batch.iter().filter(|entry| creates_load_balancer(entry, engine));
            let new: BTreeSet<_> = new.map(|entry| entry.sequence).collect();
            (
                read,
                new,
                resource_counts.resources(ResourceKind::Instance),
                reached,
            )
        });
        self.inner
            .shared
            .metrics
            .count_machines(machines, Stage::ALL.into_iter().zip(reached));
        if read.is_err() {
            tracing::debug!("Started again from the state because the journal grew faster than it was read");
            self.inner
                .clusters
                .iter()
                .for_each(|cluster| cluster.appended.notify_one());
            self.tell(Changed::Everything);
            return true;
        }
        let mut touched = Touched::default();
        for entry in batch.iter() {
            let took = times.read(&entry.record, new.contains(&entry.sequence));
            took.iter()
                .for_each(|time| self.inner.shared.metrics.observe_operation(time));
            touched.note(&entry.record);
            if let Record::Event(event) = &entry.record
                && let EventKind::StageFailed { stage, cause } = &event.kind
            {
                tracing::info!(machine = %event.id, %stage, cause, "A stage failed");
            }
        }
        touched.changes().for_each(|changed| self.tell(changed));
        for id in touched.clusters {
            match self.cluster(&id) {
                Some(cluster) => cluster.appended.notify_one(),
                // Resources of a deleted cluster may take longer to go, and a load balancer may wait for room before
                // its cluster exists. Their changes are reported here only.
                None => self.tell_of(&id, batch),
            }
        }
        !batch.is_empty()
    }

    fn tell_of(&self, cluster: &ClusterId, batch: &[Arc<Entry>]) {
        let mut changed = BTreeSet::new();
        for entry in batch {
            let id = entry.record.resource();
            let is_told = matches!(entry.record, Record::Event(_) | Record::CapacityFreed { .. });
            if is_told && (&id.namespace, &id.cluster) == (&cluster.namespace, &cluster.name) {
                changed.extend(MachineId::of_resource(id).map(Changed::Machine));
                changed.extend(ClusterId::of_load_balancer(id).map(Changed::Cluster));
            }
        }
        changed.into_iter().for_each(|changed| self.tell(changed));
    }
}

/// The request that creates or adopts a machine.
fn creation(spec: &MachineSpec, clock: &CloudClock) -> Request {
    let resource = spec.instance();
    if spec.reached.is_empty() && spec.started_at.is_none() {
        return Request::Create(resource);
    }
    let reached: BTreeMap<_, _> = spec
        .reached
        .iter()
        .map(|(stage, at)| (stage.name(), clock.at(*at)))
        .collect();
    let started_at = spec.started_at.map(|at| clock.at(at));
    let created = started_at
        .or_else(|| reached.values().min().copied())
        .unwrap_or_else(|| clock.now());
    let update = spec.update.as_deref().filter(|update| update.is_accepted);
    let leads = spec.role == Role::ControlPlane && !spec.is_deregistered;
    let load_balancer = leads.then(|| (spec.id.cluster.load_balancer().name, Stage::ApiServer.name()));
    let previous = Previous {
        created,
        reached,
        hardware: spec.hardware.clone(),
        deleting: None,
        update: update.map(|update| updating(update, clock)),
        load_balancers: load_balancer.into_iter().collect(),
        // Of an instance that is up, a refused read changes nothing that its object says.
        is_read_refused: false,
    };
    Request::Adopt {
        spec: resource,
        previous: Box::new(previous),
    }
}

/// The update of a machine, as the engine has it.
fn updating(update: &MachineUpdate, clock: &CloudClock) -> UpdateSpec {
    let MachineUpdate {
        asked_at,
        takes,
        software,
        ..
    } = update;
    UpdateSpec {
        name: update.name(),
        to: software.key(),
        since: clock.at(*asked_at),
        latency: takes.clone(),
    }
}

fn observe(state: &StageState, clock: &CloudClock) -> StageObservation {
    match state {
        StageState::Blocked => StageObservation::Blocked,
        StageState::Running { due, .. } => StageObservation::Waiting {
            due: due.map(|due| clock.wall_time(due)),
        },
        StageState::Reached { at } => StageObservation::Reached {
            at: clock.wall_time(*at),
        },
        StageState::Failed { cause, .. } => StageObservation::Failed { cause: cause.clone() },
    }
}
