//! Differences as bytes, encoded once for all viewers of a namespace.
//!
//! ```text
//!  publish(Shown) ──▶ diff ──▶ ring of messages ──▶ viewer 1, viewer 2, …
//!                                    └─ a viewer that is behind its oldest message ──▶ snapshot
//! ```
//!
//! A viewer holds only the message that it is sending. The ring has at most [`MESSAGES_MAX`] messages and [`BYTES_MAX`] bytes,
//! and one snapshot beside it, whose size grows with the machines.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    diff::{Change, Difference, diff},
    elements::Elements,
    html,
    model::Model,
    objects::Objects,
};

/// Messages that a viewer can be behind: 11.5 seconds at the rate of frames.
const MESSAGES_MAX: usize = 64;
/// The bytes of these messages. With 64 namespaces that are viewed, all rings have 16 MiB at most.
pub(crate) const BYTES_MAX: usize = 256 * 1024;

/// What a page shows, and of what it is made.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) objects: Arc<Objects>,
    pub(crate) model: Model,
    pub(crate) elements: Elements,
}

impl Shown {
    /// What a page of a namespace, or of all, shows of the objects. It shares with this one what has not changed.
    pub(crate) fn after(&self, objects: Arc<Objects>, namespace: Option<&str>) -> Self {
        let model = Model::after(&self.model, &objects, namespace);
        let elements = Elements::after((&self.model, &self.elements), &model);
        Self {
            objects,
            model,
            elements,
        }
    }
}

/// The messages for the pages of a namespace.
pub(crate) struct Feed {
    /// It differs for each feed, so that the number of a message of another feed means nothing here.
    epoch: String,
    state: Mutex<State>,
    version: watch::Sender<u64>,
    is_closed: AtomicBool,
    /// When a viewer last asked for it.
    used: Mutex<Timestamp>,
}

#[derive(Default)]
struct State {
    shown: Option<Arc<Shown>>,
    version: u64,
    messages: VecDeque<(u64, Bytes)>,
    bytes: usize,
    /// The whole page of a version.
    snapshot: Option<(u64, Bytes)>,
}

impl Feed {
    /// A feed without messages.
    pub(crate) fn new(epoch: String, now: Timestamp) -> Self {
        Self {
            epoch,
            state: Mutex::default(),
            version: watch::Sender::new(0),
            is_closed: AtomicBool::new(false),
            used: Mutex::new(now),
        }
    }

    /// Notes that a viewer has it, or had it until now.
    pub(crate) fn touch(&self, now: Timestamp) {
        *self.used.lock() = now;
    }

    /// Says to its viewers that nothing comes any more.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.version.send_modify(|version| *version += 1);
    }

    /// Whether nothing comes any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Whether no viewer has had it for so long.
    pub(crate) fn is_stale(&self, limit: SignedDuration, now: Timestamp) -> bool {
        now.duration_since(*self.used.lock()) >= limit
    }

    /// Shows these objects from now on, those of a namespace or of all.
    pub(crate) fn publish(&self, objects: Arc<Objects>, namespace: Option<&str>) {
        let Some(before) = self.state.lock().shown.clone() else {
            let shown = Shown::default().after(objects, namespace);
            self.state.lock().shown = Some(Arc::new(shown));
            self.version.send_replace(1);
            return;
        };
        let shown = Arc::new(before.after(objects, namespace));
        // Encoded without the lock: the one task that publishes is the only one that changes the state.
        let message = match diff(&before.elements, &shown.elements) {
            Difference::Changes(changes) if changes.is_empty() => {
                self.state.lock().shown = Some(shown);
                return;
            }
            Difference::Changes(changes) => Some(encode(&changes, &shown.elements.zones)),
            Difference::Everything => None,
        };
        let mut state = self.state.lock();
        state.version += 1;
        state.shown = Some(shown);
        let version = state.version;
        match message {
            Some(data) => {
                let message = Bytes::from(format!(
                    "id: {}-{version}\nevent: changes\ndata: {data}\n\n",
                    self.epoch
                ));
                state.bytes += message.len();
                state.messages.push_back((version, message));
            }
            None => {
                state.messages.clear();
                state.bytes = 0;
            }
        }
        while state.messages.len() > MESSAGES_MAX || state.bytes > BYTES_MAX {
            let Some((_, oldest)) = state.messages.pop_front() else {
                break;
            };
            state.bytes -= oldest.len();
        }
        drop(state);
        self.version.send_modify(|version| *version += 1);
    }

    /// What is shown now, and the name of its version. None until everything was read once.
    pub(crate) fn now(&self) -> Option<(Arc<Shown>, String)> {
        let state = self.state.lock();
        let shown = state.shown.clone()?;
        Some((shown, format!("{}-{}", self.epoch, state.version)))
    }

    /// A receiver that wakes when there may be more messages.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// The number in the name of a version, if it is one of this feed.
    pub(crate) fn number(&self, version: &str) -> Option<u64> {
        let (epoch, number) = version.rsplit_once('-')?;
        (epoch == self.epoch).then(|| number.parse().ok()).flatten()
    }

    /// The messages after number `last`, and the number of the last of them: the whole page if some are not known any more.
    /// None if there are no more.
    pub(crate) fn after(&self, last: Option<u64>) -> Option<(u64, Bytes)> {
        let mut state = self.state.lock();
        let version = state.version;
        let shown = state.shown.clone()?;
        if last == Some(version) {
            return None;
        }
        let first = last.map(|last| last.saturating_add(1));
        let oldest = state.messages.front().map(|(number, _)| *number);
        if let (Some(first), Some(oldest)) = (first, oldest)
            && (oldest..=version).contains(&first)
        {
            let wanted = state.messages.iter().filter(|(number, _)| *number >= first);
            let parts: Vec<&[u8]> = wanted.map(|(_, message)| message.as_ref()).collect();
            return Some((version, Bytes::from(parts.concat())));
        }
        if let Some((known, snapshot)) = &state.snapshot
            && *known == version
        {
            return Some((version, snapshot.clone()));
        }
        let html = html::screen(&shown.elements).into_string();
        let snapshot = Bytes::from(format!(
            "id: {}-{version}\nevent: snapshot\ndata: {}\n\n",
            self.epoch,
            Value::from(html)
        ));
        state.snapshot = Some((version, snapshot.clone()));
        Some((version, snapshot))
    }
}

/// Changes as one line of JSON.
fn encode(changes: &[Change], zones: &[String]) -> Value {
    let of = |change: &Change| match change {
        Change::Set { id, name, value } => json!(["set", id, name, value]),
        Change::Say { id, place, text } => json!(["say", id, place, text]),
        Change::Add { id, element, before } => {
            let html = html::item(id, element, zones, None).into_string();
            json!(["add", element.list, before, html])
        }
        Change::Delete { id } => json!(["delete", id]),
    };
    changes.iter().map(of).collect()
}

#[cfg(test)]
mod tests;
