//! `SimulatedCloud`: reports whether it is valid, how many zones it has, and what the cloud says about it. It has no
//! finalizer: [`Clouds`](crate::clouds::Clouds) sends it to the cloud, and deletes there what is gone.

pub(crate) mod api_limits;
pub(crate) mod caller_mistakes;
pub(crate) mod clock;
pub(crate) mod cost;
pub(crate) mod latency;
pub(crate) mod record;

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use kube::ResourceExt as _;
use nephele_api::{
    cloud::{
        is_being_restored,
        v1alpha1::{LimitUsage, SimulatedCloud, SimulatedCloudSpec, SimulatedCloudStatus},
    },
    conditions::{self, condition, reasons, types},
};
use nephele_cloud::{CapacityUsage, CloudObservation};
use nephele_controller::{Outcome, paused, unreadable};
use nephele_model::{Capacity, Quota};
use tracing::warn;

use crate::{
    context::Context,
    leaked::{self, load_balancers},
    report::{self, Report, StatusError},
};

/// Reports the status of the SimulatedCloud, once the cloud has what its spec asks for.
pub(crate) async fn reconcile(
    object: Arc<SimulatedCloud>,
    context: Arc<Context>,
) -> Result<Outcome, StatusError> {
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(Outcome::Done);
    }
    if is_being_restored(&object.metadata) {
        return Ok(Outcome::WaitingOn("restored"));
    }
    if !context.clouds.has_seen(&object) {
        return Ok(Outcome::WaitingOn("cloud"));
    }
    if let Some(message) = paused(&*object, None) {
        let in_force = context
            .clouds
            .in_force(&object.namespace().unwrap_or_default(), &object.name_any());
        let mut reported = SimulatedCloud::clone(&object);
        let mut status = report::resting(&*object, &message, context.now());
        status.paused_spec = in_force.map(|object| object.spec.clone());
        reported.status = Some(status);
        // One that was paused before it began stays without a status, by which the next manager knows that.
        if object.status.is_some() {
            report::write_status(&*object, &reported, &context, "SimulatedCloud").await?;
        }
        return Ok(Outcome::WaitingOn("unpaused"));
    }
    let id = (object.namespace().unwrap_or_default(), object.name_any());
    let now = context.now();
    let known = object.status.clone().unwrap_or_default();
    delete_leaked(&object, &known, &context);
    let observed = context.cloud.observe_cloud(&id.0, &id.1);
    let status = status(&object, observed, now);
    if differs_in_numbers_only(object.status.as_ref(), &status)
        && let Some(wait) = context.clouds.status_throttle().wait(&id, now)
    {
        return Ok(Outcome::After(wait));
    }
    if object.status.as_ref() != Some(&status) {
        context.clouds.status_throttle().note(id, now);
    }
    let mut reported = SimulatedCloud::clone(&object);
    reported.status = Some(status.clone());
    let outcome = report::write_status(&*object, &reported, &context, "SimulatedCloud").await?;
    leaked::publish(
        &*object,
        &known.leaked_instances,
        &status.leaked_instances,
        &context.events,
    );
    let balancers = (&known.leaked_load_balancers, &status.leaked_load_balancers);
    load_balancers::publish(&*object, balancers.0, balancers.1, &context.events);
    caller_mistakes::publish(
        &object,
        &known.caller_mistakes,
        &status.caller_mistakes,
        &context.events,
    );
    Ok(outcome)
}

/// Deletes the leaked instances and load balancers of a SimulatedCloud, if its spec says so and the status, where people
/// look for them, lists all of them.
fn delete_leaked(object: &SimulatedCloud, listed: &SimulatedCloudStatus, context: &Context) {
    let namespace = object.namespace().unwrap_or_default();
    let name = object.name_any();
    let record = context.cloud.observe_cloud(&namespace, &name).record;
    let (instances, balancers) = leaked::to_api(&record.leaked, &name);
    let are_listed = (&instances, &balancers) == (&listed.leaked_instances, &listed.leaked_load_balancers);
    let nothing_leaked = instances.is_empty() && balancers.is_empty();
    if object.spec.leaked_instances != "Delete" || nothing_leaked || !are_listed {
        return;
    }
    match context.cloud.delete_leaked(&namespace, &name) {
        Ok(()) => {
            if !instances.is_empty() {
                leaked::publish_deletion(object, instances.len(), &context.events);
            }
            if !balancers.is_empty() {
                load_balancers::publish_deletion(object, balancers.len(), &context.events);
            }
        }
        Err(error) => {
            let error = nephele_controller::chain(&error);
            warn!(
                namespace,
                name, error, "Failed to delete what leaked from a SimulatedCloud"
            );
        }
    }
}

