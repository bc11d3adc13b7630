use std::sync::LazyLock;

use proptest::{prelude::*, sample::select};
use serde::Deserialize as _;
use serde_json::{Map, json};

use super::*;

/// For each kind, an object of `v1beta1` with each field that has another name, place or form in `v1beta2`, and the same
/// object of `v1beta2`.
const PAIRS: [&str; 12] = [
    include_str!("pairs/cluster.yaml"),
    include_str!("pairs/cluster_class.yaml"),
    include_str!("pairs/ip_address_claim.yaml"),
    include_str!("pairs/kubeadm_config.yaml"),
    include_str!("pairs/kubeadm_config_template.yaml"),
    include_str!("pairs/kubeadm_control_plane.yaml"),
    include_str!("pairs/kubeadm_control_plane_template.yaml"),
    include_str!("pairs/machine.yaml"),
    include_str!("pairs/machine_deployment.yaml"),
    include_str!("pairs/machine_health_check.yaml"),
    include_str!("pairs/machine_pool.yaml"),
    include_str!("pairs/machine_set.yaml"),
];

static READ: LazyLock<Vec<[Value; 2]>> = LazyLock::new(|| PAIRS.map(read).into());

fn read(pair: &str) -> [Value; 2] {
    let documents = serde_yaml_ng::Deserializer::from_str(pair);
    let read: Vec<_> = documents
        .map(|document| Value::deserialize(document).expect("YAML"))
        .collect();
    read.try_into().expect("two objects")
}

/// The `apiVersion` of an object with another version.
fn other(object: &Value, version: &str) -> String {
    let (group, _) = object["apiVersion"]
        .as_str()
        .and_then(|text| text.split_once('/'))
        .expect("a group");
    format!("{group}/{version}")
}

fn converted(object: &Value, version: &str) -> Value {
    convert(object, &other(object, version))
}

#[test]
fn each_kind_is_converted_in_both_directions() {
    for [old, new] in &*READ {
        let kind = &old["kind"];
        assert_eq!(converted(old, NEW), *new, "{kind}");
        assert_eq!(converted(new, OLD), *old, "{kind}");
        assert_eq!(converted(old, OLD), *old, "{kind}");
    }
}

#[test]
fn each_definition_of_the_stand_in_has_a_pair() {
    let mut with_pairs: Vec<_> = READ.iter().map(|[old, _]| old["kind"].clone()).collect();
    // Its versions differ only in what is required.
    with_pairs.push("IPAddress".into());
    let kinds = crate::crds()
        .into_iter()
        .map(|definition| definition.spec.names.kind);
    for kind in kinds {
        assert!(with_pairs.contains(&kind.clone().into()), "{kind}");
    }
}

#[test]
fn what_clients_with_types_of_go_add_is_no_change() {
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "metadata": {"name": "c"},
        "spec": {
            "controlPlaneEndpoint": {"host": "", "port": 0},
            "infrastructureRef": {"apiVersion": "i.io/v1alpha3", "kind": "K", "name": "n", "namespace": "a", "uid": "u"},
            "controlPlaneRef": {"apiVersion": "v1", "kind": "Pod", "name": "n"},
        },
    });
    let expected = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
        "spec": {
            "infrastructureRef": {"apiGroup": "i.io", "kind": "K", "name": "n"},
            "controlPlaneRef": {"apiGroup": "", "kind": "Pod", "name": "n"},
        },
    });
    assert_eq!(converted(&cluster, NEW), expected);
}

#[test]
fn a_kind_without_differences_gets_the_other_version_only() {
    let address =
        json!({"apiVersion": "ipam.cluster.x-k8s.io/v1beta1", "kind": "IPAddress", "spec": {"prefix": 24}});
    let mut expected = address.clone();
    expected["apiVersion"] = "ipam.cluster.x-k8s.io/v1beta2".into();
    assert_eq!(converted(&address, NEW), expected);
    assert_eq!(convert(&json!("text"), "cluster.x-k8s.io/v1beta1"), json!("text"));
}

