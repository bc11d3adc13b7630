//! Reads a value and counts the memory that it takes: a few anchors in YAML can stand for any number of values.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::TOO_LARGE;

/// A list, with room for its first items: `Vec` begins with four.
const LIST_BYTES: usize = 4 * ITEM_BYTES;
/// An item of a list. A list has room for up to twice its items.
const ITEM_BYTES: usize = 2 * size_of::<Value>();
/// An object with members: a node of a B-tree, with room for eleven names and values and the links of an inner node.
const OBJECT_BYTES: usize = 11 * (size_of::<String>() + size_of::<Value>()) + 14 * size_of::<usize>();
/// A member of an object. The nodes of the tree are at least half full.
const MEMBER_BYTES: usize = OBJECT_BYTES / 5;
/// What the allocator adds to a text at most.
const TEXT_BYTES: usize = 16;

/// Reads a value, and takes its memory from what is left.
pub(crate) struct Counted<'a> {
    pub(crate) left: &'a mut usize,
    /// Whether an object must not have two members of one name.
    pub(crate) is_strict: bool,
}

impl Counted<'_> {
    fn take<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        let left = self.left.checked_sub(bytes);
        *self.left = left.ok_or_else(|| E::custom(TOO_LARGE))?;
        Ok(())
    }

    fn inner(&mut self) -> Counted<'_> {
        Counted {
            left: self.left,
            is_strict: self.is_strict,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Counted<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counted<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value as JSON has it")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    /// An empty document.
    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E: Error>(mut self, value: &str) -> Result<Value, E> {
        self.take(value.len().saturating_add(TEXT_BYTES))?;
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        self.take(LIST_BYTES)?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.inner())? {
            self.take(ITEM_BYTES)?;
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Value, A::Error> {
        self.take(OBJECT_BYTES)?;
        let mut map = Map::new();
        while let Some(name) = members.next_key_seed(self.inner())? {
            self.take(MEMBER_BYTES)?;
            let name = match name {
                Value::String(text) => text,
                Value::Number(number) => number.to_string(),
                Value::Bool(truth) => truth.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    return Err(A::Error::custom("the name of a member must be a text"));
                }
            };
            if self.is_strict && map.contains_key(&name) {
                return Err(A::Error::custom(format!("{name:?} is there twice")));
            }
            map.insert(name, members.next_value_seed(self.inner())?);
        }
        Ok(map.into())
    }
}
