use nephele_runtime_sdk::hooks::{
    CanUpdateMachineRequestObjects, CanUpdateMachineSetRequestObjects, PatchType,
};
use proptest::prelude::*;
use serde_json::json;

use super::*;

#[allow(clippy::needless_pass_by_value, reason = "literals read better")]
fn object(api_version: &str, kind: &str, spec: Value) -> Object {
    let value = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "m" }, "spec": spec });
    Object::try_from(value).unwrap()
}

fn machine(spec: Value) -> Object {
    object("cluster.x-k8s.io/v1beta2", "Machine", spec)
}

fn simulated(spec: Value) -> Object {
    object("infrastructure.cluster.x-k8s.io/v1beta2", "InMemoryMachine", spec)
}

fn kubeadm(spec: Value) -> Object {
    object("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfig", spec)
}

fn objects([one, two, three]: [Value; 3]) -> CanUpdateMachineRequestObjects {
    CanUpdateMachineRequestObjects {
        machine: machine(one),
        infrastructure_machine: simulated(two),
        bootstrap_config: kubeadm(three),
    }
}

fn apply(object: &Object, patch: &Patch) -> Value {
    let mut value = object.to_value();
    if !patch.is_absent() {
        assert_eq!(patch.patch_type, Some(PatchType::JsonPatch));
        let operations: json_patch::Patch = serde_json::from_slice(&patch.patch.0).unwrap();
        json_patch::patch(&mut value, &operations).unwrap();
    }
    value
}

/// The specs after the patches: of the Machine, of its infrastructure and of its bootstrap config.
fn patched(current: [Value; 3], desired: [Value; 3]) -> [Value; 3] {
    let request = CanUpdateMachineRequest {
        current: objects(current),
        desired: objects(desired),
        ..CanUpdateMachineRequest::default()
    };
    let CanUpdateMachineResponse {
        machine_patch,
        infrastructure_machine_patch,
        bootstrap_config_patch,
        ..
    } = can_update_machine(&request);
    let current = &request.current;
    [
        apply(&current.machine, &machine_patch)["spec"].take(),
        apply(&current.infrastructure_machine, &infrastructure_machine_patch)["spec"].take(),
        apply(&current.bootstrap_config, &bootstrap_config_patch)["spec"].take(),
    ]
}

#[test]
fn what_may_change_in_place_does_and_nothing_else() {
    let current = [
        json!({ "version": "v1.36.3", "failureDomain": "a", "clusterName": "demo" }),
        json!({ "providerID": "in-memory://m", "image": "old", "instanceType": "small" }),
        json!({ "files": [{ "path": "/a" }], "users": [{ "name": "u" }], "clusterConfiguration": { "dns": { "imageTag": "1" } } }),
    ];
    let slow = json!({ "vm": { "provisioning": { "startupDuration": "9s" } } });
    let desired = [
        json!({ "version": "v1.36.4", "failureDomain": "b", "clusterName": "demo" }),
        json!({ "providerID": "in-memory://m", "instanceType": "large", "behaviour": slow }),
        json!({
            "files": [{ "path": "/a", "content": "x" }, { "path": "/b" }],
            "clusterConfiguration": { "dns": { "imageTag": "2" }, "etcd": { "local": { "imageTag": "3.6.8-0", "dataDir": "/d" } } },
        }),
    ];
    let expected = [
        json!({ "version": "v1.36.4", "failureDomain": "a", "clusterName": "demo" }),
        json!({ "providerID": "in-memory://m", "instanceType": "small", "behaviour": slow }),
        json!({
            "files": [{ "path": "/a", "content": "x" }, { "path": "/b" }],
            "users": [{ "name": "u" }],
            "clusterConfiguration": { "dns": { "imageTag": "1" }, "etcd": { "local": { "imageTag": "3.6.8-0" } } },
        }),
    ];
    assert_eq!(patched(current, desired), expected);
}

/// Cluster API compares the result with the desired objects, and an empty object differs from an absent one.
#[test]
fn what_is_absent_null_or_empty_becomes_exactly_that() {
    let tag = json!({ "clusterConfiguration": { "etcd": { "local": { "imageTag": "1" } } } });
    let beside = |local: Value| json!({ "clusterConfiguration": { "etcd": { "local": local }, "other": 1 } });
    for (current, desired) in [
        (json!({ "files": [] }), json!({})),
        (json!({}), json!({ "files": [] })),
        (json!({}), json!({ "files": null })),
        (json!({ "files": null }), json!({ "files": [{ "path": "/a" }] })),
        (tag.clone(), json!({})),
        (json!({}), tag.clone()),
        (tag.clone(), json!({ "clusterConfiguration": null })),
        (json!({ "clusterConfiguration": null }), tag.clone()),
        (tag.clone(), json!({ "clusterConfiguration": { "etcd": {} } })),
        (json!({ "clusterConfiguration": { "etcd": {} } }), tag.clone()),
        (
            tag,
            json!({ "clusterConfiguration": { "etcd": { "local": { "imageTag": null } } } }),
        ),
        (
            beside(json!({ "imageTag": "1", "dataDir": "/d" })),
            beside(json!({ "dataDir": "/d" })),
        ),
        (beside(json!({ "imageTag": "1" })), beside(json!({}))),
    ] {
        let [_, _, found] = patched(
            [json!({}), json!({}), current.clone()],
            [json!({}), json!({}), desired.clone()],
        );
        assert_eq!(found, desired, "{current}");
    }
}

