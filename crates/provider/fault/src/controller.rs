//! The controller of Faults. Each provider runs it for its own target, so each Fault has one writer.
//!
//! ```text
//!  Fault ──▶ fetch ──▶ validate, plan ──▶ act ──put, remove──▶ the target
//!    ▲                                                             │ observe
//!    └────────────── status, events ◀── report ◀───────────────────┘
//! ```

use std::{sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use kube::{Api, Client, runtime::reflector::Store};
use nephele_api::cloud::{
    is_being_restored,
    v1alpha1::{Fault, FaultSpec, FaultStatus},
};
use nephele_controller::{
    Clock, Events, Gone, Outcome, PatchError, Precondition, ReconcileError, Retry, StatusThrottle, patch,
    unreadable,
};
use nephele_model::FaultId;
use thiserror::Error;

use crate::{
    id::{id_of, reference_to},
    in_force::{InForce, Standing, paused_status},
    report::differs_in_numbers_only,
    story,
    target::Target,
};

/// The controller of the Faults of a target.
pub struct FaultController<T> {
    target: T,
    client: Client,
    clock: Clock,
    events: Events,
    in_force: InForce,
    status_throttle: StatusThrottle<FaultId>,
}

/// Why a Fault could not be reconciled.
#[derive(Debug, Error)]
#[error("failed to update the Fault")]
pub struct Error(#[source] PatchError);

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        self.0.category()
    }

    fn retry(&self) -> Retry {
        self.0.retry()
    }
}

impl<T: Target> FaultController<T> {
    /// Carries no Faults out yet.
    #[must_use]
    pub fn new(target: T, client: Client, clock: Clock, events: Events) -> Self {
        Self {
            target,
            client,
            clock,
            events,
            in_force: InForce::default(),
            status_throttle: StatusThrottle::default(),
        }
    }

