use proptest::prelude::*;

use super::*;

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).expect("an object")
}

fn of(api_version: &str, kind: &str, uid: usize, owners: &[usize]) -> DynamicObject {
    let owner =
        |owner: &usize| json!({"apiVersion": "v1", "kind": "K", "name": "n", "uid": owner.to_string()});
    object(json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {
            "name": format!("o{uid}"), "namespace": "one", "uid": uid.to_string(),
            "ownerReferences": owners.iter().map(owner).collect::<Vec<_>>(),
        },
        "spec": {},
    }))
}

prop_compose! {
    /// Objects, each owned by some of those before it, in any order.
    fn owned()(
        objects in prop::collection::vec((0..4_usize, prop::collection::vec(any::<prop::sample::Index>(), 0..3)), 1..30)
    )(
        shuffled in Just(objects.into_iter().enumerate().map(|(uid, (kind, owners))| {
            let owners: Vec<_> = if uid == 0 { Vec::new() } else { owners.iter().map(|o| o.index(uid)).collect() };
            match kind {
                0 => of("cluster.x-k8s.io/v1beta2", "Cluster", uid, &owners),
                1 => of("cloud.nephele.dev/v1alpha1", "SimulatedCloud", uid, &owners),
                2 => of("v1", "Secret", uid, &owners),
                _ => of("cluster.x-k8s.io/v1beta2", "Machine", uid, &owners),
            }
        }).collect::<Vec<_>>()).prop_shuffle()
    ) -> Vec<DynamicObject> { shuffled }
}

proptest! {
    #[test]
    fn every_object_is_created_once_after_its_owners_and_clusters_come_last(objects in owned()) {
        let generations = generations(objects.clone());
        let mut created = BTreeSet::new();
        for Generation { part, objects } in &generations {
            for object in objects {
                for owner in object.owner_references() {
                    prop_assert!(created.contains(&owner.uid), "{} before its owner", object.name_any());
                }
                prop_assert!(!is_cluster(object) || *part == Part::Clusters);
            }
            created.extend(objects.iter().filter_map(kube::ResourceExt::uid));
        }
        prop_assert_eq!(created.len(), objects.len());
        prop_assert_eq!(generations.iter().map(|of| of.objects.len()).sum::<usize>(), objects.len());
        prop_assert!(generations.is_sorted_by_key(|generation| generation.part));
    }

    #[test]
    fn a_resumed_object_is_as_it_was_saved(objects in owned(), paused in any::<Option<bool>>(), annotated: bool) {
        let uids = objects.iter().filter_map(|object| Some((object.uid()?, format!("new-{}", object.uid()?))));
        let uids: BTreeMap<_, _> = uids.collect();
        for mut saved in objects {
            if is_cluster(&saved) && let Some(paused) = paused {
                saved.data["spec"]["paused"] = json!(paused);
            }
            if annotated {
                saved.annotations_mut().insert(PAUSED_ANNOTATION.to_owned(), String::new());
            }
            let part = parts(std::slice::from_ref(&saved))[0];
            let mut value = serde_json::to_value(prepared(&saved, part, &uids)).expect("JSON");
            if let Some(patch) = resumed(&saved, part) {
                merge(&mut value, &patch);
            }
            for owner in saved.owner_references_mut() {
                owner.uid = format!("new-{}", owner.uid);
            }
            saved.metadata.uid = None;
            let mut expected = serde_json::to_value(saved).expect("JSON");
            without_empty(&mut value);
            without_empty(&mut expected);
            prop_assert_eq!(value, expected);
        }
    }
}

/// A JSON merge patch (RFC 7396).
fn merge(value: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *value = patch.clone();
        return;
    };
    for (name, patch) in fields {
        if patch.is_null() {
            value.as_object_mut().expect("an object").remove(name);
        } else {
            merge(&mut value[name], patch);
        }
    }
}

/// No annotations are the same as an empty list of them.
fn without_empty(value: &mut Value) {
    let metadata = value["metadata"].as_object_mut().expect("an object");
    metadata.retain(|_, field| *field != json!({}));
}

#[test]
fn nothing_acts_on_an_object_that_is_created() {
    let annotations = |api_version: &str, kind: &str| {
        let saved = of(api_version, kind, 1, &[]);
        let prepared = prepared(&saved, parts(std::slice::from_ref(&saved))[0], &BTreeMap::new());
        (
            prepared.annotations().keys().cloned().collect::<Vec<_>>(),
            prepared.data["spec"].clone(),
        )
    };
    let none = json!({});
    assert_eq!(
        annotations("cluster.x-k8s.io/v1beta2", "Cluster"),
        (vec![], json!({"paused": true}))
    );
    let names = vec![RESTORING_ANNOTATION.to_owned(), PAUSED_ANNOTATION.to_owned()];
    assert_eq!(
        annotations("cloud.nephele.dev/v1alpha1", "Fault"),
        (names, none.clone())
    );
    let names = vec![PAUSED_ANNOTATION.to_owned()];
    assert_eq!(
        annotations("cluster.x-k8s.io/v1beta2", "ClusterClass"),
        (names, none.clone())
    );
    assert_eq!(annotations("v1", "ConfigMap"), (vec![], none));
}

#[test]
fn a_status_describes_the_new_generation_if_it_described_the_newest() {
    let mut saved = of("cluster.x-k8s.io/v1beta2", "Machine", 1, &[]);
    assert_eq!(status(&saved, Some(1)), None);
    saved.metadata.generation = Some(7);
    let written = |own: i64, condition: i64| {
        json!({
            "observedGeneration": own, "phase": "Running",
            "conditions": [{"type": "Ready", "observedGeneration": condition}, {"type": "Old"}],
        })
    };
    saved.data["status"] = written(7, 7);
    assert_eq!(status(&saved, Some(1)), Some(written(1, 1)));
    saved.data["status"] = written(7, 5);
    let mut expected = written(1, 0);
    expected["conditions"][0] = json!({"type": "Ready"});
    assert_eq!(status(&saved, Some(1)), Some(expected));
}

#[test]
fn a_fault_knows_the_claims_that_it_holds_by_their_new_uids() {
    let claims = |uids: [&str; 2]| json!([{"name": "a", "uid": uids[0]}, {"name": "gone", "uid": uids[1]}]);
    let mut fault = of("cloud.nephele.dev/v1alpha1", "Fault", 1, &[]);
    fault.data["status"] = json!({"hits": 2, "claims": claims(["7", "8"])});
    let uids = [("7".to_owned(), "new-7".to_owned())].into();
    assert_eq!(
        held_claims(&fault, &uids),
        Some(json!({"status": {"claims": claims(["new-7", "8"])}}))
    );
    let mut others = [fault.clone(), of("cluster.x-k8s.io/v1beta2", "Machine", 2, &[])];
    others[0].data["status"] = json!({"hits": 2});
    others[1].data["status"] = fault.data["status"].clone();
    assert_eq!(others.each_ref().map(holds_claims), [false, false]);
    let claim = of("ipam.cluster.x-k8s.io/v1beta2", "IPAddressClaim", 3, &[]);
    let is_lone = [Part::Surroundings, Part::Clusters].map(|part| is_lone_claim(&claim, part));
    assert_eq!((is_lone, holds_claims(&fault)), ([true, false], true));
}
