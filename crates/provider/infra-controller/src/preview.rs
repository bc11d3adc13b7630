//! What a Fault would hit, told from objects by the matcher of the cloud itself. Pure.

use std::{collections::BTreeMap, sync::Arc};

use kube::{Resource, ResourceExt as _, api::ObjectMeta};
use nephele_api::{
    cloud::v1alpha1::{FaultSpec, SimulatedCloud},
    core::{Cluster, Machine},
    finalizers,
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine},
};
use nephele_cloud::ClusterSpec;
use nephele_controller::{is_externally_managed, owner_machine};
use nephele_fault::Mistake;
use nephele_model::Verb;

use crate::{
    cluster,
    context::{cluster_of, cluster_of_machine},
    fault::validate,
    finalizer::is_held,
    machine::in_cloud,
    resolved_cloud::{Location, ResolvedCloud, cloud_name},
};

/// The objects of a namespace that decide what a Fault there hits.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    pub clusters: Vec<Arc<InMemoryCluster>>,
    pub machines: Vec<Arc<InMemoryMachine>>,
    /// The owners of `clusters`, whose labels Faults select by.
    pub owning_clusters: Vec<Arc<Cluster>>,
    /// The owners of `machines`, whose labels Faults select by.
    pub owning_machines: Vec<Arc<Machine>>,
    pub simulated_clouds: Vec<Arc<SimulatedCloud>>,
}

/// What a Fault selects, by name and in order. Its budget decides later which of them it hits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    /// Clusters, of which it hits the API server or the load balancer.
    pub clusters: Vec<String>,
    /// InMemoryMachines, as far as they exist by now.
    pub machines: Vec<String>,
    /// The operations on these that it makes fail or wait. None for a Fault that affects what is there.
    pub operations: Vec<Verb>,
}

/// What a Fault would select if it began now. It may hit the creation of machines that do not exist yet, too.
///
/// # Errors
/// With the first field that cannot be used. A Fault of addresses selects no machine and no cluster.
pub fn preview(spec: &FaultSpec, objects: &Objects) -> Result<Preview, Mistake> {
    let fault = validate(spec)?;
    let operations: Vec<_> = fault.operations().collect();
    let may_hit = |metadata: &ObjectMeta, finalizer: &str| {
        // What is being deleted can only be healed, but its calls can fail until the cloud has released it.
        metadata.deletion_timestamp.is_none() || (!operations.is_empty() && is_held(metadata, finalizer))
    };
    let clusters = clusters(objects);
    let owners = by_name(&objects.owning_machines);
    let of_clusters = clusters
        .iter()
        .filter(|(_, InCloud { object, spec, .. })| {
            fault.selects(&spec.load_balancer(None), Some(&spec.labels), |_| false)
                && may_hit(&object.metadata, finalizers::CLUSTER)
        })
        .map(|(name, _)| name.clone());
    let of_machines = objects.machines.iter().filter_map(|object| {
        let owner = owner_machine(&object.metadata)?;
        let machine = owners.get(owner.name.as_str())?;
        let id = cluster_of_machine(&object.metadata, Some(machine))?;
        let cluster = clusters.get(&id.name);
        let resolved_cloud = cluster.map(|cluster| &cluster.resolved_cloud);
        let spec = in_cloud(object, machine, id, resolved_cloud, &[]);
        let labels = cluster.map(|cluster| &cluster.spec.labels);
        let selects = fault.selects(&spec.instance(), labels, |name| {
            spec.reached.keys().any(|stage| stage.name() == *name)
        });
        let metadata = &object.metadata;
        (selects && may_hit(metadata, finalizers::MACHINE) && !is_externally_managed(metadata))
            .then(|| object.name_any())
    });
    let mut machines: Vec<_> = of_machines.collect();
    machines.sort();
    Ok(Preview {
        clusters: of_clusters.collect(),
        machines,
        operations,
    })
}

/// A cluster, as the cloud has it.
struct InCloud<'a> {
    object: &'a InMemoryCluster,
    spec: ClusterSpec,
    resolved_cloud: ResolvedCloud,
}

/// The clusters by the names of their Clusters.
fn clusters(objects: &Objects) -> BTreeMap<String, InCloud<'_>> {
    let owners = by_name(&objects.owning_clusters);
    let clouds = by_name(&objects.simulated_clouds);
    let resolved = objects.clusters.iter().filter_map(|object| {
        let id = cluster_of(&object.metadata)?;
        let owner = owners.get(id.name.as_str())?;
        let cloud = clouds.get(cloud_name(object)).copied().cloned();
        let resolved_cloud = ResolvedCloud::new(object, Location::of(object, cloud));
        let known = InCloud {
            object,
            spec: cluster::spec(object, owner, id.clone(), &resolved_cloud),
            resolved_cloud,
        };
        Some((id.name, known))
    });
    resolved.collect()
}

fn by_name<K: Resource<DynamicType = ()>>(objects: &[Arc<K>]) -> BTreeMap<&str, &Arc<K>> {
    let named = objects
        .iter()
        .filter_map(|object| Some((object.meta().name.as_deref()?, object)));
    named.collect()
}
