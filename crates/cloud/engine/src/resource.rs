//! Resources and their stages.

use std::{collections::BTreeMap, time::Duration};

use nephele_model::{CloudError, ResourceId, ResourceKind, SimTime, StageName};
use serde::{Deserialize, Serialize};

use crate::{
    active_effect::ActiveEffect,
    clock::CloudTime,
    cloud_spec::Hardware,
    environment::{Environment, Instant},
    event::{Event, EventKind, Took},
    latency::Latency,
    seed::Decision,
    spec::{ResourceSpec, StageSpec},
    usage::Footprint,
};

mod affected;

/// The state of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StageState {
    /// A predecessor is not reached yet.
    Blocked,
    /// The stage was entered.
    Running {
        since: SimTime,
        /// When it will end; drawn on entry. None while the clock of its cloud stands still.
        due: Option<SimTime>,
    },
    /// The stage was reached.
    Reached { at: SimTime },
    /// The stage failed. A retry enters it again.
    Failed {
        at: SimTime,
        /// The cause, in a few words.
        cause: String,
    },
}

/// An update in place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UpdateSpec {
    /// Its name, unique among the updates of the resource.
    pub name: String,
    /// What the resource changes to. The draw of the duration is keyed by this and not by the name, which depends on
    /// the time of the request.
    pub to: String,
    /// When it began, at the latest now. After a restart the update is due when it would have been.
    pub since: SimTime,
    pub latency: Latency,
}

/// The last update of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    pub name: String,
    pub state: UpdateState,
}

/// The state of an update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpdateState {
    /// Under way.
    Running {
        since: SimTime,
        /// When it will end; drawn when it began. None while the clock of its cloud stands still.
        due: Option<SimTime>,
        /// The same in the time of its cloud, if the cloud has a time of its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ends: Option<CloudTime>,
    },
    /// Ended.
    Over { since: SimTime, at: SimTime },
}

/// A deletion under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deletion {
    pub since: SimTime,
    /// When it will end; drawn when it began. None while the clock of its cloud stands still.
    pub due: Option<SimTime>,
    /// The same in the time of its cloud, if the cloud has a time of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<CloudTime>,
    /// When it was accepted, in the time of the cloud. None if an earlier process accepted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) accepted: Option<CloudTime>,
}

/// A resource of the cloud.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    pub spec: ResourceSpec,
    /// Its hardware since its creation. Later changes of the cloud do not affect it.
    pub hardware: Hardware,
    /// Grows with each change of state.
    pub generation: u64,
    pub created: SimTime,
    pub deleting: Option<Deletion>,
    /// The last update that was requested.
    pub update: Option<Update>,
    /// The backends of a load balancer by instance name, each with the stage that the instance must have reached to be
    /// in service. All these instances exist, in the load balancer's cluster.
    pub backends: BTreeMap<String, StageName>,
    /// What is wrong with it, by the name of the fault.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[serde(rename = "afflictions")]
    pub active_effects: BTreeMap<String, ActiveEffect>,
    /// When the notices among its active effects are over, by the name of the fault.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notices: BTreeMap<String, Due>,
    /// Who asked for its creation. Empty if an earlier process was asked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub creator: String,
    /// The fault because of which its creator does not know that it exists, see [`crate::Engine::is_unanswered`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<String>,
    /// When its creation was accepted, in the time of the cloud. None if an earlier process accepted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) accepted: Option<CloudTime>,
    /// Its adoption. None if this process accepted its creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) adopted: Option<Adopted>,
    /// The progress of each stage of `spec.stages`, in that order.
    pub(crate) progress: Vec<Progress>,
}

/// The adoption of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Adopted {
    pub(crate) at: SimTime,
    pub(crate) generation: u64,
}

/// The state of a stage and the number of earlier attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) state: StageState,
    pub(crate) attempt: u32,
    /// When the stage ends or was reached, in the time of the cloud. None where that equals the engine's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) time: Option<CloudTime>,
}

/// When something is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    /// The time. None while the clock of its cloud stands still.
    pub due: Option<SimTime>,
    /// The same in the time of its cloud, if the cloud has a time of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<CloudTime>,
}

impl Due {
    /// The time of the cloud, which equals the engine's time if the cloud has no time of its own.
    #[must_use]
    pub fn time(self) -> Option<CloudTime> {
        self.ends.or_else(|| self.due.map(CloudTime::from))
    }
}

/// A deadline with the same instant in the time of the cloud, by which deadlines at the same time are ordered.
pub(crate) type Deadline = (SimTime, CloudTime);

