//! The one ordered record of what was asked and what happened.

use std::collections::VecDeque;

use crate::identity::ResourceId;
use crate::operation::{Event, Outcome, Rejected};
use crate::time::SimTime;

/// One numbered record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Counts from 1, without gaps.
    pub sequence: u64,
    /// What was recorded.
    pub record: Record,
}

/// What the journal records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// An operation and its answer.
    Operation {
        /// When it was asked for.
        at: SimTime,
        /// Who asked.
        caller: String,
        /// The operation's name.
        operation: &'static str,
        /// What it was about.
        resource: ResourceId,
        /// The answer.
        outcome: Result<Outcome, Rejected>,
    },
    /// An event.
    Event(Event),
}

/// The latest records, up to a bound. Repeated operations that found everything done already are not recorded:
/// controllers ask all the time, and an audit log of nothing would push out what matters.
#[derive(Clone, Debug)]
pub struct Journal {
    entries: VecDeque<Entry>,
    next: u64,
}

impl Journal {
    /// 4,096 records of at most some 400 bytes are 1.6 MB; a cluster of six machines makes about 30.
    pub const CAPACITY: usize = 4096;

    pub(crate) fn new() -> Self {
        Self { entries: VecDeque::new(), next: 1 }
    }

    pub(crate) fn push(&mut self, record: Record) {
        if self.entries.len() == Self::CAPACITY {
            self.entries.pop_front();
        }
        self.entries.push_back(Entry { sequence: self.next, record });
        self.next += 1;
    }

    /// The kept entries numbered `from` and later, in order.
    pub fn since(&self, from: u64) -> impl Iterator<Item = &Entry> {
        self.entries.iter().skip_while(move |entry| entry.sequence < from)
    }
}