    /// Sends Faults to the target without a report, so that nothing is created past them.
    pub fn put_all<'a>(&self, objects: impl IntoIterator<Item = &'a Fault>) {
        objects.into_iter().for_each(|object| self.put(object));
    }

    /// Sends a Fault to the target, and reports what it has done.
    ///
    /// # Errors
    /// When its status cannot be written.
    pub async fn reconcile(&self, object: &Fault) -> Result<Outcome, Error> {
        let now = (self.clock)();
        let standing = self.in_force.standing(object);
        let mistake = self.act(object, plan::<T>(object, &standing), now);
        if object.metadata.deletion_timestamp.is_some() || !T::is_for(standing.spec(object)) {
            return Ok(Outcome::Done);
        }
        if is_being_restored(&object.metadata) {
            return Ok(Outcome::WaitingOn("restored"));
        }
        let seen = self.target.observe(&id_of(object), now);
        match standing {
            Standing::Runs => self.report(object, seen.as_ref(), mistake, now).await,
            Standing::Holds(_) | Standing::Rests => {
                self.report_paused(object, &standing, seen.as_ref(), now).await
            }
        }
    }

    /// Lets each Fault have no effect whose object is gone.
    pub async fn forget(&self, store: Store<Fault>, gone: impl Stream<Item = Gone<Fault>>) {
        let mut gone = std::pin::pin!(gone);
        while let Some(gone) = gone.next().await {
            match gone {
                // Another Fault of this name may have been created meanwhile.
                Gone::Object(object) if self.in_force.has_another(&object) => {}
                Gone::Object(object) => {
                    let id = id_of(&object);
                    self.remove(&id);
                    if let Some(other) = store.get(&reference_to(&id)) {
                        self.put(&other);
                    }
                }
                Gone::Any => {
                    let known = self.target.ids().into_iter();
                    let gone = known.filter(|id| store.get(&reference_to(id)).is_none());
                    gone.for_each(|id| self.remove(&id));
                }
            }
        }
    }

    fn put(&self, object: &Fault) {
        let plan = plan::<T>(object, &self.in_force.standing(object));
        self.act(object, plan, (self.clock)());
    }

    /// Carries out what is planned. Returns the Fault's mistake, if it has one.
    fn act(&self, object: &Fault, plan: Plan<T::Wanted>, now: Timestamp) -> Option<String> {
        let id = id_of(object);
        match plan {
            Plan::Remove { mistake } => {
                self.remove(&id);
                mistake
            }
            Plan::Put { spec, wanted, paused } => {
                let has_replaced = self.in_force.carry(object, spec);
                if has_replaced {
                    self.target.remove(&id);
                }
                self.target.put(object, wanted, paused, now);
                None
            }
        }
    }

    fn remove(&self, id: &FaultId) {
        self.status_throttle.forget(id);
        self.in_force.forget(id);
        self.target.remove(id);
    }

    /// Reports a Fault that is not paused.
    async fn report(
        &self,
        object: &Fault,
        seen: Option<&T::Seen>,
        mistake: Option<String>,
        now: Timestamp,
    ) -> Result<Outcome, Error> {
        let id = id_of(object);
        let status = T::status(object, mistake.map_or(Ok(seen), Err), now);
        if !seen.is_some_and(T::is_urgent)
            && differs_in_numbers_only(object.status.as_ref(), &status)
            && let Some(wait) = self.status_throttle.wait(&id, now)
        {
            return Ok(Outcome::After(wait));
        }
        let known = object.status.clone().unwrap_or_default();
        if known != status {
            self.status_throttle.note(id.clone(), now);
        }
        if !self.write(object, status.clone()).await? {
            return Ok(Outcome::Done);
        }
        if let Some(seen) = seen {
            self.target.listed(&id, seen);
        }
        T::publish(object, &known, &status, &self.events);
        story::publish(object, &known, &status, &self.events);
        Ok(self.next_look(seen).unwrap_or(Outcome::Done))
    }

    /// Reports a Fault that is paused.
    async fn report_paused(
        &self,
        object: &Fault,
        standing: &Standing,
        seen: Option<&T::Seen>,
        now: Timestamp,
    ) -> Result<Outcome, Error> {
        let latest = seen.map(|seen| T::status(&standing.in_force(object), Ok(Some(seen)), now));
        if let Some(status) = paused_status(object, standing, latest, now)
            && !self.write(object, status).await?
        {
            return Ok(Outcome::Done);
        }
        if let Some(seen) = seen {
            self.target.listed(&id_of(object), seen);
        }
        // What ends by time ends.
        Ok(self.next_look(seen).unwrap_or(Outcome::WaitingOn("unpaused")))
    }

    /// Writes the status of a Fault. False if the Fault is gone.
    async fn write(&self, object: &Fault, status: FaultStatus) -> Result<bool, Error> {
        let FaultId { namespace, .. } = id_of(object);
        let api = Api::<Fault>::namespaced(self.client.clone(), &namespace);
        let reported = Fault {
            status: Some(status),
            ..object.clone()
        };
        // The next manager reads it, so a late write for an earlier Fault of the same name must not change it.
        match patch::status(&api, object, &reported, Precondition::ResourceVersion).await {
            // Its end is on its way.
            Err(error) if error.is_not_found() => Ok(false),
            result => result.map(|_| true).map_err(Error),
        }
    }

    /// The next look, if the time of it is known.
    fn next_look(&self, seen: Option<&T::Seen>) -> Option<Outcome> {
        let time = seen.and_then(T::next_change)?;
        let wait = Duration::try_from(time.duration_since((self.clock)()));
        Some(Outcome::After(wait.unwrap_or_default()))
    }
}

/// What is to be done about a Fault.
#[derive(Debug, PartialEq)]
enum Plan<Wanted> {
    /// It has no effect: it is gone, was paused before it began, is for another target, or has this mistake.
    Remove { mistake: Option<String> },
    /// It is carried out with this spec.
    Put {
        spec: Arc<FaultSpec>,
        wanted: Wanted,
        paused: bool,
    },
}

/// What is to be done about a Fault of this standing. Pure.
fn plan<T: Target>(object: &Fault, standing: &Standing) -> Plan<T::Wanted> {
    let spec = match standing {
        _ if object.metadata.deletion_timestamp.is_some() || is_being_restored(&object.metadata) => None,
        Standing::Runs => Some(Arc::new(object.spec.clone())),
        Standing::Holds(spec) => Some(Arc::clone(spec)),
        Standing::Rests => None,
    };
    let Some(spec) = spec.filter(|spec| T::is_for(spec)) else {
        return Plan::Remove { mistake: None };
    };
    let paused = *standing != Standing::Runs;
    let read = match unreadable(&object.metadata) {
        Some(mistake) if !paused => Err(mistake.to_owned()),
        _ => T::read(&spec),
    };
    match read {
        Ok(wanted) => Plan::Put { spec, wanted, paused },
        Err(mistake) => Plan::Remove {
            mistake: Some(mistake),
        },
    }
}

#[cfg(test)]
mod tests;
