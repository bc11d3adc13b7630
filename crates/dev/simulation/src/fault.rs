//! Faults of the cloud in a world.

use std::ops::Range;

use nephele_api::labels;
use nephele_model::{BootstrapPhase, Caller, FailureReason, Stage, Verb};
use serde_json::{Value, json};

/// The spec of a Fault. See [`crate::scenario::Step::Fault`] for the numbers.
pub(crate) fn spec(operation: u8, effect: u8, percent: u8, count: u8, seconds: u8) -> Value {
    let (effect, is_of_machines) = self::effect(effect, seconds);
    // An operation that changes nothing cannot show late.
    let is_late_read = |name: &str| effect.get("lag").is_some() && name.starts_with("Describe");
    let operations: Vec<_> = match effect.get("leak") {
        // Only instances leak by default.
        Some(_) if percent.is_multiple_of(2) => vec!["DeleteInstance", "DeleteLoadBalancer"],
        Some(_) => Vec::new(),
        None => {
            let chosen = Verb::ALL.get(usize::from(operation)).map(|verb| verb.as_str());
            chosen
                .into_iter()
                .filter(|name| !is_of_machines && !is_late_read(name))
                .collect()
        }
    };
    // Nothing in a world replaces a control plane machine whose instance is gone.
    let workers =
        json!({ "matchExpressions": [{ "key": labels::CONTROL_PLANE, "operator": "DoesNotExist" }] });
    // A machine that is gone is replaced at once, and its successor would be gone at once, too: thousands of times.
    let ends_machines = ["vanish", "spotReclaim"]
        .iter()
        .any(|name| effect.get(name).is_some());
    let count = if ends_machines && count == 0 { 20 } else { count };
    // Some Faults are about one caller, and some come and go while they last.
    let caller = Caller::ALL
        .get(usize::from(percent % 8))
        .filter(|_| !is_of_machines);
    let schedule = percent.is_multiple_of(3).then(|| {
        let window = 1 + seconds / 8;
        json!({ "every": format!("{}s", 2 * window + 1), "for": format!("{window}s"), "offset": format!("{}s", count % 3) })
    });
    json!({
        "match": {
            "operations": operations,
            "callers": caller.into_iter().collect::<Vec<_>>(),
            "machineSelector": effect.get("vanish").or(effect.get("spotReclaim")).map(|_| workers),
        },
        "effect": effect,
        "budget": {
            "probability": if percent < 100 { format!("0.{percent:02}") } else { "1".to_owned() },
            "count": (count > 0).then_some(count),
            "for": format!("{seconds}s"),
            "schedule": schedule,
        },
    })
}

/// Whether a Fault with this number of an operation is one of all namespaces, by a ClusterFault.
pub(crate) fn is_everywhere(operation: u8) -> bool {
    operation >= 12
}

/// The number of an effect, by its field.
pub(crate) fn number_of(name: &str) -> u8 {
    let is_it = |number: &u8| effect(*number, 0).0.get(name).is_some();
    (0..=u8::MAX).find(is_it).expect("worlds draw the effect")
}

/// The numbers of the effects on addresses, which have no operations either.
pub(crate) const OF_ADDRESSES: Range<u8> = 39..43;

/// The number of effects.
pub(crate) const EFFECTS: u8 = 48;

/// An effect, and whether it is one on machines or addresses.
fn effect(number: u8, seconds: u8) -> (Value, bool) {
    // Before, while and after machines boot.
    let retry_after = ["1s", "7s", "40s"][usize::from(seconds) % 3];
    if let Some(reason) = FailureReason::ALL.get(usize::from(number)) {
        return (
            json!({ "fail": { "reason": reason, "retryAfter": retry_after } }),
            false,
        );
    }
    let on_machines = [
        json!({ "outage": { "retryAfter": "1s" } }),
        json!({ "notReady": {} }),
        json!({ "nodeCondition": { "type": "DiskPressure", "status": "True" } }),
        json!({ "freeze": {} }),
        json!({ "vanish": {} }),
        json!({ "apiServer": { "down": {} } }),
        json!({ "apiServer": { "error": { "code": 500, "probability": "0.5" } } }),
        json!({ "apiServer": { "latency": { "duration": "3s", "jitter": "1" } } }),
        json!({ "apiServer": { "cutWatches": { "after": "2s" } } }),
        json!({ "etcd": { "noLeader": {} } }),
        json!({ "etcd": { "alarm": "NoSpace" } }),
    ];
    let holds = Stage::ALL.map(|stage| json!({ "hold": { "stage": stage.as_str() } }));
    let phase = BootstrapPhase::ALL[usize::from(seconds) % BootstrapPhase::ALL.len()];
    let newer = [
        json!({ "wrongProviderID": {} }),
        json!({ "flap": { "up": "7s", "down": "3s" } }),
        json!({ "certificate": { "expired": {} } }),
        json!({ "certificate": { "expiresIn": "72h" } }),
        json!({ "loadBalancer": { "noBackends": {} } }),
        json!({ "loadBalancer": { "wrongBackends": {} } }),
        json!({ "loadBalancer": { "reset": { "after": "4s", "probability": "0.5" } } }),
        json!({ "etcd": { "slow": { "duration": "2s", "jitter": "1" } } }),
        json!({ "etcd": { "hiddenMember": {} } }),
        json!({ "bootstrap": { "failedPhase": phase.as_str() } }),
        json!({ "clockSkew": { "behind": format!("{seconds}m") } }),
        json!({ "apiServer": { "staleReads": {} } }),
        // A leak affects deletions.
        json!({ "leak": {} }),
        json!({ "spotReclaim": { "notice": format!("{}s", seconds % 40) } }),
        // Nor has a creation that is carried out twice.
        json!({ "duplicate": { "retryAfter": retry_after } }),
    ];
    let of_addresses = [
        json!({ "slow": { "duration": format!("{}s", seconds / 2), "jitter": "1" } }),
        json!({ "exhausted": {} }),
        json!({ "conflict": {} }),
        json!({ "lateRelease": { "duration": format!("{seconds}s") } }),
    ];
    let of_addresses = of_addresses.map(|effect| json!({ "addresses": effect }));
    let newest =
        [json!({ "nodeRebootsAs": { "nameSuffix": "-2", "downFor": format!("{}s", seconds % 20) } })];
    let mut on_machines = on_machines
        .into_iter()
        .chain(holds)
        .chain(newer)
        .chain(of_addresses)
        .chain(newest);
    match on_machines.nth(usize::from(number) - FailureReason::ALL.len()) {
        Some(effect) => (effect, true),
        None if number.is_multiple_of(2) => (json!({ "delay": { "duration": "5s", "jitter": "1" } }), false),
        None => (json!({ "lag": { "duration": "5s", "jitter": "1" } }), false),
    }
}

#[cfg(test)]
mod tests {
    use nephele_api::cloud::v1alpha1::FaultSpec;

    use super::*;

    #[test]
    fn effects_on_addresses_have_the_numbers_that_stories_use() {
        for number in 0..EFFECTS {
            let spec: FaultSpec = serde_json::from_value(spec(0, number, 50, 0, 20)).expect("a spec");
            assert_eq!(
                spec.effect.is_some_and(|effect| effect.is_of_addresses()),
                OF_ADDRESSES.contains(&number),
                "{number}"
            );
        }
    }
}
