//! Reads a value of bounded size: a few anchors in YAML can stand for any number of values.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// What a value takes up beside its text, in bytes.
pub(crate) const VALUE_BYTES: usize = 32;

/// Reads a value, and takes its size from what is left.
pub(crate) struct Bounded<'a> {
    /// In bytes.
    pub(crate) left: &'a mut usize,
}

impl Bounded<'_> {
    fn take<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        let left = self.left.checked_sub(bytes.saturating_add(VALUE_BYTES));
        *self.left = left.ok_or_else(|| E::custom("it is too large with its anchors resolved"))?;
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value as JSON has it")
    }

    fn visit_unit<E: Error>(mut self) -> Result<Value, E> {
        self.take(0).map(|()| Value::Null)
    }

    /// An empty document.
    fn visit_none<E: Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }

    fn visit_bool<E: Error>(mut self, value: bool) -> Result<Value, E> {
        self.take(0).map(|()| value.into())
    }

    fn visit_i64<E: Error>(mut self, value: i64) -> Result<Value, E> {
        self.take(0).map(|()| value.into())
    }

    fn visit_u64<E: Error>(mut self, value: u64) -> Result<Value, E> {
        self.take(0).map(|()| value.into())
    }

    fn visit_f64<E: Error>(mut self, value: f64) -> Result<Value, E> {
        self.take(0)?;
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E: Error>(mut self, value: &str) -> Result<Value, E> {
        self.take(value.len()).map(|()| value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        self.take(0)?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Bounded { left: self.left })? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Value, A::Error> {
        self.take(0)?;
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            self.take(name.len())?;
            let value = members.next_value_seed(Bounded { left: self.left })?;
            if map.insert(name.clone(), value).is_some() {
                return Err(A::Error::custom(format!("{name:?} is there twice")));
            }
        }
        Ok(map.into())
    }
}
