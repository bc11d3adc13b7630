//! `SimulatedCloud`: sends its catalog to the cloud, and reports whether it is valid and how many zones it has. It has
//! no finalizer: the next reconcile that looks for a deleted SimulatedCloud removes its catalog from the cloud.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt as _;
use nephele_api::cloud::v1alpha1::{SimulatedCloud, SimulatedCloudSpec, SimulatedCloudStatus};
use nephele_api::conditions::{self, condition, reasons, types};
use nephele_kit::{Outcome, paused};

use crate::catalogs;
use crate::context::Context;
use crate::report::{self, Report, StatusError};

/// Sends the catalog to the cloud and reports the status of the SimulatedCloud.
pub(crate) async fn reconcile(
    object: Arc<SimulatedCloud>,
    context: Arc<Context>,
) -> Result<Outcome, StatusError> {
    catalogs::tell(&context, &object.namespace().unwrap_or_default(), &object.name_any());
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(Outcome::Done);
    }
    if paused(&*object, None).is_some() {
        return Ok(Outcome::WaitingOn("unpaused"));
    }
    let mut reported = SimulatedCloud::clone(&object);
    reported.status = Some(status(&object, context.now()));
    report::write_status(&*object, &reported, &context, "SimulatedCloud").await
}

fn status(object: &SimulatedCloud, now: Timestamp) -> SimulatedCloudStatus {
    let mut report = Report::on(object, now);
    report.status.zones = Some(i32::try_from(object.spec.zones().count()).unwrap_or(i32::MAX));
    report.set(match zone_used_twice(&object.spec) {
        None => condition(types::READY, conditions::TRUE, reasons::READY, ""),
        Some(zone) => {
            let message = format!("Zone {zone} is listed twice; the first one is used");
            condition(types::READY, conditions::FALSE, reasons::INVALID_CONFIGURATION, message)
        }
    });
    report.status
}

/// A zone that is listed twice. The schema refuses it; this is for objects that got past the schema.
fn zone_used_twice(spec: &SimulatedCloudSpec) -> Option<&str> {
    let mut seen = BTreeSet::new();
    spec.zones().map(|(_, zone)| zone.name.as_str()).find(|name| !seen.insert(*name))
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
            zones: zones.iter().map(|name| Zone { name: (*name).into(), control_plane: None }).collect(),
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
        let ready = SimulatedCloudStatus { zones: Some(3), conditions: vec![since(5, "True", "Ready", "")] };
        assert_eq!(status(&object, at(5)), ready);
        object.status = Some(ready.clone());
        assert_eq!(status(&object, at(9)), ready);
        object.spec.regions[1].zones[0].name = "b".into();
        let message = "Zone b is listed twice; the first one is used";
        let twice = SimulatedCloudStatus {
            zones: Some(3),
            conditions: vec![since(9, "False", "InvalidConfiguration", message)],
        };
        assert_eq!(status(&object, at(9)), twice);
    }
}
