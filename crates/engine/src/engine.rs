//! The state machine.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use crate::config::Config;
use crate::identity::{ResourceId, ResourceKind, StageName};
use crate::journal::{Journal, Record};
use crate::operation::{Command, Event, EventKind, Operation, Outcome, Rejected};
use crate::resource::{Progress, Resource, ResourceSpec, StageState};
use crate::seed::Seed;
use crate::time::SimTime;

/// The cloud. Whoever holds it is its only owner; nothing in it changes but through [`Engine::apply`] and
/// [`Engine::poll`].
#[derive(Clone, Debug)]
pub struct Engine {
    config: Config,
    seed: Seed,
    resources: BTreeMap<ResourceId, Resource>,
    /// (deadline, resource), one entry per resource that has a deadline.
    deadlines: BTreeSet<(SimTime, ResourceId)>,
    journal: Journal,
}

impl Engine {
    /// An empty cloud.
    #[must_use]
    pub fn new(config: Config, seed: Seed) -> Self {
        Self { config, seed, resources: BTreeMap::new(), deadlines: BTreeSet::new(), journal: Journal::new() }
    }

    /// Asks for a change. Repeating an operation answers [`Outcome::AlreadyDone`].
    ///
    /// # Errors
    /// When the cloud refuses; [`Rejected::class`] says what to do about it.
    pub fn apply(&mut self, now: SimTime, operation: Operation) -> Result<Outcome, Rejected> {
        let resource = operation.command.resource().clone();
        let name = operation.command.name();
        let outcome = match operation.command {
            Command::Create(spec) => self.create(now, spec, now, &BTreeMap::new()),
            Command::Adopt { spec, created, reached } => self.create(now, spec, created, &reached),
            Command::Retry(id, stage) => self.retry(now, &id, &stage),
            Command::Delete(id) => Ok(self.delete(now, &id)),
        };
        if outcome != Ok(Outcome::AlreadyDone) {
            let caller = operation.caller;
            self.journal.push(Record::Operation {
                at: now,
                caller,
                operation: name,
                resource,
                outcome: outcome.clone(),
            });
        }
        outcome
    }