fn deadline(due: Option<SimTime>, ends: Option<CloudTime>) -> Option<Deadline> {
    due.map(|due| (due, ends.unwrap_or_else(|| due.into())))
}

impl Resource {
    /// A resource with the stages in `reached` already reached. The other stages are entered or blocked.
    pub(crate) fn new(
        spec: ResourceSpec,
        hardware: Hardware,
        created: SimTime,
        reached: &BTreeMap<StageName, SimTime>,
        environment: Environment<'_>,
    ) -> Self {
        let progress = |stage: &StageSpec| {
            let (state, time) = match reached.get(&stage.name) {
                Some(&at) => (
                    StageState::Reached { at },
                    environment.clock.map(|clock| clock.time(at)),
                ),
                None => (StageState::Blocked, None),
            };
            Progress {
                state,
                attempt: 0,
                time,
            }
        };
        let progress: Vec<_> = spec.stages.iter().map(progress).collect();
        let reached = progress
            .iter()
            .filter(|stage| matches!(stage.state, StageState::Reached { .. }))
            .count();
        // The generation is as if the engine had seen the creation and each reached stage.
        let generation = 1 + reached as u64;
        let backends = BTreeMap::new();
        let active_effects = BTreeMap::new();
        let notices = BTreeMap::new();
        let deleting = None;
        let update = None;
        let mut resource = Self {
            spec,
            hardware,
            generation,
            created,
            deleting,
            update,
            backends,
            active_effects,
            notices,
            creator: String::new(),
            unanswered: None,
            accepted: None,
            adopted: None,
            progress,
        };
        resource.restore_instants(environment);
        resource.enter_ready_stages(environment);
        if let Some(clock) = environment.clock {
            // Nothing ends that was not over before the clock stood still.
            resource.set_ends(|ends| (clock.when(clock.hold(ends)), clock.hold(ends)));
        }
        resource
    }

    /// Restores the exact times at which adopted stages were reached, where the times were recorded in whole seconds.
    /// The latency of a stage is drawn again, which gives its deadline. If the deadline is within the recorded second,
    /// it is the exact time. So the following stages are due when they would have been.
    fn restore_instants(&mut self, environment: Environment<'_>) {
        // Each round restores at least the stages whose predecessors were restored in the round before.
        for _ in 0..self.progress.len() {
            for index in 0..self.progress.len() {
                let StageState::Reached { at } = self.progress[index].state else {
                    continue;
                };
                let stage = &self.spec.stages[index];
                let Some(since) = self.ready_since(stage, environment) else {
                    continue;
                };
                let mut draws =
                    environment
                        .seed
                        .draws(self.spec.drawn_by(), Decision::Latency(&stage.name), 0);
                let (due, time) = environment.end(since, environment.of_stage(stage).draw(&mut draws));
                if let Some(due) = due.filter(|due| at <= *due && due.since(at) < Duration::from_secs(1)) {
                    let progress = &mut self.progress[index];
                    (progress.state, progress.time) = (StageState::Reached { at: due }, time);
                }
            }
        }
    }

    /// What it takes up.
    pub(crate) fn footprint(&self) -> Footprint {
        Footprint::new(&self.spec, &self.hardware)
    }

    /// The state of a stage, or none when the resource has no such stage.
    #[must_use]
    pub fn stage(&self, name: &StageName) -> Option<&StageState> {
        self.stages()
            .find_map(|(stage, state)| (stage == name).then_some(state))
    }

    /// Whether the resource has reached a stage, is not being deleted and is in service.
    pub(crate) fn runs(&self, stage: &StageName) -> bool {
        self.deleting.is_none()
            && !self.is_down()
            && matches!(self.stage(stage), Some(StageState::Reached { .. }))
    }

    /// Refuses an operation on a resource that is being deleted.
    pub(crate) fn refuse_deleting(&self) -> Result<(), CloudError> {
        if self.deleting.is_some() {
            Err(CloudError::Deleting(self.spec.id.clone()))
        } else {
            Ok(())
        }
    }

    /// All stages, in the order of the specification.
    pub fn stages(&self) -> impl Iterator<Item = (&StageName, &StageState)> {
        self.spec
            .stages
            .iter()
            .zip(&self.progress)
            .map(|(stage, progress)| (&stage.name, &progress.state))
    }

