//! What faults do to resources.
//!
//! ```text
//!   PutFault ──▶ all resources of the namespace, by set and number ─┐
//!   Create, Adopt ──▶ the resource                                ├─▶ decided once: hit, or spared
//!   it reaches a stage for which the fault has waited ────────────┤
//!                                                                 ▼
//!                                          hit: Afflicted ─▶ stages wait, backends are out of service
//!   DeleteFault, FaultEnded, or it no longer matches: healed ◀────┤
//!                       a notice that is over: something else ◀────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};

use nephele_model::{
    ClusterId, Decided, FaultRecord, Matches, ResourceId, ResourceKind, SimTime, StageName, count_step,
};

use super::{Engine, load_balancer_of, reschedule};
use crate::{
    active_effect::{ActiveEffect, NoticeEnd},
    clock::CloudTime,
    environment::Environment,
    event::{Event, EventKind},
    fault::{Fault, FaultState, Subject},
    faults::KnownBefore,
    resource::{Due, Resource, StageState},
};

/// How many names of instances are looked up in each cluster. Where a fault has more, it costs less to look at all.
const NAMES_MAX: usize = 10;

impl Engine {
    /// Sets a fault, and what it does to resources from now on. Returns what happens to them; none if nothing changes.
    pub(super) fn put_fault(
        &mut self,
        now: SimTime,
        id: &ResourceId,
        fault: &Fault,
        record: &FaultRecord,
        known: KnownBefore<'_>,
        paused: bool,
    ) -> Option<Vec<Event>> {
        let record = FaultRecord {
            began: record.began.min(now),
            ..*record
        };
        let affected_some = self
            .faults
            .get(id)
            .is_some_and(|state| state.active_effect().is_some());
        let cleared = self.faults.put(now, id, fault, record, known);
        if !self.faults.set_paused(id, paused) && cleared.is_none() {
            return None;
        }
        let mut events = self.clear(now, &id.name, &cleared.unwrap_or_default());
        // A fault that is new or changes decides about all resources of its namespace.
        if affected_some || fault.effect.active_effect().is_some() {
            events.extend(self.affect_all(now, id));
        }
        Some(events)
    }

    /// Lets the faults of its namespace decide about a resource that is new or was changed. An adopted resource existed
    /// before, so most faults have decided about it before.
    pub(crate) fn affect(&mut self, at: SimTime, id: &ResourceId, is_adopted: bool) -> Vec<Event> {
        // Almost every cloud has no faults at almost every time.
        if self.faults.is_empty() {
            return Vec::new();
        }
        let mut resources = vec![id.clone()];
        if id.kind == ResourceKind::LoadBalancer {
            // It has the labels of its cluster.
            let cluster = ClusterId {
                namespace: id.namespace.clone(),
                name: id.cluster.clone(),
            };
            resources.extend(
                in_order(self.cluster(&cluster))
                    .into_iter()
                    .filter(|other| other != id),
            );
        }
        // One fault after the other, and each about the resources in order.
        let mut asked = BTreeSet::new();
        for (position, id) in resources.iter().enumerate() {
            let Some(resource) = self.get(id) else { continue };
            let cluster = load_balancer_of(&self.resources, &id.namespace, &id.cluster);
            let subject = Subject {
                spec: &resource.spec,
                cluster: cluster.map(|found| &found.spec.labels),
            };
            asked.extend(
                self.faults
                    .deciding(&subject)
                    .into_iter()
                    .map(|fault| (fault, position)),
            );
        }
        let mut events = Vec::new();
        for (fault, position) in asked {
            let fault = ResourceId::fault(id.namespace.as_str(), &*fault);
            events.extend(self.decide(at, &fault, &resources[position], is_adopted));
        }
        events
    }

