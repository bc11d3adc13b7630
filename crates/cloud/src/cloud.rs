//! The handle that reconcilers hold.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use futures::Stream;
use jiff::Timestamp;
use nephele_apiserver::{Authentication, Settings};
use nephele_engine::{
    Command, Config, ErrorClass, EventKind, Latency, Odds, Operation, Rejected, ResourceSpec, SimTime,
    StageSpec, StageState,
};
use nephele_pki::IssueError;
use parking_lot::Mutex;
use prometheus::Registry;
use thiserror::Error;
use tokio::sync::broadcast;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::BroadcastStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster::{Authorities, Cluster, ClusterSpec, Endpoint, MachineSpec};
use crate::driver::Driver;
use crate::front::{Front, parse_version};
use crate::identity::{ClusterId, MachineAddress, MachineId, Stage};
use crate::listener::{self, Shared};
use crate::metrics::Metrics;
use crate::ports::Ports;

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
    /// The wall clock. The cloud's own time is the same until it learns to run at another rate.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// Why the cloud cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The metrics are registered already.
    #[error("failed to register the cloud's metrics")]
    Metrics(#[source] prometheus::Error),
}

/// Why a cluster cannot be as asked.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// The port it was published under is another's.
    #[error("failed to listen on port {port}")]
    PortInUse {
        /// The port.
        port: u16,
        /// What the operating system says; none when another cluster has it.
        #[source]
        source: Option<std::io::Error>,
    },
    /// No port of the range is free.
    #[error("failed to find a free port from {first} to {last}")]
    PortsExhausted {
        /// Start of the range.
        first: u16,
        /// End of the range.
        last: u16,
    },
    /// The cluster is not there.
    #[error("failed to find cluster {0}")]
    Unknown(ClusterId),
    /// A certificate could not be issued.
    #[error("failed to issue the cluster's certificates")]
    Issue(#[source] IssueError),
}

impl ClusterError {
    /// What to do about it.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::PortInUse { .. } | Self::PortsExhausted { .. } => {
                ErrorClass::RetryAfter(Duration::from_secs(5))
            }
            Self::Unknown(_) => ErrorClass::RetryAfter(Duration::from_secs(1)),
            Self::Issue(_) => ErrorClass::WaitForChange,
        }
    }

    /// A word from a fixed set.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::PortInUse { .. } => "PortInUse",
            Self::PortsExhausted { .. } => "PortsExhausted",
            Self::Unknown(_) => "UnknownCluster",
            Self::Issue(_) => "CertificateIssueFailed",
        }
    }
}

/// Why a machine cannot be as asked.
#[derive(Debug, Error)]
pub enum MachineError {
    /// Its cluster is not there (yet).
    #[error("failed to find cluster {0}")]
    UnknownCluster(ClusterId),
    /// The cloud refuses.
    #[error("failed to create the machine")]
    Rejected(#[source] Rejected),
}

impl MachineError {
    /// What to do about it.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::UnknownCluster(_) => ErrorClass::RetryAfter(Duration::from_secs(1)),
            Self::Rejected(rejected) => rejected.class(),
        }
    }

    /// A word from a fixed set.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::UnknownCluster(_) => "UnknownCluster",
            Self::Rejected(rejected) => rejected.category(),
        }
    }
}

/// A cluster as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterObservation {
    /// Where it is reached.
    pub endpoint: Endpoint,
    /// Whether its authorities are known.
    pub authorities_set: bool,
    /// API servers that are up.
    pub backends: usize,
    /// Machines.
    pub machines: usize,
}

/// A machine as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineObservation {
    /// Its stages.
    pub stages: BTreeMap<Stage, StageObservation>,
    /// What ties it to its Node.
    pub provider_id: String,
    /// Its addresses.
    pub addresses: Vec<MachineAddress>,
    /// Where it is.
    pub zone: Option<String>,
}

/// Where a machine stands in a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageObservation {
    /// An earlier stage is not reached yet.
    Blocked,
    /// Under way.
    Waiting {
        /// When it will be decided.
        due: Timestamp,
    },
    /// Passed.
    Reached {
        /// When.
        at: Timestamp,
    },
    /// Failed.
    Failed {
        /// Why.
        cause: String,
    },
}

