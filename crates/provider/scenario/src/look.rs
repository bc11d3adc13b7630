//! Whether something is seen in what was read. Pure.

use nephele_api::{
    conditions,
    core::{Cluster, Machine},
};
use serde_json::Value;

use crate::{plan::Look, script::Wanted};

/// How many machines a message names.
const NAMED_MAX: usize = 3;

/// Looks at a condition of a Cluster.
pub(crate) fn at_cluster(name: &str, cluster: Option<&Cluster>, kind: &str, wanted: &str) -> Look {
    let Some(cluster) = cluster else {
        return Look::NotMet(format!("there is no Cluster {name}"));
    };
    let list = cluster
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let Some(found) = conditions::find(list, kind) else {
        return Look::NotMet(format!("Cluster {name} has no condition {kind}"));
    };
    let message = found.message.split_whitespace().collect::<Vec<_>>().join(" ");
    let details = [found.reason.as_str(), message.as_str()]
        .into_iter()
        .filter(|text| !text.is_empty());
    let details = details.collect::<Vec<_>>().join(": ");
    let mut seen = format!("{kind} of Cluster {name} is {}", found.status);
    if found.status == wanted {
        return Look::Met(seen);
    }
    if !details.is_empty() {
        seen = format!("{seen} ({details})");
    }
    Look::NotMet(seen)
}

/// Counts Machines: all of the list, or those in this phase.
pub(crate) fn at_machines(machines: &[Machine], phase: Option<&str>, wanted: Wanted) -> Look {
    let phase_of = |machine: &Machine| {
        let phase = machine
            .status
            .as_ref()
            .map(|status| status.phase.clone())
            .unwrap_or_default();
        if phase.is_empty() {
            "Unknown".to_owned()
        } else {
            phase
        }
    };
    let Some(phase) = phase else {
        return told(
            machines.len(),
            wanted,
            format!("there are {} machines", machines.len()),
            Vec::new(),
        );
    };
    let (matching, others): (Vec<_>, Vec<_>) =
        machines.iter().partition(|machine| phase_of(machine) == phase);
    let name = |machine: &Machine| machine.metadata.name.clone().unwrap_or_default();
    // Those who keep the number from being the wanted one: too few are told by the others, too many by themselves.
    let is_short = match wanted {
        Wanted::Exactly(number) | Wanted::AtLeast(number) => matching.len() < number,
        Wanted::AtMost(_) => false,
    };
    let mut named: Vec<_> = match is_short {
        true => others
            .iter()
            .map(|machine| format!("{} is {}", name(machine), phase_of(machine)))
            .collect(),
        false => matching
            .iter()
            .map(|machine| format!("{} is {phase}", name(machine)))
            .collect(),
    };
    named.sort();
    told(
        matching.len(),
        wanted,
        format!("{} of {} machines are {phase}", matching.len(), machines.len()),
        named,
    )
}

fn told(number: usize, wanted: Wanted, seen: String, mut named: Vec<String>) -> Look {
    if wanted.is_met(number) {
        return Look::Met(seen);
    }
    let mut message = format!("{seen}, not {wanted}");
    let more = named.len().saturating_sub(NAMED_MAX);
    named.truncate(NAMED_MAX);
    if !named.is_empty() {
        message = format!("{message}; {}", named.join(", "));
    }
    if more > 0 {
        message = format!("{message}, and {more} more");
    }
    Look::NotMet(message)
}

