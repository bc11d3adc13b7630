//! Watching: a stream of JSON frames, pulled from the store's log.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream;
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use super::negotiate::Shape;
use super::query::Options;
use super::read::{in_version, metadata_only, select, served};
use super::request::RequestInfo;
use super::status::{ApiError, bytes_response};
use crate::registry::ResourceType;
use crate::store::{Change, ChangeKind, Expired, GroupResource, Object, Store};
use crate::table;

/// How often a watcher that allows bookmarks is told how far it is; the real server's cache does it each minute.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// Least time a watch without `timeoutSeconds` lives; the real server's default is 1,800 s to twice that.
const TIMEOUT_MIN: Duration = Duration::from_secs(1800);

struct Watcher {
    store: Arc<Store>,
    kind: Arc<ResourceType>,
    resource: GroupResource,
    info: RequestInfo,
    options: Options,
    shape: Shape,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    newest: Receiver<u64>,
    /// The version up to which the client has been told everything.
    cursor: u64,
    ready: VecDeque<Bytes>,
    ends: Instant,
    next_bookmark: Instant,
    over: bool,
}

pub(crate) fn watch(
    store: &Arc<Store>,
    info: &RequestInfo,
    options: &Options,
    shape: Shape,
    clock: &Arc<dyn Fn() -> Timestamp + Send + Sync>,
) -> Result<Response<Body>, ApiError> {
    let kind = served(store, info)?;
    options.fields.check(&kind.group, &kind.kind, kind.custom)?;
    // Subscribing comes before listing, so that no change falls between.
    let newest = store.subscribe();
    let resource = kind.group_resource();
    let started = Instant::now();
    let mut watcher = Watcher {
        store: store.clone(),
        resource,
        info: info.clone(),
        options: options.clone(),
        shape,
        clock: clock.clone(),
        newest,
        cursor: options.resource_version.unwrap_or(0),
        ready: VecDeque::new(),
        ends: started,
        next_bookmark: started + BOOKMARK_INTERVAL,
        over: false,
        kind,
    };
    let from_start = watcher.cursor == 0;
    let current = store.resource_version();
    if watcher.cursor > current {
        // The client has seen a future that this server has not: it forgot its past. Listing puts both in step.
        return Err(Expired { requested: watcher.cursor, oldest: current }.into());
    }
    if options.send_initial_events || from_start {
        watcher.queue_initial_events()?;
    }
    // Spread over half an hour, so that watches that began together do not end together.
    let spread = Duration::from_secs(watcher.cursor % 1800);
    watcher.ends = started + options.timeout.unwrap_or(TIMEOUT_MIN + spread);

    let frames = stream::unfold(watcher, |mut watcher| async move {
        let frame = watcher.next().await?;
        Some((Ok::<_, std::convert::Infallible>(frame), watcher))
    });
    Ok(bytes_response(StatusCode::OK, Body::from_stream(frames)))
}

impl Watcher {
    fn queue_initial_events(&mut self) -> Result<(), ApiError> {
        let list = Options {
            resource_version: self.options.resource_version,
            labels: self.options.labels.clone(),
            fields: self.options.fields.clone(),
            ..Options::default()
        };
        let page = select(&self.store, &self.kind, &self.info, &list)?;
        self.cursor = page.resource_version;
        for object in &page.objects {
            let frame = self.frame("ADDED", object);
            self.ready.push_back(frame);
        }
        if self.options.send_initial_events && self.options.allow_bookmarks {
            let bookmark = self.bookmark(true);
            self.ready.push_back(bookmark);
        }
        Ok(())
    }

