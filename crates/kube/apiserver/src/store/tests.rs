//! Tests of the store's guarantees, on small histories and on random ones.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{events::EVENTS_MAX, *};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn store() -> Arc<Store> {
    let store = Store::new(StoreOptions::default());
    store.create_default_namespaces(NOW);
    store
}

fn map(name: &str) -> Key {
    Key::new("", "configmaps", "default", name)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "`json!` values read best when passed as they are"
)]
fn create(store: &Store, key: &Key, metadata: Value) -> Arc<Object> {
    store.create(NOW, key, json!({"metadata": metadata})).unwrap()
}

fn owner(object: &Object, blocking: bool) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": &*object.name, "uid": &*object.uid,
           "blockOwnerDeletion": blocking})
}

fn owned(store: &Store, name: &str, owners: &[&Object]) -> Arc<Object> {
    let owners: Vec<_> = owners.iter().map(|object| owner(object, true)).collect();
    create(store, &map(name), json!({"ownerReferences": owners}))
}

fn delete(store: &Store, key: &Key, propagation: Propagation) -> Deletion {
    store
        .delete(
            NOW,
            key,
            &DeleteOptions {
                propagation,
                ..DeleteOptions::default()
            },
        )
        .unwrap()
}

fn names(store: &Store) -> Vec<String> {
    let listed = store.list(&map("").resource, None);
    listed
        .objects
        .iter()
        .map(|object| object.name.to_string())
        .collect()
}

fn finalizers(store: &Store, key: &Key) -> Value {
    store.get(key).unwrap().value()["metadata"]["finalizers"].clone()
}

#[test]
fn created_object_carries_what_the_server_writes() {
    let store = store();
    let deployment = Key::new("apps", "deployments", "default", "a");
    let object = create(
        &store,
        &deployment,
        json!({"generation": 9, "managedFields": [{}], "labels": {}}),
    );
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "a", "namespace": "default", "uid": &*object.uid, "generation": 1,
            "resourceVersion": object.resource_version.to_string(), "creationTimestamp": "1970-01-01T00:00:00Z",
        },
    });
    assert_eq!(object.value(), expected);
}

#[test]
fn same_history_gives_the_same_uids() {
    let uid = || create(&store(), &map("a"), json!({})).uid.clone();
    assert_eq!(uid(), uid());
}

#[test]
fn owner_of_the_store_may_choose_uid_and_creation_time() {
    let store = store();
    let object = create(
        &store,
        &map("a"),
        json!({"uid": "u1", "creationTimestamp": "2020-01-01T00:00:00Z"}),
    );
    assert_eq!(&*object.uid, "u1");
    assert_eq!(
        object.value()["metadata"]["creationTimestamp"],
        "2020-01-01T00:00:00Z"
    );
}

#[test]
fn object_needs_a_namespace_that_stays() {
    let store = store();
    let inside = Key::new("", "configmaps", "x", "a");
    let missing = store.create(NOW, &inside, json!({})).unwrap_err();
    assert_eq!(missing.to_string(), "namespaces \"x\" not found");
    let namespace = Key::new("", "namespaces", "", "x");
    create(&store, &namespace, json!({"finalizers": ["example.com/hold"]}));
    create(&store, &inside, json!({}));
    delete(&store, &namespace, Propagation::Background);
    assert!(store.get(&inside).is_none());
    let late = store.create(NOW, &inside, json!({})).unwrap_err();
    assert!(matches!(late, StoreError::NamespaceTerminating { .. }), "{late}");
}

#[test]
fn namespace_waits_for_contents_with_finalizers() {
    let store = store();
    let namespace = Key::new("", "namespaces", "", "x");
    create(&store, &namespace, json!({}));
    let held = Key::new("", "secrets", "x", "held");
    create(&store, &held, json!({"finalizers": ["example.com/hold"]}));
    assert!(matches!(
        delete(&store, &namespace, Propagation::Background),
        Deletion::Pending(_)
    ));
    assert_eq!(
        store.get(&namespace).unwrap().value()["status"]["phase"],
        "Terminating"
    );
    assert!(store.get(&held).unwrap().deleting);
    store
        .modify(NOW, &held, |value| value["metadata"]["finalizers"] = json!([]))
        .unwrap();
    assert!(store.get(&held).is_none());
    assert!(store.get(&namespace).is_none());
}

