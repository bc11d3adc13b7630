//! The state machine.

mod adopt;
mod affect;
mod backends;
mod caller_mistakes;
mod clocks;
mod costs;
mod duplicates;
mod leaks;
mod reads;

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
};

use nephele_model::{
    Capacity, CloudError, ClusterId, ResourceId, ResourceKind, SimTime, StageName, Verb, count_step,
};

use crate::{
    adoption::Reservation,
    billing::Cost,
    checks::{Checked, check},
    clock::ClockRecord,
    cloud_spec::{CloudSpec, Hardware, Model},
    clouds::Clouds,
    config::Config,
    digest::{write_leaked, write_resource},
    event::{Event, EventKind, Took},
    fault::{Call, FaultState, Lag, Strike, Subject, Verdict},
    faults::{Change, Faults, KnownBefore},
    hasher::StableHasher,
    journal::{Cursor, Journal, Record},
    operation::{Operation, Request},
    outcome::Outcome,
    resource::{Deadline, Resource, StageState, UpdateSpec},
    resource_counts::ResourceCounts,
    seed::Seed,
    spec::ResourceSpec,
    usage::{CapacityUsage, Footprint, Usage},
    wait_queue::WaitQueues,
};

/// The cloud. An engine has one owner, and its state changes only through [`Engine::apply`], [`Engine::poll`] and
/// [`Engine::poll_some`].
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) clouds: Clouds,
    pub(crate) resources: BTreeMap<ResourceId, Resource>,
    /// The reserved resources. None of them is in `resources`.
    pub(crate) reserved: BTreeMap<ResourceId, Reservation>,
    /// (deadline, resource), one entry per resource that has a deadline.
    pub(crate) deadlines: BTreeSet<(Deadline, ResourceId)>,
    pub(crate) usage: Usage,
    pub(crate) waiting: WaitQueues,
    pub(crate) faults: Faults,
    resource_counts: ResourceCounts,
    pub(crate) journal: Journal,
}

impl Engine {
    /// An empty cloud.
    #[must_use]
    pub fn new(config: Config, seed: Seed) -> Self {
        Self::starting_at(config, seed, 1)
    }

    /// An empty cloud whose first record has this number.
    pub(crate) fn starting_at(config: Config, seed: Seed, first: u64) -> Self {
        Self {
            clouds: Clouds::new(config, seed),
            resources: BTreeMap::new(),
            reserved: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            usage: Usage::default(),
            waiting: WaitQueues::default(),
            faults: Faults::default(),
            resource_counts: ResourceCounts::default(),
            journal: Journal::starting_at(first),
        }
    }

    /// Carries out an operation and returns the answer. A repeated operation returns [`Outcome::AlreadyDone`].
    ///
    /// Events that are due by the time of the operation happen first, so that the answer does not depend on when
    /// the engine was polled. An operation with an earlier time than the one before it is treated as if it came now.
    pub fn apply(&mut self, operation: Operation) -> Outcome {
        let now = operation.at;
        self.poll(now);
        let (is_counted, verdict) = match self.intercept(&operation) {
            Ok(intercepted) => intercepted,
            Err(error) => {
                let operation = Box::new(operation);
                let outcome = Outcome::Refused(error);
                let answer = outcome.clone();
                let faults = Vec::new();
                self.journal.push(Record::Operation {
                    operation,
                    outcome,
                    faults,
                    is_hit: false,
                });
                return answer;
            }
        };
        let Verdict {
            faults,
            hit,
            repeated,
        } = verdict;
        if let Some(outcome) = repeated {
            // A replay has to count it against the rate, if there is one.
            if is_counted {
                self.journal.push(Record::Operation {
                    operation: Box::new(operation),
                    outcome: outcome.clone(),
                    faults,
                    is_hit: false,
                });
            }
            return outcome;
        }
        let is_hit = hit.is_some();
        // A repetition that finds what exists changes nothing else, but it is the last one that could make a second one.
        let is_counted = is_counted || self.is_repetition(&operation);
        // Events that the operation causes are recorded after the operation.
        let mut events = Vec::new();
        let (outcome, lost) = match hit {
            Some(Strike::Instead(outcome)) => (outcome, None),
            Some(Strike::After(error)) => (self.carry_out(&operation, &mut events), Some(error)),
            Some(Strike::Leak(fault)) => {
                self.leak(now, operation.request.target(), &fault, &mut events);
                (Outcome::Accepted, None)
            }
            Some(Strike::Lag(lag)) => (self.carry_out_hidden(&operation, lag, &mut events), None),
            Some(Strike::Duplicate { fault, error }) => {
                let outcome = self.carry_out(&operation, &mut events);
                self.lose_answer(&operation, &outcome, &fault);
                (outcome, Some(error))
            }
            None => (self.carry_out(&operation, &mut events), None),
        };
        let is_answered_read = outcome == Outcome::Accepted && operation.request.is_read();
        // A replay has to count what faults and rates have counted.
        let is_counted = is_counted || !faults.is_empty();
        if is_counted || (outcome != Outcome::AlreadyDone && !is_answered_read) {
            let operation = Box::new(operation);
            self.journal.push(Record::Operation {
                operation,
                outcome: outcome.clone(),
                faults,
                is_hit,
            });
        }
        for event in events {
            self.note(event);
        }
        self.tell_waiting(now);
        match lost {
            Some(error) if !matches!(outcome, Outcome::Refused(_)) => Outcome::Refused(error),
            _ => outcome,
        }
    }

