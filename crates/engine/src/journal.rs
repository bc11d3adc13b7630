//! The one ordered record of what was asked and what happened.

use std::collections::VecDeque;

use crate::operation::{Event, Operation, Outcome, Rejected};
use crate::time::SimTime;

/// One numbered record.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Counts from 1, without gaps.
    pub sequence: u64,
    /// What was recorded.
    pub record: Record,
}

/// What the journal records.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// An operation and its answer. Whole, so that the journal can be played to another cloud.
    Operation {
        /// When it was asked for.
        at: SimTime,
        /// What was asked, and by whom.
        operation: Box<Operation>,
        /// The answer.
        outcome: Result<Outcome, Rejected>,
    },
    /// An event.
    Event(Event),
}

/// The latest records, up to a bound, in the order in which they took effect: an operation comes after the events
/// that were due before it. Repeated operations that found everything done already are not recorded: controllers ask
/// all the time, and an audit log of nothing would push out what matters.
#[derive(Clone, Debug)]
pub struct Journal {
    entries: VecDeque<Entry>,
    next: u64,
}

impl Journal {
    /// A creation takes about 1 KB, anything else about 300 bytes, and a machine with four stages makes one of the
    /// former and six of the latter: 4,096 records are about 600 machines' lives in 1.6 MB, 4 MB at the worst.
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

    /// The number of the oldest entry that is kept, or of the next one when there is none. A reader that has seen
    /// less than that has missed some.
    #[must_use]
    pub fn oldest(&self) -> u64 {
        self.entries.front().map_or(self.next, |entry| entry.sequence)
    }

    /// The kept entries numbered `from` and later, in order.
    pub fn since(&self, from: u64) -> impl Iterator<Item = &Entry> {
        let seen = usize::try_from(from.saturating_sub(self.oldest())).unwrap_or(usize::MAX);
        self.entries.iter().skip(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{ResourceId, ResourceKind};
    use crate::operation::EventKind;

    #[test]
    fn full_journal_drops_the_oldest_and_says_so() {
        let id = ResourceId {
            account: "default".into(),
            group: "demo".into(),
            kind: ResourceKind::Instance,
            name: "m".into(),
        };
        let mut journal = Journal::new();
        assert_eq!((journal.oldest(), journal.since(0).count()), (1, 0));
        let events = Journal::CAPACITY as u64 + 3;
        for millis in 1..=events {
            let at = SimTime::from_millis(millis);
            journal.push(Record::Event(Event {
                at,
                id: id.clone(),
                generation: 1,
                kind: EventKind::Deleted,
            }));
        }
        assert_eq!(journal.oldest(), 4);
        assert_eq!(journal.since(0).count(), Journal::CAPACITY);
        let last: Vec<_> = journal.since(events - 1).map(|entry| entry.sequence).collect();
        assert_eq!(last, [events - 1, events]);
        assert_eq!(journal.since(u64::MAX).count(), 0);
    }
}
