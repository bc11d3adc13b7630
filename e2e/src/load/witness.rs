//! The holder of each address, and a check that no two ever had the same address.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Instant,
};

use kube::{ResourceExt, runtime::watcher::Event};
use nephele_api::ipam::v1beta2::IPAddress;

use super::Follow;

/// The holder of each address. Checks every version of every IPAddress that the API server reports, in the order of
/// writes. So it finds two with the same address even if one is soon gone.
#[derive(Default)]
pub struct Witness {
    listed: bool,
    holders: BTreeMap<Held, BTreeSet<String>>,
    /// The address of each IPAddress.
    held: BTreeMap<String, Held>,
    relisted: BTreeMap<String, Held>,
    duplicates: Vec<String>,
}

/// Pool and address.
type Held = (String, String);

impl Witness {
    /// The names of the IPAddresses, with their addresses.
    pub fn held(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.held
            .iter()
            .map(|(name, (_, address))| (name.as_str(), address.as_str()))
    }

    /// Duplicates: the address, and both holders.
    #[must_use]
    pub fn duplicates(&self) -> &[String] {
        &self.duplicates
    }

    pub(super) fn is_listed(&self) -> bool {
        self.listed
    }

    fn add(&mut self, name: String, held: Held) {
        if self.held.get(&name) == Some(&held) {
            return;
        }
        self.remove(&name);
        let holders = self.holders.entry(held.clone()).or_default();
        holders.insert(name.clone());
        if holders.len() > 1 {
            self.duplicates
                .push(format!("{} of {}: {holders:?}", held.1, held.0));
        }
        self.held.insert(name, held);
    }

    fn remove(&mut self, name: &str) {
        let Some(held) = self.held.remove(name) else {
            return;
        };
        if let Some(holders) = self.holders.get_mut(&held) {
            holders.remove(name);
            if holders.is_empty() {
                self.holders.remove(&held);
            }
        }
    }
}

impl Follow for Witness {
    type Kind = IPAddress;

    fn apply(&mut self, event: Event<IPAddress>, _now: Instant) {
        match event {
            Event::Apply(object) => self.add(object.name_any(), held(&object)),
            Event::Delete(object) => self.remove(&object.name_any()),
            Event::Init => self.relisted.clear(),
            Event::InitApply(object) => drop(self.relisted.insert(object.name_any(), held(&object))),
            Event::InitDone => {
                // An IPAddress that is not in the list is gone, and another one may have its address.
                let relisted = std::mem::take(&mut self.relisted);
                let gone: Vec<_> = self
                    .held
                    .keys()
                    .filter(|name| !relisted.contains_key(*name))
                    .cloned()
                    .collect();
                gone.iter().for_each(|name| self.remove(name));
                relisted.into_iter().for_each(|(name, held)| self.add(name, held));
                self.listed = true;
            }
        }
    }
}

fn held(object: &IPAddress) -> Held {
    let pool = &object.spec.pool_ref;
    (
        format!("{} {}", pool.kind, pool.name),
        object.spec.address.clone(),
    )
}

impl fmt::Debug for Witness {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let some: Vec<_> = self.held.keys().take(10).collect();
        write!(
            formatter,
            "{} IPAddresses, among them {some:?}; duplicates: {:?}",
            self.held.len(),
            self.duplicates
        )
    }
}

#[cfg(test)]
mod tests {
    use nephele_api::{core::ObjectReference, ipam::v1beta2::IPAddressSpec};

    use super::*;

    fn address(name: &str, pool: &str, address: &str) -> IPAddress {
        let pool_ref = ObjectReference {
            name: pool.to_owned(),
            ..ObjectReference::default()
        };
        let address = address.to_owned();
        IPAddress::new(
            name,
            IPAddressSpec {
                pool_ref,
                address,
                ..IPAddressSpec::default()
            },
        )
    }

    fn duplicates(events: impl IntoIterator<Item = Event<IPAddress>>) -> usize {
        let mut witness = Witness::default();
        events
            .into_iter()
            .for_each(|event| witness.apply(event, Instant::now()));
        witness.duplicates().len()
    }

    #[test]
    fn two_at_once_are_noticed_though_one_goes_soon() {
        let a = address("a", "p", "10.0.0.1");
        let b = address("b", "p", "10.0.0.1");
        assert_eq!(
            duplicates([Event::Apply(a.clone()), Event::Apply(b.clone()), Event::Delete(b)]),
            1
        );
        let elsewhere = address("b", "q", "10.0.0.1");
        assert_eq!(
            duplicates([Event::Apply(a.clone()), Event::Apply(elsewhere), Event::Apply(a)]),
            0
        );
    }

    #[test]
    fn one_after_the_other_is_fine_also_over_a_list() {
        let a = address("a", "p", "10.0.0.1");
        let b = address("b", "p", "10.0.0.1");
        assert_eq!(
            duplicates([
                Event::Apply(a.clone()),
                Event::Delete(a.clone()),
                Event::Apply(b.clone())
            ]),
            0
        );
        let relist = [
            Event::Apply(a.clone()),
            Event::Init,
            Event::InitApply(b.clone()),
            Event::InitDone,
        ];
        assert_eq!(duplicates(relist), 0);
        assert_eq!(
            duplicates([
                Event::Init,
                Event::InitApply(a),
                Event::InitApply(b),
                Event::InitDone
            ]),
            1
        );
    }
}