    /// Carries out an operation that no fault keeps from it.
    fn carry_out(&mut self, operation: &Operation, events: &mut Vec<Event>) -> Outcome {
        self.make_way(operation, events);
        let is_there = self.resources.contains_key(operation.request.target());
        let is_reserved = self.reserved.contains_key(operation.request.target());
        let Self {
            clouds,
            usage,
            waiting,
            ..
        } = self;
        let checked = Checked {
            clouds,
            usage,
            waiting,
            operation,
            is_there,
            is_reserved,
        };
        let outcome = match check(&checked) {
            Ok(()) => self.execute(operation, events).unwrap_or_else(Outcome::Refused),
            Err(outcome) => outcome,
        };
        self.enqueue(&operation.request, &outcome);
        outcome
    }

    /// Carries out an operation whose change does not show in reads for a while.
    fn carry_out_hidden(&mut self, operation: &Operation, lag: Lag, events: &mut Vec<Event>) -> Outcome {
        // Afterwards a deleted resource may be gone.
        let subject = subject(&self.resources, &operation.request);
        let subject = subject.map(|(verb, spec)| (verb, spec.cloud_spec.clone()));
        let outcome = self.carry_out(operation, events);
        if let Some((verb, cloud_spec)) = subject.filter(|_| outcome == Outcome::Accepted) {
            self.hide(operation, verb, cloud_spec, lag);
        }
        outcome
    }

    /// What the rate of the cloud and the faults of the namespace do to an operation. Returns whether the rate counted
    /// it.
    ///
    /// As in real clouds, the rate comes before anything else is looked at. Calls that faults do not see do not count.
    fn intercept(&mut self, operation: &Operation) -> Result<(bool, Verdict), CloudError> {
        // Only clouds that were put have rates. Almost every cloud has no faults at almost every time.
        let is_free = !self.clouds.any_put() && self.faults.is_empty();
        if is_free || operation.caller == Operation::SWEEPER {
            return Ok((false, Verdict::default()));
        }
        // The only requests that let something leak are its deletion, and a creation that is carried out twice.
        let has_room_to_leak = match &operation.request {
            Request::Delete(id) if !self.faults.is_empty() => self
                .get(id)
                .is_some_and(|found| self.can_leak(&found.spec.cloud_id(), id.kind)),
            Request::Create(spec) if !self.faults.is_empty() => self.can_leak(&spec.cloud_id(), spec.id.kind),
            _ => false,
        };
        let Self {
            resources,
            faults,
            clouds,
            ..
        } = self;
        let Some((verb, spec)) = subject(resources, &operation.request) else {
            return Ok((false, Verdict::default()));
        };
        let as_adopted = match &operation.request {
            Request::Describe(id) => resources.get(id).and_then(Resource::as_adopted),
            _ => None,
        };
        let id = spec.cloud_id();
        let rate = clouds.cloud_spec(&id).and_then(|cloud_spec| cloud_spec.api.calls);
        let rate = rate.filter(|_| as_adopted.is_none());
        if let Some(rate) = rate {
            let taken = clouds.take_call(&id, rate, operation.at);
            taken.map_err(|retry_after| CloudError::Throttled { rate, retry_after })?;
        }
        if faults.is_empty() {
            return Ok((rate.is_some(), Verdict::default()));
        }
        let leaking = [
            Verb::CreateInstance,
            Verb::DeleteInstance,
            Verb::DeleteLoadBalancer,
        ];
        let can_leak = leaking.contains(&verb) && has_room_to_leak;
        let ResourceId {
            namespace,
            cluster,
            kind,
            ..
        } = &spec.id;
        let cluster = match kind {
            ResourceKind::LoadBalancer => Some(&spec.labels),
            _ => load_balancer_of(resources, namespace, cluster).map(|found| &found.spec.labels),
        };
        let subject = Subject { spec, cluster };
        let environment = clouds.environment_of(spec);
        let caller = operation.caller.as_str();
        let at = operation.at;
        let call = Call {
            verb,
            caller,
            subject,
            can_leak,
            at,
            as_adopted,
            key: OnceCell::new(),
        };
        Ok((rate.is_some(), faults.strike(&call, environment.seed)))
    }

