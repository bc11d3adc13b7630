//! The journal: the one ordered record of operations and events, and how it is read.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use nephele_model::{Capacity, ClusterId, ResourceId, SimTime};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{event::Event, operation::Operation, outcome::Outcome};

/// One numbered record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The number of the record. Records are numbered from 1, without gaps.
    pub sequence: u64,
    pub record: Record,
}

/// A record of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// An operation and its answer. The operation is complete, so that the journal can be replayed on another cloud.
    Operation {
        /// The operation, with its caller and time.
        operation: Box<Operation>,
        /// What came of it. It is the answer, unless a fault replaced the answer of a call that was carried out.
        outcome: Outcome,
        /// The names of the faults that counted it, in the order in which they were asked.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        faults: Vec<String>,
        /// Whether the last of these faults hit it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_hit: bool,
    },
    /// An event.
    Event(Event),
    /// There is room for a resource whose creation was refused for lack of room. The first creation that asks gets it.
    #[serde(rename = "RoomFreed")]
    CapacityFreed {
        at: SimTime,
        #[serde(rename = "room")]
        capacity: Capacity,
        /// The resource that has waited longest.
        waiting: ResourceId,
    },
    /// The time of a fault is over.
    FaultEnded { at: SimTime, fault: ResourceId },
    /// A window of the schedule of a fault begins or ends.
    FaultWindow {
        at: SimTime,
        fault: ResourceId,
        begins: bool,
    },
    /// The turn of a waiting resource ended: it was told that there is room and did not ask in time. It no longer
    /// waits.
    #[serde(rename = "TurnEnded")]
    GrantEnded { at: SimTime, waiting: ResourceId },
}

impl Record {
    /// The resource that the record concerns.
    #[must_use]
    pub fn resource(&self) -> &ResourceId {
        match self {
            Self::Operation { operation, .. } => operation.request.target(),
            Self::Event(event) => &event.id,
            Self::CapacityFreed { waiting, .. } | Self::GrantEnded { waiting, .. } => waiting,
            Self::FaultEnded { fault, .. } | Self::FaultWindow { fault, .. } => fault,
        }
    }
}

/// The position of a reader in the journal: the number of the first record that it has not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(u64);

/// The reader fell behind: the journal no longer has records that it did not read. Its cursor is now at the end of the
/// journal, and it has to start again from the state of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the journal no longer has records that were not read")]
pub struct Behind;

/// The latest records, up to a bound, in the order in which they took effect: an operation comes after the events that
/// were due before it. Successful reads, repeated operations that change nothing, and refused ones that come before their
/// time to retry are not recorded, unless a fault or a rate counts them. Controllers send those all the time, and they would
/// push out the records that matter.
///
/// Each reader has a [`Cursor`] and pulls records at its own pace; the readers share the records. A reader of the whole
/// journal gets all records in order. A reader of a followed cluster gets only the records of the cluster.
#[derive(Clone, Debug)]
pub struct Journal {
    entries: VecDeque<Arc<Entry>>,
    next: u64,
    /// By namespace, then by cluster name, so that the lookup for a record allocates no key.
    followed: BTreeMap<String, BTreeMap<String, Followed>>,
}

/// The index of the records of a followed cluster.
#[derive(Clone, Debug, Default)]
struct Followed {
    /// The numbers of the cluster's records that the journal still has.
    kept: VecDeque<u64>,
    /// The number of the newest record of the cluster that the journal has dropped; zero for none.
    dropped: u64,
}

impl Journal {
    /// A creation takes about 1 KB, any other record about 300 bytes. A machine with four stages makes one creation and
    /// six other records. So 4,096 records hold the lives of about 600 machines in 1.6 MB, or 4 MB at worst. The index
    /// of the followed clusters adds 8 bytes per record.
    pub const CAPACITY: usize = 4096;

    /// A journal whose first record will have this number.
    pub(crate) fn starting_at(first: u64) -> Self {
        Self {
            entries: VecDeque::new(),
            next: first,
            followed: BTreeMap::new(),
        }
    }

