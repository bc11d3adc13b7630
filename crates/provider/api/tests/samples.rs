//! The samples in `config/samples` are of our kinds, and have no field that is none of theirs.

use nephele_api::{
    cloud::v1alpha1::{CloudExtensionConfig, ClusterFault, Fault, Scenario, SimulatedCloud},
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachineTemplate},
    ipam::v1alpha2::InClusterIPPool,
};
use serde::{Deserialize as _, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

const SAMPLES: [&str; 8] = [
    include_str!("../../../../config/samples/cloud_extension_config.yaml"),
    include_str!("../../../../config/samples/cluster_fault.yaml"),
    include_str!("../../../../config/samples/cluster_with_failure_domains.yaml"),
    include_str!("../../../../config/samples/fault.yaml"),
    include_str!("../../../../config/samples/machine_template_with_delays.yaml"),
    include_str!("../../../../config/samples/machine_template_with_pools.yaml"),
    include_str!("../../../../config/samples/scenario.yaml"),
    include_str!("../../../../config/samples/simulated_cloud.yaml"),
];

#[test]
fn samples_are_read_without_a_loss() {
    let mut kinds = Vec::new();
    for sample in SAMPLES {
        for document in serde_yaml_ng::Deserializer::from_str(sample) {
            let written = Value::deserialize(document).expect("YAML");
            let kind = written["kind"].as_str().unwrap_or_default().to_owned();
            let read = match kind.as_str() {
                "InMemoryCluster" => read::<InMemoryCluster>(&written),
                "InMemoryMachineTemplate" => read::<InMemoryMachineTemplate>(&written),
                "InClusterIPPool" => read::<InClusterIPPool>(&written),
                "CloudExtensionConfig" => read::<CloudExtensionConfig>(&written),
                "ClusterFault" => read::<ClusterFault>(&written),
                "Fault" => read::<Fault>(&written),
                "Scenario" => read::<Scenario>(&written),
                "SimulatedCloud" => read::<SimulatedCloud>(&written),
                other => panic!("{other:?} is no kind of ours"),
            };
            assert_eq!(read["apiVersion"], written["apiVersion"], "{kind}");
            assert_eq!(
                lost(&written, &read),
                Value::Null,
                "{kind} {}",
                written["metadata"]["name"]
            );
            kinds.push(kind);
        }
    }
    assert_eq!(kinds.len(), 21);
}

fn read<K: DeserializeOwned + Serialize>(written: &Value) -> Value {
    let object: K = serde_json::from_value(written.clone()).expect("readable");
    serde_json::to_value(object).expect("JSON")
}

/// What was written and not read.
fn lost(written: &Value, read: &Value) -> Value {
    match (written, read) {
        (Value::Object(written), Value::Object(read)) => {
            let parts = written.iter().map(|(name, part)| {
                (
                    name.clone(),
                    read.get(name)
                        .map_or_else(|| part.clone(), |there| lost(part, there)),
                )
            });
            let parts: serde_json::Map<_, _> = parts.filter(|(_, part)| !part.is_null()).collect();
            if parts.is_empty() {
                Value::Null
            } else {
                parts.into()
            }
        }
        (Value::Array(written), Value::Array(read)) if written.len() == read.len() => {
            let parts: Vec<_> = written
                .iter()
                .zip(read)
                .map(|(one, there)| lost(one, there))
                .collect();
            if parts.iter().all(Value::is_null) {
                Value::Null
            } else {
                json!(parts)
            }
        }
        (written, read) if written == read => Value::Null,
        (written, _) => written.clone(),
    }
}
