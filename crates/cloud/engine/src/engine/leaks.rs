//! What leaks, and what becomes of it.

use std::time::Duration;

use nephele_model::{ClusterId, ResourceId, ResourceKind, SimTime, count_step};

use super::Engine;
use crate::{
    event::{Event, EventKind},
    leak::Leaked,
    resource::Resource,
};

impl Engine {
    /// The leaked instances and load balancers of a cloud, by name and by when they leaked.
    pub fn leaked<'a>(&'a self, cloud_spec: &'a ResourceId) -> impl Iterator<Item = &'a Leaked> {
        self.leaked_of_namespace(&cloud_spec.namespace)
            .filter(|leaked| leaked.cloud_id() == *cloud_spec)
    }

    /// The leaked instances of a cluster.
    pub fn leaked_of_cluster<'a>(&'a self, cluster: &'a ClusterId) -> impl Iterator<Item = &'a Leaked> {
        let is_of_cluster =
            |leaked: &&Leaked| leaked.id.cluster == cluster.name && leaked.id.kind == ResourceKind::Instance;
        self.leaked_of_namespace(&cluster.namespace).filter(is_of_cluster)
    }

    /// The leaked instances and load balancers that a fault made leak and that are of no cloud of its namespace. Only the end
    /// of the fault deletes them.
    pub fn leaked_by<'a>(&'a self, fault: &'a ResourceId) -> impl Iterator<Item = &'a Leaked> {
        let of_namespace = self.leaked_of_namespace(&fault.namespace);
        of_namespace.filter(|leaked| leaked.fault == fault.name && !self.clouds.is_put(&leaked.cloud_id()))
    }

    /// All leaked instances and load balancers.
    pub fn all_leaked(&self) -> impl Iterator<Item = &Leaked> {
        self.leaks.values().inspect(|_| count_step())
    }

    fn leaked_of_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Leaked> {
        let first = (
            ResourceId::first(namespace, "", ResourceKind::Instance),
            SimTime::default(),
        );
        let leaks = self.leaks.range(first..).map(|(_, leaked)| leaked);
        leaks
            .inspect(|_| count_step())
            .take_while(move |leaked| leaked.id.namespace == namespace)
    }

    /// Whether one more resource of this kind of a cloud can leak.
    pub(crate) fn can_leak(&self, cloud_spec: &ResourceId, kind: ResourceKind) -> bool {
        self.leaked(cloud_spec)
            .filter(|leaked| leaked.id.kind == kind)
            .count()
            < Leaked::MAX
    }

    /// Lets an instance or a load balancer leak that exists. For its owner it is gone at once.
    pub(crate) fn leak(&mut self, now: SimTime, id: &ResourceId, fault: &str, events: &mut Vec<Event>) {
        let Some(resource) = self.take_from_owner(now, id, events) else {
            return;
        };
        let leaked = self.new_leak(now, &resource, fault, resource.spec.addresses.clone());
        let kinds = [leaked.event(false, false), EventKind::Deleted];
        for (kind, after) in kinds.into_iter().zip(1..) {
            let generation = resource.generation + after;
            events.push(Event::new(now, id.clone(), generation, kind));
        }
        self.leaks.insert((leaked.id.clone(), leaked.since), leaked);
    }

    /// Lets an instance leak that exists, because another one takes its name. That one has the addresses that the owner
    /// knows; those of the first one are not known.
    pub(crate) fn leak_replaced(
        &mut self,
        now: SimTime,
        id: &ResourceId,
        fault: &str,
        events: &mut Vec<Event>,
    ) {
        let Some(resource) = self.take_from_owner(now, id, events) else {
            return;
        };
        let leaked = self.new_leak(now, &resource, fault, Vec::new());
        let generation = resource.generation + 1;
        let kind = leaked.event(false, true);
        events.push(Event::new(now, id.clone(), generation, kind));
        self.leaks.insert((leaked.id.clone(), leaked.since), leaked);
    }

    /// Removes a resource, whose room stays taken.
    fn take_from_owner(
        &mut self,
        now: SimTime,
        id: &ResourceId,
        events: &mut Vec<Event>,
    ) -> Option<Resource> {
        let ran = self.resources.get(id)?.running_stages();
        events.extend(self.tell_load_balancers(now, id, EventKind::BackendOutOfService, &ran));
        self.take_out(id)
    }

    fn new_leak(&self, now: SimTime, resource: &Resource, fault: &str, addresses: Vec<String>) -> Leaked {
        let id = resource.spec.id.clone();
        let mut since = now;
        while self.leaks.contains_key(&(id.clone(), since)) {
            since = since + Duration::from_millis(1);
        }
        let fault = fault.to_owned();
        let endpoint = resource.spec.endpoint.clone();
        Leaked {
            id,
            since,
            fault,
            addresses,
            endpoint,
            footprint: resource.footprint(),
        }
    }

    /// Takes over what leaked in an earlier process. They take up their room, whatever the limits are. Returns the
    /// events.
    pub(crate) fn adopt_leaked(&mut self, now: SimTime, leaked: &[Leaked]) -> Vec<Event> {
        let mut events = Vec::new();
        for leaked in leaked {
            let key = (leaked.id.clone(), leaked.since);
            if matches!(
                leaked.id.kind,
                ResourceKind::Instance | ResourceKind::LoadBalancer
            ) && !self.leaks.contains_key(&key)
                && self.can_leak(&leaked.cloud_id(), leaked.id.kind)
            {
                self.take(now, &leaked.id, &leaked.footprint);
                self.leaks.insert(key, leaked.clone());
                events.push(leaked.changed(now, leaked.event(true, false)));
            }
        }
        events
    }

    /// Deletes what leaked, and returns the events.
    pub(crate) fn delete_leaked(&mut self, now: SimTime, leaked: &[Leaked]) -> Vec<Event> {
        let mut events = Vec::new();
        for Leaked { id, since, .. } in leaked {
            let Some(leaked) = self.leaks.remove(&(id.clone(), *since)) else {
                continue;
            };
            self.give_back(now, id, &leaked.footprint);
            events.push(leaked.changed(now, EventKind::LeakedDeleted { since: *since }));
        }
        events
    }
}