    /// A creation that is refused for lack of room joins the line for that room. Any other answer takes it out of the
    /// line, but a creation that a fault keeps from being carried out stays where it is.
    fn enqueue(&mut self, request: &Request, outcome: &Outcome) {
        let Request::Create(ResourceSpec { id, .. }) = request else {
            return;
        };
        let missing = match outcome {
            Outcome::Refused(error) => error.missing_room(id),
            Outcome::Accepted | Outcome::AlreadyDone | Outcome::Delayed { .. } => None,
        };
        match missing {
            Some((capacity, amount)) => self.waiting.join(id, capacity, amount),
            None => drop(self.waiting.leave(id)),
        }
    }

    /// Tells waiting resources that room is free.
    fn tell_waiting(&mut self, at: SimTime) {
        let Self {
            clouds,
            usage,
            waiting,
            ..
        } = self;
        for (capacity, waiting) in waiting.tell(at, |capacity| {
            Some((clouds.limit(capacity)?, usage.taken(capacity)))
        }) {
            self.journal.push(Record::CapacityFreed {
                at,
                capacity,
                waiting,
            });
        }
    }

    fn execute(&mut self, operation: &Operation, events: &mut Vec<Event>) -> Result<Outcome, CloudError> {
        let Operation {
            caller,
            request,
            at: now,
        } = operation;
        let now = *now;
        match request {
            Request::Create(spec) => self.create_new(now, caller, spec, events),
            Request::Adopt { spec, previous } => self.adopt(now, spec, previous, events),
            Request::RegisterBackend {
                load_balancer,
                instance,
                in_service_from,
            } => self.register(now, load_balancer, instance, in_service_from, events),
            Request::DeregisterBackend {
                load_balancer,
                instance,
            } => Ok(self.deregister(now, load_balancer, instance, events)),
            Request::PutCloud {
                id,
                cloud_spec,
                clock,
                leaked,
                cost,
                caller_mistakes,
            } => {
                if !self.clouds.is_put(id) {
                    events.extend(self.adopt_leaked(now, leaked));
                    self.adopt_caller_mistakes(id, caller_mistakes);
                }
                Ok(self.put_cloud(now, id, cloud_spec, clock.as_ref(), cost.as_deref()))
            }
            Request::PutFault {
                id,
                fault,
                record,
                affected_ids,
                is_cut,
                notices,
                skipped,
                leaked,
                paused,
            } => {
                if self.faults.get(id).is_none() {
                    events.extend(self.adopt_leaked(now, leaked));
                }
                let known = KnownBefore {
                    affected_ids,
                    is_cut: *is_cut,
                    notices,
                    skipped,
                };
                let Some(changed) = self.put_fault(now, id, fault, record, known, *paused) else {
                    return Ok(Outcome::AlreadyDone);
                };
                events.extend(changed);
                Ok(Outcome::Accepted)
            }
            Request::DescribeModel { .. } => Ok(Outcome::Accepted),
            Request::Describe(id) if self.clouds.is_put(id) => Ok(Outcome::Accepted),
            Request::Reserve { id, footprint } => Ok(self.reserve(now, id, footprint)),
            Request::Describe(id) => self.describe(operation, id),
            Request::Retry(id, stage) => self.retry(now, id, stage),
            Request::Update(id, update) => self.update(now, id, update),
            Request::Delete(id) => Ok(self.delete(now, id, events)),
            Request::DeleteLeaked(cloud_spec) => {
                let leaked: Vec<_> = self.leaked(cloud_spec).cloned().collect();
                events.extend(self.delete_leaked(now, &leaked));
                Ok(if leaked.is_empty() {
                    Outcome::AlreadyDone
                } else {
                    Outcome::Accepted
                })
            }
        }
    }

