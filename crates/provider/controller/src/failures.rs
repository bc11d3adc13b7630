use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;

use crate::backoff::Backoff;

/// Namespace and name of an object of a controller's kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The most objects whose failures are counted: 65,536 entries of about 150 bytes are 10 MiB. Further objects wait
/// the longest time at once, so that a flood of failures gets slower instead of larger.
const FAILING_OBJECTS_MAX: usize = 65_536;

/// How often each object has failed in a row. Owned by one controller.
///
/// `kube::runtime::Controller` does not pass the number of attempts to its error policy, and does not report
/// successes to it, so failures are counted here.
#[derive(Debug)]
pub(crate) struct Failures {
    backoff: Backoff,
    capacity: usize,
    counts: Mutex<HashMap<ObjectKey, u32>>,
}

impl Failures {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            capacity: FAILING_OBJECTS_MAX,
            counts: Mutex::default(),
        }
    }

    /// Counts one more failure of `key` and returns how long to wait before the next attempt.
    pub(crate) fn record(&self, key: &ObjectKey) -> Duration {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(key) {
            *count = count.saturating_add(1);
            return self.backoff.delay(*count);
        }
        if counts.len() >= self.capacity {
            return self.backoff.max;
        }
        counts.insert(key.clone(), 1);
        self.backoff.delay(1)
    }

    /// Forgets the failures of an object that succeeded or is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.counts.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey {
            namespace: "default".into(),
            name: name.into(),
        }
    }

    fn failures(capacity: usize) -> Failures {
        let backoff = Backoff {
            base: Duration::from_secs(1),
            max: Duration::from_secs(8),
        };
        Failures {
            backoff,
            capacity,
            counts: Mutex::default(),
        }
    }

    #[test]
    fn each_object_backs_off_by_itself() {
        let failures = failures(10);
        let waits = [key("a"), key("a"), key("b"), key("a")].map(|key| failures.record(&key).as_secs());
        assert_eq!(waits, [1, 2, 1, 4]);
    }

    #[test]
    fn success_starts_over() {
        let failures = failures(10);
        failures.record(&key("a"));
        failures.record(&key("a"));
        failures.forget(&key("a"));
        assert_eq!(failures.record(&key("a")), Duration::from_secs(1));
    }

    #[test]
    fn an_object_beyond_the_bound_waits_longest_and_takes_no_room() {
        let failures = failures(1);
        failures.record(&key("a"));
        assert_eq!(failures.record(&key("b")), Duration::from_secs(8));
        assert_eq!(failures.counts.lock().len(), 1);
    }
}
