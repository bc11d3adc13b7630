//! What a fault decides about its subjects: machines, clusters or claims.
//!
//! ```text
//!   subject ──▶ in a window? ──▶ budget left? ──▶ decided before? ──▶ count it ──▶ skipped enough? ──▶ draw ──▶ Hit
//!                  └─────────────────┴───────────────┤                                 └─────────────────┴────▶ Spared
//!                                                    └ by an earlier process ▶ its lists, or the draw ▶ HitBefore, Spared
//! ```
//!
//! An operation is no subject: each one is counted by itself, see [`FaultRecord::count_match`].

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::{
    budget::{Budget, FaultPhase, FaultRecord},
    schedule::Window,
    time::SimTime,
};

/// How many of the subjects that passed because of [`Budget::skip`] a fault remembers. After a restart it hits those beyond.
pub const SKIPPED_MAX: usize = 100;

/// What a fault has decided about its subjects. Each decision is made once in each window of its schedule. What it has hit is
/// with whoever carries the fault out, who asks only about what is not hit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "Subject: Serialize",
    deserialize = "Subject: Deserialize<'de> + Ord"
))]
pub struct Decisions<Subject> {
    /// What the fault has done.
    pub record: FaultRecord,
    /// The subjects that passed because the budget skips the first ones, at most [`SKIPPED_MAX`], also those of an earlier
    /// process.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    skipped: BTreeSet<Subject>,
    /// The subjects about which it was decided that they are not hit.
    #[serde(default)]
    #[serde(rename = "spared")]
    passed_over: BTreeSet<Subject>,
    /// Whether an earlier process had the fault, and decided about the subjects of that time.
    #[serde(default)]
    #[serde(rename = "came_back")]
    recovered: bool,
    /// Whether it decides nothing new. It keeps what it has hit, and ends when its time is over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// What an earlier process has decided about a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// Nothing: the subject is new.
    Nothing,
    /// It has decided, and has listed the subject if it has hit it.
    Listed,
    /// It has decided, and where its list lacks the subject, the draw and the list of what was skipped tell the same again.
    Drawn,
}

/// What a fault decides about a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// It does not hit it.
    PassedOver,
    /// It hits it, and counts that.
    Hit,
    /// It has hit it since an earlier process, which has counted that.
    HitBefore,
}

/// What passing time does to a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// What it has hit stays hit.
    Continues,
    /// What it has hit is over, because its window or its time is.
    Ends,
    /// What it has hit is over, and a window has begun in which it decides about all subjects again.
    Begins,
}

impl<Subject> Decisions<Subject> {
    /// Those of a fault with this record. An earlier process has skipped some subjects, if it had the fault.
    #[must_use]
    pub fn new(record: FaultRecord, skipped: BTreeSet<Subject>) -> Self {
        // About what returns, an earlier process decided in the same window.
        let recovered = record.matched > 0;
        Self {
            record,
            skipped,
            passed_over: BTreeSet::new(),
            recovered,
            paused: false,
        }
    }

    /// Whether an earlier process had the fault, and has decided in the present window.
    #[must_use]
    pub fn recovered(&self) -> bool {
        self.recovered
    }

    /// Whether the fault can hit something new.
    #[must_use]
    pub fn is_active(&self, budget: &Budget, now: SimTime) -> bool {
        !self.paused && budget.phase(&self.record, now) == FaultPhase::Active
    }

    /// Whether what the fault has hit is still hit. It is not in a window that has begun since the last [`Decisions::turn`].
    #[must_use]
    pub fn is_in_force(&self, budget: &Budget, now: SimTime) -> bool {
        budget.is_in_force(self.record.began, now)
            && budget.window(self.record.began, now).number == self.record.windows
    }

    /// Lets time pass: begins a window, or ends one.
    pub fn turn(&mut self, budget: &Budget, now: SimTime) -> Turn {
        let Window { number, is_open } = budget.window(self.record.began, now);
        let is_new = number != self.record.windows;
        if budget.ends(self.record.began).is_some_and(|ends| ends <= now) {
            return Turn::Ends;
        }
        if is_open && !is_new {
            return Turn::Continues;
        }
        // A fault that cannot hit any more begins no window. The last one may have been of another schedule, whose numbers
        // were greater: no window to come may have its number.
        if is_new && budget.is_used_up(&self.record) {
            self.record.windows = self.record.windows.min(number.saturating_sub(1));
            return Turn::Ends;
        }
        self.record.windows = number;
        self.recovered &= !is_new;
        self.forget_all();
        if is_new { Turn::Begins } else { Turn::Ends }
    }

