//! When to call the cloud again after it refused or delayed an operation, and what users are told.

use std::error::Error;

use nephele_controller::Outcome;
use nephele_model::{Capacity, CloudError, ErrorClass, Quota};

/// When to call again, by the class of the error. Errors that only a change can remove wait for that change.
pub(crate) fn retry(class: ErrorClass) -> Outcome {
    match class {
        ErrorClass::RetryAfter(after) => Outcome::After(after),
        ErrorClass::WaitForChange | ErrorClass::GiveUp => Outcome::WaitingOn("change"),
    }
}

/// The message for users: the error with its causes, and what they can do if there is no room.
pub(crate) fn message(error: &(dyn Error + 'static)) -> String {
    let mut message = nephele_controller::chain(error);
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(advice) = error.downcast_ref().and_then(advice) {
            message = format!("{message}; {advice}");
        }
        cause = error.source();
    }
    message
}

/// What users can do about a refusal.
fn advice(error: &CloudError) -> Option<String> {
    let CloudError::NoCapacity { capacity, .. } = error else {
        return None;
    };
    let (cloud_spec, less, field) = match &**capacity {
        Capacity::CloudQuota {
            cloud_spec,
            of: Quota::Instances,
        } => (cloud_spec, "delete machines", "quotas.instances"),
        Capacity::CloudQuota {
            cloud_spec,
            of: Quota::Processors,
        } => (cloud_spec, "delete machines", "quotas.vCPUs"),
        Capacity::CloudQuota {
            cloud_spec,
            of: Quota::LoadBalancers,
        } => (cloud_spec, "delete clusters", "quotas.loadBalancers"),
        Capacity::Stock { cloud_spec, .. } => (
            cloud_spec,
            "use another instance type or failure domain",
            "capacity",
        ),
        Capacity::Quota { .. } | Capacity::Zone(_) => return None,
    };
    Some(format!(
        "{less}, or raise spec.{field} of SimulatedCloud {}",
        cloud_spec.name
    ))
}

#[cfg(test)]
mod tests {
    use nephele_cloud::CallError;
    use nephele_model::ResourceId;

    use super::*;

    #[test]
    fn whoever_waits_for_room_is_told_what_would_make_room() {
        let cloud_spec = || ResourceId::cloud("default", "north");
        let quota = |of| Capacity::CloudQuota {
            cloud_spec: cloud_spec(),
            of,
        };
        let stock = Capacity::Stock {
            cloud_spec: cloud_spec(),
            instance_type: Some("l".into()),
            zone: Some("a".into()),
        };
        for (capacity, limit, amount, expected) in [
            (
                quota(Quota::Instances),
                2,
                1,
                "quota of 2 instances is used up; delete machines, or raise spec.quotas.instances",
            ),
            (
                quota(Quota::Processors),
                8,
                4,
                "quota of 8 vCPUs has no room for 4 more; delete machines, or raise spec.quotas.vCPUs",
            ),
            (
                quota(Quota::LoadBalancers),
                1,
                1,
                "quota of 1 load balancers is used up; delete clusters, or raise spec.quotas.loadBalancers",
            ),
            (
                stock,
                3,
                1,
                "stock of 3 instances of type l in zone a is used up; use another instance type or failure domain, \
                 or raise spec.capacity",
            ),
        ] {
            let source = CloudError::NoCapacity {
                capacity: Box::new(capacity),
                limit,
                amount,
                is_kept: false,
            };
            let told = message(&CallError::Refused {
                verb: "CreateInstance",
                source,
            });
            assert_eq!(
                told,
                format!("the cloud refused CreateInstance: {expected} of SimulatedCloud north")
            );
        }
        let unknown = CallError::Refused {
            verb: "CreateInstance",
            source: CloudError::UnknownZone("z".into()),
        };
        assert_eq!(
            message(&unknown),
            "the cloud refused CreateInstance: zone \"z\" does not exist"
        );
    }
}
