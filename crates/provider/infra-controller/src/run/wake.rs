//! Which changes trigger which reconcilers.

use std::sync::Arc;

use futures::{Stream, StreamExt as _, future, stream};
use kube::{
    Resource, ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};
use nephele_api::{
    cloud::{
        DEFAULT_NAME,
        v1alpha1::{Fault, SimulatedCloud},
    },
    core::{Cluster, Machine, MachinePool},
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine, InMemoryMachinePool},
};
use nephele_cloud::Changed;
use nephele_controller::{ByNamespace, Runner, owner_of_kind};
use nephele_model::ClusterId;

use crate::{
    claims::{Claimant, claimant},
    clouds,
    context::{
        Context, cluster_of, infrastructure_of_cluster, infrastructure_of_machine, infrastructure_of_pool,
        labelled_cluster,
    },
    fault, machine, machine_pool,
    resolved_cloud::cloud_name,
    secret::AuthoritySecret,
    template::Template,
};

/// Reconciles an InMemoryCluster when its Cluster, its SimulatedCloud, its authorities, its claim or the simulated
/// cluster changes.
pub(super) fn clusters(runner: Runner<InMemoryCluster>, context: &Arc<Context>) -> Runner<InMemoryCluster> {
    let of = |context: &Arc<Context>| {
        let clusters = context.clusters.clone();
        move |id: &ClusterId| infrastructure_of_cluster(&*clusters.get(&id.namespace, &id.name)?)
    };
    let of_secret = of(context);
    let of_change = of(context);
    let store = runner.store();
    let by_namespace = runner.by_namespace();
    let changed = context.cloud.changes().flat_map(move |changed| {
        stream::iter(match changed {
            Changed::Cluster(id) | Changed::Backends(id) => of_change(&id).into_iter().collect(),
            Changed::Namespace(namespace) => by_namespace.refs_of(&namespace),
            Changed::Machine(_) | Changed::Fault(_) | Changed::Usage(_) => Vec::new(),
            Changed::Everything => all(&store),
        })
    });
    let of_clouds = runner.store();
    let near_clouds = runner.by_namespace();
    let in_cloud = context.clouds.changes().flat_map(move |changed| {
        stream::iter(match changed {
            clouds::Change::This((namespace, name)) => {
                let objects = near_clouds.of(&namespace);
                let lying_in = objects.iter().filter(|object| cloud_name(object) == name);
                lying_in.map(|object| ObjectRef::from_obj(&**object)).collect()
            }
            clouds::Change::Any => all(&of_clouds),
        })
    });
    runner
        .watches(&context.clusters, infrastructure_of_cluster)
        .reads(context.clouds.cache())
        .reconcile_on(in_cloud)
        .watches(&context.secrets, move |secret| {
            let named = AuthoritySecret::is_named_so(&secret.name_any());
            labelled_cluster(secret.meta())
                .filter(|_| named)
                .and_then(|id| of_secret(&id))
        })
        .reconcile_on(changed)
        .reconcile_on(claimants(context))
}

/// The owners of claims that were created, changed or deleted.
fn claimants<K: Claimant + 'static>(
    context: &Arc<Context>,
) -> impl Stream<Item = ObjectRef<K>> + Send + 'static {
    context
        .claims
        .cache()
        .touched()
        .filter_map(|claim| future::ready(claimant(&claim.metadata)))
}

/// Reconciles a SimulatedCloud once the cloud has it, and when something in its namespace takes up or gives back room, or waits
/// for it.
pub(super) fn clouds(runner: Runner<SimulatedCloud>, context: &Arc<Context>) -> Runner<SimulatedCloud> {
    let store = runner.store();
    let by_namespace = runner.by_namespace();
    let changed = context.cloud.changes().flat_map(move |changed| {
        stream::iter(match changed {
            Changed::Usage(namespace) | Changed::Namespace(namespace) => by_namespace.refs_of(&namespace),
            Changed::Cluster(_) | Changed::Backends(_) | Changed::Machine(_) | Changed::Fault(_) => {
                Vec::new()
            }
            Changed::Everything => all(&store),
        })
    });
    let store = runner.store();
    let told = context.clouds.changes().flat_map(move |changed| {
        stream::iter(match changed {
            clouds::Change::This((namespace, name)) => vec![ObjectRef::new(&name).within(&namespace)],
            clouds::Change::Any => all(&store),
        })
    });
    runner
        .reads(&context.clusters)
        .reads(&context.machines)
        .reads(context.clouds.cache())
        .reconcile_on(changed)
        .reconcile_on(told)
}

