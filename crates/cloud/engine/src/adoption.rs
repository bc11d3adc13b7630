//! What an earlier process knew about a resource, and what a restart changes.

use std::collections::BTreeMap;

use nephele_model::{SimTime, StageName};
use serde::{Deserialize, Serialize};

use crate::{cloud_spec::Hardware, resource::UpdateSpec, usage::Footprint};

/// What an earlier process knew about a resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Previous {
    /// When it was created, at the latest now. Stages without predecessors are entered then.
    pub created: SimTime,
    /// When each stage was reached; a precision of seconds is enough. Stages that the resource does not have are ignored.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reached: BTreeMap<StageName, SimTime>,
    /// The hardware. None if it was not recorded: then the hardware of the model as it is today, or the default hardware
    /// if the cloud no longer offers the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
    /// When its deletion began, if it did, at the latest now. The deletion ends when it would have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleting: Option<SimTime>,
    /// The update that was accepted and may be under way. It ends when it would have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<UpdateSpec>,
    /// The load balancers of its cluster with which an instance is registered, by name, each with the stage from which on the
    /// instance is in service. One that is only reserved has it when it is adopted; one that does not exist is ignored.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub load_balancers: BTreeMap<String, StageName>,
    /// Whether the last read of its creator was refused. Then the next one is a call like any other.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_read_refused: bool,
}

/// A resource that exists and is not known in full yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    pub(crate) footprint: Footprint,
    /// Of a load balancer: the instances that were adopted before it, each with the stage from which on it is in service.
    pub(crate) backends: BTreeMap<String, StageName>,
}

impl Reservation {
    pub(crate) fn new(footprint: Footprint) -> Self {
        Self {
            footprint,
            backends: BTreeMap::new(),
        }
    }
}

/// What a restart changes. Everything else is what it was: a test of this crate puts back clouds in any state, and reads this
/// list; the page *State and restarts* of the book prints it. It only gets shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Latencies and seeds that were changed while something is under way.
    ChangedSettings,
    /// How a fault was specified before, for what it hit beyond the list in its status.
    ChangedFault,
    /// How the clock of a cloud ran before its last change.
    EarlierClock,
    /// What a fault hides from reads.
    Lag,
    /// That a creation was carried out and its creator got no answer.
    LostAnswer,
    /// Until when a call has the answer of a fault.
    Answers,
    /// How many calls a rate has counted.
    CountedCalls,
    /// Who has waited longest for room.
    PlacesInLine,
    /// What happened in the last second and was not written yet.
    LastSecond,
    /// A step of a clock whose status was not written yet.
    ClockStep,
    /// What an API server with stale reads shows.
    StaleReads,
    /// Which port waits for a cluster of a name.
    FormerPorts,
    /// How long operations took that an earlier process accepted.
    Durations,
}

impl Loss {
    /// The whole list.
    pub const ALL: [Self; 13] = [
        Self::ChangedSettings,
        Self::ChangedFault,
        Self::EarlierClock,
        Self::Lag,
        Self::LostAnswer,
        Self::Answers,
        Self::CountedCalls,
        Self::PlacesInLine,
        Self::LastSecond,
        Self::ClockStep,
        Self::StaleReads,
        Self::FormerPorts,
        Self::Durations,
    ];

    /// What a reader of the book is told, with the reason.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::ChangedSettings => {
                "A latency or a seed that was changed while a stage, an update or a deletion was under way counts for it from \
                 the restart on: only the new value is in an object."
            }
            Self::ChangedFault => {
                "A Fault that affects more than 100 machines or clusters and whose spec was changed decides about those beyond \
                 the first 100 as if it had had this spec from its begin: its status lists 100."
            }
            Self::EarlierClock => {
                "What began before the last change of a clock ends as if the clock had run at rate 1 until that change: the \
                 status has the last change only."
            }
            Self::Lag => {
                "Reads show at once what the effect `lag` hid from them: it lasts seconds, and no object lists it."
            }
            Self::LostAnswer => {
                "A creation whose answer the effect `duplicate` or `LostAnswer` lost, and that was not repeated yet, is found by \
                 its repetition: the machine has no record before it is answered."
            }
            Self::Answers => {
                "A call that a Fault delays or has refused is made again at once, and counts again: no object lists such calls."
            }
            Self::CountedCalls => {
                "The rate of a SimulatedCloud has counted no calls: its whole burst is free, as after a minute without calls."
            }
            Self::PlacesInLine => {
                "Machines that wait for room ask for it again, in the order in which the new manager looks at them."
            }
            Self::LastSecond => {
                "Hits of a Fault and costs of the last second may be missing in a status: it is written once a second."
            }
            Self::ClockStep => {
                "A step of a paused clock is taken again if the manager ended before it wrote the status, less than a second \
                 later. Time ahead is not."
            }
            Self::StaleReads => {
                "An API server with the effect `staleReads` shows the state at the restart, and not that at the begin of the \
                 Fault."
            }
            Self::FormerPorts => {
                "The port of a cluster that was deleted less than a minute before waits no longer for a cluster of the same name: \
                 no object of it is left."
            }
            Self::Durations => {
                "The metrics of how long operations took leave out those that began before the restart."
            }
        }
    }
}
