//! The clouds of namespaces: what each offers, and what happened in it.
//!
//! A cloud is known by its name. Its parts know nothing of each other: what one change means for several of
//! them is a matter of the engine.

use std::{collections::BTreeMap, time::Duration};

use nephele_model::{CallRate, Capacity, CloudError, ResourceId, ResourceKind, SimTime, count_step};

use crate::{
    api_limits::Calls,
    billing::{Billing, Product, price},
    caller_mistakes::{CallerMistakes, MistakesByCaller},
    clock::{Clock, CloudTime},
    cloud_spec::{CloudSpec, Hardware, Model},
    config::Config,
    environment::Environment,
    leak::Leaks,
    seed::Seed,
    spec::ResourceSpec,
};

/// One cloud of a namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct CloudState {
    /// What it offers. None if it was not put: it is the built-in one, or it is gone and still has instances.
    pub(crate) cloud_spec: Option<CloudSpec>,
    /// Its clock. None if it was never changed.
    pub(crate) clock: Option<Clock>,
    /// The calls so far, if it has a rate and was called.
    pub(crate) calls: Option<Calls>,
    pub(crate) billing: Billing,
    /// What was found about its callers. Empty if it was not put.
    pub(crate) caller_mistakes: MistakesByCaller,
    /// What leaked in it. It takes up room as if it were in the engine's `resources`.
    pub(crate) leaks: Leaks,
}

impl CloudState {
    /// Its time at an instant.
    pub(crate) fn time(&self, now: SimTime) -> CloudTime {
        self.clock.map_or_else(|| now.into(), |clock| clock.time(now))
    }

    /// Notes what a caller did.
    pub(crate) fn note(&mut self, caller: &str, found: impl FnOnce(&mut CallerMistakes)) {
        let is_known = self.caller_mistakes.contains_key(caller);
        if self.cloud_spec.is_some() && (is_known || self.caller_mistakes.len() < CallerMistakes::CALLERS_MAX)
        {
            found(self.caller_mistakes.entry(caller.to_owned()).or_default());
        }
    }

    /// Whether it is as if it had never been.
    fn is_nothing(&self) -> bool {
        let Self {
            cloud_spec,
            clock,
            calls,
            billing,
            caller_mistakes,
            leaks,
        } = self;
        cloud_spec.is_none()
            && clock.is_none()
            && calls.is_none()
            && billing.is_empty()
            && caller_mistakes.is_empty()
            && leaks.is_empty()
    }
}

/// All clouds, and what they have in common.
#[derive(Clone, Debug)]
pub(crate) struct Clouds {
    pub(crate) config: Config,
    pub(crate) seed: Seed,
    /// No more than were put, have instances or leaks, or have cost something.
    by_id: BTreeMap<ResourceId, CloudState>,
    put: usize,
}

impl Clouds {
    pub(crate) fn new(config: Config, seed: Seed) -> Self {
        Self {
            config,
            seed,
            by_id: BTreeMap::new(),
            put: 0,
        }
    }

    /// Whether any was put. Only those that were put have rates.
    pub(crate) fn any_put(&self) -> bool {
        self.put > 0
    }

    pub(crate) fn is_put(&self, id: &ResourceId) -> bool {
        self.put(id).is_some()
    }

    /// The spec that was put under this name.
    pub(crate) fn put(&self, id: &ResourceId) -> Option<&CloudSpec> {
        self.get(id)?.cloud_spec.as_ref()
    }

    pub(crate) fn get(&self, id: &ResourceId) -> Option<&CloudState> {
        self.by_id.get(id)
    }

    pub(crate) fn clock(&self, id: &ResourceId) -> Option<&Clock> {
        self.get(id)?.clock.as_ref()
    }

