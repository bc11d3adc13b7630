//! Reads that do not show a change yet.
//!
//! ```text
//!   a creation, in a cloud with a lag ──▶ hidden for that long after the creation
//!   an operation, hit by a fault that lags ──▶ what it changed is hidden for as long as was drawn
//!                  │ the longer one decides
//!                  ▼
//!   Describe ──▶ NotVisibleYet, and if the caller made the change itself, a finding
//! ```

use std::time::Duration;

use nephele_model::{CloudError, HiddenBy, ResourceId, Verb};

use super::Engine;
use crate::{fault::Lag, operation::Operation, outcome::Outcome, read_after_write::HiddenWrite};

/// Why a read does not show something, and for how long.
struct Reason {
    lag: Duration,
    left: Duration,
    /// Whether the reader made the change itself.
    is_own: bool,
    by: Option<Box<HiddenBy>>,
}

impl Engine {
    /// Answers a read. Right after a change, it may not show yet.
    pub(crate) fn describe(&mut self, operation: &Operation, id: &ResourceId) -> Result<Outcome, CloudError> {
        let now = operation.at;
        let caller = operation.caller.as_str();
        let found = self.resources.get(id);
        let since_creation = found.map(|found| {
            let cloud_spec = self.clouds.cloud_spec(&found.spec.cloud_id());
            let lag = cloud_spec.map_or(Duration::ZERO, |cloud_spec| cloud_spec.api.read_after_write_lag);
            let left = lag.saturating_sub(now.since(found.created));
            let is_own = found.creator == caller;
            Reason {
                lag,
                left,
                is_own,
                by: None,
            }
        });
        let mut of_cloud = found.map(|found| found.spec.cloud_id());
        let mut reasons: Vec<_> = since_creation.into_iter().collect();
        for (fault, hidden) in self.faults.hidden(id, now) {
            let HiddenWrite {
                operation,
                caller: writer,
                cloud_spec,
                lag,
                until,
            } = hidden;
            let by = Some(Box::new(HiddenBy {
                fault: fault.to_owned(),
                operation: *operation,
            }));
            of_cloud.get_or_insert_with(|| ResourceId::cloud(&id.namespace, cloud_spec));
            reasons.push(Reason {
                lag: *lag,
                left: until.since(now),
                is_own: writer == caller,
                by,
            });
        }
        reasons.retain(|reason| !reason.left.is_zero());
        if reasons.iter().any(|reason| reason.is_own)
            && let Some(cloud_spec) = of_cloud
        {
            self.note_caller_mistake(&cloud_spec, caller, |caller_mistakes| {
                caller_mistakes.missed_reads += 1;
            });
        }
        match reasons.into_iter().max_by_key(|reason| reason.left) {
            Some(Reason {
                lag,
                left: visible_in,
                by,
                ..
            }) => Err(CloudError::NotVisibleYet {
                id: Box::new(id.clone()),
                lag,
                visible_in,
                by,
            }),
            None if self.resources.contains_key(id) => Ok(Outcome::Accepted),
            None => Err(CloudError::NotFound(id.clone())),
        }
    }

    /// Hides what an operation that was carried out has changed.
    pub(crate) fn hide(&mut self, operation: &Operation, verb: Verb, cloud_spec: String, lag: Lag) {
        let id = operation.request.target();
        let caller = operation.caller.clone();
        let Lag { fault, lasts } = lag;
        let hidden = HiddenWrite {
            operation: verb,
            caller,
            cloud_spec,
            lag: lasts,
            until: operation.at + lasts,
        };
        self.faults
            .hide(&ResourceId::fault(&id.namespace, fault), id, hidden);
    }
}
