//! What the screen Timeline shows, as plain values. Pure.
//!
//! ```text
//!  journal ─┐
//!           ├─▶ lanes: spans (what something was, from when until when) and marks (what happened)
//!  objects ─┘
//! ```
//!
//! The journal tells what happened. The objects tell what exists: a manager remembers a few thousand records, and what is older
//! has a lane, too.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nephele_cloud::JournalLine;

use crate::{
    elements::path,
    machine_view::Seen,
    objects::{Key, Objects},
    surroundings::Surroundings,
    timeline::{
        history::History,
        lane::{Lane, LaneId, LaneKind, Mark, Span},
        window::{Asked, Window},
    },
};

mod history;
pub(crate) mod lane;
pub(crate) mod window;

/// The most lanes of a screen: more than anyone scrolls through. One cluster can be chosen.
const LANES_MAX: usize = 200;
/// The most records under the lanes; the export has all.
const RECORDS_MAX: usize = 100;
/// The parts of a window for the bands of Faults, of which there are fewer.
const BANDS_MAX: i64 = 100;
/// Two marks of a kind in the same part of the window are one.
const MARKS_PER_LANE: i64 = 500;

/// Everything on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timeline {
    pub(crate) window: Window,
    pub(crate) lanes: Vec<Lane>,
    /// How many lanes there are beyond the most.
    pub(crate) lanes_left_out: usize,
    /// When Faults are in force, by their namespace.
    pub(crate) bands: BTreeMap<String, Vec<Span>>,
    /// The clusters that can be chosen.
    pub(crate) clusters: Vec<Key>,
    /// The records in the window, of the lanes that are asked for. The oldest is the first.
    pub(crate) records: Vec<Arc<JournalLine>>,
}

impl Timeline {
    /// The timeline that is asked for at a time.
    pub(crate) fn new(objects: &Objects, asked: &Asked, now: i64) -> Self {
        let first = objects.journal.first();
        let first = first.map_or(now, |first| first.time.as_millisecond());
        let window = Window::new(asked, first, now);
        let all = histories(&Surroundings::new(objects));
        let mut clusters: BTreeSet<Key> = all
            .keys()
            .filter(|id| !id.cluster.is_empty())
            .map(|id| Key::new(&id.namespace, &id.cluster))
            .collect();
        clusters.extend(asked.cluster.clone());
        let mut bands: BTreeMap<String, Vec<Span>> = BTreeMap::new();
        let mut lanes = Vec::new();
        for (id, history) in &all {
            if !asked.wants(id) {
                continue;
            }
            let spans = history.spans(window, now);
            let marks = fewer(history.marks(window), window);
            if id.kind == LaneKind::Fault {
                bands
                    .entry(id.namespace.clone())
                    .or_default()
                    .extend(spans.clone());
            }
            if !spans.is_empty() || !marks.is_empty() {
                lanes.push(Lane {
                    id: id.clone(),
                    href: history.href.clone(),
                    spans,
                    marks,
                });
            }
        }
        let lanes_left_out = lanes.len().saturating_sub(LANES_MAX);
        lanes.truncate(LANES_MAX);
        let is_listed = |line: &&Arc<JournalLine>| {
            window.has(line.time.as_millisecond())
                && LaneId::of_record(line).is_some_and(|id| match &asked.lane {
                    Some(lane) => *lane == id || is_done_by(line, lane),
                    None => asked.wants(&id),
                })
        };
        Self {
            window,
            lanes,
            lanes_left_out,
            bands: bands
                .into_iter()
                .map(|(namespace, spans)| (namespace, merged(spans, window)))
                .collect(),
            clusters: clusters.into_iter().collect(),
            records: objects.journal.iter().filter(is_listed).cloned().collect(),
        }
    }

    /// The last records, the newest first, and how many there are before them.
    pub(crate) fn last_records(&self) -> (impl Iterator<Item = &JournalLine>, usize) {
        let last = self.records.iter().rev().take(RECORDS_MAX).map(AsRef::as_ref);
        (last, self.records.len().saturating_sub(RECORDS_MAX))
    }
}

