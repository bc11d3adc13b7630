//! Label and field selectors (`apimachinery/pkg/labels/selector.go`, `pkg/fields/selector.go`).

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Number, Value};

use super::status::ApiError;
use crate::{registry::ResourceType, store::Object};

/// Requirements on labels; all must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    GreaterThan(i64),
    LessThan(i64),
}

impl LabelSelector {
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        split_outside_parentheses(text)
            .into_iter()
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(requirement)
            .collect::<Option<Vec<_>>>()
            .map(Self)
            .ok_or_else(|| {
                ApiError::bad_request(format!(
                    "unable to parse requirement: {text:?} is not a label selector"
                ))
            })
    }

    /// Reads the `LabelSelector` object of an API type (`matchLabels`, `matchExpressions`).
    pub(crate) fn from_object(selector: &Value) -> Self {
        let labels = selector["matchLabels"].as_object().cloned().unwrap_or_default();
        let equal = labels.into_iter().map(|(key, value)| Requirement {
            key,
            test: Test::In(vec![value.as_str().unwrap_or_default().to_owned()]),
        });
        let expressions = selector["matchExpressions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let expressed = expressions.into_iter().filter_map(|expression| {
            let values = || {
                let values = expression["values"].as_array().cloned().unwrap_or_default();
                values
                    .iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect()
            };
            let test = match expression["operator"].as_str()? {
                "In" => Test::In(values()),
                "NotIn" => Test::NotIn(values()),
                "Exists" => Test::Exists,
                "DoesNotExist" => Test::Absent,
                _ => return None,
            };
            Some(Requirement {
                key: expression["key"].as_str()?.to_owned(),
                test,
            })
        });
        Self(equal.chain(expressed).collect())
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        self.0.iter().all(|Requirement { key, test }| {
            let value = object.label(key);
            let number = || value.and_then(|value| value.parse::<i64>().ok());
            match test {
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
                Test::In(values) => value.is_some_and(|value| values.iter().any(|other| other == value)),
                Test::NotIn(values) => value.is_none_or(|value| values.iter().all(|other| other != value)),
                Test::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
                Test::LessThan(bound) => number().is_some_and(|number| number < *bound),
            }
        })
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

fn requirement(part: &str) -> Option<Requirement> {
    let made = |key: &str, test| {
        let key = key.trim();
        let word = !key.is_empty() && !key.contains(|c: char| c.is_whitespace() || "()=!<>,".contains(c));
        word.then(|| Requirement {
            key: key.to_owned(),
            test,
        })
    };
    let value = |text: &str| text.trim().to_owned();
    let set = |text: &str| -> Option<Vec<String>> {
        let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some(inner.split(',').map(value).collect())
    };
    if let Some(key) = part.strip_prefix('!') {
        return made(key, Test::Absent);
    }
    if let Some((key, rest)) = part.split_once("!=") {
        return made(key, Test::NotIn(vec![value(rest)]));
    }
    if let Some((key, rest)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return made(key, Test::In(vec![value(rest)]));
    }
    if let Some((key, rest)) = part
        .split_once(" notin ")
        .or_else(|| split_before_set(part, " notin"))
    {
        return made(key, Test::NotIn(set(rest)?));
    }
    if let Some((key, rest)) = part.split_once(" in ").or_else(|| split_before_set(part, " in")) {
        return made(key, Test::In(set(rest)?));
    }
    if let Some((key, rest)) = part.split_once('>') {
        return made(key, Test::GreaterThan(rest.trim().parse().ok()?));
    }
    if let Some((key, rest)) = part.split_once('<') {
        return made(key, Test::LessThan(rest.trim().parse().ok()?));
    }
    made(part, Test::Exists)
}

/// `key in(a,b)`: the space before the parenthesis is optional.
fn split_before_set<'a>(part: &'a str, operator: &str) -> Option<(&'a str, &'a str)> {
    let at = part.find('(')?;
    Some((part[..at].strip_suffix(operator)?, &part[at..]))
}