/// Reconciles a Fault when it has hit something, when it may have spared a new machine, and when its time is over.
pub(super) fn faults(runner: Runner<Fault>, context: &Arc<Context>) -> Runner<Fault> {
    let store = runner.store();
    let by_namespace = runner.by_namespace();
    let changed = context.cloud.changes().flat_map(move |changed| {
        stream::iter(match changed {
            Changed::Fault(id) => vec![ObjectRef::new(&id.name).within(&id.namespace)],
            Changed::Usage(namespace) => {
                let objects = by_namespace.of(&namespace);
                let may_spare = objects.iter().filter(|object| fault::may_spare(object));
                may_spare.map(|object| ObjectRef::from_obj(&**object)).collect()
            }
            Changed::Cluster(_) | Changed::Backends(_) | Changed::Machine(_) => Vec::new(),
            Changed::Namespace(namespace) => by_namespace.refs_of(&namespace),
            Changed::Everything => all(&store),
        })
    });
    runner.reads(context.faults.cache()).reconcile_on(changed)
}

/// Reconciles an InMemoryMachine when its Machine, its Cluster, its claims, the simulated machine or the simulated
/// cluster changes. A machine that waits for an extension is also reconciled when the registered extensions change.
pub(super) fn machines(runner: Runner<InMemoryMachine>, context: &Arc<Context>) -> Runner<InMemoryMachine> {
    let of = |context: &Arc<Context>| MachinesOf {
        context: Arc::clone(context),
        store: runner.store(),
    };
    let of_cluster = of(context);
    let of_change = of(context);
    let of_wake = of(context);
    let asking = machine::waiting(context.hooks.changes(), runner.store());
    runner
        .watches(&context.machines, infrastructure_of_machine)
        .watches(&context.clusters, move |cluster: &Cluster| {
            let namespace = cluster.namespace().unwrap_or_default();
            of_cluster.cluster(&ClusterId {
                namespace,
                name: cluster.name_any(),
            })
        })
        .reads(context.clouds.cache())
        .reconcile_on(machines_changed(context.cloud.changes(), of_change))
        .reconcile_on(machines_changed(context.machine_triggers.listen(), of_wake))
        .reconcile_on(asking)
        .reconcile_on(claimants(context))
}

/// Reconciles an InMemoryMachinePool when its MachinePool, its Cluster, the SimulatedCloud of its Cluster, one of its
/// InMemoryMachines or one of their Machines changes.
pub(super) fn machine_pools(
    runner: Runner<InMemoryMachinePool>,
    context: &Arc<Context>,
) -> Runner<InMemoryMachinePool> {
    let pools = context.machine_pools.by_namespace().clone();
    let of_machines = context.machine_pools.clone();
    let of_resolved_clouds = pools.clone();
    let store = runner.store();
    let by_namespace = runner.by_namespace();
    let of_cluster =
        |pools: &ByNamespace<MachinePool>, id: &ClusterId| -> Vec<ObjectRef<InMemoryMachinePool>> {
            let pools = pools.of(&id.namespace);
            let ours = pools.iter().filter(|pool| pool.spec.cluster_name == id.name);
            ours.filter_map(|pool| infrastructure_of_pool(pool)).collect()
        };
    let triggers = context.machine_triggers.listen().flat_map(move |changed| {
        stream::iter(match changed {
            Changed::Cluster(id) => of_cluster(&of_resolved_clouds, &id),
            Changed::Namespace(namespace) => by_namespace.refs_of(&namespace),
            Changed::Backends(_) | Changed::Machine(_) | Changed::Fault(_) | Changed::Usage(_) => Vec::new(),
            Changed::Everything => all(&store),
        })
    });
    runner
        .watches(&context.machine_pools, infrastructure_of_pool)
        .watches(&context.clusters, move |cluster: &Cluster| {
            let namespace = cluster.namespace().unwrap_or_default();
            of_cluster(
                &pools,
                &ClusterId {
                    namespace,
                    name: cluster.name_any(),
                },
            )
        })
        .reconcile_on(triggers)
        .watches(&context.pool_machines, |machine: &InMemoryMachine| {
            let name = machine_pool::pool_of(&machine.metadata)?;
            Some(ObjectRef::new(name).within(machine.metadata.namespace.as_deref()?))
        })
        .watches(&context.machines, move |machine: &Machine| {
            let owner = owner_of_kind(&machine.metadata, nephele_api::core::GROUP, "MachinePool")?;
            let pool = of_machines.get(machine.metadata.namespace.as_deref()?, &owner.name)?;
            infrastructure_of_pool(&pool)
        })
}

