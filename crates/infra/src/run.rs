//! Caches, controllers, and which changes trigger which reconcilers.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::{FutureExt as _, Stream, StreamExt as _, future, future::BoxFuture, stream};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt as _};
use nephele_api::cloud::v1alpha1::{Fault, SimulatedCloud};
use nephele_api::core::{Cluster, Machine, MachinePool};
use nephele_api::infrastructure::v1beta2::pool_machine::POOL_NAME_LABEL;
use nephele_api::infrastructure::v1beta2::{
    InMemoryCluster, InMemoryMachine, InMemoryMachinePool, InMemoryMachinePoolTemplate,
    InMemoryMachineTemplate,
};
use nephele_api::labels;
use nephele_cloud::{Changed, Cloud, ClusterId};
use nephele_fault::is_of_addresses;
use nephele_kit::{
    Cache, Pace, Readiness, RunError, Runner, Services, WatchFilter, owner_of_kind, scoped, when_woken,
};
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::authorities::Ledger;
use crate::catalogs::{Catalogs, SeenClouds};
use crate::claims::{ClaimCache, Claimant, claimant};
use crate::context::{
    BOOTS_MAX, Context, Woken, cluster_of, infrastructure_of_cluster, infrastructure_of_machine,
    infrastructure_of_pool, labelled_cluster,
};
use crate::fault::{self, Faults};
use crate::hooks::MachineHooks;
use crate::known_machines::KnownMachines;
use crate::offer::{Offers, cloud_name};
use crate::reserve::Former;
use crate::secret::AuthoritySecret;
use crate::sweep::Scope;
use crate::template::{self, Template};
use crate::{catalogs, cluster, machine, machine_pool, simulated_cloud, sweep};

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
        let Settings {
            watch_namespace,
            watch_filter,
            prepare_credentials,
            cluster_concurrency,
            machine_concurrency,
        } = settings;
        let namespace = watch_namespace.as_deref();
        let filter = WatchFilter::new(watch_filter.as_deref());

        let everything = watcher::Config::default;
        let (clusters, follow_clusters) = Cache::<Cluster>::start(
            &services,
            scoped(client.clone(), namespace),
            everything(),
            shutdown.clone(),
        );
        let (machines, follow_machines) = Cache::<Machine>::start(
            &services,
            scoped(client.clone(), namespace),
            everything(),
            shutdown.clone(),
        );
        let (machine_pools, follow_machine_pools) = Cache::<MachinePool>::start(
            &services,
            scoped(client.clone(), namespace),
            everything(),
            shutdown.clone(),
        );
        let (pool_machines, follow_pool_machines) = Cache::<InMemoryMachine>::start(
            &services,
            scoped(client.clone(), namespace),
            everything().labels(POOL_NAME_LABEL),
            shutdown.clone(),
        );
        // By label and not by type: certificate authorities that users bring may have another Secret type.
        let of_clusters = everything().labels(labels::CLUSTER_NAME);
        let (secrets, follow_secrets) = Cache::<AuthoritySecret>::start(
            &services,
            scoped(client.clone(), namespace),
            of_clusters,
            shutdown.clone(),
        );
        // What leaked in the cloud of another manager takes no room and no port here.
        let (clouds, follow_clouds) = Cache::<SimulatedCloud>::start(
            &services,
            scoped(client.clone(), namespace),
            filter.watch_config(),
            shutdown.clone(),
        );
        let (faults, follow_faults) = Cache::<Fault>::start(
            &services,
            scoped(client.clone(), namespace),
            everything(),
            shutdown.clone(),
        );
        let of_claims = Services { readiness: Readiness::default(), ..services.clone() };
        let (claims, follow_claims) =
            ClaimCache::open(&of_claims, client.clone(), namespace, shutdown.clone());
        let context = Arc::new(Context {
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
            machines_woken: Woken::default(),
            known_machines: KnownMachines::default(),
            claims,
            clouds,
            offers: Offers::default(),
            backends_written: Pace::default(),
            machines_reserved: AtomicBool::new(false),
            catalogs: Catalogs::default(),
            faults: Faults::new(faults, filter.clone()),
            hooks,
            boots: Semaphore::new(BOOTS_MAX),
            prepare_credentials,
        });

        let runner = Runner::new(
            "inmemorycluster",
            &services,
            scoped(client.clone(), namespace),
            &filter,
            cluster_concurrency,
        );
        let scope = Scope { namespace: watch_namespace.clone(), filtered: filter != WatchFilter::default() };
        let sweep = future::join(
            sweep::clusters_without_cluster(Arc::clone(&context), runner.store()),
            sweep::clusters(Arc::clone(&context), scope.clone(), runner.store(), runner.gone()),
        );
        let sweep_clusters = when_woken(shutdown.clone().run_until_cancelled_owned(sweep));
        let runner = wake_clusters(runner, &context);
        let machine_runner = Runner::new(
            "inmemorymachine",
            &services,
            scoped(client.clone(), namespace),
            &filter,
            machine_concurrency,
        );
        let former = Arc::new(Former::new(runner.store(), machine_runner.store(), scope.filtered));
        let (clusters_listed, machines_listed) = (runner.listed(), machine_runner.listed());
        let (for_clusters, ports) = (Arc::clone(&context), Arc::clone(&former));
        let reconcile = move |object| {
            // By now the store has the whole first list.
            ports.reserve_endpoints(&for_clusters);
            fault::put_all(&for_clusters);
            catalogs::tell_all(&for_clusters);
            cluster::reconcile(object, Arc::clone(&for_clusters))
        };
        let run_clusters =
            runner.run(reconcile, shutdown.clone()).map(|result| result.map_err(Error::Cluster));

        let runner = machine_runner;
        let sweep = sweep::machines(Arc::clone(&context), scope, runner.store(), runner.gone());
        let sweep_machines = when_woken(shutdown.clone().run_until_cancelled_owned(sweep));
        let runner = wake_machines(runner, &context);
        let (for_machines, had) = (Arc::clone(&context), Arc::clone(&former));
        let reconcile = move |object| {
            had.reserve_machines(&for_machines);
            fault::put_all(&for_machines);
            catalogs::tell_all(&for_machines);
            machine::reconcile(object, Arc::clone(&for_machines))
        };
        let run_machines =
            runner.run(reconcile, shutdown.clone()).map(|result| result.map_err(Error::Machine));

        let runner = Runner::new(
            "inmemorymachinepool",
            &services,
            scoped(client.clone(), namespace),
            &filter,
            cluster_concurrency,
        );
        let runner = wake_machine_pools(runner, &context);
        let for_pools = Arc::clone(&context);
        let run_machine_pools = runner
            .run(move |object| machine_pool::reconcile(object, Arc::clone(&for_pools)), shutdown.clone())
            .map(|result| result.map_err(Error::MachinePool));

        let followed = Followed {
            services: &services,
            client: &client,
            namespace,
            filter: &filter,
            concurrency: cluster_concurrency,
            context: &context,
        };
        let run_templates = future::try_join(
            run_templates::<InMemoryMachineTemplate>("inmemorymachinetemplate", &followed, shutdown.clone()),
            run_templates::<InMemoryMachinePoolTemplate>(
                "inmemorymachinepooltemplate",
                &followed,
                shutdown.clone(),
            ),
        );
        let runner = Runner::new(
            "simulatedcloud",
            &services,
            scoped(client.clone(), namespace),
            &filter,
            cluster_concurrency,
        );
        let gone = catalogs::forget(Arc::clone(&context), runner.gone());
        let forget_clouds = when_woken(shutdown.clone().run_until_cancelled_owned(gone));
        let runner = wake_clouds(runner, &context).follows(clusters_listed).follows(machines_listed);
        let for_clouds = Arc::clone(&context);
        let reconcile = move |object| {
            // Until then a cloud counts too little.
            former.reserve_endpoints(&for_clouds);
            former.reserve_machines(&for_clouds);
            simulated_cloud::reconcile(object, Arc::clone(&for_clouds))
        };
        let run_clouds =
            runner.run(reconcile, shutdown.clone()).map(|result| result.map_err(Error::SimulatedCloud));
        let runner =
            Runner::new("fault", &services, scoped(client.clone(), namespace), &filter, cluster_concurrency);
        let gone = fault::forget(Arc::clone(&context), runner.store(), runner.gone());
        let forget_faults = when_woken(shutdown.clone().run_until_cancelled_owned(gone));
        let runner = wake_faults(runner, &context);
        let for_faults = Arc::clone(&context);
        let run_faults = runner
            .run(move |object| fault::reconcile(object, Arc::clone(&for_faults)), shutdown.clone())
            .map(|result| result.map_err(Error::Fault));
        let run_cluster_faults = run_cluster_faults(&followed, shutdown);

        let follow =
            future::join5(follow_clusters, follow_machines, follow_secrets, follow_claims, follow_clouds);
        let follow = future::join4(follow, follow_machine_pools, follow_pool_machines, follow_faults);
        let forget = future::join(forget_faults, forget_clouds);
        let follow = future::join4(follow, sweep_clusters, sweep_machines, forget).map(|_| Ok(()));
        let run = future::try_join4(run_clusters, run_machines, run_machine_pools, follow);
        let run = future::try_join4(run, run_templates, run_clouds, run_faults);
        future::try_join(run, run_cluster_faults).await.map(drop)
    })
}

