//! The handle that reconcilers hold.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use futures::Stream;
use jiff::Timestamp;
use nephele_apiserver::{Authentication, Settings};
use nephele_engine::{
    Catalog, CloudError, Config, Cursor, Endpoint, Engine, Entry, EventKind, Hardware, Latency, Model, Odds,
    Operation, Outcome, Quotas, Record, Request, ResourceId, ResourceKind, ResourceSpec, SimTime, StageSpec,
    StageState, UpdateSpec, UpdateState,
};
use parking_lot::Mutex;
use prometheus::Registry;
use rustls::pki_types::DnsName;
use tokio::sync::broadcast;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::BroadcastStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::{sim_time, timestamp};
use crate::cluster::{Admission, Cluster};
use crate::driver::Driver;
use crate::error::{CallError, ClusterError, MachineError, StartError};
use crate::follower::Follower;
use crate::front::parse_version;
use crate::identity::{ClusterId, MachineId, Role, Stage};
use crate::journal::JournalReader;
use crate::kept::Keeper;
use crate::metrics::Metrics;
use crate::network::{Listening, Network};
use crate::observation::{
    Changed, ClusterObservation, Deletion, MachineObservation, StageObservation, UpdateObservation,
};
use crate::ports::{PortLease, Ports, Refused};
use crate::served::Shared;
use crate::spec::{Allocation, Authorities, ClusterSpec, FormerMachine, MachineSpec, MachineUpdate};

/// How the cloud is set up.
#[derive(Clone)]
pub struct CloudConfig {
    /// The host that endpoints are published under: an address or a DNS name.
    pub advertise_host: String,
    /// The address that listeners bind.
    pub bind_address: IpAddr,
    /// The ports that listeners take.
    pub ports: RangeInclusive<u16>,
    /// What all chance is derived from.
    pub seed: String,
    /// How long a connection or request waits for the first backend of its cluster.
    pub connection_hold: Duration,
    /// Where the objects of clusters are kept over a restart; none for nowhere.
    pub state_directory: Option<PathBuf>,
    /// Machines that a namespace may have at a time; none for any number. Those that were there before a restart are taken
    /// over, however many they are.
    pub machines_max: Option<u32>,
    /// What machines are made from whose specification names no catalog.
    pub catalog: Catalog,
    /// The wall clock. The cloud's own time is the same until it learns to run at another rate.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// Changes that a slow listener may lag behind before it is told [`Changed::Everything`]: 4,096 ids of some 100
/// bytes are 400 KB, and a thousand machines that boot at once make 4,000.
const CHANGES_MAX: usize = 4096;

/// Records read at a time by who reads all of them: 256 pointers.
const RECORDS_MAX: usize = 256;

/// Who asks the engine, in its journal.
const CALLER: &str = "infra";

/// Connections end within a tenth of a second of being asked to; what takes longer is a mistake of ours.
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
    /// Held while a cluster is made, so that no two make the same one.
    making: Mutex<Making>,
    ports: Arc<Mutex<Ports>>,
    changes: broadcast::Sender<Changed>,
    shared: Arc<Shared>,
    over: CancellationToken,
}

/// What there is for clusters before they are made.
#[derive(Default)]
struct Making {
    /// Whether the ports of all clusters from before a restart are reserved.
    endpoints_known: bool,
    /// What machines had before a restart whose clusters are not there yet.
    machines: BTreeMap<ClusterId, BTreeMap<String, Allocation>>,
}

impl Cloud {
    /// A cloud, and the future that drives it: to be run until [`Cloud::shutdown`].
    ///
    /// # Errors
    /// When its metrics are registered already, or its state directory cannot be used.
    pub fn start(
        config: CloudConfig,
        registry: &Registry,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static), StartError> {
        Self::start_on(Network::Sockets, config, registry)
    }