#[test]
fn update_that_changes_nothing_costs_no_version() {
    let store = store();
    let before = create(&store, &map("a"), json!({}));
    let after = store.modify(NOW, &map("a"), |_| {}).unwrap();
    assert_eq!(before.resource_version, after.resource_version);
    assert_eq!(store.resource_version(), before.resource_version);
}

#[test]
fn generation_counts_changes_of_what_is_desired() {
    let store = store();
    let key = Key::new("apps", "deployments", "default", "a");
    store.create(NOW, &key, json!({"spec": {"replicas": 1}})).unwrap();
    let generation = |edit: fn(&mut Value)| {
        store.modify(NOW, &key, edit).unwrap().value()["metadata"]["generation"].clone()
    };
    assert_eq!(generation(|value| value["status"] = json!({"replicas": 1})), 1);
    assert_eq!(
        generation(|value| value["metadata"]["labels"] = json!({"a": "b"})),
        1
    );
    assert_eq!(generation(|value| value["spec"]["replicas"] = 2.into()), 2);
    assert_eq!(generation(|value| value["metadata"]["generation"] = 7.into()), 2);
}

#[test]
fn status_and_the_rest_are_written_apart() {
    let store = store();
    let key = Key::new("", "nodes", "", "n");
    store
        .create(
            NOW,
            &key,
            json!({"spec": {"podCIDR": "a"}, "status": {"phase": "old"}}),
        )
        .unwrap();
    let all =
        json!({"metadata": {"labels": {"l": "v"}}, "spec": {"podCIDR": "b"}, "status": {"phase": "new"}});
    let write = |part| {
        let all = all.clone();
        store
            .update::<StoreError>(NOW, &key, part, false, |_| Ok(all))
            .unwrap()
            .value()
    };
    let status = write(Part::Status);
    assert_eq!(
        (&status["spec"]["podCIDR"], &status["status"]["phase"]),
        (&json!("a"), &json!("new"))
    );
    assert_eq!(status["metadata"].get("labels"), None);
    let all = json!({"metadata": {"labels": {"l": "v"}}, "spec": {"podCIDR": "b"}, "status": {"phase": "x"}});
    let main = store
        .update::<StoreError>(NOW, &key, Part::Main, false, |_| Ok(all))
        .unwrap()
        .value();
    assert_eq!(
        (&main["spec"]["podCIDR"], &main["status"]["phase"]),
        (&json!("b"), &json!("new"))
    );
    assert_eq!(main["metadata"]["labels"], json!({"l": "v"}));
}

#[test]
fn preconditions_protect_another_object_and_another_version() {
    let store = store();
    let object = create(&store, &map("a"), json!({}));
    let options = |uid: &str, resource_version| DeleteOptions {
        uid: Some(uid.to_owned()),
        resource_version,
        ..DeleteOptions::default()
    };
    for wrong in [
        options("other", None),
        options(&object.uid, Some(object.resource_version + 1)),
    ] {
        let error = store.delete(NOW, &map("a"), &wrong).unwrap_err();
        assert!(matches!(error, StoreError::Conflict { .. }), "{error}");
    }
    let right = options(&object.uid, Some(object.resource_version));
    assert!(matches!(
        store.delete(NOW, &map("a"), &right),
        Ok(Deletion::Gone(_))
    ));
}

#[test]
fn finalizer_holds_a_deleted_object_and_no_new_one_is_taken() {
    let store = store();
    create(&store, &map("a"), json!({"finalizers": ["example.com/hold"]}));
    let Deletion::Pending(pending) = delete(&store, &map("a"), Propagation::Background) else {
        panic!("it has a finalizer");
    };
    assert_eq!(
        pending.value()["metadata"]["deletionTimestamp"],
        "1970-01-01T00:00:00Z"
    );
    let add =
        |value: &mut Value| value["metadata"]["finalizers"] = json!(["example.com/hold", "example.com/new"]);
    assert!(matches!(
        store.modify(NOW, &map("a"), add),
        Err(StoreError::Invalid { .. })
    ));
    store
        .modify(NOW, &map("a"), |value| {
            value["metadata"]["finalizers"] = json!([]);
        })
        .unwrap();
    assert!(store.get(&map("a")).is_none());
    let last = store
        .changes_since(pending.resource_version, &map("").resource, usize::MAX)
        .unwrap()
        .pop()
        .unwrap();
    assert_eq!(last.kind, ChangeKind::Deleted);
    assert!(last.object.resource_version > pending.resource_version);
}

