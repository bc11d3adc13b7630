//! The namespaces that an extension is called for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// A label selector as Kubernetes writes it (apimachinery, `metav1.LabelSelector`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Required labels with their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: Labels,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// A requirement of a [`LabelSelector`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelectorRequirement {
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// The values, for `In` and `NotIn`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// A validated selector. It matches nothing, everything, or the labels that meet all requirements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Option<Vec<Requirement>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

/// Why a [`LabelSelector`] is invalid.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SelectorError {
    /// The operator is unknown.
    #[error("{0:?} is not an operator of a label selector")]
    Operator(String),
    /// Values are missing.
    #[error("the operator {operator} of label {key:?} needs values")]
    NoValues { key: String, operator: String },
    /// Values are not allowed.
    #[error("the operator {operator} of label {key:?} takes no values")]
    Values { key: String, operator: String },
    /// The label has no name.
    #[error("the selector has a label without a name")]
    Key,
}

impl Selector {
    /// Validates a selector. As in Kubernetes, no selector matches nothing, and an empty selector matches everything.
    ///
    /// # Errors
    /// When an operator is unknown or has the wrong values.
    pub fn new(selector: Option<&LabelSelector>) -> Result<Self, SelectorError> {
        let Some(selector) = selector else {
            return Ok(Self(None));
        };
        let mut requirements = Vec::new();
        for (key, value) in &selector.match_labels {
            requirements.push(Requirement::new(key, Operator::In(vec![value.clone()]))?);
        }
        for LabelSelectorRequirement {
            key,
            operator,
            values,
        } in &selector.match_expressions
        {
            let (empty, parsed) = match operator.as_str() {
                "In" => (false, Operator::In(values.clone())),
                "NotIn" => (false, Operator::NotIn(values.clone())),
                "Exists" => (true, Operator::Exists),
                "DoesNotExist" => (true, Operator::DoesNotExist),
                other => return Err(SelectorError::Operator(other.to_owned())),
            };
            match (empty, values.is_empty()) {
                (true, false) => {
                    return Err(SelectorError::Values {
                        key: key.clone(),
                        operator: operator.clone(),
                    });
                }
                (false, true) => {
                    return Err(SelectorError::NoValues {
                        key: key.clone(),
                        operator: operator.clone(),
                    });
                }
                _ => requirements.push(Requirement::new(key, parsed)?),
            }
        }
        Ok(Self(Some(requirements)))
    }

    /// Whether the selector matches everything, so that labels need not be read.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.0.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether the selector matches nothing, whatever the labels.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.0.is_none()
    }

    /// Whether the selector matches these labels.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.as_ref().is_some_and(|requirements| {
            requirements.iter().all(
                |Requirement { key, operator }| match (operator, labels.get(key)) {
                    (Operator::In(values), Some(value)) => values.contains(value),
                    (Operator::NotIn(values), Some(value)) => !values.contains(value),
                    (Operator::Exists, value) => value.is_some(),
                    (Operator::DoesNotExist, value) => value.is_none(),
                    (Operator::In(_), None) => false,
                    (Operator::NotIn(_), None) => true,
                },
            )
        })
    }
}

impl Requirement {
    fn new(key: &str, operator: Operator) -> Result<Self, SelectorError> {
        if key.is_empty() {
            return Err(SelectorError::Key);
        }
        Ok(Self {
            key: key.to_owned(),
            operator,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selector(value: serde_json::Value) -> Result<Selector, SelectorError> {
        Selector::new(Some(&serde_json::from_value(value).unwrap()))
    }

    /// NS-1, NS-3.
    #[test]
    fn all_requirements_have_to_be_fulfilled() {
        let labels: Labels = [("kubernetes.io/metadata.name", "ns1"), ("team", "a")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let expression = |key: &str, operator: &str, values: &[&str]| json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
        for (value, expected) in [
            (json!({}), true),
            (json!({ "matchLabels": { "team": "a" } }), true),
            (json!({ "matchLabels": { "team": "b" } }), false),
            (json!({ "matchLabels": { "team": "a", "other": "" } }), false),
            (
                expression("kubernetes.io/metadata.name", "In", &["ns1", "ns2"]),
                true,
            ),
            (expression("kubernetes.io/metadata.name", "In", &["ns2"]), false),
            (expression("absent", "In", &["ns2"]), false),
            (expression("team", "NotIn", &["b"]), true),
            (expression("team", "NotIn", &["a"]), false),
            (expression("absent", "NotIn", &["a"]), true),
            (expression("team", "Exists", &[]), true),
            (expression("absent", "Exists", &[]), false),
            (expression("team", "DoesNotExist", &[]), false),
            (expression("absent", "DoesNotExist", &[]), true),
        ] {
            assert_eq!(
                selector(value.clone()).unwrap().matches(&labels),
                expected,
                "{value}"
            );
        }
    }

    #[test]
    fn none_at_all_matches_nothing_and_an_empty_one_everything() {
        let nothing = Selector::new(None).unwrap();
        assert!(nothing.is_nothing() && !nothing.is_everything() && !nothing.matches(&Labels::new()));
        let everything = selector(json!({})).unwrap();
        assert!(everything.is_everything() && everything.matches(&Labels::new()));
    }

    #[test]
    fn what_kubernetes_would_refuse_is_refused() {
        let one = |key: &str, operator: &str, values: &[&str]| {
            selector(json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] }))
        };
        assert_eq!(one("a", "Is", &["b"]), Err(SelectorError::Operator("Is".into())));
        let key = "a".to_owned();
        let operator = "In".to_owned();
        assert_eq!(
            one("a", "In", &[]),
            Err(SelectorError::NoValues {
                key: key.clone(),
                operator
            })
        );
        let operator = "Exists".to_owned();
        assert_eq!(
            one("a", "Exists", &["b"]),
            Err(SelectorError::Values { key, operator })
        );
        assert_eq!(one("", "Exists", &[]), Err(SelectorError::Key));
    }
}
