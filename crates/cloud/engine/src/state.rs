//! The state of a cloud as a value: for a new reader of its journal, and for a replay.

use std::collections::{BTreeMap, BTreeSet};

use nephele_model::{ResourceId, SimTime, StageName};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    adoption::Reservation,
    api_limits::NamedCalls,
    billing::NamedBilling,
    caller_mistakes::NamedCallerMistakes,
    clock::NamedClock,
    cloud_spec::CloudSpec,
    config::Config,
    engine::Engine,
    fault::FaultState,
    leak::Leaked,
    resource::Resource,
    seed::Seed,
    usage::Footprint,
    wait_queue::{WaitQueues, Waiter},
};

/// The highest number that a state may contain. Counting from here to the overflow takes longer than anybody waits.
const NUMBER_MAX: u64 = u64::MAX / 2;

/// The whole cloud except its journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub config: Config,
    /// The key of its draws.
    pub seed: Seed,
    /// The number of the next record of its journal.
    pub next: u64,
    /// The clouds, ordered by name.
    #[serde(rename = "catalogs")]
    pub cloud_specs: Vec<NamedCloud>,
    /// The resources, ordered by name.
    pub resources: Vec<Resource>,
    /// The reservations, see [`crate::Request::Reserve`], ordered by name.
    pub reserved: Vec<Reserved>,
    /// The resources that wait for room, first come first.
    pub waiting: Vec<Waiter>,
    /// The faults, ordered by name.
    #[serde(default)]
    pub faults: Vec<FaultState>,
    /// The clocks that were changed, ordered by cloud.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<NamedClock>,
    /// The calls of clouds that have a rate, ordered by cloud.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<NamedCalls>,
    /// The leaked instances and load balancers, ordered by name and by when they leaked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaked: Vec<Leaked>,
    /// What was spent, ordered by cloud.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "meters")]
    pub billings: Vec<NamedBilling>,
    /// What was found about callers, ordered by cloud.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "findings")]
    pub caller_mistakes: Vec<NamedCallerMistakes>,
}

/// A cloud with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedCloud {
    pub id: ResourceId,
    #[serde(rename = "catalog")]
    pub cloud_spec: CloudSpec,
}

/// A reservation of room for a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    pub id: ResourceId,
    #[serde(flatten)]
    pub footprint: Footprint,
    /// Of a load balancer: the instances that were adopted before it, each with the stage from which on it is in service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub backends: BTreeMap<String, StageName>,
}

/// Why no cloud can be in a state.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StateError {
    /// The same name is used twice.
    #[error("{0} appears twice")]
    Twice(ResourceId),
    /// A number is larger than any cloud can have counted to.
    #[error("number {0} is too large")]
    Number(u64),
    /// A load balancer has a backend that does not exist, or another kind of resource has a backend.
    #[error("{0} has an invalid backend")]
    Backend(ResourceId),
    /// The stages do not form a graph that can be walked, or their number differs from the recorded progress.
    #[error("the stages of {0} are invalid")]
    Stages(ResourceId),
}

impl Engine {
    /// The state, as input for [`Engine::from_state`]. Copies every resource.
    #[must_use]
    pub fn state(&self) -> State {
        let reserved = self.reserved.iter();
        let reserved = reserved.map(|(id, reservation)| {
            let Reservation { footprint, backends } = reservation.clone();
            Reserved {
                id: id.clone(),
                footprint,
                backends,
            }
        });
        let clouds = || self.clouds.iter();
        State {
            config: self.clouds.config.clone(),
            cloud_specs: clouds()
                .filter_map(|(id, cloud)| Some((id, cloud.cloud_spec.clone()?)))
                .map(|(id, cloud_spec)| NamedCloud {
                    id: id.clone(),
                    cloud_spec,
                })
                .collect(),
            seed: self.clouds.seed.clone(),
            next: self.journal.next(),
            resources: self.resources.values().cloned().collect(),
            reserved: reserved.collect(),
            waiting: self.waiting.to_waiters(),
            faults: self.faults.iter().cloned().collect(),
            leaked: self.leaked_by_name().into_iter().cloned().collect(),
            billings: self.billings(),
            clocks: clouds()
                .filter_map(|(id, cloud)| {
                    Some(NamedClock {
                        id: id.clone(),
                        clock: cloud.clock?,
                    })
                })
                .collect(),
            calls: clouds()
                .filter_map(|(id, cloud)| {
                    Some(NamedCalls {
                        id: id.clone(),
                        calls: cloud.calls?,
                    })
                })
                .collect(),
            caller_mistakes: self
                .all_caller_mistakes()
                .map(|(id, callers)| NamedCallerMistakes {
                    id: id.clone(),
                    callers: callers.clone(),
                })
                .collect(),
        }
    }

    /// A cloud in this state, with a journal that begins here.
    ///
    /// # Errors
    /// When no cloud can be in the state, which may come from a file.
    pub fn from_state(state: State) -> Result<Self, StateError> {
        let State {
            config,
            cloud_specs,
            seed,
            next,
            resources,
            reserved,
            waiting,
            faults,
            clocks,
            calls,
            leaked,
            billings,
            caller_mistakes,
        } = state;
        let counted = resources
            .iter()
            .map(|resource| resource.generation)
            .chain([next])
            .max();
        if let Some(number) = counted.filter(|number| *number > NUMBER_MAX) {
            return Err(StateError::Number(number));
        }
        let mut names = BTreeSet::new();
        let ids = cloud_specs.iter().map(|named| &named.id);
        let ids = ids.chain(resources.iter().map(|resource| &resource.spec.id));
        let ids = ids.chain(reserved.iter().map(|reserved| &reserved.id));
        let ids = ids.chain(faults.iter().map(|fault| &fault.id));
        for id in ids.chain(waiting.iter().map(|waiter| &waiter.id)) {
            if !names.insert(id) {
                return Err(StateError::Twice(id.clone()));
            }
        }
        let mut engine = Self::starting_at(config, seed, next);
        for resource in resources {
            if resource.progress.len() != resource.spec.stages.len() || !resource.spec.is_walkable() {
                return Err(StateError::Stages(resource.spec.id));
            }
            engine.bring_back(resource);
        }
        if let Some(resource) = engine
            .resources()
            .find(|resource| !engine.has_backends_of(resource))
        {
            return Err(StateError::Backend(resource.spec.id.clone()));
        }
        for Reserved {
            id,
            footprint,
            backends,
        } in reserved
        {
            engine.reserve(SimTime::default(), &id, &footprint);
            engine
                .reserved
                .entry(id)
                .and_modify(|known| known.backends = backends);
        }
        engine.adopt_leaked(SimTime::default(), &leaked);
        for NamedCloud { id, cloud_spec } in cloud_specs {
            engine
                .clouds
                .change(&id, |cloud| cloud.cloud_spec = Some(cloud_spec));
        }
        for NamedClock { id, clock } in clocks {
            engine.clouds.change(&id, |cloud| cloud.clock = Some(clock));
        }
        for NamedCalls { id, calls } in calls {
            engine.clouds.change(&id, |cloud| cloud.calls = Some(calls));
        }
        engine.restore_billings(billings);
        for NamedCallerMistakes { id, callers } in caller_mistakes {
            engine.clouds.change(&id, |cloud| cloud.caller_mistakes = callers);
        }
        engine.waiting = WaitQueues::of_waiters(waiting);
        faults.into_iter().for_each(|fault| engine.faults.insert(fault));
        Ok(engine)
    }
}