    /// The clouds of a namespace.
    pub(crate) fn of_namespace<'a>(
        &'a self,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a ResourceId, &'a CloudState)> {
        let clouds = self.by_id.range(ResourceId::cloud(namespace, "")..);
        clouds
            .inspect(|_| count_step())
            .take_while(move |(id, _)| id.namespace == namespace)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ResourceId, &CloudState)> {
        self.by_id.iter()
    }

    /// The time of a cloud at an instant.
    pub(crate) fn time(&self, id: &ResourceId, now: SimTime) -> CloudTime {
        self.get(id).map_or_else(|| now.into(), |cloud| cloud.time(now))
    }

    /// Changes a cloud, which is forgotten if nothing is left of it.
    pub(crate) fn change<R>(&mut self, id: &ResourceId, change: impl FnOnce(&mut CloudState) -> R) -> R {
        self.change_priced(id, |cloud, _| change(cloud))
    }

    /// Changes the meter of a cloud. `change` gets the spec that says the prices there.
    pub(crate) fn change_billing(
        &mut self,
        id: &ResourceId,
        change: impl FnOnce(&mut Billing, Option<&CloudSpec>),
    ) {
        self.change_priced(
            id,
            |CloudState {
                 cloud_spec, billing, ..
             },
             built_in| {
                change(billing, cloud_spec.as_ref().or(built_in));
            },
        );
    }

    fn change_priced<R>(
        &mut self,
        id: &ResourceId,
        change: impl FnOnce(&mut CloudState, Option<&CloudSpec>) -> R,
    ) -> R {
        let Self {
            config, by_id, put, ..
        } = self;
        if !by_id.contains_key(id) {
            by_id.insert(id.clone(), CloudState::default());
        }
        let cloud = by_id.get_mut(id).expect("it was added");
        let was_put = cloud.cloud_spec.is_some();
        let changed = change(cloud, is_built_in(id).then_some(&config.cloud_spec));
        *put = *put + usize::from(cloud.cloud_spec.is_some()) - usize::from(was_put);
        if cloud.billing.is_empty() {
            cloud.billing = Billing::default();
        }
        if cloud.is_nothing() {
            by_id.remove(id);
        }
        changed
    }

    /// Counts a call, or returns when to retry.
    pub(crate) fn take_call(&mut self, id: &ResourceId, rate: CallRate, at: SimTime) -> Result<(), Duration> {
        self.change(id, |cloud| cloud.calls.get_or_insert_default().take(rate, at))
    }

    /// The spec of this name: one that was put, or the built-in one.
    pub(crate) fn cloud_spec(&self, id: &ResourceId) -> Option<&CloudSpec> {
        self.put(id)
            .or_else(|| is_built_in(id).then_some(&self.config.cloud_spec))
    }

    /// The hardware of an instance that is made from a model.
    pub(crate) fn hardware(&self, id: &ResourceId, model: &Model) -> Result<Hardware, CloudError> {
        self.cloud_spec(id)
            .ok_or_else(|| CloudError::UnknownCloud(id.name.clone()))?
            .hardware(model)
    }

    /// The price of an instance in millionths for an hour.
    pub(crate) fn price(&self, id: &ResourceId, product: &Product) -> u64 {
        price(self.cloud_spec(id), product)
    }

    /// How much fits into a room. None means any amount.
    pub(crate) fn limit(&self, capacity: &Capacity) -> Option<u32> {
        match capacity {
            Capacity::Zone(zone) => self.config.zones.get(zone)?.instances_max,
            Capacity::Quota { kind, .. } => self.config.quotas.limit(*kind),
            Capacity::CloudQuota { cloud_spec, of } => self.cloud_spec(cloud_spec)?.quotas.limit(*of),
            Capacity::Stock {
                cloud_spec,
                instance_type,
                zone,
            } => self
                .cloud_spec(cloud_spec)?
                .stock(instance_type.as_deref(), zone.as_deref()),
        }
    }

    /// What everything that happens to a resource depends on besides the resource itself, as it is now.
    pub(crate) fn environment_of(&self, spec: &ResourceSpec) -> Environment<'_> {
        let id = spec.cloud_id();
        let cloud_spec = self.cloud_spec(&id);
        // Load balancers take no time.
        let is_clocked = spec.id.kind == ResourceKind::Instance;
        Environment {
            seed: cloud_spec
                .and_then(|cloud_spec| cloud_spec.seed.as_ref())
                .unwrap_or(&self.seed),
            latencies: cloud_spec.map(|cloud_spec| &cloud_spec.latencies),
            clock: self.clock(&id).copied().filter(|_| is_clocked),
        }
    }
}

fn is_built_in(id: &ResourceId) -> bool {
    id.name.is_empty() || id.name == CloudSpec::DEFAULT
}
