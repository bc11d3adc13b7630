//! The messages of the built-in kinds, read once from `messages.txt`: field numbers for decoding protobuf, patch
//! strategies for strategic merge patches, and relations for server-side apply.

use std::{collections::HashMap, sync::LazyLock};

/// A message and its fields.
#[derive(Debug)]
pub(crate) struct Message {
    pub(super) name: &'static str,
    pub(super) fields: Vec<Field>,
    /// Whether server-side apply takes it as one value.
    atomic: bool,
}

/// One field.
#[derive(Debug)]
pub(crate) struct Field {
    pub(super) number: u64,
    /// Its name in JSON. None for a message whose fields are inlined into its parent's JSON.
    pub(super) name: Option<&'static str>,
    pub(super) kind: Kind,
    pub(super) shape: Shape,
    /// Whether its zero value is kept.
    pub(super) zero_kept: bool,
    /// How a strategic merge patch treats it.
    pub(crate) strategy: Strategy,
    /// Whether clients send `$retainKeys` with it. The server obeys that directive in any map.
    pub(super) retain_keys: bool,
    /// How server-side apply treats it. None if that follows from its shape and message.
    relation: Option<Relation>,
}

/// The type of a field, or of each element of a list or map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Bytes,
    Truth,
    Integer,
    Time,
    MicroTime,
    Quantity,
    IntegerOrText,
    /// JSON inside a message.
    Raw,
    /// A message that is a list of strings.
    Texts,
    /// Index of a message.
    Message(usize),
}

/// Whether a field has one value, a list or a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    One,
    List,
    Map,
}

/// How a strategic merge patch treats a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Lists are replaced, maps merged.
    Default,
    /// A map that is replaced as a whole.
    Replace,
    /// A list of scalars that is a set.
    MergeScalars,
    /// A list of maps that is merged element by element, by the value of this field.
    MergeBy(&'static str),
}

/// How server-side apply treats a list or a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// As one value.
    Atomic,
    /// A map, field by field.
    Granular,
    /// A list of scalars that is a set.
    Set,
    /// A list of maps, element by element. The elements differ in the values of these fields.
    By(Box<[ListKey]>),
}

/// A field that identifies the elements of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListKey {
    pub(crate) name: Box<str>,
    /// The value of elements that do not have it, as JSON.
    pub(crate) default: Option<Box<str>>,
}

/// The message of a built-in kind. `group` may be a group with a version, if that version has a message of its own.
pub(crate) fn message(group: &str, kind: &str) -> Option<&'static Message> {
    index(group, kind).map(at)
}

/// The index of that message.
pub(super) fn index(group: &str, kind: &str) -> Option<usize> {
    let kinds = &SCHEMA.kinds;
    // Delete options are sent under the group of the deleted object.
    kinds
        .get(&(group, kind))
        .or_else(|| kinds.get(&("*", kind)))
        .copied()
}

/// Whether a message is that of a kind, and not only a part of others.
pub(super) fn is_kind(message: &'static Message) -> bool {
    SCHEMA
        .kinds
        .values()
        .any(|index| std::ptr::eq(at(*index), message))
}

impl Message {
    pub(super) fn numbered(&self, number: u64) -> Option<&Field> {
        self.fields.iter().find(|field| field.number == number)
    }

    /// Whether server-side apply takes it as one value.
    pub(crate) fn is_atomic(&self) -> bool {
        self.atomic
    }

    /// The field of that name in JSON.
    pub(crate) fn named(&self, name: &str) -> Option<&Field> {
        self.fields
            .iter()
            .find_map(|field| match (field.name, field.message()) {
                (None, Some(inlined)) => inlined.named(name),
                (own, _) => (own == Some(name)).then_some(field),
            })
    }
}

impl Field {
    /// The message type of the field or of its list elements. None for other types.
    pub(crate) fn message(&self) -> Option<&'static Message> {
        self.message_index().map(at)
    }

    /// The index of its message type, as [`Field::message`] gives it.
    pub(super) fn message_index(&self) -> Option<usize> {
        match self.kind {
            Kind::Message(index) if self.shape != Shape::Map => Some(index),
            _ => None,
        }
    }

    /// The message type of the field, or of the elements of its list or map. None for other types.
    pub(crate) fn element(&self) -> Option<&'static Message> {
        match self.kind {
            Kind::Message(index) => Some(at(index)),
            _ => None,
        }
    }

    /// Whether the field has one value: neither a list nor a map.
    pub(crate) fn is_one(&self) -> bool {
        self.shape == Shape::One
    }

    /// Whether a real server always has the field, because it is a struct and not a pointer in Go.
    pub(crate) fn is_always_there(&self) -> bool {
        self.is_one() && matches!(self.kind, Kind::Message(_)) && !self.zero_kept
    }

    /// How server-side apply treats the field itself.
    pub(crate) fn relation(&self) -> &Relation {
        match (&self.relation, self.shape, self.message()) {
            (Some(relation), _, _) => relation,
            (None, Shape::List, _) => &Relation::Atomic,
            (None, Shape::One, Some(message)) if message.atomic => &Relation::Atomic,
            (None, Shape::One | Shape::Map, _) => &Relation::Granular,
        }
    }
}

