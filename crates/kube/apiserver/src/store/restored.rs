//! Tests that a restored store equals the original.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// A journal in memory.
#[derive(Default)]
struct Memory(Mutex<Content>);

#[derive(Clone, Default)]
struct Content {
    objects: BTreeMap<Key, bytes::Bytes>,
    version: u64,
    /// How many objects each change recorded.
    changes: Vec<usize>,
}

impl Memory {
    fn content(&self) -> Content {
        self.0.lock().clone()
    }
}

impl Journal for Memory {
    fn record(&self, resource_version: u64, changes: Vec<Recorded>) {
        let mut content = self.0.lock();
        assert!(resource_version > content.version, "versions grow");
        content.version = resource_version;
        content.changes.push(changes.len());
        for Recorded { key, state } in changes {
            match state {
                Kept::There(object) => content.objects.insert(key, object.bytes.clone()),
                Kept::Gone(_) => content.objects.remove(&key),
            };
        }
    }

    fn kept(&self) -> std::pin::Pin<Box<dyn Future<Output = Result<(), Unkept>> + Send>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn admits(&self) -> Result<(), Unkept> {
        Ok(())
    }
}

fn restore(content: &Content) -> (Arc<Store>, Arc<Memory>) {
    let memory = Arc::new(Memory(Mutex::new(content.clone())));
    let kept = content.objects.clone().into_iter().collect();
    // The latest change may have been a deletion, which leaves no object.
    let options = StoreOptions {
        first_version: content.version + 1,
        ..StoreOptions::default()
    };
    let store = Store::restored(options, NOW, kept, Some(memory.clone()));
    (store.expect("written by a store"), memory)
}

fn empty() -> (Arc<Store>, Arc<Memory>) {
    let (store, memory) = restore(&Content::default());
    store.create_default_namespaces(NOW);
    (store, memory)
}

/// All objects as the server returns them.
fn objects(store: &Store) -> BTreeMap<Key, Value> {
    store
        .objects()
        .into_iter()
        .map(|(key, object)| (key, object.value()))
        .collect()
}

fn map(name: &str) -> Key {
    Key::new("", "configmaps", "default", name)
}

fn create(store: &Store, key: &Key, value: Value) -> Arc<Object> {
    store.create(NOW, key, value).expect("a good object")
}

fn definition() -> Value {
    json!({"spec": {
        "group": "g.io", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {}}}],
    }})
}

#[test]
fn objects_return_with_versions_uids_and_kinds_and_the_counter_continues_above_them() {
    let (store, memory) = empty();
    create(&store, &definition::key_of("things.g.io"), definition());
    let thing = Key::new("g.io", "things", "default", "a");
    create(&store, &thing, json!({"spec": {"size": 3}}));
    create(
        &store,
        &map("held"),
        json!({"metadata": {"finalizers": ["x.io/held"], "labels": {"a": "b"}}}),
    );
    assert!(matches!(
        store.delete(NOW, &map("held"), &DeleteOptions::default()),
        Ok(Deletion::Pending(_))
    ));
    // The definition is newer than its object now.
    let labelled = |value: &mut Value| value["metadata"]["labels"] = json!({"later": "yes"});
    store
        .modify(NOW, &definition::key_of("things.g.io"), labelled)
        .expect("it is there");

    let (again, _) = restore(&memory.content());
    assert_eq!(objects(&again), objects(&store));
    assert!(again.resource_type(&thing.resource).is_some());
    let newest = store.resource_version();
    assert!(again.resource_version() > newest);
    assert_eq!(
        again
            .changes_since(newest, &thing.resource, usize::MAX)
            .expect_err("the log is gone"),
        Expired {
            requested: newest,
            oldest: again.resource_version()
        }
    );
    let held = again.get(&map("held")).expect("it waits for its finalizer");
    assert_eq!((held.label("a"), held.is_deleting()), (Some("b"), true));
    let release = |value: &mut Value| drop(metadata_mut(value).remove("finalizers"));
    again.modify(NOW, &map("held"), release).expect("it is there");
    assert!(again.get(&map("held")).is_none());
    assert!(create(&again, &map("new"), json!({})).resource_version > newest);
}

#[test]
fn change_and_what_follows_from_it_are_recorded_as_one() {
    let (store, memory) = empty();
    let owner = create(&store, &map("owner"), json!({}));
    for name in ["a", "b"] {
        let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": &*owner.uid});
        create(
            &store,
            &map(name),
            json!({"metadata": {"ownerReferences": [reference]}}),
        );
    }
    let before = memory.content().changes.len();
    store
        .delete(NOW, &map("owner"), &DeleteOptions::default())
        .expect("it is there");
    assert_eq!(memory.content().changes[before..], [3]);
    // A write that changes nothing is not recorded.
    store
        .delete(NOW, &map("owner"), &DeleteOptions::default())
        .expect_err("it is gone");
    let namespace = Key::new("", "namespaces", "", "default");
    store.modify(NOW, &namespace, |_| {}).expect("it is there");
    assert_eq!(memory.content().changes.len(), before + 1);
}

