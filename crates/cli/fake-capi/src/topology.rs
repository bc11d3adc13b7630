//! The topology of a Cluster: reads the plan of a cluster from `spec.topology`, and completes what the topology
//! controller of Cluster API completes (`internal/controllers/topology/cluster`). Pure.
//!
//! A topology names a ClusterClass, of which only the health checks are read, if it is there. The variables have the
//! names of the class `in-memory` (`config/templates/clusterclass-in-memory.yaml`), so that a manifest for that class
//! works here, too. Other variables are ignored. Variables, overrides and metadata count for new objects only;
//! replicas, version and failure domains change the cluster. A group without replicas has one machine at first, and
//! keeps the number that its object gets later.

mod variables;

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use nephele_api::{conditions, core::Cluster, infrastructure::v1beta2::Behaviour, labels};
use nephele_pki::KeyAlgorithm;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::{
    names::{self, CLUSTER_FINALIZER},
    plan::{ClusterPlan, DeploymentPlan, HealthCheck, Metadata, REPLICAS_MAX},
    planned::{control_plane, network},
    references::reference,
};

/// The type of the Cluster's condition that is false when its topology cannot be used.
pub const TOPOLOGY_RECONCILED: &str = "TopologyReconciled";

/// Why a topology cannot be used.
#[derive(Debug, Error)]
pub(crate) enum TopologyError {
    #[error("failed to read spec.topology: {0}")]
    Shape(serde_json::Error),
    #[error("spec.topology.classRef.name is missing")]
    NoClass,
    #[error("spec.topology.version {0:?} is not a version such as v1.36.3")]
    Version(String),
    #[error("{path}.name is missing")]
    NoName { path: String },
    #[error("{path}.name is {name:?}, as that of another MachineDeployment")]
    SameName { path: String, name: String },
    #[error("{path}.replicas is {replicas}, which is not between 0 and {REPLICAS_MAX}")]
    Replicas { path: String, replicas: i64 },
    #[error("failed to read the variable {name}: {source}")]
    Variable {
        name: String,
        source: serde_path_to_error::Error<serde_json::Error>,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Topology {
    class_ref: ClassReference,
    /// In `v1beta1`, the name of the class.
    class: String,
    version: String,
    control_plane: MachineGroup,
    workers: Workers,
    variables: Vec<Variable>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClassReference {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Workers {
    machine_deployments: Vec<MachineGroup>,
    machine_pools: Vec<MachineGroup>,
}

/// The control plane, a MachineDeployment or a MachinePool.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MachineGroup {
    class: String,
    name: String,
    replicas: Option<i64>,
    metadata: Metadata,
    failure_domain: String,
    variables: Overrides,
    health_check: Option<GivenHealthCheck>,
}

/// The health check of a group.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GivenHealthCheck {
    enabled: Option<bool>,
    checks: Value,
    remediation: Value,
}

/// The variables of a group that have other values there.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Overrides {
    overrides: Vec<Variable>,
}

#[derive(Debug, Deserialize)]
struct Variable {
    name: String,
    #[serde(default)]
    value: Value,
}

/// The plan that the topology of a Cluster describes, with the health checks of its class.
pub(crate) fn plan(
    cluster: &Cluster,
    topology: &Value,
    of_class: Option<&Value>,
) -> Result<ClusterPlan, TopologyError> {
    let topology = Topology::deserialize(topology).map_err(TopologyError::Shape)?;
    let Topology {
        class_ref,
        class,
        version,
        control_plane,
        workers,
        variables,
    } = topology;
    if class_ref.name.is_empty() && class.is_empty() {
        return Err(TopologyError::NoClass);
    }
    let pools = "spec.topology.workers.machinePools";
    let has_pools = !workers.machine_pools.is_empty();
    let plan = ClusterPlan {
        namespace: cluster.namespace().unwrap_or_default(),
        pool: has_pools
            .then(|| sum(pools, &workers.machine_pools))
            .transpose()?,
        // In the class, the control plane's behaviour is not that of the workers.
        worker_behaviour: Some(Behaviour::default()),
        // Keys of this algorithm are made at once, and no client of a test cares.
        key_algorithm: KeyAlgorithm::EcdsaP256,
        deployments: Vec::new(),
        ..ClusterPlan::new(
            &cluster.name_any(),
            &canonical_version(version)?,
            replicas("spec.topology.controlPlane", &control_plane)?,
            0,
        )
    };
    let plan = with_variables(plan, variables)?;
    let plan = ClusterPlan {
        is_control_plane_scalable: control_plane.replicas.is_none(),
        control_plane_name: names::generated(&plan.name, &salt(&plan), &BTreeSet::new()),
        control_plane_metadata: control_plane.metadata,
        control_plane_health_check: health_check(
            control_plane.health_check,
            of_class.and_then(|class| class.pointer("/spec/controlPlane/healthCheck")),
        ),
        is_pool_scalable: workers.machine_pools.iter().all(|group| group.replicas.is_none()),
        ..plan
    };
    let mut deployments: Vec<DeploymentPlan> = Vec::new();
    for (index, group) in workers.machine_deployments.into_iter().enumerate() {
        let path = format!("spec.topology.workers.machineDeployments[{index}]");
        if deployments.iter().any(|other| other.topology_name == group.name) {
            return Err(TopologyError::SameName {
                path,
                name: group.name,
            });
        }
        deployments.push(deployment(&path, group, &plan, of_class)?);
    }
    Ok(ClusterPlan { deployments, ..plan })
}

fn with_variables(plan: ClusterPlan, variables: Vec<Variable>) -> Result<ClusterPlan, TopologyError> {
    variables
        .into_iter()
        .try_fold(plan, |plan, Variable { name, value }| {
            variables::set(plan, name, value)
        })
}

/// Lets names differ between clusters where `<cluster>-<group>` is the same.
fn salt(plan: &ClusterPlan) -> String {
    format!("{}/{}", plan.namespace, plan.name)
}

/// A MachineDeployment of a cluster with this plan. Its name has a random part, as that of the topology controller has.
fn deployment(
    path: &str,
    group: MachineGroup,
    plan: &ClusterPlan,
    of_class: Option<&Value>,
) -> Result<DeploymentPlan, TopologyError> {
    if group.name.is_empty() {
        return Err(TopologyError::NoName {
            path: path.to_owned(),
        });
    }
    let number = replicas(path, &group)?;
    let MachineGroup {
        class,
        name,
        replicas,
        metadata,
        failure_domain,
        variables,
        health_check: given,
    } = group;
    let classes = of_class.and_then(|class| class.pointer("/spec/workers/machineDeployments")?.as_array());
    let class = classes
        .into_iter()
        .flatten()
        .find(|other| other["class"] == class.as_str());
    let with_overrides = with_variables(plan.clone(), variables.overrides)?;
    let base = format!("{}-{name}", plan.name);
    Ok(DeploymentPlan {
        name: names::generated(&base, &salt(plan), &BTreeSet::new()),
        is_scalable: replicas.is_none(),
        health_check: health_check(given, class.and_then(|class| class.get("healthCheck"))),
        metadata,
        failure_domain,
        behaviour: with_overrides.worker_behaviour,
        instance_type: Some(with_overrides.worker_instance_type),
        ..DeploymentPlan::new(&plan.name, &name, number)
    })
}

/// The health check of a group, unless it is off: that of the topology, or else that of the class.
fn health_check(given: Option<GivenHealthCheck>, of_class: Option<&Value>) -> Option<HealthCheck> {
    let GivenHealthCheck {
        enabled,
        checks,
        remediation,
    } = given.unwrap_or_default();
    let given = HealthCheck { checks, remediation };
    let of_class = of_class
        .filter(|class| class.is_object())
        .map(|class| HealthCheck {
            checks: class["checks"].clone(),
            remediation: class["remediation"].clone(),
        });
    let is_given = given != HealthCheck::default();
    let wanted = if is_given { Some(given) } else { of_class };
    wanted.filter(|_| enabled != Some(false))
}

/// The number of machines in all groups.
fn sum(path: &str, groups: &[MachineGroup]) -> Result<u32, TopologyError> {
    let numbers = groups
        .iter()
        .enumerate()
        .map(|(index, group)| replicas(&format!("{path}[{index}]"), group));
    numbers.sum()
}

/// The number of machines in a group; one if the topology does not say.
fn replicas(path: &str, group: &MachineGroup) -> Result<u32, TopologyError> {
    let replicas = group.replicas.unwrap_or(1);
    let wanted = u32::try_from(replicas)
        .ok()
        .filter(|wanted| *wanted <= REPLICAS_MAX);
    wanted.ok_or_else(|| TopologyError::Replicas {
        path: path.to_owned(),
        replicas,
    })
}

/// A semantic version with the `v` in front that Cluster API's webhook adds.
fn canonical_version(version: String) -> Result<String, TopologyError> {
    let numbers = version.strip_prefix('v').unwrap_or(&version);
    let core = numbers.split(['-', '+']).next().unwrap_or_default();
    let parts: Vec<&str> = core.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if parts.len() == 3 && parts.iter().all(is_number) {
        Ok(format!("v{numbers}"))
    } else {
        Err(TopologyError::Version(version))
    }
}

/// The Cluster with everything that a topology leaves to the controller: the finalizer, networks, and the reference to
/// its infrastructure.
pub(crate) fn completed(cluster: &Cluster, plan: &ClusterPlan) -> Cluster {
    let mut cluster = cluster.clone();
    if !cluster.finalizers().iter().any(|held| held == CLUSTER_FINALIZER) {
        cluster.finalizers_mut().push(CLUSTER_FINALIZER.to_owned());
    }
    let labels = cluster.labels_mut();
    labels.insert(labels::CLUSTER_NAME.to_owned(), plan.name.clone());
    labels.insert(labels::TOPOLOGY_OWNED.to_owned(), String::new());
    cluster.spec.cluster_network.get_or_insert_with(|| network(plan));
    cluster
        .spec
        .infrastructure_ref
        .get_or_insert_with(|| reference("InMemoryCluster", &plan.name));
    cluster
        .spec
        .control_plane_ref
        .get_or_insert_with(|| control_plane(plan));
    cluster
}

/// The condition of a Cluster whose topology was carried out, or why it was not.
pub(crate) fn condition(failure: Option<&str>) -> Condition {
    // The reasons are those of Cluster API (`api/core/v1beta2/cluster_types.go`).
    match failure {
        None => conditions::condition(TOPOLOGY_RECONCILED, conditions::TRUE, "ReconcileSucceeded", ""),
        Some(message) => {
            conditions::condition(TOPOLOGY_RECONCILED, conditions::FALSE, "ReconcileFailed", message)
        }
    }
}

#[cfg(test)]
mod tests;