#[test]
fn what_is_no_object_on_the_way_is_left_alone() {
    let current = json!({ "clusterConfiguration": "odd" });
    let desired = json!({ "clusterConfiguration": { "etcd": { "local": { "imageTag": "1" } } } });
    let [_, _, found] = patched(
        [json!({}), json!({}), current.clone()],
        [json!({}), json!({}), desired],
    );
    assert_eq!(found, current);
}

#[test]
fn nothing_that_changes_has_no_patch() {
    let same = || {
        [
            json!({ "version": "v1.36.3" }),
            json!({ "image": "a" }),
            json!({ "files": [] }),
        ]
    };
    let request = CanUpdateMachineRequest {
        current: objects(same()),
        desired: objects(same()),
        ..CanUpdateMachineRequest::default()
    };
    assert_eq!(can_update_machine(&request), CanUpdateMachineResponse::default());
    // As on the wire: Cluster API refuses an empty patch, so absent patches are omitted.
    let answer = serde_json::to_value(can_update_machine(&request)).unwrap();
    assert_eq!(answer, json!({ "status": "Success" }));
}

#[test]
fn other_machines_are_not_updated_and_none_is_where_that_is_off() {
    let newer = |version: &str| machine(json!({ "version": version }));
    let request = |infrastructure: Object| CanUpdateMachineRequest {
        current: CanUpdateMachineRequestObjects {
            machine: newer("v1.36.3"),
            infrastructure_machine: infrastructure.clone(),
            bootstrap_config: Object::default(),
        },
        desired: CanUpdateMachineRequestObjects {
            machine: newer("v1.36.4"),
            infrastructure_machine: infrastructure,
            bootstrap_config: Object::default(),
        },
        ..CanUpdateMachineRequest::default()
    };
    let ours = request(simulated(json!({})));
    assert!(!can_update_machine(&ours).machine_patch.is_absent());
    let foreign = request(object(
        "infrastructure.cluster.x-k8s.io/v1beta2",
        "DevMachine",
        json!({}),
    ));
    assert_eq!(can_update_machine(&foreign), CanUpdateMachineResponse::default());
    let off = Settings::from([("disableInPlaceUpdates".to_owned(), "true".to_owned())]);
    let off = CanUpdateMachineRequest {
        settings: off,
        ..ours
    };
    assert_eq!(can_update_machine(&off), CanUpdateMachineResponse::default());
    assert_eq!(
        can_update_machine(&CanUpdateMachineRequest::default()),
        CanUpdateMachineResponse::default()
    );
}

#[test]
fn a_bootstrap_config_of_another_provider_is_not_changed() {
    let bootstrap = |files: Value| object("bootstrap.other.io/v1", "OtherConfig", json!({ "files": files }));
    let objects = |files| CanUpdateMachineRequestObjects {
        machine: machine(json!({})),
        infrastructure_machine: simulated(json!({})),
        bootstrap_config: bootstrap(files),
    };
    let request = CanUpdateMachineRequest {
        current: objects(json!([])),
        desired: objects(json!([1])),
        ..CanUpdateMachineRequest::default()
    };
    assert!(can_update_machine(&request).bootstrap_config_patch.is_absent());
}