pub(super) fn at(index: usize) -> &'static Message {
    &SCHEMA.messages[index]
}

struct Schema {
    messages: Vec<Message>,
    kinds: HashMap<(&'static str, &'static str), usize>,
}

/// About 480 messages with 1,900 fields: 140 KB, and a millisecond to read, once in a process.
static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    read(include_str!("messages.txt")).expect("a test checks that the table is well-formed")
});

/// Reads the table. The error is the invalid line.
fn read(text: &'static str) -> Result<Schema, &'static str> {
    let lines = || {
        text.lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
    };
    let names: HashMap<_, _> = lines()
        .filter_map(message_name)
        .enumerate()
        .map(|(index, (name, _))| (name, index))
        .collect();
    let mut schema = Schema {
        messages: Vec::new(),
        kinds: HashMap::new(),
    };
    for line in lines() {
        if let Some(kind) = line.strip_prefix("kind ") {
            let mut words = kind.split(' ');
            let (Some(group), Some(kind), Some(message)) = (words.next(), words.next(), words.next()) else {
                return Err(line);
            };
            let group = if group == "core" { "" } else { group };
            schema
                .kinds
                .insert((group, kind), *names.get(message).ok_or(line)?);
        } else if let Some((name, atomic)) = message_name(line) {
            schema.messages.push(Message {
                name,
                fields: Vec::new(),
                atomic,
            });
        } else {
            let field = read_field(line.trim_start(), &names).ok_or(line)?;
            schema.messages.last_mut().ok_or(line)?.fields.push(field);
        }
    }
    Ok(schema)
}

/// The name of a message and whether it is atomic, from the line that begins it.
fn message_name(line: &'static str) -> Option<(&'static str, bool)> {
    let name = line.strip_prefix("message ")?;
    Some(
        name.strip_suffix(" atomic")
            .map_or((name, false), |name| (name, true)),
    )
}

fn read_field(line: &'static str, names: &HashMap<&'static str, usize>) -> Option<Field> {
    let mut words = line.split(' ');
    let number = words.next()?.parse().ok()?;
    let name = words.next()?;
    let kind = words.next()?;
    let zero_kept = kind.ends_with(['*', '!']);
    let kind = kind.trim_end_matches(['*', '!']);
    let (shape, kind) = match (kind.strip_prefix("[]"), kind.strip_prefix("map:")) {
        (Some(kind), _) => (Shape::List, kind),
        (_, Some(kind)) => (Shape::Map, kind),
        (None, None) => (Shape::One, kind),
    };
    let kind = match kind {
        "string" => Kind::Text,
        "bytes" => Kind::Bytes,
        "bool" => Kind::Truth,
        "int" => Kind::Integer,
        "time" => Kind::Time,
        "microTime" => Kind::MicroTime,
        "quantity" => Kind::Quantity,
        "intOrString" => Kind::IntegerOrText,
        "raw" => Kind::Raw,
        "strings" => Kind::Texts,
        message => Kind::Message(*names.get(message)?),
    };
    let mut words = words.peekable();
    let (strategy, key) = match words.next_if(|word| !word.starts_with("apply:")) {
        None => ("", None),
        Some(word) => word
            .split_once('=')
            .map_or((word, None), |(strategy, key)| (strategy, Some(key))),
    };
    let retain_keys = strategy.ends_with("retainKeys");
    let strategy = match (strategy, key) {
        ("merge" | "merge,retainKeys", Some(key)) => Strategy::MergeBy(key),
        ("merge", None) => Strategy::MergeScalars,
        ("replace", None) => Strategy::Replace,
        ("" | "retainKeys", None) => Strategy::Default,
        _ => return None,
    };
    let relation = match (words.next(), strategy) {
        (Some(word), _) => Some(read_relation(word.strip_prefix("apply:")?)?),
        (None, Strategy::MergeBy(key)) => Some(read_relation(&format!("by={key}"))?),
        (None, Strategy::MergeScalars) => Some(Relation::Set),
        (None, Strategy::Replace) => Some(Relation::Atomic),
        (None, Strategy::Default) => None,
    };
    let name = (name != "+").then_some(name);
    if name.is_none() && !(shape == Shape::One && matches!(kind, Kind::Message(_))) {
        return None;
    }
    Some(Field {
        number,
        name,
        kind,
        shape,
        zero_kept,
        strategy,
        retain_keys,
        relation,
    })
}

fn read_relation(word: &str) -> Option<Relation> {
    let key = |key: &str| match key.split_once(':') {
        None => ListKey {
            name: key.into(),
            default: None,
        },
        Some((name, default)) => ListKey {
            name: name.into(),
            default: Some(format!("{default:?}").into_boxed_str()),
        },
    };
    Some(match (word, word.strip_prefix("by=")) {
        ("atomic", _) => Relation::Atomic,
        ("granular", _) => Relation::Granular,
        ("set", _) => Relation::Set,
        (_, keys) => Relation::By(keys?.split(',').map(key).collect()),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::registry::Registry;

    #[test]
    fn table_is_well_formed() {
        let schema = read(include_str!("messages.txt"))
            .map_err(str::to_owned)
            .map(|s| (s.messages, s.kinds));
        let (messages, kinds) = schema.unwrap();
        assert_eq!(kinds.len(), 69);
        for message in &messages {
            let numbers: BTreeSet<_> = message.fields.iter().map(|field| field.number).collect();
            assert_eq!(
                numbers.len(),
                message.fields.len(),
                "numbers repeat in {message:?}"
            );
        }
        assert_eq!(read("message A\n  1 a Missing").err(), Some("  1 a Missing"));
        assert_eq!(read("message A\n  x a string").err(), Some("  x a string"));
    }

    #[test]
    fn every_built_in_kind_has_a_message() {
        let missing: Vec<_> = Registry::kubernetes()
            .types()
            .filter(|kind| message(&kind.group, &kind.kind).is_none())
            .map(|kind| kind.kind.clone())
            .collect();
        // No client writes a ComponentStatus. No client's scheme has the Go type of a CustomResourceDefinition, so no
        // client sends it as protobuf or uses a strategic merge patch by default.
        assert_eq!(missing, ["ComponentStatus", "CustomResourceDefinition"]);
    }

    #[test]
    fn apply_relates_lists_and_maps_as_the_tags_say() {
        let by = |keys: &[(&str, Option<&str>)]| {
            let key = |(name, default): &(&str, Option<&str>)| ListKey {
                name: (*name).into(),
                default: default.map(Into::into),
            };
            Relation::By(keys.iter().map(key).collect())
        };
        let check = |group: &str, kind: &str, path: &[&str], expected: Relation| {
            let (last, parents) = path.split_last().unwrap();
            let mut message = message(group, kind).unwrap();
            for parent in parents {
                message = message.named(parent).unwrap().element().unwrap();
            }
            assert_eq!(
                *message.named(last).unwrap().relation(),
                expected,
                "{kind} {path:?}"
            );
        };
        let protocol = Some("\"TCP\"");
        check(
            "",
            "Pod",
            &["spec", "containers", "ports"],
            by(&[("containerPort", None), ("protocol", protocol)]),
        );
        check(
            "",
            "Service",
            &["spec", "ports"],
            by(&[("port", None), ("protocol", protocol)]),
        );
        check("", "Service", &["spec", "selector"], Relation::Atomic);
        check("", "Pod", &["spec", "containers"], by(&[("name", None)]));
        check("", "Pod", &["spec", "tolerations"], Relation::Atomic);
        check("", "Pod", &["spec", "nodeSelector"], Relation::Atomic);
        check("apps", "Deployment", &["spec", "selector"], Relation::Atomic);
        check("apps", "Deployment", &["spec", "template"], Relation::Granular);
        check("", "Node", &["spec", "taints"], Relation::Atomic);
        check("", "Node", &["status", "addresses"], by(&[("type", None)]));
        check("", "PersistentVolume", &["spec", "claimRef"], Relation::Granular);
        check("", "ConfigMap", &["data"], Relation::Granular);
        check("", "ConfigMap", &["metadata", "finalizers"], Relation::Set);
        check(
            "",
            "ConfigMap",
            &["metadata", "ownerReferences"],
            by(&[("uid", None)]),
        );
    }

    #[test]
    fn lists_merge_as_the_tags_say() {
        let check = |group: &str, kind: &str, path: &[&str], expected: Strategy| {
            let (last, parents) = path.split_last().unwrap();
            let mut message = message(group, kind).unwrap();
            for parent in parents {
                message = message.named(parent).unwrap().message().unwrap();
            }
            assert_eq!(message.named(last).unwrap().strategy, expected, "{kind} {path:?}");
        };
        let template = |field: &'static str| ["spec", "template", "spec", field];
        check(
            "apps",
            "Deployment",
            &template("containers"),
            Strategy::MergeBy("name"),
        );
        check(
            "apps",
            "DaemonSet",
            &template("volumes"),
            Strategy::MergeBy("name"),
        );
        check("apps", "StatefulSet", &template("tolerations"), Strategy::Default);
        check(
            "",
            "Pod",
            &["spec", "ephemeralContainers", "env"],
            Strategy::MergeBy("name"),
        );
        check(
            "",
            "Pod",
            &["spec", "containers", "ports"],
            Strategy::MergeBy("containerPort"),
        );
        check("", "Service", &["spec", "ports"], Strategy::MergeBy("port"));
        check("", "Node", &["spec", "taints"], Strategy::Default);
        check("", "Node", &["status", "addresses"], Strategy::MergeBy("type"));
        check("", "Secret", &["metadata", "finalizers"], Strategy::MergeScalars);
        check(
            "policy",
            "PodDisruptionBudget",
            &["spec", "selector"],
            Strategy::Replace,
        );
    }
}