    /// Forgets about which subjects it has decided.
    pub fn forget_all(&mut self) {
        self.passed_over.clear();
        self.skipped.clear();
    }
}

impl<Subject: Ord> Decisions<Subject> {
    /// Whether it may hit a subject that is not hit. If so, [`Decisions::decide`] tells.
    #[must_use]
    pub fn is_undecided(&self, budget: &Budget, subject: &Subject, now: SimTime, earlier: Earlier) -> bool {
        budget.phase(&self.record, now) == FaultPhase::Active
            && self.is_in_force(budget, now)
            && !self.passed_over.contains(subject)
            && !self.skipped.contains(subject)
            && (!self.paused || self.is_drawn_again(budget, earlier))
    }

    /// Decides about a subject that is not hit. `draw` draws for a window, at most once.
    pub fn decide(
        &mut self,
        budget: &Budget,
        subject: &Subject,
        now: SimTime,
        earlier: Earlier,
        draw: impl FnOnce(u64) -> bool,
    ) -> Decided
    where
        Subject: Clone,
    {
        if !self.is_undecided(budget, subject, now, earlier) {
            return Decided::PassedOver;
        }
        let window = self.record.windows;
        if self.recovered && earlier != Earlier::Nothing {
            if self.is_drawn_again(budget, earlier) && draw(window) {
                return Decided::HitBefore;
            }
            // It may have come while the fault was paused, and then it is decided about later.
            if !self.paused {
                self.passed_over.insert(subject.clone());
            }
            return Decided::PassedOver;
        }
        let can_be_hit = self.record.count_match(budget);
        let is_drawn = draw(window);
        if is_drawn && can_be_hit {
            self.record.count_hit();
            return Decided::Hit;
        }
        if is_drawn && self.skipped.len() < SKIPPED_MAX {
            self.skipped.insert(subject.clone());
        }
        self.passed_over.insert(subject.clone());
        Decided::PassedOver
    }

    /// Whether the draw of an earlier process is made again. With a limit on the hits, it does not tell which ones were hit.
    fn is_drawn_again(&self, budget: &Budget, earlier: Earlier) -> bool {
        self.recovered && earlier == Earlier::Drawn && budget.count.is_none()
    }

    /// Whether it has decided not to hit a subject.
    #[must_use]
    pub fn knows(&self, subject: &Subject) -> bool {
        self.passed_over.contains(subject) || self.skipped.contains(subject)
    }

    /// Forgets a subject that is gone, or that the fault no longer matches.
    pub fn forget(&mut self, subject: &Subject) {
        self.passed_over.remove(subject);
        self.skipped.remove(subject);
    }

    /// Forgets all subjects but these.
    pub fn retain(&mut self, stays: impl Fn(&Subject) -> bool) {
        self.passed_over.retain(&stays);
        self.skipped.retain(stays);
    }

    /// The subjects that it has decided not to hit. One may appear twice.
    pub fn known(&self) -> impl Iterator<Item = &Subject> {
        self.passed_over.iter().chain(&self.skipped)
    }

    /// The subjects that passed because the budget skips the first ones, for the next process.
    #[must_use]
    pub fn skipped(&self) -> &BTreeSet<Subject> {
        &self.skipped
    }
}

/// The last hits of a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LastHits<Hit>(VecDeque<Hit>);

impl<Hit> LastHits<Hit> {
    /// How many hits are kept. Each is about 200 bytes.
    pub const KEPT: usize = 10;

    /// Adds the newest hit. The oldest one goes if there are too many.
    pub fn push(&mut self, hit: Hit) {
        if self.0.len() == Self::KEPT {
            self.0.pop_front();
        }
        self.0.push_back(hit);
    }

    /// The hits, the newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Hit> {
        self.0.iter().rev()
    }
}

impl<Hit> Default for LastHits<Hit> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

#[cfg(test)]
mod tests;