#[test]
fn dependents_follow_the_last_owner() {
    let store = store();
    let a = create(&store, &map("a"), json!({}));
    let b = create(&store, &map("b"), json!({}));
    owned(&store, "both", &[&a, &b]);
    let child = owned(&store, "child", &[&a]);
    owned(&store, "grandchild", &[&child]);
    delete(&store, &map("a"), Propagation::Background);
    assert_eq!(names(&store), ["b", "both"]);
    assert_eq!(
        store.get(&map("both")).unwrap().value()["metadata"]["ownerReferences"],
        json!([owner(&b, true)])
    );
    delete(&store, &map("b"), Propagation::Background);
    assert_eq!(names(&store), Vec::<String>::new());
    assert!(store.state.lock().dependents.is_empty());
}

#[test]
fn foreground_deletion_waits_for_blocking_dependents() {
    let store = store();
    let a = create(&store, &map("a"), json!({}));
    create(
        &store,
        &map("child"),
        json!({"ownerReferences": [owner(&a, true)], "finalizers": ["example.com/hold"]}),
    );
    create(
        &store,
        &map("loose"),
        json!({"ownerReferences": [owner(&a, false)]}),
    );
    assert!(matches!(
        delete(&store, &map("a"), Propagation::Foreground),
        Deletion::Pending(_)
    ));
    assert_eq!(finalizers(&store, &map("a")), json!(["foregroundDeletion"]));
    assert!(store.get(&map("child")).unwrap().deleting);
    assert!(!store.get(&map("loose")).unwrap().deleting);
    store
        .modify(NOW, &map("child"), |value| {
            value["metadata"]["finalizers"] = json!([]);
        })
        .unwrap();
    assert_eq!(names(&store), Vec::<String>::new());
}

