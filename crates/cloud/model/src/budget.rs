//! How often a fault hits, and what it has done.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    odds::Odds,
    schedule::{Schedule, Window},
    time::SimTime,
};

/// How often a fault hits the operations or resources that it matches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The probability of a hit.
    pub probability: Odds,
    /// How many matching operations or resources pass before the first hit.
    pub skip: u64,
    /// How many hits there are at most. None means any number.
    pub count: Option<u64>,
    /// How long the fault is active, from when it began. None means until it is deleted.
    pub lasts: Option<Duration>,
    /// The windows in which the fault is in force. None means always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
}

impl Default for Budget {
    /// Everything that matches is hit, until the fault is deleted.
    fn default() -> Self {
        Self {
            probability: Odds::new(1.0),
            skip: 0,
            count: None,
            lasts: None,
            schedule: None,
        }
    }
}

impl Budget {
    /// Whether a fault with this budget can still hit.
    #[must_use]
    pub fn phase(&self, record: &FaultRecord, now: SimTime) -> FaultPhase {
        if self.ends(record.began).is_some_and(|ends| ends <= now) {
            FaultPhase::Expired
        } else if self.is_used_up(record) {
            FaultPhase::Exhausted
        } else if !self.window(record.began, now).is_open {
            FaultPhase::Waiting
        } else {
            FaultPhase::Active
        }
    }

    /// Whether the fault has made as many hits as it may.
    #[must_use]
    pub fn is_used_up(&self, record: &FaultRecord) -> bool {
        self.count.is_some_and(|count| count <= record.hits)
    }

    /// When the time of the fault is over.
    #[must_use]
    pub fn ends(&self, began: SimTime) -> Option<SimTime> {
        self.lasts.map(|lasts| began + lasts)
    }

    /// The window of the schedule.
    #[must_use]
    pub fn window(&self, began: SimTime, now: SimTime) -> Window {
        self.schedule
            .map_or(Window::ALWAYS, |schedule| schedule.window(began, now))
    }

    /// Whether the time of the fault is not over, and it is in a window of its schedule.
    #[must_use]
    pub fn is_in_force(&self, began: SimTime, now: SimTime) -> bool {
        self.ends(began).is_none_or(|ends| ends > now) && self.window(began, now).is_open
    }

    /// When a window of the schedule begins or ends next, or the time of the fault is over, which may have been before. A
    /// fault that cannot hit any more needs no more windows.
    #[must_use]
    pub fn next_change(&self, record: &FaultRecord, now: SimTime) -> Option<SimTime> {
        let Window { number, is_open } = self.window(record.began, now);
        let needs_windows = (is_open && number == record.windows) || !self.is_used_up(record);
        let schedule = self.schedule.filter(|_| needs_windows);
        let change = schedule.and_then(|schedule| schedule.next_change(record.began, now));
        change.into_iter().chain(self.ends(record.began)).min()
    }
}

/// What a fault has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultRecord {
    pub began: SimTime,
    /// How many operations or resources it has matched while it was active.
    pub matched: u64,
    /// How many of them it has hit.
    pub hits: u64,
    /// How many windows of its schedule had begun when it last decided about resources.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub windows: u64,
}

impl FaultRecord {
    /// Counts something that the fault matches while it is active. Returns whether the fault can hit it: the first ones pass.
    pub fn count_match(&mut self, budget: &Budget) -> bool {
        self.matched += 1;
        self.matched > budget.skip
    }

    /// Counts a hit.
    pub fn count_hit(&mut self) {
        self.hits += 1;
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Whether a fault can still hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPhase {
    /// It hits operations that it matches.
    Active,
    /// It waits for the next window of its schedule.
    Waiting,
    /// It has made as many hits as it may.
    Exhausted,
    /// Its time is over.
    Expired,
}
