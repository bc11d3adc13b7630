//! Replays the journal of one cloud on another.

use std::{collections::VecDeque, sync::Arc};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    engine::Engine,
    event::Event,
    journal::{Behind, Cursor, Entry, Record},
    state::{State, StateError},
};

/// A line of a kept journal. A journal begins with a state, and records follow. When its reader fell behind, it
/// continues with another state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(
    clippy::large_enum_variant,
    reason = "lines are read and written one at a time"
)]
pub enum Line {
    /// The state of the cloud.
    State(State),
    /// The next record.
    Record(Entry),
    /// The digest of the cloud after the records so far.
    Digest {
        /// The number of the next record.
        next: u64,
        digest: String,
    },
}

impl Line {
    /// The digest of a cloud as it is now. Reads every resource.
    #[must_use]
    pub fn digest(engine: &Engine) -> Self {
        Self::Digest {
            next: engine.journal().next(),
            digest: hexadecimal(engine.digest()),
        }
    }
}

fn hexadecimal(digest: [u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A difference between the replay and the journal, or a journal that cannot be replayed.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Difference {
    /// A record or a digest comes before the first state.
    #[error("the journal does not begin with a state")]
    NoState,
    /// No cloud can be in the state.
    #[error("failed to restore the state in the journal")]
    State(#[source] StateError),
    /// A record is missing or appears twice.
    #[error("expected record {expected}, found record {found}")]
    Gap {
        /// The number that was expected.
        expected: u64,
        /// The number that was found.
        found: u64,
    },
    /// The replay gave another answer or another event.
    #[error("instead of record {sequence}, {}", .made.as_ref().map_or("nothing happened".to_owned(), |made| told(made)))]
    Record {
        /// The number of the record.
        sequence: u64,
        /// What happened in the replay; none if nothing happened.
        made: Option<Box<Record>>,
    },
    /// So much happened at once in the replay that its own journal dropped records before this one.
    #[error("the replay dropped events before record {0}")]
    Missing(u64),
    /// The replay has another digest.
    #[error("the digest of the replay is {made}, the digest in the journal is {kept}")]
    Digest {
        /// The digest of the replay.
        made: String,
        /// The digest in the journal.
        kept: String,
    },
    /// The replay has another state than the next state in the journal.
    #[error("the state before record {0} differs from the replay")]
    OtherState(u64),
}

fn told(record: &Record) -> String {
    match record {
        Record::Operation {
            operation, outcome, ..
        } => {
            format!(
                "{} of {} was answered {outcome:?}",
                operation.verb(),
                operation.request.target()
            )
        }
        Record::Event(Event { at, id, kind, .. }) => format!("{kind:?} happened to {id} at {at}"),
        Record::CapacityFreed {
            at,
            capacity,
            waiting,
        } => {
            format!("{waiting} was told that there is room in {capacity:?} at {at}")
        }
        Record::GrantEnded { at, waiting } => format!("{waiting} did not ask before {at}"),
        Record::FaultWindow { at, fault, begins } => {
            format!(
                "a window of {fault} {} at {at}",
                if *begins { "began" } else { "ended" }
            )
        }
        Record::FaultEnded { at, fault } => format!("the time of {fault} was over at {at}"),
    }
}

/// Replays a journal on a new cloud. It applies the recorded operations again and compares every answer and event with
/// the record.
#[derive(Debug, Default)]
pub struct Replay {
    playing: Option<Playing>,
    records: u64,
    gaps: u64,
}

#[derive(Debug)]
struct Playing {
    engine: Engine,
    cursor: Cursor,
    /// The records of the replay that were not compared yet.
    made: VecDeque<Arc<Entry>>,
    /// The number of the next record.
    next: u64,
}

impl Replay {
    /// Replays the next line.
    ///
    /// # Errors
    /// The first difference. Stop the replay after it.
    pub fn play(&mut self, line: &Line) -> Result<(), Difference> {
        match line {
            Line::State(state) => self.begin(state),
            Line::Record(entry) => {
                self.records += 1;
                self.playing.as_mut().ok_or(Difference::NoState)?.record(entry)
            }
            Line::Digest { next, digest: kept } => {
                let playing = self.playing.as_ref().ok_or(Difference::NoState)?;
                if *next != playing.next {
                    return Err(Difference::Gap {
                        expected: playing.next,
                        found: *next,
                    });
                }
                let made = hexadecimal(playing.engine.digest());
                if made == *kept {
                    Ok(())
                } else {
                    Err(Difference::Digest {
                        made,
                        kept: kept.clone(),
                    })
                }
            }
        }
    }

    /// How many records were replayed.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// How often the journal continued with another state after missing records.
    #[must_use]
    pub fn gaps(&self) -> u64 {
        self.gaps
    }

    /// The cloud in its current state. None before the first state.
    #[must_use]
    pub fn engine(&self) -> Option<&Engine> {
        self.playing.as_ref().map(|playing| &playing.engine)
    }

    fn begin(&mut self, state: &State) -> Result<(), Difference> {
        if let Some(playing) = &self.playing {
            if state.next < playing.next {
                return Err(Difference::Gap {
                    expected: playing.next,
                    found: state.next,
                });
            }
            if state.next == playing.next && playing.engine.state() != *state {
                return Err(Difference::OtherState(state.next));
            }
            self.gaps += u64::from(playing.next != state.next);
        }
        let engine = Engine::from_state(state.clone()).map_err(Difference::State)?;
        let cursor = engine.journal().end();
        self.playing = Some(Playing {
            engine,
            cursor,
            made: VecDeque::new(),
            next: state.next,
        });
        Ok(())
    }
}

impl Playing {
    fn record(&mut self, entry: &Entry) -> Result<(), Difference> {
        let Entry { sequence, record } = entry;
        let missing = |Behind| Difference::Missing(*sequence);
        if *sequence != self.next {
            return Err(Difference::Gap {
                expected: self.next,
                found: *sequence,
            });
        }
        self.next += 1;
        match record {
            Record::Operation { operation, .. } => {
                self.engine.apply((**operation).clone());
                self.read().map_err(missing)?;
            }
            // One deadline at a time: an operation with an earlier time may come between two.
            Record::Event(Event { at, .. })
            | Record::CapacityFreed { at, .. }
            | Record::GrantEnded { at, .. }
            | Record::FaultEnded { at, .. }
            | Record::FaultWindow { at, .. } => {
                while self.made.is_empty() && self.engine.next_deadline().is_some_and(|due| due <= *at) {
                    self.engine.poll_some(*at, 1);
                    self.read().map_err(missing)?;
                }
            }
        }
        match self.made.pop_front() {
            Some(made) if *made == *entry => Ok(()),
            made => {
                let made = made.map(|made| Box::new(made.record.clone()));
                Err(Difference::Record {
                    sequence: *sequence,
                    made,
                })
            }
        }
    }

    fn read(&mut self) -> Result<(), Behind> {
        let mut batch = Vec::with_capacity(16);
        loop {
            batch.clear();
            self.engine.journal().read(&mut self.cursor, &mut batch)?;
            if batch.is_empty() {
                return Ok(());
            }
            self.made.extend(batch.drain(..));
        }
    }
}
