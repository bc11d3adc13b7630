//! Selectors of labels.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

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

/// A label selector of Kubernetes. It keeps what its user wrote, so that an object that is written again has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector {
    written: Value,
    requirements: Selector,
}

impl LabelSelector {
    /// What it requires.
    #[must_use]
    pub fn get(&self) -> &Selector {
        &self.requirements
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written.fmt(f)
    }
}

impl Serialize for LabelSelector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LabelSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Value::deserialize(deserializer)?;
        match requirements(&written) {
            Some(requirements) => Ok(Self {
                written,
                requirements,
            }),
            None => Err(de::Error::custom(format_args!(
                "{written} is not a label selector"
            ))),
        }
    }
}

/// The fields of a label selector.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields {
    match_labels: Option<BTreeMap<String, String>>,
    match_expressions: Option<Vec<Expression>>,
}

#[derive(Deserialize)]
struct Expression {
    key: String,
    operator: String,
    values: Option<BTreeSet<String>>,
}

/// What a label selector requires. None if the value is no label selector.
fn requirements(written: &Value) -> Option<Selector> {
    let fields = Some(written).filter(|written| written.is_object())?;
    let Fields {
        match_labels,
        match_expressions,
    } = Fields::deserialize(fields).ok()?;
    let equal = match_labels.into_iter().flatten();
    let equal = equal.map(|(key, value)| Some(Requirement::In(key, BTreeSet::from([value]))));
    let expressions = match_expressions.into_iter().flatten().map(
        |Expression {
             key,
             operator,
             values,
         }| {
            let values = values.unwrap_or_default();
            match (operator.as_str(), values.is_empty()) {
                ("In", false) => Some(Requirement::In(key, values)),
                ("NotIn", false) => Some(Requirement::NotIn(key, values)),
                ("Exists", true) => Some(Requirement::Exists(key)),
                ("DoesNotExist", true) => Some(Requirement::DoesNotExist(key)),
                _ => None,
            }
        },
    );
    equal.chain(expressions).collect::<Option<_>>().map(Selector)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_label_selector_requires_what_it_says_and_is_written_as_it_was_read() {
        let set = |values: &[&str]| {
            values
                .iter()
                .map(|value| (*value).to_owned())
                .collect::<BTreeSet<_>>()
        };
        let written = json!({
            "matchLabels": { "team": "blue" },
            "matchExpressions": [
                { "key": "a", "operator": "In", "values": ["y", "x"] },
                { "key": "b", "operator": "NotIn", "values": ["x"] },
                { "key": "c", "operator": "Exists" },
                { "key": "d", "operator": "DoesNotExist", "values": [] },
            ],
        });
        let selector: LabelSelector = serde_json::from_value(written.clone()).expect("a selector");
        let expected = Selector(vec![
            Requirement::In("team".into(), set(&["blue"])),
            Requirement::In("a".into(), set(&["x", "y"])),
            Requirement::NotIn("b".into(), set(&["x"])),
            Requirement::Exists("c".into()),
            Requirement::DoesNotExist("d".into()),
        ]);
        assert_eq!(selector.get(), &expected);
        assert_eq!(serde_json::to_value(&selector).expect("JSON"), written);
        let all: LabelSelector = serde_json::from_value(json!({})).expect("a selector");
        assert_eq!(all.get(), &Selector::default());
    }

    #[test]
    fn what_is_no_label_selector_is_refused() {
        for written in [
            json!("all"),
            json!([]),
            json!({ "matchLabels": { "a": 1 } }),
            json!({ "matchExpressions": [{ "key": "a", "operator": "In" }] }),
            json!({ "matchExpressions": [{ "key": "a", "operator": "Exists", "values": ["b"] }] }),
            json!({ "matchExpressions": [{ "key": "a", "operator": "Is", "values": ["b"] }] }),
        ] {
            let error = serde_json::from_value::<LabelSelector>(written.clone()).expect_err("it is none");
            assert_eq!(error.to_string(), format!("{written} is not a label selector"));
        }
    }

    #[test]
    fn labels_have_to_meet_every_requirement() {
        let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
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
            requirements
                .clone()
                .map(|requirement| Selector(vec![requirement]).fits(&labels(pairs)))
        };
        assert_eq!(fits(&[("key", "a")]), [true, false, true, false]);
        assert_eq!(fits(&[("key", "c")]), [false, true, true, false]);
        assert_eq!(fits(&[("other", "a")]), [false, true, false, true]);
        assert!(Selector::default().fits(&labels(&[])));
        let both = Selector(vec![
            Requirement::Exists(key()),
            Requirement::In("other".into(), values()),
        ]);
        assert!(both.fits(&labels(&[("key", ""), ("other", "b")])));
        assert!(!both.fits(&labels(&[("key", "")])));
    }
}