    /// Lets everything happen that is due by `now`, and says what did, ordered by (time, resource, generation).
    pub fn poll(&mut self, now: SimTime) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some((at, id)) = self.deadlines.first().cloned() {
            if at > now {
                break;
            }
            self.deadlines.pop_first();
            self.advance(at, &id, &mut events);
        }
        // Deadlines pop in order of (time, resource), but a stage without latency puts its successor's deadline
        // behind resources that were already visited at the same instant.
        events.sort_by(|a, b| (a.at, &a.id, a.generation).cmp(&(b.at, &b.id, b.generation)));
        for event in &events {
            self.journal.push(Record::Event(event.clone()));
        }
        events
    }

    /// The next instant at which [`Engine::poll`] will find something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<SimTime> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// A resource by name.
    #[must_use]
    pub fn get(&self, id: &ResourceId) -> Option<&Resource> {
        self.resources.get(id)
    }

    /// All resources, by name.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.resources.values()
    }

    /// What was asked and what happened.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// A fingerprint of the state: equal for two clouds exactly when every resource stands where it stands in the
    /// other. The journal does not count.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for resource in self.resources.values() {
            // Debug output of ordered plain data is canonical; the generation counts visits and is left out, since
            // adoption starts it anew.
            hash.update(format!("{:?}{:?}{:?}", resource.spec, resource.deleting, resource.created));
            for (name, progress) in &resource.stages {
                hash.update(format!("{name}={progress:?};"));
            }
        }
        hash.finalize().into()
    }

    fn create(
        &mut self,
        now: SimTime,
        spec: ResourceSpec,
        created: SimTime,
        reached: &BTreeMap<StageName, SimTime>,
    ) -> Result<Outcome, Rejected> {
        if let Some(existing) = self.resources.get_mut(&spec.id) {
            if existing.deleting.is_some() {
                return Err(Rejected::Deleting(spec.id));
            }
            if existing.spec == spec {
                return Ok(Outcome::AlreadyDone);
            }
            let placed = (&existing.spec.zone, &existing.spec.instance_type, &existing.spec.stages);
            if placed != (&spec.zone, &spec.instance_type, &spec.stages) {
                return Err(Rejected::Conflict(spec.id));
            }
            // Labels, owner and the price of deletion may change under a running resource.
            existing.spec = spec;
            existing.generation += 1;
            return Ok(Outcome::Accepted);
        }
        if !spec.is_walkable() {
            return Err(Rejected::InvalidStage(spec.id));
        }
        // What an earlier process had is there, whatever the limits say today.
        if reached.is_empty() {
            self.admit(&spec)?;
        }
        let progress = |name: &StageName| {
            let state = match reached.get(name) {
                Some(&at) => StageState::Reached { at },
                None => StageState::Blocked,
            };
            (name.clone(), Progress { state, attempt: 0 })
        };
        let stages = spec.stages.iter().map(|stage| progress(&stage.name)).collect();
        let id = spec.id.clone();
        let mut resource =
            Resource { spec, generation: 1, created: created.min(now), deleting: None, stages };
        enter_ready_stages(&self.seed, &mut resource);
        self.schedule(&resource);
        self.resources.insert(id, resource);
        Ok(Outcome::Accepted)
    }

    /// Checks a new resource against what the cloud offers.
    fn admit(&self, spec: &ResourceSpec) -> Result<(), Rejected> {
        let count = |matches: &dyn Fn(&ResourceSpec) -> bool| {
            let count = self.resources.values().filter(|resource| matches(&resource.spec)).count();
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        if let Some(kind) = &spec.instance_type
            && !self.config.instance_types.is_empty()
            && !self.config.instance_types.contains(kind)
        {
            return Err(Rejected::UnknownInstanceType(kind.clone()));
        }
        if let Some(name) = &spec.zone
            && !self.config.zones.is_empty()
        {
            let zone = self.config.zones.get(name).ok_or_else(|| Rejected::UnknownZone(name.clone()))?;
            let in_zone =
                |other: &ResourceSpec| other.zone == spec.zone && other.id.kind == ResourceKind::Instance;
            if spec.id.kind == ResourceKind::Instance
                && zone.instances_max.is_some_and(|limit| count(&in_zone) >= limit)
            {
                return Err(Rejected::InsufficientCapacity(name.clone()));
            }
        }
        let (what, limit) = match spec.id.kind {
            ResourceKind::Instance => ("instances", self.config.quota.instances_max),
            ResourceKind::LoadBalancer => ("load balancers", self.config.quota.load_balancers_max),
        };
        let of_account =
            |other: &ResourceSpec| other.id.kind == spec.id.kind && other.id.account == spec.id.account;
        match limit {
            Some(limit) if count(&of_account) >= limit => Err(Rejected::QuotaExceeded { what, limit }),
            _ => Ok(()),
        }
    }

    fn retry(&mut self, now: SimTime, id: &ResourceId, stage: &StageName) -> Result<Outcome, Rejected> {
        let resource = self.resources.get_mut(id).ok_or_else(|| Rejected::NotFound(id.clone()))?;
        if resource.deleting.is_some() {
            return Err(Rejected::Deleting(id.clone()));
        }
        let before = resource.next_deadline();
        let progress = resource.stages.get_mut(stage).ok_or_else(|| Rejected::InvalidStage(id.clone()))?;
        if !matches!(progress.state, StageState::Failed { .. }) {
            return Ok(Outcome::AlreadyDone);
        }
        progress.attempt += 1;
        let attempt = progress.attempt;
        let latency = resource.spec.stages.iter().find(|spec| spec.name == *stage).map(|spec| &spec.latency);
        let latency = latency.expect("stages are made of the specification's, which never change");
        let due = now + latency.draw(&mut self.seed.draws(id, &format!("latency/{stage}"), attempt));
        progress.state = StageState::Running { since: now, due };
        resource.generation += 1;
        reschedule(&mut self.deadlines, before, resource);
        Ok(Outcome::Accepted)
    }

    fn delete(&mut self, now: SimTime, id: &ResourceId) -> Outcome {
        let Some(resource) = self.resources.get_mut(id) else { return Outcome::AlreadyDone };
        if resource.deleting.is_some() {
            return Outcome::AlreadyDone;
        }
        let before = resource.next_deadline();
        let duration = resource.spec.deletion.draw(&mut self.seed.draws(id, "deletion", 0));
        resource.deleting = Some(now + duration);
        resource.generation += 1;
        reschedule(&mut self.deadlines, before, resource);
        Outcome::Accepted
    }

    /// Lets happen what is due at `at` to one resource.
    fn advance(&mut self, at: SimTime, id: &ResourceId, events: &mut Vec<Event>) {
        let resource = self.resources.get_mut(id).expect("a deadline is removed with its resource");
        if resource.deleting.is_some() {
            resource.generation += 1;
            let generation = resource.generation;
            self.resources.remove(id);
            events.push(Event { at, id: id.clone(), generation, kind: EventKind::Deleted });
            return;
        }
        for spec in resource.spec.stages.clone() {
            let progress = resource.stages.get_mut(&spec.name).expect("every specified stage has a state");
            let StageState::Running { due, .. } = progress.state else { continue };
            if due > at {
                continue;
            }
            let stage = spec.name;
            let fails =
                spec.failure.draw(&mut self.seed.draws(id, &format!("failure/{stage}"), progress.attempt));
            let kind = if fails {
                let cause = format!("{stage} failed at attempt {}", progress.attempt + 1);
                progress.state = StageState::Failed { at: due, cause: cause.clone() };
                EventKind::StageFailed { stage, cause }
            } else {
                progress.state = StageState::Reached { at: due };
                EventKind::StageReached(stage)
            };
            resource.generation += 1;
            events.push(Event { at: due, id: id.clone(), generation: resource.generation, kind });
        }
        enter_ready_stages(&self.seed, resource);
        if let Some(deadline) = resource.next_deadline() {
            self.deadlines.insert((deadline, id.clone()));
        }
    }

    fn schedule(&mut self, resource: &Resource) {
        if let Some(deadline) = resource.next_deadline() {
            self.deadlines.insert((deadline, resource.spec.id.clone()));
        }
    }
}

