//! One step from a value to one of its parts (`structured-merge-diff/fieldpath/element.go`).

use std::fmt;

use serde_json::{Map, Value};

/// A step. Values in steps are canonical JSON, so that equal values are equal texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathElement {
    /// To a field of a map.
    Field(Box<str>),
    /// To the element of a list of maps in which these fields, sorted by name, have these values.
    Key(Box<[(Box<str>, Box<str>)]>),
    /// To this element of a set.
    Value(Box<str>),
    /// To the element at this index. Only clients write it; this server identifies no element by its index.
    Index(i64),
}

impl PathElement {
    pub(crate) fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// The step to an element by its key fields.
    pub(super) fn key(mut fields: Vec<(Box<str>, Box<str>)>) -> Self {
        fields.sort();
        Self::Key(fields.into_boxed_slice())
    }

    /// Reads a name in `FieldsV1`. The outer None is an error, the inner one a kind of step that does not exist yet.
    pub(super) fn read(text: &str) -> Option<Option<Self>> {
        let (prefix, content) = text.split_at_checked(2)?;
        Some(Some(match prefix {
            "f:" => Self::field(content),
            "v:" => Self::Value(canonical(&serde_json::from_str(content).ok()?)),
            "i:" => Self::Index(content.parse().ok()?),
            "k:" => {
                let fields: Map<String, Value> = serde_json::from_str(content).ok()?;
                Self::key(
                    fields
                        .iter()
                        .map(|(name, value)| (name.as_str().into(), canonical(value)))
                        .collect(),
                )
            }
            _ if prefix.ends_with(':') => return Some(None),
            _ => return None,
        }))
    }

    /// Its name in `FieldsV1`.
    pub(super) fn write(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
            Self::Key(fields) => {
                let mut text = "k:{".to_owned();
                for (index, (name, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    text.push_str(&canonical(&Value::String(name.to_string())));
                    text.push(':');
                    text.push_str(value);
                }
                text.push('}');
                text
            }
        }
    }
}

impl fmt::Display for PathElement {
    /// The step in messages: `.data`, `[name="web"]`, `[="a"]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{name}={value}", if index > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
        }
    }
}

/// A value as JSON, the same text for numbers that are equal.
pub(super) fn canonical(value: &Value) -> Box<str> {
    match value.as_f64() {
        // Whole numbers that a float holds exactly; `-0` is 0.
        Some(number) if !value.is_i64() && !value.is_u64() && is_whole(number) => {
            format!("{:.0}", number + 0.0).into_boxed_str()
        }
        _ => value.to_string().into_boxed_str(),
    }
}

fn is_whole(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_written_and_shown() {
        for (text, shown) in [
            ("f:data", ".data"),
            ("f:", "."),
            (r#"v:"a""#, r#"[="a"]"#),
            ("v:1", "[=1]"),
            ("i:-3", "[-3]"),
            (r#"k:{"name":"web"}"#, r#"[name="web"]"#),
            (r#"k:{"port":80,"protocol":"TCP"}"#, r#"[port=80,protocol="TCP"]"#),
        ] {
            let step = PathElement::read(text).flatten().unwrap();
            assert_eq!((step.write().as_str(), step.to_string().as_str()), (text, shown));
        }
    }

    #[test]
    fn equal_numbers_are_one_value() {
        let read = |text| PathElement::read(text).flatten();
        assert_eq!(read("v:1"), read("v:1.0"));
        assert_eq!(read("v:0"), read("v:-0.0"));
        assert_ne!(read("v:1"), read("v:1.5"));
        assert_ne!(read("v:1"), read("v:\"1\""));
        assert_eq!(read(r#"k:{"a":1,"b":2}"#), read(r#"k:{"b":2,"a":1}"#));
    }

    #[test]
    fn steps_of_unknown_kinds_are_no_errors_but_texts_without_kind_are() {
        assert_eq!(PathElement::read("x:new"), Some(None));
        for text in ["", "f", "name", "v:{", "i:one", "k:[]", "é"] {
            assert_eq!(PathElement::read(text), None, "{text}");
        }
    }
}
