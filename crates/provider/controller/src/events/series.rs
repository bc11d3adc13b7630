//! The series of published Events, which decide whether to publish an Event again.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use jiff::{SignedDuration, Timestamp};

use super::{cut::cut, event::Event};

/// The shortest time between two writes of a repeated Event; in between it is only counted.
const WRITE_EVERY: SignedDuration = SignedDuration::from_mins(1);
/// A series ends if its Event is not repeated for this time, as in Kubernetes' own recorders.
const SERIES_ENDS_AFTER: SignedDuration = SignedDuration::from_mins(6);
/// The most series in memory: 4,096 of about 100 bytes are 400 KiB. Beyond that, the series that was not repeated for
/// the longest time is forgotten; its next Event starts a new series.
const SERIES_MAX: usize = 4096;
/// Ended series are forgotten when the log holds this many, or twice as many as were left the last time. So the work for
/// each new series is constant on average, and the log holds at most twice the series that ever ran together.
const SWEPT_MIN: usize = 64;
/// Leaves room for the suffix within the 253 characters of an object name.
const NAME_PREFIX_MAX: usize = 230;

/// What to write for an Event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Say {
    /// Create an Event of this name.
    First { name: String },
    /// Write the count into the Event of this name.
    Again { name: String, count: i32 },
    /// Write nothing: the Event was written a short time ago.
    Nothing,
}

/// The series that have not ended.
#[derive(Debug, Default)]
pub(super) struct SeriesLog {
    running: HashMap<u64, Series>,
    /// How many series may be there before ended ones are looked for.
    swept_at: usize,
    last_serial: i128,
}

#[derive(Debug)]
struct Series {
    name: String,
    count: i32,
    last_seen: Timestamp,
    last_written: Timestamp,
}

impl SeriesLog {
    /// Records an Event and decides what to do about it.
    pub(super) fn note(&mut self, now: Timestamp, event: &Event) -> Say {
        let key = key(event);
        if let Some(series) = self.running.get_mut(&key)
            && now.duration_since(series.last_seen) < SERIES_ENDS_AFTER
        {
            series.count = series.count.saturating_add(1);
            series.last_seen = now;
            if now.duration_since(series.last_written) < WRITE_EVERY {
                return Say::Nothing;
            }
            series.last_written = now;
            return Say::Again {
                name: series.name.clone(),
                count: series.count,
            };
        }
        self.make_room(now);
        let name = self.name(now, event);
        let series = Series {
            name: name.clone(),
            count: 1,
            last_seen: now,
            last_written: now,
        };
        self.running.insert(key, series);
        Say::First { name }
    }

    /// Forgets the series of an Event that could not be written.
    pub(super) fn forget(&mut self, event: &Event) {
        self.running.remove(&key(event));
    }

    fn make_room(&mut self, now: Timestamp) {
        if self.running.len() < self.swept_at {
            return;
        }
        self.running
            .retain(|_, series| now.duration_since(series.last_seen) < SERIES_ENDS_AFTER);
        if self.running.len() >= SERIES_MAX
            && let Some(oldest) = self
                .running
                .iter()
                .min_by_key(|(_, series)| series.last_seen)
                .map(|(key, _)| *key)
        {
            self.running.remove(&oldest);
        }
        self.swept_at = (2 * self.running.len()).clamp(SWEPT_MIN, SERIES_MAX);
    }

    /// The object's name and a serial number: the time, or one more than the last number if the clock stands still.
    fn name(&mut self, now: Timestamp, event: &Event) -> String {
        self.last_serial = now.as_nanosecond().max(self.last_serial + 1);
        let object = event.regarding.name.as_deref().unwrap_or("nephele");
        format!("{}.{:x}", cut(object, NAME_PREFIX_MAX), self.last_serial)
    }
}

