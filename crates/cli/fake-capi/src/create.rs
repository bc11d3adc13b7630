//! Creates the objects of a planned cluster.

use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client};
use nephele_api::core::{Cluster, ClusterSpec};

use crate::{
    act::{self, ActError},
    names::CLUSTER_FINALIZER,
    plan::ClusterPlan,
    planned::{control_plane, infrastructure_cluster, network},
    references::reference,
};

/// Why the stand-in cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The clusters of the plan could not be created.
    #[error("failed to create the clusters of the plan: {0}")]
    Create(String),
}

/// Creates the objects that a user applies: a Cluster and its InMemoryCluster, which has no owner yet. Existing objects
/// stay unchanged.
///
/// # Errors
/// When one of the objects cannot be created.
pub async fn create(client: &Client, plan: &ClusterPlan) -> Result<(), Error> {
    create_objects(client, plan)
        .await
        .map_err(|error| Error::Create(nephele_controller::chain(&error)))
}

async fn create_objects(client: &Client, plan: &ClusterPlan) -> Result<(), ActError> {
    let metadata = |name: &str| ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(plan.labels.clone()),
        ..ObjectMeta::default()
    };
    let name = Some(plan.namespace.clone());
    let namespace = Namespace {
        metadata: ObjectMeta {
            name,
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    act::create(&Api::all(client.clone()), &namespace).await?;
    let infrastructure = infrastructure_cluster(plan, metadata(&plan.name));
    act::create(&Api::namespaced(client.clone(), &plan.namespace), &infrastructure).await?;
    let cluster = Cluster {
        metadata: ObjectMeta {
            finalizers: Some(vec![CLUSTER_FINALIZER.to_owned()]),
            ..metadata(&plan.name)
        },
        spec: ClusterSpec {
            cluster_network: Some(network(plan)),
            infrastructure_ref: Some(reference("InMemoryCluster", &plan.name)),
            control_plane_ref: Some(control_plane(plan)),
            ..ClusterSpec::default()
        },
        status: None,
    };
    act::create(&Api::namespaced(client.clone(), &plan.namespace), &cluster)
        .await
        .map(drop)
}