    /// The same, whose clusters are reached through `network`.
    ///
    /// # Errors
    /// When its metrics are registered already, or its state directory cannot be used.
    pub fn start_on(
        network: Network,
        config: CloudConfig,
        registry: &Registry,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static), StartError> {
        let metrics = Metrics::register(registry).map_err(StartError::Metrics)?;
        let keeper = Keeper::open(config.state_directory.as_deref(), &network, &metrics);
        let keeper = keeper.map_err(StartError::State)?;
        let shared = Shared {
            tasks: TaskTracker::new(),
            metrics,
            keeper,
            hold: config.connection_hold,
            clock: config.clock.clone(),
        };
        let config_of_engine = Config {
            quotas: Quotas { instances_max: config.machines_max, ..Quotas::default() },
            catalog: config.catalog.clone(),
            ..Config::default()
        };
        let lock_seconds = shared.metrics.engine_lock_seconds.clone();
        let inner = Arc::new(Inner {
            driver: Arc::new(Driver::new(config_of_engine, &config.seed, lock_seconds)),
            clusters: DashMap::new(),
            making: Mutex::default(),
            ports: Arc::new(Mutex::new(Ports::new(config.ports.clone()))),
            changes: broadcast::Sender::new(CHANGES_MAX),
            shared: Arc::new(shared),
            over: CancellationToken::new(),
            network,
            config,
        });
        let cloud = Self { inner };
        let running = cloud.clone();
        // From the beginning, whoever asks for what before the future is polled.
        let cursor = cloud.inner.driver.look(|engine| engine.journal().end());
        let run = async move {
            tokio::join!(running.drive(), running.read_journal(cursor));
        };
        Ok((cloud, run))
    }

    /// Stops accepting, ends the driver and all connections, and waits for them: a tenth of a second for requests in
    /// flight. Then the state directory is another's to open.
    pub async fn shutdown(&self) {
        self.inner.over.cancel();
        self.inner.shared.tasks.close();
        if tokio::time::timeout(SHUTDOWN_MAX, self.inner.shared.tasks.wait()).await.is_err() {
            tracing::warn!(tasks = self.inner.shared.tasks.len(), "Left tasks behind at shutdown");
        }
        self.inner.shared.keeper.close().await;
    }

    /// Makes a cluster with its load balancer, or finds it made. A published endpoint is taken again as it was. To be
    /// called inside a tokio runtime.
    ///
    /// # Errors
    /// When its port cannot be had, the cloud refuses the load balancer, or what was kept of it cannot be read.
    pub fn ensure_cluster(&self, spec: ClusterSpec) -> Result<Endpoint, ClusterError> {
        let mut making = self.inner.making.lock();
        if let Some(cluster) = self.cluster(&spec.id) {
            self.create_load_balancer(&spec.id, &cluster.endpoint)?;
            return Ok(cluster.endpoint.clone());
        }
        let wanted = spec.endpoint.clone().unwrap_or(Endpoint { host: String::new(), port: 0 });
        let host =
            if wanted.host.is_empty() { self.inner.config.advertise_host.clone() } else { wanted.host };
        if wanted.port == 0 && !making.endpoints_known {
            return Err(ClusterError::PortsUnknown);
        }
        let (listening, lease) = self.open(&spec.id, wanted.port)?;
        let endpoint = Endpoint { host, port: lease.port };
        let settings = Settings {
            version: parse_version(""),
            authentication: Authentication::Required,
            clock: self.inner.config.clock.clone(),
            observer: Some(Arc::new(self.inner.shared.metrics.clone())),
        };
        let over = self.inner.over.child_token();
        let shared = self.inner.shared.clone();
        self.create_load_balancer(&spec.id, &endpoint)?;
        let follower = Follower::begin(&spec.id, &self.inner.driver);
        let id = spec.id.clone();
        let cluster =
            Cluster::new(spec, endpoint.clone(), settings, shared, follower, over).inspect_err(|_| {
                self.inner.driver.change(|engine| engine.unfollow(&id.group()));
                self.delete_gone([id.load_balancer()]);
            })?;
        let cluster = Arc::new(cluster);
        cluster.reserve(making.machines.remove(&cluster.spec.id).unwrap_or_default());
        cluster.remove_former_machines();
        self.inner.ports.lock().reserve(&cluster.spec.id, endpoint.port);
        let tasks = &self.inner.shared.tasks;
        tasks.spawn(listening.serve(cluster.served.clone(), lease));
        let (cloud, kept_up) = (self.clone(), cluster.clone());
        tasks.spawn(async move {
            tokio::join!(kept_up.keep_addons(), cloud.keep_up(&kept_up));
        });
        self.inner.shared.metrics.clusters.inc();
        tracing::info!(cluster = %cluster.spec.id, %endpoint, "Created a cluster");
        self.inner.clusters.insert(cluster.spec.id.clone(), cluster);
        Ok(endpoint)
    }