/// Reconciles a template when its Cluster or the SimulatedCloud of its Cluster changes. A template without a Cluster is
/// reconciled when the default SimulatedCloud of its namespace changes.
pub(super) fn templates<K: Template>(runner: Runner<K>, context: &Arc<Context>) -> Runner<K> {
    let of_cluster = |by_namespace: &ByNamespace<K>, id: &ClusterId| -> Vec<ObjectRef<K>> {
        let objects = by_namespace.of(&id.namespace);
        let objects = objects
            .iter()
            .filter(|object| cluster_of(object.meta()).as_ref() == Some(id));
        objects.map(|object| ObjectRef::from_obj(&**object)).collect()
    };
    let of_clusters = runner.by_namespace();
    let near_clouds = runner.by_namespace();
    let of_clouds = runner.store();
    let store = runner.store();
    let by_namespace = runner.by_namespace();
    let triggers = context.machine_triggers.listen().flat_map(move |changed| {
        stream::iter(match changed {
            Changed::Cluster(id) => of_cluster(&by_namespace, &id),
            Changed::Namespace(namespace) => by_namespace.refs_of(&namespace),
            Changed::Backends(_) | Changed::Machine(_) | Changed::Fault(_) | Changed::Usage(_) => Vec::new(),
            Changed::Everything => all(&store),
        })
    });
    let without_cluster = context.clouds.changes().flat_map(move |changed| {
        let objects = match changed {
            clouds::Change::This((namespace, name)) if name == DEFAULT_NAME => near_clouds.of(&namespace),
            clouds::Change::This(_) => Vec::new(),
            clouds::Change::Any => of_clouds.state(),
        };
        let objects = objects
            .iter()
            .filter(|object| cluster_of(object.meta()).is_none());
        stream::iter(
            objects
                .map(|object| ObjectRef::from_obj(&**object))
                .collect::<Vec<_>>(),
        )
    });
    runner
        .watches(&context.clusters, move |cluster: &Cluster| {
            let namespace = cluster.namespace().unwrap_or_default();
            of_cluster(
                &of_clusters,
                &ClusterId {
                    namespace,
                    name: cluster.name_any(),
                },
            )
        })
        .reads(context.clouds.cache())
        .reconcile_on(without_cluster)
        .reconcile_on(triggers)
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
        let machines = self
            .context
            .machine_index
            .of(id, |name| self.store.get(&reference(name)).is_some());
        machines.iter().map(|name| reference(name)).collect()
    }

    fn namespace(&self, namespace: &str) -> Vec<ObjectRef<InMemoryMachine>> {
        let machines = self.context.machine_index.in_namespace(namespace);
        machines
            .iter()
            .map(|name| ObjectRef::new(name).within(namespace))
            .collect()
    }
}

fn all<K>(store: &Store<K>) -> Vec<ObjectRef<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store
        .state()
        .iter()
        .map(|object| ObjectRef::from_obj(&**object))
        .collect()
}
