//! Which faults of a namespace can be about an operation or a resource.
//!
//! ```text
//!   a fault ──▶ what it is asked about: each of its operations, resources
//!           ──▶ the field that selects most: names, labels, instance types, zones or regions, else nothing
//!                  │ filed under each value of the field
//!                  ▼
//!   an operation or a resource ──▶ its values in these fields ──▶ candidates, in the order of their names
//! ```
//!
//! Every fault that matches is a candidate; a candidate need not match. A subject has one value in the field of a fault,
//! so that no fault is a candidate twice.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use nephele_model::{Matches, Requirement, ResourceKind, Selector, Verb};

use crate::{
    fault::{Fault, Subject},
    spec::ResourceSpec,
};

/// What a fault is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asked {
    /// An operation.
    Call(Verb),
    /// Whether it affects a resource.
    Resource,
}

/// A field of a subject that a fault selects by. Those that usually select most come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    Name,
    /// A label of an instance.
    InstanceLabel,
    /// A label of a cluster.
    GroupLabel,
    InstanceType,
    Zone,
    Region,
    /// No field: the fault selects every subject.
    None,
}

/// Where faults are filed under the values of a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place<'a> {
    asked: Asked,
    field: Field,
    /// The key of a label.
    key: Cow<'a, str>,
}

/// The names of faults by the value of a field.
type ByValue = BTreeMap<String, BTreeSet<Arc<str>>>;

/// The names of the faults of a namespace, by what they are about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FaultIndex {
    places: BTreeMap<Place<'static>, ByValue>,
}

impl FaultIndex {
    /// Files a fault.
    pub(crate) fn insert(&mut self, name: &Arc<str>, fault: &Fault) {
        let (field, key, values) = selection(&fault.matches);
        for asked in asked(fault) {
            let place = Place {
                asked,
                field,
                key: key.to_owned().into(),
            };
            let place = self.places.entry(place).or_default();
            for value in &values {
                place
                    .entry((*value).to_owned())
                    .or_default()
                    .insert(Arc::clone(name));
            }
        }
    }

    /// Removes a fault that was filed.
    pub(crate) fn remove(&mut self, name: &str, fault: &Fault) {
        let (field, key, values) = selection(&fault.matches);
        for asked in asked(fault) {
            let key = Place {
                asked,
                field,
                key: key.to_owned().into(),
            };
            let Some(place) = self.places.get_mut(&key) else {
                continue;
            };
            for value in &values {
                if let Some(names) = place.get_mut(*value) {
                    names.remove(name);
                    if names.is_empty() {
                        place.remove(*value);
                    }
                }
            }
            if place.is_empty() {
                self.places.remove(&key);
            }
        }
    }

    /// The faults that can be about a subject, in the order of their names.
    pub(crate) fn candidates<'a>(&'a self, asked: Asked, subject: &Subject<'a>) -> Vec<&'a Arc<str>> {
        let ResourceSpec {
            id,
            zone,
            region,
            instance_type,
            labels,
            ..
        } = subject.spec;
        let is_instance = id.kind == ResourceKind::Instance;
        let instance = labels.iter().filter(|_| is_instance);
        let instance = instance.map(|(key, value)| (Field::InstanceLabel, key.as_str(), value.as_str()));
        let cluster = subject.cluster.into_iter().flatten();
        let cluster = cluster.map(|(key, value)| (Field::GroupLabel, key.as_str(), value.as_str()));
        let of_type = instance_type
            .as_deref()
            .map(|name| (Field::InstanceType, "", name));
        let in_zone = zone.as_deref().map(|name| (Field::Zone, "", name));
        let in_region = region.as_deref().map(|name| (Field::Region, "", name));
        let single = [
            Some((Field::Name, "", subject.name())),
            of_type,
            in_zone,
            in_region,
            Some((Field::None, "", "")),
        ];
        let values = single.into_iter().flatten().chain(instance).chain(cluster);
        // The keys of the index live longer, so that it can be asked for one that is borrowed.
        let places: &BTreeMap<Place<'_>, _> = &self.places;
        let found = values.filter_map(|(field, key, value)| {
            places
                .get(&Place {
                    asked,
                    field,
                    key: key.into(),
                })?
                .get(value)
        });
        let mut names = Vec::new();
        let mut parts = 0;
        for part in found {
            names.extend(part);
            parts += 1;
        }
        if parts > 1 {
            names.sort();
        }
        names
    }
}

/// What a fault is asked about.
fn asked(fault: &Fault) -> impl Iterator<Item = Asked> {
    let calls = Verb::ALL
        .into_iter()
        .filter(|verb| fault.concerns(*verb))
        .map(Asked::Call);
    calls.chain(fault.effect.active_effect().map(|_| Asked::Resource))
}

/// The field that selects most, the key if it is a label, and its values.
fn selection(matches: &Matches) -> (Field, &str, Vec<&str>) {
    let Matches {
        names,
        zones,
        regions,
        instance_types,
        cluster,
        instance,
        ..
    } = matches;
    let set = |field, set| Some((field, "", set)).filter(|(.., set): &(_, _, &BTreeSet<_>)| !set.is_empty());
    let of_label = |field, selector| label(selector).map(|(key, values)| (field, key, values));
    let fields = [
        set(Field::Name, names),
        of_label(Field::InstanceLabel, instance),
        of_label(Field::GroupLabel, cluster),
        set(Field::InstanceType, instance_types),
        set(Field::Zone, zones),
        set(Field::Region, regions),
    ];
    match fields.into_iter().flatten().next() {
        Some((field, key, values)) => (field, key, values.iter().map(String::as_str).collect()),
        None => (Field::None, "", vec![""]),
    }
}

/// The label whose values are named and fewest.
fn label(selector: &Selector) -> Option<(&str, &BTreeSet<String>)> {
    let named = selector.0.iter().filter_map(|requirement| match requirement {
        Requirement::In(key, values) => Some((key.as_str(), values)),
        Requirement::NotIn(..) | Requirement::Exists(_) | Requirement::DoesNotExist(_) => None,
    });
    named.min_by_key(|(_, values)| values.len())
}
