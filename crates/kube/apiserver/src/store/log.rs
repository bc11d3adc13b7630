//! The latest changes of a store, for watchers.

use std::{collections::VecDeque, sync::Arc};

use super::{error::Expired, key::GroupResource, object::Object};

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The object was created.
    Added,
    /// The object has a new version.
    Modified,
    /// The object was deleted; the change carries its last state under a new resource version.
    Deleted,
}

/// One change.
#[derive(Clone, Debug)]
pub struct Change {
    /// The collection of the object.
    pub resource: Arc<GroupResource>,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The object after the change.
    pub object: Arc<Object>,
    /// The object before the change, for selectors that it stops or starts to match.
    pub previous: Option<Arc<Object>>,
}

impl Change {
    fn resource_version(&self) -> u64 {
        self.object.resource_version
    }

    fn size(&self) -> usize {
        // The memory that only the log keeps alive, with some 200 bytes of bookkeeping: the version that was
        // replaced. The version that replaced it is in the store or belongs to a later change, unless the change is
        // a deletion.
        let previous = self.previous.as_ref().map_or(0, |object| object.bytes.len());
        let mark = if self.kind == ChangeKind::Deleted {
            self.object.bytes.len()
        } else {
            0
        };
        200 + previous + mark
    }
}

/// A log bounded in entries and in bytes. A reader that asks for a dropped change gets [`Expired`] and lists again.
#[derive(Clone, Debug)]
pub(super) struct Log {
    changes: VecDeque<Change>,
    bytes: usize,
    entries_max: usize,
    bytes_max: usize,
    /// The version of the newest change that was dropped.
    dropped: u64,
}

impl Log {
    /// An empty log of a store whose counter stands at `version`.
    pub(super) fn new(entries_max: usize, bytes_max: usize, version: u64) -> Self {
        Self {
            changes: VecDeque::new(),
            bytes: 0,
            entries_max: entries_max.max(1),
            bytes_max,
            dropped: version,
        }
    }

    pub(super) fn push(&mut self, change: Change) {
        self.bytes += change.size();
        self.changes.push_back(change);
        while self.changes.len() > self.entries_max || (self.bytes > self.bytes_max && self.changes.len() > 1)
        {
            let oldest = self.changes.pop_front().expect("the log has more than one entry");
            self.bytes -= oldest.size();
            self.dropped = oldest.resource_version();
        }
    }

    /// The changes after `version` in one collection, oldest first, `limit` at most.
    pub(super) fn since(
        &self,
        version: u64,
        resource: &GroupResource,
        limit: usize,
    ) -> Result<Vec<Change>, Expired> {
        if version < self.dropped {
            return Err(Expired {
                requested: version,
                oldest: self.dropped,
            });
        }
        let from = self
            .changes
            .partition_point(|change| change.resource_version() <= version);
        let later = self
            .changes
            .range(from..)
            .filter(|change| *change.resource == *resource);
        Ok(later.take(limit).cloned().collect())
    }
}
