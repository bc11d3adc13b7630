//! The status of a Fault, as far as it does not depend on what the Fault hits. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use nephele_api::{
    cloud::v1alpha1::{Fault, FaultHit, FaultStatus},
    conditions::{self, condition, reasons, types},
};
use nephele_model::FaultPhase;

use crate::in_force::resumed;

/// What a Fault has done.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Whether it can still hit.
    pub phase: FaultPhase,
    pub began: Timestamp,
    /// How much it has matched while it was active.
    pub matched: u64,
    /// How much of that it has hit.
    pub hits: u64,
    /// How many windows of its schedule have begun.
    pub windows: u64,
    /// The last hits of this process, the newest first.
    pub last_hits: Vec<FaultHit>,
}

/// The length of the list in the schema.
const HITS_MAX: usize = 10;

/// The status of a Fault that is not paused. The progress is an error with the Fault's mistake if it cannot be carried
/// out, and none if none knows the Fault yet.
#[must_use]
pub fn status(object: &Fault, progress: Result<Option<Progress>, String>, now: Timestamp) -> FaultStatus {
    let mut status = object.status.clone().unwrap_or_default();
    resumed(object, &mut status, now);
    let mut set = |condition: Condition| {
        let condition = Condition {
            observed_generation: object.metadata.generation,
            ..condition
        };
        conditions::set(&mut status.conditions, condition, now);
    };
    let progress = match progress {
        Ok(progress) => progress,
        Err(message) => {
            set(condition(
                types::READY,
                conditions::FALSE,
                reasons::INVALID_CONFIGURATION,
                message,
            ));
            status.phase = "Invalid".to_owned();
            return status;
        }
    };
    // A selector with a typing mistake matches nothing, and looks like a fault whose time has not come.
    let is_idle = progress.as_ref().is_some_and(|progress| progress.matched == 0);
    let message = if is_idle {
        "Nothing has matched it so far"
    } else {
        ""
    };
    set(condition(types::READY, conditions::TRUE, reasons::READY, message));
    let Some(Progress {
        phase,
        began,
        matched,
        hits,
        windows,
        mut last_hits,
    }) = progress
    else {
        return status;
    };
    status.phase = match phase {
        FaultPhase::Active => "Active",
        FaultPhase::Waiting => "Waiting",
        FaultPhase::Exhausted => "Exhausted",
        FaultPhase::Expired => "Expired",
    }
    .to_owned();
    status.start_time = Some(MicroTime(began));
    status.matched = Some(saturated(matched));
    let has_schedule = object.spec.budget.schedule.is_some();
    status.windows = has_schedule.then(|| saturated(windows));
    status.hits = Some(saturated(hits));
    // After a restart only the status knows earlier hits.
    let known = std::mem::take(&mut status.last_hits);
    let earlier: Vec<_> = known
        .into_iter()
        .filter(|known| last_hits.iter().all(|hit| hit != known))
        .collect();
    last_hits.extend(earlier);
    last_hits.truncate(HITS_MAX);
    status.last_hits = last_hits;
    status
}

fn saturated(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number of a status. One that is missing or negative is 0.
#[must_use]
pub fn number(value: Option<i64>) -> u64 {
    value
        .and_then(|value| u64::try_from(value).ok())
        .unwrap_or_default()
}

/// Whether a status differs from the one before in what was counted, and in nothing else.
pub(crate) fn differs_in_numbers_only(before: Option<&FaultStatus>, status: &FaultStatus) -> bool {
    let Some(before) = before else { return false };
    let FaultStatus {
        matched,
        hits,
        last_hits,
        ..
    } = status.clone();
    before != status
        && FaultStatus {
            matched,
            hits,
            last_hits,
            ..before.clone()
        } == *status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(matched: u64, hits: u64) -> Progress {
        let began = Timestamp::UNIX_EPOCH;
        Progress {
            phase: FaultPhase::Active,
            began,
            matched,
            hits,
            windows: 0,
            last_hits: vec![FaultHit::default()],
        }
    }

    #[test]
    fn a_change_of_the_phase_or_of_a_condition_is_more_than_numbers() {
        let of = |progress| status(&Fault::default(), Ok(Some(progress)), Timestamp::UNIX_EPOCH);
        let first = of(seen(3, 1));
        let more = of(seen(4, 2));
        let over = FaultStatus {
            phase: "Expired".into(),
            ..more.clone()
        };
        // Its condition says that nothing has matched it.
        let idle = of(seen(0, 0));
        let cases = [
            (Some(&first), &more),
            (None, &first),
            (Some(&first), &first),
            (Some(&first), &over),
            (Some(&idle), &first),
        ];
        let differ = cases.map(|(before, after)| differs_in_numbers_only(before, after));
        assert_eq!(differ, [true, false, false, false, false]);
    }
}
