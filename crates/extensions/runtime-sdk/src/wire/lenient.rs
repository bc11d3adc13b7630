//! Reads JSON as Go's `encoding/json` does: field names match in any letter case, and any value may be `null`.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserializer,
    de::{self, DeserializeOwned, DeserializeSeed, EnumAccess, MapAccess, SeqAccess, Visitor},
    forward_to_deserialize_any,
};
use serde_json::Value;

/// Reads a single value, as Go's `json.Unmarshal` reads a request.
///
/// Field names match in any ASCII letter case, and `null` means absent. Unlike in Go, a repeated field is an error,
/// and so are more than 128 levels and strings that are not UTF-8. A field with `#[serde(flatten)]`, and everything in
/// it, is read strictly.
///
/// # Errors
/// When the bytes are not JSON, do not have that type, or contain more than one value.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = T::deserialize(Lenient(&mut deserializer))?;
    deserializer.end()?;
    Ok(value)
}

/// Reads the first value in the bytes, as Cluster API reads a response. The rest is ignored.
///
/// # Errors
/// When the value is not JSON or does not have that type.
pub fn from_prefix<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    T::deserialize(Lenient(&mut serde_json::Deserializer::from_slice(bytes)))
}

/// Reads a value, with the same leniency.
///
/// # Errors
/// When the value does not have that type.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, serde_json::Error> {
    T::deserialize(Lenient(value))
}

/// The meaning of `null`.
#[derive(Clone, Copy)]
enum Null {
    Unit,
    False,
    Zero,
    Empty,
    Sequence,
    Map,
    Struct,
}

/// Makes the deserializer of a self-describing format lenient, at every level.
struct Lenient<D>(D);

macro_rules! forward {
    ($($method:ident => $null:ident,)+) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.deserialize_any(Read { visitor, null: Null::$null, fields: &[] })
        })+
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Lenient<D> {
    type Error = D::Error;

    // The visitor accepts any value, so there are no field names to match.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_ignored_any(visitor)
    }

    forward! {
        deserialize_bool => False,
        deserialize_i8 => Zero, deserialize_i16 => Zero, deserialize_i32 => Zero, deserialize_i64 => Zero,
        deserialize_u8 => Zero, deserialize_u16 => Zero, deserialize_u32 => Zero, deserialize_u64 => Zero,
        deserialize_f32 => Zero, deserialize_f64 => Zero,
        deserialize_char => Unit, deserialize_str => Empty, deserialize_string => Empty,
        deserialize_identifier => Unit, deserialize_unit => Unit,
        deserialize_seq => Sequence, deserialize_map => Map,
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_bytes(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_byte_buf(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_option(Optional(visitor))
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        // serde_json has internal newtypes, which only its own deserializer can produce.
        if name.starts_with("$serde_json") {
            return self.0.deserialize_newtype_struct(name, visitor);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(Read {
            visitor,
            null: Null::Struct,
            fields,
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }
}

struct Read<V> {
    visitor: V,
    null: Null,
    fields: &'static [&'static str],
}

macro_rules! visit {
    ($($method:ident: $type:ty,)+) => {
        $(fn $method<E: de::Error>(self, value: $type) -> Result<V::Value, E> {
            self.visitor.$method(value)
        })+
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Read<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    visit! {
        visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64,
        visit_str: &str, visit_borrowed_str: &'de str, visit_string: String,
    }

    fn visit_unit<E: de::Error>(self) -> Result<V::Value, E> {
        match self.null {
            Null::Unit => self.visitor.visit_unit(),
            Null::False => self.visitor.visit_bool(false),
            Null::Zero => self.visitor.visit_u64(0),
            Null::Empty => self.visitor.visit_str(""),
            Null::Sequence => self.visitor.visit_seq(Nothing(PhantomData)),
            Null::Map | Null::Struct => self.visitor.visit_map(Nothing(PhantomData)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        // serde accepts a list as a structure, in the order of its fields. Go does not.
        if let Null::Struct = self.null {
            return Err(de::Error::invalid_type(de::Unexpected::Seq, &self));
        }
        self.visitor.visit_seq(Elements(access))
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(KnownFields {
            access,
            fields: self.fields,
        })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_enum(access)
    }
}

struct Optional<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Optional<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_none<E: de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Lenient(deserializer))
    }
}

/// The members and elements of an absent value.
struct Nothing<E>(PhantomData<E>);

impl<'de, E: de::Error> SeqAccess<'de> for Nothing<E> {
    type Error = E;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, _: T) -> Result<Option<T::Value>, E> {
        Ok(None)
    }
}

impl<'de, E: de::Error> MapAccess<'de> for Nothing<E> {
    type Error = E;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, _: K) -> Result<Option<K::Value>, E> {
        Ok(None)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, _: T) -> Result<T::Value, E> {
        Err(E::custom("a value without a key"))
    }
}

struct Elements<A>(A);

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Elements<A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        self.0.next_element_seed(Within(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

struct KnownFields<A> {
    access: A,
    fields: &'static [&'static str],
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for KnownFields<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        if self.fields.is_empty() {
            return self.access.next_key_seed(seed);
        }
        self.access.next_key_seed(Key {
            inner: seed,
            fields: self.fields,
        })
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        self.access.next_value_seed(Within(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.access.size_hint()
    }
}

struct Within<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Within<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Lenient(deserializer))
    }
}

