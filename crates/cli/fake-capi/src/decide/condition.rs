//! The conditions that Cluster API's objects have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use nephele_api::conditions;

/// A condition with a reason as those of Cluster API's summaries have it.
pub(super) fn condition(kind: &str, holds: bool, message: &str) -> Condition {
    // The reasons of Cluster API's summary conditions: the type, with Not in front of it when the status is false.
    let (status, reason) = if holds {
        (conditions::TRUE, kind.to_owned())
    } else {
        (conditions::FALSE, format!("Not{kind}"))
    };
    conditions::condition(kind, status, &reason, if holds { "" } else { message })
}

/// A condition that says what the condition `of` of another object says, as Cluster API mirrors it.
pub(super) fn mirrored(kind: &str, of: &str, holds: bool, message: &str) -> Condition {
    Condition {
        type_: kind.to_owned(),
        ..condition(of, holds, message)
    }
}