/// Requirements on fields; all must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector(Vec<FieldRequirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    path: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        let parse = |part: &str| {
            let (path, value, equal) = if let Some((path, value)) = part.split_once("!=") {
                (path, value, false)
            } else {
                let (path, value) = part.split_once("==").or_else(|| part.split_once('='))?;
                (path, value, true)
            };
            Some(FieldRequirement {
                path: path.trim().to_owned(),
                value: value.trim().to_owned(),
                equal,
            })
        };
        text.split(',')
            .filter(|part| !part.trim().is_empty())
            .map(parse)
            .collect::<Option<Vec<_>>>()
            .map(Self)
            .ok_or_else(|| ApiError::bad_request(format!("invalid selector: {text:?}; can't understand it")))
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether objects are parsed to find their fields.
    pub(crate) fn parses(&self) -> bool {
        let is_indexed = |path: &str| matches!(path, "metadata.name" | "metadata.namespace");
        self.0.iter().any(|requirement| !is_indexed(&requirement.path))
    }

    /// Refuses fields that the real server has no index for.
    pub(crate) fn check(&self, kind: &ResourceType, version: &str) -> Result<(), ApiError> {
        let known = |path: &str| {
            if matches!(path, "metadata.name" | "metadata.namespace") {
                return true;
            }
            if kind.custom {
                let mut fields = kind.selectable_fields.iter();
                return fields.any(|(of, field)| of == version && field == path);
            }
            let of_kind: &[&str] = match (kind.group.as_str(), kind.kind.as_str()) {
                ("", "Pod") => &[
                    "spec.nodeName",
                    "spec.restartPolicy",
                    "spec.schedulerName",
                    "spec.serviceAccountName",
                    "spec.hostNetwork",
                    "status.phase",
                    "status.podIP",
                    "status.nominatedNodeName",
                ],
                ("", "Node") => &["spec.unschedulable"],
                ("", "Namespace") => &["status.phase"],
                ("", "Secret") => &["type"],
                ("", "Event") => &[
                    "involvedObject.kind",
                    "involvedObject.namespace",
                    "involvedObject.name",
                    "involvedObject.uid",
                    "involvedObject.apiVersion",
                    "involvedObject.resourceVersion",
                    "involvedObject.fieldPath",
                    "reason",
                    "reportingComponent",
                    "source",
                    "type",
                ],
                ("", "Service") => &["spec.clusterIP", "spec.type"],
                ("" | "apps", "ReplicationController" | "ReplicaSet") => &["status.replicas"],
                ("certificates.k8s.io", "CertificateSigningRequest") => &["spec.signerName"],
                ("resource.k8s.io", "ResourceSlice") => &["spec.nodeName", "spec.driver"],
                ("batch", "Job") => &["status.successful"],
                _ => &[],
            };
            of_kind.contains(&path)
        };
        match self.0.iter().find(|requirement| !known(&requirement.path)) {
            None => Ok(()),
            Some(requirement) if kind.custom => Err(ApiError::bad_request(format!(
                "field label not supported: {}",
                requirement.path
            ))),
            Some(requirement) => Err(ApiError::bad_request(format!(
                "field label {:?} not supported for kind {:?}",
                requirement.path, kind.kind
            ))),
        }
    }

    pub(crate) fn matches(&self, kind: &ResourceType, object: &Object) -> bool {
        self.0.iter().all(|FieldRequirement { path, value, equal }| {
            let holds = match path.as_str() {
                "metadata.name" => *object.name == **value,
                "metadata.namespace" => *object.namespace == **value,
                // The other fields are requested rarely, so they are not indexed.
                path => field_text(kind, &object.bytes, path) == *value,
            };
            holds == *equal
        })
    }
}

/// The text of a field of a stored object. Keeps nothing of the object but this field.
fn field_text(kind: &ResourceType, object: &[u8], path: &str) -> String {
    let mut json = serde_json::Deserializer::from_slice(object);
    let found = Field(path.split('.')).deserialize(&mut json);
    match found.expect("stored bytes were serialised from a JSON value") {
        Some(text) => text,
        // Go's field sets render missing booleans of built-in kinds as "false".
        None if !kind.custom && matches!(path, "spec.unschedulable" | "spec.hostNetwork") => {
            "false".to_owned()
        }
        None => String::new(),
    }
}

/// Reads the scalar at a path, and skips everything else. None if nothing is there; empty for what is no scalar.
struct Field<'p>(std::str::Split<'p, char>);

impl<'de> DeserializeSeed<'de> for Field<'_> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Field<'_> {
    /// A scalar is the field if the path ends here.
    fn scalar(mut self, text: &(impl ToString + ?Sized)) -> Option<String> {
        self.0.next().is_none().then(|| text.to_string())
    }
}

impl<'de> Visitor<'de> for Field<'_> {
    type Value = Option<String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(self.scalar(&value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(self.scalar(&Number::from(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(self.scalar(&Number::from(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Number::from_f64(value).and_then(|number| self.scalar(&number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(self.scalar(&value))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(self.scalar(""))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(self.scalar(""))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        let wanted = self.0.next();
        let mut found = wanted.is_none().then(String::new);
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            if wanted == Some(&*name) {
                found = map.next_value_seed(Field(self.0.clone()))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{registry::Registry, store::GroupResource};

    #[test]
    fn no_pattern_takes_longer_than_its_length_allows() {
        nephele_growth::assert_linear("label selector", 64 * 1024, &["", "a in ("], |text| {
            let _ = LabelSelector::parse(text);
        });
        nephele_growth::assert_linear("field selector", 64 * 1024, &["", "a="], |text| {
            let _ = FieldSelector::parse(text);
        });
    }

    fn object() -> Object {
        let value = json!({"metadata": {"name": "a", "namespace": "x", "labels": {"app": "web", "tier": "2"}},
                           "spec": {"nodeName": "n1"}});
        Object::new(&value, 1)
    }

    fn label(text: &str) -> bool {
        LabelSelector::parse(text).unwrap().matches(&object())
    }

    #[test]
    fn label_selectors_select_as_kubernetes_does() {
        let holds = [
            "",
            "app",
            "app=web",
            "app==web",
            "app!=db",
            "!gone",
            "app in (web,db)",
            "app in(web)",
            "gone notin (x)",
            "app,tier",
            "tier>1",
            "tier<3",
            "app in (web),tier=2",
        ];
        let fails = [
            "gone",
            "app=db",
            "app!=web",
            "!app",
            "app in (db)",
            "app notin (web)",
            "tier>2",
            "app,gone",
        ];
        for text in holds {
            assert!(label(text), "{text}");
        }
        for text in fails {
            assert!(!label(text), "{text}");
        }
        for text in ["app in web", "a b", "=", "app in (web", "tier>x"] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn field_selectors_select_by_path() {
        let pods = Registry::kubernetes()
            .get(&GroupResource::new("", "pods"))
            .unwrap()
            .clone();
        let matches = |text: &str| FieldSelector::parse(text).unwrap().matches(&pods, &object());
        assert!(matches("metadata.name=a,spec.nodeName==n1"));
        assert!(matches("spec.unschedulable=false"));
        assert!(!matches("spec.nodeName!=n1"));
        assert!(FieldSelector::parse("nonsense").is_err());
        let check = |text: &str| FieldSelector::parse(text).unwrap().check(&pods, "v1");
        assert!(check("spec.nodeName=x").is_ok());
        assert!(check("spec.volumes=x").is_err());
    }
}
