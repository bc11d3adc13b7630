//! What Cluster API's controllers say of a Cluster that is paused: on each of its objects, that it is
//! (`util/paused/paused.go`).

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource, ResourceExt as _, core::object::HasStatus};
use nephele_api::{conditions, core::Cluster};
use nephele_controller::paused;

use super::{
    action::{Action, OwnerAction},
    condition::condition,
};
use crate::observe::Observed;

const PAUSED: &str = "Paused";

/// What an object says while its controller acts on it.
pub(super) fn not_paused() -> Condition {
    condition(PAUSED, false, "")
}

/// Whether the stand-in leaves a Cluster and all of its objects alone.
pub(super) fn is_paused(cluster: &Cluster) -> bool {
    paused(cluster, Some(cluster)).is_some()
}

/// The statuses of the objects that are paused and do not say so.
pub(super) fn report(observed: &Observed, now: Timestamp) -> Vec<Action> {
    let cluster = &observed.cluster;
    let mut actions = Vec::new();
    let machines = observed.machines.iter().filter_map(|machine| {
        let status = with(machine, cluster, now, |status| &mut status.conditions)?;
        Some(Action::ReportMachine {
            machine: machine.name_any(),
            status,
        })
    });
    actions.extend(machines);
    let sets = observed.sets.iter().filter_map(|set| {
        let status = Box::new(with(set, cluster, now, |status| &mut status.conditions)?);
        Some(OwnerAction::ReportSet {
            set: set.name_any(),
            status,
        })
    });
    let deployments = observed.deployments.iter().filter_map(|known| {
        let status = Box::new(with(known, cluster, now, |status| &mut status.conditions)?);
        Some(OwnerAction::ReportDeployment {
            deployment: known.name_any(),
            status,
        })
    });
    let checks = observed.health_checks.iter().filter_map(|check| {
        let status = Box::new(with(check, cluster, now, |status| &mut status.conditions)?);
        Some(OwnerAction::ReportHealthCheck {
            check: check.name_any(),
            status,
        })
    });
    let control_planes = observed.control_plane.iter().filter_map(|known| {
        let status = Box::new(with(known, cluster, now, |status| &mut status.conditions)?);
        Some(OwnerAction::ReportControlPlane(status))
    });
    actions.extend(
        sets.chain(deployments)
            .chain(checks)
            .chain(control_planes)
            .map(Action::Owner),
    );
    actions.extend(with(cluster, cluster, now, |status| &mut status.conditions).map(Action::ReportCluster));
    actions
}

/// The status of an object with the condition, if the object is paused and does not say so.
fn with<K>(
    object: &K,
    cluster: &Cluster,
    now: Timestamp,
    list: fn(&mut K::Status) -> &mut Vec<Condition>,
) -> Option<K::Status>
where
    K: Resource<DynamicType = ()> + HasStatus<Status: Clone + Default + PartialEq>,
{
    let message = paused(object, Some(cluster))?;
    let old = object.status().cloned().unwrap_or_default();
    let mut new = old.clone();
    let is = conditions::condition(PAUSED, conditions::TRUE, PAUSED, message);
    conditions::set(list(&mut new), is, now);
    (new != old).then_some(new)
}
