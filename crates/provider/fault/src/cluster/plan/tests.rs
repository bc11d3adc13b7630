use nephele_api::cloud::v1alpha1::FaultSpec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{super::selection::namespaces_of, *};

const NAME: &str = "all";
const KEY: &str = "workshop";

fn spec(reason: &str) -> FaultSpec {
    serde_json::from_value(json!({ "effect": { "fail": { "reason": reason } } })).expect("a spec")
}

fn cluster_fault() -> ClusterFault {
    let metadata = json!({ "name": NAME, "uid": "uid-of-all" });
    let selector = json!({ "matchLabels": { KEY: "true" } });
    let spec = json!({ "effect": { "fail": { "reason": "Throttled" } }, "namespaceSelector": selector });
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).expect("a ClusterFault")
}

fn fault(namespace: &str, owner: &str, labels: &Value, spec: FaultSpec) -> Fault {
    let owner = json!({
        "apiVersion": "cloud.nephele.dev/v1alpha1", "kind": "ClusterFault", "name": NAME, "uid": owner, "controller": true,
    });
    let metadata = json!({
        "name": "cluster-fault-all", "namespace": namespace, "labels": labels, "ownerReferences": [owner],
    });
    Fault {
        metadata: serde_json::from_value(metadata).expect("metadata"),
        ..Fault::new("", spec)
    }
}

/// As the ClusterFault makes it.
fn own(namespace: &str) -> Fault {
    let label = json!({ "cloud.nephele.dev/cluster-fault": NAME });
    fault(namespace, "uid-of-all", &label, spec("Throttled"))
}

/// A namespace of the management API.
#[derive(Clone, Debug)]
struct Room {
    name: String,
    labels: BTreeMap<String, String>,
    is_going: bool,
    fault: Option<Fault>,
    refusal: Option<String>,
}

fn room(name: &str, is_labelled: bool, fault: Option<Fault>) -> Room {
    let labels = is_labelled
        .then(|| (KEY.to_owned(), "true".to_owned()))
        .into_iter()
        .collect();
    Room {
        name: name.to_owned(),
        labels,
        is_going: false,
        fault,
        refusal: None,
    }
}

fn planned(object: &ClusterFault, rooms: &[Room]) -> Plan {
    let selector = namespaces_of(&object.spec);
    let places = rooms.iter().map(|room| Place {
        namespace: &room.name,
        labels: &room.labels,
        is_going: room.is_going,
        fault: room.fault.clone().map(Arc::new),
        refusal: room.refusal.as_deref(),
    });
    plan(object, Some(&selector), places)
}

/// Does the acts, as the management API does. A Fault that is held by a finalizer is marked as deleted.
fn act(object: &ClusterFault, rooms: &mut [Room], acts: Vec<Act>) {
    for act in acts {
        let namespace = match &act {
            Act::Create(namespace) => namespace.clone(),
            Act::Restore { known, .. } => known.namespace().expect("it has one"),
            Act::Delete(fault) => fault.namespace().expect("it has one"),
        };
        let room = rooms
            .iter_mut()
            .find(|room| room.name == namespace)
            .expect("it exists");
        room.fault = match act {
            Act::Create(namespace) => {
                assert_eq!(room.fault, None, "nothing is overwritten");
                Some(wanted(object, &namespace))
            }
            Act::Restore { wanted, .. } => Some(*wanted),
            Act::Delete(_) => None,
        };
    }
}

#[test]
fn each_selected_namespace_has_the_fault() {
    let object = cluster_fault();
    let drifted = Fault {
        spec: spec("Timeout"),
        ..own("drifted")
    };
    let bare = fault("bare", "uid-of-all", &json!({ "kept": "" }), spec("Throttled"));
    let foreign = fault("foreign", "uid-of-another", &json!({}), spec("Timeout"));
    let rooms = [
        room("bare", true, Some(bare.clone())),
        room("drifted", true, Some(drifted.clone())),
        room("foreign", true, Some(foreign.clone())),
        Room {
            is_going: true,
            ..room("going", true, Some(own("going")))
        },
        room("left", false, Some(own("left"))),
        room("left-foreign", false, Some(foreign)),
        room("new", true, None),
        room("other", false, None),
        Room {
            refusal: Some("no room".into()),
            ..room("refusing", true, None)
        },
        room("there", true, Some(own("there"))),
    ];
    let labels = json!({ "kept": "", "cloud.nephele.dev/cluster-fault": NAME });
    let restored = fault("bare", "uid-of-all", &labels, spec("Throttled"));
    let restore = |known: &Fault, wanted| Act::Restore {
        known: Arc::new(known.clone()),
        wanted: Box::new(wanted),
    };
    let refused = |namespace: &str, message: &str| RefusedNamespace {
        namespace: namespace.into(),
        message: message.into(),
    };
    let expected = Plan {
        acts: vec![
            restore(&bare, restored),
            restore(&drifted, own("drifted")),
            Act::Delete(Arc::new(own("going"))),
            Act::Delete(Arc::new(own("left"))),
            Act::Create("new".into()),
        ],
        selected: 6,
        standing: [bare, drifted, own("there")].map(Arc::new).into(),
        refused: vec![
            refused(
                "foreign",
                "another Fault has the name cluster-fault-all; rename it, or delete it",
            ),
            refused("refusing", "no room"),
        ],
    };
    assert_eq!(planned(&object, &rooms), expected);
    assert_eq!(wanted(&object, "new"), own("new"));
}