    /// Keeps for clusters the ports that they were published under, and room for their load balancers, whether or not they
    /// run: nobody else gets them before [`Cloud::delete_cluster`]. Where two have the same port, the one that comes first
    /// here has it first.
    ///
    /// To be called with all clusters that were there before a restart: no cluster gets a new port before.
    pub fn reserve_endpoints(&self, published: impl IntoIterator<Item = (ClusterId, u16)>) {
        let mut making = self.inner.making.lock();
        published.into_iter().for_each(|(cluster, port)| self.reserve_endpoint(&cluster, port));
        making.endpoints_known = true;
    }

    /// Keeps for a cluster the port that it was published under, as [`Cloud::reserve_endpoints`] does for all.
    pub fn reserve_endpoint(&self, cluster: &ClusterId, port: u16) {
        self.inner.ports.lock().reserve(cluster, port);
        let reserve = Request::Reserve { id: cluster.load_balancer(), zone: None };
        if let Err(error) = self.ask(sim_time(self.now()), reserve) {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(%cluster, error, "Failed to keep room for a load balancer from before a restart");
        }
    }

    /// Keeps for machines what they had before a restart, and room in the cloud, until each is there again or deleted. To
    /// be called before a machine is made.
    pub fn reserve_machines(&self, published: impl IntoIterator<Item = FormerMachine>) {
        let now = sim_time(self.now());
        let mut making = self.inner.making.lock();
        for FormerMachine { id: machine, has_begun, zone, allocation } in published {
            let reserve = Request::Reserve { id: machine.resource(), zone };
            if has_begun && let Err(error) = self.ask(now, reserve) {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(%machine, error, "Failed to keep room for a machine from before a restart");
            }
            let MachineId { cluster: id, name } = machine;
            match self.cluster(&id) {
                Some(cluster) => cluster.reserve([(name, allocation)].into()),
                None => drop(making.machines.entry(id).or_default().insert(name, allocation)),
            }
        }
    }

    /// The host that clusters are published under whose endpoint names none.
    #[must_use]
    pub fn advertised_host(&self) -> &str {
        &self.inner.config.advertise_host
    }

    /// Binds the wanted port, or the lowest that is free here and on the machine.
    fn open(&self, cluster: &ClusterId, wanted: u16) -> Result<(Listening, PortLease), ClusterError> {
        let (config, ports) = (&self.inner.config, &self.inner.ports);
        let bind = |port| self.inner.network.open(config.bind_address, port);
        if wanted != 0 {
            let in_use = |source| ClusterError::PortInUse { port: wanted, source };
            let lease = PortLease::take(ports, wanted, cluster).map_err(|refused| match refused {
                Refused::Taken => in_use(None),
                Refused::Reserved(owner) => ClusterError::PortReserved { port: wanted, owner },
            })?;
            let listener = bind(wanted).map_err(|error| in_use(Some(error)))?;
            return Ok((listener, lease));
        }
        let (first, last) = (*config.ports.start(), *config.ports.end());
        let mut from = first;
        while let Some(lease) = PortLease::take_lowest(ports, from) {
            // Another process may have it.
            if let Ok(listener) = bind(lease.port) {
                return Ok((listener, lease));
            }
            from = match lease.port.checked_add(1) {
                Some(next) => next,
                None => break,
            };
        }
        Err(ClusterError::PortsExhausted { first, last })
    }

