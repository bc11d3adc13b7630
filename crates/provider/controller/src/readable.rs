//! Objects as the management API sends them, each read by itself: one that does not have the shape of its kind does not hide
//! the others of a list or a watch.
//!
//! `DeserializeGuard` of kube does the same, but makes two trees of each object, and leaves nothing of an object of which one
//! field cannot be read.

use std::{borrow::Cow, collections::BTreeMap, fmt::Debug, sync::OnceLock};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, value::RawValue};
use serde_path_to_error::{Path, Segment};

/// A kind of objects that are watched.
pub trait Kind:
    Resource<DynamicType = ()> + Clone + Debug + Default + DeserializeOwned + Serialize + Send + Sync + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = ()>
        + Clone
        + Debug
        + Default
        + DeserializeOwned
        + Serialize
        + Send
        + Sync
        + 'static
{
}

/// The annotation that marks an object in memory of which more than the status cannot be read. It is never written, and
/// removed from what is read.
pub(crate) const MARK: &str = "nephele.dev/unreadable";

/// The most parts that are left out of an object one by one; then its spec is left out, and after that everything but its
/// metadata. Each part costs another reading of the object.
const LEFT_OUT_MAX: usize = 16;

/// The most bytes of a message: values of users are in it.
const MESSAGE_BYTES_MAX: usize = 512;

/// What is wrong with an object of which more than the status cannot be read, for people. Such an object is as if the parts
/// were absent that cannot be read. Its controller tells people, and treats its spec as invalid.
#[must_use]
pub fn unreadable(metadata: &ObjectMeta) -> Option<&str> {
    metadata.annotations.as_ref()?.get(MARK).map(String::as_str)
}

/// An object of the kind `K`, without the parts that cannot be read. Never fails to deserialise from JSON text.
///
/// The object is made of its text when it is first asked for. A list of hundreds is deserialised at once, and whoever takes its
/// objects one by one lets others run between them.
#[derive(Clone, Debug)]
pub struct Readable<K> {
    text: Box<RawValue>,
    made: OnceLock<Made<K>>,
}

/// What a text was made into.
#[derive(Clone, Debug)]
struct Made<K> {
    object: K,
    /// The first part that could not be read, and why.
    mistake: Option<String>,
}

impl<K: Kind> Readable<K> {
    /// The object, and what is wrong with it: `spec.zones[0]: invalid type: integer `3`, expected a string`. An object that
    /// has no name is none.
    pub(crate) fn into_parts(self) -> (Option<K>, Option<String>) {
        let Made { object, mistake } = self.into_made();
        let name = object.meta().name.as_ref();
        let has_name = name.is_some_and(|name| !name.is_empty());
        (Some(object).filter(|_| has_name), mistake)
    }

    /// The bytes of its text.
    pub(crate) fn bytes(&self) -> usize {
        self.text.get().len()
    }

    /// The object.
    pub fn object(&self) -> &K {
        &self.made.get_or_init(|| Made::of(self.text.get())).object
    }

    /// The object.
    pub fn into_object(self) -> K {
        self.into_made().object
    }

    fn into_made(self) -> Made<K> {
        let Self { text, made } = self;
        made.into_inner().unwrap_or_else(|| Made::of(text.get()))
    }
}

impl<K: Kind> Made<K> {
    fn of(text: &str) -> Self {
        let (mut object, mistake, is_marked) = match serde_json::from_str(text) {
            Ok(object) => (object, None, false),
            Err(_) => in_parts(text),
        };
        mark(&mut object, mistake.as_deref().filter(|_| is_marked));
        Self { object, mistake }
    }
}

impl<'de, K: Kind> Deserialize<'de> for Readable<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self {
            text: Box::<RawValue>::deserialize(deserializer)?,
            made: OnceLock::new(),
        })
    }
}

impl<K: Kind> Resource for Readable<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind(dynamic: &()) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &()) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &()) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn plural(dynamic: &()) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        self.object().meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.object();
        let made = self.made.get_mut().expect("it is made above");
        made.object.meta_mut()
    }
}

/// Sets the mark of an object to this text, or removes it.
fn mark<K: Resource>(object: &mut K, text: Option<&str>) {
    let annotations = &mut object.meta_mut().annotations;
    if let Some(text) = text {
        annotations
            .get_or_insert_default()
            .insert(MARK.to_owned(), text.to_owned());
    } else if let Some(present) = annotations
        && present.remove(MARK).is_some()
        && present.is_empty()
    {
        *annotations = None;
    }
}