    /// The stages that the resource has reached.
    pub(crate) fn reached_stages(&self) -> Vec<StageName> {
        let reached = self
            .stages()
            .filter(|(_, state)| matches!(state, StageState::Reached { .. }));
        reached.map(|(name, _)| name.clone()).collect()
    }

    /// When it was adopted, if nothing has happened to it since. Then its creator knows of it what a read would show: a
    /// new process asks several times for each resource, and a restart is no call.
    pub(crate) fn as_adopted(&self) -> Option<SimTime> {
        self.adopted
            .filter(|adopted| adopted.generation == self.generation)
            .map(|adopted| adopted.at)
    }

    /// Notes that this is how it was adopted.
    pub(crate) fn note_adoption(&mut self, at: SimTime) {
        self.adopted = Some(Adopted {
            at,
            generation: self.generation,
        });
    }

    /// The event of an adoption, with the stages that were reached.
    pub(crate) fn adopted(&self, now: SimTime) -> Event {
        let reached = self.stages().filter_map(|(name, state)| match state {
            StageState::Reached { at } => Some((name.clone(), *at)),
            StageState::Blocked | StageState::Running { .. } | StageState::Failed { .. } => None,
        });
        let kind = EventKind::Adopted {
            reached: reached.collect(),
            is_deleting: self.deleting.is_some(),
        };
        Event::new(now, self.spec.id.clone(), self.generation, kind)
    }

    /// The next time at which this resource changes by itself.
    pub(crate) fn next_deadline(&self) -> Option<Deadline> {
        let due = |(stage, progress): (&StageSpec, &Progress)| match progress.state {
            StageState::Running { due, .. } if !self.is_held(&stage.name) => deadline(due, progress.time),
            StageState::Running { .. }
            | StageState::Blocked
            | StageState::Reached { .. }
            | StageState::Failed { .. } => None,
        };
        let stages = self.spec.stages.iter().zip(&self.progress);
        let update = self.update.iter().filter_map(|update| match update.state {
            UpdateState::Running { due, ends, .. } => deadline(due, ends),
            UpdateState::Over { .. } => None,
        });
        match &self.deleting {
            Some(deletion) => deadline(deletion.due, deletion.ends),
            None => stages
                .filter_map(due)
                .chain(update)
                .chain(self.notice_deadlines())
                .min(),
        }
    }

    /// Ends the stages that are due by a deadline, with the drawn result, and enters the stages that waited for them.
    /// Returns the events in order.
    pub(crate) fn end_due_stages(&mut self, now: Deadline, environment: Environment<'_>) -> Vec<Event> {
        let mut events = Vec::new();
        let held = self.held_stages();
        for (stage, progress) in self.spec.stages.iter().zip(&mut self.progress) {
            let StageState::Running { due, .. } = progress.state else {
                continue;
            };
            let Some(ends) = deadline(due, progress.time).filter(|ends| *ends <= now) else {
                continue;
            };
            let at = ends.0;
            if held.contains(&stage.name) {
                continue;
            }
            let id = &self.spec.id;
            let name = stage.name.clone();
            let decision = Decision::Failure(&stage.name);
            let fails = environment
                .seed
                .draws(self.spec.drawn_by(), decision, progress.attempt)
                .happens(stage.failure);
            let kind = if fails {
                let cause = format!("{name} failed at attempt {}", u64::from(progress.attempt) + 1);
                progress.state = StageState::Failed {
                    at,
                    cause: cause.clone(),
                };
                EventKind::StageFailed { stage: name, cause }
            } else {
                progress.state = StageState::Reached { at };
                EventKind::StageReached(name)
            };
            self.generation += 1;
            let time = progress.time.unwrap_or_else(|| at.into());
            let took = self.accepted.filter(|_| !fails);
            let took = took.map(|accepted| Took {
                time: time.since(accepted),
                is_all: false,
            });
            let event = Event::new(at, id.clone(), self.generation, kind);
            events.push(Event { took, ..event });
        }
        let is_up = |progress: &Progress| matches!(progress.state, StageState::Reached { .. });
        if self.progress.iter().all(is_up)
            && let Some(Event { took: Some(last), .. }) = events
                .iter_mut()
                .max_by_key(|event| event.took.map(|took| took.time))
        {
            last.is_all = true;
        }
        self.enter_ready_stages(environment);
        events
    }