    /// Lets the faults decide about a resource that have waited for it to reach one of these stages.
    pub(crate) fn affect_after(
        &mut self,
        at: SimTime,
        id: &ResourceId,
        stages: &BTreeSet<StageName>,
    ) -> Vec<Event> {
        let Some(resource) = self
            .get(id)
            .filter(|_| !stages.is_empty() && !self.faults.is_empty())
        else {
            return Vec::new();
        };
        let cluster = load_balancer_of(&self.resources, &id.namespace, &id.cluster);
        let subject = Subject {
            spec: &resource.spec,
            cluster: cluster.map(|found| &found.spec.labels),
        };
        let has_waited = |fault: &ResourceId| {
            let active_effect = self.faults.get(fault).and_then(FaultState::active_effect);
            active_effect
                .and_then(|active_effect| active_effect.after.as_ref())
                .is_some_and(|after| stages.contains(after))
        };
        let deciding = self.faults.deciding(&subject);
        let faults = deciding
            .iter()
            .map(|name| ResourceId::fault(id.namespace.as_str(), &**name));
        let faults: Vec<_> = faults.filter(has_waited).collect();
        faults
            .iter()
            .flat_map(|fault| self.decide(at, fault, id, false))
            .collect()
    }

    /// Lets a fault that is new or was changed decide about all resources of its namespace.
    pub(crate) fn affect_all(&mut self, at: SimTime, fault: &ResourceId) -> Vec<Event> {
        let Some(state) = self.faults.get(fault) else {
            return Vec::new();
        };
        // Some of them it may not match any more.
        let known = state.known().filter_map(|id| self.resources.get_key_value(id));
        let resources: BTreeMap<_, _> = known.chain(self.matched(state)).collect();
        let mut events = Vec::new();
        for id in in_order(resources.values().copied()) {
            events.extend(self.decide(at, fault, &id, false));
        }
        events
    }

