//! Faults of a namespace, and what they have done.

use jiff::Timestamp;
use nephele_engine::{Effect, Engine, Fault, FaultState, Leaked, NoticeEnd, Request};
use nephele_model::{ClusterId, FaultId, FaultPhase, FaultRecord, MachineId, ResourceId, SimTime, Verb};

use crate::{
    active_effect,
    clock::{cloud_time, instant},
    cloud::Cloud,
    error::CallError,
};

/// What a fault has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultObservation {
    /// Whether it can still hit.
    pub phase: FaultPhase,
    pub began: Timestamp,
    /// How many operations it has matched while it was active.
    pub matched: u64,
    /// How many of them it has hit.
    pub hits: u64,
    /// How many windows of its schedule have begun.
    pub windows: u64,
    /// The last hits, the newest first.
    pub last_hits: Vec<FaultHit>,
    /// The machines and clusters that it affects, in order.
    pub affected: Vec<Affected>,
    /// The machines and clusters that passed because its budget skips the first ones, in order.
    pub skipped: Vec<Affected>,
    /// The leaked instances and load balancers that are deleted with it, the oldest first: those that are of no cloud that
    /// was put.
    pub leaked: Vec<Leaked<Timestamp>>,
}

/// A machine or a cluster that a fault affects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affected {
    pub cluster: ClusterId,
    /// The machine. None for the cluster itself.
    pub machine: Option<String>,
    /// When the notice to the machine is over, in the time of its cloud. None if it is over.
    pub until: Option<Timestamp>,
}

impl Affected {
    fn resource(&self) -> ResourceId {
        let Self {
            cluster,
            machine,
            until: _,
        } = self;
        match machine {
            Some(name) => MachineId {
                cluster: cluster.clone(),
                name: name.clone(),
            }
            .resource(),
            None => cluster.load_balancer(),
        }
    }

    fn of_resource(id: &ResourceId) -> Self {
        let cluster = ClusterId {
            namespace: id.namespace.clone(),
            name: id.cluster.clone(),
        };
        let machine = MachineId::of_resource(id).map(|machine| machine.name);
        Self {
            cluster,
            machine,
            until: None,
        }
    }

    /// A resource that a fault affects.
    fn of(state: &FaultState, id: &ResourceId, engine: &Engine) -> Self {
        // While the resource exists, it knows: the clock of its cloud may have been forgotten.
        let running = engine
            .get(id)
            .and_then(|resource| resource.notices.get(&state.id.name)?.time());
        let known = state.notices.get(id).copied();
        let ends = running.or(known).filter(|ends| *ends != NoticeEnd::OVER);
        Self {
            until: ends.map(instant),
            ..Self::of_resource(id)
        }
    }

    fn notice_end(&self) -> NoticeEnd {
        NoticeEnd {
            id: self.resource(),
            ends: self.until.map_or(NoticeEnd::OVER, cloud_time),
        }
    }
}

/// A hit of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultHit {
    pub at: Timestamp,
    /// The operation, such as `CreateInstance`. None if the fault affected the machine.
    pub operation: Option<&'static str>,
    /// The cluster of the machine or load balancer.
    pub cluster: ClusterId,
    /// The machine, for an operation on a machine.
    pub machine: Option<String>,
}

/// What a fault did in an earlier process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultHistory {
    pub began: Timestamp,
    /// How many operations it had matched.
    pub matched: u64,
    /// How many of them it had hit.
    pub hits: u64,
    /// How many windows of its schedule had begun.
    pub windows: u64,
    /// The machines and clusters that it affected.
    pub affected: Vec<Affected>,
    /// Whether it affected more than these.
    pub is_cut: bool,
    /// The machines and clusters that passed because its budget skips the first ones.
    pub skipped: Vec<Affected>,
    /// The leaked instances and load balancers that are deleted with it.
    pub leaked: Vec<Leaked<Timestamp>>,
}

impl Cloud {
    /// Sets a fault. A fault that exists keeps what it has done. A new one continues with its history, or begins now.
    ///
    /// # Errors
    /// When the cloud refuses.
    pub fn put_fault(
        &self,
        id: &FaultId,
        fault: Fault,
        history: Option<FaultHistory>,
    ) -> Result<(), CallError> {
        self.put(id, fault, history, false)
    }

