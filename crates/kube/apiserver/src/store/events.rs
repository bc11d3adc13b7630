//! Events, the one built-in kind that expires: an hour after the last write (`kube-apiserver --event-ttl`), or when
//! there are too many.

use jiff::{SignedDuration, Timestamp};

use super::{key::Key, object::Object, state::State};

/// How long an event stays after it was last written.
const EVENT_TTL: SignedDuration = SignedDuration::from_hours(1);

/// How many events a store keeps: about four megabytes. Only a store of thousands of busy objects has so many.
pub(super) const EVENTS_MAX: usize = 4096;

impl State {
    /// Records that an object was written, and removes expired events.
    pub(super) fn note_event(&mut self, now: Timestamp, key: &Key, object: &Object) {
        if !(key.resource.group.is_empty() && key.resource.resource == "events") {
            return;
        }
        self.events.push_back((now, object.resource_version, key.clone()));
        while let Some((written, version, key)) = self.events.front() {
            let over = now.duration_since(*written) > EVENT_TTL || self.events.len() > EVENTS_MAX;
            let replaced = self
                .get(key)
                .is_none_or(|object| object.resource_version != *version);
            if !over && !replaced {
                break;
            }
            let (_, _, key) = self.events.pop_front().expect("the front was just looked at");
            if !replaced {
                self.remove(&key);
            }
        }
    }
}