/// The arguments that several controllers share.
struct Followed<'a> {
    services: &'a Services,
    client: &'a Client,
    namespace: Option<&'a str>,
    filter: &'a WatchFilter,
    concurrency: NonZeroU16,
    context: &'a Arc<Context>,
}

/// Makes the Faults of ClusterFaults, except those of addresses. Not in a manager of one namespace, which sees no others.
fn run_cluster_faults(
    followed: &Followed<'_>,
    shutdown: CancellationToken,
) -> BoxFuture<'static, Result<(), Error>> {
    let Followed { services, client, namespace, filter, concurrency, context } = *followed;
    if namespace.is_some() {
        return future::ready(Ok(())).boxed();
    }
    let settings = nephele_fault::cluster::Settings {
        name: "clusterfault",
        watch_filter: filter.clone(),
        carries_out: |spec| !is_of_addresses(spec),
        concurrency,
    };
    let faults = context.faults.cache();
    let run = nephele_fault::cluster::run(client.clone(), services, faults, settings, shutdown);
    run.map(|result| result.map_err(Error::ClusterFault)).boxed()
}

/// Reconciles a template when its Cluster or the SimulatedCloud of its Cluster changes. A template without a Cluster is
/// reconciled when a SimulatedCloud of its namespace changes.
fn run_templates<K: Template>(
    name: &'static str,
    followed: &Followed<'_>,
    shutdown: CancellationToken,
) -> impl Future<Output = Result<(), Error>> + Send + 'static {
    let Followed { services, client, namespace, filter, concurrency, context } = *followed;
    let runner: Runner<K> =
        Runner::new(name, services, scoped(client.clone(), namespace), filter, concurrency);
    let of_cluster = |store: &Store<K>, id: &ClusterId| -> Vec<ObjectRef<K>> {
        let objects = store.state();
        let objects = objects.iter().filter(|object| cluster_of(object.meta()).as_ref() == Some(id));
        objects.map(|object| ObjectRef::from_obj(&**object)).collect()
    };
    let (of_clusters, of_clouds, store) = (runner.store(), runner.store(), runner.store());
    let woken = context.machines_woken.listen().flat_map(move |changed| {
        stream::iter(match changed {
            Changed::Cluster(id) => of_cluster(&store, &id),
            Changed::Namespace(namespace) => all_of(&store, &namespace),
            Changed::Backends(_) | Changed::Machine(_) | Changed::Fault(_) | Changed::Usage(_) => Vec::new(),
            Changed::Everything => all(&store),
        })
    });
    let context = Arc::clone(context);
    let (seen, clouds) = (SeenClouds::default(), context.clouds.clone());
    runner
        .watches(&context.clusters, move |cluster: &Cluster| {
            let namespace = cluster.namespace().unwrap_or_default();
            of_cluster(&of_clusters, &ClusterId { namespace, name: cluster.name_any() })
        })
        .watches(&context.clouds, move |cloud: &SimulatedCloud| {
            let objects = if seen.is_news(&clouds, cloud) { of_clouds.state() } else { Vec::new() };
            let objects = objects.iter().filter(|object| {
                object.namespace() == cloud.namespace() && cluster_of(object.meta()).is_none()
            });
            objects.map(|object| ObjectRef::from_obj(&**object)).collect::<Vec<_>>()
        })
        .reconcile_on(woken)
        .run(move |object| template::reconcile(object, Arc::clone(&context)), shutdown)
        .map(|result| result.map_err(Error::Template))
}