#[test]
fn a_condition_that_a_client_of_the_older_version_sets_stays_beside_those_that_follow() {
    let is_wanted = |pair: &&[Value; 2]| pair[0]["kind"] == "MachineDeployment";
    let [_, mut new] = READ.iter().find(is_wanted).expect("a pair").clone();
    let mut old = converted(&new, OLD);
    let mine = json!({"type": "Mine", "status": "True", "lastTransitionTime": "2026-01-03T00:00:00Z"});
    old["status"]["conditions"]
        .as_array_mut()
        .expect("a list")
        .push(mine.clone());
    new["status"]["deprecated"] = json!({"v1beta1": {"conditions": [mine]}});
    let kept = converted(&old, NEW);
    assert_eq!(kept, new);
    // What follows still does when it changes.
    let mut changed = kept;
    changed["status"]["conditions"][0]["status"] = "Unknown".into();
    let conditions = &converted(&changed, OLD)["status"]["conditions"];
    let said =
        |one: &Value| [&one["type"], &one["status"]].map(|text| text.as_str().unwrap_or_default().to_owned());
    let said: Vec<_> = conditions.as_array().expect("a list").iter().map(said).collect();
    assert_eq!(
        said,
        [["Mine", "True"], ["Ready", "Unknown"], ["Available", "Unknown"]]
    );
}

/// Removes parts of a value, and what becomes empty. The value of an argument stays: without one, it is empty in `v1beta1`.
fn pruned(value: &Value, removed: &mut impl Iterator<Item = bool>) -> Option<Value> {
    if removed.next() == Some(true) {
        return None;
    }
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let kept = fields.iter().filter_map(|(name, value)| match name.as_str() {
                "value" => Some((name.clone(), value.clone())),
                _ => Some((name.clone(), pruned(value, removed)?)),
            });
            let kept: Map<_, _> = kept.collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        Value::Array(elements) if !elements.is_empty() => {
            let kept: Vec<_> = elements
                .iter()
                .filter_map(|value| pruned(value, removed))
                .collect();
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        other => Some(other.clone()),
    }
}

/// Replaces parts of a value by others that do not fit.
fn garbled(value: &Value, odd: &mut impl Iterator<Item = Option<Value>>) -> Value {
    if let Some(Some(odd)) = odd.next() {
        return odd;
    }
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), garbled(value, odd)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(elements) => elements.iter().map(|value| garbled(value, odd)).collect(),
        other => other.clone(),
    }
}

fn object(version: usize) -> impl Strategy<Value = Value> {
    (0..PAIRS.len()).prop_map(move |index| READ[index][version].clone())
}

/// An object of `v1beta2` with some of the fields that its kind has.
fn some_fields() -> impl Strategy<Value = Value> {
    let removed = proptest::collection::vec(prop::bool::weighted(0.15), 300);
    (object(1), removed).prop_map(|(object, removed)| {
        let mut removed = removed.into_iter();
        let mut partial = object.clone();
        for part in ["spec", "status"] {
            match object.get(part).and_then(|value| pruned(value, &mut removed)) {
                Some(kept) => partial[part] = kept,
                None => drop(partial.as_object_mut().expect("an object").remove(part)),
            }
        }
        partial
    })
}

fn odd() -> impl Strategy<Value = Option<Value>> {
    let odd = [
        json!(null),
        json!(-7),
        json!(1e300),
        json!("text"),
        json!(true),
        json!({}),
        json!([]),
        json!([{}]),
    ];
    prop_oneof![9 => Just(None), 1 => select(odd.to_vec()).prop_map(Some)]
}

proptest! {
    #[test]
    fn an_object_that_is_read_in_the_older_version_and_written_back_is_the_same(object in some_fields()) {
        let old = converted(&object, OLD);
        prop_assert_eq!(&converted(&old, NEW), &object);
        prop_assert_eq!(converted(&converted(&old, NEW), OLD), old);
    }

    #[test]
    fn what_does_not_have_the_expected_shape_is_passed_over(
        (version, object) in (0..2_usize).prop_flat_map(|version| (Just(version), object(version))),
        odd in proptest::collection::vec(odd(), 300),
    ) {
        let mut odd = odd.into_iter();
        let mut garbled_object = object.clone();
        for part in ["metadata", "spec", "status"] {
            if let Some(value) = object.get(part) {
                garbled_object[part] = garbled(value, &mut odd);
            }
        }
        let to = [NEW, OLD][version];
        let there = converted(&garbled_object, to);
        prop_assert_eq!(&there["apiVersion"], &json!(other(&object, to)));
        converted(&there, [OLD, NEW][version]);
    }
}
