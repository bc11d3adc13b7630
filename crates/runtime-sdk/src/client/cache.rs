//! Responses that need not be asked for again.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::hooks::{Request, Settings};

/// What tells a call from others whose response would be the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheKey {
    /// The full name of the handler.
    pub handler: String,
    /// The version of the registration.
    pub resource_version: String,
    /// The settings of the call, those of the registration included.
    pub settings: Settings,
    /// What else the response depends on, in the caller's words.
    pub request: String,
}

impl CacheKey {
    pub(crate) fn new<R: Request>(
        handler: &str,
        resource_version: &str,
        request: &R,
        of_request: impl FnOnce(&R) -> String,
    ) -> Self {
        Self {
            handler: handler.to_owned(),
            resource_version: resource_version.to_owned(),
            settings: request.settings().cloned().unwrap_or_default(),
            request: of_request(request),
        }
    }
}

/// Responses for a while, by what they depend on. Only those of calls that came about and went well get in.
///
/// Cluster API keeps those of `DiscoverVariables` and `GenerateUpgradePlan` for 10 minutes and those of
/// `CanUpdateMachineSet` for 24 hours.
#[derive(Debug)]
pub struct ResponseCache<R> {
    keep: Duration,
    capacity: usize,
    entries: Mutex<BTreeMap<CacheKey, Entry<R>>>,
}

#[derive(Debug)]
struct Entry<R> {
    since: Instant,
    response: R,
}

impl<R: Clone> ResponseCache<R> {
    /// A cache that keeps each response for that long, and so many of them, at least one; the oldest goes first.
    #[must_use]
    pub fn new(keep: Duration, capacity: usize) -> Self {
        Self { keep, capacity: capacity.max(1), entries: Mutex::default() }
    }

    /// The response there is.
    #[must_use]
    pub fn get(&self, now: Instant, key: &CacheKey) -> Option<R> {
        let entries = self.entries.lock();
        let entry = entries.get(key)?;
        (now.duration_since(entry.since) < self.keep).then(|| entry.response.clone())
    }

    /// Keeps a response.
    pub fn insert(&self, now: Instant, key: CacheKey, response: R) {
        let mut entries = self.entries.lock();
        if entries.len() >= self.capacity && !entries.contains_key(&key) {
            entries.retain(|_, entry| now.duration_since(entry.since) < self.keep);
            if entries.len() >= self.capacity {
                let oldest = entries.iter().min_by_key(|(_, entry)| entry.since).map(|(key, _)| key.clone());
                oldest.map(|key| entries.remove(&key));
            }
        }
        entries.insert(key, Entry { since: now, response });
    }

    /// How many responses are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.lock().is_empty()
    }

    /// Forgets all.
    pub fn clear(&self) {
        self.entries.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(handler: &str) -> CacheKey {
        CacheKey {
            handler: handler.into(),
            resource_version: "15".into(),
            settings: Settings::new(),
            request: String::new(),
        }
    }

    #[test]
    fn a_response_is_kept_for_a_while_and_the_oldest_goes_first() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let cache = ResponseCache::new(10 * second, 2);
        assert!(cache.is_empty());
        cache.insert(start, key("a"), 1);
        cache.insert(start + second, key("b"), 2);
        assert_eq!(cache.get(start + 9 * second, &key("a")), Some(1));
        assert_eq!(cache.get(start + 10 * second, &key("a")), None);
        assert_eq!(cache.get(start + 10 * second, &key("b")), Some(2));
        cache.insert(start + 2 * second, key("a"), 3);
        cache.insert(start + 3 * second, key("c"), 4);
        assert_eq!(
            ["a", "b", "c"].map(|name| cache.get(start + 3 * second, &key(name))),
            [Some(3), None, Some(4)]
        );
        assert_eq!(cache.len(), 2);
        cache.insert(start + 60 * second, key("d"), 5);
        assert_eq!(cache.len(), 1, "what is too old goes before what is not");
        cache.clear();
        assert_eq!(cache.get(start + 60 * second, &key("d")), None);
    }
}
