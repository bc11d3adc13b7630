//! Empties `managedFields` in answers of the management API before anything parses them.
//!
//! The manager never looks at them, but they are about half of what it watches, and parsing them took a twentieth of its
//! CPU time. An API server cannot be asked to leave them out of whole objects. An empty list in an update changes
//! nothing: the API server keeps the fields' managers
//! (<https://kubernetes.io/docs/reference/using-api/server-side-apply/#clearing-managedfields>).

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response, header::CONTENT_TYPE};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, combinators::MapFrame};
use memchr::{memchr2, memchr3, memmem};

/// How each such list begins in JSON without spaces, as API servers write it. Quotes inside of strings are escaped, so no
/// string has this text.
const BEGINNING: &[u8] = b"\"managedFields\":[";

/// What comes next in a body, whose chunks can end anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Outside of the lists. So many bytes of a beginning were the last ones.
    Outside { matched: usize },
    /// In a list, so many brackets deep.
    Inside { depth: usize },
    /// In a string of a list.
    Text { depth: usize },
    /// After a backslash in such a string.
    Escape { depth: usize },
}

/// Empties the lists of one body, chunk by chunk.
#[derive(Debug)]
struct Emptier {
    place: Place,
}

impl Emptier {
    const fn new() -> Self {
        Self {
            place: Place::Outside { matched: 0 },
        }
    }

    /// The chunk without what is in the lists. Without lists it is the chunk itself.
    fn empty(&mut self, chunk: Bytes) -> Bytes {
        let end = match self.place {
            Place::Outside { matched } => match list_after(&chunk, matched) {
                Ok(begin) => begin,
                Err(matched) => {
                    self.place = Place::Outside { matched };
                    return chunk;
                }
            },
            _ => 0,
        };
        let mut kept = BytesMut::with_capacity(chunk.len());
        kept.extend_from_slice(&chunk[..end]);
        if end > 0 {
            self.place = Place::Inside { depth: 1 };
        }
        let mut rest = &chunk[end..];
        while !rest.is_empty() {
            rest = self.step(rest, &mut kept);
        }
        kept.freeze()
    }

    /// Continues to the next change of the place. Returns what is left.
    fn step<'a>(&mut self, rest: &'a [u8], kept: &mut BytesMut) -> &'a [u8] {
        match self.place {
            Place::Outside { matched } => match list_after(rest, matched) {
                Ok(begin) => {
                    kept.extend_from_slice(&rest[..begin]);
                    self.place = Place::Inside { depth: 1 };
                    &rest[begin..]
                }
                Err(matched) => {
                    kept.extend_from_slice(rest);
                    self.place = Place::Outside { matched };
                    &[]
                }
            },
            Place::Inside { depth } => {
                let Some(at) = memchr3(b'"', b'[', b']', rest) else {
                    return &[];
                };
                self.place = match (rest[at], depth) {
                    (b'"', _) => Place::Text { depth },
                    (b'[', _) => Place::Inside { depth: depth + 1 },
                    (_, 1) => {
                        kept.extend_from_slice(b"]");
                        Place::Outside { matched: 0 }
                    }
                    _ => Place::Inside { depth: depth - 1 },
                };
                &rest[at + 1..]
            }
            Place::Text { depth } => {
                let Some(at) = memchr2(b'"', b'\\', rest) else {
                    return &[];
                };
                self.place = if rest[at] == b'"' {
                    Place::Inside { depth }
                } else {
                    Place::Escape { depth }
                };
                &rest[at + 1..]
            }
            Place::Escape { depth } => {
                self.place = Place::Text { depth };
                &rest[1..]
            }
        }
    }
}

/// Where the first list's content begins, if so many bytes of its beginning came before. Otherwise how many bytes of a
/// beginning are at the end.
fn list_after(text: &[u8], matched: usize) -> Result<usize, usize> {
    let missing = &BEGINNING[matched..];
    if matched > 0 && text.starts_with(missing) {
        return Ok(missing.len());
    }
    if matched > 0 && missing.starts_with(text) {
        return Err(matched + text.len());
    }
    if let Some(at) = memmem::find(text, BEGINNING) {
        return Ok(at + BEGINNING.len());
    }
    let longest = text.len().min(BEGINNING.len() - 1);
    Err((1..=longest)
        .rev()
        .find(|length| text.ends_with(&BEGINNING[..*length]))
        .unwrap_or(0))
}

