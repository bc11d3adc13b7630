//! Single values: from the wire format to the JSON that Go writes for them.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    ProtobufError, read_message,
    schema::{Kind, at},
    wire::{self, Reader},
};

/// A value. None for the zero time, which means unset.
pub(super) fn read(
    kind: Kind,
    value: &wire::Value<'_>,
    depth: usize,
) -> Result<Option<Value>, ProtobufError> {
    Ok(match kind {
        Kind::Text => Some(value.text()?.into()),
        Kind::Bytes => Some(BASE64.encode(value.bytes()?).into()),
        Kind::Truth => Some((value.varint()? != 0).into()),
        Kind::Integer => Some(value.varint()?.cast_signed().into()),
        Kind::Time => time(value.bytes()?, false)?,
        Kind::MicroTime => time(value.bytes()?, true)?,
        Kind::Quantity => Some(only_text(value.bytes()?)?.into()),
        Kind::IntegerOrText => Some(integer_or_text(value.bytes()?)?),
        Kind::Raw => Some(raw(value.bytes()?)?),
        Kind::Texts => Some(texts(value.bytes()?)?),
        Kind::Message(index) => {
            let mut object = Map::new();
            read_message(at(index), value.bytes()?, &mut object, depth + 1)?;
            Some(Value::Object(object))
        }
    })
}

/// The elements that one field adds to a list: one, or several packed integers.
pub(super) fn read_list(
    kind: Kind,
    value: &wire::Value<'_>,
    depth: usize,
) -> Result<Vec<Value>, ProtobufError> {
    if let (Kind::Integer, wire::Value::Bytes(packed)) = (kind, value) {
        let mut reader = Reader::new(packed);
        let mut items = Vec::new();
        while !reader.is_empty() {
            items.push(reader.varint()?.cast_signed().into());
        }
        return Ok(items);
    }
    Ok(read(kind, value, depth)?.into_iter().collect())
}

/// An entry of a map: a message of key and value. A missing one is zero.
pub(super) fn read_entry(kind: Kind, entry: &[u8], depth: usize) -> Result<(String, Value), ProtobufError> {
    let mut key = String::new();
    let mut item = None;
    let mut reader = Reader::new(entry);
    while let Some((number, value)) = reader.field()? {
        match number {
            1 => key = value.text()?,
            2 => item = read(kind, &value, depth)?,
            _ => {}
        }
    }
    let item = item.unwrap_or_else(|| match kind {
        Kind::Text | Kind::Bytes => "".into(),
        Kind::Quantity => "0".into(),
        Kind::Truth => false.into(),
        Kind::Integer | Kind::IntegerOrText => 0.into(),
        Kind::Texts => json!([]),
        Kind::Time | Kind::MicroTime | Kind::Raw => Value::Null,
        Kind::Message(_) => json!({}),
    });
    Ok((key, item))
}

/// Whether Go's JSON omits this value of a field that is not a pointer.
pub(super) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// `meta.v1.Time` and `MicroTime`: seconds and nanoseconds since the epoch. Go writes its zero time as an empty
/// message; it keeps whole seconds of a Time and microseconds of a MicroTime (`meta/v1/time_proto.go`).
fn time(bytes: &[u8], micro: bool) -> Result<Option<Value>, ProtobufError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut seconds = 0;
    let mut nanoseconds = 0;
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field()? {
        match number {
            1 => seconds = value.varint()?.cast_signed(),
            2 => nanoseconds = i32::try_from(value.varint()?.cast_signed()).unwrap_or(0),
            _ => {}
        }
    }
    let at =
        Timestamp::new(seconds, nanoseconds.clamp(0, 999_999_999)).map_err(|_| ProtobufError::Damaged)?;
    let format = if micro {
        "%Y-%m-%dT%H:%M:%S.%6fZ"
    } else {
        "%Y-%m-%dT%H:%M:%SZ"
    };
    Ok(Some(at.strftime(format).to_string().into()))
}

/// `resource.Quantity`: its text in field 1.
fn only_text(bytes: &[u8]) -> Result<String, ProtobufError> {
    let mut text = String::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field()? {
        if number == 1 {
            text = value.text()?;
        }
    }
    Ok(text)
}

/// `intstr.IntOrString`: type (1 for text), integer, text.
fn integer_or_text(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut is_text = false;
    let mut integer = 0;
    let mut text = String::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field()? {
        match number {
            1 => is_text = value.varint()? == 1,
            2 => integer = value.varint()?.cast_signed(),
            3 => text = value.text()?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { integer.into() })
}

/// `runtime.RawExtension`: JSON in field 1.
fn raw(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut json = Value::Null;
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field()? {
        if number == 1 {
            json = serde_json::from_slice(value.bytes()?).map_err(|_| ProtobufError::Damaged)?;
        }
    }
    Ok(json)
}

/// A message that is a list of strings, such as `authorization.v1.ExtraValue`: items in field 1.
fn texts(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut items = Vec::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field()? {
        if number == 1 {
            items.push(value.text()?.into());
        }
    }
    Ok(Value::Array(items))
}