/// How far a deletion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// There is nothing left.
    Gone,
    /// It takes its time; a change will tell.
    InProgress,
}

/// What changed. Ids only: look again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Changed {
    /// A cluster.
    Cluster(ClusterId),
    /// A machine.
    Machine(MachineId),
    /// More than could be told.
    Everything,
}

/// Changes that a slow listener may lag behind before it is told [`Changed::Everything`]: 4,096 ids of some 100
/// bytes are 400 KB, and a thousand machines that boot at once make 4,000.
const CHANGES_MAX: usize = 4096;

/// The cloud. Cheap to clone.
#[derive(Clone)]
pub struct Cloud {
    inner: Arc<Inner>,
}

struct Inner {
    config: CloudConfig,
    driver: Driver,
    clusters: DashMap<ClusterId, Arc<Cluster>>,
    /// Taken while a cluster is made or ended, so that no two make the same one.
    ports: Mutex<Ports>,
    changes: broadcast::Sender<Changed>,
    shared: Shared,
    over: CancellationToken,
}

impl Cloud {
    /// A cloud, and the future that drives it: to be run until [`Cloud::shutdown`].
    ///
    /// # Errors
    /// When its metrics are registered already.
    pub fn start(
        config: CloudConfig,
        registry: &Registry,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static), StartError> {
        let metrics = Metrics::register(registry).map_err(StartError::Metrics)?;
        let shared = Shared { tasks: TaskTracker::new(), metrics, hold: config.connection_hold };
        let inner = Arc::new(Inner {
            driver: Driver::new(Config::default(), &config.seed),
            clusters: DashMap::new(),
            ports: Mutex::new(Ports::new(config.ports.clone())),
            changes: broadcast::Sender::new(CHANGES_MAX),
            shared,
            over: CancellationToken::new(),
            config,
        });
        let cloud = Self { inner };
        let driver = cloud.clone();
        Ok((cloud, async move { driver.drive().await }))
    }

    /// Stops accepting, ends all connections and the driver, and waits for them.
    pub async fn shutdown(&self) {
        self.inner.over.cancel();
        for cluster in &self.inner.clusters {
            cluster.over.cancel();
        }
        self.inner.shared.tasks.close();
        self.inner.shared.tasks.wait().await;
    }

    /// Makes a cluster, or finds it made. A published endpoint is taken again as it was.
    ///
    /// # Errors
    /// When its port cannot be had.
    pub fn ensure_cluster(&self, spec: ClusterSpec) -> Result<Endpoint, ClusterError> {
        let mut ports = self.inner.ports.lock();
        if let Some(cluster) = self.inner.clusters.get(&spec.id) {
            return Ok(published(&cluster));
        }
        let wanted = spec.endpoint.clone().unwrap_or(Endpoint { host: String::new(), port: 0 });
        let host =
            if wanted.host.is_empty() { self.inner.config.advertise_host.clone() } else { wanted.host };
        let (listener, port) = self.open(&mut ports, wanted.port)?;
        let endpoint = Endpoint { host, port };
        let spec = ClusterSpec { endpoint: Some(endpoint.clone()), ..spec };
        let settings = Settings {
            version: parse_version("v1.36.3"),
            authentication: Authentication::Required,
            clock: self.inner.config.clock.clone(),
            observer: Some(Arc::new(self.inner.shared.metrics.clone())),
        };
        let cluster = Arc::new(Cluster::new(spec, Front::new(settings), self.now()));
        self.inner.shared.tasks.spawn(listener::serve(cluster.clone(), listener, self.inner.shared.clone()));
        self.inner.shared.metrics.clusters.inc();
        tracing::info!(cluster = %cluster.spec.id, host = endpoint.host, port, "Created a cluster");
        self.inner.clusters.insert(cluster.spec.id.clone(), cluster);
        Ok(endpoint)
    }

