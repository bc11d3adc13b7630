//! Messages of every hook as Go writes them. This crate reads them, and writes them in the same way.
//!
//! `fixtures/messages-1.14.json` holds the output of `encoding/json` for values of the types of Cluster API 1.14.2,
//! both full and empty.
#![allow(clippy::unwrap_used, reason = "what fails here has failed the test")]

use nephele_runtime_sdk::{hooks, wire};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

fn fixtures() -> Map<String, Value> {
    serde_json::from_str(include_str!("fixtures/messages-1.14.json")).unwrap()
}

/// The message, read and written again.
fn again<T: Serialize + DeserializeOwned>(message: &Value) -> Value {
    let bytes = serde_json::to_vec(message).unwrap();
    serde_json::to_value(wire::from_slice::<T>(&bytes).unwrap()).unwrap()
}

/// Replaces absent lists and bytes, which Go writes as `null` and Rust writes as empty. Both read either form.
fn settled(message: &Value) -> Value {
    match message {
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(key, value)| match (key.as_str(), value) {
                    ("items", Value::Null) => (key.clone(), Value::Array(Vec::new())),
                    ("patch", Value::Null) => (key.clone(), "".into()),
                    _ => (key.clone(), settled(value)),
                })
                .collect(),
        ),
        Value::Array(values) => Value::Array(values.iter().map(settled).collect()),
        _ => message.clone(),
    }
}

macro_rules! every {
    ($fixtures:ident, $check:ident, $($hook:ident,)+) => {
        $(
            $check::<<hooks::$hook as hooks::Hook>::Request>(&mut $fixtures, concat!(stringify!($hook), "Request"));
            $check::<<hooks::$hook as hooks::Hook>::Response>(&mut $fixtures, concat!(stringify!($hook), "Response"));
        )+
    };
    ($fixtures:ident, $check:ident) => {
        every! {
            $fixtures, $check, Discovery, BeforeClusterCreate, AfterControlPlaneInitialized, BeforeClusterUpgrade,
            BeforeControlPlaneUpgrade, AfterControlPlaneUpgrade, BeforeWorkersUpgrade, AfterWorkersUpgrade,
            AfterClusterUpgrade, BeforeClusterDelete, GeneratePatches, ValidateTopology, DiscoverVariables,
            CanUpdateMachine, CanUpdateMachineSet, UpdateMachine, GenerateUpgradePlan,
        }
    };
}

#[test]
fn every_message_of_go_is_read_and_written_as_go_does() {
    fn check<T: Serialize + DeserializeOwned>(fixtures: &mut Map<String, Value>, name: &str) {
        for message in fixtures.remove(name).unwrap().as_array().unwrap() {
            let mut expected = settled(message);
            // A `null` item is read as an empty item.
            if name == "ValidateTopologyRequest"
                && let Some(item) = expected.pointer_mut("/items/1")
            {
                *item = serde_json::to_value(hooks::ValidateTopologyRequestItem::default()).unwrap();
            }
            assert_eq!(again::<T>(message), expected, "{name}");
        }
    }
    let mut fixtures = fixtures();
    every! { fixtures, check }
    assert_eq!(fixtures, Map::new());
}

#[test]
fn every_message_is_read_in_any_letter_case_and_with_unknown_fields() {
    // Keys of opaque content stay as they are: objects, values, schemas and maps.
    fn shout(message: &Value) -> Value {
        match message {
            Value::Object(fields) => {
                let loud = |(key, value): (&String, &Value)| {
                    let kept = [
                        "cluster",
                        "object",
                        "value",
                        "settings",
                        "machine",
                        "machineSet",
                        "openAPIV3Schema",
                    ];
                    let kept = kept.contains(&key.as_str())
                        || key.starts_with("infrastructureMachine") && !key.ends_with("Patch")
                        || key.starts_with("bootstrapConfig") && !key.ends_with("Patch")
                        || ["labels", "annotations"].contains(&key.as_str());
                    (
                        key.to_uppercase(),
                        if kept { value.clone() } else { shout(value) },
                    )
                };
                let unknown = ("unknownToAnybody".to_owned(), serde_json::json!([{}, null]));
                Value::Object(fields.iter().map(loud).chain([unknown]).collect())
            }
            Value::Array(values) => Value::Array(values.iter().map(shout).collect()),
            _ => message.clone(),
        }
    }
    fn check<T: Serialize + DeserializeOwned>(fixtures: &mut Map<String, Value>, name: &str) {
        for message in fixtures.remove(name).unwrap().as_array().unwrap() {
            assert_eq!(again::<T>(&shout(message)), again::<T>(message), "{name}");
        }
    }
    let mut fixtures = fixtures();
    every! { fixtures, check }
}