/// Reconciles an InMemoryCluster when its Cluster, its SimulatedCloud, its authorities, its claim or the simulated
/// cluster changes.
fn wake_clusters(runner: Runner<InMemoryCluster>, context: &Arc<Context>) -> Runner<InMemoryCluster> {
    let of = |context: &Arc<Context>| {
        let clusters = context.clusters.clone();
        move |id: &ClusterId| infrastructure_of_cluster(&*clusters.get(&id.namespace, &id.name)?)
    };
    let (of_secret, of_change, store) = (of(context), of(context), runner.store());
    let changed = context.cloud.changes().flat_map(move |changed| {
        stream::iter(match changed {
            Changed::Cluster(id) | Changed::Backends(id) => of_change(&id).into_iter().collect(),
            Changed::Namespace(namespace) => all_of(&store, &namespace),
            Changed::Machine(_) | Changed::Fault(_) | Changed::Usage(_) => Vec::new(),
            Changed::Everything => all(&store),
        })
    });
    let of_cloud = runner.store();
    let (seen, clouds) = (SeenClouds::default(), context.clouds.clone());
    runner
        .watches(&context.clusters, infrastructure_of_cluster)
        .watches(&context.clouds, move |cloud| {
            let (namespace, name) = (cloud.namespace(), cloud.name_any());
            let lies_in =
                |object: &InMemoryCluster| object.namespace() == namespace && cloud_name(object) == name;
            let objects = if seen.is_news(&clouds, cloud) { of_cloud.state() } else { Vec::new() };
            let objects = objects.iter().filter(|object| lies_in(object));
            objects.map(|object| ObjectRef::from_obj(&**object)).collect::<Vec<_>>()
        })
        .watches(&context.secrets, move |secret| {
            let named = AuthoritySecret::is_named_so(&secret.name_any());
            labelled_cluster(secret.meta()).filter(|_| named).and_then(|id| of_secret(&id))
        })
        .reads(context.faults.cache())
        .reconcile_on(changed)
        .reconcile_on(claimants(context))
}