    /// Lets everything happen that is due by `now`, and records it in the journal. Events are ordered by (time, time of
    /// the cloud, resource, generation), and a change of a load balancer comes right after the event that causes it. A
    /// poll records an event that is earlier than the poll before it in two cases only: an adoption, and an update that
    /// began in the past. In both, the event was due before the engine knew of it.
    pub fn poll(&mut self, now: SimTime) {
        while self.poll_some(now, usize::MAX) {}
    }

    /// As [`Engine::poll`], for at most `deadlines_max` deadlines, the earliest first. Returns whether more are due, so
    /// that the owner of the engine can release it in between.
    pub fn poll_some(&mut self, now: SimTime, deadlines_max: usize) -> bool {
        for _ in 0..deadlines_max {
            let Some(at) = self.next_deadline().filter(|at| *at <= now) else {
                return false;
            };
            match self.deadlines.first().filter(|((due, _), _)| *due == at).cloned() {
                Some(deadline) => {
                    self.deadlines.remove(&deadline);
                    let cloud_spec = self.get(&deadline.1).map(|resource| resource.spec.cloud_id());
                    for event in self.advance(deadline.0, &deadline.1) {
                        self.note(event);
                    }
                    cloud_spec.iter().for_each(|cloud_spec| self.step(at, cloud_spec));
                }
                None if self.faults.next_change() == Some(at) => self.change_fault(at),
                None => {
                    if let Some(waiting) = self.waiting.end_grant() {
                        self.journal.push(Record::GrantEnded { at, waiting });
                    }
                }
            }
            self.tell_waiting(at);
        }
        self.next_deadline().is_some_and(|at| at <= now)
    }

    /// Lets the next change of a fault happen: its end, or the begin or the end of a window.
    fn change_fault(&mut self, at: SimTime) {
        let Some((fault, change, affected_ids)) = self.faults.pop_change() else {
            return;
        };
        let mut events = self.clear(at, &fault.name, &affected_ids);
        if change == Change::WindowBegins {
            events.extend(self.affect_all(at, &fault));
        }
        self.journal.push(match change {
            Change::Ends => Record::FaultEnded { at, fault },
            Change::WindowBegins => Record::FaultWindow {
                at,
                fault,
                begins: true,
            },
            Change::WindowEnds => Record::FaultWindow {
                at,
                fault,
                begins: false,
            },
        });
        events.into_iter().for_each(|event| self.note(event));
    }

    /// The time of the next deadline, at which [`Engine::poll`] has something to do. It may be in the past.
    #[must_use]
    pub fn next_deadline(&self) -> Option<SimTime> {
        let due = self.deadlines.first().map(|((at, _), _)| *at);
        due.into_iter()
            .chain(self.waiting.next_deadline())
            .chain(self.faults.next_change())
            .min()
    }

    /// The names of the clouds that were put, in order.
    pub fn cloud_ids(&self) -> impl Iterator<Item = &ResourceId> {
        self.clouds
            .iter()
            .filter(|(_, cloud)| cloud.cloud_spec.is_some())
            .map(|(id, _)| id)
    }

    /// A resource by name.
    #[must_use]
    pub fn get(&self, id: &ResourceId) -> Option<&Resource> {
        self.resources.get(id)
    }

    /// The hardware of an instance that is made from a model of a cloud.
    ///
    /// # Errors
    /// When the cloud does not exist, or does not offer the model.
    pub fn hardware(&self, cloud_spec: &ResourceId, model: &Model) -> Result<Hardware, CloudError> {
        self.clouds.hardware(cloud_spec, model)
    }

    /// The limits of a cloud, and how much of them is used, in a fixed order. Empty if the cloud does not exist.
    #[must_use]
    pub fn usage(&self, cloud_spec: &ResourceId) -> Vec<CapacityUsage> {
        let capacities = self
            .clouds
            .cloud_spec(cloud_spec)
            .into_iter()
            .flat_map(|spec| spec.capacities(cloud_spec));
        let usage = capacities.map(|(capacity, limit)| {
            let taken = self.usage.taken(&capacity);
            let waiting = self.waiting.len(&capacity);
            CapacityUsage {
                capacity,
                limit,
                taken,
                waiting,
            }
        });
        usage.collect()
    }

    /// How much of a room is taken, whether or not it has a limit.
    #[must_use]
    pub fn taken(&self, capacity: &Capacity) -> u64 {
        self.usage.taken(capacity)
    }