#[test]
fn what_no_store_has_written_is_refused_by_its_name() {
    let restore = |bytes: &'static str| {
        let kept = vec![(map("a"), bytes::Bytes::from_static(bytes.as_bytes()))];
        let memory = Arc::new(Memory::default());
        Store::restored(StoreOptions::default(), NOW, kept, Some(memory))
            .expect_err("nonsense")
            .to_string()
    };
    assert_eq!(restore("{"), r#"failed to read configmaps "default" "a""#);
    let other = r#"failed to restore configmaps "default" "a": its record holds another object"#;
    for bytes in [
        "{}",
        "[]",
        r#"{"metadata": {"name": "a", "namespace": "default"}}"#,
    ] {
        assert_eq!(restore(bytes), other, "{bytes}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Create {
        name: usize,
        owners: Vec<usize>,
        finalizer: bool,
    },
    Label {
        name: usize,
        value: u8,
    },
    Release {
        name: usize,
    },
    Delete {
        name: usize,
        propagation: Propagation,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..6_usize;
    let propagation = prop_oneof![
        Just(Propagation::Background),
        Just(Propagation::Foreground),
        Just(Propagation::Orphan)
    ];
    prop_oneof![
        4 => (name(), vec(name(), 0..3), prop::bool::weighted(0.2))
            .prop_map(|(name, owners, finalizer)| Step::Create { name, owners, finalizer }),
        2 => (name(), any::<u8>()).prop_map(|(name, value)| Step::Label { name, value }),
        1 => name().prop_map(|name| Step::Release { name }),
        2 => (name(), propagation).prop_map(|(name, propagation)| Step::Delete { name, propagation }),
    ]
}

fn run(store: &Store, steps: &[Step]) {
    let key = |name: usize| map(&format!("m{name}"));
    for step in steps {
        // Refused steps are part of the history too.
        match step {
            Step::Create {
                name,
                owners,
                finalizer,
            } => {
                let owners: Vec<_> = owners
                    .iter()
                    .filter_map(|owner| store.get(&key(*owner)))
                    .map(|owner| {
                        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": &*owner.name,
                               "uid": &*owner.uid, "blockOwnerDeletion": true})
                    })
                    .collect();
                let finalizers: &[&str] = if *finalizer { &["x.io/held"] } else { &[] };
                let metadata = json!({"ownerReferences": owners, "finalizers": finalizers});
                let _ = store.create(NOW, &key(*name), json!({"metadata": metadata}));
            }
            Step::Label { name, value } => {
                let label = |object: &mut Value| {
                    object["metadata"]["labels"] = json!({"value": value.to_string()});
                };
                let _ = store.modify(NOW, &key(*name), label);
            }
            Step::Release { name } => {
                let release = |object: &mut Value| {
                    let finalizers = metadata_mut(object)
                        .get_mut("finalizers")
                        .and_then(Value::as_array_mut);
                    finalizers
                        .into_iter()
                        .for_each(|list| list.retain(|name| name != "x.io/held"));
                };
                let _ = store.modify(NOW, &key(*name), release);
            }
            Step::Delete { name, propagation } => {
                let options = DeleteOptions {
                    propagation: *propagation,
                    ..DeleteOptions::default()
                };
                let _ = store.delete(NOW, &key(*name), &options);
            }
        }
    }
}

/// Everything that does not depend on the counter: names, labels, finalizers, owners by name, whether deleted.
fn shape(store: &Store) -> Vec<Value> {
    let described = |object: Value| {
        let metadata = &object["metadata"];
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let owners: Vec<_> = owners
            .map(|owner| (&owner["name"], &owner["blockOwnerDeletion"]))
            .collect();
        json!([
            metadata["name"],
            metadata["labels"],
            metadata["finalizers"],
            owners,
            metadata["deletionTimestamp"]
        ])
    };
    objects(store).into_values().map(described).collect()
}

proptest! {
    #[test]
    fn store_continues_as_if_it_had_never_stopped(before in vec(step(), 0..30), after in vec(step(), 0..20)) {
        let (store, memory) = empty();
        run(&store, &before);
        let (again, kept_again) = restore(&memory.content());
        prop_assert_eq!(objects(&again), objects(&store));
        run(&store, &after);
        run(&again, &after);
        prop_assert_eq!(shape(&again), shape(&store));
        let (third, _) = restore(&kept_again.content());
        prop_assert_eq!(objects(&third), objects(&again));
    }
}