/// Moves the one deadline entry of a resource from where it was to where it is.
fn reschedule(deadlines: &mut BTreeSet<(SimTime, ResourceId)>, before: Option<SimTime>, resource: &Resource) {
    if let Some(before) = before {
        deadlines.remove(&(before, resource.spec.id.clone()));
    }
    if let Some(deadline) = resource.next_deadline() {
        deadlines.insert((deadline, resource.spec.id.clone()));
    }
}

/// Enters each blocked stage whose predecessors are all reached, at the instant the last of them was. That instant,
/// not the time of the call, is what makes late polls and restarts harmless.
fn enter_ready_stages(seed: &Seed, resource: &mut Resource) {
    for spec in &resource.spec.stages {
        let reached_at = |name: &StageName| match resource.stages.get(name)?.state {
            StageState::Reached { at } => Some(at),
            StageState::Blocked | StageState::Running { .. } | StageState::Failed { .. } => None,
        };
        let Some(since) = spec
            .after
            .iter()
            .map(reached_at)
            .try_fold(resource.created, |latest, at| at.map(|at| latest.max(at)))
        else {
            continue;
        };
        let progress = resource.stages.get_mut(&spec.name).expect("every specified stage has a state");
        if progress.state == StageState::Blocked {
            let mut draws =
                seed.draws(&resource.spec.id, &format!("latency/{}", spec.name), progress.attempt);
            progress.state = StageState::Running { since, due: since + spec.latency.draw(&mut draws) };
        }
    }
}