/// Looks at a field of an object. `called` is its kind and name.
pub(crate) fn at_field(called: &str, object: Option<&Value>, field: &str, wanted: &str) -> Look {
    let Some(object) = object else {
        return Look::NotMet(format!("there is no {called}"));
    };
    let found = field.split('.').try_fold(object, |value, name| value.get(name));
    let text = match found {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
        Some(Value::Array(_) | Value::Object(_)) => {
            return Look::NotMet(format!("{field} of {called} is a list or an object"));
        }
    };
    match text == wanted {
        true => Look::Met(format!("{field} of {called} is {text:?}")),
        false => Look::NotMet(format!("{field} of {called} is {text:?}, not {wanted:?}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(name: &str, phase: &str) -> Machine {
        serde_json::from_value(
            json!({ "metadata": { "name": name }, "spec": {}, "status": { "phase": phase } }),
        )
        .expect("a Machine")
    }

    #[test]
    fn what_is_missing_is_named() {
        let machines = [
            machine("a", "Running"),
            machine("c", "Pending"),
            machine("b", "Provisioning"),
        ];
        let look = |phase, wanted| at_machines(&machines, phase, wanted);
        assert_eq!(
            look(Some("Running"), Wanted::Exactly(1)),
            Look::Met("1 of 3 machines are Running".into())
        );
        assert_eq!(
            look(None, Wanted::AtMost(3)),
            Look::Met("there are 3 machines".into())
        );
        assert_eq!(
            look(None, Wanted::AtLeast(4)),
            Look::NotMet("there are 3 machines, not 4 or more".into())
        );
        assert_eq!(
            look(Some("Running"), Wanted::Exactly(3)),
            Look::NotMet("1 of 3 machines are Running, not 3; b is Provisioning, c is Pending".into())
        );
        assert_eq!(
            look(Some("Running"), Wanted::AtMost(0)),
            Look::NotMet("1 of 3 machines are Running, not 0 or fewer; a is Running".into())
        );
        let many: Vec<_> = (0..9).map(|number| machine(&format!("m{number}"), "")).collect();
        assert_eq!(
            at_machines(&many, Some("Running"), Wanted::AtLeast(1)),
            Look::NotMet(
                "0 of 9 machines are Running, not 1 or more; m0 is Unknown, m1 is Unknown, m2 is Unknown, and 6 more"
                    .into()
            )
        );
    }

    #[test]
    fn a_condition_that_differs_says_why() {
        let conditions = json!([{
            "type": "Available", "status": "False", "reason": "NotAvailable", "message": "* RemoteConnectionProbe:\n  * failed",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]);
        let cluster: Cluster = serde_json::from_value(
            json!({ "metadata": {}, "spec": {}, "status": { "conditions": conditions } }),
        )
        .expect("a Cluster");
        let look = |kind, status| at_cluster("demo", Some(&cluster), kind, status);
        assert_eq!(
            look("Available", "False"),
            Look::Met("Available of Cluster demo is False".into())
        );
        assert_eq!(
            look("Available", "True"),
            Look::NotMet(
                "Available of Cluster demo is False (NotAvailable: * RemoteConnectionProbe: * failed)".into()
            )
        );
        assert_eq!(
            look("Ready", "True"),
            Look::NotMet("Cluster demo has no condition Ready".into())
        );
        let nothing = at_cluster("demo", None, "Available", "True");
        assert_eq!(nothing, Look::NotMet("there is no Cluster demo".into()));
    }

    #[test]
    fn a_field_is_compared_as_text() {
        let object =
            json!({ "spec": { "paused": true, "list": [] }, "status": { "replicas": 3, "phase": "Bound" } });
        let look = |field, wanted| at_field("Thing a", Some(&object), field, wanted);
        for (field, value) in [
            ("status.replicas", "3"),
            ("spec.paused", "true"),
            ("status.phase", "Bound"),
            ("status.none.none", ""),
        ] {
            assert_eq!(
                look(field, value),
                Look::Met(format!("{field} of Thing a is {value:?}"))
            );
        }
        assert_eq!(
            look("status.replicas", "4"),
            Look::NotMet("status.replicas of Thing a is \"3\", not \"4\"".into())
        );
        assert_eq!(
            look("spec.list", ""),
            Look::NotMet("spec.list of Thing a is a list or an object".into())
        );
        assert_eq!(
            at_field("Thing a", None, "spec", ""),
            Look::NotMet("there is no Thing a".into())
        );
    }
}
