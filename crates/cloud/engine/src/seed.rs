//! The source of all random draws.

use nephele_model::{Odds, ResourceId, SeedKey, StageName, Verb};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::hasher::StableHasher;

/// The seed of a cloud: any text, three words by custom. The same seed and the same identities give the same draws.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seed(String);

/// The decision that a draw makes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Decision<'a> {
    /// How long a stage takes.
    Latency(&'a StageName),
    /// Whether a stage fails.
    Failure(&'a StageName),
    /// How long a deletion takes.
    Deletion,
    /// How long an update takes, by what the resource changes to.
    Update(&'a str),
    /// Whether a fault hits an operation.
    Fault {
        /// The name of the fault.
        fault: &'a str,
        operation: Verb,
    },
    /// Whether a fault affects a resource.
    ActiveEffect {
        /// The name of the fault.
        fault: &'a str,
    },
    /// How long a fault delays an operation.
    FaultDelay {
        /// The name of the fault.
        fault: &'a str,
        operation: Verb,
    },
    /// How long reads do not show what an operation has changed, because of a fault.
    FaultLag {
        /// The name of the fault.
        fault: &'a str,
        operation: Verb,
    },
}

impl Seed {
    /// The seed `text`.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text of the seed.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A draw of a reader of the cloud, uniform in [0, 1), for decisions that the engine has no part in. The same key and
    /// number give the same draw on every machine and in every release.
    #[must_use]
    pub fn fraction(&self, key: &[&str], number: u64) -> f64 {
        let mut whole = StableHasher::new();
        whole.text(&self.0);
        whole.list(key, |whole, part| whole.text(part));
        whole.number(number);
        Draws(ChaCha8Rng::from_seed(whole.finish())).unit()
    }

    /// The generator for one decision. ChaCha is documented as portable, unlike rand's standard generator, so a seed
    /// means the same on every machine and in every release.
    pub(crate) fn draws(
        &self,
        (id, seed_key): (&ResourceId, Option<&SeedKey>),
        decision: Decision<'_>,
        attempt: u32,
    ) -> Draws {
        let mut key = StableHasher::new();
        key.text(&self.0);
        match seed_key {
            None => key.id(id),
            Some(seed_key) => {
                // No resource has an empty name, so the key of a set never equals the key of a name.
                key.id(&ResourceId {
                    name: String::new(),
                    ..id.clone()
                });
                key.text(&seed_key.owner_set);
                key.number(u64::from(seed_key.ordinal));
            }
        }
        let parts: &[&str] = match decision {
            Decision::Latency(stage) => &["latency", stage.as_str()],
            Decision::Failure(stage) => &["failure", stage.as_str()],
            Decision::Deletion => &["deletion", ""],
            Decision::Update(to) => &["update", to],
            Decision::Fault { fault, operation } => &["fault", fault, operation.as_str()],
            Decision::ActiveEffect { fault } => &["affliction", fault],
            Decision::FaultDelay { fault, operation } => &["fault-delay", fault, operation.as_str()],
            Decision::FaultLag { fault, operation } => &["fault-lag", fault, operation.as_str()],
        };
        parts.iter().for_each(|part| key.text(part));
        key.number(u64::from(attempt));
        Draws(ChaCha8Rng::from_seed(key.finish()))
    }
}

/// A stream of draws for one decision.
pub(crate) struct Draws(ChaCha8Rng);

impl Draws {
    /// Uniform in [0, 1), with 53 bits.
    pub(crate) fn unit(&mut self) -> f64 {
        const SCALE: f64 = 1.0 / (1u64 << 53) as f64;
        (self.0.next_u64() >> 11) as f64 * SCALE
    }

    /// Whether something of these odds happens.
    pub(crate) fn happens(&mut self, odds: Odds) -> bool {
        self.unit() < odds.probability()
    }
}
