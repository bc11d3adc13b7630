//! Faults of addresses: carries them out for claims, and reports what they have done.
//!
//! ```text
//!  Fault ─▶ read ▶ Board::put, tick ─▶ wake claims and pools
//!                    ▲ ask, release         │ changed
//!  claims, pools ────┘                      ▼
//!  claims ◀─wake─ recorded ◀── status of the Fault, one write for all that was decided meanwhile
//! ```
//!
//! Without a Fault of addresses, claims and pools read one flag.

mod address_faults;
mod report;
pub(crate) mod run;
mod selection;
mod spec;
mod subject;
mod target;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
};

use jiff::Timestamp;
use nephele_api::ipam::v1beta2::IPAddressClaim;
use nephele_engine::Seed;
use nephele_ipam::Owner;
use nephele_model::FaultId;
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::address_faults::AddressFaults;
#[cfg(test)]
use self::address_faults::{Described, Presence};
pub use self::selection::Moment;
pub(crate) use self::{
    address_faults::{Hold, Release, Verdict, Why},
    selection::Selection,
    subject::Subject,
};
use crate::{
    owner::owner,
    pool::{Block, PoolKey},
};

/// All Faults of addresses. While the board is locked, no pool is: a pool may ask while it is locked itself.
pub(crate) struct Faults {
    address_faults: Mutex<AddressFaults>,
    any: AtomicBool,
    changed: Notify,
    /// The namespaces whose Faults have changed, and whose claims and pools have to be woken.
    due: Mutex<BTreeSet<String>>,
    has_due: Notify,
}

impl Faults {
    pub(crate) fn new(seed: &str) -> Self {
        Self {
            address_faults: Mutex::new(AddressFaults::new(Seed::new(seed))),
            any: AtomicBool::new(false),
            changed: Notify::new(),
            due: Mutex::default(),
            has_due: Notify::new(),
        }
    }

    /// Whether there is any Fault of addresses.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Decides about a claim that wants an address. `next` is the address that it would get now.
    pub(crate) fn ask(
        &self,
        subject: &Subject,
        pool: &PoolKey,
        next: Option<Block>,
        now: Timestamp,
    ) -> Verdict {
        self.decide(|address_faults| address_faults.ask(subject, pool, next, now))
    }

    /// Whether a claim can get this address now. If not, it has to ask.
    pub(crate) fn lets_pass(&self, subject: &Subject, pool: &PoolKey, next: Block, now: Timestamp) -> bool {
        self.address_faults.lock().lets_pass(subject, pool, next, now)
    }

    /// Decides about a claim that gives its address back.
    pub(crate) fn release(
        &self,
        subject: &Subject,
        pool: &PoolKey,
        block: Option<Block>,
        released_at: Timestamp,
        now: Timestamp,
    ) -> Release {
        self.decide(|address_faults| address_faults.release(subject, pool, block, released_at, now))
    }

    /// Until when addresses of a pool are held back after their claims, by the names of the claims.
    pub(crate) fn late(&self, pool: &PoolKey, now: Timestamp) -> BTreeMap<Owner, (Option<Block>, Timestamp)> {
        if self.any() {
            self.address_faults.lock().late(pool, now)
        } else {
            BTreeMap::new()
        }
    }

    /// The addresses of a pool that no claim gets.
    pub(crate) fn quarantined(&self, pool: &PoolKey, now: Timestamp) -> BTreeSet<Block> {
        if self.any() {
            self.address_faults.lock().quarantined(pool, now)
        } else {
            BTreeSet::new()
        }
    }

    /// A claim has its address, or is gone.
    pub(crate) fn left(&self, claim: &IPAddressClaim) {
        if self.any() {
            let uid = claim.metadata.uid.as_deref().unwrap_or_default();
            self.decide(|address_faults| address_faults.left(&owner(&claim.metadata), uid));
        }
    }

    fn decide<R>(&self, decide: impl FnOnce(&mut AddressFaults) -> R) -> R {
        let mut address_faults = self.address_faults.lock();
        let decided = decide(&mut address_faults);
        if address_faults.has_changed() {
            self.changed.notify_one();
        }
        decided
    }

    fn remove(&self, id: &FaultId) -> bool {
        let mut address_faults = self.address_faults.lock();
        let removed = address_faults.remove(id);
        self.any.store(!address_faults.is_empty(), Ordering::Release);
        removed
    }

    /// Claims of a namespace that wait may have a new answer, and so may the pools that such claims use.
    fn wake_for(&self, namespace: &str) {
        self.due.lock().insert(namespace.to_owned());
        self.has_due.notify_one();
    }
}

/// Faults without objects.
#[cfg(test)]
impl Faults {
    pub(crate) fn put(&self, namespace: &str, name: &str, spec: serde_json::Value, now: Timestamp) {
        let spec = serde_json::from_value(spec).expect("readable");
        let fault = spec::read(&spec).expect("valid");
        let described = Described { fault, paused: false };
        let id = FaultId {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let mut address_faults = self.address_faults.lock();
        address_faults.put(&id, described, address_faults::History::default(), now);
        address_faults.tick(&id, now, |_, _| Presence::Waiting);
        self.any.store(true, Ordering::Release);
    }

    pub(crate) fn take_away(&self, namespace: &str, name: &str) {
        self.remove(&FaultId {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        });
    }

    /// Writes all decisions.
    pub(crate) fn record(&self, now: Timestamp) {
        let mut address_faults = self.address_faults.lock();
        for id in address_faults.ids() {
            let seen = address_faults.observe(&id, now).expect("it is known");
            address_faults.recorded(&id, &seen.hits);
        }
    }
}
