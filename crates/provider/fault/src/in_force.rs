//! Which spec of a Fault is in force, also while it is paused. A paused Fault keeps its effect on what it has hit, ends
//! when its time is over, and decides nothing new. A change of its spec waits until it is resumed.
//!
//! ```text
//!  not paused ─────────────────────────────────────────────────────────────────────▶ Runs
//!  paused ─▶ this process carries it out ──────────────────── with that spec ───────▶ Holds
//!    └─ no ▶ its status says that it began ▶ and with which spec ──────────────────▶ Holds
//!                 └─ no ─────────────────────────┴─ not known ─────────────────────▶ Rests
//! ```

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use nephele_api::{
    cloud::v1alpha1::{Fault, FaultSpec, FaultStatus},
    conditions::{self, condition, reasons, types},
};
use nephele_controller::paused;
use nephele_model::FaultId;
use parking_lot::Mutex;

use crate::id::id_of;

/// What is to become of a Fault.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Standing {
    /// It does what its spec says.
    Runs,
    /// It is paused, keeps its effect on what it has hit by this spec, and decides nothing new.
    Holds(Arc<FaultSpec>),
    /// It was paused before it began, or it is not known what it did: it has no effect.
    Rests,
}

impl Standing {
    /// The spec that is in force, or would be.
    pub(crate) fn spec<'a>(&'a self, object: &'a Fault) -> &'a FaultSpec {
        match self {
            Self::Holds(spec) => spec,
            Self::Runs | Self::Rests => &object.spec,
        }
    }

    /// The Fault with that spec.
    pub(crate) fn in_force(&self, object: &Fault) -> Fault {
        Fault {
            spec: self.spec(object).clone(),
            ..object.clone()
        }
    }
}

/// The Faults that this process carries out, with their specs. Bounded by the Faults that exist.
#[derive(Debug, Default)]
pub(crate) struct InForce {
    by_name: Mutex<BTreeMap<FaultId, Carried>>,
}

#[derive(Debug)]
struct Carried {
    /// Another Fault of this name is another Fault.
    uid: Option<String>,
    spec: Arc<FaultSpec>,
}

impl InForce {
    /// What is to become of a Fault.
    pub(crate) fn standing(&self, object: &Fault) -> Standing {
        let carried = self.by_name.lock();
        let carried = carried
            .get(&id_of(object))
            .filter(|carried| carried.uid == object.metadata.uid);
        standing(object, carried.map(|carried| &carried.spec))
    }

    /// This process carries out a Fault with this spec. Returns whether it carried out another one of this name before, which
    /// is gone, and which the caller has to end first.
    pub(crate) fn carry(&self, object: &Fault, spec: Arc<FaultSpec>) -> bool {
        let uid = object.metadata.uid.clone();
        let before = self.by_name.lock().insert(
            id_of(object),
            Carried {
                uid: uid.clone(),
                spec,
            },
        );
        before.is_some_and(|before| before.uid != uid)
    }

    /// Whether this process carries out another Fault of the name of this one.
    pub(crate) fn has_another(&self, object: &Fault) -> bool {
        self.by_name
            .lock()
            .get(&id_of(object))
            .is_some_and(|carried| carried.uid != object.metadata.uid)
    }

    /// This process does not carry out the Fault of this name any more.
    pub(crate) fn forget(&self, id: &FaultId) {
        self.by_name.lock().remove(id);
    }
}

/// What is to become of a Fault that this process carries out with a spec, or does not know. Pure.
fn standing(object: &Fault, carried: Option<&Arc<FaultSpec>>) -> Standing {
    if paused(object, None).is_none() {
        return Standing::Runs;
    }
    if let Some(spec) = carried {
        return Standing::Holds(Arc::clone(spec));
    }
    let Some(status) = object
        .status
        .as_ref()
        .filter(|status| status.start_time.is_some())
    else {
        return Standing::Rests;
    };
    if let Some(spec) = &status.paused_spec {
        return Standing::Holds(Arc::new(spec.clone()));
    }
    let ready = conditions::find(&status.conditions, types::READY);
    let is_current = ready.is_some_and(|ready| ready.observed_generation == object.metadata.generation);
    if is_current {
        Standing::Holds(Arc::new(object.spec.clone()))
    } else {
        Standing::Rests
    }
}

/// The status of a paused Fault. None if the object has it already: then nothing is written until the Fault is resumed.
/// `latest` is what it had done until it was paused, if that is known.
pub(crate) fn paused_status(
    object: &Fault,
    standing: &Standing,
    latest: Option<FaultStatus>,
    now: Timestamp,
) -> Option<FaultStatus> {
    let message = paused(object, None)?;
    let known = object.status.clone().unwrap_or_default();
    let spec = match standing {
        Standing::Holds(spec) => Some(FaultSpec::clone(spec)),
        Standing::Runs | Standing::Rests => None,
    };
    // Nothing is decided while it is paused, so the numbers can only be those of the time before.
    let is_latest = latest
        .as_ref()
        .is_none_or(|latest| (latest.matched, latest.hits) == (known.matched, known.hits));
    let has_spec = known.paused_spec.is_some() || spec.is_none();
    if conditions::is_true(&known.conditions, types::PAUSED) && has_spec && is_latest {
        return None;
    }
    // Its other conditions are about the spec of the time before the pause.
    let mut status = FaultStatus {
        conditions: known.conditions.clone(),
        ..latest.unwrap_or(known)
    };
    let mut paused = condition(types::PAUSED, conditions::TRUE, reasons::PAUSED, message);
    paused.observed_generation = object.metadata.generation;
    conditions::set(&mut status.conditions, paused, now);
    status.paused_spec = spec;
    Some(status)
}

/// Takes back what [`paused_status`] says.
pub(crate) fn resumed(object: &Fault, status: &mut FaultStatus, now: Timestamp) {
    status.paused_spec = None;
    if conditions::find(&status.conditions, types::PAUSED).is_some() {
        let mut resumed = condition(types::PAUSED, conditions::FALSE, reasons::NOT_PAUSED, "");
        resumed.observed_generation = object.metadata.generation;
        conditions::set(&mut status.conditions, resumed, now);
    }
}

#[cfg(test)]
mod tests;
