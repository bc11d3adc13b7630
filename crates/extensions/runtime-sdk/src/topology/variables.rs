//! The variables that apply to a template, and paths into them.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

use crate::{hooks::Variable, wire};

/// The variable that Cluster API sets itself.
const BUILTIN: &str = "builtin";

/// Variables by name.
///
/// A path is a variable's name, followed by members and elements: `builtin.controlPlane.version`, `files[0].path`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variables(BTreeMap<String, Value>);

/// Why there is no value.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum VariableError {
    /// There is no variable of that name, or its value has no such member.
    #[error("variable {path:?} not found")]
    NotFound { path: String },
    /// The path is malformed.
    #[error("{path:?} is not a path to a variable")]
    Path { path: String },
    /// An index is used on a value that is not a list, or is out of range.
    #[error("variable {path:?} has no element {index}")]
    Element { path: String, index: usize },
    /// The value has another type.
    #[error("variable {path:?} is not {expected}: {reason}")]
    Type {
        path: String,
        expected: &'static str,
        reason: String,
    },
    /// The builtin variables of a template cannot be merged with those of all templates.
    #[error("failed to merge builtin variables: expected objects")]
    Builtin,
}

impl Variables {
    /// The variables of all templates, overridden by those of one template. `builtin` is merged member by member.
    ///
    /// # Errors
    /// When both lists have `builtin` and one of the two is not an object.
    pub fn merged(all: &[Variable], one: &[Variable]) -> Result<Self, VariableError> {
        // Within one list, the last variable of a name counts.
        let mut variables: BTreeMap<String, Value> = all
            .iter()
            .map(|variable| (variable.name.clone(), variable.value.clone()))
            .collect();
        let one: BTreeMap<&str, &Value> = one
            .iter()
            .map(|variable| (variable.name.as_str(), &variable.value))
            .collect();
        for (name, value) in one {
            match variables.get_mut(name) {
                Some(builtin) if name == BUILTIN => {
                    if !builtin.is_object() || !value.is_object() {
                        return Err(VariableError::Builtin);
                    }
                    lay_over(builtin, value);
                }
                _ => {
                    variables.insert(name.to_owned(), value.clone());
                }
            }
        }
        Ok(Self(variables))
    }

    /// The value at a path.
    ///
    /// # Errors
    /// When the path is malformed, or there is no value; a missing member is [`VariableError::NotFound`].
    pub fn get(&self, path: &str) -> Result<&Value, VariableError> {
        let mut steps = steps(path)?.into_iter();
        let not_found = || VariableError::NotFound {
            path: path.to_owned(),
        };
        let Some(Step::Member(name)) = steps.next() else {
            return Err(VariableError::Path {
                path: path.to_owned(),
            });
        };
        let mut value = self.0.get(name).ok_or_else(not_found)?;
        for step in steps {
            value = match step {
                Step::Member(name) => value.get(name).ok_or_else(not_found)?,
                Step::Element(index) => {
                    value.as_array().and_then(|list| list.get(index)).ok_or_else(|| {
                        VariableError::Element {
                            path: path.to_owned(),
                            index,
                        }
                    })?
                }
            };
        }
        Ok(value)
    }

