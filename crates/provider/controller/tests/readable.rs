//! Objects that do not have the shape of their kind.

use std::{borrow::Cow, cell::Cell, collections::BTreeMap};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Resource, ResourceExt as _,
    api::ObjectMeta,
    core::{NamespaceResourceScope, ObjectList},
};
use nephele_api::{
    cloud::v1alpha1::{
        CloudExtensionConfig, ClusterFault, Fault, Scenario, SimulatedCloud, SimulatedCloudSpec,
    },
    core::{Cluster, Machine, MachinePool},
    infrastructure::v1beta2::{
        InMemoryCluster, InMemoryMachine, InMemoryMachinePool, InMemoryMachinePoolTemplate,
        InMemoryMachineTemplate,
    },
    ipam::{
        v1alpha2::{GlobalInClusterIPPool, GlobalInClusterPrefixPool, InClusterIPPool, InClusterPrefixPool},
        v1beta2::{IPAddress, IPAddressClaim},
    },
};
use nephele_controller::{Kind, Readable, unreadable};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

/// The schema of each kind of ours in the version that is watched, by kind.
fn schemas() -> BTreeMap<String, Value> {
    let definitions = nephele_api::crds().into_iter();
    let schemas = definitions.map(|definition| {
        let stored = definition
            .spec
            .versions
            .iter()
            .find(|version| version.storage)
            .expect("one is stored");
        let schema = stored
            .schema
            .as_ref()
            .and_then(|schema| schema.open_api_v3_schema.clone());
        (
            definition.spec.names.kind,
            serde_json::to_value(schema).expect("JSON"),
        )
    });
    schemas.collect()
}

/// Values that a schema refuses, each with one part of another type.
fn wrong(schema: &Value) -> Vec<Value> {
    let own = match schema["type"].as_str() {
        Some("string" | "boolean") => json!({ "no": 1 }),
        Some(_) => json!("no"),
        // Any value.
        None => return Vec::new(),
    };
    let members = schema["properties"].as_object().into_iter().flatten();
    let members = members.flat_map(|(name, schema)| {
        wrong(schema)
            .into_iter()
            .map(move |value| json!({ (name.as_str()): value }))
    });
    let items = schema
        .get("items")
        .into_iter()
        .flat_map(wrong)
        .map(|value| json!([value]));
    let entries = schema.get("additionalProperties").into_iter().flat_map(wrong);
    let entries = entries.map(|value| json!({ "key": value }));
    [own]
        .into_iter()
        .chain(members)
        .chain(items)
        .chain(entries)
        .collect()
}

fn object<K: Kind>(members: Value) -> Value {
    let mut object = members;
    object["apiVersion"] = K::api_version(&()).into();
    object["kind"] = K::kind(&()).into();
    object["metadata"] = json!({ "name": "a", "namespace": "default", "uid": "1", "labels": { "kept": "" } });
    object
}

/// How many of these objects cannot be read in whole. Each is there, and is marked if it cannot.
fn unread<K: Kind>(objects: &[Value]) -> usize {
    let list = json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": objects });
    let read: ObjectList<Readable<K>> = serde_json::from_str(&list.to_string()).expect("it never fails");
    assert_eq!(read.items.len(), objects.len());
    let failed = read.items.into_iter().zip(objects).filter(|(read, object)| {
        let whole = serde_json::from_str::<K>(&object.to_string());
        let read = read.clone().into_object();
        assert_eq!(
            (read.name_any(), read.labels().len()),
            ("a".to_owned(), 1),
            "{object}"
        );
        assert_eq!(unreadable(read.meta()).is_some(), whole.is_err(), "{object}");
        if let Ok(whole) = &whole {
            assert_eq!(
                serde_json::to_value(&read).ok(),
                serde_json::to_value(whole).ok(),
                "{object}"
            );
        }
        whole.is_err()
    });
    failed.count()
}

