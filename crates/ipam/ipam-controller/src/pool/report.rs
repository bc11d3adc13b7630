//! The status of a pool, computed from the state of its task. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use nephele_api::{
    conditions::{self, condition, types},
    ipam::{
        conditions as reasons,
        conditions::types::OVERLAPPING,
        v1alpha2::{IPAddressCounts, PendingAllocation, PoolStatus},
    },
};

use super::allocations::{Names, Troubles};

/// The input of the status.
#[derive(Debug, Clone)]
pub(super) struct Report {
    pub(super) counts: IPAddressCounts,
    pub(super) pending: Vec<PendingAllocation>,
    pub(super) deleting: bool,
    pub(super) troubles: Troubles,
    /// The names of the pools that overlap this one; none if overlaps are not looked for.
    pub(super) overlaps: Option<Vec<String>>,
}

/// The new status.
pub(super) fn status(
    mut status: PoolStatus,
    report: Report,
    generation: Option<i64>,
    now: Timestamp,
) -> PoolStatus {
    let mut set = |condition: Condition| {
        let condition = Condition {
            observed_generation: generation,
            ..condition
        };
        conditions::set(&mut status.conditions, condition, now);
    };
    set(ready_condition(&report));
    match &report.overlaps {
        Some(others) if !others.is_empty() => {
            let message = format!("has addresses in common with {}", others.join(", "));
            set(condition(
                OVERLAPPING,
                conditions::TRUE,
                reasons::ADDRESSES_IN_COMMON,
                message,
            ));
        }
        Some(_) | None => status
            .conditions
            .retain(|condition| condition.type_ != OVERLAPPING),
    }
    status.ip_addresses = Some(report.counts);
    status.pending = report.pending;
    status.observed_generation = generation;
    status
}

/// The status of a pool that is paused: only a condition tells of it, and the rest stays until the pool is resumed.
pub(super) fn paused(
    mut status: PoolStatus,
    message: String,
    generation: Option<i64>,
    now: Timestamp,
) -> PoolStatus {
    if !conditions::is_true(&status.conditions, types::PAUSED) {
        let paused = condition(
            types::PAUSED,
            conditions::TRUE,
            conditions::reasons::PAUSED,
            message,
        );
        let paused = Condition {
            observed_generation: generation,
            ..paused
        };
        conditions::set(&mut status.conditions, paused, now);
    }
    status
}

/// A status, without saying that the pool is paused, if it said so.
pub(super) fn resumed(mut status: PoolStatus, generation: Option<i64>, now: Timestamp) -> PoolStatus {
    if conditions::find(&status.conditions, types::PAUSED).is_some() {
        let resumed = condition(
            types::PAUSED,
            conditions::FALSE,
            conditions::reasons::NOT_PAUSED,
            "",
        );
        let resumed = Condition {
            observed_generation: generation,
            ..resumed
        };
        conditions::set(&mut status.conditions, resumed, now);
    }
    status
}

fn ready_condition(report: &Report) -> Condition {
    let Report {
        counts,
        deleting,
        troubles,
        ..
    } = report;
    let not_ready = |reason, message| condition(types::READY, conditions::FALSE, reason, message);
    if *deleting {
        let message = format!(
            "Waiting for {} to be released",
            counted(counts.used, "address", "addresses")
        );
        return not_ready(conditions::reasons::DELETING, message);
    }
    if !troubles.fault.is_empty() {
        return not_ready(conditions::reasons::INVALID_CONFIGURATION, troubles.fault.clone());
    }
    let mut messages = Vec::new();
    let mut say = |names: &Names, what: &str| {
        if names.count > 0 {
            messages.push(format!("{} {what}: {}", names.count, listed(names)));
        }
    };
    say(&troubles.malformed, "IPAddresses cannot be read");
    say(
        &troubles.contested,
        "IPAddresses have an address that another one has too",
    );
    say(&troubles.orphans, "IPAddresses have no claim any more");
    if counts.free == 0 && troubles.waiting > 0 {
        let waiting = i64::try_from(troubles.waiting).unwrap_or(i64::MAX);
        let claims = counted(waiting, "claim waits", "claims wait");
        messages.insert(0, format!("No address is free, and {claims}"));
        return not_ready(reasons::POOL_EXHAUSTED, messages.join("; "));
    }
    condition(
        types::READY,
        conditions::TRUE,
        conditions::reasons::READY,
        messages.join("; "),
    )
}

/// Reason and message of the condition `Ready`.
pub(super) fn ready(status: &PoolStatus) -> Option<(&'static str, String)> {
    let condition = conditions::find(&status.conditions, types::READY)?;
    let reason = [
        reasons::POOL_EXHAUSTED,
        conditions::reasons::INVALID_CONFIGURATION,
        conditions::reasons::DELETING,
        conditions::reasons::READY,
    ]
    .into_iter()
    .find(|reason| *reason == condition.reason)?;
    Some((reason, condition.message.clone()))
}

fn counted(count: i64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn listed(names: &Names) -> String {
    let mut text = names.first.join(", ");
    if names.count > names.first.len() {
        text.push_str(", …");
    }
    text
}

#[cfg(test)]
mod tests;
