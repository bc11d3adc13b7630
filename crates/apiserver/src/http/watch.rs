//! Watching: a stream of JSON frames, pulled from the store's log as fast as the client reads.
//!
//! Between two frames a watcher holds a position in the log and no object. If a client does not read, only the frame in
//! flight stays in memory. When the client reads again and the log no longer reaches back that far, it gets a 410
//! response and lists again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream;
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep, sleep_until};

use super::convert::stored_in;
use super::query::Options;
use super::request::RequestInfo;
use super::status::{ApiError, bytes_response};
use super::view::View;
use crate::allowance::WatchPlace;
use crate::store::{Change, ChangeKind, Expired, GroupResource, Object, Store};

/// How often a watcher that allows bookmarks gets one. The real server's cache sends one each minute.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// The shortest lifetime of a watch without `timeoutSeconds`. The real server's default is 1,800 s to twice that.
const TIMEOUT_MIN: Duration = Duration::from_secs(1800);

/// How many bytes are written at once: some dozen objects, so that a watch of thousands of objects costs little memory
/// while it starts.
const CHUNK: usize = 64 * 1024;

/// How many objects or changes are taken from the store at once.
const PAGE: usize = 64;

struct Watcher {
    store: Arc<Store>,
    resource: GroupResource,
    view: View,
    namespace: String,
    options: Options,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    newest: Receiver<u64>,
    /// The watcher has been sent everything up to this version.
    cursor: u64,
    /// While the objects at `cursor` are being sent: the namespace and name of the last one.
    beginning: Option<Option<(Box<str>, Box<str>)>>,
    /// Whether the end of the initial events still has to be sent.
    initial_end: bool,
    ends: Instant,
    next_bookmark: Instant,
    over: bool,
    _place: WatchPlace,
    /// Tells it from other watchers.
    number: u64,
}

/// The number of the next watcher.
static NEXT_WATCHER: AtomicU64 = AtomicU64::new(0);

pub(crate) fn watch(
    store: &Arc<Store>,
    info: &RequestInfo,
    options: &Options,
    view: View,
    clock: &Arc<dyn Fn() -> Timestamp + Send + Sync>,
    place: WatchPlace,
) -> Result<Response<Body>, ApiError> {
    options.fields.check(&view.kind.group, &view.kind.kind, view.kind.custom)?;
    // The subscription comes before the list, so that no change is missed in between.
    let newest = store.subscribe();
    let started = Instant::now();
    let mut watcher = Watcher {
        store: store.clone(),
        resource: stored_in(&view.kind),
        view,
        namespace: info.namespace.clone(),
        options: options.clone(),
        clock: clock.clone(),
        newest,
        cursor: options.resource_version.unwrap_or(0),
        beginning: None,
        initial_end: false,
        ends: started,
        next_bookmark: started + BOOKMARK_INTERVAL,
        over: false,
        _place: place,
        number: NEXT_WATCHER.fetch_add(1, Ordering::Relaxed),
    };
    let current = store.resource_version();
    if watcher.cursor > current {
        // The client knows a later version than this server, which has lost its past. The client has to list again.
        return Err(Expired { requested: watcher.cursor, oldest: current }.into());
    }
    if options.send_initial_events.unwrap_or(watcher.cursor == 0) {
        // Without an exact match, a resource version asks for a state that is no older: the present.
        watcher.cursor = current;
        watcher.beginning = Some(None);
        watcher.initial_end = options.send_initial_events == Some(true) && options.allow_bookmarks;
    } else if watcher.cursor == 0 {
        watcher.cursor = current;
    }
    // Spread over half an hour, so that watches that started together do not end together.
    let spread = Duration::from_secs(watcher.cursor % 1800);
    watcher.ends = started + options.timeout.unwrap_or(TIMEOUT_MIN + spread);

    let frames = stream::unfold(watcher, |mut watcher| async move {
        let frame = watcher.next().await?;
        Some((Ok::<_, std::convert::Infallible>(frame), watcher))
    });
    Ok(bytes_response(StatusCode::OK, Body::from_stream(frames)))
}

