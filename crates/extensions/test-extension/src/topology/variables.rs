//! The variables.

use nephele_runtime_sdk::{
    hooks::{ClusterClassVariable, DiscoverVariablesResponse, Failure, VariableSchema},
    wire::Object,
};
use serde_json::{Value, json};

/// The failure domains of the cluster.
pub(super) const ZONES: &str = "zones";
/// The instance type of control plane machines.
pub(super) const CONTROL_PLANE_INSTANCE_TYPE: &str = "controlPlaneInstanceType";
/// The instance type of workers.
pub(super) const WORKER_INSTANCE_TYPE: &str = "workerInstanceType";
/// The pools from which every machine gets an address.
pub(super) const ADDRESSES_FROM_POOLS: &str = "addressesFromPools";
/// The startup behaviour of control plane machines.
pub(super) const CONTROL_PLANE_BEHAVIOUR: &str = "controlPlaneBehaviour";
/// The startup behaviour of workers.
pub(super) const WORKER_BEHAVIOUR: &str = "workerBehaviour";

/// All variables that the patches use. None is required.
///
/// # Errors
/// Never.
pub fn variables() -> Result<DiscoverVariablesResponse, Failure> {
    let variables = schemas().into_iter().map(|(name, schema)| {
        Ok(ClusterClassVariable {
            name: name.to_owned(),
            required: Some(false),
            schema: VariableSchema {
                open_api_v3_schema: Object::try_from(schema)?,
            },
            ..ClusterClassVariable::default()
        })
    });
    let variables = variables.collect::<Result<_, Failure>>()?;
    Ok(DiscoverVariablesResponse {
        variables,
        ..DiscoverVariablesResponse::default()
    })
}

fn schemas() -> [(&'static str, Value); 6] {
    let instance_type = json!({
        "type": "string", "description": "How large machines are: the name of an instance type.",
        "minLength": 1, "maxLength": 256,
    });
    let component = json!({
        "type": "object",
        "properties": {
            "provisioning": {
                "type": "object",
                "required": ["startupDuration"],
                "properties": {
                    "startupDuration": {
                        "type": "string", "description": "How long it takes, as 10s.", "minLength": 1,
                    },
                    "startupJitter": {
                        "type": "string",
                        "description": "How much comes on top at most, as a fraction: 0.2.",
                    },
                },
            },
        },
    });
    let zones = json!({
        "type": "array",
        "description": "The failure domains that the cluster has.",
        "minItems": 1,
        "maxItems": 100,
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": { "type": "string", "minLength": 1, "maxLength": 256 },
                "controlPlane": {
                    "type": "boolean", "default": true,
                    "description": "Whether control plane machines may be placed there.",
                },
            },
        },
    });
    let pools = json!({
        "type": "array",
        "description": "Pools that each give every machine an address.",
        "minItems": 1,
        "maxItems": 2,
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "apiGroup": { "type": "string", "default": "ipam.cluster.x-k8s.io" },
                "kind": { "type": "string", "default": "InClusterIPPool" },
                "name": { "type": "string", "minLength": 1, "maxLength": 253 },
            },
        },
    });
    let control_plane = json!({
        "type": "object",
        "description": "How control plane machines start, part by part.",
        "properties": { "vm": component, "node": component, "apiServer": component, "etcd": component },
    });
    let worker = json!({
        "type": "object",
        "description": "How worker machines start, part by part.",
        "properties": { "vm": component, "node": component },
    });
    [
        (ZONES, zones),
        (CONTROL_PLANE_INSTANCE_TYPE, instance_type.clone()),
        (WORKER_INSTANCE_TYPE, instance_type),
        (ADDRESSES_FROM_POOLS, pools),
        (CONTROL_PLANE_BEHAVIOUR, control_plane),
        (WORKER_BEHAVIOUR, worker),
    ]
}

#[cfg(test)]
mod tests {
    use nephele_yaml::{Bounds, Dialect};

    use super::*;

    #[test]
    fn variables_are_those_of_the_class_that_is_released() {
        let released = include_str!("../../../../../config/templates/clusterclass-in-memory.yaml");
        let bounds = Bounds {
            text: released.len(),
            memory: usize::MAX,
            depth: 100,
            dialect: Dialect::Strict,
        };
        let documents = nephele_yaml::read_all(released, &bounds).unwrap().into_iter();
        let class = documents
            .map(|(_, object)| object)
            .find(|object| object["kind"] == "ClusterClass")
            .unwrap();
        let ours = serde_json::to_value(variables().unwrap()).unwrap();
        assert_eq!(ours["variables"], class["spec"]["variables"]);
    }
}