    /// Hands a cluster its authorities; others than before replace its certificates.
    ///
    /// # Errors
    /// When the cluster is not there or a certificate cannot be issued.
    pub fn set_authorities(&self, id: &ClusterId, authorities: Authorities) -> Result<(), ClusterError> {
        let cluster = self.cluster(id).ok_or_else(|| ClusterError::Unknown(id.clone()))?;
        if cluster.set_authorities(authorities).map_err(ClusterError::Issue)? {
            self.tell(Changed::Cluster(id.clone()));
        }
        Ok(())
    }

    /// The clusters that there are, and those of which something is kept from before a restart or for which a port is
    /// reserved, in order.
    #[must_use]
    pub fn clusters(&self) -> Vec<ClusterId> {
        let mut clusters = self.inner.shared.keeper.clusters();
        clusters.extend(self.inner.clusters.iter().map(|cluster| cluster.key().clone()));
        clusters.extend(self.inner.ports.lock().clusters().cloned());
        clusters.into_iter().collect()
    }

    /// Whether a cluster is one of [`Cloud::clusters`].
    #[must_use]
    pub fn knows(&self, id: &ClusterId) -> bool {
        self.inner.clusters.contains_key(id)
            || self.inner.shared.keeper.knows(id)
            || self.inner.ports.lock().clusters().any(|cluster| cluster == id)
    }

    /// A cluster as it is.
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

    /// Tells which machines there are, by namespace and name: what was kept of others in their clusters goes, also from
    /// clusters that are made later.
    pub fn retain_machines(&self, there: BTreeSet<(String, String)>) {
        let is_gone = |id: &ResourceId| {
            id.kind == ResourceKind::Instance && !there.contains(&(id.account.clone(), id.name.clone()))
        };
        self.give_up_room(is_gone);
        if self.inner.shared.keeper.note_machines(there) {
            // Copied out: what is removed wakes who may look at clusters.
            let clusters: Vec<_> = self.inner.clusters.iter().map(|cluster| cluster.clone()).collect();
            clusters.iter().for_each(|cluster| cluster.remove_former_machines());
        }
    }

    /// Keeps no room any more for what is known not to come back, and none of it waits for room.
    fn give_up_room(&self, is_gone: impl Fn(&ResourceId) -> bool) {
        let gone: Vec<_> = self.inner.driver.look(|engine| {
            engine.reserved().chain(engine.waiting()).filter(|id| is_gone(id)).cloned().collect()
        });
        self.delete_gone(gone);
    }

    /// Deletes what no object stands for any more. Whoever lets an object go is no user of the cloud's API: nothing holds
    /// what was made for it.
    fn delete_gone(&self, ids: impl IntoIterator<Item = ResourceId>) {
        let now = sim_time(self.now());
        for id in ids {
            if let Err(error) = self.ask(now, Request::Delete(id.clone())) {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(resource = %id, error, "Failed to delete what no object stands for");
            }
        }
    }

    /// Ends a cluster with its load balancer and its machines: the listener closes, connections end, objects are forgotten,
    /// those that were kept among them, and the port is free.
    pub fn delete_cluster(&self, id: &ClusterId) {
        self.inner.shared.keeper.forget(id);
        // So that no cluster of the name is made with a load balancer that goes.
        let mut making = self.inner.making.lock();
        making.machines.remove(id);
        self.inner.ports.lock().forget(id);
        let removed = self.inner.clusters.remove(id);
        self.delete_gone([id.load_balancer()]);
        drop(making);
        let group = id.group();
        self.give_up_room(|id| id.account == group.account && id.group == group.name);
        let Some((_, cluster)) = removed else { return };
        cluster.served.over.cancel();
        let mut follower = cluster.follower.lock();
        // What there is of it by now, so that all of it goes.
        self.follow(&cluster, &mut follower, |_| ());
        let resource = |name| MachineId { cluster: id.clone(), name }.resource();
        self.delete_gone(cluster.machine_names().into_iter().map(resource));
        self.follow(&cluster, &mut follower, |_| ());
        follower.end(&self.inner.driver);
        drop(follower);
        self.inner.shared.metrics.clusters.dec();
        tracing::info!(cluster = %id, "Deleted a cluster");
        self.tell(Changed::Cluster(id.clone()));
    }

