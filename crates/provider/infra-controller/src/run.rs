//! The controllers: what each of them watches, needs and does.

mod start_up;
mod wake;

use std::{
    num::NonZeroU16,
    sync::{Arc, atomic::AtomicBool},
};

use futures::{FutureExt as _, Stream, future, future::BoxFuture};
use kube::{
    Api, Client, Resource,
    core::NamespaceResourceScope,
    runtime::{reflector::Store, watcher},
};
use nephele_api::{
    cloud::v1alpha1::{Fault, SimulatedCloud},
    core::{Cluster, Machine, MachinePool},
    infrastructure::v1beta2::{
        InMemoryCluster, InMemoryMachine, InMemoryMachinePool, InMemoryMachinePoolTemplate,
        InMemoryMachineTemplate, pool_machine::POOL_NAME_LABEL,
    },
    labels,
};
use nephele_cloud::Cloud;
use nephele_controller::{
    Cache, Gone, Kind, Outcome, Readiness, ReconcileError, RunError, Runner, Services, StatusThrottle,
    WatchFilter, own_task, scoped,
};
use nephele_fault::is_of_addresses;
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::start_up::{StartUp, Step};
use crate::{
    authorities::Ledger,
    claims::ClaimCache,
    clouds::Clouds,
    cluster,
    context::{BOOTS_MAX, Context, Triggers},
    fault::Faults,
    garbage_collection,
    garbage_collection::Scope,
    machine,
    machine_hooks::MachineHooks,
    machine_index::MachineIndex,
    machine_pool,
    resolved_cloud::ResolvedClouds,
    secret::AuthoritySecret,
    simulated_cloud, template,
};

/// Which objects the controllers reconcile, and how many at a time.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace to watch; none means all namespaces.
    pub watch_namespace: Option<String>,
    /// The value of the label `cluster.x-k8s.io/watch-filter` that an object must have; none means all objects.
    pub watch_filter: Option<String>,
    /// Whether to create a new cluster's credentials before its control plane provider does, so that Cluster API
    /// connects at its first attempt.
    pub prepare_credentials: bool,
    /// How many clusters are reconciled at a time. The same number holds for machine pools, templates,
    /// SimulatedClouds, Faults and ClusterFaults.
    pub cluster_concurrency: NonZeroU16,
    /// How many machines are reconciled at a time.
    pub machine_concurrency: NonZeroU16,
}