/// A field name in the letter case of the field that it matches.
struct Key<I> {
    inner: I,
    fields: &'static [&'static str],
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Key<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Key {
            inner: deserializer,
            fields: self.fields,
        })
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Key<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_str(KeyVisitor {
            visitor,
            fields: self.fields,
        })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct KeyVisitor<V> {
    visitor: V,
    fields: &'static [&'static str],
}

impl<'de, V: Visitor<'de>> Visitor<'de> for KeyVisitor<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<V::Value, E> {
        let exact = self.fields.iter().find(|field| **field == name);
        let field = exact.or_else(|| self.fields.iter().find(|field| field.eq_ignore_ascii_case(name)));
        match field {
            Some(field) => self.visitor.visit_str(field),
            None => self.visitor.visit_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Clone, Debug, Default, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase", default)]
    struct Inner {
        some_name: String,
        number: i32,
    }

    #[derive(Clone, Debug, Default, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase", default)]
    struct Outer {
        inner: Inner,
        list: Vec<Inner>,
        map: BTreeMap<String, String>,
        option: Option<Inner>,
        flag: bool,
        any: Value,
    }

    #[test]
    fn names_of_fields_are_taken_in_any_letter_case() {
        let expected = Outer {
            inner: Inner {
                some_name: "a".into(),
                number: 1,
            },
            list: vec![Inner {
                some_name: "b".into(),
                number: 0,
            }],
            map: [("Key".to_owned(), "c".to_owned())].into(),
            option: Some(Inner {
                some_name: String::new(),
                number: 2,
            }),
            flag: true,
            any: json!({ "Kept": 1 }),
        };
        let text = r#"{"INNER": {"SomeName": "a", "Number": 1}, "List": [{"somename": "b", "unknown": []}],
            "map": {"Key": "c"}, "oPtion": {"NUMBER": 2}, "Flag": true, "Any": {"Kept": 1}, "more": null}"#;
        assert_eq!(from_slice::<Outer>(text.as_bytes()).unwrap(), expected);
        assert_eq!(
            from_value::<Outer>(serde_json::from_str(text).unwrap()).unwrap(),
            expected
        );
    }

    #[test]
    fn null_is_what_is_absent() {
        let text = r#"{"inner": null, "list": null, "map": null, "option": null, "flag": null, "any": null}"#;
        assert_eq!(from_slice::<Outer>(text.as_bytes()).unwrap(), Outer::default());
        let text = r#"{"inner": {"someName": null, "number": null}, "list": [null], "map": {"a": null}}"#;
        let expected = Outer {
            list: vec![Inner::default()],
            map: [("a".to_owned(), String::new())].into(),
            ..Outer::default()
        };
        assert_eq!(from_slice::<Outer>(text.as_bytes()).unwrap(), expected);
        assert_eq!(from_slice::<Outer>(b"null").unwrap(), Outer::default());
    }

    #[test]
    fn what_follows_is_an_error_in_a_request_only() {
        let text = br#"{"flag": true} x"#;
        assert!(from_slice::<Outer>(text).is_err());
        assert_eq!(
            from_prefix::<Outer>(text).unwrap(),
            Outer {
                flag: true,
                ..Outer::default()
            }
        );
    }

    #[test]
    fn what_is_of_another_type_is_an_error() {
        for text in [
            "",
            "{",
            "[]",
            "1",
            r#"{"inner": []}"#,
            r#"{"list": {}}"#,
            r#"{"flag": 1}"#,
            r#"{"inner": {"number": 1.5}}"#,
            r#"{"inner": {"number": 3000000000}}"#,
            r#"{"map": {"a": 1}}"#,
            r#"{"flag": true, "Flag": false}"#,
        ] {
            assert!(from_slice::<Outer>(text.as_bytes()).is_err(), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert!(from_slice::<Value>(deep.as_bytes()).is_err());
    }
}