    /// The value at a path, if there is one.
    ///
    /// # Errors
    /// When the path is malformed or an element of a list does not exist.
    pub fn find(&self, path: &str) -> Result<Option<&Value>, VariableError> {
        match self.get(path) {
            Ok(value) => Ok(Some(value)),
            Err(VariableError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The string at a path.
    ///
    /// # Errors
    /// When there is no value of that type.
    pub fn string(&self, path: &str) -> Result<&str, VariableError> {
        let value = self.get(path)?;
        value.as_str().ok_or_else(|| mistyped(path, "a string", value))
    }

    /// The boolean at a path.
    ///
    /// # Errors
    /// When there is no value of that type.
    pub fn bool(&self, path: &str) -> Result<bool, VariableError> {
        let value = self.get(path)?;
        value
            .as_bool()
            .ok_or_else(|| mistyped(path, "true or false", value))
    }

    /// The value at a path, decoded.
    ///
    /// # Errors
    /// When there is no value of that type.
    pub fn decode<T: DeserializeOwned>(&self, path: &str) -> Result<T, VariableError> {
        wire::from_value(self.get(path)?.clone()).map_err(|error| VariableError::Type {
            path: path.to_owned(),
            expected: "of the expected type",
            reason: error.to_string(),
        })
    }
}

fn mistyped(path: &str, expected: &'static str, value: &Value) -> VariableError {
    VariableError::Type {
        path: path.to_owned(),
        expected,
        reason: format!("it is {value}"),
    }
}

/// Merges an object over another, member by member.
fn lay_over(below: &mut Value, above: &Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                lay_over(below.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (below, above) => *below = above.clone(),
    }
}

enum Step<'a> {
    Member(&'a str),
    Element(usize),
}

fn steps(path: &str) -> Result<Vec<Step<'_>>, VariableError> {
    let wrong = || VariableError::Path {
        path: path.to_owned(),
    };
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (name, mut brackets) = part.split_at(part.find('[').unwrap_or(part.len()));
        if name.is_empty() || name.contains(']') {
            return Err(wrong());
        }
        steps.push(Step::Member(name));
        while !brackets.is_empty() {
            let (index, rest) = brackets
                .strip_prefix('[')
                .and_then(|rest| rest.split_once(']'))
                .ok_or_else(wrong)?;
            if !index.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(wrong());
            }
            steps.push(Step::Element(index.parse().map_err(|_| wrong())?));
            brackets = rest;
        }
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn variables() -> Variables {
        let all = [
            Variable {
                name: "text".into(),
                value: serde_json::from_str(r#""a\/b \u003c \ud83d\ude00""#).unwrap(),
            },
            Variable {
                name: "yes".into(),
                value: json!(true),
            },
            Variable {
                name: "list".into(),
                value: json!([[1, 2], { "x": { "y": "z" } }]),
            },
            Variable {
                name: "item".into(),
                value: json!("all"),
            },
            Variable {
                name: "builtin".into(),
                value: json!({ "cluster": { "name": "c", "metadata": { "labels": { "a": "1" } } } }),
            },
        ];
        let one = [
            Variable {
                name: "item".into(),
                value: json!("one"),
            },
            Variable {
                name: "builtin".into(),
                value: json!({ "cluster": { "metadata": { "labels": { "b": "2" } } }, "controlPlane": { "version": "v1.36.0" } }),
            },
        ];
        Variables::merged(&all, &one).unwrap()
    }

    /// VAR-1, VAR-2.
    #[test]
    fn a_wrong_path_and_an_absent_value_are_told_apart() {
        let variables = variables();
        for path in [
            "invalid[", "list[0", "list]", "list[a]", "list[-1]", "list[+1]", "list[]", "", ".a", "list[0]x",
            "[0]",
        ] {
            assert_eq!(
                variables.get(path),
                Err(VariableError::Path { path: path.into() }),
                "{path}"
            );
        }
        for path in [
            "absent",
            "builtin.absent",
            "text.member",
            "list[1].absent",
            "list.x",
        ] {
            assert_eq!(
                variables.get(path),
                Err(VariableError::NotFound { path: path.into() }),
                "{path}"
            );
            assert_eq!(variables.find(path), Ok(None));
        }
        for (path, index) in [("list[2]", 2), ("text[0]", 0)] {
            assert_eq!(
                variables.get(path),
                Err(VariableError::Element {
                    path: path.into(),
                    index
                }),
                "{path}"
            );
        }
    }

    /// VAR-3, VAR-4.
    #[test]
    fn values_are_read_as_json_has_them() {
        let variables = variables();
        assert_eq!(variables.string("text"), Ok("a/b < \u{1f600}"));
        assert_eq!(variables.bool("yes"), Ok(true));
        assert_eq!(variables.get("list[0][1]"), Ok(&json!(2)));
        assert_eq!(variables.string("list[1].x.y"), Ok("z"));
        assert_eq!(variables.decode::<Vec<i32>>("list[0]"), Ok(vec![1, 2]));
        assert!(matches!(variables.string("yes"), Err(VariableError::Type { .. })));
        assert!(matches!(variables.bool("text"), Err(VariableError::Type { .. })));
        assert!(matches!(
            variables.decode::<Vec<i32>>("text"),
            Err(VariableError::Type { .. })
        ));
    }

    /// VAR-5, WALK-1.
    #[test]
    fn those_of_a_template_are_over_those_of_all_and_builtin_is_merged() {
        let variables = variables();
        assert_eq!(variables.string("item"), Ok("one"));
        assert_eq!(variables.string("builtin.cluster.name"), Ok("c"));
        assert_eq!(
            variables.get("builtin.cluster.metadata.labels"),
            Ok(&json!({ "a": "1", "b": "2" }))
        );
        assert_eq!(variables.string("builtin.controlPlane.version"), Ok("v1.36.0"));
        let wrong = [Variable {
            name: "builtin".into(),
            value: json!("{"),
        }];
        let right = [Variable {
            name: "builtin".into(),
            value: json!({}),
        }];
        assert_eq!(Variables::merged(&wrong, &right), Err(VariableError::Builtin));
        assert_eq!(Variables::merged(&right, &wrong), Err(VariableError::Builtin));
    }

    proptest! {
        #[test]
        fn no_path_panics(path in "[a-c\\[\\].0-9-]{0,12}|\\PC{0,12}") {
            let _ = variables().get(&path);
        }
    }
}