impl Watcher {
    /// The next frames, or none when the watch is over.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let frames = self.ready_frames();
            if !frames.is_empty() {
                return Some(frames);
            }
            if self.over {
                return None;
            }
            let wake =
                if self.options.allow_bookmarks { self.next_bookmark.min(self.ends) } else { self.ends };
            tokio::select! {
                changed = self.newest.changed() => {
                    if changed.is_err() {
                        return None;
                    }
                    let delay = self.store.allowance().watch_delay(self.number);
                    if !delay.is_zero() {
                        sleep(delay).await;
                    }
                }
                () = sleep_until(wake) => {
                    let now = Instant::now();
                    self.over = now >= self.ends;
                    if self.options.allow_bookmarks && now >= self.next_bookmark {
                        self.next_bookmark = now + BOOKMARK_INTERVAL;
                        return Some(self.bookmark(false));
                    }
                }
            }
        }
    }

    /// The next frames, up to about [`CHUNK`] bytes, without waiting.
    fn ready_frames(&mut self) -> Bytes {
        let mut out = BytesMut::new();
        while out.len() < CHUNK && !self.over {
            let told = if self.beginning.is_some() {
                self.tell_beginning(&mut out)
            } else if std::mem::take(&mut self.initial_end) {
                out.put_slice(&self.bookmark(true));
                Ok(true)
            } else {
                self.tell_changes(&mut out)
            };
            match told {
                Ok(true) => {}
                Ok(false) => break,
                Err(expired) => {
                    put_frame(&mut out, "ERROR", ApiError::from(expired).value().to_string().as_bytes());
                    self.over = true;
                }
            }
        }
        out.freeze()
    }

    /// Sends more of the objects that existed when the watch started.
    fn tell_beginning(&mut self, out: &mut BytesMut) -> Result<bool, Expired> {
        let Some(told) = &mut self.beginning else { return Ok(false) };
        let namespace = Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let after = told.as_ref().map(|(namespace, name)| (&**namespace, &**name));
        let page = self.store.list_at(&self.resource, namespace, self.cursor, after, PAGE)?;
        for object in &page {
            *told = Some((object.namespace.clone(), object.name.clone()));
            if self.options.labels.matches(object) && self.options.fields.matches(object) {
                put_frame(out, "ADDED", &self.view.object(object, (self.clock)()));
                if out.len() >= CHUNK {
                    return Ok(true);
                }
            }
        }
        if page.len() < PAGE {
            self.beginning = None;
        }
        Ok(true)
    }

    /// Sends more of the later changes. Returns false if there are none.
    fn tell_changes(&mut self, out: &mut BytesMut) -> Result<bool, Expired> {
        let seen = *self.newest.borrow_and_update();
        if seen <= self.cursor {
            return Ok(false);
        }
        let changes = self.store.changes_since(self.cursor, &self.resource, PAGE)?;
        for change in &changes {
            self.cursor = change.object.resource_version;
            if let Some((kind, object)) = self.event(change) {
                put_frame(out, kind, &self.view.object(&object, (self.clock)()));
                if out.len() >= CHUNK {
                    return Ok(true);
                }
            }
        }
        if changes.len() < PAGE {
            // The log may already hold later changes than `seen`.
            self.cursor = self.cursor.max(seen);
        }
        Ok(true)
    }

    /// The event of a change for this watcher. When an object stops matching the selectors, the watcher gets a
    /// deletion, with the last state that matched and the version of the change.
    fn event(&self, change: &Change) -> Option<(&'static str, Arc<Object>)> {
        let matches = |object: &Arc<Object>| {
            (self.namespace.is_empty() || *object.namespace == *self.namespace)
                && self.options.labels.matches(object)
                && self.options.fields.matches(object)
        };
        let previous = change.previous.as_ref().filter(|object| matches(object));
        match (change.kind, previous) {
            (ChangeKind::Deleted, previous) => previous.map(|_| ("DELETED", change.object.clone())),
            (ChangeKind::Added | ChangeKind::Modified, previous) => match (previous, matches(&change.object))
            {
                (None, false) => None,
                (None, true) => Some(("ADDED", change.object.clone())),
                (Some(_), true) => Some(("MODIFIED", change.object.clone())),
                (Some(previous), false) => {
                    Some(("DELETED", Arc::new(previous.at_version(change.object.resource_version))))
                }
            },
        }
    }

    fn bookmark(&self, initial_events_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": self.cursor.to_string()});
        if initial_events_end {
            // KEP-3157: after this bookmark the client's cache is up to date.
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let mut out = BytesMut::new();
        put_frame(&mut out, "BOOKMARK", &self.view.bookmark(&metadata));
        out.freeze()
    }
}

fn put_frame(out: &mut BytesMut, kind: &str, object: &[u8]) {
    out.put_slice(b"{\"type\":\"");
    out.put_slice(kind.as_bytes());
    out.put_slice(b"\",\"object\":");
    out.put_slice(object);
    out.put_slice(b"}\n");
}
