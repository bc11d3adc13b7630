//! Events, the one built-in kind that nobody deletes: they go by themselves, an hour after they were last written
//! (`kube-apiserver --event-ttl`), or when there are too many.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

use super::State;
use super::object::{Key, Object};

/// How long an event stays after it was last written.
const EVENT_TTL: SignedDuration = SignedDuration::from_hours(1);

/// How many events a store keeps: about four megabytes of them, which only a store of thousands of busy objects sees.
pub(super) const EVENTS_MAX: usize = 4096;

/// When which version of which event was written, oldest first. A version that has been replaced since is passed over.
#[derive(Debug, Default)]
pub(super) struct Written(VecDeque<(Timestamp, u64, Key)>);

impl State {
    /// Notes that an object was written, and takes away the events whose time is over.
    pub(super) fn note_event(&mut self, now: Timestamp, key: &Key, object: &Object) {
        if !(key.resource.group.is_empty() && key.resource.resource == "events") {
            return;
        }
        self.events.0.push_back((now, object.resource_version, key.clone()));
        while let Some((written, version, key)) = self.events.0.front() {
            let over = now.duration_since(*written) > EVENT_TTL || self.events.0.len() > EVENTS_MAX;
            let replaced = self.get(key).is_none_or(|object| object.resource_version != *version);
            if !over && !replaced {
                break;
            }
            let (_, _, key) = self.events.0.pop_front().expect("the front was just looked at");
            if !replaced {
                self.remove(&key);
            }
        }
    }
}