    /// Enters a failed stage again. Returns whether the stage had failed, or none if there is no such stage.
    pub(crate) fn retry(
        &mut self,
        now: SimTime,
        name: &StageName,
        environment: Environment<'_>,
    ) -> Option<bool> {
        let index = self.spec.stages.iter().position(|stage| stage.name == *name)?;
        let progress = &mut self.progress[index];
        if !matches!(progress.state, StageState::Failed { .. }) {
            return Some(false);
        }
        progress.attempt = progress.attempt.saturating_add(1);
        self.generation += 1;
        let at = now;
        let time = environment.time(now);
        self.enter(index, Instant { at, time }, environment);
        if let Some(clock) = environment.clock {
            self.set_ends(|ends| (clock.when(clock.hold(ends)), clock.hold(ends)));
        }
        Some(true)
    }

    /// Begins an update, unless it is the last one that was requested. Returns whether it did.
    pub(crate) fn begin_update(
        &mut self,
        now: SimTime,
        update: &UpdateSpec,
        environment: Environment<'_>,
    ) -> bool {
        let UpdateSpec {
            name,
            to,
            since,
            latency,
        } = update;
        if self.update.as_ref().is_some_and(|known| known.name == *name) {
            return false;
        }
        let since = (*since).min(now);
        let takes = latency.draw(
            &mut environment
                .seed
                .draws(self.spec.drawn_by(), Decision::Update(to), 0),
        );
        let (due, ends) = environment.end_of_new(since, takes);
        self.update = Some(Update {
            name: name.clone(),
            state: UpdateState::Running { since, due, ends },
        });
        self.generation += 1;
        true
    }

    /// Ends an update that is due by a deadline, and returns the event.
    pub(crate) fn end_due_update(&mut self, now: Deadline) -> Option<Event> {
        let Update { name, state } = self.update.as_mut()?;
        let UpdateState::Running { since, due, ends } = *state else {
            return None;
        };
        let (due, _) = deadline(due, ends).filter(|ends| *ends <= now)?;
        *state = UpdateState::Over { since, at: due };
        self.generation += 1;
        let kind = EventKind::Updated(name.clone());
        Some(Event::new(due, self.spec.id.clone(), self.generation, kind))
    }

    fn notice_deadlines(&self) -> impl Iterator<Item = Deadline> {
        self.notices
            .values()
            .filter_map(|notice| deadline(notice.due, notice.ends))
    }

    /// Ends the notices that are due by a deadline, and returns the names of their faults.
    pub(crate) fn end_due_notices(&mut self, now: Deadline) -> Vec<String> {
        let is_due = |notice: &Due| deadline(notice.due, notice.ends).is_some_and(|ends| ends <= now);
        let over = self.notices.extract_if(.., |_, notice| is_due(notice));
        over.map(|(fault, _)| fault).collect()
    }

    /// Begins the deletion, which ends everything else, or continues one that an earlier process began.
    pub(crate) fn begin_deletion(&mut self, since: SimTime, is_adopted: bool, environment: Environment<'_>) {
        let mut draws = environment
            .seed
            .draws(self.spec.drawn_by(), Decision::Deletion, 0);
        let duration = environment.of_deletion(&self.spec).draw(&mut draws);
        let (due, ends) = environment.end_of_new(since, duration);
        let accepted = (!is_adopted).then(|| environment.time(since));
        self.deleting = Some(Deletion {
            since,
            due,
            ends,
            accepted,
        });
        self.generation += 1;
    }

    /// Enters each blocked stage whose predecessors are all reached, at the time when the last of them was reached.
    /// Because that time is used and not the time of the call, late polls and restarts change nothing.
    fn enter_ready_stages(&mut self, environment: Environment<'_>) {
        for index in 0..self.progress.len() {
            if self.progress[index].state == StageState::Blocked
                && let Some(since) = self.ready_since(&self.spec.stages[index], environment)
            {
                self.enter(index, since, environment);
            }
        }
    }

    fn ready_since(&self, stage: &StageSpec, environment: Environment<'_>) -> Option<Instant> {
        let reached = |name: &StageName| {
            let known = self.spec.stages.iter().position(|known| known.name == *name)?;
            let Progress {
                state: StageState::Reached { at },
                time,
                ..
            } = &self.progress[known]
            else {
                return None;
            };
            Some(Instant {
                at: *at,
                time: time.unwrap_or_else(|| (*at).into()),
            })
        };
        let created = Instant {
            at: self.created,
            time: environment.time(self.created),
        };
        // The clock may have leapt since the creation, and what it was before is not known.
        let first = if stage.after.is_empty() {
            created.time
        } else {
            CloudTime::default()
        };
        stage.after.iter().try_fold(
            Instant {
                time: first,
                ..created
            },
            |since, name| {
                let Instant { at, time } = reached(name)?;
                Some(Instant {
                    at: since.at.max(at),
                    time: since.time.max(time),
                })
            },
        )
    }

