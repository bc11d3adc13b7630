use proptest::prelude::*;
use serde_json::{Value, json};

use super::{super::path_element::PathElement, *};

/// Steps of all kinds, few enough that sets overlap.
fn step() -> impl Strategy<Value = PathElement> {
    let texts = [
        "f:a",
        "f:b",
        "f:.",
        "v:\"a\"",
        "v:1",
        "i:0",
        r#"k:{"name":"a"}"#,
        r#"k:{"port":1,"protocol":"TCP"}"#,
    ];
    prop::sample::select(texts.to_vec()).prop_map(|text| PathElement::read(text).flatten().unwrap())
}

fn path() -> impl Strategy<Value = Vec<PathElement>> {
    prop::collection::vec(step(), 1..4)
}

pub(in super::super) fn set() -> impl Strategy<Value = FieldSet> {
    prop::collection::vec(path(), 0..8).prop_map(|paths| FieldSet::of(paths.iter().map(Vec::as_slice)))
}

fn contains(set: &FieldSet, path: &[PathElement]) -> bool {
    match path {
        [] => false,
        [one] => set.contains(one),
        [first, rest @ ..] => set.below(first).is_some_and(|below| contains(below, rest)),
    }
}

fn read(value: &Value) -> FieldSet {
    FieldSet::read(value).unwrap()
}

#[test]
fn set_is_read_as_clients_write_it() {
    let fields = json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}, "f:d": {"k:{\"n\":1}": {"f:e": {}}}});
    let set = read(&fields);
    assert_eq!(set.shown(9, 99), [".a", ".c", ".a.b", ".d[n=1].e"]);
    assert_eq!((set.len(), set.write()), (4, fields));
    // What is not known yet is dropped, and `.` alone is the path.
    assert_eq!(
        read(&json!({"f:a": {".": {}}, "f:b": {"x:new": {"f:c": {}}}})),
        read(&json!({"f:a": {}, "f:b": {}}))
    );
    assert_eq!(read(&json!({".": {}})), FieldSet::default());
}

#[test]
fn malformed_set_is_refused() {
    let deep = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({ "f:a": inner }));
    assert!(FieldSet::read(&deep(99)).is_ok());
    assert_eq!(FieldSet::read(&deep(100)), Err(FieldsError::TooDeep));
    for value in [
        json!([]),
        json!(null),
        json!({"f:a": 1}),
        json!({"f:a": {"f:b": []}}),
    ] {
        assert_eq!(FieldSet::read(&value), Err(FieldsError::NoObject), "{value}");
    }
    assert_eq!(
        FieldSet::read(&json!({"a": {}})),
        Err(FieldsError::Step("a".to_owned()))
    );
}

#[test]
fn long_paths_are_cut_where_a_character_begins() {
    let set = FieldSet::of([&[PathElement::field(&"é".repeat(9)), PathElement::field("a")][..]]);
    assert_eq!(set.shown(1, 4), [".é"]);
    assert_eq!(set.shown(0, 4), [""; 0]);
}

proptest! {
    #[test]
    fn set_survives_being_written(set in set()) {
        prop_assert_eq!(FieldSet::read(&set.write()), Ok(set));
    }

    #[test]
    fn sets_follow_the_laws_of_sets(a in set(), b in set(), c in set(), path in path()) {
        let in_a = contains(&a, &path);
        let in_b = contains(&b, &path);
        prop_assert_eq!(contains(&a.clone().union(&b), &path), in_a || in_b);
        prop_assert_eq!(contains(&a.intersection(&b), &path), in_a && in_b);
        prop_assert_eq!(contains(&a.difference(&b), &path), in_a && !in_b);
        prop_assert_eq!(a.clone().union(&b), b.clone().union(&a));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert_eq!(a.difference(&b.clone().union(&c)), a.difference(&b).difference(&c));
        prop_assert_eq!(a.clone().union(&b).len(), a.len() + b.difference(&a).len());
        prop_assert!(a.difference(&a).is_empty() && a.intersection(&FieldSet::default()).is_empty());
        prop_assert_eq!(a.shown(usize::MAX, usize::MAX).len(), a.len());
    }
}