/// Why the controllers stopped.
#[derive(Debug, Error)]
pub enum Error {
    /// The cluster controller ended.
    #[error("failed to keep the cluster controller running")]
    Cluster(#[source] RunError),
    /// The machine controller ended.
    #[error("failed to keep the machine controller running")]
    Machine(#[source] RunError),
    /// The machine pool controller ended.
    #[error("failed to keep the machine pool controller running")]
    MachinePool(#[source] RunError),
    /// A controller of templates ended.
    #[error("failed to keep the controllers of templates running")]
    Template(#[source] RunError),
    /// The controller of clouds ended.
    #[error("failed to keep the cloud controller running")]
    SimulatedCloud(#[source] RunError),
    /// The controller of faults ended.
    #[error("failed to keep the fault controller running")]
    Fault(#[source] RunError),
    /// The controller of cluster faults ended.
    #[error("failed to keep the cluster fault controller running")]
    ClusterFault(#[source] RunError),
}

/// Runs all controllers until `shutdown`.
///
/// The future is boxed so that this crate generates its code, once, and not every crate that awaits it.
///
/// # Errors
/// When a controller ends before `shutdown`.
pub fn run(
    client: Client,
    cloud: Cloud,
    hooks: Arc<dyn MachineHooks>,
    services: Services,
    settings: Settings,
    shutdown: CancellationToken,
) -> BoxFuture<'static, Result<(), Error>> {
    Box::pin(async move {
        let filter = WatchFilter::new(settings.watch_filter.as_deref());
        let caches = Caches {
            client: &client,
            services: &services,
            namespace: settings.watch_namespace.as_deref(),
            filter: &filter,
            shutdown: &shutdown,
            following: Vec::new(),
        };
        let (context, follow) = caches.start(cloud, hooks, settings.prepare_credentials);
        let manager = Manager {
            client,
            services,
            settings,
            filter,
            context: Arc::new(context),
            shutdown,
        };
        let runners = Runners::new(&manager);
        let start_up = manager.start_up(&runners);
        let follow = future::join(follow, manager.sweeps(&runners))
            .map(|_| Ok(()))
            .boxed();
        let mut running = runners.controllers(&manager, &start_up);
        running.extend([manager.cluster_faults(), follow]);
        future::try_join_all(running).await.map(drop)
    })
}

/// Where caches come from, and what keeps those up to date that were started.
struct Caches<'a> {
    client: &'a Client,
    services: &'a Services,
    namespace: Option<&'a str>,
    filter: &'a WatchFilter,
    shutdown: &'a CancellationToken,
    following: Vec<BoxFuture<'static, ()>>,
}

impl Caches<'_> {
    /// What all reconcilers share, and the future that keeps its caches up to date.
    fn start(
        mut self,
        cloud: Cloud,
        hooks: Arc<dyn MachineHooks>,
        prepare_credentials: bool,
    ) -> (Context, BoxFuture<'static, ()>) {
        let services = self.services;
        let shutdown = self.shutdown;
        let everything = watcher::Config::default;
        let clusters = Cache::<Cluster>::start(services, self.api(), everything(), shutdown.clone());
        let clusters = self.follow(clusters);
        let machines = Cache::<Machine>::start(services, self.api(), everything(), shutdown.clone());
        let machines = self.follow(machines);
        // By label and not by type: certificate authorities that users bring may have another Secret type.
        let of_clusters = everything().labels(labels::CLUSTER_NAME);
        let secrets = Cache::<AuthoritySecret>::start(services, self.api(), of_clusters, shutdown.clone());
        let secrets = self.follow(secrets);
        // The manager is ready without it: it is followed from the first claim on.
        let of_claims = Services {
            readiness: Readiness::default(),
            ..services.clone()
        };
        let claims = ClaimCache::open(&of_claims, self.client.clone(), self.namespace, shutdown.clone());
        let claims = self.follow(claims);
        // What leaked in the cloud of another manager takes no room and no port here.
        let filtered = self.filter.watch_config();
        let clouds = Clouds::start(cloud.clone(), services, self.api(), filtered, shutdown.clone());
        let clouds = self.follow(clouds);
        let machine_pools = Cache::<MachinePool>::start(services, self.api(), everything(), shutdown.clone());
        let machine_pools = self.follow(machine_pools);
        let of_pools = everything().labels(POOL_NAME_LABEL);
        let pool_machines = Cache::<InMemoryMachine>::start(services, self.api(), of_pools, shutdown.clone());
        let pool_machines = self.follow(pool_machines);
        let faults = Cache::<Fault>::start(services, self.api(), everything(), shutdown.clone());
        let faults = self.follow(faults);
        let Self {
            client,
            filter,
            following,
            ..
        } = self;
        let faults = Faults::new(faults, filter.clone(), cloud.clone(), client.clone(), services);
        let context = Context {
            client: client.clone(),
            cloud,
            clock: services.clock.clone(),
            events: services.events.clone(),
            clusters,
            machines,
            machine_pools,
            pool_machines,
            secrets,
            authorities: Ledger::default(),
            machine_triggers: Triggers::default(),
            machine_index: MachineIndex::default(),
            claims,
            clouds,
            resolved_clouds: ResolvedClouds::default(),
            backends_written: StatusThrottle::default(),
            machines_reserved: AtomicBool::new(false),
            faults,
            hooks,
            boots: Semaphore::new(BOOTS_MAX),
            prepare_credentials,
        };
        (context, future::join_all(following).map(drop).boxed())
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        scoped(self.client.clone(), self.namespace)
    }

    /// Keeps a cache up to date.
    fn follow<C>(&mut self, (cache, follow): (C, impl Future<Output = ()> + Send + 'static)) -> C {
        self.following.push(follow.boxed());
        cache
    }
}

/// What all controllers share.
struct Manager {
    client: Client,
    services: Services,
    settings: Settings,
    filter: WatchFilter,
    context: Arc<Context>,
    shutdown: CancellationToken,
}

/// The watches of our own kinds.
struct Runners {
    clusters: Runner<InMemoryCluster>,
    machines: Runner<InMemoryMachine>,
    machine_pools: Runner<InMemoryMachinePool>,
    machine_templates: Runner<InMemoryMachineTemplate>,
    pool_templates: Runner<InMemoryMachinePoolTemplate>,
    clouds: Runner<SimulatedCloud>,
    faults: Runner<Fault>,
}

/// A controller that runs until its end.
type Running = BoxFuture<'static, Result<(), Error>>;

/// One controller, of the objects that its runner watches.
struct Controller<K, Reconcile>
where
    K: Kind,
{
    runner: Runner<K>,
    /// What the cloud has to know before its first object is reconciled.
    needs: &'static [Step],
    /// Adds the changes of other objects that trigger a reconcile, and the caches that have to be ready.
    wakes: fn(Runner<K>, &Arc<Context>) -> Runner<K>,
    reconcile: Reconcile,
    failed: fn(RunError) -> Error,
}

impl Runners {
    fn new(manager: &Manager) -> Self {
        let Settings {
            cluster_concurrency,
            machine_concurrency,
            ..
        } = manager.settings;
        Self {
            clusters: manager.runner("inmemorycluster", cluster_concurrency),
            machines: manager.runner("inmemorymachine", machine_concurrency),
            clouds: manager.runner("simulatedcloud", cluster_concurrency),
            machine_pools: manager.runner("inmemorymachinepool", cluster_concurrency),
            machine_templates: manager.runner("inmemorymachinetemplate", cluster_concurrency),
            pool_templates: manager.runner("inmemorymachinepooltemplate", cluster_concurrency),
            faults: manager.runner("fault", cluster_concurrency),
        }
    }

    /// The controllers of our kinds.
    fn controllers(self, manager: &Manager, start_up: &Arc<StartUp>) -> Vec<Running> {
        vec![
            Controller {
                runner: self.clusters,
                needs: start_up::CLUSTERS,
                wakes: wake::clusters,
                reconcile: cluster::reconcile,
                failed: Error::Cluster,
            }
            .start(manager, start_up),
            Controller {
                runner: self.machines,
                needs: start_up::MACHINES,
                wakes: wake::machines,
                reconcile: machine::reconcile,
                failed: Error::Machine,
            }
            .start(manager, start_up),
            Controller {
                runner: self.machine_pools,
                needs: start_up::NOTHING,
                wakes: wake::machine_pools,
                reconcile: machine_pool::reconcile,
                failed: Error::MachinePool,
            }
            .start(manager, start_up),
            Controller {
                runner: self.machine_templates,
                needs: start_up::NOTHING,
                wakes: wake::templates,
                reconcile: template::reconcile,
                failed: Error::Template,
            }
            .start(manager, start_up),
            Controller {
                runner: self.pool_templates,
                needs: start_up::NOTHING,
                wakes: wake::templates,
                reconcile: template::reconcile,
                failed: Error::Template,
            }
            .start(manager, start_up),
            Controller {
                runner: self.clouds,
                needs: start_up::CLOUDS,
                wakes: wake::clouds,
                reconcile: simulated_cloud::reconcile,
                failed: Error::SimulatedCloud,
            }
            .start(manager, start_up),
            Controller {
                runner: self.faults,
                needs: start_up::NOTHING,
                wakes: wake::faults,
                reconcile: reconcile_fault,
                failed: Error::Fault,
            }
            .start(manager, start_up),
        ]
    }
}

async fn reconcile_fault(object: Arc<Fault>, context: Arc<Context>) -> Result<Outcome, nephele_fault::Error> {
    context.faults.reconcile(&object).await
}

async fn forget_faults(context: Arc<Context>, store: Store<Fault>, gone: impl Stream<Item = Gone<Fault>>) {
    context.faults.forget(store, gone).await;
}

impl<K: Kind, Reconcile> Controller<K, Reconcile> {
    fn start<Reconciled, Failed>(self, manager: &Manager, start_up: &Arc<StartUp>) -> Running
    where
        Reconcile: Fn(Arc<K>, Arc<Context>) -> Reconciled + Send + Sync + 'static,
        Reconciled: Future<Output = Result<Outcome, Failed>> + Send + 'static,
        Failed: ReconcileError,
    {
        let Self {
            runner,
            needs,
            wakes,
            reconcile,
            failed,
        } = self;
        let runner = start_up.waited_for(needs, wakes(runner, &manager.context));
        let context = Arc::clone(&manager.context);
        let start_up = Arc::clone(start_up);
        let reconcile = move |object| {
            start_up.take(needs);
            reconcile(object, Arc::clone(&context))
        };
        runner
            .run(reconcile, manager.shutdown.clone())
            .map(move |result| result.map_err(failed))
            .boxed()
    }
}

impl Manager {
    /// Makes the Faults of ClusterFaults, except those of addresses. Not in a manager of one namespace, which sees no others.
    fn cluster_faults(&self) -> Running {
        if self.settings.watch_namespace.is_some() {
            return future::ready(Ok(())).boxed();
        }
        let settings = nephele_fault::cluster::Settings {
            name: "clusterfault",
            watch_filter: self.filter.clone(),
            carries_out: |spec| !is_of_addresses(spec),
            concurrency: self.settings.cluster_concurrency,
        };
        let faults = self.context.faults.cache();
        let shutdown = self.shutdown.clone();
        let run =
            nephele_fault::cluster::run(self.client.clone(), &self.services, faults, settings, shutdown);
        run.map(|result| result.map_err(Error::ClusterFault)).boxed()
    }

    /// Removes from the cloud what has no object any more.
    fn sweeps(&self, runners: &Runners) -> BoxFuture<'static, ()> {
        let Runners {
            clusters,
            machines,
            faults,
            ..
        } = runners;
        let context = || Arc::clone(&self.context);
        let scope = self.scope();
        let without_cluster = garbage_collection::clusters_without_cluster(context(), clusters.store());
        let of_clusters =
            garbage_collection::clusters(context(), scope.clone(), clusters.by_namespace(), clusters.gone());
        let of_machines =
            garbage_collection::machines(context(), scope, machines.by_namespace(), machines.gone());
        let of_faults = forget_faults(context(), faults.store(), faults.gone());
        let until_shutdown = |task, sweep: BoxFuture<'static, ()>| {
            let shutdown = self.shutdown.clone();
            own_task(task, shutdown.run_until_cancelled_owned(sweep).map(drop))
        };
        let sweeps = [
            until_shutdown("sweep of clusters without Cluster", without_cluster.boxed()),
            until_shutdown("sweep of clusters", of_clusters.boxed()),
            until_shutdown("sweep of machines", of_machines.boxed()),
            until_shutdown("sweep of faults", of_faults.boxed()),
        ];
        future::join_all(sweeps).map(drop).boxed()
    }

    fn start_up(&self, runners: &Runners) -> Arc<StartUp> {
        let Runners {
            clusters, machines, ..
        } = runners;
        let context = Arc::clone(&self.context);
        Arc::new(StartUp::new(context, clusters, machines, self.scope().filtered))
    }

    fn scope(&self) -> Scope {
        let filtered = self.filter != WatchFilter::default();
        Scope {
            namespace: self.settings.watch_namespace.clone(),
            filtered,
        }
    }

    fn runner<K>(&self, name: &'static str, concurrency: NonZeroU16) -> Runner<K>
    where
        K: Kind + Resource<Scope = NamespaceResourceScope>,
    {
        let api = scoped(self.client.clone(), self.settings.watch_namespace.as_deref());
        Runner::new(name, &self.services, api, &self.filter, concurrency)
    }
}
