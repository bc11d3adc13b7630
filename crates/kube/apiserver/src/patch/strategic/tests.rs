use proptest::prelude::*;
use serde_json::{Value, json};

use super::{PatchError, strategic_merge};

#[test]
fn patches_merge_as_they_do_on_a_real_server() {
    // The results of `k8s.io/apimachinery/pkg/util/strategicpatch`; a case without a result is an error.
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("../../../tests/fixtures/strategic_merge.json")).unwrap();
    for case in cases {
        let text = |field: &str| case[field].as_str().unwrap();
        let merged = strategic_merge(&case["current"], &case["patch"], text("group"), text("kind"));
        assert_eq!(
            merged.ok(),
            case.get("expected").map(without_nulls),
            "{}",
            text("name")
        );
    }
}

/// The server decodes the result into its types, which drops nulls.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let fields = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                fields
                    .map(|(field, value)| (field.clone(), without_nulls(value)))
                    .collect(),
            )
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

#[test]
fn custom_kinds_are_refused() {
    let refused = strategic_merge(
        &json!({}),
        &json!({}),
        "infrastructure.cluster.x-k8s.io",
        "InMemoryMachine",
    );
    assert!(matches!(refused, Err(PatchError::Unsupported(kind)) if kind == "InMemoryMachine"));
}

#[test]
fn broken_patches_are_malformed() {
    let patches = [
        json!([]),
        json!({"$patch": 1}),
        json!({"spec": {"$retainKeys": "a"}}),
        json!({"metadata": {"$setElementOrder/finalizers": {}}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}}),
        json!({"spec": {"containers": [1]}}),
        json!({"spec": {"containers": [{"$patch": "merge", "name": "a"}]}}),
        json!({"metadata": {"finalizers": [{}]}}),
    ];
    let current = json!({"metadata": {"finalizers": ["a"]}, "spec": {"containers": [{"name": "a"}]}});
    for patch in patches {
        let error = strategic_merge(&current, &patch, "", "Pod").expect_err("it is broken");
        assert!(
            matches!(error, PatchError::Malformed(_) | PatchError::Directive(_)),
            "{patch}: {error}"
        );
    }
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z]{0,3}".prop_map(Value::from),
        Just(Value::Null)
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let name = prop_oneof![
            Just("metadata"),
            Just("spec"),
            Just("containers"),
            Just("name"),
            Just("finalizers"),
            Just("$patch"),
            Just("$retainKeys"),
            Just("$setElementOrder/containers"),
            Just("$deleteFromPrimitiveList/finalizers"),
            Just("x")
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((name, inner), 0..4).prop_map(|fields| Value::Object(
                fields
                    .into_iter()
                    .map(|(field, value)| (field.to_owned(), value))
                    .collect()
            ))
        ]
    })
}

fn containers() -> impl Strategy<Value = Vec<Value>> {
    let names = prop::sample::subsequence(vec!["a", "b", "c", "d", "e"], 0..=5).prop_shuffle();
    (names, any::<u8>()).prop_map(|(names, image)| {
        names
            .into_iter()
            .map(|name| json!({"name": name, "image": format!("i{image}")}))
            .collect()
    })
}

proptest! {
    #[test]
    fn no_patch_panics(current in tree(), patch in tree()) {
        let _ = strategic_merge(&current, &patch, "", "Pod");
    }

    #[test]
    fn merging_containers_loses_none_and_repeats_no_name(current in containers(), patch in containers()) {
        let pod = |containers: &[Value]| json!({"spec": {"containers": containers}});
        let merged = strategic_merge(&pod(&current), &pod(&patch), "", "Pod").unwrap();
        let merged = merged["spec"]["containers"].as_array().unwrap().clone();
        let names = |list: &[Value]| -> Vec<String> {
            list.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
        };
        let mut expected = [names(&current), names(&patch)].concat();
        expected.sort();
        expected.dedup();
        let mut found = names(&merged);
        found.sort();
        prop_assert_eq!(found, expected);
        // The elements of the patch are there in its order, and applying it again changes nothing.
        let said: Vec<_> = merged.iter().filter(|item| patch.contains(item)).cloned().collect();
        prop_assert_eq!(&said, &patch);
        prop_assert_eq!(strategic_merge(&pod(&merged), &pod(&patch), "", "Pod").unwrap(), pod(&merged));
    }
}
