use std::{collections::BTreeMap, sync::Arc, time::Duration};

use nephele_controller::Readiness;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};

use super::call::Call;

/// How often a missing permission is logged again.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// A refused call that was not repeated for this long is forgotten: its object is gone. A failing reconcile is repeated
/// every minute at the latest, a watch more often.
const FORGET_AFTER: Duration = Duration::from_mins(15);
/// The most refused calls that are tracked. Further calls are logged only: 1024 others already keep the manager from
/// being ready.
const REFUSED_MAX: usize = 1024;

/// Tracks missing permissions. Each closes a readiness gate with its name, which keeps the manager from being ready. The
/// calls are from the table of what the manager does by itself, so the number of gates is bounded by it.
#[derive(Clone)]
pub(crate) struct Permissions {
    readiness: Readiness,
    refused: Arc<Mutex<BTreeMap<Call, Refusal>>>,
}

struct Refusal {
    at: Instant,
    told: Instant,
}

impl Permissions {
    pub(crate) fn new(readiness: Readiness) -> Self {
        Self {
            readiness,
            refused: Arc::default(),
        }
    }

    /// Records that no role allows this call.
    pub(crate) fn refused(&self, call: Call, message: &str) {
        let now = Instant::now();
        let mut refused = self.refused.lock();
        self.forget(&mut refused, now);
        let told = refused.get(&call).map(|refusal| refusal.told);
        let tell = told.is_none_or(|told| now.duration_since(told) >= TELL_EVERY);
        if tell {
            warn!(
                verb = call.verb,
                group = call.group,
                resource = call.resource,
                namespace = call.namespace.as_deref().unwrap_or_default(),
                answer = message,
                "Missing permission to {call}; not ready before a role grants it"
            );
        }
        if told.is_some() || refused.len() < REFUSED_MAX {
            self.readiness.gate(gate(&call)).close();
            let told = told.filter(|_| !tell).unwrap_or(now);
            refused.insert(call, Refusal { at: now, told });
        }
    }

    /// Records that the API server served this call, or refused it for another reason than a missing role.
    pub(crate) fn permitted(&self, call: &Call) {
        let mut refused = self.refused.lock();
        if refused.is_empty() {
            return;
        }
        self.forget(&mut refused, Instant::now());
        if refused.remove(call).is_some() {
            info!("Got permission to {call}");
            self.open_unless_refused(&refused, call);
        }
    }

    fn forget(&self, refused: &mut BTreeMap<Call, Refusal>, now: Instant) {
        let old = |refusal: &Refusal| now.duration_since(refusal.at) >= FORGET_AFTER;
        let forgotten: Vec<Call> = refused
            .iter()
            .filter(|(_, refusal)| old(refusal))
            .map(|(call, _)| call.clone())
            .collect();
        for call in forgotten {
            refused.remove(&call);
            self.open_unless_refused(refused, &call);
        }
    }

    /// Opens the gate of a call, unless the same call is still refused in another namespace.
    fn open_unless_refused(&self, refused: &BTreeMap<Call, Refusal>, call: &Call) {
        let gate = gate(call);
        if refused.keys().all(|other| self::gate(other) != gate) {
            self.readiness.gate(gate).open();
        }
    }
}

fn gate(call: &Call) -> String {
    format!("permission to {call}")
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn call(resource: &str, namespace: &str) -> Call {
        let namespace = Some(namespace.to_owned());
        Call {
            verb: "create",
            group: String::new(),
            resource: resource.to_owned(),
            namespace,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn not_ready_until_the_permission_is_there_in_every_namespace() {
        let readiness = Readiness::default();
        let permissions = Permissions::new(readiness.clone());
        permissions.permitted(&call("secrets", "a"));
        assert_eq!(readiness.states(), []);
        for namespace in ["a", "b"] {
            permissions.refused(call("secrets", namespace), "no");
        }
        permissions.permitted(&call("events", "a"));
        assert_eq!(readiness.waiting(), ["permission to create secrets"]);
        permissions.permitted(&call("secrets", "a"));
        assert_eq!(readiness.waiting(), ["permission to create secrets"]);
        permissions.permitted(&call("secrets", "b"));
        assert_eq!(readiness.waiting(), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_asked_for_any_more_is_forgotten() {
        let readiness = Readiness::default();
        let permissions = Permissions::new(readiness.clone());
        permissions.refused(call("secrets", "a"), "no");
        advance(FORGET_AFTER - Duration::from_secs(1)).await;
        permissions.permitted(&call("events", "a"));
        assert_eq!(readiness.waiting(), ["permission to create secrets"]);
        advance(Duration::from_secs(1)).await;
        permissions.permitted(&call("events", "a"));
        assert_eq!(readiness.waiting(), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_a_bound_on_what_is_kept() {
        let readiness = Readiness::default();
        let permissions = Permissions::new(readiness.clone());
        for number in 0..=REFUSED_MAX {
            permissions.refused(call("secrets", &number.to_string()), "no");
        }
        assert_eq!(permissions.refused.lock().len(), REFUSED_MAX);
        assert_eq!(readiness.waiting(), ["permission to create secrets"]);
    }
}