    /// The number of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn push(&mut self, record: Record) {
        if self.entries.len() == Self::CAPACITY
            && let Some(dropped) = self.entries.pop_front()
            && let Some(followed) = followed(&mut self.followed, dropped.record.resource())
            && followed.kept.front() == Some(&dropped.sequence)
        {
            followed.kept.pop_front();
            followed.dropped = dropped.sequence;
        }
        if let Some(followed) = followed(&mut self.followed, record.resource()) {
            followed.kept.push_back(self.next);
        }
        self.entries.push_back(Arc::new(Entry {
            sequence: self.next,
            record,
        }));
        self.next += 1;
    }

    /// Starts to index the future records of a cluster, for readers of the cluster. Replaces an earlier index of the cluster.
    pub(crate) fn follow(&mut self, cluster: ClusterId) -> Cursor {
        let ClusterId { namespace, name } = cluster;
        self.followed
            .entry(namespace)
            .or_default()
            .insert(name, Followed::default());
        self.end()
    }

    /// Ends what [`Journal::follow`] started.
    pub(crate) fn unfollow(&mut self, cluster: &ClusterId) {
        let Some(clusters) = self.followed.get_mut(&cluster.namespace) else {
            return;
        };
        clusters.remove(&cluster.name);
        if clusters.is_empty() {
            self.followed.remove(&cluster.namespace);
        }
    }

    /// The end of the journal. A reader that starts there reads only future records.
    #[must_use]
    pub fn end(&self) -> Cursor {
        Cursor(self.next)
    }

    /// The number of the oldest record in the journal, or of the next record if the journal is empty. A reader whose
    /// cursor is lower has missed records.
    #[must_use]
    pub fn oldest(&self) -> u64 {
        self.entries.front().map_or(self.next, |entry| entry.sequence)
    }

    /// The records in the journal from number `from` on, in order.
    pub fn since(&self, from: u64) -> impl Iterator<Item = &Arc<Entry>> {
        let seen = usize::try_from(from.saturating_sub(self.oldest())).unwrap_or(usize::MAX);
        self.entries.iter().skip(seen)
    }

    /// Appends the next records of the whole journal to `into`, up to the spare capacity of `into`, and moves the
    /// cursor past them. Does not allocate. Appends nothing when no record is left to read.
    ///
    /// # Errors
    /// When the reader fell behind.
    pub fn read(&self, cursor: &mut Cursor, into: &mut Vec<Arc<Entry>>) -> Result<(), Behind> {
        if cursor.0 < self.oldest() {
            *cursor = self.end();
            return Err(Behind);
        }
        let capacity = into.capacity() - into.len();
        into.extend(self.since(cursor.0).take(capacity).cloned());
        cursor.0 = into
            .last()
            .map_or(cursor.0, |last| cursor.0.max(last.sequence + 1));
        Ok(())
    }

    /// Appends the next records of a followed cluster to `into`, up to the spare capacity of `into`, and moves the cursor
    /// past them. When no record of the cluster is left, the cursor moves to the end of the journal. Does not allocate.
    ///
    /// # Errors
    /// When the reader fell behind, or the cluster is not followed.
    pub fn read_cluster(
        &self,
        cluster: &ClusterId,
        cursor: &mut Cursor,
        into: &mut Vec<Arc<Entry>>,
    ) -> Result<(), Behind> {
        let followed = self
            .followed
            .get(&cluster.namespace)
            .and_then(|clusters| clusters.get(&cluster.name));
        let Some(followed) = followed.filter(|followed| cursor.0 > followed.dropped) else {
            *cursor = self.end();
            return Err(Behind);
        };
        let seen = followed.kept.partition_point(|sequence| *sequence < cursor.0);
        let capacity = into.capacity() - into.len();
        let mut left = followed.kept.iter().skip(seen);
        into.extend(
            left.by_ref()
                .take(capacity)
                .filter_map(|sequence| self.entry(*sequence))
                .cloned(),
        );
        *cursor = left.next().map_or(self.end(), |sequence| Cursor(*sequence));
        Ok(())
    }

    fn entry(&self, sequence: u64) -> Option<&Arc<Entry>> {
        self.entries
            .get(usize::try_from(sequence.checked_sub(self.oldest())?).ok()?)
    }
}

