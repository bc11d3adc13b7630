//! Which claims a Fault selects that does not exist yet. The state of a Fault that begins answers, as it answers claims. Pure.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use nephele_api::cloud::v1alpha1::FaultSpec;
use nephele_engine::Seed;
use nephele_fault::Mistake;
use nephele_model::{Budget, FaultId};

use super::{
    address_faults::{AddressFaults, Described, History, Presence, Release},
    spec::{self, AddressFault, Effect},
    subject::Subject,
};
use crate::pool::{Block, PoolKey};

/// When a Fault hits a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// When the claim asks for an address. A claim that has one keeps it.
    Request,
    /// When the claim is deleted and gives its address back.
    Release,
}

impl Moment {
    /// The claims that can be hit, in words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "claims that wait for an address, also claims to come",
            Self::Release => "claims that are deleted with their address, also claims to come",
        }
    }
}

/// A Fault of addresses that begins now, with a budget for every claim.
pub(crate) struct Selection {
    fault: AddressFault,
    now: Timestamp,
}

impl Selection {
    /// The Fault of a spec. The manager draws the jitter of a delay later, so here a claim waits as long as it may have to.
    ///
    /// # Errors
    /// With the first field that cannot be used.
    pub(crate) fn new(spec: &FaultSpec, now: Timestamp) -> Result<Self, Mistake> {
        let fault = spec::read(spec)?;
        let effect = match fault.effect {
            Effect::Slow { base, jitter } => Effect::Slow {
                base: base.saturating_add(base.mul_f64(jitter)),
                jitter: 0.0,
            },
            effect @ (Effect::Exhausted | Effect::Conflict | Effect::LateRelease(_)) => effect,
        };
        let fault = AddressFault {
            effect,
            budget: Budget::default(),
            ..fault
        };
        Ok(Self { fault, now })
    }

    /// When it hits a claim.
    pub(crate) fn moment(&self) -> Moment {
        match self.fault.effect {
            Effect::Slow { .. } | Effect::Exhausted | Effect::Conflict => Moment::Request,
            Effect::LateRelease(_) => Moment::Release,
        }
    }

    /// Whether it hits a claim whose moment is now. A claim that was deleted earlier gave its address back at `released_at`.
    pub(crate) fn selects(&self, subject: &Subject, pool: &PoolKey, released_at: Timestamp) -> bool {
        let Self { fault, now } = self;
        let id = FaultId {
            namespace: subject.owner.namespace().to_owned(),
            name: String::new(),
        };
        let described = Described {
            fault: fault.clone(),
            paused: false,
        };
        let mut faults = AddressFaults::new(Seed::new(""));
        faults.put(&id, described, History::default(), *now);
        faults.tick(&id, *now, |_, _| Presence::Waiting);
        match self.moment() {
            // Whichever address the claim would get.
            Moment::Request => {
                !faults.lets_pass(subject, pool, Block::Address(Ipv4Addr::UNSPECIFIED.into()), *now)
            }
            Moment::Release => faults.release(subject, pool, None, released_at, *now) != Release::Now,
        }
    }
}
