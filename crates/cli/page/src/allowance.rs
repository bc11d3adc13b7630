//! How much the objects of a page may take, where many people have one each in a process that does other work, too. Each page
//! has something in any case, and the rest is taken from what is there for all.
//!
//! Objects are counted by the bytes that the API server sends, of which they take about three times as many in memory.

use std::{
    collections::HashMap,
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use jiff::{SignedDuration, Timestamp};
use kube::{ResourceExt as _, runtime::watcher::Event};
use nephele_controller::Kind;
use parking_lot::Mutex;

use crate::objects::Key;

/// What the pages of a process may take together.
#[derive(Debug)]
pub(crate) struct Stock {
    left: AtomicUsize,
}

impl Stock {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(bytes),
        })
    }

    fn take(&self, bytes: usize) -> bool {
        let less = |left: usize| left.checked_sub(bytes);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.is_ok()
    }

    fn give(&self, bytes: usize) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }
}

/// As many records as the manager remembers.
const RECORDS_MAX: usize = 4096;

/// What one page may take.
#[derive(Clone, Debug)]
pub struct Allowance {
    /// None if the objects may take what they need.
    own: Option<Arc<Own>>,
    records: usize,
}

#[derive(Debug)]
struct Own {
    stock: Arc<Stock>,
    /// What it has in any case, whatever others take of the stock.
    least: usize,
    max: usize,
    taken: Mutex<usize>,
    /// Whether an object did not fit, and since when that was known.
    is_exceeded: AtomicBool,
    since: Mutex<Option<Timestamp>>,
}

/// How long objects that did not fit are not read again: a list that is read again needs room beside the one that it replaces, and
/// others may give something back.
const EXCEEDED_FOR: SignedDuration = SignedDuration::from_mins(1);
/// Objects of a list that are read at a time, by a process of its own and by one of many.
const PAGE: u32 = 500;
const PAGE_OF_MANY: u32 = 50;

impl Allowance {
    /// For a process of its own, which may take what it needs.
    #[must_use]
    pub fn unlimited() -> Self {
        Self {
            own: None,
            records: RECORDS_MAX,
        }
    }

    /// Bytes for objects, from the least to the most of this range, those beyond the least from a stock; and so many records.
    pub(crate) fn of(stock: &Arc<Stock>, bytes: RangeInclusive<usize>, records: usize) -> Self {
        let own = Own {
            stock: Arc::clone(stock),
            least: *bytes.start(),
            max: *bytes.end(),
            taken: Mutex::new(0),
            is_exceeded: AtomicBool::new(false),
            since: Mutex::new(None),
        };
        Self {
            own: Some(Arc::new(own)),
            records,
        }
    }

    /// The records of the journal that may be kept.
    pub(crate) fn records(&self) -> usize {
        self.records
    }

    /// Whether the objects have a bound.
    pub(crate) fn is_limited(&self) -> bool {
        self.own.is_some()
    }

    /// Objects of a list that are read at a time.
    pub(crate) fn page(&self) -> u32 {
        if self.is_limited() { PAGE_OF_MANY } else { PAGE }
    }

    /// Whether the objects were more than this, not long ago.
    pub(crate) fn is_exceeded(&self, now: Timestamp) -> bool {
        let Some(own) = self
            .own
            .as_ref()
            .filter(|own| own.is_exceeded.load(Ordering::Relaxed))
        else {
            return false;
        };
        let mut since = own.since.lock();
        let is_over = now.duration_since(*since.get_or_insert(now)) >= EXCEEDED_FOR;
        if is_over {
            *since = None;
            own.is_exceeded.store(false, Ordering::Relaxed);
        }
        !is_over
    }

    /// What a watch takes of it, nothing at first.
    pub(crate) fn watch(&self) -> Taken {
        Taken {
            own: self.own.clone(),
            held: HashMap::new(),
            listing: HashMap::new(),
        }
    }
}

impl Own {
    /// What of so many bytes is taken from the stock.
    fn of_stock(&self, bytes: usize) -> usize {
        bytes.saturating_sub(self.least)
    }