    /// Binds the wanted port, or the lowest that is free here and on the machine.
    fn open(&self, ports: &mut Ports, wanted: u16) -> Result<(tokio::net::TcpListener, u16), ClusterError> {
        let address = |port| SocketAddr::new(self.inner.config.bind_address, port);
        if wanted != 0 {
            if !ports.take(wanted) {
                return Err(ClusterError::PortInUse { port: wanted, source: None });
            }
            return listener::bind(address(wanted)).map(|listener| (listener, wanted)).map_err(|source| {
                ports.release(wanted);
                ClusterError::PortInUse { port: wanted, source: Some(source) }
            });
        }
        let range = &self.inner.config.ports;
        let mut from = *range.start();
        while let Some(port) = ports.take_lowest(from) {
            match listener::bind(address(port)) {
                Ok(listener) => return Ok((listener, port)),
                // Another process has it.
                Err(_) => ports.release(port),
            }
            from = match port.checked_add(1) {
                Some(next) => next,
                None => break,
            };
        }
        Err(ClusterError::PortsExhausted { first: *range.start(), last: *range.end() })
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

    /// A cluster as it is.
    #[must_use]
    pub fn observe_cluster(&self, id: &ClusterId) -> Option<ClusterObservation> {
        let cluster = self.cluster(id)?;
        Some(ClusterObservation {
            endpoint: published(&cluster),
            authorities_set: cluster.has_authorities(),
            backends: cluster.backends(),
            machines: cluster.machine_count(),
        })
    }

    /// Ends a cluster: its listener closes, its connections end, its objects are forgotten and its port is free.
    pub fn delete_cluster(&self, id: &ClusterId) {
        let mut ports = self.inner.ports.lock();
        let Some((_, cluster)) = self.inner.clusters.remove(id) else { return };
        cluster.over.cancel();
        ports.release(published(&cluster).port);
        self.inner.shared.metrics.clusters.dec();
        tracing::info!(cluster = %id, "Deleted a cluster");
    }

    /// Makes a machine, or finds it made. A version other than before is an upgrade in place.
    ///
    /// # Errors
    /// When its cluster is not there or the cloud refuses.
    pub fn ensure_machine(&self, spec: MachineSpec) -> Result<(), MachineError> {
        let id = spec.id.clone();
        let cluster =
            self.cluster(&id.cluster).ok_or_else(|| MachineError::UnknownCluster(id.cluster.clone()))?;
        let now = self.now();
        let known = cluster.machine(&id.name).is_some();
        let (spec, upgraded) = cluster.admit(spec);
        if upgraded {
            cluster.on_upgraded(now, &spec);
        }
        if known {
            return Ok(());
        }
        let command = command(&spec, now);
        let adopted: Vec<(Stage, Timestamp)> = spec.reached.iter().map(|(stage, at)| (*stage, *at)).collect();
        let operation = Operation { caller: "infra".to_owned(), command };
        if let Err(rejected) = self.inner.driver.apply(sim_time(now), operation) {
            cluster.dismiss(&id.name);
            return Err(MachineError::Rejected(rejected));
        }
        self.inner.shared.metrics.machines.inc();
        // The engine tells of what happens from now on; what an adopted machine had reached is shown here.
        for (stage, at) in adopted {
            self.inner.shared.metrics.stages_reached.with_label_values(&[stage.as_str()]).inc();
            cluster.on_stage(now, &id.name, stage, at);
        }
        self.poll();
        Ok(())
    }

    /// A machine as it is.
    #[must_use]
    pub fn observe_machine(&self, id: &MachineId) -> Option<MachineObservation> {
        let spec = self.cluster(&id.cluster)?.machine(&id.name)?;
        let stages = self.inner.driver.look(&id.resource(), |resource| {
            let stage = |(name, state): (_, &StageState)| Some((Stage::of_name(name)?, observe(state)));
            resource.stages().filter_map(stage).collect()
        })?;
        Some(MachineObservation {
            stages,
            provider_id: id.provider_id(),
            addresses: spec.addresses,
            zone: spec.zone,
        })
    }

    /// Deletes a machine: what runs on it stops at once, the machine goes when the engine says.
    #[must_use]
    pub fn delete_machine(&self, id: &MachineId) -> Deletion {
        let now = self.now();
        let resource = id.resource();
        if self.inner.driver.look(&resource, |_| ()).is_none() {
            return Deletion::Gone;
        }
        if let Some(cluster) = self.cluster(&id.cluster) {
            cluster.on_stopping(now, &id.name);
        }
        let operation = Operation { caller: "infra".to_owned(), command: Command::Delete(resource.clone()) };
        if let Err(rejected) = self.inner.driver.apply(sim_time(now), operation) {
            tracing::warn!(machine = %id, %rejected, "Failed to delete a machine");
        }
        self.poll();
        match self.inner.driver.look(&resource, |_| ()) {
            None => Deletion::Gone,
            Some(()) => Deletion::InProgress,
        }
    }

    /// What changes from now on.
    pub fn changes(&self) -> impl Stream<Item = Changed> + Send + Unpin + 'static {
        BroadcastStream::new(self.inner.changes.subscribe())
            .map(|changed| changed.unwrap_or(Changed::Everything))
    }

