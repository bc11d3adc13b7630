//! Selectors of labels.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Requirements for labels. Labels have to meet all of them, as for a label selector of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selector(pub Vec<Requirement>);

/// A requirement for one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Requirement {
    /// The label has one of these values.
    In(String, BTreeSet<String>),
    /// The label has none of these values, or does not exist.
    NotIn(String, BTreeSet<String>),
    /// The label exists.
    Exists(String),
    /// The label does not exist.
    DoesNotExist(String),
}

impl Selector {
    /// Whether there are no requirements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether labels meet all requirements.
    #[must_use]
    pub fn fits(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Requirement::NotIn(key, values) => !labels.get(key).is_some_and(|value| values.contains(value)),
            Requirement::Exists(key) => labels.contains_key(key),
            Requirement::DoesNotExist(key) => !labels.contains_key(key),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_to_meet_every_requirement() {
        let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let values = || BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let key = || "key".to_owned();
        let requirements = [
            Requirement::In(key(), values()),
            Requirement::NotIn(key(), values()),
            Requirement::Exists(key()),
            Requirement::DoesNotExist(key()),
        ];
        let fits = |pairs: &[(&str, &str)]| {
            requirements.clone().map(|requirement| Selector(vec![requirement]).fits(&labels(pairs)))
        };
        assert_eq!(fits(&[("key", "a")]), [true, false, true, false]);
        assert_eq!(fits(&[("key", "c")]), [false, true, true, false]);
        assert_eq!(fits(&[("other", "a")]), [false, true, false, true]);
        assert!(Selector::default().fits(&labels(&[])));
        let both = Selector(vec![Requirement::Exists(key()), Requirement::In("other".into(), values())]);
        assert!(both.fits(&labels(&[("key", ""), ("other", "b")])));
        assert!(!both.fits(&labels(&[("key", "")])));
    }
}
