//! A Cluster with a topology: the part of the topology controller.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nephele_api::{conditions, infrastructure, labels};

use super::action::Action;
use crate::{
    observe::Observed,
    plan::ClusterPlan,
    planned::infrastructure_cluster,
    topology::{completed, condition},
    wanted::Wanted,
};

/// The next object to complete or to create, before anything else happens.
pub(super) fn provide(plan: &ClusterPlan, observed: &Observed) -> Option<Action> {
    let complete = completed(&observed.cluster, plan);
    if complete != observed.cluster {
        return Some(Action::CompleteCluster(Box::new(complete)));
    }
    let reference = observed.cluster.spec.infrastructure_ref.as_ref()?;
    let is_missing = observed.infrastructure.is_none();
    (is_missing && reference.is(infrastructure::GROUP, "InMemoryCluster")).then(|| {
        // Without this label, the creation would not trigger the next round.
        let label = (labels::CLUSTER_NAME.to_owned(), observed.name());
        let owned = (labels::TOPOLOGY_OWNED.to_owned(), String::new());
        let metadata = ObjectMeta {
            name: Some(reference.name.clone()),
            labels: Some(BTreeMap::from([label, owned])),
            ..ObjectMeta::default()
        };
        Action::CreateInfrastructure(Box::new(infrastructure_cluster(plan, metadata)))
    })
}

/// Why the topology is not carried out, in the status of the Cluster.
pub(super) fn report_failure(observed: &Observed, message: &str, now: Timestamp) -> Option<Action> {
    let old = observed.cluster.status.clone().unwrap_or_default();
    let mut status = old.clone();
    conditions::set(&mut status.conditions, condition(Some(message)), now);
    (status != old).then_some(Action::ReportCluster(status))
}

/// What to report when the management API refused an object, with this message: that it follows from a topology. Nothing
/// for a planned cluster.
pub(crate) fn refused(wanted: &Wanted, observed: &Observed, message: &str, now: Timestamp) -> Option<Action> {
    matches!(wanted, Wanted::Topology(_)).then(|| report_failure(observed, message, now))?
}
