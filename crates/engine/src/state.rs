//! The state of a cloud as a value to keep, for who begins to read its journal and for who plays that.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::catalog::Catalog;
use crate::config::Config;
use crate::engine::Engine;
use crate::identity::ResourceId;
use crate::resource::Resource;
use crate::room::{Waiter, Waiting};
use crate::seed::Seed;

/// Counting on from here takes longer than anybody waits.
const NUMBER_MAX: u64 = u64::MAX / 2;

/// All that a cloud is, but for its journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// What it offers.
    pub config: Config,
    /// What its draws are keyed by.
    pub seed: Seed,
    /// The number of the next record of its journal.
    pub next: u64,
    /// What there is to make instances from, in the order of names.
    pub catalogs: Vec<NamedCatalog>,
    /// What there is, in the order of names.
    pub resources: Vec<Resource>,
    /// What room is kept for, see [`crate::Request::Reserve`], in the order of names.
    pub reserved: Vec<Reserved>,
    /// Who waits for room, first come first.
    pub waiting: Vec<Waiter>,
}

/// A catalog with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedCatalog {
    /// Its name.
    pub id: ResourceId,
    /// What it has.
    pub catalog: Catalog,
}

/// Room that is kept for a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// For which one.
    pub id: ResourceId,
    /// In which zone.
    pub zone: Option<String>,
}

/// Why a state is none that a cloud can be in.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StateError {
    /// Two have one name.
    #[error("{0} is there twice")]
    Twice(ResourceId),
    /// A number is larger than any cloud can have counted to.
    #[error("{0} is too large a number")]
    Number(u64),
    /// A load balancer leads to an instance that is not there, or something else leads to any.
    #[error("{0} has a backend that cannot be")]
    Backend(ResourceId),
    /// Its stages cannot be walked, or it does not say how far each is.
    #[error("the stages of {0} do not fit together")]
    Stages(ResourceId),
}

impl Engine {
    /// The state, to be given to [`Engine::from_state`]. Costs a copy of every resource.
    #[must_use]
    pub fn state(&self) -> State {
        let reserved = self.reserved.iter().map(|(id, zone)| Reserved { id: id.clone(), zone: zone.clone() });
        let catalog = |(id, catalog): (&ResourceId, &Catalog)| NamedCatalog {
            id: id.clone(),
            catalog: catalog.clone(),
        };
        State {
            config: self.config.clone(),
            catalogs: self.catalogs.iter().map(catalog).collect(),
            seed: self.seed.clone(),
            next: self.journal.next(),
            resources: self.resources.values().cloned().collect(),
            reserved: reserved.collect(),
            waiting: self.waiting.to_waiters(),
        }
    }

    /// A cloud in this state, whose journal begins here.
    ///
    /// # Errors
    /// When no cloud can be in the state: it may come from a file.
    pub fn from_state(state: State) -> Result<Self, StateError> {
        let State { config, catalogs, seed, next, resources, reserved, waiting } = state;
        let counted = resources.iter().map(|resource| resource.generation).chain([next]).max();
        if let Some(number) = counted.filter(|number| *number > NUMBER_MAX) {
            return Err(StateError::Number(number));
        }
        let mut names = BTreeSet::new();
        let ids = catalogs.iter().map(|named| &named.id);
        let ids = ids.chain(resources.iter().map(|resource| &resource.spec.id));
        let ids = ids.chain(reserved.iter().map(|reserved| &reserved.id));
        for id in ids.chain(waiting.iter().map(|waiter| &waiter.id)) {
            if !names.insert(id) {
                return Err(StateError::Twice(id.clone()));
            }
        }
        let reserved: BTreeMap<_, _> =
            reserved.iter().map(|room| (room.id.clone(), room.zone.clone())).collect();
        let mut engine = Self::starting_at(config, seed, next);
        for resource in resources {
            if resource.progress.len() != resource.spec.stages.len() || !resource.spec.is_walkable() {
                return Err(StateError::Stages(resource.spec.id));
            }
            engine.bring_back(resource);
        }
        if let Some(resource) = engine.resources().find(|resource| !engine.has_backends_of(resource)) {
            return Err(StateError::Backend(resource.spec.id.clone()));
        }
        for (id, zone) in reserved {
            engine.reserve(&id, &zone);
        }
        engine.catalogs = catalogs.into_iter().map(|named| (named.id, named.catalog)).collect();
        engine.waiting = Waiting::of_waiters(waiting);
        Ok(engine)
    }
}
