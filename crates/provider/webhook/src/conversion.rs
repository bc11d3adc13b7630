//! `ConversionReview`, version `apiextensions.k8s.io/v1`. Its objects are converted and written one after the other, so
//! that a long list takes little more memory than its bytes.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Value, json};

use crate::envelope;

const API_VERSION: &str = "apiextensions.k8s.io/v1";
const KIND: &str = "ConversionReview";
/// Where the objects are.
const OBJECTS: [&str; 2] = ["request", "objects"];
/// How many maps and lists are around an object.
pub(crate) const LEVELS: usize = 3;
/// How much longer than the objects their conversions may be. Conversion adds annotations.
const GROWTH_MAX: usize = 2;

/// A review as received.
#[derive(Debug)]
pub(crate) struct Review<'b> {
    pub(crate) uid: String,
    desired_api_version: String,
    body: &'b [u8],
}

#[derive(Debug, Deserialize)]
struct Request {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired_api_version: String,
    /// Only that it is there.
    #[serde(rename = "objects")]
    _objects: Listed,
}

/// A list of anything.
#[derive(Debug)]
struct Listed;

impl<'de> Deserialize<'de> for Listed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Self)
    }
}

impl<'de> Visitor<'de> for Listed {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(self)
    }
}

impl envelope::Request for Request {
    fn uid(&self) -> &str {
        &self.uid
    }
}

/// Reads a review. The error says what is wrong with the body.
pub(crate) fn read(body: &[u8]) -> Result<Review<'_>, String> {
    let Request {
        uid,
        desired_api_version,
        ..
    } = envelope::open(body, API_VERSION, KIND)?;
    Ok(Review {
        uid,
        desired_api_version,
        body,
    })
}

impl Review<'_> {
    /// Converts every object to the desired version, in order. Returns them as a list in JSON. One failure fails the
    /// whole review.
    pub(crate) fn convert(
        &self,
        one: impl Fn(Value, &str) -> Result<Value, String>,
    ) -> Result<Vec<u8>, String> {
        let mut converted = b"[".to_vec();
        let most = self.body.len().saturating_mul(GROWTH_MAX);
        let mut failure = None;
        let mut each = |object: Value| {
            let convert = || {
                let object = one(object, &self.desired_api_version)?;
                if converted.len() > 1 {
                    converted.push(b',');
                }
                serde_json::to_writer(&mut converted, &object).expect("a value is JSON");
                if converted.len() > most {
                    return Err(format!(
                        "failed to convert: the result has more than {most} bytes"
                    ));
                }
                Ok(())
            };
            convert().inspect_err(|error| failure = Some(error.clone()))
        };
        let mut json = serde_json::Deserializer::from_slice(self.body);
        let read = Objects {
            path: &OBJECTS,
            each: &mut each,
        }
        .deserialize(&mut json);
        if let Some(failure) = failure {
            return Err(failure);
        }
        read.map_err(|error| error.to_string())?;
        converted.push(b']');
        Ok(converted)
    }
}

/// Reads the elements of the list at a path, one after the other, and skips everything else.
struct Objects<'a, F> {
    path: &'a [&'a str],
    each: &'a mut F,
}

impl<'de, F: FnMut(Value) -> Result<(), String>> DeserializeSeed<'de> for Objects<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.path.is_empty() {
            deserializer.deserialize_seq(self)
        } else {
            deserializer.deserialize_map(self)
        }
    }
}

impl<'de, F: FnMut(Value) -> Result<(), String>> Visitor<'de> for Objects<'_, F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of objects in a review")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            match self.path {
                [wanted, path @ ..] if *wanted == name => {
                    map.next_value_seed(Objects {
                        path,
                        each: &mut *self.each,
                    })?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(object) = list.next_element()? {
            (self.each)(object).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// The response to the review of this uid.
pub(crate) fn write(uid: &str, result: Result<Vec<u8>, String>) -> Vec<u8> {
    let (converted, result) = match result {
        Ok(objects) => (objects, json!({ "status": "Success" })),
        Err(message) => (b"[]".to_vec(), json!({ "status": "Failure", "message": message })),
    };
    let uid = Value::from(uid);
    let head = format!(
        "{{\"apiVersion\":\"{API_VERSION}\",\"kind\":\"{KIND}\",\"response\":{{\"uid\":{uid},\"result\":{result},\
         \"convertedObjects\":"
    );
    [head.as_bytes(), &converted, b"}}"].concat()
}
