//! The journal of one cloud, played to another.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::engine::Engine;
use crate::journal::{Behind, Cursor, Entry, Record};
use crate::operation::Event;
use crate::state::{State, StateError};

/// What a journal that is kept consists of, in order: a state, then the records after it. A reader that fell behind goes
/// on with another state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Line {
    /// The cloud as it was.
    State(State),
    /// What was recorded next.
    Record(Entry),
    /// How the cloud stood after what was recorded so far.
    Digest {
        /// The number of the next record.
        next: u64,
        /// [`Engine::digest`], in hexadecimal digits.
        digest: String,
    },
}

impl Line {
    /// How a cloud stands now. Costs a look at every resource.
    #[must_use]
    pub fn digest(engine: &Engine) -> Self {
        Self::Digest { next: engine.journal().next(), digest: hexadecimal(engine.digest()) }
    }
}

fn hexadecimal(digest: [u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Where a replay differs from what was recorded, or what cannot be played.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Difference {
    /// A record or a digest comes before the first state.
    #[error("the journal does not begin with a state")]
    NoState,
    /// The state is none that a cloud can be in.
    #[error("failed to begin with the state that was kept")]
    State(#[source] StateError),
    /// A record is missing, or is there twice.
    #[error("record {found} comes where {expected} was expected")]
    Gap {
        /// The number that comes next.
        expected: u64,
        /// The number that was found.
        found: u64,
    },
    /// The cloud answered otherwise, or something else happened.
    #[error("record {sequence} is another one: {}", .made.as_ref().map_or("nothing happened".to_owned(), |made| told(made)))]
    Record {
        /// The number of the record.
        sequence: u64,
        /// What happened instead.
        made: Option<Box<Record>>,
    },
    /// So much happened at once that records are missing before this one.
    #[error("what happened before record {0} was not kept")]
    Missing(u64),
    /// The cloud stands otherwise than it did.
    #[error("the digest is {made}, and {kept} was kept")]
    Digest {
        /// That of the replay.
        made: String,
        /// That of the journal.
        kept: String,
    },
    /// The cloud stands otherwise than the state that was kept next.
    #[error("the state before record {0} is another one")]
    OtherState(u64),
}

fn told(record: &Record) -> String {
    match record {
        Record::Operation { operation, outcome } => {
            format!("{} of {} was answered {outcome:?}", operation.verb(), operation.request.target())
        }
        Record::Event(Event { at, id, kind, .. }) => format!("{kind:?} happened to {id} at {at}"),
        Record::RoomFreed { at, room, waiting } => format!("{waiting} was told of room in {room:?} at {at}"),
        Record::TurnEnded { at, waiting } => format!("{waiting} had not asked by {at}"),
    }
}

/// A cloud that a journal is played to. What was asked is asked again, and all that follows has to be as it was
/// recorded.
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
    /// What happened here and was not compared yet.
    made: VecDeque<Arc<Entry>>,
    /// The number of the next record.
    next: u64,
}

impl Replay {
    /// Plays the next line.
    ///
    /// # Errors
    /// With the first difference. A replay does not go on after that.
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
                    return Err(Difference::Gap { expected: playing.next, found: *next });
                }
                let made = hexadecimal(playing.engine.digest());
                if made == *kept { Ok(()) } else { Err(Difference::Digest { made, kept: kept.clone() }) }
            }
        }
    }

    /// How many records were played.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// How often the journal went on with another state, after records that nobody kept.
    #[must_use]
    pub fn gaps(&self) -> u64 {
        self.gaps
    }

    /// The cloud as it stands; none before the first state.
    #[must_use]
    pub fn engine(&self) -> Option<&Engine> {
        self.playing.as_ref().map(|playing| &playing.engine)
    }

    fn begin(&mut self, state: &State) -> Result<(), Difference> {
        if let Some(playing) = &self.playing {
            if state.next < playing.next {
                return Err(Difference::Gap { expected: playing.next, found: state.next });
            }
            if state.next == playing.next && playing.engine.state() != *state {
                return Err(Difference::OtherState(state.next));
            }
            self.gaps += u64::from(playing.next != state.next);
        }
        let engine = Engine::from_state(state.clone()).map_err(Difference::State)?;
        let cursor = engine.journal().end();
        self.playing = Some(Playing { engine, cursor, made: VecDeque::new(), next: state.next });
        Ok(())
    }
}

impl Playing {
    fn record(&mut self, entry: &Entry) -> Result<(), Difference> {
        let Entry { sequence, record } = entry;
        let missing = |Behind| Difference::Missing(*sequence);
        if *sequence != self.next {
            return Err(Difference::Gap { expected: self.next, found: *sequence });
        }
        self.next += 1;
        match record {
            Record::Operation { operation, .. } => {
                self.engine.apply((**operation).clone());
                self.read().map_err(missing)?;
            }
            // One deadline at a time: an operation that was meant for an earlier instant may come between two.
            Record::Event(Event { at, .. }) | Record::RoomFreed { at, .. } | Record::TurnEnded { at, .. } => {
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
                Err(Difference::Record { sequence: *sequence, made })
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