#[test]
fn an_object_with_a_part_of_another_type_is_read_without_that_part() {
    let schemas = schemas();
    macro_rules! each {
        ($($kind:ty),*) => {$({
            let name = <$kind>::kind(&());
            let spec = &schemas.get(&*name).unwrap_or_else(|| panic!("{name} has no schema"))["properties"]["spec"];
            let objects: Vec<_> = wrong(spec).into_iter().map(|spec| object::<$kind>(json!({ "spec": spec }))).collect();
            assert!(unread::<$kind>(&objects) > 1, "{name}");
        })*};
    }
    each!(
        CloudExtensionConfig,
        ClusterFault,
        Fault,
        GlobalInClusterIPPool,
        GlobalInClusterPrefixPool,
        InClusterIPPool,
        InClusterPrefixPool,
        InMemoryCluster,
        InMemoryMachine,
        InMemoryMachinePool,
        InMemoryMachinePoolTemplate,
        InMemoryMachineTemplate,
        Scenario,
        SimulatedCloud
    );
}

#[test]
fn an_object_without_its_spec_or_with_one_that_nests_too_deep_is_there() {
    let deep = (0..300).fold(json!({}), |inner, _| json!({ "seed": inner }));
    macro_rules! each {
        ($($kind:ty),*) => {$({
            let objects = [json!({}), json!({ "spec": null }), json!({ "spec": 1 }), json!({ "spec": [1] }), json!({ "spec": deep })];
            unread::<$kind>(&objects.map(object::<$kind>));
        })*};
    }
    each!(
        Cluster,
        CloudExtensionConfig,
        ClusterFault,
        Fault,
        GlobalInClusterIPPool,
        GlobalInClusterPrefixPool,
        InClusterIPPool,
        InClusterPrefixPool,
        InMemoryCluster,
        InMemoryMachine,
        InMemoryMachinePool,
        InMemoryMachinePoolTemplate,
        InMemoryMachineTemplate,
        IPAddress,
        IPAddressClaim,
        Machine,
        MachinePool,
        Scenario,
        SimulatedCloud
    );
}

fn read<K: Kind>(value: &Value) -> K {
    serde_json::from_str::<Readable<K>>(&value.to_string())
        .expect("it never fails")
        .into_object()
}

#[test]
fn the_mark_names_the_first_part_that_cannot_be_read_and_the_rest_is_kept() {
    let spec =
        json!({ "seed": "kept", "regions": [{ "name": 3, "zones": [] }, { "name": "north", "zones": [] }] });
    let status = json!({ "zones": "many", "instances": 7 });
    let cloud: SimulatedCloud = read(&object::<SimulatedCloud>(
        json!({ "spec": spec, "status": status }),
    ));
    assert_eq!(
        unreadable(&cloud.metadata),
        Some("spec.regions[0].name: invalid type: integer `3`, expected a string")
    );
    let regions: Vec<_> = cloud
        .spec
        .regions
        .iter()
        .map(|region| region.name.as_str())
        .collect();
    assert_eq!((cloud.spec.seed.as_str(), regions), ("kept", vec!["", "north"]));
    assert_eq!(cloud.status.and_then(|status| status.instances), Some(7));
    // What a kind requires, and a user cannot know.
    let cloud: SimulatedCloud = read(&object::<SimulatedCloud>(json!({ "status": { "instances": 7 } })));
    assert_eq!(unreadable(&cloud.metadata), Some("missing field `spec`"));
    assert_eq!(cloud.spec, SimulatedCloudSpec::default());
    assert_eq!(cloud.status.and_then(|status| status.instances), Some(7));
    let fault: Fault = read(&object::<Fault>(
        json!({ "spec": { "effect": 1 }, "status": { "phase": "Active" } }),
    ));
    assert!(unreadable(&fault.metadata).is_some_and(|message| message.starts_with("spec.effect: ")));
    assert_eq!(fault.status.expect("it is kept").phase, "Active");
    for (part, mistake) in [
        (
            json!({ "callers": ["machine", "infra"] }),
            "spec.match.callers[1]: unknown variant `infra`",
        ),
        (
            json!({ "clusterSelector": "all" }),
            "spec.match.clusterSelector: \"all\" is not a label selector",
        ),
    ] {
        let spec = json!({ "match": part, "effect": { "freeze": {} } });
        let fault: Fault = read(&object::<Fault>(json!({ "spec": spec })));
        assert!(
            unreadable(&fault.metadata).is_some_and(|told| told.starts_with(mistake)),
            "{part}"
        );
    }
}