fn status(object: &SimulatedCloud, observed: CloudObservation, now: Timestamp) -> SimulatedCloudStatus {
    let mut report = Report::on(object, now);
    if report
        .status
        .conditions
        .iter()
        .any(|known| known.type_ == types::PAUSED)
    {
        report = report.not_paused();
    }
    report.status.paused_spec = None;
    let CloudObservation {
        machines,
        limits,
        record,
    } = observed;
    record::write(record, &object.name_any(), &mut report.status);
    let leaked = report.status.leaked_instances.len() + report.status.leaked_load_balancers.len();
    report.status.leaked = Some(number(leaked as u64));
    report.status.instances = Some(number(machines));
    report.status.usage = limits.into_iter().filter_map(limit_usage).collect();
    report.status.waiting = Some(report.status.usage.iter().map(|usage| usage.waiting).sum());
    report.status.zones = Some(i32::try_from(object.spec.zones().count()).unwrap_or(i32::MAX));
    let unreadable = unreadable(&object.metadata).map(str::to_owned);
    report.set(match unreadable.or_else(|| mistake(&object.spec)) {
        None => condition(types::READY, conditions::TRUE, reasons::READY, ""),
        Some(message) => condition(
            types::READY,
            conditions::FALSE,
            reasons::INVALID_CONFIGURATION,
            message,
        ),
    });
    report.status
}

