//! The states of claims, with times.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    time::{Duration, Instant},
};

use kube::{ResourceExt, runtime::watcher::Event};
use nephele_api::ipam::v1beta2::IPAddressClaim;

use super::Follow;

/// The states of claims, with times.
#[derive(Default)]
pub struct Tally {
    listed: bool,
    live: HashSet<String>,
    relisted: HashSet<String>,
    sent: HashMap<String, Instant>,
    bound: HashMap<String, Instant>,
    bound_by_group: HashMap<String, usize>,
    gone_by_group: HashMap<String, usize>,
}

impl Tally {
    /// How many claims of a group got an address, whether or not they still exist. A claim's group is its name up to
    /// the first dash.
    #[must_use]
    pub fn bound(&self, group: &str) -> usize {
        self.bound_by_group.get(group).copied().unwrap_or_default()
    }

    /// How many claims of a group are gone.
    #[must_use]
    pub fn gone(&self, group: &str) -> usize {
        self.gone_by_group.get(group).copied().unwrap_or_default()
    }

    /// Whether a claim got an address.
    #[must_use]
    pub fn is_bound(&self, name: &str) -> bool {
        self.bound.contains_key(name)
    }

    /// Whether no claim exists.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// For each of these claims with an address, the time from the request that created the claim until the address was
    /// seen, sorted.
    #[must_use]
    pub fn latencies(&self, names: &[String]) -> Vec<Duration> {
        let latency = |name: &String| Some(self.bound.get(name)?.duration_since(*self.sent.get(name)?));
        let mut latencies: Vec<_> = names.iter().filter_map(latency).collect();
        latencies.sort();
        latencies
    }

    pub(super) fn is_listed(&self) -> bool {
        self.listed
    }

    pub(super) fn sent(&mut self, name: &str, now: Instant) {
        self.sent.insert(name.to_owned(), now);
    }

    fn see(&mut self, claim: &IPAddressClaim, now: Instant) -> String {
        let name = claim.name_any();
        if claim.address_name().is_some() && !self.bound.contains_key(&name) {
            self.bound.insert(name.clone(), now);
            *self.bound_by_group.entry(group(&name)).or_default() += 1;
        }
        name
    }

    fn gone_now(&mut self, name: &str) {
        *self.gone_by_group.entry(group(name)).or_default() += 1;
    }
}

impl Follow for Tally {
    type Kind = IPAddressClaim;

    fn apply(&mut self, event: Event<IPAddressClaim>, now: Instant) {
        match event {
            Event::Apply(claim) => {
                let name = self.see(&claim, now);
                self.live.insert(name);
            }
            Event::Delete(claim) => {
                let name = self.see(&claim, now);
                if self.live.remove(&name) {
                    self.gone_now(&name);
                }
            }
            Event::Init => self.relisted.clear(),
            Event::InitApply(claim) => {
                let name = self.see(&claim, now);
                self.relisted.insert(name);
            }
            Event::InitDone => {
                // A claim that is missing from the list after a broken watch is gone.
                let relisted = std::mem::take(&mut self.relisted);
                let before = std::mem::replace(&mut self.live, relisted);
                for name in before {
                    if !self.live.contains(&name) {
                        self.gone_now(&name);
                    }
                }
                self.listed = true;
            }
        }
    }
}

fn group(name: &str) -> String {
    name.split('-').next().unwrap_or_default().to_owned()
}

impl fmt::Debug for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut waiting: Vec<_> = self
            .live
            .iter()
            .filter(|name| !self.bound.contains_key(*name))
            .collect();
        waiting.sort();
        write!(
            formatter,
            "{} claims requested, {} exist, {} bound so far, {} gone; {} without an address",
            self.sent.len(),
            self.live.len(),
            self.bound.len(),
            self.gone_by_group.values().sum::<usize>(),
            waiting.len()
        )?;
        waiting.truncate(10);
        if waiting.is_empty() {
            Ok(())
        } else {
            write!(formatter, ", among them {waiting:?}")
        }
    }
}

#[cfg(test)]
mod tests {
    use nephele_api::ipam::v1beta2::{IPAddressClaimSpec, IPAddressClaimStatus, NameReference};

    use super::*;

    fn claim(name: &str, bound: bool) -> IPAddressClaim {
        let mut claim = IPAddressClaim::new(name, IPAddressClaimSpec::default());
        claim.status = bound.then(|| IPAddressClaimStatus {
            address_ref: Some(NameReference {
                name: name.to_owned(),
            }),
            ..IPAddressClaimStatus::default()
        });
        claim
    }

    #[test]
    fn a_claim_is_bound_when_it_is_first_seen_with_an_address() {
        let mut tally = Tally::default();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        tally.sent("a-1", start);
        tally.apply(Event::Apply(claim("a-1", false)), after(1));
        assert_eq!(tally.bound("a"), 0);
        tally.apply(Event::Apply(claim("a-1", true)), after(2));
        tally.apply(Event::Apply(claim("a-1", true)), after(3));
        assert_eq!(
            tally.latencies(&["a-1".into(), "a-2".into()]),
            [Duration::from_secs(2)]
        );
        tally.apply(Event::Delete(claim("a-1", true)), after(4));
        assert_eq!((tally.bound("a"), tally.gone("a"), tally.bound("b")), (1, 1, 0));
    }

    #[test]
    fn what_went_while_it_was_not_watched_is_gone() {
        let mut tally = Tally::default();
        let now = Instant::now();
        for event in [
            Event::Init,
            Event::InitApply(claim("a", true)),
            Event::InitApply(claim("b", false)),
            Event::InitDone,
            Event::Init,
            Event::InitApply(claim("b", true)),
            Event::InitDone,
        ] {
            tally.apply(event, now);
        }
        assert_eq!((tally.gone("a"), tally.gone("b"), tally.bound("b")), (1, 0, 1));
    }
}