#[test]
fn machine_sets_are_changed_in_their_templates() {
    let template = |kind: &str, api_version: &str, spec: Value| {
        object(
            api_version,
            kind,
            json!({ "replicas": 3, "template": { "spec": spec } }),
        )
    };
    let objects = |version: &str, image: &str, files: Value| CanUpdateMachineSetRequestObjects {
        machine_set: template(
            "MachineSet",
            "cluster.x-k8s.io/v1beta2",
            json!({ "version": version }),
        ),
        infrastructure_machine_template: template(
            "InMemoryMachineTemplate",
            "infrastructure.cluster.x-k8s.io/v1beta2",
            json!({ "image": image }),
        ),
        bootstrap_config_template: template(
            "KubeadmConfigTemplate",
            "bootstrap.cluster.x-k8s.io/v1beta2",
            json!({ "files": files }),
        ),
    };
    let current = objects("v1.36.3", "old", json!([]));
    let desired = objects("v1.36.4", "new", json!([{ "path": "/a" }]));
    let request = CanUpdateMachineSetRequest {
        current: current.clone(),
        desired: desired.clone(),
        ..CanUpdateMachineSetRequest::default()
    };
    let CanUpdateMachineSetResponse {
        machine_set_patch,
        infrastructure_machine_template_patch,
        bootstrap_config_template_patch,
        ..
    } = can_update_machine_set(&request);
    for (before, patch, after) in [
        (current.machine_set, machine_set_patch, desired.machine_set),
        (
            current.infrastructure_machine_template,
            infrastructure_machine_template_patch,
            desired.infrastructure_machine_template,
        ),
        (
            current.bootstrap_config_template,
            bootstrap_config_template_patch,
            desired.bootstrap_config_template,
        ),
    ] {
        assert_eq!(apply(&before, &patch), after.to_value());
    }
    let off = Settings::from([("disableInPlaceUpdates".to_owned(), "true".to_owned())]);
    let off = CanUpdateMachineSetRequest {
        settings: off,
        ..request
    };
    assert_eq!(
        can_update_machine_set(&off),
        CanUpdateMachineSetResponse::default()
    );
}

/// Specs with few field names, so that both sides often have the same ones: covered fields, other fields, and objects
/// on their paths.
fn a_spec() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3_i32).prop_map(Value::from),
        "[ab]{0,2}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
    ];
    let value = leaf.prop_recursive(4, 32, 4, |inner| {
        let key = prop::sample::select(vec![
            "version",
            "image",
            "behaviour",
            "files",
            "clusterConfiguration",
            "etcd",
            "local",
            "imageTag",
            "other",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key.prop_map(str::to_owned), inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    });
    let key = prop::sample::select(vec![
        "version",
        "image",
        "behaviour",
        "files",
        "clusterConfiguration",
        "other",
        "instanceType",
    ]);
    prop::collection::btree_map(key.prop_map(str::to_owned), value, 0..6)
        .prop_map(|fields| Value::Object(fields.into_iter().collect()))
}

/// A spec with the covered fields of another spec, copied with JSON pointers.
fn with_covered(spec: &Value, other: &Value, fields: &[&str]) -> Value {
    let mut spec = spec.clone();
    for field in fields {
        match other.get(field) {
            Some(value) => spec[*field] = value.clone(),
            None => {
                spec.as_object_mut().unwrap().remove(*field);
            }
        }
    }
    spec
}

/// The spec without the tag of etcd's image, and without empty objects on its path.
fn without_tag(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for depth in (1..=4).rev() {
        let path = &ETCD_IMAGE_TAG[..depth];
        let (last, parents) = path.split_last().unwrap();
        let parent = if parents.is_empty() {
            String::new()
        } else {
            format!("/{}", parents.join("/"))
        };
        let Some(Value::Object(parent)) = spec.pointer_mut(&parent) else {
            continue;
        };
        let empty = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
        if depth == 4 || parent.get(*last).is_some_and(empty) {
            parent.remove(*last);
        }
    }
    spec
}

proptest! {
    /// Where only covered fields differ, the patches turn one side into the other exactly.
    #[test]
    fn what_is_covered_becomes_as_desired(
        machine in a_spec(), infrastructure in a_spec(), bootstrap in a_spec(), other in a_spec(), tag in a_spec(),
    ) {
        let mut desired_bootstrap = with_covered(&bootstrap, &other, &["files"]);
        if let Some(local) = desired_bootstrap.pointer_mut("/clusterConfiguration/etcd/local").and_then(Value::as_object_mut) {
            local.insert("imageTag".into(), tag);
        }
        let desired = [
            with_covered(&machine, &other, &["version"]),
            with_covered(&infrastructure, &other, &["image", "behaviour"]),
            desired_bootstrap,
        ];
        prop_assert_eq!(patched([machine, infrastructure, bootstrap], desired.clone()), desired);
    }

    /// Whatever differs, no other field changes, and a second run needs no patch.
    #[test]
    fn nothing_that_is_not_covered_is_touched(current in [a_spec(), a_spec(), a_spec()], desired in [a_spec(), a_spec(), a_spec()]) {
        let found = patched(current.clone(), desired.clone());
        let [machine, infrastructure, bootstrap] = &found;
        prop_assert_eq!(machine, &with_covered(&current[0], &desired[0], &["version"]));
        prop_assert_eq!(infrastructure, &with_covered(&current[1], &desired[1], &["image", "behaviour"]));
        let files = with_covered(&current[2], &desired[2], &["files"]);
        prop_assert_eq!(without_tag(bootstrap), without_tag(&files));
        prop_assert_eq!(patched(found.clone(), desired), found);
    }
}