    /// The resources of its namespace that a fault matches and that can have its active effect.
    ///
    /// Looks at the clusters of the namespace, and at nothing in a cluster whose labels do not fit; where the fault names few
    /// instances, at nothing else than these. Other fields are compared for each resource: an index for each of them would have
    /// to be kept for every resource, and Faults are put seldom.
    fn matched<'a>(&'a self, state: &'a FaultState) -> Vec<(&'a ResourceId, &'a Resource)> {
        let Some(kind) = state.active_effect().map(|active_effect| active_effect.of) else {
            return Vec::new();
        };
        let namespace = &state.id.namespace;
        let Matches {
            names,
            cluster: selector,
            ..
        } = &state.fault.matches;
        let names_few = kind == ResourceKind::Instance && (1..=NAMES_MAX).contains(&names.len());
        let mut matched = Vec::new();
        for (cluster, labels) in self.clusters(namespace) {
            if !selector.fits(labels.unwrap_or(&BTreeMap::new())) {
                continue;
            }
            let fits = |(_, resource): &(_, &Resource)| {
                state.can_affect(&Subject {
                    spec: &resource.spec,
                    cluster: labels,
                })
            };
            if names_few {
                let ids = names
                    .iter()
                    .map(|name| ResourceId::instance(namespace, cluster, name));
                matched.extend(
                    ids.filter_map(|id| self.resources.get_key_value(&id))
                        .filter(fits),
                );
            } else {
                let first = ResourceId::first(namespace, cluster, kind);
                let all = self.resources.range(first..).inspect(|_| count_step());
                let is_here =
                    |id: &ResourceId| id.namespace == *namespace && id.cluster == cluster && id.kind == kind;
                matched.extend(all.take_while(|(id, _)| is_here(id)).filter(fits));
            }
        }
        matched
    }

    /// The clusters of a namespace that have resources, in order, each with the labels of its load balancer.
    fn clusters<'a>(
        &'a self,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a str, Option<&'a BTreeMap<String, String>>)> + 'a {
        let from = move |cluster: &str| {
            let first = ResourceId::first(namespace, cluster, ResourceKind::Instance);
            let (id, _) = self.resources.range(first..).next()?;
            (id.namespace == namespace).then_some(id.cluster.as_str())
        };
        // The next name after that of a cluster.
        let clusters = std::iter::successors(from(""), move |cluster| from(&format!("{cluster}\0")));
        clusters.map(move |cluster| {
            let found = load_balancer_of(&self.resources, namespace, cluster);
            (cluster, found.map(|found| &found.spec.labels))
        })
    }

    /// Heals what a fault has hit that has no effect any more.
    pub(crate) fn clear(
        &mut self,
        at: SimTime,
        fault: &str,
        affected_ids: &BTreeSet<ResourceId>,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        for id in affected_ids {
            events.extend(self.set_active_effect(at, id, fault, None, None));
        }
        events
    }

    /// Lets a fault decide about a resource.
    fn decide(&mut self, at: SimTime, fault: &ResourceId, id: &ResourceId, is_adopted: bool) -> Vec<Event> {
        let Self {
            resources,
            faults,
            clouds,
            ..
        } = &mut *self;
        let Some(resource) = resources.get(id) else {
            return Vec::new();
        };
        // What is being deleted can only be healed.
        let is_listed = |state: &FaultState| state.affected_ids.contains(id);
        if resource.deleting.is_some() && !faults.get(fault).is_some_and(is_listed) {
            return Vec::new();
        }
        let cluster = load_balancer_of(resources, &id.namespace, &id.cluster).map(|found| &found.spec.labels);
        let subject = Subject {
            spec: &resource.spec,
            cluster,
        };
        let environment = clouds.environment_of(subject.spec);
        let is_untimely = faults
            .get(fault)
            .is_some_and(|state| state.is_untimely_for(resource, is_adopted));
        let decided = if is_untimely {
            // It is decided about when its time comes, whatever an earlier specification has said.
            faults.forget_in(fault, id);
            Decided::PassedOver
        } else {
            faults.decide(fault, &subject, at, is_adopted, environment.seed)
        };
        if decided == Decided::HitBefore
            && let Some(ends) = faults
                .get(fault)
                .and_then(|state| state.previous_notice_end(resource, at, environment))
        {
            faults.keep_notice(fault, id, ends);
        }
        let state = faults.get(fault);
        let active_effect = state
            .filter(|_| decided != Decided::PassedOver)
            .and_then(FaultState::active_effect);
        let ends = state.and_then(|state| state.notice_end(id));
        let wanted = active_effect
            .cloned()
            .map(|active_effect| active_effect.at_notice(ends));
        let events = self.set_active_effect(at, id, &fault.name, wanted, ends);
        if ends.is_none() {
            self.keep_notice(fault, id);
        }
        events
    }

    /// Lets the fault remember when its notice to a resource is over.
    fn keep_notice(&mut self, fault: &ResourceId, id: &ResourceId) {
        let due = self
            .get(id)
            .and_then(|resource| resource.notices.get(&fault.name))
            .copied();
        if let Some(ends) = due.and_then(Due::time) {
            self.faults.keep_notice(fault, id, ends);
        }
    }

    /// Lets happen what comes after the notice of a fault.
    pub(crate) fn end_notice(&mut self, at: SimTime, id: &ResourceId, fault: &str) -> Vec<Event> {
        let active_effect = self
            .get(id)
            .and_then(|resource| resource.active_effects.get(fault));
        let Some(notice) = active_effect.and_then(|active_effect| active_effect.notice.clone()) else {
            return Vec::new();
        };
        // After a restart it is over at once, also while the clock stands still.
        self.faults
            .keep_notice(&ResourceId::fault(&id.namespace, fault), id, NoticeEnd::OVER);
        self.set_active_effect(at, id, fault, Some(notice.then), None)
    }

    /// Sets what is wrong with a resource because of a fault. `ends` is when a notice is over, if an earlier process gave it.
    fn set_active_effect(
        &mut self,
        at: SimTime,
        id: &ResourceId,
        fault: &str,
        wanted: Option<ActiveEffect>,
        ends: Option<CloudTime>,
    ) -> Vec<Event> {
        let Self {
            resources,
            clouds,
            deadlines,
            ..
        } = &mut *self;
        let Some(resource) = resources.get_mut(id) else {
            return Vec::new();
        };
        let environment = clouds.environment_of(&resource.spec);
        let known = resource.active_effects.get(fault);
        if known == wanted.as_ref() || known.is_some_and(|known| known.is_final) {
            return Vec::new();
        }
        let before = resource.next_deadline();
        let ran = resource.running_stages();
        let held = resource.held_stages();
        // Nothing comes after what is final.
        let changing = wanted.as_ref().filter(|active_effect| !active_effect.is_final);
        match changing.and_then(|active_effect| active_effect.notice.as_ref()) {
            Some(notice) => {
                let new = || environment.end_of_new(at, notice.lasts);
                let (due, ends) = ends.map_or_else(new, |ends| environment.when(ends));
                let due = due.map(|due| due.max(at));
                resource.notices.insert(fault.to_owned(), Due { due, ends });
            }
            None => drop(resource.notices.remove(fault)),
        }
        match &wanted {
            Some(active_effect) => {
                drop(
                    resource
                        .active_effects
                        .insert(fault.to_owned(), active_effect.clone()),
                );
            }
            None => drop(resource.active_effects.remove(fault)),
        }
        resource.resume(at, &held, environment);
        resource.generation += 1;
        let kind = EventKind::BecameAffected {
            fault: fault.to_owned(),
            active_effect: wanted,
        };
        let event = Event::new(at, id.clone(), resource.generation, kind);
        reschedule(deadlines, before, resource);
        let runs = resource.running_stages();
        let mut events = vec![event];
        if runs.is_empty() {
            events.extend(self.tell_load_balancers(at, id, EventKind::BackendOutOfService, &ran));
        } else if ran.is_empty() {
            events.extend(self.tell_load_balancers(at, id, EventKind::BackendInService, &runs));
        }
        events
    }
}