    fn cluster(&self, id: &ClusterId) -> Option<Arc<Cluster>> {
        self.inner.clusters.get(id).map(|cluster| cluster.clone())
    }

    fn now(&self) -> Timestamp {
        (self.inner.config.clock)()
    }

    fn tell(&self, changed: Changed) {
        // Nobody listens while controllers start; they look at everything then.
        let _ = self.inner.changes.send(changed);
    }

    /// Runs until shutdown: sleeps to the next deadline and lets happen what is due.
    async fn drive(&self) {
        loop {
            let moved = self.inner.driver.moved.notified();
            self.poll();
            let wait = self.inner.driver.next_deadline().map(|due| due.since(sim_time(self.now())));
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

    fn poll(&self) {
        let now = self.now();
        let mut changed = Vec::new();
        self.inner.driver.poll(sim_time(now), |event| {
            let id = MachineId::of_resource(&event.id);
            let cluster = self.cluster(&id.cluster);
            let at = timestamp(event.at);
            match &event.kind {
                EventKind::StageReached(name) => {
                    if let (Some(stage), Some(cluster)) = (Stage::of_name(name), cluster) {
                        self.inner.shared.metrics.stages_reached.with_label_values(&[stage.as_str()]).inc();
                        cluster.on_stage(now, &id.name, stage, at);
                    }
                }
                EventKind::StageFailed { stage, cause } => {
                    tracing::info!(machine = %id, %stage, cause, "A stage failed");
                }
                EventKind::Deleted => {
                    self.inner.shared.metrics.machines.dec();
                    if let Some(cluster) = cluster {
                        cluster.on_gone(&id.name);
                    }
                }
            }
            changed.push(id);
        });
        changed.dedup();
        for id in changed {
            self.tell(Changed::Machine(id));
        }
    }
}

fn published(cluster: &Cluster) -> Endpoint {
    cluster.spec.endpoint.clone().expect("a cluster that runs has an endpoint")
}

/// What the engine is asked for.
fn command(spec: &MachineSpec, now: Timestamp) -> Command {
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
        id: spec.id.resource(),
        zone: spec.zone.clone(),
        instance_type: spec.instance_type.clone(),
        owner: None,
        labels: BTreeMap::new(),
        stages: stages.collect(),
        deletion: Latency::ZERO,
    };
    if spec.reached.is_empty() {
        return Command::Create(resource);
    }
    let reached: BTreeMap<_, _> =
        spec.reached.iter().map(|(stage, at)| (stage.name(), sim_time(*at))).collect();
    let created = reached.values().min().copied().unwrap_or(sim_time(now));
    Command::Adopt { spec: resource, created, reached }
}

fn observe(state: &StageState) -> StageObservation {
    match state {
        StageState::Blocked => StageObservation::Blocked,
        StageState::Running { due, .. } => StageObservation::Waiting { due: timestamp(*due) },
        StageState::Reached { at } => StageObservation::Reached { at: timestamp(*at) },
        StageState::Failed { cause, .. } => StageObservation::Failed { cause: cause.clone() },
    }
}

fn sim_time(at: Timestamp) -> SimTime {
    SimTime::from_millis(u64::try_from(at.as_millisecond()).unwrap_or(0))
}

fn timestamp(at: SimTime) -> Timestamp {
    i64::try_from(at.as_millis())
        .ok()
        .and_then(|millis| Timestamp::from_millisecond(millis).ok())
        .unwrap_or(Timestamp::MAX)
}
