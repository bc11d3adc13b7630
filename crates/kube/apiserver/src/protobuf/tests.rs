use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Bodies as Go's serializer writes them, with Go's JSON of the same objects; without nulls, managed fields and
/// empty structs that are not pointers.
fn bodies_of_go() -> Vec<(Vec<u8>, Value)> {
    let fixtures: Vec<Value> =
        serde_json::from_str(include_str!("../../tests/fixtures/protobuf.json")).unwrap();
    fixtures
        .into_iter()
        .map(|fixture| {
            (
                BASE64.decode(fixture["body"].as_str().unwrap()).unwrap(),
                fixture["object"].clone(),
            )
        })
        .collect()
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
    out.extend(bytes);
    out
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [
        MAGIC.to_vec(),
        field(1, &type_meta),
        field(2, raw),
        field(3, b""),
        field(4, b""),
    ]
    .concat()
}

#[test]
fn bodies_of_go_clients_read_as_their_json_does() {
    for (body, expected) in bodies_of_go() {
        let read = decode(&body).unwrap();
        assert_eq!(read, expected, "{}", serde_json::to_string_pretty(&read).unwrap());
    }
}

#[test]
fn zero_that_means_something_is_kept_and_other_zeros_are_dropped() {
    // gracePeriodSeconds is a pointer; metadata.generation and metadata.generateName are not.
    let metadata = [field(1, b"web"), field(2, b""), vec![7 << 3, 0], field(8, b"")].concat();
    let options = [vec![1 << 3, 0], field(2, &field(1, b"uid-1"))].concat();
    let raw = [field(1, &metadata), field(2, &options)].concat();
    assert_eq!(
        decode(&body("policy/v1", "Eviction", &raw)).unwrap(),
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"},
               "deleteOptions": {"gracePeriodSeconds": 0, "preconditions": {"uid": "uid-1"}}})
    );
}

#[test]
fn fields_of_later_versions_are_skipped() {
    let later = [
        field(1, &field(1, b"c")),
        vec![15 << 3, 9],
        vec![14 << 3 | 5, 1, 2, 3, 4],
        field(13, b"?"),
    ];
    assert_eq!(
        decode(&body("v1", "ConfigMap", &later.concat())).unwrap(),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    );
}

#[test]
fn wrong_bodies_say_why() {
    assert_eq!(decode(b"{}"), Err(ProtobufError::Magic));
    assert_eq!(decode(b"k8s\0\x0a\x7f"), Err(ProtobufError::Damaged));
    assert_eq!(decode(b"k8s\0"), Err(ProtobufError::UnknownKind(String::new())));
    assert_eq!(
        decode(&body("v1", "Widget", b"")),
        Err(ProtobufError::UnknownKind("v1 Widget".into()))
    );
    assert_eq!(
        decode(&body("v1", "Secret", &field(1, &field(1, &[0xff])))),
        Err(ProtobufError::Damaged)
    );
    // A field of the wrong wire type.
    assert_eq!(
        decode(&body("v1", "Secret", &[1 << 3, 1])),
        Err(ProtobufError::Damaged)
    );
}

#[test]
fn truncated_bodies_are_damaged_or_shorter_but_never_panic() {
    for (body, _) in bodies_of_go() {
        for length in 0..body.len() {
            let _ = decode(&body[..length]);
        }
        assert!(decode(&body[..body.len() - 1]).is_err());
    }
}

proptest! {
    #[test]
    fn no_body_panics(
        kind in prop_oneof![Just("Secret"), Just("Pod"), Just("Event"), Just("Node")],
        raw in proptest::collection::vec(any::<u8>(), 0..120),
    ) {
        let _ = decode(&body("v1", kind, &raw));
        let _ = decode(&[MAGIC.as_slice(), &raw].concat());
    }

    #[test]
    fn no_damage_panics(which in any::<prop::sample::Index>(), damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let bodies = bodies_of_go();
        let (mut body, _) = bodies[which.index(bodies.len())].clone();
        for (at, byte) in damage {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let _ = decode(&body);
    }
}