    fn take(&self, bytes: usize) -> bool {
        let mut taken = self.taken.lock();
        let sum = taken.saturating_add(bytes);
        let fits = sum <= self.max && self.stock.take(self.of_stock(sum) - self.of_stock(*taken));
        if fits {
            *taken = sum;
        } else {
            self.is_exceeded.store(true, Ordering::Relaxed);
        }
        fits
    }

    fn give(&self, bytes: usize) {
        let mut taken = self.taken.lock();
        let left = *taken - bytes;
        self.stock.give(self.of_stock(*taken) - self.of_stock(left));
        *taken = left;
    }
}

/// The objects of one watch.
pub(crate) struct Taken {
    own: Option<Arc<Own>>,
    /// The bytes of those that the store has.
    held: HashMap<Key, usize>,
    /// The same of a list that is not complete: then it takes the place of the others.
    listing: HashMap<Key, usize>,
}

impl Taken {
    /// Follows an event, and what its object takes. False if that is too much: it is not counted then, and the watch has to end.
    pub(crate) fn note<K: Kind>(&mut self, event: &Event<K>, bytes: usize) -> bool {
        let Some(own) = self.own.clone() else {
            return true;
        };
        let key = |object: &K| {
            Key::new(
                object.namespace().as_deref().unwrap_or_default(),
                &object.name_any(),
            )
        };
        let replaced = match event {
            Event::Apply(object) if own.take(bytes) => self.held.insert(key(object), bytes),
            Event::InitApply(object) if own.take(bytes) => self.listing.insert(key(object), bytes),
            Event::Apply(_) | Event::InitApply(_) => return false,
            Event::Delete(object) => self.held.remove(&key(object)),
            Event::Init => Some(std::mem::take(&mut self.listing).into_values().sum()),
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listing);
                Some(std::mem::replace(&mut self.held, listed).into_values().sum())
            }
        };
        own.give(replaced.unwrap_or(0));
        true
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            own.give(self.held.values().chain(self.listing.values()).sum());
        }
    }
}

#[cfg(test)]
mod tests {
    use nephele_api::cloud::v1alpha1::Fault;
    use proptest::prelude::*;

    use super::*;

    fn event(kind: u8, name: u8) -> Event<Fault> {
        let mut fault = Fault::default();
        fault.metadata.name = Some(format!("f{name}"));
        match kind {
            0 | 1 => Event::Apply(fault),
            2 => Event::Delete(fault),
            3 | 4 => Event::InitApply(fault),
            5 => Event::Init,
            _ => Event::InitDone,
        }
    }

    proptest! {
        /// Two watches of one page, and a page beside it: what is taken is what is held, and all of it is given back.
        #[test]
        fn what_is_taken_is_what_is_held(events in prop::collection::vec((0..3_usize, 0..7_u8, 0..4_u8, 0..40_usize), 0..60)) {
            let stock = Stock::new(100);
            let one = Allowance::of(&stock, 20..=70, 0);
            let other = Allowance::of(&stock, 20..=70, 0);
            let mut watches = [one.watch(), one.watch(), other.watch()];
            for (watch, kind, name, bytes) in events {
                let before = stock.left();
                let fits = watches[watch].note(&event(kind, name), bytes);
                prop_assert!(fits || stock.left() == before);
                let held = |taken: &Taken| taken.held.values().chain(taken.listing.values()).sum::<usize>();
                let sums = [held(&watches[0]) + held(&watches[1]), held(&watches[2])];
                let beyond = sums.map(|sum| sum.saturating_sub(20));
                prop_assert_eq!(100 - stock.left(), beyond.into_iter().sum::<usize>());
                prop_assert!(sums.iter().all(|sum| *sum <= 70));
                let now = Timestamp::UNIX_EPOCH;
                prop_assert!(fits || one.is_exceeded(now) || other.is_exceeded(now));
                prop_assert!(!one.is_exceeded(now + EXCEEDED_FOR) && !other.is_exceeded(now + EXCEEDED_FOR));
                let least = sums[watch / 2] + bytes <= 20;
                prop_assert!(fits || !least, "what each has in any case");
            }
            drop(watches);
            prop_assert_eq!(stock.left(), 100);
        }
    }
}
