use std::{
    convert::Infallible,
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use futures::future::BoxFuture;
use kube::Client;
use nephele_cloud::{Cloud, CloudConfig, Network};
use nephele_controller::{
    Clock, Events, Fence, Leadership, Metrics, Readiness, Reporter, Services, WatchFilter, acquire,
    wall_clock,
};
use nephele_machine_hooks::WarmUpSettings;
use nephele_test_extension::Access;
use prometheus::{IntGaugeVec, Opts, Registry};
use tokio::{runtime::Handle, time::timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::{error, info, warn};

use crate::{
    address::ListenAddress,
    admin::{
        certificate::{CertificateError, SelfSigned, self_signed},
        checkpoint,
        diagnostics::{self, Gate, Verbosity},
        health,
        journal::{self, RunningCloud},
        places::READERS_MAX,
        reviews::Reviews,
        serve::{CONNECTIONS_MAX, serve},
        visitors::{ForVisitors, Visitors},
    },
    client::Clients,
    config::{Config, WebhookConfig},
    core_version, process_metrics,
    requests::Requests,
    roles::Roles,
    runtime_extension::{RuntimeExtension, RuntimeExtensionError, TASKS as RUNTIME_EXTENSION_TASKS},
    tasks::{TaskError, Tasks},
    webhooks::{TASKS as WEBHOOK_TASKS, Webhooks},
};

/// The annotation of the leader's lease with the fingerprint of its diagnostics' certificate. Commands get it from the
/// object that names the leader, and the manager may write that object anyway.
pub const DIAGNOSTICS_CERTIFICATE: &str = "nephele.dev/diagnostics-certificate";
/// The audience of tokens for `/journal` and `/checkpoint`: what one is sent to can use it for nothing else, and a token
/// for something else does not open these.
pub const DIAGNOSTICS_AUDIENCE: &str = "diagnostics.nephele.dev";

/// Connections to the diagnostics at a time: readers of the journal stay connected.
const DIAGNOSTICS_CONNECTIONS_MAX: usize = CONNECTIONS_MAX + READERS_MAX;

/// How long all parts together may take to stop. Kubernetes kills the pod after ten seconds
/// (`terminationGracePeriodSeconds` of Cluster API's managers).
const DRAIN_MAX: Duration = Duration::from_secs(8);
/// The part of that time for reconciles in flight. Then they are aborted, so that nothing is written without the
/// lease.
const CONTROLLERS_DRAIN_MAX: Duration = Duration::from_secs(4);
/// The part of that time for open connections to workload clusters. Watches never end by themselves.
const CLOUD_DRAIN_MAX: Duration = Duration::from_secs(2);
/// Tasks that only the leader runs.
const CONTROLLER_TASKS: [&str; 4] = [
    "infrastructure controllers",
    "scenario controller",
    "hooks of machines",
    "IPAM controllers",
];
/// The task that keeps the journal of the cloud in a file.
const JOURNAL_TASK: &str = "journal";
/// The reporting controller of Events.
const REPORTING_CONTROLLER: &str = "nephele.dev/manager";
/// The readiness gates that the parts of a role open once they have started. They are closed from the start, so that
/// the manager is not ready before it knows its objects.
const INFRASTRUCTURE_GATES: [&str; 3] = ["cloud", "inmemorycluster", "inmemorymachine"];

/// Why the manager could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// An address is in use, or does not belong to this machine.
    #[error("failed to listen on {address} for {purpose}")]
    Listen {
        /// The purpose of the server.
        purpose: &'static str,
        /// The address to listen on.
        address: ListenAddress,
        #[source]
        source: io::Error,
    },
    /// A metric is declared twice.
    #[error("failed to register metrics")]
    Metrics(#[source] prometheus::Error),
    /// The runtime extension cannot be served.
    #[error("failed to set up the runtime extension")]
    RuntimeExtension(#[source] RuntimeExtensionError),
    /// There is no certificate for the diagnostics, or for the page.
    #[error("failed to set up TLS for {purpose}")]
    Certificate {
        /// The purpose of the server.
        purpose: &'static str,
        #[source]
        source: CertificateError,
    },
}

/// Why the manager stopped without a shutdown signal.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The simulated cloud did not start.
    #[error("failed to start the simulated cloud")]
    Cloud(#[source] nephele_cloud::StartError),
    /// A part of the manager ended.
    #[error("a part of the manager ended")]
    Task(#[source] TaskError),
}

/// What the page needs of a manager, which stops it.
pub struct PagePort {
    pub listener: TcpListener,
    pub tls: TlsAcceptor,
    pub visitors: Visitors,
    pub clock: Clock,
    pub stop: CancellationToken,
}

/// Serves the page of a manager until it stops.
pub type ServePage = Box<dyn FnOnce(PagePort) -> BoxFuture<'static, io::Result<()>> + Send>;

/// A page that listens, and is not yet served.
struct ListeningPage {
    listener: TcpListener,
    tls: TlsAcceptor,
    management: ForVisitors,
}

/// The manager, built and listening but not yet running.
pub struct Manager {
    config: Config,
    /// For the work of every replica. The leader's requests go through the fence.
    client: Client,
    /// For the steps of Scenarios, which users choose.
    steps_client: Client,
    lease_client: Client,
    reviews_client: Client,
    /// For what callers of the webhooks cause.
    webhooks_client: Client,
    /// Where the lease and the probes are served.
    urgent: Handle,
    fence: Fence,
    clock: Clock,
    /// How workload clusters are reached.
    network: Network,
    registry: Registry,
    metrics: Metrics,
    ipam_metrics: nephele_ipam_controller::Metrics,
    /// Metrics of the calls of machine hooks.
    hook_metrics: nephele_runtime_sdk::client::Metrics,
    readiness: Readiness,
    health: Option<TcpListener>,
    diagnostics: Option<TcpListener>,
    /// TLS of the diagnostics; `None` for plain HTTP.
    diagnostics_tls: Option<TlsAcceptor>,
    page: Option<ListeningPage>,
    serve_page: Option<ServePage>,
    verbosity: Option<Verbosity>,
    /// The cloud, once this manager runs one.
    running_cloud: RunningCloud,
    webhooks: Option<Webhooks>,
    runtime_extension: Option<RuntimeExtension>,
}

impl Manager {
    /// Builds the manager: opens its own listeners and registers its metrics.
    ///
    /// # Errors
    ///
    /// When an address cannot be listened on.
    pub fn build(config: Config, client: Client) -> Result<Self, BuildError> {
        Self::build_with(config, Clients::one(client), Registry::new())
    }

    /// The same with a client for each purpose, and a registry that may already have metrics of the caller, for
    /// instance those of the clients.
    ///
    /// # Errors
    ///
    /// When an address cannot be listened on, or the registry has metrics of the manager's names.
    pub fn build_with(
        mut config: Config,
        mut clients: Clients,
        registry: Registry,
    ) -> Result<Self, BuildError> {
        let metrics = Metrics::register(&registry).map_err(BuildError::Metrics)?;
        let ipam_metrics =
            nephele_ipam_controller::Metrics::register(&registry).map_err(BuildError::Metrics)?;
        let hook_metrics =
            nephele_runtime_sdk::client::Metrics::register(&registry).map_err(BuildError::Metrics)?;
        describe_process(&registry).map_err(BuildError::Metrics)?;
        let readiness = Readiness::default();
        let requests = Requests::new(&registry, &readiness).map_err(BuildError::Metrics)?;
        if config.lease.is_none() {
            close_gates(&readiness, config.roles);
        }
        let clock = wall_clock();
        let secured = config.diagnostics.is_some() && !config.insecure_diagnostics;
        let certificate = secured
            .then(|| certificate("diagnostics", &config, &clock))
            .transpose()?;
        let page = page(&config, clients.visitors.take(), &clock)?;
        if let (Some(lease), Some(certificate)) = (&mut config.lease, &certificate) {
            lease.published.insert(
                DIAGNOSTICS_CERTIFICATE.to_owned(),
                certificate.fingerprint.clone(),
            );
        }
        let webhooks = webhooks(&config, &registry, &readiness)?;
        let client = core_version::speaking(requests.own(clients.work.clone()));
        let hooks_client = core_version::speaking(requests.for_callers(clients.hooks));
        let runtime_extension = runtime_extension(&config, &hooks_client, &clock, &registry, &readiness)?;
        Ok(Self {
            webhooks,
            runtime_extension,
            health: listen("health", config.health.as_ref())?,
            diagnostics: listen("diagnostics", config.diagnostics.as_ref())?,
            diagnostics_tls: certificate.map(|certificate| certificate.tls),
            page,
            serve_page: None,
            config,
            client,
            steps_client: core_version::speaking(requests.for_steps(clients.work)),
            lease_client: {
                // A client has a task, which is where it was made.
                let _there = clients.urgent.enter();
                requests.own(clients.lease)
            },
            urgent: clients.urgent,
            reviews_client: requests.own(clients.reviews),
            webhooks_client: core_version::speaking(requests.for_callers(clients.webhooks)),
            fence: Fence::default(),
            clock,
            network: Network::Sockets,
            registry,
            metrics,
            ipam_metrics,
            hook_metrics,
            readiness,
            verbosity: None,
            running_cloud: RunningCloud::default(),
        })
    }

    /// Lets authorized callers of the secured diagnostics change the log verbosity.
    #[must_use]
    pub fn with_verbosity(mut self, verbosity: Verbosity) -> Self {
        self.verbosity = Some(verbosity);
        self
    }

    /// Serves the page in this way, if it is switched on.
    #[must_use]
    pub fn with_page(mut self, serve: ServePage) -> Self {
        self.serve_page = Some(serve);
        self
    }

    /// Uses this clock and this network for workload clusters, instead of the machine's clock and sockets: for
    /// simulations on paused time.
    #[must_use]
    pub fn within(mut self, clock: Clock, network: Network) -> Self {
        self.clock = clock;
        self.network = network;
        self
    }

    /// The address of the health server, with the chosen port where port 0 was requested.
    #[must_use]
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.health
            .as_ref()
            .and_then(|listener| listener.local_addr().ok())
    }

    /// The address of the diagnostics server, with the chosen port where port 0 was requested.
    #[must_use]
    pub fn diagnostics_address(&self) -> Option<SocketAddr> {
        self.diagnostics
            .as_ref()
            .and_then(|listener| listener.local_addr().ok())
    }

    /// The gates of readiness, as reported by `/readyz`.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }

    /// `/journal` and `/checkpoint` of its cloud, for callers that are known to be allowed to use them.
    pub fn cloud_routes(&self) -> Router {
        let cloud = &self.running_cloud;
        journal::router(cloud.clone()).merge(checkpoint::router(cloud.clone()))
    }

    /// Works until `shutdown`, then stops controllers, cloud, lease and servers, in this order and within a time limit.
    /// When a part ends by itself, controllers and cloud are aborted.
    ///
    /// The future is boxed so that this crate generates its code, once, and not every crate that awaits it.
    ///
    /// # Errors
    ///
    /// When a part of the manager ends by itself, or the lease is lost.
    pub fn run(mut self, shutdown: CancellationToken) -> BoxFuture<'static, Result<(), RunError>> {
        Box::pin(async move {
            let stops = Stops::default();
            let mut tasks = Tasks::default();
            let fence = self.fence.clone();
            let events = self.serve(&mut tasks, &stops);
            let cloud = self.running_cloud.clone();
            let result = self.work(&mut tasks, &stops, &shutdown, events).await;
            let patience = if let Err(error) = &result {
                fence.close();
                error!(error = %nephele_controller::chain(error), "Stopping at once");
                Duration::ZERO
            } else {
                info!("Stopping");
                CONTROLLERS_DRAIN_MAX
            };
            if timeout(
                DRAIN_MAX,
                drain(&mut tasks, &stops, cloud.get().cloned(), &fence, patience),
            )
            .await
            .is_err()
            {
                warn!(tasks = ?tasks.names(), "Some tasks did not stop in time");
            }
            fence.close();
            tasks.abort().await;
            result
        })
    }

    /// Starts the tasks of every replica.
    fn serve(&mut self, tasks: &mut Tasks, stops: &Stops) -> Events {
        if let Some(listener) = self.health.take() {
            let router = health::router(self.readiness.clone(), Handle::current());
            tasks.spawn_on(
                "health server",
                serve(listener, None, router, CONNECTIONS_MAX, stops.servers.clone()),
                &self.urgent,
            );
        }
        let journal = journal::router(self.running_cloud.clone());
        self.serve_page(&journal, tasks, stops);
        if let Some(listener) = self.diagnostics.take() {
            let router = diagnostics::router(self.registry.clone());
            let tls = self.diagnostics_tls.take();
            let router = match &tls {
                Some(_) => {
                    let debug = self
                        .verbosity
                        .take()
                        .map(diagnostics::debug_router)
                        .unwrap_or_default();
                    let usual = Gate {
                        reviews: Reviews::new(self.reviews_client.clone()),
                        audience: None,
                        namespace_of: None,
                    };
                    let ours = Gate {
                        audience: Some(DIAGNOSTICS_AUDIENCE),
                        ..usual.clone()
                    };
                    let of_cloud = diagnostics::of_cloud(journal, self.running_cloud.clone(), ours);
                    diagnostics::authorized(router.merge(debug), usual).merge(of_cloud)
                }
                None => router,
            };
            tasks.spawn(
                "diagnostics server",
                serve(
                    listener,
                    tls,
                    router,
                    DIAGNOSTICS_CONNECTIONS_MAX,
                    stops.servers.clone(),
                ),
            );
        }
        if let Some(webhooks) = self.webhooks.take() {
            let own = self.client.clone();
            let callers = self.webhooks_client.clone();
            webhooks.spawn(tasks, own, &callers, self.clock.clone(), &stops.servers);
        }
        if let Some(extension) = self.runtime_extension.take() {
            extension.spawn(tasks, self.client.clone(), self.clock.clone(), &stops.servers);
        }
        let reporter = Reporter {
            controller: REPORTING_CONTROLLER.to_owned(),
            instance: self.config.identity.clone(),
        };
        let (events, publish) = Events::new(
            self.fence.guard(self.client.clone()),
            reporter,
            self.clock.clone(),
            self.metrics.clone(),
            stops.servers.clone(),
        );
        tasks.spawn("event publisher", never_fails(publish));
        events
    }

    /// Starts the page, if it is switched on and there is a way to serve it.
    fn serve_page(&mut self, journal: &Router, tasks: &mut Tasks, stops: &Stops) {
        let Some((page, serve)) = self.page.take().zip(self.serve_page.take()) else {
            return;
        };
        let ListeningPage {
            listener,
            tls,
            management,
        } = page;
        let visitors = Visitors {
            // Those who sign in take no review from scrapers.
            reviews: Reviews::new(self.reviews_client.clone()),
            journal: journal.clone(),
            management,
        };
        let port = PagePort {
            listener,
            tls,
            visitors,
            clock: self.clock.clone(),
            stop: stops.servers.clone(),
        };
        tasks.spawn("page", serve(port));
    }

    /// Waits for leadership, does the leader's work, and returns on `shutdown`, or with the error of the first part
    /// that ends.
    async fn work(
        self,
        tasks: &mut Tasks,
        stops: &Stops,
        shutdown: &CancellationToken,
        events: Events,
    ) -> Result<(), RunError> {
        let Self {
            config,
            fence,
            clock,
            network,
            registry,
            metrics,
            ipam_metrics,
            hook_metrics,
            readiness,
            running_cloud,
            urgent,
            ..
        } = self;
        let client = fence.guard(self.client);
        let steps = fence.guard(self.steps_client);
        if let Some(lease) = config.lease.clone() {
            let client = self.lease_client;
            let clock = clock.clone();
            let metrics = metrics.clone();
            let stop = shutdown.clone();
            let acquired = async move { acquire(client, lease, clock, metrics, &stop).await };
            let acquired = AbortOnDropHandle::new(urgent.spawn(acquired));
            let leadership: Option<Leadership> = tokio::select! {
                leadership = acquired => leadership.expect("waiting for a lease does not panic"),
                ended = tasks.ended() => return Err(RunError::Task(ended.early())),
            };
            let Some(leadership) = leadership else {
                return Ok(());
            };
            close_gates(&readiness, config.roles);
            tasks.spawn_on(
                "leader election",
                leadership.hold(fence, stops.lease.clone()),
                &urgent,
            );
        }
        let services = Services {
            metrics,
            events,
            clock,
            readiness: readiness.clone(),
            resync: config.sync_period,
        };
        if config.roles.ipam {
            start_ipam(client.clone(), &config, &services, ipam_metrics, tasks, stops);
        }
        if config.roles.infrastructure {
            let cloud = start_cloud(network, &config, &services, &registry, tasks)?;
            let cloud = running_cloud.get_or_init(|| cloud).clone();
            start_infrastructure(
                [client, steps],
                &config,
                services,
                cloud,
                hook_metrics,
                tasks,
                stops,
            );
        }
        tokio::select! {
            () = shutdown.cancelled() => Ok(()),
            ended = tasks.ended() => Err(RunError::Task(ended.early())),
        }
    }
}

fn start_ipam(
    client: Client,
    config: &Config,
    services: &Services,
    ipam_metrics: nephele_ipam_controller::Metrics,
    tasks: &mut Tasks,
    stops: &Stops,
) {
    let settings = nephele_ipam_controller::Settings {
        watch_namespace: config.namespace.clone(),
        watch_filter: config.watch_filter.clone(),
        concurrency: config.claim_concurrency,
        reclaim_orphans: config.ipam_reclaim_orphans,
        overlap: config.ipam_overlap,
        seed: config.seed.clone(),
    };
    let controllers = nephele_ipam_controller::run(
        client,
        services.clone(),
        ipam_metrics,
        settings,
        stops.controllers.clone(),
    );
    tasks.spawn("IPAM controllers", controllers);
}

/// Starts the controllers of the cloud's objects and of Scenarios. The first client is for all but the steps of Scenarios, the
/// second one for these.
fn start_infrastructure(
    [client, steps]: [Client; 2],
    config: &Config,
    services: Services,
    cloud: Cloud,
    hook_metrics: nephele_runtime_sdk::client::Metrics,
    tasks: &mut Tasks,
    stops: &Stops,
) {
    let settings = nephele_infra_controller::Settings {
        watch_namespace: config.namespace.clone(),
        watch_filter: config.watch_filter.clone(),
        prepare_credentials: config.prepare_credentials,
        cluster_concurrency: config.cluster_concurrency,
        machine_concurrency: config.machine_concurrency,
    };
    let (hooks, ask) = nephele_machine_hooks::start(
        client.clone(),
        &services,
        &WatchFilter::new(config.watch_filter.as_deref()),
        hook_metrics,
        WarmUpSettings::default(),
        stops.controllers.clone(),
    );
    tasks.spawn("hooks of machines", ask);
    let hooks = Arc::new(hooks);
    let scenarios = nephele_scenario::Settings {
        watch_namespace: config.namespace.clone(),
        watch_filter: config.watch_filter.clone(),
        concurrency: config.cluster_concurrency,
        has_stand_in: config.has_stand_in,
    };
    let controller = nephele_scenario::run(
        client.clone(),
        steps,
        services.clone(),
        scenarios,
        stops.controllers.clone(),
    );
    tasks.spawn("scenario controller", controller);
    let controllers = nephele_infra_controller::run(
        client,
        cloud,
        hooks,
        services,
        settings,
        stops.controllers.clone(),
    );
    tasks.spawn("infrastructure controllers", controllers);
}

/// Starts the simulated cloud.
fn start_cloud(
    network: Network,
    config: &Config,
    services: &Services,
    registry: &Registry,
    tasks: &mut Tasks,
) -> Result<Cloud, RunError> {
    let cloud_config = CloudConfig {
        advertise_host: config.advertise_host.clone(),
        bind_address: config.bind_address,
        ports: config.workload_ports.clone(),
        moved_ports: config.moved_ports.clone(),
        clusters_max: config.clusters_max,
        seed: config.seed.clone(),
        connection_hold: config.connection_hold,
        state_directory: config.state_directory.clone(),
        machines_max: config.machines_max,
        cloud_spec: nephele_infra_controller::built_in_cloud(),
        clock: services.clock.clone(),
    };
    info!(seed = config.seed, ports = ?config.workload_ports, "Starting the simulated cloud");
    let (cloud, drive) = Cloud::start_on(network, cloud_config, registry).map_err(RunError::Cloud)?;
    tasks.spawn("cloud", never_fails(drive));
    if let Some(file) = config.journal.clone() {
        tasks.spawn(JOURNAL_TASK, never_fails(cloud.journal().keep(file)));
    }
    services.readiness.gate("cloud").open();
    Ok(cloud)
}

/// Tokens that stop the parts one after the other, so that no part stops while another part needs it.
#[derive(Default)]
struct Stops {
    controllers: CancellationToken,
    lease: CancellationToken,
    servers: CancellationToken,
}

/// Stops all parts in order. Reconciles that are still in flight after `patience` are aborted. The lease is released
/// only after all work has stopped, so that two replicas never work at the same time.
async fn drain(tasks: &mut Tasks, stops: &Stops, cloud: Option<Cloud>, fence: &Fence, patience: Duration) {
    let mut errors = Vec::new();
    stops.controllers.cancel();
    let finish = async {
        for task in CONTROLLER_TASKS {
            tasks.finish(task, &mut errors).await;
        }
    };
    if timeout(patience, finish).await.is_err() && !patience.is_zero() {
        warn!("Reconciles in flight did not finish in time");
    }
    // From here on, no request of the leader reaches the management API, even from a task that stops late.
    fence.close();
    let stopping = async {
        if let Some(cloud) = cloud
            && timeout(CLOUD_DRAIN_MAX, cloud.shutdown()).await.is_err()
        {
            warn!("Connections to workload clusters did not finish in time");
        }
    };
    let cutting = async {
        for task in CONTROLLER_TASKS {
            tasks.cut(task, &mut errors).await;
        }
    };
    // Both at the same time: they do not depend on each other any more.
    tokio::join!(stopping, cutting);
    tasks.finish(JOURNAL_TASK, &mut errors).await;
    stops.lease.cancel();
    tasks.finish("leader election", &mut errors).await;
    stops.servers.cancel();
    let servers = RUNTIME_EXTENSION_TASKS.into_iter().chain(WEBHOOK_TASKS);
    for task in servers.chain(["event publisher", "page", "diagnostics server", "health server"]) {
        tasks.finish(task, &mut errors).await;
    }
    for error in &errors {
        warn!(error = %nephele_controller::chain(error), "Failed while stopping");
    }
}

fn close_gates(readiness: &Readiness, roles: Roles) {
    if roles.infrastructure {
        for name in INFRASTRUCTURE_GATES {
            readiness.gate(name).close();
        }
    }
    if roles.ipam {
        readiness.gate(nephele_ipam_controller::GATE).close();
    }
}

fn listen(purpose: &'static str, address: Option<&ListenAddress>) -> Result<Option<TcpListener>, BuildError> {
    let Some(address) = address else { return Ok(None) };
    let bound = address.bind().map_err(|source| BuildError::Listen {
        purpose,
        address: address.clone(),
        source,
    });
    let listener = bound?;
    info!(%address, "Listening for {purpose}");
    Ok(Some(listener))
}

fn certificate(purpose: &'static str, config: &Config, clock: &Clock) -> Result<SelfSigned, BuildError> {
    self_signed(purpose, clock(), &config.tls).map_err(|source| BuildError::Certificate { purpose, source })
}

/// Listens for the page, if it is switched on, and there is an API server to which visitors can show their tokens.
fn page(
    config: &Config,
    management: Option<ForVisitors>,
    clock: &Clock,
) -> Result<Option<ListeningPage>, BuildError> {
    const PURPOSE: &str = "page";
    let Some(management) = management else {
        return Ok(None);
    };
    let Some(listener) = listen(PURPOSE, config.page.as_ref())? else {
        return Ok(None);
    };
    let SelfSigned { tls, fingerprint } = certificate(PURPOSE, config, clock)?;
    info!(fingerprint, "The page has a certificate of its own");
    Ok(Some(ListeningPage {
        listener,
        tls,
        management,
    }))
}

fn webhooks(
    config: &Config,
    registry: &Registry,
    readiness: &Readiness,
) -> Result<Option<Webhooks>, BuildError> {
    let Some(WebhookConfig {
        address,
        certificates,
    }) = &config.webhooks
    else {
        return Ok(None);
    };
    let Some(listener) = listen("webhooks", Some(address))? else {
        return Ok(None);
    };
    Webhooks::new(
        config.roles,
        listener,
        certificates.clone(),
        config.tls.clone(),
        registry,
        readiness,
    )
    .map(Some)
    .map_err(BuildError::Metrics)
}

fn runtime_extension(
    config: &Config,
    client: &Client,
    clock: &Clock,
    registry: &Registry,
    readiness: &Readiness,
) -> Result<Option<RuntimeExtension>, BuildError> {
    let Some(extension) = &config.runtime_extension else {
        return Ok(None);
    };
    let Some(listener) = listen("the runtime extension", Some(&extension.address))? else {
        return Ok(None);
    };
    let access = Access::new(client.clone(), config.namespace.clone());
    let tls = config.tls.clone();
    let clock = Clock::clone(clock);
    let extension = RuntimeExtension::new(listener, extension, tls, &access, clock, registry, readiness);
    extension.map(Some).map_err(BuildError::RuntimeExtension)
}

/// Metrics of the process: version, start time and resources.
fn describe_process(registry: &Registry) -> Result<(), prometheus::Error> {
    process_metrics::register(registry)?;
    let build = IntGaugeVec::new(
        Opts::new("nephele_build_info", "Always 1; the labels say what is running."),
        &["version", "revision"],
    )?;
    build
        .with_label_values(&[crate::version(), crate::revision()])
        .set(1);
    registry.register(Box::new(build))
}

async fn never_fails(future: impl Future<Output = ()> + Send) -> Result<(), Infallible> {
    future.await;
    Ok(())
}
