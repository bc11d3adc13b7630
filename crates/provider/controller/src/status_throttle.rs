//! How often the numbers in a status are written: they may change hundreds of times in a second, and machines need the
//! manager's requests, too.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;

/// How often the numbers in the status of an object are written at most.
const NUMBERS_EVERY: Duration = Duration::from_secs(1);

/// When the status of each object was written last.
pub struct StatusThrottle<Id>(Mutex<BTreeMap<Id, Timestamp>>);

impl<Id> Default for StatusThrottle<Id> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<Id: Ord> StatusThrottle<Id> {
    /// How long to wait until the numbers of an object may be written. None if they may be written now.
    pub fn wait(&self, id: &Id, now: Timestamp) -> Option<Duration> {
        let written = *self.0.lock().get(id)?;
        let passed = Duration::try_from(now.duration_since(written)).ok()?;
        NUMBERS_EVERY.checked_sub(passed).filter(|wait| !wait.is_zero())
    }

    /// Notes that the status of an object is written now.
    pub fn note(&self, id: Id, now: Timestamp) {
        self.0.lock().insert(id, now);
    }

    /// Forgets all objects but those to keep.
    pub fn retain(&self, keep: impl Fn(&Id) -> bool) {
        self.0.lock().retain(|id, _| keep(id));
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, id: &Id) {
        self.0.lock().remove(id);
    }
}