/// The owners of claims that were created, changed or deleted.
fn claimants<K: Claimant + 'static>(
    context: &Arc<Context>,
) -> impl Stream<Item = ObjectRef<K>> + Send + 'static {
    context.claims.cache().touched().filter_map(|claim| future::ready(claimant(&claim.metadata)))
}

/// Reconciles a SimulatedCloud when something in its namespace takes up or gives back room, or waits for it.
fn wake_clouds(runner: Runner<SimulatedCloud>, context: &Arc<Context>) -> Runner<SimulatedCloud> {
    let store = runner.store();
    let changed = context.cloud.changes().flat_map(move |changed| {
        stream::iter(match changed {
            Changed::Usage(namespace) | Changed::Namespace(namespace) => all_of(&store, &namespace),
            Changed::Cluster(_) | Changed::Backends(_) | Changed::Machine(_) | Changed::Fault(_) => {
                Vec::new()
            }
            Changed::Everything => all(&store),
        })
    });
    runner.reads(&context.clusters).reads(&context.machines).reconcile_on(changed)
}

/// Reconciles a Fault when it has hit something, when it may have spared a new machine, and when its time is over.
fn wake_faults(runner: Runner<Fault>, context: &Arc<Context>) -> Runner<Fault> {
    let store = runner.store();
    let changed = context.cloud.changes().flat_map(move |changed| {
        stream::iter(match changed {
            Changed::Fault(id) => vec![ObjectRef::new(&id.name).within(&id.namespace)],
            Changed::Usage(namespace) => {
                let objects = store.state();
                let of_namespace = |object: &&Arc<Fault>| object.namespace().as_ref() == Some(&namespace);
                let may_spare = objects.iter().filter(of_namespace).filter(|object| fault::may_spare(object));
                may_spare.map(|object| ObjectRef::from_obj(&**object)).collect()
            }
            Changed::Cluster(_) | Changed::Backends(_) | Changed::Machine(_) => Vec::new(),
            Changed::Namespace(namespace) => all_of(&store, &namespace),
            Changed::Everything => all(&store),
        })
    });
    runner.reads(context.faults.cache()).reconcile_on(changed)
}

/// Reconciles an InMemoryMachine when its Machine, its Cluster, its claims, the simulated machine or the simulated
/// cluster changes. A machine that waits for an extension is also reconciled when the registered extensions change.
fn wake_machines(runner: Runner<InMemoryMachine>, context: &Arc<Context>) -> Runner<InMemoryMachine> {
    let of = |context: &Arc<Context>| MachinesOf { context: Arc::clone(context), store: runner.store() };
    let (of_cluster, of_change, of_wake) = (of(context), of(context), of(context));
    let asking = machine::waiting(context.hooks.changes(), runner.store());
    runner
        .watches(&context.machines, infrastructure_of_machine)
        .watches(&context.clusters, move |cluster: &Cluster| {
            let namespace = cluster.namespace().unwrap_or_default();
            of_cluster.cluster(&ClusterId { namespace, name: cluster.name_any() })
        })
        .reads(context.faults.cache())
        .reads(&context.clouds)
        .reconcile_on(machines_changed(context.cloud.changes(), of_change))
        .reconcile_on(machines_changed(context.machines_woken.listen(), of_wake))
        .reconcile_on(asking)
        .reconcile_on(claimants(context))
}