#[test]
fn without_a_usable_selector_no_namespace_has_the_fault() {
    let name = "there";
    let labels = BTreeMap::new();
    let place = || Place {
        namespace: name,
        labels: &labels,
        is_going: false,
        fault: Some(Arc::new(own(name))),
        refusal: None,
    };
    let invalid = plan(&cluster_fault(), None, [place()]);
    assert_eq!(
        invalid,
        Plan {
            acts: vec![Act::Delete(Arc::new(own(name)))],
            ..Plan::default()
        }
    );
    let everywhere = plan(&cluster_fault(), Some(&Selector::default()), [place()]);
    assert_eq!(
        everywhere,
        Plan {
            selected: 1,
            standing: vec![Arc::new(own(name))],
            ..Plan::default()
        }
    );
}

#[test]
fn faults_belong_to_the_same_manager_as_their_cluster_fault() {
    let mut object = cluster_fault();
    let label = ("cluster.x-k8s.io/watch-filter".to_owned(), "mine".to_owned());
    object.metadata.labels = Some(BTreeMap::from([label.clone()]));
    assert_eq!(wanted(&object, "a").labels().get(&label.0), Some(&label.1));
}

#[test]
fn the_name_of_a_fault_tells_its_cluster_fault() {
    assert_eq!(cluster_fault_of(&fault_name(NAME)), Some(NAME));
    assert_eq!(cluster_fault_of("slow"), None);
}

fn any_fault() -> impl Strategy<Value = Option<Fault>> {
    let owner = prop::sample::select(vec!["uid-of-all", "uid-of-all", "uid-of-another"]);
    let label = prop::sample::select(vec![
        json!({}),
        json!({ "cloud.nephele.dev/cluster-fault": NAME }),
    ]);
    let reason = prop::sample::select(vec!["Throttled", "Timeout"]);
    let version = prop::sample::select(vec!["v1alpha1", "v1alpha0"]);
    prop::option::of(
        (owner, label, reason, version).prop_map(|(owner, label, reason, version)| {
            let mut fault = fault("", owner, &label, spec(reason));
            fault.owner_references_mut()[0].api_version = format!("{GROUP}/{version}");
            fault
        }),
    )
}

fn any_room() -> impl Strategy<Value = Room> {
    (any::<bool>(), prop::bool::weighted(0.2), any_fault()).prop_map(|(is_labelled, is_going, fault)| Room {
        is_going,
        ..room("", is_labelled, fault)
    })
}

proptest! {
    /// After the plan is done, exactly the selected namespaces have the Fault, what belongs to others is as it was, and
    /// there is nothing left to do.
    #[test]
    fn a_plan_is_complete(rooms in prop::collection::vec(any_room(), 0..12)) {
        let object = cluster_fault();
        let mut rooms = rooms;
        for (number, room) in rooms.iter_mut().enumerate() {
            room.name = format!("room-{number}");
            if let Some(fault) = &mut room.fault {
                fault.metadata.namespace = Some(room.name.clone());
            }
        }
        let before = rooms.clone();
        let first = planned(&object, &rooms);
        act(&object, &mut rooms, first.acts);
        for (before, after) in before.iter().zip(&rooms) {
            let foreign = before.fault.as_ref().filter(|fault| !is_of(fault, &object));
            let is_selected = !before.is_going && before.labels.contains_key(KEY);
            match foreign {
                Some(foreign) => prop_assert_eq!(after.fault.as_ref(), Some(foreign)),
                None => prop_assert_eq!(after.fault.clone(), is_selected.then(|| own(&after.name))),
            }
        }
        let second = planned(&object, &rooms);
        prop_assert_eq!(second.acts, vec![]);
        prop_assert_eq!(second.selected, second.standing.len() + second.refused.len());
        prop_assert_eq!(second.refused, first.refused);
    }
}

/// A merge would keep what cannot be read beside what is wanted.
#[test]
fn a_fault_that_cannot_be_read_is_made_again() {
    let object = cluster_fault();
    let mut broken = own("a");
    broken
        .annotations_mut()
        .insert("nephele.dev/unreadable".to_owned(), "spec.effect: two".to_owned());
    let plan = planned(&object, &[room("a", true, Some(broken.clone()))]);
    assert_eq!(plan.acts, [Act::Delete(Arc::new(broken))]);
}