#[test]
fn a_text_that_got_past_the_schema_is_left_out_with_what_needs_it() {
    let written = json!({ "uniform": { "min": "2s", "max": "1s" } });
    let node = json!({ "fixed": { "duration": "1s" } });
    let spec = json!({ "latency": { "vm": written, "node": node }, "clock": { "rate": "fast", "steps": 3 } });
    let cloud: SimulatedCloud = read(&object::<SimulatedCloud>(json!({ "spec": spec })));
    let mistake = r#"spec.clock.rate: "fast" is not a number from 0.01 to 1000"#;
    assert_eq!(unreadable(&cloud.metadata), Some(mistake));
    let rest = json!({ "latency": { "node": node }, "clock": { "steps": 3 } });
    assert_eq!(serde_json::to_value(&cloud.spec).expect("JSON"), rest);
    let node = json!({ "provisioning": { "startupDuration": "2s" } });
    let vm = json!({ "provisioning": { "startupDuration": "soon", "startupJitter": ".5" } });
    let spec = json!({ "instanceType": "large", "behaviour": { "node": node, "vm": vm } });
    let machine: InMemoryMachine = read(&object::<InMemoryMachine>(json!({ "spec": spec })));
    let mistake = r#"spec.behaviour.vm.provisioning.startupDuration: "soon" is not a duration such as 90s"#;
    assert_eq!(unreadable(&machine.metadata), Some(mistake));
    let vm = json!({ "provisioning": { "startupJitter": ".5" } });
    let rest = json!({ "instanceType": "large", "behaviour": { "node": node, "vm": vm } });
    assert_eq!(serde_json::to_value(&machine.spec).expect("JSON"), rest);
}

#[test]
fn a_status_that_cannot_be_read_is_no_mistake_of_a_user() {
    let cloud: SimulatedCloud = read(&object::<SimulatedCloud>(
        json!({ "spec": { "seed": "kept" }, "status": { "zones": "many" } }),
    ));
    assert_eq!(
        (unreadable(&cloud.metadata), cloud.spec.seed.as_str()),
        (None, "kept")
    );
}

#[test]
fn no_other_client_can_set_the_mark() {
    let mut value = object::<ConfigMap>(json!({}));
    value["metadata"]["annotations"] = json!({ "nephele.dev/unreadable": "mine" });
    assert_eq!(read::<ConfigMap>(&value).metadata.annotations, None);
}

#[test]
fn a_message_never_has_a_part_of_a_secret() {
    let secret: Secret = read(&object::<Secret>(json!({ "data": "c2VjcmV0" })));
    assert_eq!(unreadable(&secret.metadata), Some("data: cannot be read"));
}

thread_local! {
    static MADE: Cell<usize> = const { Cell::new(0) };
}

/// A ConfigMap that counts how many were made of text.
#[derive(Clone, Debug, Default, Serialize)]
struct Counted {
    metadata: ObjectMeta,
}

impl Resource for Counted {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "ConfigMap".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        "".into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "configmaps".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        MADE.set(MADE.get() + 1);
        let ConfigMap { metadata, .. } = ConfigMap::deserialize(deserializer)?;
        Ok(Self { metadata })
    }
}

#[test]
fn the_objects_of_a_list_are_made_one_by_one() {
    let items: Vec<_> = (0..3).map(|_| object::<ConfigMap>(json!({}))).collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": items });
    let list: ObjectList<Readable<Counted>> =
        serde_json::from_str(&list.to_string()).expect("it never fails");
    assert_eq!(MADE.get(), 0);
    for (index, read) in list.items.into_iter().enumerate() {
        assert_eq!(read.meta().name.as_deref(), Some("a"));
        assert_eq!(read.into_object().metadata.name.as_deref(), Some("a"));
        assert_eq!(MADE.get(), index + 1, "once each");
    }
}