/// Reconciles an InMemoryMachinePool when its MachinePool, its Cluster, the SimulatedCloud of its Cluster, one of its
/// InMemoryMachines or one of their Machines changes.
fn wake_machine_pools(
    runner: Runner<InMemoryMachinePool>,
    context: &Arc<Context>,
) -> Runner<InMemoryMachinePool> {
    let pools = context.machine_pools.store().clone();
    let of_pool = |name: &str, namespace: &str, pools: &Store<MachinePool>| {
        pools.get(&ObjectRef::new(name).within(namespace)).and_then(|pool| infrastructure_of_pool(&pool))
    };
    let (of_machines, of_offers, store) = (pools.clone(), pools.clone(), runner.store());
    let of_cluster = |pools: &Store<MachinePool>, id: &ClusterId| -> Vec<ObjectRef<InMemoryMachinePool>> {
        let ours = |pool: &MachinePool| {
            pool.metadata.namespace.as_ref() == Some(&id.namespace) && pool.spec.cluster_name == id.name
        };
        let pools = pools.state();
        let pools = pools.iter().filter(|pool| ours(pool));
        pools.filter_map(|pool| infrastructure_of_pool(pool)).collect()
    };
    let woken = context.machines_woken.listen().flat_map(move |changed| {
        stream::iter(match changed {
            Changed::Cluster(id) => of_cluster(&of_offers, &id),
            Changed::Namespace(namespace) => all_of(&store, &namespace),
            Changed::Backends(_) | Changed::Machine(_) | Changed::Fault(_) | Changed::Usage(_) => Vec::new(),
            Changed::Everything => all(&store),
        })
    });
    runner
        .watches(&context.machine_pools, infrastructure_of_pool)
        .watches(&context.clusters, move |cluster: &Cluster| {
            let namespace = cluster.namespace().unwrap_or_default();
            of_cluster(&pools, &ClusterId { namespace, name: cluster.name_any() })
        })
        .reconcile_on(woken)
        .watches(&context.pool_machines, |machine: &InMemoryMachine| {
            let name = machine_pool::pool_of(&machine.metadata)?;
            Some(ObjectRef::new(name).within(machine.metadata.namespace.as_deref()?))
        })
        .watches(&context.machines, move |machine: &Machine| {
            let owner = owner_of_kind(&machine.metadata, nephele_api::core::GROUP, "MachinePool")?;
            of_pool(&owner.name, machine.metadata.namespace.as_deref()?, &of_machines)
        })
}

fn machines_changed(
    changes: impl Stream<Item = Changed> + Send + 'static,
    machines: MachinesOf,
) -> impl Stream<Item = ObjectRef<InMemoryMachine>> + Send + 'static {
    changes.flat_map(move |changed| {
        stream::iter(match changed {
            Changed::Machine(id) => vec![ObjectRef::new(&id.name).within(&id.cluster.namespace)],
            Changed::Cluster(id) => machines.cluster(&id),
            Changed::Namespace(namespace) => machines.namespace(&namespace),
            Changed::Backends(_) | Changed::Fault(_) | Changed::Usage(_) => Vec::new(),
            Changed::Everything => all(&machines.store),
        })
    })
}

/// Finds the InMemoryMachines of a cluster in the store.
struct MachinesOf {
    context: Arc<Context>,
    store: Store<InMemoryMachine>,
}

impl MachinesOf {
    fn cluster(&self, id: &ClusterId) -> Vec<ObjectRef<InMemoryMachine>> {
        let reference = |name: &str| ObjectRef::new(name).within(&id.namespace);
        let machines = self.context.known_machines.of(id, |name| self.store.get(&reference(name)).is_some());
        machines.iter().map(|name| reference(name)).collect()
    }

    fn namespace(&self, namespace: &str) -> Vec<ObjectRef<InMemoryMachine>> {
        let machines = self.context.known_machines.in_namespace(namespace);
        machines.iter().map(|name| ObjectRef::new(name).within(namespace)).collect()
    }
}

fn all<K>(store: &Store<K>) -> Vec<ObjectRef<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store.state().iter().map(|object| ObjectRef::from_obj(&**object)).collect()
}

fn all_of<K>(store: &Store<K>, namespace: &str) -> Vec<ObjectRef<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let objects = store.state();
    let objects = objects.iter().filter(|object| object.meta().namespace.as_deref() == Some(namespace));
    objects.map(|object| ObjectRef::from_obj(&**object)).collect()
}
