//! Which instances a load balancer sends requests to.
//!
//! Callers register an instance with a load balancer as its backend. The backend is in service from when the instance
//! reaches a given stage until its deletion begins, as if the load balancer checked its health. Which backends are in
//! service follows from the registered backends and the stages of the instances, so the engine does not store it a
//! second time. The journal records each change.

use nephele_model::{CloudError, ResourceId, ResourceKind, SimTime, StageName};

use super::Engine;
use crate::{
    event::{Event, EventKind},
    outcome::Outcome,
    resource::Resource,
};

impl Engine {
    /// The names of the backends of a load balancer that are in service, in order. Empty if the load balancer does not
    /// exist or is being deleted.
    pub fn in_service<'a>(&'a self, load_balancer: &ResourceId) -> impl Iterator<Item = &'a str> + use<'a> {
        let found = self.get(load_balancer).filter(|found| found.deleting.is_none());
        let backends = found.into_iter().flat_map(|found| {
            let ResourceId {
                namespace, cluster, ..
            } = &found.spec.id;
            found
                .backends
                .iter()
                .map(move |(name, stage)| (namespace, cluster, name, stage))
        });
        backends.filter_map(move |(namespace, cluster, name, stage)| {
            let instance = self.get(&ResourceId::instance(namespace, cluster, name))?;
            instance.runs(stage).then_some(name.as_str())
        })
    }

    /// Whether the backends of a resource are valid: only a load balancer has backends, and each is an existing
    /// instance.
    pub(crate) fn has_backends_of(&self, resource: &Resource) -> bool {
        let ResourceId {
            namespace,
            cluster,
            kind,
            ..
        } = &resource.spec.id;
        let is_there = |name| {
            self.resources
                .contains_key(&ResourceId::instance(namespace, cluster, name))
        };
        resource.backends.is_empty()
            || (*kind == ResourceKind::LoadBalancer && resource.backends.keys().all(|name| is_there(name)))
    }

    pub(crate) fn register(
        &mut self,
        now: SimTime,
        load_balancer: &ResourceId,
        name: &str,
        stage: &StageName,
        events: &mut Vec<Event>,
    ) -> Result<Outcome, CloudError> {
        let id = ResourceId::instance(&load_balancer.namespace, &load_balancer.cluster, name);
        let known = self.present(load_balancer)?.backends.get(name);
        let instance = self.present(&id)?;
        if instance.stage(stage).is_none() {
            return Err(CloudError::InvalidStage(id));
        }
        if known == Some(stage) {
            return Ok(Outcome::AlreadyDone);
        }
        self.lead(now, load_balancer, name, stage, events);
        Ok(Outcome::Accepted)
    }

    /// Lets a load balancer lead to an instance from when the instance reaches a stage. Neither has to be there.
    pub(crate) fn lead(
        &mut self,
        now: SimTime,
        load_balancer: &ResourceId,
        name: &str,
        stage: &StageName,
        events: &mut Vec<Event>,
    ) {
        let id = ResourceId::instance(&load_balancer.namespace, &load_balancer.cluster, name);
        let Some(instance) = self.get(&id).filter(|instance| instance.stage(stage).is_some()) else {
            return;
        };
        let runs = instance.runs(stage);
        let Some(known) = self.get(load_balancer) else {
            return;
        };
        let ran = known.backends.get(name).is_some_and(|known| instance.runs(known));
        let is_told = known.deleting.is_none() && ran != runs;
        let found = self.resources.get_mut(load_balancer).expect("it was found above");
        found.backends.insert(name.to_owned(), stage.clone());
        if is_told {
            let kind = if runs {
                EventKind::BackendInService
            } else {
                EventKind::BackendOutOfService
            };
            events.push(told(now, found, kind(name.to_owned())));
        } else {
            found.generation += 1;
        }
    }

    /// A resource that is not being deleted.
    fn present(&self, id: &ResourceId) -> Result<&Resource, CloudError> {
        let found = self.get(id).ok_or_else(|| CloudError::NotFound(id.clone()))?;
        found.refuse_deleting()?;
        Ok(found)
    }

    pub(crate) fn deregister(
        &mut self,
        now: SimTime,
        load_balancer: &ResourceId,
        name: &str,
        events: &mut Vec<Event>,
    ) -> Outcome {
        if let Some(expected) = self.reserved.get_mut(load_balancer) {
            let was_known = expected.backends.remove(name).is_some();
            return if was_known {
                Outcome::Accepted
            } else {
                Outcome::AlreadyDone
            };
        }
        let Some(known) = self.get(load_balancer) else {
            return Outcome::AlreadyDone;
        };
        let Some(stage) = known.backends.get(name) else {
            return Outcome::AlreadyDone;
        };
        let id = ResourceId::instance(&load_balancer.namespace, &load_balancer.cluster, name);
        let was_in_service =
            known.deleting.is_none() && self.get(&id).is_some_and(|instance| instance.runs(stage));
        let found = self.resources.get_mut(load_balancer).expect("it was found above");
        found.backends.remove(name);
        if was_in_service {
            events.push(told(now, found, EventKind::BackendOutOfService(name.to_owned())));
        } else {
            found.generation += 1;
        }
        Outcome::Accepted
    }

    /// Records a change of service, of this kind, for each load balancer that has the instance as a backend from one of
    /// these stages on. Returns the events.
    pub(crate) fn tell_load_balancers(
        &mut self,
        at: SimTime,
        id: &ResourceId,
        kind: fn(String) -> EventKind,
        stages: &[StageName],
    ) -> Vec<Event> {
        let mut events = Vec::new();
        if id.kind != ResourceKind::Instance || stages.is_empty() {
            return events;
        }
        for load_balancer in self.load_balancers_beside(id) {
            let leads = load_balancer
                .backends
                .get(&id.name)
                .is_some_and(|stage| stages.contains(stage));
            if leads && load_balancer.deleting.is_none() {
                events.push(told(at, load_balancer, kind(id.name.clone())));
            }
        }
        events
    }

    /// Removes an instance that no longer exists from the backends of all load balancers.
    pub(crate) fn forget_backend(&mut self, id: &ResourceId) {
        if id.kind == ResourceKind::Instance {
            for load_balancer in self.load_balancers_beside(id) {
                load_balancer.backends.remove(&id.name);
            }
        }
    }

    /// The load balancers in the cluster of a resource.
    fn load_balancers_beside(&mut self, id: &ResourceId) -> impl Iterator<Item = &mut Resource> {
        let first = ResourceId::first(&id.namespace, &id.cluster, ResourceKind::LoadBalancer);
        let beside = self.resources.range_mut(first..).map(|(_, resource)| resource);
        beside.take_while(|found| {
            let ResourceId {
                namespace,
                cluster,
                kind,
                ..
            } = &found.spec.id;
            (namespace, cluster, *kind) == (&id.namespace, &id.cluster, ResourceKind::LoadBalancer)
        })
    }
}

/// An event of a load balancer. It increments the generation of the load balancer.
fn told(at: SimTime, load_balancer: &mut Resource, kind: EventKind) -> Event {
    load_balancer.generation += 1;
    Event::new(at, load_balancer.spec.id.clone(), load_balancer.generation, kind)
}