    /// All resources, by name.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.resources.values().inspect(|_| count_step())
    }

    /// The resources of a cluster, ordered by kind and name.
    pub fn cluster<'a>(&'a self, cluster: &'a ClusterId) -> impl Iterator<Item = &'a Resource> {
        let first = ResourceId::first(&cluster.namespace, &cluster.name, ResourceKind::Instance);
        let resources = self.resources.range(first..).map(|(_, resource)| resource);
        resources.inspect(|_| count_step()).take_while(|resource| {
            resource.spec.id.namespace == cluster.namespace && resource.spec.id.cluster == cluster.name
        })
    }

    /// The reserved resources, see [`Request::Reserve`], in order.
    pub fn reserved(&self) -> impl Iterator<Item = &ResourceId> {
        self.reserved.keys()
    }

    /// Whether a resource is reserved.
    #[must_use]
    pub fn is_reserved(&self, id: &ResourceId) -> bool {
        self.reserved.contains_key(id)
    }

    /// The resources whose creation was refused for lack of room and that wait for it, in order.
    pub fn waiting(&self) -> impl Iterator<Item = &ResourceId> {
        self.waiting.ids()
    }

    /// A fault by name.
    #[must_use]
    pub fn fault(&self, id: &ResourceId) -> Option<&FaultState> {
        self.faults.get(id)
    }

    /// All faults, in order.
    pub fn faults(&self) -> impl Iterator<Item = &FaultState> {
        self.faults.iter()
    }

    /// How many resources exist and which stages they have reached.
    #[must_use]
    pub fn resource_counts(&self) -> &ResourceCounts {
        &self.resource_counts
    }

    /// Starts to keep an index of the records of a cluster, see [`Journal::read_cluster`]. [`Engine::unfollow`] ends it.
    pub fn follow(&mut self, cluster: ClusterId) -> Cursor {
        self.journal.follow(cluster)
    }

    /// Ends what [`Engine::follow`] started.
    pub fn unfollow(&mut self, cluster: &ClusterId) {
        self.journal.unfollow(cluster);
    }

    /// The record of operations and events.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// A digest of the state, the same on every machine and in every release. It is equal for two clouds exactly when
    /// every resource is in the same state in both, and the same resources are leaked. The journal, generations,
    /// reservations, the lines for room, the clouds and the faults do not count.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = StableHasher::new();
        hash.list(self.resources.values(), write_resource);
        // What is absent writes nothing, here and in `write_resource`.
        let leaked = self.leaked_by_name();
        if !leaked.is_empty() {
            hash.list(leaked, write_leaked);
        }
        hash.finish()
    }

    fn put_cloud(
        &mut self,
        now: SimTime,
        id: &ResourceId,
        cloud_spec: &CloudSpec,
        previous: Option<&ClockRecord>,
        cost: Option<&Cost>,
    ) -> Outcome {
        if self.clouds.put(id) == Some(cloud_spec) {
            return Outcome::AlreadyDone;
        }
        self.add_up(now, id);
        let before = self.clouds.change(id, |cloud| {
            if cloud_spec.api.calls.is_none() {
                cloud.calls = None;
            }
            cloud.cloud_spec.replace(cloud_spec.clone())
        });
        let is_new = before.is_none();
        self.set_clock(
            now,
            id,
            before.map(|before| before.clock),
            previous,
            &cloud_spec.clock,
        );
        if is_new {
            self.begin_billing(now, id, cost);
        } else {
            self.reprice(now, id);
        }
        Outcome::Accepted
    }

    /// Creates a resource that a caller asks for, unless it is there already.
    fn create_new(
        &mut self,
        now: SimTime,
        caller: &str,
        spec: &ResourceSpec,
        events: &mut Vec<Event>,
    ) -> Result<Outcome, CloudError> {
        let is_there = self.resources.contains_key(&spec.id);
        if !is_there {
            self.faults.show(&spec.id);
        }
        let outcome = self.create(now, caller, spec, None, now, &BTreeMap::new())?;
        if !is_there {
            self.note_creation(now, &spec.id);
        }
        if outcome == Outcome::Accepted {
            events.extend(self.affect(now, &spec.id, false));
        }
        Ok(outcome)
    }

    pub(crate) fn create(
        &mut self,
        now: SimTime,
        creator: &str,
        spec: &ResourceSpec,
        known: Option<&Hardware>,
        created: SimTime,
        reached: &BTreeMap<StageName, SimTime>,
    ) -> Result<Outcome, CloudError> {
        if let Some(existing) = self.resources.get_mut(&spec.id) {
            let before = existing.footprint();
            let outcome = ensure(existing, spec)?;
            let after = existing.footprint();
            if after != before {
                self.take(now, &spec.id, &after);
                self.give_back(now, &spec.id, &before);
            }
            return Ok(outcome);
        }
        let made = || {
            self.clouds
                .hardware(&spec.cloud_id(), &spec.model())
                .unwrap_or_default()
        };
        let hardware = known.cloned().unwrap_or_else(made);
        let environment = self.clouds.environment_of(spec);
        let mut resource = Resource::new(spec.clone(), hardware, created, reached, environment);
        creator.clone_into(&mut resource.creator);
        self.insert(now, resource);
        Ok(Outcome::Accepted)
    }

    /// Notes when the creation of a resource was accepted.
    fn note_creation(&mut self, now: SimTime, id: &ResourceId) {
        let Self {
            resources, clouds, ..
        } = self;
        if let Some(resource) = resources.get_mut(id) {
            let environment = clouds.environment_of(&resource.spec);
            resource.accepted = Some(environment.time(now));
        }
    }

    fn retry(&mut self, now: SimTime, id: &ResourceId, stage: &StageName) -> Result<Outcome, CloudError> {
        let Self {
            resources, clouds, ..
        } = self;
        let resource = resources
            .get_mut(id)
            .ok_or_else(|| CloudError::NotFound(id.clone()))?;
        resource.refuse_deleting()?;
        let before = resource.next_deadline();
        let environment = clouds.environment_of(&resource.spec);
        match resource.retry(now, stage, environment) {
            None => Err(CloudError::InvalidStage(id.clone())),
            Some(false) => Ok(Outcome::AlreadyDone),
            Some(true) => {
                reschedule(&mut self.deadlines, before, resource);
                Ok(Outcome::Accepted)
            }
        }
    }

    fn update(&mut self, now: SimTime, id: &ResourceId, update: &UpdateSpec) -> Result<Outcome, CloudError> {
        let Self {
            resources, clouds, ..
        } = self;
        let resource = resources
            .get_mut(id)
            .ok_or_else(|| CloudError::NotFound(id.clone()))?;
        resource.refuse_deleting()?;
        let before = resource.next_deadline();
        let environment = clouds.environment_of(&resource.spec);
        if !resource.begin_update(now, update, environment) {
            return Ok(Outcome::AlreadyDone);
        }
        reschedule(&mut self.deadlines, before, resource);
        Ok(Outcome::Accepted)
    }

    /// Restores a resource of an earlier state. No resource with this name exists.
    pub(crate) fn bring_back(&mut self, resource: Resource) {
        for (stage, state) in resource.stages() {
            if matches!(state, StageState::Reached { .. }) {
                self.resource_counts.reach(stage);
            }
        }
        self.insert(SimTime::default(), resource);
    }

    pub(crate) fn reserve(&mut self, now: SimTime, id: &ResourceId, footprint: &Footprint) -> Outcome {
        if self.resources.contains_key(id) || self.reserved.contains_key(id) {
            return Outcome::AlreadyDone;
        }
        self.waiting.leave(id);
        self.take(now, id, footprint);
        self.reserved
            .insert(id.clone(), Reservation::new(footprint.clone()));
        Outcome::Accepted
    }

    /// Releases the room that is reserved for a resource. Returns whether there was a reservation.
    fn give_up(&mut self, now: SimTime, id: &ResourceId) -> bool {
        let Some(reservation) = self.reserved.remove(id) else {
            return false;
        };
        self.give_back(now, id, &reservation.footprint);
        true
    }

    /// Counts what a resource takes up and costs.
    pub(crate) fn take(&mut self, now: SimTime, id: &ResourceId, footprint: &Footprint) {
        self.usage.take(id, footprint);
        self.charge(now, id, footprint);
    }

    /// Releases what a resource took up.
    pub(crate) fn give_back(&mut self, now: SimTime, id: &ResourceId, footprint: &Footprint) {
        self.usage.give_back(id, footprint);
        self.discharge(now, id, footprint);
    }

    fn delete(&mut self, now: SimTime, id: &ResourceId, events: &mut Vec<Event>) -> Outcome {
        if self.clouds.is_put(id) {
            // Afterwards no caller could ask for their deletion.
            let leaked: Vec<_> = self.leaked(id).cloned().collect();
            events.extend(self.delete_leaked(now, &leaked));
            self.forget_clock(now, id);
            self.clouds.change(id, |cloud| {
                cloud.cloud_spec = None;
                cloud.calls = None;
                cloud.caller_mistakes.clear();
            });
            self.begin_billing(now, id, None);
            return Outcome::Accepted;
        }
        if let Some(FaultState { affected_ids, .. }) = self.faults.remove(id) {
            events.extend(self.clear(now, &id.name, &affected_ids));
            let leaked: Vec<_> = self.leaked_by(id).cloned().collect();
            events.extend(self.delete_leaked(now, &leaked));
            return Outcome::Accepted;
        }
        let Some(resource) = self.resources.get(id) else {
            // A replay has to forget the same.
            let was_known = self.faults.forget(id);
            let waited = self.waiting.leave(id).is_some();
            let was_reserved = self.give_up(now, id);
            let changes = was_known || waited || was_reserved;
            return if changes {
                Outcome::Accepted
            } else {
                Outcome::AlreadyDone
            };
        };
        if resource.deleting.is_some() {
            return Outcome::AlreadyDone;
        }
        let ran = resource.running_stages();
        self.begin_deletion(now, id, false);
        events.extend(self.tell_load_balancers(now, id, EventKind::BackendOutOfService, &ran));
        Outcome::Accepted
    }

    /// Begins the deletion of a resource that exists, or continues one that an earlier process began.
    pub(crate) fn begin_deletion(&mut self, since: SimTime, id: &ResourceId, is_adopted: bool) {
        let Self {
            resources,
            clouds,
            deadlines,
            ..
        } = self;
        let Some(resource) = resources.get_mut(id) else {
            return;
        };
        let before = resource.next_deadline();
        let environment = clouds.environment_of(&resource.spec);
        resource.begin_deletion(since, is_adopted, environment);
        reschedule(deadlines, before, resource);
    }

    fn insert(&mut self, now: SimTime, resource: Resource) {
        reschedule(&mut self.deadlines, None, &resource);
        self.take(now, &resource.spec.id, &resource.footprint());
        self.give_up(now, &resource.spec.id);
        self.waiting.leave(&resource.spec.id);
        self.resource_counts.add(resource.spec.id.kind);
        self.resources.insert(resource.spec.id.clone(), resource);
    }

    /// Records an event.
    fn note(&mut self, event: Event) {
        self.resource_counts.count(&event);
        self.journal.push(Record::Event(event));
    }

    /// Lets happen what is due at `at` for one resource. Its entry in the deadlines has already been removed.
    fn advance(&mut self, deadline: Deadline, id: &ResourceId) -> Vec<Event> {
        let at = deadline.0;
        let resource = self
            .resources
            .get_mut(id)
            .expect("a deadline is removed with its resource");
        if resource.deleting.is_none() {
            let mut events = resource.end_due_stages(deadline, self.clouds.environment_of(&resource.spec));
            events.extend(resource.end_due_update(deadline));
            let over = resource.end_due_notices(deadline);
            reschedule(&mut self.deadlines, None, resource);
            let reached = |event: &Event| match &event.kind {
                EventKind::StageReached(stage) => Some(stage.clone()),
                _ => None,
            };
            let reached: BTreeSet<_> = events.iter().filter_map(reached).collect();
            let serving: Vec<_> = reached.iter().filter(|_| !resource.is_down()).cloned().collect();
            events.extend(self.tell_load_balancers(at, id, EventKind::BackendInService, &serving));
            for fault in over {
                events.extend(self.end_notice(at, id, &fault));
            }
            events.extend(self.affect_after(at, id, &reached));
            return events;
        }
        let generation = resource.generation + 1;
        let accepted = resource.deleting.as_ref().and_then(|deletion| deletion.accepted);
        let took = accepted.map(|accepted| Took {
            time: deadline.1.since(accepted),
            is_all: true,
        });
        let footprint = resource.footprint();
        self.take_out(id);
        self.give_back(at, id, &footprint);
        let event = Event::new(at, id.clone(), generation, EventKind::Deleted);
        vec![Event { took, ..event }]
    }

    /// Removes a resource. The room that it takes up stays taken.
    pub(crate) fn take_out(&mut self, id: &ResourceId) -> Option<Resource> {
        let resource = self.resources.remove(id)?;
        if let Some(deadline) = resource.next_deadline() {
            self.deadlines.remove(&(deadline, id.clone()));
        }
        self.resource_counts.remove(&resource);
        self.faults.forget(id);
        self.forget_backend(id);
        Some(resource)
    }
}

