//! When to call the cloud again after it refused or delayed an operation, and what users are told.

use std::error::Error;

use nephele_cloud::{CloudError, ErrorClass, Quota, Room};
use nephele_kit::Outcome;

/// When to call again, by the class of the error. Errors that only a change can remove wait for that change.
pub(crate) fn retry(class: ErrorClass) -> Outcome {
    match class {
        ErrorClass::RetryAfter(after) => Outcome::After(after),
        ErrorClass::WaitForChange | ErrorClass::GiveUp => Outcome::WaitingOn("change"),
    }
}

/// The message for users: the error with its causes, and what they can do if there is no room.
pub(crate) fn message(error: &(dyn Error + 'static)) -> String {
    let mut message = nephele_kit::chain(error);
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
    let CloudError::NoRoom { room: Room::CatalogQuota { catalog, of }, .. } = error else { return None };
    let (less, field) = match of {
        Quota::Instances => ("delete machines", "instances"),
        Quota::Processors => ("delete machines", "vCPUs"),
        Quota::LoadBalancers => ("delete clusters", "loadBalancers"),
    };
    Some(format!("{less}, or raise spec.quotas.{field} of SimulatedCloud {}", catalog.name))
}

#[cfg(test)]
mod tests {
    use nephele_cloud::{CallError, ResourceId};

    use super::*;

    #[test]
    fn whoever_waits_for_room_is_told_what_would_make_room() {
        let told = |of, limit, amount| {
            let room = Room::CatalogQuota { catalog: ResourceId::catalog("default", "north"), of };
            let source = CloudError::NoRoom { room, limit, amount, is_kept: false };
            message(&CallError::Refused { verb: "CreateInstance", source })
        };
        let expected = [
            "the cloud refused CreateInstance: quota of 2 instances is used up; delete machines, or raise \
             spec.quotas.instances of SimulatedCloud north",
            "the cloud refused CreateInstance: quota of 8 vCPUs has no room for 4 more; delete machines, or raise \
             spec.quotas.vCPUs of SimulatedCloud north",
            "the cloud refused CreateInstance: quota of 1 load balancers is used up; delete clusters, or raise \
             spec.quotas.loadBalancers of SimulatedCloud north",
        ];
        let quotas = [(Quota::Instances, 2, 1), (Quota::Processors, 8, 4), (Quota::LoadBalancers, 1, 1)];
        assert_eq!(quotas.map(|(of, limit, amount)| told(of, limit, amount)), expected);
        let unknown =
            CallError::Refused { verb: "CreateInstance", source: CloudError::UnknownZone("z".into()) };
        assert_eq!(message(&unknown), "the cloud refused CreateInstance: zone \"z\" does not exist");
    }
}