/// What each thing in the cloud is now, such as "running"; None if it does not exist any more.
pub(crate) fn states(around: &Surroundings<'_>) -> BTreeMap<LaneId, Option<&'static str>> {
    let all = histories(around).into_iter();
    all.map(|(id, history)| (id, history.is())).collect()
}

/// Whether the Fault of a lane caused a record.
fn is_done_by(line: &JournalLine, lane: &LaneId) -> bool {
    lane.kind == LaneKind::Fault && lane.namespace == line.namespace && line.faults.contains(&lane.name)
}

/// The marks without those that would cover each other: the last one of a kind in each part of the window stays.
fn fewer(marks: impl Iterator<Item = Mark>, window: Window) -> Vec<Mark> {
    let mut kept = BTreeMap::new();
    for mark in marks {
        kept.insert((mark.kind, window.part(mark.at, MARKS_PER_LANE)), mark);
    }
    kept.into_values().collect()
}

/// The spans as one where they overlap, or are in neighbouring parts of the window: each lane of a namespace has them.
fn merged(mut spans: Vec<Span>, window: Window) -> Vec<Span> {
    spans.sort_by_key(|span| span.from);
    let mut merged: Vec<Span> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if window.part(span.from, BANDS_MAX) <= window.part(last.until, BANDS_MAX) + 1 => {
                last.until = last.until.max(span.until);
            }
            _ => merged.push(span),
        }
    }
    merged
}

/// What is known of each lane.
fn histories(around: &Surroundings<'_>) -> BTreeMap<LaneId, History> {
    let objects = around.objects;
    let mut all: BTreeMap<LaneId, History> = BTreeMap::new();
    for line in &objects.journal {
        if let Some(id) = LaneId::of_record(line) {
            all.entry(id).or_default().take(line);
        }
    }
    let mut exists = |id: LaneId, kind: &str, key: &Key, since: Option<i64>, state| {
        let history = all.entry(id).or_default();
        history.exists(path(kind, key), since, state);
    };
    for cloud in &objects.clouds {
        let key = Key::of(&cloud.metadata);
        let id = LaneId::alone(&key, LaneKind::Cloud);
        exists(id, "cloud", &key, created(&cloud.metadata), Some("running"));
    }
    for fault in &objects.faults {
        let key = Key::of(&fault.metadata);
        let status = fault.status.as_ref();
        let began = status.and_then(|status| status.start_time.as_ref());
        let began = began.map(|began| began.0.as_millisecond());
        let state = status
            .filter(|status| status.phase == "Active")
            .map(|_| "in force");
        let id = LaneId::alone(&key, LaneKind::Fault);
        exists(id, "fault", &key, began, state);
    }
    for cluster in &objects.clusters {
        let key = Key::of(&cluster.metadata);
        let id = LaneId::of_cluster(&key);
        exists(id, "cluster", &key, created(&cluster.metadata), Some("running"));
    }
    for seen in Seen::all(around) {
        // Without an instance there is nothing in the cloud.
        let Some(instance) = seen.instance().map(str::to_owned) else {
            continue;
        };
        let since = created(seen.metadata());
        let machine = seen.view();
        let id = LaneId {
            namespace: machine.key.namespace.clone(),
            cluster: machine.cluster.clone(),
            kind: LaneKind::Machine,
            name: instance,
        };
        exists(id, "machine", &machine.key, since, Some(machine.state.word()));
    }
    for (_, history) in all.iter_mut().filter(|(_, history)| history.href.is_none()) {
        history.is_gone();
    }
    all
}

/// When an object was created, in milliseconds since 1970.
fn created(metadata: &ObjectMeta) -> Option<i64> {
    let created = metadata.creation_timestamp.as_ref()?;
    Some(created.0.as_millisecond())
}

#[cfg(test)]
mod tests;
