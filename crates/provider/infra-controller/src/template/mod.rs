//! Templates of machines and of pools: writes the capacity and node info of future machines into the status. Nothing
//! else is written to a template.

mod kinds;

use std::sync::Arc;

use kube::{
    Resource, ResourceExt as _,
    core::{NamespaceResourceScope, object::HasStatus},
};
use nephele_api::{cloud::DEFAULT_NAME, core::Cluster};
use nephele_cloud::Model;
use nephele_controller::{Kind, Outcome, paused, unreadable};
use serde::Serialize;

use crate::{
    context::{Context, cluster_of},
    expected_capacity::{CapacityAndNodeInfo, ExpectedCapacity},
    report::{self, StatusError},
    resolved_cloud::{Location, ResolvedCloud},
};

/// A template kind whose status has the capacity and node info of its machines.
pub(crate) trait Template:
    Kind + Resource<Scope = NamespaceResourceScope> + HasStatus<Status: Serialize + PartialEq>
{
    /// What its machines are made from.
    fn model(&self) -> Model;

    /// The template with these values in its status. A template without a status stays as it is when the values are
    /// empty.
    fn saying(&self, told: CapacityAndNodeInfo) -> Self;
}

/// What to do about a template.
#[derive(Debug, PartialEq)]
enum Plan {
    /// Nothing.
    Leave(Outcome),
    /// Write these values to the status.
    Tell(CapacityAndNodeInfo),
}

/// Writes the capacity and node info of the template's machines into its status.
pub(crate) async fn reconcile<K: Template>(
    object: Arc<K>,
    context: Arc<Context>,
) -> Result<Outcome, StatusError> {
    // 1. fetch: from the caches and the cloud.
    let id = cluster_of(object.meta());
    let cluster = id.as_ref().and_then(|id| context.cluster(id));
    let resolved_cloud = match &id {
        Some(id) => context.resolved_clouds.of(id),
        None => Some(Arc::new(of_namespace(&*object, &context))),
    };
    let namespace = object.namespace().unwrap_or_default();
    let expected_capacity =
        ExpectedCapacity::new(context.describe(&namespace, resolved_cloud.as_deref(), &object.model()));
    // 2. plan: pure.
    match plan(&*object, cluster.as_deref(), &expected_capacity) {
        Plan::Leave(outcome) => Ok(outcome),
        Plan::Tell(told) => {
            // 3. report: one status patch, or none.
            report::write_status(&*object, &object.saying(told), &context, "template").await
        }
    }
}

/// The offer to clusters of a namespace that name no SimulatedCloud.
fn of_namespace<K: Template>(object: &K, context: &Context) -> ResolvedCloud {
    let namespace = object.namespace().unwrap_or_default();
    let found = context.clouds.in_force(&namespace, DEFAULT_NAME);
    ResolvedCloud {
        location: found.map_or(Location::BuiltIn, Location::Cloud),
        ..ResolvedCloud::default()
    }
}

fn plan<K: Template>(object: &K, cluster: Option<&Cluster>, expected_capacity: &ExpectedCapacity) -> Plan {
    if object.meta().deletion_timestamp.is_some() {
        return Plan::Leave(Outcome::Done);
    }
    if paused(object, cluster).is_some() {
        return Plan::Leave(Outcome::WaitingOn("unpaused"));
    }
    // Its status has no place for that. An Event tells people.
    if unreadable(object.meta()).is_some() {
        return Plan::Leave(Outcome::WaitingOn("correction"));
    }
    match expected_capacity.told() {
        Some(told) => Plan::Tell(told),
        None => Plan::Leave(Outcome::WaitingOn("cluster")),
    }
}

#[cfg(test)]
mod tests;