    /// Has the machines of a namespace made from a catalog from now on; those that are there keep what they have.
    ///
    /// # Errors
    /// When the cloud refuses.
    pub fn put_catalog(&self, namespace: &str, name: &str, catalog: Catalog) -> Result<(), CallError> {
        let id = ResourceId::catalog(namespace, name);
        self.ask(sim_time(self.now()), Request::PutCatalog { id, catalog: Box::new(catalog) })
    }

    /// Has no machine made from a catalog any more.
    ///
    /// # Errors
    /// When the cloud refuses.
    pub fn delete_catalog(&self, namespace: &str, name: &str) -> Result<(), CallError> {
        self.ask(sim_time(self.now()), Request::Delete(ResourceId::catalog(namespace, name)))
    }

    /// Asks the cloud what a machine would consist of that is made from a model.
    ///
    /// # Errors
    /// When the cloud refuses, as the catalog is not there or does not have what the model names.
    pub fn describe_model(&self, namespace: &str, name: &str, model: &Model) -> Result<Hardware, CallError> {
        let catalog = ResourceId::catalog(namespace, name);
        let request = Request::DescribeModel { catalog: catalog.clone(), model: model.clone() };
        let verb = "DescribeModel";
        self.ask(sim_time(self.now()), request)?;
        let described = self.inner.driver.look(|engine| engine.hardware(&catalog, model));
        described.map_err(|source| CallError::Refused { verb, source })
    }

    /// Makes a machine, or finds it made. One that is there runs what it is said to run from now on, unless an update is
    /// asked for: that takes its time, after which the machine runs what the update says. Asking for the same again is
    /// no other one.
    ///
    /// # Errors
    /// When its cluster is not there or the cloud refuses.
    pub fn ensure_machine(&self, spec: MachineSpec) -> Result<(), MachineError> {
        let id = spec.id.clone();
        let cluster =
            self.cluster(&id.cluster).ok_or_else(|| MachineError::UnknownCluster(id.cluster.clone()))?;
        if spec.role == Role::ControlPlane && DnsName::try_from(format!("etcd-{}", id.name)).is_err() {
            return Err(MachineError::Name(id));
        }
        let update = spec.update.clone();
        let mut follower = cluster.follower.lock();
        if follower.over {
            return Err(MachineError::UnknownCluster(id.cluster));
        }
        // A former machine of the name goes before the new one comes.
        self.follow(&cluster, &mut follower, |_| ());
        match cluster.admit(spec) {
            Admission::New(spec) => {
                let now = sim_time(self.now());
                self.ask(now, creation(&spec, now)).inspect_err(|_| cluster.on_gone(&id.name))?;
                let resource = id.resource();
                let given = |engine: &Engine| engine.get(&resource).map(|made| made.hardware.clone());
                if let Some(hardware) = self.inner.driver.look(given) {
                    cluster.equip(&id.name, hardware);
                }
            }
            Admission::Known => {}
            Admission::Conflict => {
                let source = CloudError::Conflict(id.resource());
                return Err(CallError::Refused { verb: "CreateInstance", source }.into());
            }
        }
        self.begin_update(&id, update.as_deref())?;
        // What was reached already, and what takes no time, is there when this returns.
        self.follow(&cluster, &mut follower, |_| ());
        Ok(())
    }

