//! Changes that wait to be committed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::AtomicBool},
};

use bytes::Bytes;

/// The name and identity of a partition.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) identity: String,
    /// Whether the partition was removed, so that later writes to it are dropped. Set under the lock of the pending
    /// changes.
    pub(crate) removed: AtomicBool,
}

/// The changes of one partition.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) header: Arc<Header>,
    pub(crate) mark: u64,
    /// The newest value by key; none for a removed record.
    pub(crate) records: BTreeMap<Box<[u8]>, Option<Bytes>>,
}

/// The changes of one commit.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The number of the newest call in the batch.
    pub(crate) sequence: u64,
    pub(crate) removed: BTreeSet<u64>,
    /// The changes by partition id, without removed partitions.
    pub(crate) partitions: BTreeMap<u64, Changes>,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.partitions.is_empty()
    }

    pub(crate) fn write(&mut self, header: &Arc<Header>, mark: u64, records: Vec<(Vec<u8>, Option<Bytes>)>) {
        self.sequence += 1;
        let changes = self.partitions.entry(header.id).or_insert_with(|| Changes {
            header: Arc::clone(header),
            mark,
            records: BTreeMap::new(),
        });
        changes.mark = changes.mark.max(mark);
        changes.records.extend(
            records
                .into_iter()
                .map(|(key, value)| (key.into_boxed_slice(), value)),
        );
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.sequence += 1;
        self.partitions.remove(&id);
        self.removed.insert(id);
    }

    /// Takes all changes, and keeps counting calls.
    pub(crate) fn take(&mut self) -> Self {
        let sequence = self.sequence;
        std::mem::replace(
            self,
            Self {
                sequence,
                ..Self::default()
            },
        )
    }

    /// Puts back `earlier`, which could not be committed. Later changes win.
    pub(crate) fn put_back(&mut self, earlier: Self) {
        let Self {
            sequence: _,
            removed,
            partitions,
        } = earlier;
        for (id, earlier) in partitions {
            if self.removed.contains(&id) {
                continue;
            }
            match self.partitions.get_mut(&id) {
                None => {
                    self.partitions.insert(id, earlier);
                }
                Some(later) => {
                    later.mark = later.mark.max(earlier.mark);
                    for (key, value) in earlier.records {
                        later.records.entry(key).or_insert(value);
                    }
                }
            }
        }
        self.removed.extend(removed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(id: u64) -> Arc<Header> {
        let name = format!("p{id}");
        let identity = String::new();
        Arc::new(Header {
            id,
            name,
            identity,
            removed: AtomicBool::new(false),
        })
    }

    fn record(key: &str, value: Option<&'static str>) -> (Vec<u8>, Option<Bytes>) {
        (key.into(), value.map(Bytes::of_text))
    }

    trait Text {
        fn of_text(text: &'static str) -> Self;
    }

    impl Text for Bytes {
        fn of_text(text: &'static str) -> Self {
            Self::from_static(text.as_bytes())
        }
    }

    #[test]
    fn what_could_not_be_committed_goes_before_what_came_since() {
        let one = header(1);
        let two = header(2);
        let mut pending = Batch::default();
        pending.write(
            &one,
            7,
            vec![
                record("a", Some("old")),
                record("b", Some("old")),
                record("c", None),
            ],
        );
        pending.write(&two, 3, vec![record("a", Some("old"))]);
        let failed = pending.take();
        assert_eq!(
            (pending.sequence, pending.is_empty(), failed.sequence),
            (2, true, 2)
        );
        pending.write(&one, 9, vec![record("b", None), record("c", Some("new"))]);
        pending.remove(2);
        pending.put_back(failed);
        assert_eq!((pending.sequence, &pending.removed), (4, &BTreeSet::from([2])));
        let left: Vec<_> = pending
            .partitions
            .values()
            .map(|changes| (changes.header.id, changes.mark))
            .collect();
        assert_eq!(left, [(1, 9)]);
        let records: Vec<_> = pending.partitions[&1].records.clone().into_iter().collect();
        let expected = [
            record("a", Some("old")),
            record("b", None),
            record("c", Some("new")),
        ];
        assert_eq!(
            records,
            expected.map(|(key, value)| (key.into_boxed_slice(), value))
        );
    }
}