    /// The next frame, or none when the watch is over.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            // Everything that is ready goes out in one piece.
            if !self.ready.is_empty() {
                let size = self.ready.iter().map(Bytes::len).sum();
                let mut out = BytesMut::with_capacity(size);
                for frame in self.ready.drain(..) {
                    out.put_slice(&frame);
                }
                return Some(out.freeze());
            }
            if self.over {
                return None;
            }
            let seen = *self.newest.borrow_and_update();
            if seen > self.cursor {
                self.pull(seen);
                continue;
            }
            let wake =
                if self.options.allow_bookmarks { self.next_bookmark.min(self.ends) } else { self.ends };
            tokio::select! {
                changed = self.newest.changed() => if changed.is_err() { return None },
                () = sleep_until(wake) => self.on_time(),
            }
        }
    }

    fn on_time(&mut self) {
        let now = Instant::now();
        if now >= self.next_bookmark {
            self.next_bookmark = now + BOOKMARK_INTERVAL;
            if self.options.allow_bookmarks && self.cursor > 0 {
                let bookmark = self.bookmark(false);
                self.ready.push_back(bookmark);
            }
        }
        self.over = now >= self.ends;
    }

    fn pull(&mut self, seen: u64) {
        match self.store.changes_since(self.cursor, &self.resource) {
            Ok(changes) => {
                self.cursor = seen;
                for change in changes {
                    // The log may already hold more than what was seen; all of it is told now.
                    self.cursor = self.cursor.max(change.object.resource_version);
                    if let Some(frame) = self.change_frame(&change) {
                        self.ready.push_back(frame);
                    }
                }
            }
            Err(expired) => {
                self.ready.push_back(error_frame(expired));
                self.over = true;
            }
        }
    }

    /// What a change is to this watcher: an object that stops matching its selectors is deleted to it.
    fn change_frame(&self, change: &Change) -> Option<Bytes> {
        let matches = |object: &Object| {
            (self.info.namespace.is_empty() || *object.namespace == *self.info.namespace)
                && self.options.labels.matches(object)
                && self.options.fields.matches(object)
        };
        let after = matches(&change.object);
        let before = change.previous.as_ref().is_some_and(|object| matches(object));
        let name = match (change.kind, before, after) {
            (ChangeKind::Deleted, before, after) => (before || after).then_some("DELETED"),
            (_, false, true) => Some("ADDED"),
            (_, true, true) => Some("MODIFIED"),
            (_, true, false) => Some("DELETED"),
            (_, false, false) => None,
        }?;
        Some(self.frame(name, &change.object))
    }

    fn frame(&self, kind: &str, object: &Object) -> Bytes {
        match self.shape {
            Shape::Object => raw_frame(kind, &in_version(&self.kind, &self.info.version, object)),
            Shape::Metadata => value_frame(kind, &metadata_only(object)),
            Shape::Table => {
                let metadata = json!({"resourceVersion": object.resource_version.to_string()});
                let include = table::IncludeObject::parse(self.options.include_object.as_deref());
                let table = table::render(&self.kind, &[object.value()], &metadata, include, (self.clock)());
                value_frame(kind, &table)
            }
        }
    }

    fn bookmark(&self, initial_events_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": self.cursor.to_string()});
        if initial_events_end {
            // KEP-3157: the mark after which the client's cache is in step.
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.shape {
            Shape::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            Shape::Table => json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
                                   "columnDefinitions": [], "rows": []}),
            Shape::Object => json!({"kind": self.kind.kind,
                                    "apiVersion": self.kind.api_version(&self.info.version), "metadata": metadata}),
        };
        value_frame("BOOKMARK", &object)
    }
}

fn error_frame(expired: Expired) -> Bytes {
    value_frame("ERROR", &ApiError::from(expired).value())
}

fn value_frame(kind: &str, object: &Value) -> Bytes {
    raw_frame(kind, &serde_json::to_vec(object).expect("a JSON value always serialises"))
}

fn raw_frame(kind: &str, object: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(object.len() + 32);
    out.put_slice(b"{\"type\":\"");
    out.put_slice(kind.as_bytes());
    out.put_slice(b"\",\"object\":");
    out.put_slice(object);
    out.put_slice(b"}\n");
    out.freeze()
}