/// Resources ordered by cluster, set and number, so that a fault with a budget hits the same ones in every run. Names of
/// instances are random.
fn in_order<'a>(resources: impl Iterator<Item = &'a Resource>) -> Vec<ResourceId> {
    let mut specs: Vec<_> = resources.map(|resource| &resource.spec).collect();
    specs.sort_by_key(|spec| (&spec.id.cluster, spec.id.kind, &spec.seed_key, &spec.id.name));
    specs.into_iter().map(|spec| spec.id.clone()).collect()
}

impl FaultState {
    /// What is wrong with the resources that it hits. None for a fault of operations.
    #[must_use]
    pub fn active_effect(&self) -> Option<&ActiveEffect> {
        self.fault.effect.active_effect()
    }

    /// When the notice that an earlier process gave to a resource is over, if the specification has not changed since. The
    /// notice began when the fault or its window began, or when the resource was there or had come far enough, whichever
    /// was last.
    fn previous_notice_end(
        &self,
        resource: &Resource,
        at: SimTime,
        environment: Environment<'_>,
    ) -> Option<CloudTime> {
        let active_effect = self.active_effect()?;
        let notice = active_effect.notice.as_ref()?;
        let reached = match active_effect
            .after
            .as_ref()
            .and_then(|stage| resource.stage(stage))
        {
            Some(StageState::Reached { at }) => *at,
            _ => resource.created,
        };
        let hit = self.window_began().max(resource.created).max(reached);
        let ends = environment.time(hit).after(notice.lasts);
        Some(if ends <= environment.time(at) {
            NoticeEnd::OVER
        } else {
            ends
        })
    }

    /// When it began to decide about the resources that were there.
    fn window_began(&self) -> SimTime {
        let FaultRecord { began, windows, .. } = self.decisions.record;
        match self.fault.budget.schedule {
            Some(schedule) => schedule.begin(began, windows),
            None => began,
        }
    }

    /// Whether the resource has come too far for it, or not far enough. It has come too far if the fault only holds stages,
    /// and the resource reached all of them before it was decided about, or if the resource reached the stage before which
    /// it has to be hit. Such a resource does not count: a fault that holds one machine holds the next new one. An earlier
    /// process decided about a resource that is adopted when the resource had not come as far.
    fn is_untimely_for(&self, resource: &Resource, is_adopted: bool) -> bool {
        self.active_effect().is_some_and(|active_effect| {
            let reached: BTreeSet<_> = resource.reached_stages().into_iter().collect();
            let has_reached = |stage: &StageName| reached.contains(stage);
            let has_passed = |stage: &StageName| match resource.stage(stage) {
                Some(StageState::Reached { at }) if is_adopted && self.decisions.recovered() => {
                    let began = self.window_began();
                    *at <= began && resource.created <= began
                }
                state => matches!(state, Some(StageState::Reached { .. })),
            };
            let is_early = active_effect
                .after
                .as_ref()
                .is_some_and(|stage| !has_reached(stage));
            (is_early || active_effect.comes_too_late(has_passed, has_reached))
                && !self.affected_ids.contains(&resource.spec.id)
        })
    }
}
