//! Watching: a stream of JSON frames, pulled from the store's log as fast as the client reads.
//!
//! Between two frames a watcher holds a position in the log and no object. If a client does not read, only the frame in
//! flight stays in memory. When the client reads again and the log no longer reaches back that far, it gets a 410
//! response and lists again.
//!
//! Frames are made in small parts. Where a cluster has many watches, each part has its turn, so that a change does not make
//! the tasks of other clusters wait for all of them. Parts for which large objects may be parsed are made on a thread of
//! their own.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream;
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::json;
use tokio::{
    sync::watch::Receiver,
    task::yield_now,
    time::{Instant, sleep_until},
};

use super::{
    convert::stored_in,
    query::Options,
    request::RequestInfo,
    status::{ApiError, bytes_response},
    view::View,
};
use crate::{
    allowance::WatchPlace,
    parse_cost::LARGE_BYTES,
    store::{Change, ChangeKind, Expired, GroupResource, Object, Store},
};

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
}

pub(crate) fn watch(
    store: &Arc<Store>,
    info: &RequestInfo,
    options: &Options,
    view: View,
    clock: &Arc<dyn Fn() -> Timestamp + Send + Sync>,
    place: WatchPlace,
) -> Result<Response<Body>, ApiError> {
    options.fields.check(&view.kind, &view.version)?;
    // The subscription comes before the list, so that no change is missed in between.
    let newest = store.subscribe();
    let started = Instant::now();
    let mut watcher = Box::new(Watcher {
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
    });
    let current = store.resource_version();
    if watcher.cursor > current {
        // The client knows a later version than this server, which has lost its past. The client has to list again.
        return Err(Expired {
            requested: watcher.cursor,
            oldest: current,
        }
        .into());
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

    let frames = stream::unfold(watcher, |watcher| async move {
        let (frames, watcher) = watcher.next().await?;
        Some((Ok::<_, std::convert::Infallible>(frames), watcher))
    });
    Ok(bytes_response(StatusCode::OK, Body::from_stream(frames)))
}

impl Watcher {
    /// The next frames, or none when the watch is over.
    async fn next(mut self: Box<Self>) -> Option<(Bytes, Box<Self>)> {
        loop {
            if self.over {
                return None;
            }
            if self.has_more() {
                let frames;
                (frames, self) = self.tell().await;
                if !frames.is_empty() {
                    return Some((frames, self));
                }
                // A selector may pass over many objects.
                if self.has_more() {
                    yield_now().await;
                }
                continue;
            }
            let wake = if self.options.allow_bookmarks {
                self.next_bookmark.min(self.ends)
            } else {
                self.ends
            };
            tokio::select! {
                changed = self.newest.changed() => changed.ok()?,
                () = sleep_until(wake) => {
                    let now = Instant::now();
                    self.over = now >= self.ends;
                    if self.options.allow_bookmarks && now >= self.next_bookmark {
                        self.next_bookmark = now + BOOKMARK_INTERVAL;
                        let bookmark = self.bookmark(false);
                        return Some((bookmark, self));
                    }
                }
            }
        }
    }

    /// Whether there may be something to tell.
    fn has_more(&self) -> bool {
        self.beginning.is_some() || self.initial_end || *self.newest.borrow() > self.cursor
    }

    /// Whether the next part may take long: large objects are parsed for it.
    fn is_large(&self) -> bool {
        let parses = self.view.parses() || self.options.fields.parses();
        parses && self.store.bytes_of(&self.resource, "", None) > LARGE_BYTES
    }

    /// Makes a part of the frames, in its turn.
    async fn tell(mut self: Box<Self>) -> (Bytes, Box<Self>) {
        let store = self.store.clone();
        if self.is_large() {
            let work = move || (self.part(), self);
            return store.allowance().large_part(work).await;
        }
        let _turn = store.allowance().watch_turn().await;
        (self.part(), self)
    }

    /// Makes a part of the frames: of [`PAGE`] objects or changes, and of about [`CHUNK`] bytes at most.
    fn part(&mut self) -> Bytes {
        let mut out = BytesMut::new();
        let told = if self.beginning.is_some() {
            self.tell_beginning(&mut out)
        } else if std::mem::take(&mut self.initial_end) {
            out.put_slice(&self.bookmark(true));
            Ok(())
        } else {
            self.tell_changes(&mut out)
        };
        if let Err(expired) = told {
            put_frame(
                &mut out,
                "ERROR",
                ApiError::from(expired).value().to_string().as_bytes(),
            );
            self.over = true;
        }
        out.freeze()
    }

    /// Sends more of the objects that existed when the watch started.
    fn tell_beginning(&mut self, out: &mut BytesMut) -> Result<(), Expired> {
        let Some(told) = &mut self.beginning else {
            return Ok(());
        };
        let namespace = Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let after = told.as_ref().map(|(namespace, name)| (&**namespace, &**name));
        let page = self
            .store
            .list_at(&self.resource, namespace, self.cursor, after, PAGE)?;
        for object in &page {
            *told = Some((object.namespace.clone(), object.name.clone()));
            if self.options.labels.matches(object) && self.options.fields.matches(&self.view.kind, object) {
                put_frame(out, "ADDED", &self.view.object(object, (self.clock)()));
                if out.len() >= CHUNK {
                    return Ok(());
                }
            }
        }
        if page.len() < PAGE {
            self.beginning = None;
        }
        Ok(())
    }

    /// Sends more of the later changes.
    fn tell_changes(&mut self, out: &mut BytesMut) -> Result<(), Expired> {
        let seen = *self.newest.borrow_and_update();
        let changes = self.store.changes_since(self.cursor, &self.resource, PAGE)?;
        for change in &changes {
            self.cursor = change.object.resource_version;
            if let Some((kind, object)) = self.event(change) {
                put_frame(out, kind, &self.view.object(&object, (self.clock)()));
                if out.len() >= CHUNK {
                    return Ok(());
                }
            }
        }
        if changes.len() < PAGE {
            // The log may already hold later changes than `seen`.
            self.cursor = self.cursor.max(seen);
        }
        Ok(())
    }

    /// The event of a change for this watcher. When an object stops matching the selectors, the watcher gets a
    /// deletion, with the last state that matched and the version of the change.
    fn event(&self, change: &Change) -> Option<(&'static str, Arc<Object>)> {
        let matches = |object: &Arc<Object>| {
            (self.namespace.is_empty() || *object.namespace == *self.namespace)
                && self.options.labels.matches(object)
                && self.options.fields.matches(&self.view.kind, object)
        };
        let previous = change.previous.as_ref().filter(|object| matches(object));
        match (change.kind, previous) {
            (ChangeKind::Deleted, previous) => previous.map(|_| ("DELETED", change.object.clone())),
            (ChangeKind::Added | ChangeKind::Modified, previous) => match (previous, matches(&change.object))
            {
                (None, false) => None,
                (None, true) => Some(("ADDED", change.object.clone())),
                (Some(_), true) => Some(("MODIFIED", change.object.clone())),
                (Some(previous), false) => Some((
                    "DELETED",
                    Arc::new(previous.at_version(change.object.resource_version)),
                )),
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