    /// Enters a stage. This is the one place where its duration is drawn.
    fn enter(&mut self, index: usize, since: Instant, environment: Environment<'_>) {
        let stage = &self.spec.stages[index];
        let progress = &mut self.progress[index];
        let mut draws = environment.seed.draws(
            self.spec.drawn_by(),
            Decision::Latency(&stage.name),
            progress.attempt,
        );
        let (due, time) = environment.end(since, environment.of_stage(stage).draw(&mut draws));
        (progress.state, progress.time) = (StageState::Running { since: since.at, due }, time);
    }

    /// Whether it is an instance of a cloud.
    pub(crate) fn is_of(&self, cloud_spec: &ResourceId) -> bool {
        self.spec.id.kind == ResourceKind::Instance && self.spec.cloud_spec == cloud_spec.name
    }

    /// Changes the ends of everything that is under way, by their times of the cloud.
    pub(crate) fn set_ends(&mut self, change: impl Fn(CloudTime) -> (Option<SimTime>, CloudTime)) {
        let change = |due: &mut Option<SimTime>, ends: &mut Option<CloudTime>| {
            if let Some(known) = ends.or_else(|| (*due).map(CloudTime::from)) {
                let (new, time) = change(known);
                (*due, *ends) = (new, Some(time));
            }
        };
        for Progress { state, time, .. } in &mut self.progress {
            if let StageState::Running { due, .. } = state {
                change(due, time);
            }
        }
        if let Some(Update {
            state: UpdateState::Running { due, ends, .. },
            ..
        }) = &mut self.update
        {
            change(due, ends);
        }
        if let Some(Deletion { due, ends, .. }) = &mut self.deleting {
            change(due, ends);
        }
        self.notices
            .values_mut()
            .for_each(|Due { due, ends }| change(due, ends));
    }

    /// Continues without a time of the cloud: its ends equal their deadlines.
    pub(crate) fn forget_own_time(&mut self) {
        self.progress.iter_mut().for_each(|progress| progress.time = None);
        self.notices.values_mut().for_each(|notice| notice.ends = None);
        if let Some(Update {
            state: UpdateState::Running { ends, .. },
            ..
        }) = &mut self.update
        {
            *ends = None;
        }
        self.accepted = None;
        if let Some(deletion) = &mut self.deleting {
            (deletion.ends, deletion.accepted) = (None, None);
        }
    }

    /// The end of what ends next while the clock of the cloud stands still, in the time of the cloud.
    pub(crate) fn next_end(&self) -> Option<CloudTime> {
        if let Some(deletion) = &self.deleting {
            return deletion.ends;
        }
        let stages = self.spec.stages.iter().zip(&self.progress);
        let running = stages.filter(|(stage, progress)| {
            matches!(progress.state, StageState::Running { .. }) && !self.is_held(&stage.name)
        });
        let update = self.update.iter().filter_map(|update| match update.state {
            UpdateState::Running { ends, .. } => ends,
            UpdateState::Over { .. } => None,
        });
        let notices = self.notices.values().filter_map(|notice| notice.ends);
        running
            .filter_map(|(_, progress)| progress.time)
            .chain(update)
            .chain(notices)
            .min()
    }

    /// Lets the first of what ends at `ends` end now, at this time of the cloud.
    pub(crate) fn end_now(&mut self, ends: CloudTime, now: SimTime, at: CloudTime) {
        if let Some(deletion) = &mut self.deleting {
            (deletion.due, deletion.ends) = (Some(now), Some(at));
            return;
        }
        let held = self.held_stages();
        for (stage, Progress { state, time, .. }) in self.spec.stages.iter().zip(&mut self.progress) {
            if let StageState::Running { due, .. } = state
                && *time == Some(ends)
                && !held.contains(&stage.name)
            {
                (*due, *time) = (Some(now), Some(at));
                return;
            }
        }
        if let Some(notice) = self.notices.values_mut().find(|notice| notice.ends == Some(ends)) {
            *notice = Due {
                due: Some(now),
                ends: Some(at),
            };
            return;
        }
        if let Some(Update {
            state: UpdateState::Running { due, ends, .. },
            ..
        }) = &mut self.update
        {
            (*due, *ends) = (Some(now), Some(at));
        }
    }
}
