//! Request bodies in Kubernetes' protobuf encoding, turned into JSON.
//!
//! Typed Go clients send protobuf for built-in kinds and do not fall back when it is refused. A body is four magic
//! bytes and a `runtime.Unknown` (`apimachinery/pkg/runtime/generated.proto`) that contains the object's own message.
//! Fields that are not in the table of messages are skipped. Go writes non-pointer fields even when they are zero, so
//! zero values are dropped, as in Go's JSON encoding.

pub(crate) mod open_api;
mod schema;
mod unknown;
mod value;
mod wire;

use schema::Shape;
pub(crate) use schema::{Field, ListKey, Message, Relation, Strategy, message};
use serde_json::{Map, Value};
use thiserror::Error;
pub(crate) use unknown::{UnknownFields, of_metadata, unknown_fields};
use wire::Reader;

const MAGIC: &[u8; 4] = b"k8s\0";

/// Messages in the table nest at most 12 deep, from a CronJob to the fields of a volume's source.
const DEPTH_MAX: usize = 24;

/// Why a body is not an object.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum ProtobufError {
    /// The body does not begin with the magic bytes.
    #[error("the body does not begin with the protobuf magic")]
    Magic,
    /// The body is damaged.
    #[error("the body is truncated or damaged")]
    Damaged,
    /// The kind is not in the table.
    #[error("no protobuf decoder for {0}")]
    UnknownKind(String),
}

/// Decodes a body into a JSON object with `apiVersion` and `kind`.
///
/// # Errors
/// When the body is damaged, or its kind is accepted as JSON only.
pub(crate) fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let unknown = body.strip_prefix(MAGIC).ok_or(ProtobufError::Magic)?;
    let mut type_meta = &[][..];
    let mut raw = &[][..];
    let mut reader = Reader::new(unknown);
    while let Some((number, value)) = reader.field()? {
        match number {
            1 => type_meta = value.bytes()?,
            2 => raw = value.bytes()?,
            _ => {}
        }
    }
    let mut api_version = String::new();
    let mut kind = String::new();
    let mut reader = Reader::new(type_meta);
    while let Some((number, value)) = reader.field()? {
        match number {
            1 => api_version = value.text()?,
            2 => kind = value.text()?,
            _ => {}
        }
    }
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let message = message(&api_version, &kind)
        .or_else(|| message(group, &kind))
        .ok_or_else(|| ProtobufError::UnknownKind(format!("{api_version} {kind}").trim().to_owned()))?;
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    read_message(message, raw, &mut object, 0)?;
    Ok(Value::Object(object))
}

/// Reads a message's fields into `object`.
fn read_message(
    message: &Message,
    bytes: &[u8],
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    if depth > DEPTH_MAX {
        return Err(ProtobufError::Damaged);
    }
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field()? {
        let Some(field) = message.numbered(number) else {
            continue;
        };
        match (field.name, field.message()) {
            (Some(name), _) => read_field(field, name, &value, object, depth)?,
            (None, Some(inlined)) => read_message(inlined, value.bytes()?, object, depth + 1)?,
            (None, None) => {}
        }
    }
    Ok(())
}

fn read_field(
    field: &Field,
    name: &str,
    value: &wire::Value<'_>,
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    match field.shape {
        Shape::One => match value::read(field.kind, value, depth)? {
            Some(item) if field.zero_kept || !value::is_zero(&item) => {
                object.insert(name.to_owned(), item);
            }
            _ => {
                object.remove(name);
            }
        },
        Shape::List => {
            let items = value::read_list(field.kind, value, depth)?;
            let list = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            list.as_array_mut()
                .expect("a list field is only ever a list")
                .extend(items);
        }
        Shape::Map => {
            let (key, item) = value::read_entry(field.kind, value.bytes()?, depth)?;
            let map = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
            map.as_object_mut()
                .expect("a map field is only ever a map")
                .insert(key, item);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