/// The operation of a request and the resource that it concerns. None if no faults apply to the request, or if it
/// neither changes something nor reads something that exists: callers repeat their requests, and a repetition that does
/// nothing must not use up the budget of a fault.
fn subject<'a>(
    resources: &'a BTreeMap<ResourceId, Resource>,
    request: &'a Request,
) -> Option<(Verb, &'a ResourceSpec)> {
    use ResourceKind::{Instance, LoadBalancer};
    let known = resources.get(request.target());
    let running = known.filter(|known| known.deleting.is_none());
    let backend = |name: &str| {
        let ResourceId {
            namespace, cluster, ..
        } = request.target();
        Some(
            &resources
                .get(&ResourceId::instance(namespace, cluster, name))?
                .spec,
        )
    };
    match (request, request.target().kind) {
        (Request::Create(spec), Instance) if known.is_none() => Some((Verb::CreateInstance, spec)),
        (Request::Create(spec), LoadBalancer) if known.is_none() => Some((Verb::CreateLoadBalancer, spec)),
        (Request::Describe(_), Instance) => Some((Verb::DescribeInstance, &known?.spec)),
        (Request::Describe(_), LoadBalancer) => Some((Verb::DescribeLoadBalancer, &known?.spec)),
        (Request::Delete(_), Instance) => Some((Verb::DeleteInstance, &running?.spec)),
        (Request::Delete(_), LoadBalancer) => Some((Verb::DeleteLoadBalancer, &running?.spec)),
        (Request::Update(_, update), Instance) => {
            let running = running?;
            let is_new = running
                .update
                .as_ref()
                .is_none_or(|known| known.name != update.name);
            is_new.then_some((Verb::UpdateInstance, &running.spec))
        }
        (
            Request::RegisterBackend {
                instance,
                in_service_from,
                ..
            },
            _,
        ) => {
            let is_new = running?.backends.get(instance) != Some(in_service_from);
            is_new.then_some((Verb::RegisterBackend, backend(instance)?))
        }
        (Request::DeregisterBackend { instance, .. }, _) => known?
            .backends
            .contains_key(instance)
            .then_some((Verb::DeregisterBackend, backend(instance)?)),
        _ => None,
    }
}

