//! Faults of a namespace, and what they have done.

use jiff::Timestamp;
use nephele_engine::{Fault, FaultPhase, FaultRecord, Request, ResourceId, Verb};

use crate::cloud::Cloud;
use crate::error::CallError;
use crate::identity::{ClusterId, FaultId, MachineId};

/// What a fault has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultObservation {
    /// Whether it can still hit.
    pub phase: FaultPhase,
    /// When it began.
    pub began: Timestamp,
    /// How many operations it has matched while it was active.
    pub matched: u64,
    /// How many of them it has hit.
    pub hits: u64,
    /// The last hits, the newest first.
    pub last_hits: Vec<FaultHit>,
    /// The machines that it afflicts, in order.
    pub machines: Vec<MachineId>,
}

/// A hit of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultHit {
    /// The time.
    pub at: Timestamp,
    /// The operation, such as `CreateInstance`. None if the fault afflicted the machine.
    pub operation: Option<&'static str>,
    /// The cluster of the machine or load balancer.
    pub cluster: ClusterId,
    /// The machine, for an operation on a machine.
    pub machine: Option<String>,
}

/// What a fault did in an earlier process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultHistory {
    /// When it began.
    pub began: Timestamp,
    /// How many operations it had matched.
    pub matched: u64,
    /// How many of them it had hit.
    pub hits: u64,
    /// The machines that it afflicted.
    pub machines: Vec<MachineId>,
}

impl Cloud {
    /// Sets a fault. A fault that exists keeps what it has done. A new one goes on with its history, or begins now.
    ///
    /// # Errors
    /// When the cloud refuses.
    pub fn put_fault(
        &self,
        id: &FaultId,
        fault: Fault,
        history: Option<FaultHistory>,
    ) -> Result<(), CallError> {
        let (record, machines) = match history {
            None => (FaultRecord { began: self.now(), matched: 0, hits: 0 }, Vec::new()),
            Some(FaultHistory { began, matched, hits, machines }) => {
                (FaultRecord { began: self.clock().at(began), matched, hits }, machines)
            }
        };
        let afflicted = machines.iter().map(MachineId::resource).collect();
        self.ask(Request::PutFault { id: id.resource(), fault: Box::new(fault), record, afflicted })
    }

    /// Deletes a fault: it hits nothing any more, and operations that it delays go on.
    ///
    /// # Errors
    /// When the cloud refuses.
    pub fn delete_fault(&self, id: &FaultId) -> Result<(), CallError> {
        self.ask(Request::Delete(id.resource()))
    }

    /// All faults, in order.
    #[must_use]
    pub fn faults(&self) -> Vec<FaultId> {
        self.look(|engine| engine.faults().map(|state| FaultId::of_resource(&state.id)).collect())
    }

    /// What a fault has done. None if it does not exist.
    #[must_use]
    pub fn observe_fault(&self, id: &FaultId) -> Option<FaultObservation> {
        let (id, now, clock) = (id.resource(), self.now(), self.clock());
        let (phase, record, last_hits, machines) = self.look(|engine| {
            let state = engine.fault(&id)?;
            let machines = state.afflicted.iter().filter_map(MachineId::of_resource).collect();
            Some((state.phase(now), state.record, state.last_hits.clone(), machines))
        })?;
        let hit = |hit: &nephele_engine::Hit| {
            let ResourceId { account, group, .. } = &hit.target;
            FaultHit {
                at: clock.wall_time(hit.at),
                operation: hit.operation.map(Verb::as_str),
                cluster: ClusterId { namespace: account.clone(), name: group.clone() },
                machine: MachineId::of_resource(&hit.target).map(|machine| machine.name),
            }
        };
        Some(FaultObservation {
            phase,
            began: clock.wall_time(record.began),
            matched: record.matched,
            hits: record.hits,
            last_hits: last_hits.iter().rev().map(hit).collect(),
            machines,
        })
    }
}