fn followed<'a>(
    followed: &'a mut BTreeMap<String, BTreeMap<String, Followed>>,
    id: &ResourceId,
) -> Option<&'a mut Followed> {
    followed.get_mut(&id.namespace)?.get_mut(&id.cluster)
}

#[cfg(test)]
mod tests {
    use nephele_model::ResourceKind;

    use super::*;
    use crate::event::EventKind;

    fn record(cluster: &str, millis: u64) -> Record {
        let id = ResourceId {
            namespace: "default".into(),
            cluster: cluster.into(),
            kind: ResourceKind::Instance,
            name: "m".into(),
        };
        Record::Event(Event::new(
            SimTime::from_millis(millis),
            id,
            1,
            EventKind::Deleted,
        ))
    }

    fn sequences(entries: &[Arc<Entry>]) -> Vec<u64> {
        entries.iter().map(|entry| entry.sequence).collect()
    }

    #[test]
    fn full_journal_drops_the_oldest_and_says_so() {
        let mut journal = Journal::starting_at(1);
        assert_eq!((journal.oldest(), journal.since(0).count()), (1, 0));
        let mut cursor = journal.end();
        let mut late = cursor;
        let events = Journal::CAPACITY as u64 + 3;
        for millis in 1..=events {
            journal.push(record("demo", millis));
            if millis == 3 {
                assert_eq!(journal.read(&mut cursor, &mut Vec::with_capacity(9)), Ok(()));
            }
        }
        assert_eq!(journal.oldest(), 4);
        assert_eq!(journal.since(0).count(), Journal::CAPACITY);
        let last: Vec<_> = journal.since(events - 1).map(|entry| entry.sequence).collect();
        assert_eq!(last, [events - 1, events]);
        assert_eq!(journal.since(u64::MAX).count(), 0);

        let mut batch = Vec::with_capacity(4);
        assert_eq!(journal.read(&mut cursor, &mut batch), Ok(()));
        assert_eq!(sequences(&batch), [4, 5, 6, 7], "the reader had read three");
        batch.clear();
        assert_eq!(journal.read(&mut late, &mut batch), Err(Behind));
        assert_eq!((journal.read(&mut late, &mut batch), batch.len()), (Ok(()), 0));
    }

    #[test]
    fn reader_of_a_group_misses_nothing_while_the_journal_has_what_is_of_the_group() {
        let cluster = ClusterId {
            namespace: "default".into(),
            name: "quiet".into(),
        };
        let mut journal = Journal::starting_at(1);
        journal.push(record("quiet", 0));
        let mut early = journal.follow(cluster.clone());
        let capacity = Journal::CAPACITY as u64;
        let mut batch = Vec::with_capacity(2);
        // Two records of the cluster, then so many of another cluster that the journal drops older ones, then three of the
        // cluster.
        for millis in 1..=capacity {
            journal.push(record(if millis < 3 { "quiet" } else { "busy" }, millis));
        }
        assert_eq!(journal.read_cluster(&cluster, &mut early, &mut batch), Ok(()));
        assert_eq!((sequences(&batch), early), (vec![2, 3], journal.end()));
        for millis in 0..3 * capacity {
            journal.push(record("busy", millis));
        }
        for millis in 0..3 {
            journal.push(record("quiet", millis));
        }
        let mut late = Cursor(3);
        for (cursor, read) in [(&mut early, Ok(())), (&mut late, Err(Behind))] {
            batch.clear();
            assert_eq!(journal.read_cluster(&cluster, cursor, &mut batch), read);
            if read.is_ok() {
                let first = 4 * capacity + 2;
                assert_eq!(
                    (sequences(&batch), *cursor),
                    (vec![first, first + 1], Cursor(first + 2))
                );
            } else {
                assert_eq!((batch.len(), *cursor), (0, journal.end()));
            }
        }
        journal.unfollow(&cluster);
        assert_eq!(journal.read_cluster(&cluster, &mut late, &mut batch), Err(Behind));
        assert!(journal.followed.is_empty());
    }
}
