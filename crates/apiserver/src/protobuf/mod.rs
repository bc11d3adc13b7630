//! Request bodies in Kubernetes' protobuf encoding, turned into JSON.
//!
//! Typed Go clients send protobuf for built-in kinds and do not fall back when it is refused, so it has to be read.
//! A body is four magic bytes and a `runtime.Unknown` (`apimachinery/pkg/runtime/generated.proto`) that holds the
//! object's own message. The messages are described by small tables, for the kinds that such clients write to
//! workload clusters. Fields that the tables lack are skipped; Go writes fields that are not pointers even when they
//! are zero, so zero values are dropped, as its JSON encoding does for them.

mod schema;
mod wire;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use serde_json::{Map, Value};
use thiserror::Error;

use schema::{Field, Kind, Message};
use wire::Reader;

const MAGIC: &[u8; 4] = b"k8s\0";

/// Messages nest 6 deep at most in the tables.
const DEPTH_MAX: usize = 16;

/// Why a body is not an object.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum ProtobufError {
    /// It does not begin as it should.
    #[error("the body does not begin with the protobuf magic")]
    Magic,
    /// It is damaged.
    #[error("the body is truncated or damaged")]
    Damaged,
    /// It is of a kind that is not in the tables.
    #[error("no protobuf decoder for {0}")]
    UnknownKind(String),
}

/// Decodes a body into a JSON object with `apiVersion` and `kind`.
///
/// # Errors
/// When it is damaged or of a kind that only JSON is read for.
pub(crate) fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let unknown = body.strip_prefix(MAGIC).ok_or(ProtobufError::Magic)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut reader = Reader::new(unknown);
    while let Some((number, value)) = reader.field().ok_or(ProtobufError::Damaged)? {
        match (number, value.bytes()) {
            (1, Some(type_meta)) => {
                let mut reader = Reader::new(type_meta);
                while let Some((number, value)) = reader.field().ok_or(ProtobufError::Damaged)? {
                    let text =
                        value.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default();
                    match number {
                        1 => text.clone_into(&mut api_version),
                        2 => text.clone_into(&mut kind),
                        _ => {}
                    }
                }
            }
            (2, Some(bytes)) => raw = bytes,
            _ => {}
        }
    }
    // Delete options travel under the API version of what is deleted.
    let message =
        schema::message(&kind).ok_or_else(|| ProtobufError::UnknownKind(format!("{api_version} {kind}")))?;
    let mut object = message_to_json(message, raw, 0)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

fn message_to_json(
    message: Message,
    bytes: &[u8],
    depth: usize,
) -> Result<Map<String, Value>, ProtobufError> {
    if depth > DEPTH_MAX {
        return Err(ProtobufError::Damaged);
    }
    let mut object = Map::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field().ok_or(ProtobufError::Damaged)? {
        let Some(Field { name, kind, repeated, .. }) = message.iter().find(|field| field.number == number)
        else {
            continue;
        };
        if let Kind::Map(of) = kind {
            let entry = value.bytes().ok_or(ProtobufError::Damaged)?;
            let (key, item) = map_entry(of, entry)?;
            let map = object.entry(*name).or_insert_with(|| Value::Object(Map::new()));
            map.as_object_mut().expect("a map field is only ever a map").insert(key, item);
            continue;
        }
        let Some(item) = scalar(kind, &value, depth)? else { continue };
        if *repeated {
            let list = object.entry(*name).or_insert_with(|| Value::Array(Vec::new()));
            list.as_array_mut().expect("a repeated field is only ever a list").push(item);
        } else {
            let zero = match &item {
                Value::String(text) => text.is_empty(),
                Value::Object(map) => map.is_empty(),
                Value::Number(number) => number.as_i64() == Some(0) && !matches!(kind, Kind::Pointer),
                _ => false,
            };
            if zero {
                object.remove(*name);
            } else {
                object.insert((*name).to_owned(), item);
            }
        }
    }
    Ok(object)
}