fn key(event: &Event) -> u64 {
    let Event {
        regarding,
        severity,
        reason,
        action,
        note,
    } = event;
    let mut hasher = DefaultHasher::new();
    (
        &regarding.kind,
        &regarding.namespace,
        &regarding.name,
        &regarding.uid,
    )
        .hash(&mut hasher);
    (severity, reason, action, note).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;
    use proptest::{collection, prelude::*};

    use super::*;
    use crate::events::Severity;

    fn event(name: &str, note: &str) -> Event {
        Event {
            regarding: ObjectReference {
                name: Some(name.into()),
                ..ObjectReference::default()
            },
            severity: Severity::Warning,
            reason: "ReconcileFailed",
            action: "Reconcile",
            note: note.into(),
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("a time in range")
    }

    fn first(say: &Say) -> &str {
        match say {
            Say::First { name } => name,
            other => panic!("expected a new event, got {other:?}"),
        }
    }

    #[test]
    fn a_repeated_event_is_counted_and_written_once_a_minute() {
        let mut log = SeriesLog::default();
        let name = first(&log.note(at(0), &event("m", "broken"))).to_owned();
        assert_eq!(log.note(at(10), &event("m", "broken")), Say::Nothing);
        assert_eq!(log.note(at(59), &event("m", "broken")), Say::Nothing);
        assert_eq!(
            log.note(at(60), &event("m", "broken")),
            Say::Again { name, count: 4 }
        );
        assert_eq!(log.note(at(61), &event("m", "broken")), Say::Nothing);
    }

    #[test]
    fn another_object_or_another_note_is_another_event() {
        let mut log = SeriesLog::default();
        let says = [
            log.note(at(0), &event("m", "broken")),
            log.note(at(0), &event("m", "worse")),
            log.note(at(0), &event("n", "broken")),
        ];
        let mut names: Vec<&str> = says.iter().map(first).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(
            names.len(),
            3,
            "names are unique even when the clock stands still"
        );
    }

    #[test]
    fn a_long_silence_ends_the_series() {
        let mut log = SeriesLog::default();
        first(&log.note(at(0), &event("m", "broken")));
        first(&log.note(at(360), &event("m", "broken")));
    }

    proptest! {
        #[test]
        fn the_log_holds_at_most_twice_the_series_that_ever_ran_together(
            steps in collection::vec((prop_oneof![9 => Just(0), 1 => 1..8i64], 0..500u32), 1..1000),
        ) {
            let mut log = SeriesLog::default();
            let mut last_seen = HashMap::new();
            let mut now = 0;
            let mut most = 0;
            for (minutes, object) in steps {
                now += minutes * 60;
                let said = log.note(at(now), &event(&object.to_string(), "broken"));
                let runs = last_seen.insert(object, now).is_some_and(|seen| now - seen < 360);
                prop_assert_eq!(runs, !matches!(said, Say::First { .. }));
                most = most.max(last_seen.values().filter(|seen| now - **seen < 360).count());
                prop_assert!(log.running.len() <= SWEPT_MIN.max(2 * most), "at most {most} ran together");
            }
        }
    }

    #[test]
    fn an_event_that_could_not_be_written_begins_a_new_series() {
        let mut log = SeriesLog::default();
        first(&log.note(at(0), &event("m", "broken")));
        log.forget(&event("m", "broken"));
        first(&log.note(at(1), &event("m", "broken")));
    }

    #[test]
    fn the_log_forgets_the_series_silent_for_longest() {
        let mut log = SeriesLog::default();
        for second in 0..=i64::try_from(SERIES_MAX).expect("small") {
            // All within the time of a series, so that only the bound makes room.
            let now = Timestamp::from_millisecond(second).expect("a time in range");
            first(&log.note(now, &event(&format!("m{second}"), "broken")));
        }
        assert_eq!(log.running.len(), SERIES_MAX);
        first(&log.note(at(10), &event("m0", "broken")));
        assert_eq!(log.note(at(10), &event("m2", "broken")), Say::Nothing);
    }
}