/// The first load balancer of a cluster.
pub(crate) fn load_balancer_of<'a>(
    resources: &'a BTreeMap<ResourceId, Resource>,
    namespace: &str,
    cluster: &str,
) -> Option<&'a Resource> {
    let first = ResourceId::first(namespace, cluster, ResourceKind::LoadBalancer);
    let (id, found) = resources.range(first..).next()?;
    (id.namespace == namespace && id.cluster == cluster && id.kind == ResourceKind::LoadBalancer)
        .then_some(found)
}

/// Answers a creation of a resource that exists. Its zone, endpoint, stages, and the region of an instance and the cloud
/// and model that it is made from cannot be changed. Its labels, its owner, its deletion latency, and the cloud and the
/// region of a load balancer can.
fn ensure(existing: &mut Resource, spec: &ResourceSpec) -> Result<Outcome, CloudError> {
    existing.refuse_deleting()?;
    if existing.spec == *spec {
        return Ok(Outcome::AlreadyDone);
    }
    let ResourceSpec {
        zone,
        stages,
        endpoint,
        market,
        ..
    } = &existing.spec;
    let made_from = |spec: &ResourceSpec| {
        (spec.id.kind == ResourceKind::Instance).then(|| (spec.region.clone(), spec.cloud_id(), spec.model()))
    };
    let stays = (zone, stages, endpoint, market) == (&spec.zone, &spec.stages, &spec.endpoint, &spec.market);
    if !stays || made_from(&existing.spec) != made_from(spec) {
        return Err(CloudError::Conflict(spec.id.clone()));
    }
    existing.spec = spec.clone();
    existing.generation += 1;
    Ok(Outcome::Accepted)
}

/// Replaces the deadline of a resource.
pub(crate) fn reschedule(
    deadlines: &mut BTreeSet<(Deadline, ResourceId)>,
    before: Option<Deadline>,
    resource: &Resource,
) {
    let id = &resource.spec.id;
    if let Some(before) = before {
        deadlines.remove(&(before, id.clone()));
    }
    if let Some(deadline) = resource.next_deadline() {
        deadlines.insert((deadline, id.clone()));
    }
}