/// An object without the parts that cannot be read, the first of these parts with the reason, and whether one of them is not
/// in the status. A part that the kind requires takes with it what it is a part of.
fn in_parts<K: Kind>(text: &str) -> (K, Option<String>, bool) {
    let mut noted = Noted::default();
    // Each member by itself: a spec that nests too deep does not hide the metadata.
    let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).unwrap_or_else(|error| {
        noted.note("", &plain(&error));
        BTreeMap::new()
    });
    let mut members: Map<String, Value> = members
        .into_iter()
        .filter_map(|(name, text)| match serde_json::from_str(text.get()) {
            Ok(value) => Some((name, value)),
            Err(error) => {
                noted.note(&name, &plain(&error));
                None
            }
        })
        .collect();
    for _ in 0..LEFT_OUT_MAX {
        let value = Value::Object(members);
        let error = match serde_path_to_error::deserialize(&value) {
            Ok(object) => return noted.with::<K>(object),
            Err(error) => error,
        };
        noted.note(&error.path().to_string(), &plain(error.inner()));
        let Value::Object(rest) = value else {
            return noted.with(K::default());
        };
        members = rest;
        if !leave_out(&mut members, error.path()) {
            break;
        }
    }
    // A kind may have fields that it requires, such as the effect of a Fault.
    let blank = serde_json::to_value(K::default()).ok();
    let blank = |name: &str| blank.as_ref().and_then(|blank| blank.get(name)).cloned();
    members.insert("spec".to_owned(), blank("spec").unwrap_or_default());
    let with_status = members.clone();
    members.remove("status");
    for members in [&with_status, &members] {
        if let Ok(object) = serde_json::from_value(Value::Object(members.clone())) {
            return noted.with(object);
        }
    }
    let mut object = K::default();
    let metadata = members
        .remove("metadata")
        .and_then(|metadata| serde_json::from_value(metadata).ok());
    *object.meta_mut() = metadata.unwrap_or_default();
    noted.with(object)
}

/// What could not be read.
#[derive(Default)]
struct Noted {
    first: Option<(String, String)>,
    is_more_than_status: bool,
}

impl Noted {
    fn note(&mut self, path: &str, reason: &str) {
        self.is_more_than_status |= path != "status" && !path.starts_with("status.");
        self.first
            .get_or_insert_with(|| (path.to_owned(), reason.to_owned()));
    }

    fn with<K: Kind>(self, object: K) -> (K, Option<String>, bool) {
        let message = self.first.map(|(path, reason)| {
            // Reasons repeat values.
            let is_secret = K::kind(&()) == "Secret";
            let mut text = match path.as_str() {
                "" | "." if is_secret => "cannot be read".to_owned(),
                "" | "." => reason,
                _ if is_secret => format!("{path}: cannot be read"),
                _ => format!("{path}: {reason}"),
            };
            let end = (0..=MESSAGE_BYTES_MAX.min(text.len()))
                .rev()
                .find(|end| text.is_char_boundary(*end));
            text.truncate(end.unwrap_or_default());
            text
        });
        (object, message, self.is_more_than_status)
    }
}

/// The reason without a place in the text: another text of the same object has other places.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).map_or(text.clone(), str::to_owned)
}

/// Removes the part of an object that a path leads to, or the smallest part that is there and has it. False if there is none
/// but the object itself.
fn leave_out(members: &mut Map<String, Value>, path: &Path) -> bool {
    let mut steps: Vec<Step> = Vec::new();
    for segment in path {
        steps.push(match segment {
            Segment::Map { key } => Step::Key(key.clone()),
            Segment::Seq { index } => Step::Index(*index),
            Segment::Enum { .. } | Segment::Unknown => break,
        });
    }
    let Some((Step::Key(first), rest)) = steps.split_first() else {
        return false;
    };
    let Some(value) = members.get_mut(first) else {
        return false;
    };
    if !remove(value, rest) {
        members.remove(first);
    }
    true
}

enum Step {
    Key(String),
    Index(usize),
}

/// Removes the part of a value that these steps lead to. False if they lead nowhere.
fn remove(value: &mut Value, steps: &[Step]) -> bool {
    let Some((step, rest)) = steps.split_first() else {
        return false;
    };
    match (step, value) {
        (Step::Key(key), Value::Object(members)) => match members.get_mut(key) {
            None => false,
            Some(part) => remove(part, rest) || members.remove(key).is_some(),
        },
        (Step::Index(index), Value::Array(items)) => match items.get_mut(*index) {
            None => false,
            Some(part) => {
                if !remove(part, rest) {
                    items.remove(*index);
                }
                true
            }
        },
        _ => false,
    }
}