#[test]
fn dependent_that_blocks_no_longer_lets_its_owner_go() {
    let store = store();
    let a = create(&store, &map("a"), json!({}));
    for name in ["unblocked", "moved"] {
        let metadata = json!({"ownerReferences": [owner(&a, true)], "finalizers": ["example.com/hold"]});
        create(&store, &map(name), metadata);
    }
    assert!(matches!(
        delete(&store, &map("a"), Propagation::Foreground),
        Deletion::Pending(_)
    ));
    store
        .modify(NOW, &map("moved"), |value| {
            value["metadata"]["ownerReferences"] = json!([]);
        })
        .unwrap();
    assert!(store.get(&map("a")).is_some());
    let unblock =
        |value: &mut Value| value["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = false.into();
    store.modify(NOW, &map("unblocked"), unblock).unwrap();
    assert_eq!(names(&store), ["moved", "unblocked"]);
}

#[test]
fn orphans_stay_without_their_owner() {
    let store = store();
    let a = create(&store, &map("a"), json!({}));
    owned(&store, "child", &[&a]);
    assert!(matches!(
        delete(&store, &map("a"), Propagation::Orphan),
        Deletion::Gone(_)
    ));
    assert_eq!(names(&store), ["child"]);
    assert_eq!(
        store.get(&map("child")).unwrap().value()["metadata"].get("ownerReferences"),
        None
    );
}

#[test]
fn object_whose_owner_is_gone_already_is_collected() {
    let store = store();
    let a = create(&store, &map("a"), json!({}));
    delete(&store, &map("a"), Propagation::Background);
    owned(&store, "late", &[&a]);
    assert_eq!(names(&store), Vec::<String>::new());
    let unknown = json!([{"apiVersion": "example.com/v1", "kind": "Unknown", "name": "x", "uid": "u"}]);
    create(&store, &map("kept"), json!({"ownerReferences": unknown}));
    assert_eq!(names(&store), ["kept"]);
}

#[test]
fn pods_are_found_by_the_node_that_they_are_bound_to() {
    let store = store();
    let pod = |name: &str| Key::new("", "pods", "default", name);
    let bound = |node: &str| json!({"spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
    for (name, node) in [("a", "one"), ("b", "two"), ("c", "one"), ("d", "")] {
        store.create(NOW, &pod(name), bound(node)).unwrap();
    }
    // Another kind with such a field is no pod.
    store
        .create(NOW, &map("a"), json!({"spec": {"nodeName": "one"}}))
        .unwrap();
    let check = |store: &Store, node: &str, names: &[&str]| {
        assert_eq!(
            store.pods_on(node),
            names.iter().map(|name| pod(name)).collect::<Vec<_>>(),
            "{node}"
        );
    };
    check(&store, "one", &["a", "c"]);
    check(&store, "", &[]);
    assert_eq!(store.count(&pod("").resource), 4);
    store
        .modify(NOW, &pod("d"), |pod| pod["spec"]["nodeName"] = "two".into())
        .unwrap();
    store
        .modify(NOW, &pod("c"), |pod| {
            pod["metadata"]["labels"] = json!({"x": "y"});
        })
        .unwrap();
    store.delete(NOW, &pod("a"), &DeleteOptions::default()).unwrap();
    check(&store, "one", &["c"]);
    check(&store, "two", &["b", "d"]);
    let copy = store.copy();
    store.delete(NOW, &pod("c"), &DeleteOptions::default()).unwrap();
    check(&store, "one", &[]);
    check(&copy, "one", &["c"]);
}

#[test]
fn circle_of_owners_is_collected_in_the_foreground_too() {
    let store = store();
    let a = create(&store, &map("a"), json!({}));
    let b = owned(&store, "b", &[&a]);
    store
        .modify(NOW, &map("a"), |value| {
            value["metadata"]["ownerReferences"] = json!([owner(&b, true)]);
        })
        .unwrap();
    delete(&store, &map("a"), Propagation::Foreground);
    assert_eq!(names(&store), Vec::<String>::new());
}

#[test]
fn long_chain_of_owners_needs_no_stack() {
    let store = store();
    let mut last = create(&store, &map("c0"), json!({}));
    for index in 1..20_000 {
        last = owned(&store, &format!("c{index}"), &[&last]);
    }
    delete(&store, &map("c0"), Propagation::Background);
    assert_eq!(names(&store), Vec::<String>::new());
}

fn definition(versions: &Value) -> Value {
    json!({
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
                 "versions": versions},
    })
}

#[test]
fn definition_adds_a_kind_and_takes_it_away_after_its_objects() {
    let store = store();
    let key = Key::new(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "",
        "widgets.example.com",
    );
    let versions = json!([{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}}]);
    let created = store.create(NOW, &key, definition(&versions)).unwrap().value();
    assert_eq!(created["status"]["acceptedNames"]["listKind"], "WidgetList");
    assert_eq!(created["status"]["storedVersions"], json!(["v1"]));
    let kinds = ["NamesAccepted", "Established"].map(|kind| (kind.to_owned(), "True".to_owned()));
    let conditions = created["status"]["conditions"].as_array().unwrap();
    let seen: Vec<_> = conditions
        .iter()
        .map(|c| {
            (
                c["type"].as_str().unwrap().to_owned(),
                c["status"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    assert_eq!(seen, kinds);

    let widget = Key::new("example.com", "widgets", "default", "w");
    create(&store, &widget, json!({"finalizers": ["example.com/hold"]}));
    assert!(matches!(
        delete(&store, &key, Propagation::Background),
        Deletion::Pending(_)
    ));
    assert!(store.get(&widget).unwrap().deleting);
    store
        .modify(NOW, &widget, |value| value["metadata"]["finalizers"] = json!([]))
        .unwrap();
    assert!(store.get(&key).is_none());
    assert_eq!(
        store.create(NOW, &widget, json!({})).unwrap_err(),
        StoreError::UnknownResource
    );
}

#[test]
fn definition_that_defines_nothing_is_refused() {
    let store = store();
    let key = Key::new(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "",
        "widgets.example.com",
    );
    for value in [
        json!({}),
        json!({"spec": "x"}),
        definition(&json!([])),
        definition(&json!([{"name": 1}])),
    ] {
        let error = store.create(NOW, &key, value.clone()).unwrap_err();
        assert!(matches!(error, StoreError::Invalid { .. }), "{value}: {error}");
    }
}

#[test]
fn watcher_that_falls_off_the_log_is_told_so() {
    let store = Store::new(StoreOptions {
        event_log_capacity: 3,
        ..StoreOptions::default()
    });
    store.create_default_namespaces(NOW);
    let start = store.resource_version();
    for name in ["a", "b", "c"] {
        create(&store, &map(name), json!({}));
    }
    assert_eq!(
        store
            .changes_since(start, &map("").resource, usize::MAX)
            .unwrap()
            .len(),
        3
    );
    create(&store, &map("d"), json!({}));
    let expired = store
        .changes_since(start, &map("").resource, usize::MAX)
        .unwrap_err();
    assert_eq!(
        expired,
        Expired {
            requested: start,
            oldest: start + 1
        }
    );
}

#[test]
fn large_objects_shorten_the_log() {
    let store = Store::new(StoreOptions {
        event_log_bytes_max: 10_000,
        ..StoreOptions::default()
    });
    store.create_default_namespaces(NOW);
    store
        .create(NOW, &map("a"), json!({"data": {"k": "x".repeat(6_000)}}))
        .unwrap();
    let start = store.resource_version();
    for index in 0..2 {
        store
            .modify(NOW, &map("a"), |value| {
                value["data"]["n"] = index.to_string().into();
            })
            .unwrap();
    }
    assert!(store.changes_since(start, &map("").resource, usize::MAX).is_err());
    assert_eq!(
        store
            .changes_since(start + 1, &map("").resource, usize::MAX)
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn events_do_not_pile_up() {
    let store = store();
    let event = |index: usize| Key::new("", "events", "default", &format!("e{index}"));
    let hour = jiff::SignedDuration::from_hours(1);
    create(&store, &event(0), json!({}));
    create(&store, &event(1), json!({}));
    let later = NOW + hour;
    store
        .modify(later, &event(1), |value| value["count"] = 2.into())
        .unwrap();
    store.create(later + hour / 2, &event(2), json!({})).unwrap();
    // The first has not been touched for more than an hour.
    let names: Vec<_> = store
        .list(&event(0).resource, None)
        .objects
        .iter()
        .map(|e| e.name.to_string())
        .collect();
    assert_eq!(names, ["e1", "e2"]);
    for index in 3..EVENTS_MAX + 10 {
        store.create(later + hour / 2, &event(index), json!({})).unwrap();
    }
    assert_eq!(store.list(&event(0).resource, None).objects.len(), EVENTS_MAX);
}

/// A step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Create {
        name: u8,
        label: u8,
        owner: Option<u8>,
        held: bool,
    },
    Label {
        name: u8,
        label: u8,
    },
    Release {
        name: u8,
    },
    Delete {
        name: u8,
        propagation: Propagation,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let propagation = prop_oneof![
        Just(Propagation::Background),
        Just(Propagation::Foreground),
        Just(Propagation::Orphan)
    ];
    prop_oneof![
        3 => (0..8u8, 0..3u8, prop::option::of(0..8u8), prop::bool::weighted(0.2))
            .prop_map(|(name, label, owner, held)| Step::Create { name, label, owner, held }),
        3 => (0..8u8, 0..3u8).prop_map(|(name, label)| Step::Label { name, label }),
        1 => (0..8u8).prop_map(|name| Step::Release { name }),
        2 => (0..8u8, propagation).prop_map(|(name, propagation)| Step::Delete { name, propagation }),
    ]
}

fn run(store: &Store, step: &Step) {
    let key = |name: &u8| map(&format!("n{name}"));
    let labels = |label: &u8| json!({"l": label.to_string()});
    // A refused step must leave no trace: that is the point of running it.
    match step {
        Step::Create {
            name,
            label,
            owner: of,
            held,
        } => {
            let owners: Vec<_> = of
                .iter()
                .filter_map(|of| store.get(&key(of)))
                .map(|object| owner(&object, true))
                .collect();
            let finalizers = if *held {
                json!(["example.com/hold"])
            } else {
                json!([])
            };
            let metadata =
                json!({"labels": labels(label), "ownerReferences": owners, "finalizers": finalizers});
            let _ = store.create(NOW, &key(name), json!({"metadata": metadata}));
        }
        Step::Label { name, label } => {
            let _ = store.modify(NOW, &key(name), |value| {
                value["metadata"]["labels"] = labels(label);
            });
        }
        Step::Release { name } => {
            let _ = store.modify(NOW, &key(name), |value| {
                let list = value["metadata"]["finalizers"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default();
                let left = list
                    .into_iter()
                    .filter(|finalizer| finalizer != "example.com/hold")
                    .collect();
                value["metadata"]["finalizers"] = Value::Array(left);
            });
        }
        Step::Delete { name, propagation } => {
            let options = DeleteOptions {
                propagation: *propagation,
                ..DeleteOptions::default()
            };
            let _ = store.delete(NOW, &key(name), &options);
        }
    }
}

fn snapshot(objects: &[Arc<Object>]) -> BTreeMap<String, bytes::Bytes> {
    objects
        .iter()
        .map(|object| (object.name.to_string(), object.bytes.clone()))
        .collect()
}

proptest! {
    /// A list and the changes after it give the present state, whenever the list was made.
    #[test]
    fn list_and_replay_give_the_present(
        steps in prop::collection::vec(step(), 1..60),
        at in 0..60usize,
        page in 1..4usize,
    ) {
        let store = Store::new(StoreOptions { event_log_bytes_max: usize::MAX, ..StoreOptions::default() });
        store.create_default_namespaces(NOW);
        let resource = map("").resource;
        let at = at.min(steps.len());
        steps[..at].iter().for_each(|step| run(&store, step));
        let listed = store.list(&resource, None);
        let mut replayed = snapshot(&listed.objects);
        steps[at..].iter().for_each(|step| run(&store, step));
        for change in store.changes_since(listed.resource_version, &resource, usize::MAX).unwrap() {
            let name = change.object.name.to_string();
            let before = replayed.get(&name);
            prop_assert_eq!(before, change.previous.as_ref().map(|object| &object.bytes));
            match change.kind {
                ChangeKind::Deleted => replayed.remove(&name),
                ChangeKind::Added | ChangeKind::Modified => replayed.insert(name, change.object.bytes.clone()),
            };
        }
        prop_assert_eq!(replayed, snapshot(&store.list(&resource, None).objects));
        // The earlier list is still available now, also in pages.
        let mut past: Vec<Arc<Object>> = Vec::new();
        loop {
            let after = past.last().cloned();
            let after = after.as_ref().map(|object| (&*object.namespace, &*object.name));
            let more = store.list_at(&resource, None, listed.resource_version, after, page).unwrap();
            if more.is_empty() {
                break;
            }
            prop_assert!(more.len() <= page);
            past.extend(more);
        }
        let bytes = |objects: &[Arc<Object>]| objects.iter().map(|object| object.bytes.clone()).collect::<Vec<_>>();
        prop_assert_eq!(bytes(&past), bytes(&listed.objects));
    }

    /// Each change has its own version, greater than the one before, and the counter is the version of the last.
    #[test]
    fn versions_only_grow(steps in prop::collection::vec(step(), 1..60)) {
        let store = Store::new(StoreOptions { event_log_bytes_max: usize::MAX, ..StoreOptions::default() });
        store.create_default_namespaces(NOW);
        let mut last = store.resource_version();
        for step in &steps {
            run(&store, step);
            for change in store.changes_since(last, &map("").resource, usize::MAX).unwrap() {
                let value = change.object.value();
                prop_assert!(change.object.resource_version > last);
                prop_assert_eq!(&value["metadata"]["resourceVersion"], &change.object.resource_version.to_string());
                last = change.object.resource_version;
            }
            prop_assert_eq!(store.resource_version(), last);
        }
    }

    /// No object outlives all of its owners, and the index of dependents agrees with the objects.
    #[test]
    fn no_orphan_is_left(steps in prop::collection::vec(step(), 1..80)) {
        let store = store();
        for step in &steps {
            run(&store, step);
            let objects = store.list(&map("").resource, None).objects;
            let alive = |uid: &str| objects.iter().any(|object| *object.uid == *uid);
            for object in &objects {
                let owners = &object.owners;
                prop_assert!(owners.is_empty() || object.deleting || owners.iter().any(|uid| alive(uid)));
                prop_assert!(!object.deleting || object.has_finalizers);
            }
            let state = store.state.lock();
            let indexed: usize = state.dependents.values().map(BTreeSet::len).sum();
            prop_assert_eq!(indexed, objects.iter().map(|object| object.owners.len()).sum::<usize>());
            prop_assert!(state.checks.is_empty());
        }
    }
}