    /// Begins an update, unless it is the last one that was begun.
    fn begin_update(&self, id: &MachineId, update: Option<&MachineUpdate>) -> Result<(), MachineError> {
        let Some(update) = update else { return Ok(()) };
        let latency = Latency::Jittered { base: update.takes.duration, fraction: update.takes.jitter };
        let (name, to) = (update.name(), update.software.key());
        let spec = UpdateSpec { name, to, since: sim_time(update.asked_at), latency };
        match self.ask(sim_time(self.now()), Request::Update(id.resource(), spec)) {
            // What goes needs no update.
            Err(CallError::Refused { source: CloudError::Deleting(_) | CloudError::NotFound(_), .. }) => {
                Ok(())
            }
            asked => Ok(asked?),
        }
    }

    /// Asks the cloud how a machine is; none when it is not there. This is a call of the cloud's API, as its users make
    /// it: the cloud may refuse or delay it. [`Cloud::observe_machine`] sees what there is.
    ///
    /// # Errors
    /// When the cloud refuses.
    pub fn describe_machine(&self, id: &MachineId) -> Result<Option<MachineObservation>, MachineError> {
        match self.ask(sim_time(self.now()), Request::Describe(id.resource())) {
            Ok(()) => Ok(self.observe_machine(id)),
            Err(CallError::Refused { source: CloudError::NotFound(_), .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A machine as it is.
    #[must_use]
    pub fn observe_machine(&self, id: &MachineId) -> Option<MachineObservation> {
        let cluster = self.cluster(&id.cluster)?;
        let resource = id.resource();
        let (started_at, hardware, stages, over) = self.catch_up(&cluster, |engine| {
            let resource = engine.get(&resource)?;
            let stage = |(name, state): (_, &StageState)| Some((Stage::of_name(name)?, observe(state)));
            let over = resource.update.as_ref().and_then(|update| match update.state {
                UpdateState::Over { at, .. } => Some((update.name.clone(), timestamp(at))),
                UpdateState::Running { .. } => None,
            });
            let stages: BTreeMap<_, _> = resource.stages().filter_map(stage).collect();
            Some((timestamp(resource.created), resource.hardware.clone(), stages, over))
        })?;
        let seen = cluster.machine(&id.name)?;
        let update = seen.update.map(|update| {
            let ended = over.filter(|(name, _)| *name == update.name()).map(|(_, at)| at);
            UpdateObservation { asked_at: update.asked_at, ended }
        });
        Some(MachineObservation {
            started_at,
            stages,
            provider_id: id.provider_id(),
            allocation: seen.allocation,
            zone: seen.zone,
            region: seen.region,
            hardware,
            software: seen.software,
            update,
            deleting: seen.deleting,
        })
    }

    /// Deletes a machine: what runs on it stops at once, the machine goes when the engine says.
    ///
    /// # Errors
    /// When the cloud refuses; then the machine runs on.
    pub fn delete_machine(&self, id: &MachineId) -> Result<Deletion, MachineError> {
        let resource = id.resource();
        let is_there = |engine: &Engine| engine.get(&resource).is_some();
        let delete = || self.ask(sim_time(self.now()), Request::Delete(id.resource()));
        let left = match self.cluster(&id.cluster) {
            Some(cluster) => {
                let mut follower = cluster.follower.lock();
                delete()?;
                cluster.release(&id.name);
                self.inner.shared.keeper.forget_machine(id);
                let left = self.follow(&cluster, &mut follower, is_there);
                if !left {
                    cluster.remove_former_machine(&id.name);
                }
                left
            }
            None => {
                delete()?;
                self.inner.shared.keeper.forget_machine(id);
                if let Some(machines) = self.inner.making.lock().machines.get_mut(&id.cluster) {
                    machines.remove(&id.name);
                }
                self.inner.driver.look(is_there)
            }
        };
        Ok(if left { Deletion::InProgress } else { Deletion::Gone })
    }

    /// Asks the cloud, as the infrastructure provider.
    pub(crate) fn ask(&self, now: SimTime, request: Request) -> Result<(), CallError> {
        let operation = Operation { caller: CALLER.to_owned(), request, labels: BTreeMap::new(), at: now };
        let verb = operation.verb();
        match self.inner.driver.apply(operation) {
            Outcome::Accepted | Outcome::AlreadyDone => Ok(()),
            Outcome::Delayed { until } => {
                Err(CallError::Delayed { verb, until: timestamp(until), after: until.since(now) })
            }
            Outcome::Refused(source) => Err(CallError::Refused { verb, source }),
        }
    }

    /// Has a cluster show what happened so far, and answers with what `look` sees in the engine.
    pub(crate) fn catch_up<T>(&self, cluster: &Cluster, look: impl Fn(&Engine) -> T) -> T {
        self.follow(cluster, &mut cluster.follower.lock(), look)
    }

    /// As [`Cloud::catch_up`], for who has locked the follower.
    fn follow<T>(&self, cluster: &Cluster, follower: &mut Follower, look: impl Fn(&Engine) -> T) -> T {
        let mut changed = BTreeSet::new();
        let seen = cluster.follow(follower, &self.inner.driver, &mut changed, look);
        changed.into_iter().for_each(|changed| self.tell(changed));
        seen
    }

    /// Has a cluster show what happens, until it is over.
    async fn keep_up(&self, cluster: &Cluster) {
        loop {
            let appended = cluster.appended.notified();
            self.catch_up(cluster, |_| ());
            tokio::select! {
                () = cluster.served.over.cancelled() => return,
                () = appended => {}
            }
        }
    }

    /// How many tasks serve clusters, for diagnostics.
    #[must_use]
    pub fn task_count(&self) -> usize {
        self.inner.shared.tasks.len()
    }

    /// What changes from now on.
    pub fn changes(&self) -> impl Stream<Item = Changed> + Send + Unpin + 'static {
        BroadcastStream::new(self.inner.changes.subscribe())
            .map(|changed| changed.unwrap_or(Changed::Everything))
    }

    /// Reads the journal from now on, to keep it.
    #[must_use]
    pub fn journal(&self) -> JournalReader {
        JournalReader::new(self.inner.driver.clone(), self.inner.over.clone())
    }

    pub(crate) fn cluster(&self, id: &ClusterId) -> Option<Arc<Cluster>> {
        self.inner.clusters.get(id).map(|cluster| cluster.clone())
    }

    /// Sees what there is in the engine.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Engine) -> T) -> T {
        self.inner.driver.look(look)
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.inner.config.clock)()
    }

    fn tell(&self, changed: Changed) {
        // Nobody listens while controllers start; they look at everything then.
        let _ = self.inner.changes.send(changed);
    }

    /// Sleeps to the next deadline and lets happen what is due, until shutdown.
    async fn drive(&self) {
        loop {
            let moved = self.inner.driver.moved.notified();
            self.inner.driver.poll(sim_time(self.now()));
            let wait =
                self.inner.driver.look(Engine::next_deadline).map(|due| due.since(sim_time(self.now())));
            let due = async {
                match wait {
                    // A millisecond is the engine's grain: waking within the same one would find nothing due.
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

    /// Reads the whole journal, until shutdown: wakes the clusters that it tells of, counts, and writes the log.
    async fn read_journal(&self, mut cursor: Cursor) {
        let mut batch = Vec::with_capacity(RECORDS_MAX);
        let mut appended = self.inner.driver.appended();
        loop {
            while self.read_some(&mut cursor, &mut batch) {}
            tokio::select! {
                () = self.inner.over.cancelled() => return,
                _ = appended.changed() => {}
            }
        }
    }

    /// Reads on. Says whether there was anything.
    fn read_some(&self, cursor: &mut Cursor, batch: &mut Vec<Arc<Entry>>) -> bool {
        batch.clear();
        let names = Stage::ALL.map(Stage::name);
        let (read, machines, reached) = self.inner.driver.look(|engine| {
            let census = engine.census();
            let reached = names.each_ref().map(|stage| census.reached(stage));
            (engine.journal().read(cursor, batch), census.resources(ResourceKind::Instance), reached)
        });
        self.inner.shared.metrics.count_machines(machines, Stage::ALL.into_iter().zip(reached));
        if read.is_err() {
            tracing::debug!("Started again from the state: the journal grew faster than it was read");
            self.inner.clusters.iter().for_each(|cluster| cluster.appended.notify_one());
            self.tell(Changed::Everything);
            return true;
        }
        let mut clusters = BTreeSet::new();
        for entry in batch.iter() {
            let ResourceId { account, group, .. } = entry.record.resource();
            clusters.insert(ClusterId { namespace: account.clone(), name: group.clone() });
            if let Record::Event(event) = &entry.record
                && let EventKind::StageFailed { stage, cause } = &event.kind
            {
                tracing::info!(machine = %event.id, %stage, cause, "A stage failed");
            }
        }
        for id in clusters {
            match self.cluster(&id) {
                Some(cluster) => cluster.appended.notify_one(),
                // What is of a cluster that is deleted may take longer to go, and a load balancer may wait for room
                // before its cluster is there; nobody else tells of them.
                None => self.tell_of(&id, batch),
            }
        }
        !batch.is_empty()
    }

    fn tell_of(&self, cluster: &ClusterId, batch: &[Arc<Entry>]) {
        let mut changed = BTreeSet::new();
        for entry in batch {
            let id = entry.record.resource();
            let is_told = matches!(entry.record, Record::Event(_) | Record::RoomFreed { .. });
            if is_told && (&id.account, &id.group) == (&cluster.namespace, &cluster.name) {
                changed.extend(MachineId::of_resource(id).map(Changed::Machine));
                changed.extend(ClusterId::of_load_balancer(id).map(Changed::Cluster));
            }
        }
        changed.into_iter().for_each(|changed| self.tell(changed));
    }
}

/// What the engine is asked for.
fn creation(spec: &MachineSpec, now: SimTime) -> Request {
    let stages = Stage::of(spec.role).iter().map(|stage| {
        let start_up = spec.start_up.get(stage).copied().unwrap_or_default();
        StageSpec {
            name: stage.name(),
            after: stage.after().iter().map(|stage| stage.name()).collect(),
            latency: Latency::Jittered { base: start_up.duration, fraction: start_up.jitter },
            failure: Odds::NEVER,
        }
    });
    let resource = ResourceSpec {
        draw_key: spec.allocation.draw_key(),
        zone: spec.zone.clone(),
        catalog: spec.catalog.clone(),
        instance_type: spec.instance_type.clone(),
        image: spec.image.clone(),
        version: (!spec.version.is_empty()).then(|| spec.version.clone()),
        stages: stages.collect(),
        ..ResourceSpec::new(spec.id.resource())
    };
    if spec.reached.is_empty() && spec.started_at.is_none() {
        return Request::Create(resource);
    }
    let reached: BTreeMap<_, _> =
        spec.reached.iter().map(|(stage, at)| (stage.name(), sim_time(*at))).collect();
    let started_at = spec.started_at.map(sim_time);
    let created = started_at.or_else(|| reached.values().min().copied()).unwrap_or(now);
    Request::Adopt { spec: resource, created, reached, hardware: spec.hardware.clone() }
}

fn observe(state: &StageState) -> StageObservation {
    match state {
        StageState::Blocked => StageObservation::Blocked,
        StageState::Running { due, .. } => StageObservation::Waiting { due: timestamp(*due) },
        StageState::Reached { at } => StageObservation::Reached { at: timestamp(*at) },
        StageState::Failed { cause, .. } => StageObservation::Failed { cause: cause.clone() },
    }
}