    /// As [`Cloud::put_fault`], for a fault that decides nothing new: it keeps its effect on what it has hit.
    ///
    /// # Errors
    /// When the cloud refuses.
    pub fn put_paused_fault(
        &self,
        id: &FaultId,
        fault: Fault,
        history: Option<FaultHistory>,
    ) -> Result<(), CallError> {
        self.put(id, fault, history, true)
    }

    fn put(
        &self,
        id: &FaultId,
        fault: Fault,
        history: Option<FaultHistory>,
        paused: bool,
    ) -> Result<(), CallError> {
        let new = || FaultHistory {
            began: self.clock().wall_time(self.now()),
            matched: 0,
            hits: 0,
            windows: 0,
            affected: Vec::new(),
            is_cut: false,
            skipped: Vec::new(),
            leaked: Vec::new(),
        };
        let FaultHistory {
            began,
            matched,
            hits,
            windows,
            affected,
            is_cut,
            skipped,
            leaked,
        } = history.unwrap_or_else(new);
        let record = FaultRecord {
            began: self.clock().at(began),
            matched,
            hits,
            windows,
        };
        let affected_ids = affected.iter().map(Affected::resource).collect();
        let skipped = skipped.iter().map(Affected::resource).collect();
        let has_notices = fault
            .effect
            .active_effect()
            .is_some_and(|active_effect| active_effect.notice.is_some());
        let notices = affected
            .iter()
            .filter(|_| has_notices)
            .map(Affected::notice_end)
            .collect();
        let leaked = self.unpublished(leaked);
        let id = id.resource();
        let known = self.look(|engine| engine.fault(&id).map(|state| state.decisions.record.began));
        let fault = Box::new(begun(fault, known.unwrap_or(record.began)));
        self.ask(Request::PutFault {
            id,
            fault,
            record,
            affected_ids,
            is_cut,
            notices,
            skipped,
            leaked,
            paused,
        })
    }

    /// Deletes a fault: it hits nothing any more, and operations that it delays continue.
    ///
    /// # Errors
    /// When the cloud refuses.
    pub fn delete_fault(&self, id: &FaultId) -> Result<(), CallError> {
        self.ask(Request::Delete(id.resource()))
    }

    /// All faults, in order.
    #[must_use]
    pub fn faults(&self) -> Vec<FaultId> {
        self.look(|engine| {
            engine
                .faults()
                .map(|state| FaultId::of_resource(&state.id))
                .collect()
        })
    }

    /// What a fault has done. None if it does not exist.
    #[must_use]
    pub fn observe_fault(&self, id: &FaultId) -> Option<FaultObservation> {
        let leaked = self.leaked_by(id);
        let id = id.resource();
        let now = self.now();
        let clock = self.clock();
        let (phase, record, last_hits, affected, skipped) = self.look(|engine| {
            let state = engine.fault(&id)?;
            let affected = state
                .affected_ids
                .iter()
                .map(|id| Affected::of(state, id, engine))
                .collect();
            let skipped = state
                .decisions
                .skipped()
                .iter()
                .map(Affected::of_resource)
                .collect();
            Some((
                state.phase(now),
                state.decisions.record,
                state.last_hits.clone(),
                affected,
                skipped,
            ))
        })?;
        let hit = |hit: &nephele_engine::Hit| {
            let Affected { cluster, machine, .. } = Affected::of_resource(&hit.target);
            let at = clock.wall_time(hit.at);
            let operation = hit.operation.map(Verb::as_str);
            FaultHit {
                at,
                operation,
                cluster,
                machine,
            }
        };
        Some(FaultObservation {
            phase,
            began: clock.wall_time(record.began),
            matched: record.matched,
            hits: record.hits,
            windows: record.windows,
            last_hits: last_hits.newest_first().map(hit).collect(),
            affected,
            skipped,
            leaked,
        })
    }
}

/// A fault whose visible effect knows when it began.
fn begun(fault: Fault, began: SimTime) -> Fault {
    let effect = match fault.effect {
        Effect::Affect(active_effect) => Effect::Affect(active_effect::begun(active_effect, began)),
        other => other,
    };
    Fault { effect, ..fault }
}