fn limit_usage(usage: CapacityUsage) -> Option<LimitUsage> {
    let CapacityUsage {
        capacity,
        limit,
        taken,
        waiting,
    } = usage;
    let any = |name: Option<String>| name.unwrap_or_else(|| "*".to_owned());
    let name = match capacity {
        Capacity::CloudQuota {
            of: Quota::Instances, ..
        } => "instances".to_owned(),
        Capacity::CloudQuota {
            of: Quota::Processors,
            ..
        } => "vCPUs".to_owned(),
        Capacity::CloudQuota {
            of: Quota::LoadBalancers,
            ..
        } => "loadBalancers".to_owned(),
        Capacity::Stock {
            instance_type, zone, ..
        } => {
            format!("capacity/{}/{}", any(instance_type), any(zone))
        }
        Capacity::Quota { .. } | Capacity::Zone(_) => return None,
    };
    let free = number(u64::from(limit).saturating_sub(taken));
    Some(LimitUsage {
        name,
        limit: limit.into(),
        used: number(taken),
        free,
        waiting: number(waiting as u64),
    })
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Whether a status differs from the one before in what is used or found, and in nothing else.
fn differs_in_numbers_only(before: Option<&SimulatedCloudStatus>, status: &SimulatedCloudStatus) -> bool {
    let Some(before) = before else { return false };
    let SimulatedCloudStatus {
        instances,
        waiting,
        usage,
        cost,
        caller_mistakes,
        ..
    } = status.clone();
    let counted = SimulatedCloudStatus {
        instances,
        waiting,
        usage,
        cost,
        caller_mistakes,
        ..before.clone()
    };
    before != status && counted == *status
}

/// The first mistake in a spec.
fn mistake(spec: &SimulatedCloudSpec) -> Option<String> {
    let zone =
        zone_used_twice(spec).map(|zone| format!("Zone {zone} is listed twice; the first one is used"));
    zone.or_else(|| api_limits::limits(&spec.api).1)
}

/// A zone that is listed twice. The schema refuses it; this is for objects that got past the schema.
fn zone_used_twice(spec: &SimulatedCloudSpec) -> Option<&str> {
    let mut seen = BTreeSet::new();
    spec.zones()
        .map(|(_, zone)| zone.name.as_str())
        .find(|name| !seen.insert(*name))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use nephele_api::cloud::v1alpha1::{Region, Zone};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    #[test]
    fn a_cloud_says_how_many_zones_it_has_and_whether_they_are_told_apart() {
        let region = |name: &str, zones: &[&str]| Region {
            name: name.into(),
            zones: zones
                .iter()
                .map(|name| Zone {
                    name: (*name).into(),
                    control_plane: None,
                })
                .collect(),
        };
        let mut object = SimulatedCloud::default();
        object.metadata.generation = Some(2);
        object.spec.regions = vec![region("north", &["a", "b"]), region("south", &["c"])];
        let since = |second, status: &str, reason: &str, message: &str| {
            let mut condition = condition(types::READY, status, reason, message);
            condition.last_transition_time = Time(at(second));
            condition.observed_generation = Some(2);
            condition
        };
        let ready = SimulatedCloudStatus {
            zones: Some(3),
            instances: Some(0),
            waiting: Some(0),
            usage: vec![],
            clock: None,
            leaked: Some(0),
            leaked_instances: vec![],
            leaked_load_balancers: vec![],
            cost: None,
            caller_mistakes: vec![],
            paused_spec: None,
            conditions: vec![since(5, "True", "Ready", "")],
        };
        let status = |object: &SimulatedCloud, now| status(object, CloudObservation::default(), now);
        assert_eq!(status(&object, at(5)), ready);
        object.status = Some(ready.clone());
        assert_eq!(status(&object, at(9)), ready);
        object.spec.regions[1].zones[0].name = "b".into();
        let message = "Zone b is listed twice; the first one is used";
        let twice = SimulatedCloudStatus {
            conditions: vec![since(9, "False", "InvalidConfiguration", message)],
            ..ready
        };
        assert_eq!(status(&object, at(9)), twice);
    }

    #[test]
    fn a_cloud_says_how_much_of_its_limits_is_used() {
        let cloud_spec = || nephele_model::ResourceId::cloud("default", "north");
        let quota = |of| Capacity::CloudQuota {
            cloud_spec: cloud_spec(),
            of,
        };
        let stock = |instance_type: Option<&str>| Capacity::Stock {
            cloud_spec: cloud_spec(),
            instance_type: instance_type.map(str::to_owned),
            zone: Some("a".into()),
        };
        let used = |capacity, limit, taken, waiting| CapacityUsage {
            capacity,
            limit,
            taken,
            waiting,
        };
        let limits = vec![
            used(quota(Quota::Instances), 4, 3, 0),
            used(quota(Quota::Processors), 8, 12, 2),
            used(quota(Quota::LoadBalancers), 1, 0, 0),
            used(stock(Some("l")), 2, 2, 3),
            used(stock(None), 9, 3, 0),
        ];
        let object = SimulatedCloud::default();
        let observed = CloudObservation {
            machines: 3,
            limits,
            ..CloudObservation::default()
        };
        let told = status(&object, observed, at(5));
        assert_eq!((told.instances, told.waiting), (Some(3), Some(5)));
        let numbers = told.usage.iter().map(|usage| {
            (
                usage.name.as_str(),
                [usage.limit, usage.used, usage.free, usage.waiting],
            )
        });
        assert_eq!(
            numbers.collect::<Vec<_>>(),
            [
                ("instances", [4, 3, 1, 0]),
                ("vCPUs", [8, 12, 0, 2]),
                ("loadBalancers", [1, 0, 1, 0]),
                ("capacity/l/a", [2, 2, 0, 3]),
                ("capacity/*/a", [9, 3, 6, 0]),
            ]
        );
        let none = status(&object, CloudObservation::default(), at(6));
        let later = SimulatedCloudStatus {
            instances: Some(1),
            ..none.clone()
        };
        assert!(differs_in_numbers_only(Some(&none), &later));
        assert!(!differs_in_numbers_only(Some(&none), &none));
        assert!(!differs_in_numbers_only(None, &none));
        assert!(!differs_in_numbers_only(
            Some(&none),
            &SimulatedCloudStatus {
                zones: Some(9),
                ..later
            }
        ));
    }
}