/// Changes each frame of a body.
type OnFrame = Box<dyn FnMut(Frame<Bytes>) -> Frame<Bytes> + Send>;

/// Empties the lists in an answer, if it is JSON.
pub(crate) fn emptied<B>(response: Response<B>) -> Response<MapFrame<B, OnFrame>>
where
    B: Body<Data = Bytes>,
{
    let mut emptier = is_json(response.headers()).then(Emptier::new);
    response.map(|body| {
        let on_frame: OnFrame = Box::new(move |frame| match &mut emptier {
            Some(emptier) => frame.map_data(|chunk| emptier.empty(chunk)),
            None => frame,
        });
        body.map_frame(on_frame)
    })
}

fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// Empties the lists of a text that arrives in chunks.
    fn empty(text: &str, cuts: &[usize]) -> String {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
        cuts.sort_unstable();
        let mut emptier = Emptier::new();
        let mut kept = Vec::new();
        let mut begin = 0;
        for end in cuts.into_iter().chain([text.len()]) {
            kept.extend_from_slice(&emptier.empty(Bytes::copy_from_slice(&text.as_bytes()[begin..end])));
            begin = end;
        }
        String::from_utf8(kept).expect("whole texts are removed")
    }

    #[test]
    fn a_list_is_emptied_and_the_rest_stays() {
        let entry = json!({ "manager": "a]\"\\", "fieldsV1": { "k:{\"x\":[\"y\"]}": [["[", {}], "\"managedFields\":["] } });
        let event = |fields: Value| {
            json!({ "type": "ADDED", "object": { "metadata": { "managedFields": fields, "name": "a" } } })
                .to_string()
        };
        let text = [
            event(json!([entry, entry])),
            event(json!([])),
            event(json!([entry])),
        ]
        .join("\n");
        let expected = [event(json!([])), event(json!([])), event(json!([]))].join("\n");
        assert_eq!(empty(&text, &[]), expected);
        let bytewise: Vec<_> = (0..text.len()).collect();
        assert_eq!(empty(&text, &bytewise), expected);
    }

    #[test]
    fn a_chunk_without_lists_is_not_copied() {
        let chunk = Bytes::from_static(b"{\"metadata\":{\"name\":\"a\"}}");
        let kept = Emptier::new().empty(chunk.clone());
        assert_eq!((kept.as_ptr(), kept.len()), (chunk.as_ptr(), chunk.len()));
    }

    fn value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "[a\"\\\\\\[\\]]{0,6}",
            Just("managedFields".to_owned()),
            Just("\"managedFields\":[".to_owned())
        ];
        let leaf = prop_oneof![
            text.clone().prop_map(Value::from),
            any::<i8>().prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((text.clone(), inner), 0..4)
                    .prop_map(|fields| fields.into_iter().collect()),
            ]
        })
    }

    /// A value with empty lists. Only lists are emptied, whatever else has the name.
    fn emptied(value: Value) -> Value {
        match value {
            Value::Array(items) => items.into_iter().map(emptied).collect(),
            Value::Object(fields) => fields
                .into_iter()
                .map(|(name, field)| match field {
                    Value::Array(_) if name == "managedFields" => (name, json!([])),
                    other => (name, emptied(other)),
                })
                .collect(),
            other => other,
        }
    }

    proptest! {
        #[test]
        fn any_value_in_any_chunks_is_the_value_with_empty_lists(
            value in value(),
            cuts in prop::collection::vec(any::<usize>(), 0..8),
        ) {
            let kept = empty(&value.to_string(), &cuts);
            prop_assert_eq!(kept, emptied(value).to_string());
        }

        #[test]
        fn what_is_not_json_is_no_danger(text in "[\"\\\\\\[\\]{}:a]{0,30}(\"managedFields\":\\[)?[\"\\\\\\[\\]{}:a]{0,30}", cuts in prop::collection::vec(any::<usize>(), 0..8)) {
            prop_assert!(empty(&text, &cuts).len() <= text.len());
        }
    }
}
