//! Reads everything that a decision about a cluster needs. Missing objects are `None`.

use std::sync::Arc;

use kube::{Api, ResourceExt as _};
use nephele_api::{cloud::v1alpha1::SimulatedCloud, core::Cluster, infrastructure::v1beta2::InMemoryCluster};
use nephele_cloud::ClusterObservation;
use nephele_controller::{is_externally_managed, owner_cluster};
use nephele_model::ClusterId;

use super::Error;
use crate::{
    claims::{self, Claim, Claimant as _},
    context::{Context, cluster_of},
    resolved_cloud::cloud_name,
    secret::AuthoritySecret,
};

/// The objects and the state that were read.
#[derive(Default)]
pub(super) struct Fetched {
    /// The Cluster that the owner reference names, or else the label.
    pub(super) id: Option<ClusterId>,
    /// Whether there is an owner reference to a Cluster.
    pub(super) owned: bool,
    pub(super) cluster: Option<Arc<Cluster>>,
    pub(super) ca: Option<Arc<AuthoritySecret>>,
    pub(super) etcd: Option<Arc<AuthoritySecret>>,
    /// The state of the claim for the load balancer's address; none once the cluster is provisioned.
    pub(super) claim: Option<Claim>,
    /// The SimulatedCloud of the cluster, as the cloud has it.
    pub(super) cloud: Option<Arc<SimulatedCloud>>,
    /// The state of the cluster in the cloud.
    pub(super) observed: Option<ClusterObservation>,
}

pub(super) async fn fetch(object: &InMemoryCluster, context: &Context) -> Result<Fetched, Error> {
    let namespace = object.namespace().unwrap_or_default();
    let owner = owner_cluster(&object.metadata);
    let Some(id) = cluster_of(&object.metadata) else {
        return Ok(Fetched::default());
    };
    let cluster = context.cluster(&id);
    let ca_name = AuthoritySecret::cluster_name(&id.name);
    let etcd_name = AuthoritySecret::etcd_name(&id.name);
    let mut ca = context.secrets.get(&namespace, &ca_name);
    let mut etcd = context.secrets.get(&namespace, &etcd_name);
    // Users may bring their own authorities and need not label them, so that the cache does not have them.
    let wanted = owner.is_some() && object.is_provisioned() && object.metadata.deletion_timestamp.is_none();
    if wanted && ca.is_none() {
        ca = read(context, &namespace, &ca_name).await?;
    }
    if ca.is_some() && etcd.is_none() {
        etcd = read(context, &namespace, &etcd_name).await?;
    }
    let waits = owner.is_some()
        && !object.is_provisioned()
        && !is_externally_managed(&object.metadata)
        && object.metadata.deletion_timestamp.is_none();
    let wanted = if waits { object.wanted() } else { Vec::new() };
    let claim = claims::look(object, wanted, context)
        .await
        .map_err(Error::Claims)?
        .pop();
    let observed = context.cloud.observe_cluster(&id);
    let cloud = context.clouds.in_force(&namespace, cloud_name(object));
    Ok(Fetched {
        owned: owner.is_some(),
        cluster,
        ca,
        etcd,
        claim,
        cloud,
        observed,
        id: Some(id),
    })
}

async fn read(context: &Context, namespace: &str, name: &str) -> Result<Option<Arc<AuthoritySecret>>, Error> {
    let api: Api<AuthoritySecret> = Api::namespaced(context.client.clone(), namespace);
    let found = api.get_opt(name).await;
    found
        .map(|found| found.map(Arc::new))
        .map_err(|source| Error::Secret {
            name: name.to_owned(),
            source,
        })
}