fn scalar(kind: &Kind, value: &wire::Value<'_>, depth: usize) -> Result<Option<Value>, ProtobufError> {
    let text =
        |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| ProtobufError::Damaged);
    let bytes = || value.bytes().ok_or(ProtobufError::Damaged);
    Ok(match kind {
        Kind::Text => Some(Value::String(text(bytes()?)?)),
        Kind::Bytes => Some(Value::String(BASE64.encode(bytes()?))),
        Kind::Integer | Kind::Pointer => {
            Some(value.varint().ok_or(ProtobufError::Damaged)?.cast_signed().into())
        }
        Kind::Truth => Some((value.varint().ok_or(ProtobufError::Damaged)? != 0).into()),
        Kind::Time { micro } => time(bytes()?, *micro)?.map(Value::String),
        Kind::Message(message) => Some(Value::Object(message_to_json(message, bytes()?, depth + 1)?)),
        Kind::Map(_) => None,
    })
}

fn map_entry(of: &Kind, bytes: &[u8]) -> Result<(String, Value), ProtobufError> {
    let (mut key, mut item) = (String::new(), Value::String(String::new()));
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field().ok_or(ProtobufError::Damaged)? {
        match number {
            1 => {
                if let Some(Value::String(text)) = scalar(&Kind::Text, &value, 0)? {
                    key = text;
                }
            }
            2 => {
                if let Some(value) = scalar(of, &value, 0)? {
                    item = value;
                }
            }
            _ => {}
        }
    }
    Ok((key, item))
}

/// `meta.v1.Time` and `MicroTime`: seconds and nanoseconds since the epoch. Go writes its zero time as an empty
/// message; it means no time.
fn time(bytes: &[u8], micro: bool) -> Result<Option<String>, ProtobufError> {
    let (mut seconds, mut nanos) = (None, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field().ok_or(ProtobufError::Damaged)? {
        let integer = value.varint().ok_or(ProtobufError::Damaged)?.cast_signed();
        match number {
            1 => seconds = Some(integer),
            2 => nanos = i32::try_from(integer).unwrap_or(0).clamp(0, 999_999_999),
            _ => {}
        }
    }
    let Some(seconds) = seconds else { return Ok(None) };
    let at = Timestamp::new(seconds, nanos).map_err(|_| ProtobufError::Damaged)?;
    let format = if micro { "%Y-%m-%dT%H:%M:%S%.6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(Some(at.strftime(format).to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
        out.extend(bytes);
        out
    }

    fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &type_meta), field(2, raw), field(3, b""), field(4, b"")].concat()
    }

    #[test]
    fn secret_as_a_go_client_sends_it_is_read() {
        let metadata = [
            field(1, b"bootstrap-token-abc"),
            field(2, b""),
            field(3, b"kube-system"),
            vec![7 << 3, 0],
            field(8, b""),
        ]
        .concat();
        let entry = [field(1, b"token-id"), field(2, b"abc")].concat();
        let raw =
            [field(1, &metadata), field(2, &entry), field(3, b"bootstrap.kubernetes.io/token")].concat();
        assert_eq!(
            decode(&body("v1", "Secret", &raw)).unwrap(),
            json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
                   "metadata": {"name": "bootstrap-token-abc", "namespace": "kube-system"},
                   "data": {"token-id": "YWJj"}})
        );
    }

    #[test]
    fn eviction_with_delete_options_is_read() {
        let metadata = [field(1, b"web"), field(3, b"default")].concat();
        let options = [vec![1 << 3, 0], field(2, &field(1, b"uid-1"))].concat();
        let raw = [field(1, &metadata), field(2, &options)].concat();
        assert_eq!(
            decode(&body("policy/v1", "Eviction", &raw)).unwrap(),
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web", "namespace": "default"},
                   "deleteOptions": {"gracePeriodSeconds": 0, "preconditions": {"uid": "uid-1"}}})
        );
    }

    #[test]
    fn wrong_bodies_say_why() {
        assert_eq!(decode(b"{}"), Err(ProtobufError::Magic));
        assert_eq!(decode(b"k8s\0\x0a\x7f"), Err(ProtobufError::Damaged));
        assert_eq!(decode(&body("v1", "Widget", b"")), Err(ProtobufError::UnknownKind("v1 Widget".into())));
    }

    proptest! {
        #[test]
        fn no_body_panics(
            kind in prop_oneof![Just("Secret"), Just("Lease"), Just("ClusterRole"), Just("Node")],
            raw in proptest::collection::vec(any::<u8>(), 0..120),
        ) {
            let _ = decode(&body("v1", kind, &raw));
            let _ = decode(&[MAGIC.as_slice(), &raw].concat());
        }
    }
}
