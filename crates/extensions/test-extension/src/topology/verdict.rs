//! Checks whether a computed topology can be simulated, beyond the schemas of variables.

use std::collections::BTreeSet;

use nephele_model::Fraction;
use nephele_runtime_sdk::{
    hooks::{Failure, ValidateTopologyRequest, ValidateTopologyResponse},
    topology::{Template, Walk},
};
use serde_json::Value;

use super::templates::{CLUSTER_TEMPLATE, GROUP, MACHINE_POOL_TEMPLATE, MACHINE_TEMPLATE, POOL_SPEC, SPEC};

/// Checks the templates of simulated clusters and machines.
///
/// # Errors
/// Names the first error: a failure domain or pool that is named twice, no failure domain for the control plane, an
/// invalid duration or jitter.
pub fn verdict(request: &ValidateTopologyRequest) -> Result<ValidateTopologyResponse, Failure> {
    Walk::new()
        .on(GROUP, CLUSTER_TEMPLATE, cluster)
        .on(GROUP, MACHINE_TEMPLATE, |template| machine(template, &SPEC))
        .on(GROUP, MACHINE_POOL_TEMPLATE, |template| {
            machine(template, &POOL_SPEC)
        })
        .verdict(request)
}

fn cluster(template: &mut Template<'_>) -> Result<(), Failure> {
    let spec = at(&template.object, &SPEC);
    // Before v1beta2 this is a map, which cannot have a name twice.
    let domains: Vec<&Value> = match &spec["failureDomains"] {
        Value::Array(domains) => domains.iter().collect(),
        Value::Object(domains) => domains.values().collect(),
        _ => return Ok(()),
    };
    let mut names = BTreeSet::new();
    for name in domains.iter().filter_map(|domain| domain["name"].as_str()) {
        if !names.insert(name) {
            return Err(Failure::new(format!("zones: {name:?} is there twice")));
        }
    }
    let for_control_plane = |domain: &&Value| domain["controlPlane"] != false;
    if !domains.is_empty() && !domains.iter().any(for_control_plane) {
        return Err(Failure::new("zones: none is for the control plane"));
    }
    Ok(())
}

fn machine(template: &mut Template<'_>, spec: &[&str]) -> Result<(), Failure> {
    let whose = format!("{} {}", template.holder.kind, template.holder.name);
    let spec = at(&template.object, spec);
    for part in ["vm", "node", "apiServer", "etcd"] {
        let provisioning = &spec["behaviour"][part]["provisioning"];
        let failed = |what: &str, reason: String| {
            Failure::new(format!(
                "behaviour of {whose}: {part}.provisioning.{what} {reason}"
            ))
        };
        if let Some(text) = provisioning["startupDuration"].as_str() {
            nephele_go_duration::parse(text).map_err(|error| failed("startupDuration", error.to_string()))?;
        }
        if let Some(text) = provisioning["startupJitter"].as_str() {
            Fraction::parse(text).map_err(|error| failed("startupJitter", error.to_string()))?;
        }
    }
    let mut pools = BTreeSet::new();
    for pool in spec["network"]["addressesFromPools"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let field = |name: &str| pool[name].as_str().unwrap_or_default();
        if !pools.insert((field("apiGroup"), field("kind"), field("name"))) {
            return Err(Failure::new(format!(
                "addressesFromPools of {whose}: {} is there twice",
                field("name")
            )));
        }
    }
    Ok(())
}

/// The value at a path, or null.
fn at<'v>(object: &'v Value, path: &[&str]) -> &'v Value {
    path.iter().fold(object, |value, step| &value[*step])
}

#[cfg(test)]
mod tests {
    use nephele_runtime_sdk::{
        hooks::{HolderReference, ValidateTopologyRequestItem},
        wire::Object,
    };
    use serde_json::json;

    use super::*;

    fn judged(kind: &str, spec: &Value) -> Result<(), String> {
        let object = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": kind,
            "spec": { "template": { "spec": spec } },
        });
        let item = ValidateTopologyRequestItem {
            holder_reference: HolderReference {
                api_version: "cluster.x-k8s.io/v1beta2".into(),
                kind: "MachineDeployment".into(),
                name: "md".into(),
                ..HolderReference::default()
            },
            object: Object::try_from(object).unwrap(),
            variables: vec![],
        };
        let request = ValidateTopologyRequest {
            items: vec![item],
            ..ValidateTopologyRequest::default()
        };
        verdict(&request)
            .map(drop)
            .map_err(|failure| failure.message().to_owned())
    }

    fn starting(duration: &str, jitter: &str) -> Value {
        let provisioning = json!({ "startupDuration": duration, "startupJitter": jitter });
        json!({ "behaviour": { "vm": { "provisioning": provisioning } } })
    }

    #[test]
    fn what_cannot_be_simulated_is_refused_with_the_reason() {
        let zone = |name: &str, control_plane: bool| json!({ "name": name, "controlPlane": control_plane });
        let zones = |zones: Value| json!({ "failureDomains": zones });
        let pool = json!({ "apiGroup": "g", "kind": "K", "name": "p" });
        for (kind, spec, expected) in [
            ("InMemoryClusterTemplate", json!({}), Ok(())),
            (
                "InMemoryClusterTemplate",
                zones(json!([zone("a", true), zone("b", false)])),
                Ok(()),
            ),
            (
                "InMemoryClusterTemplate",
                zones(json!([zone("a", true), zone("a", true)])),
                Err(r#"zones: "a" is there twice"#),
            ),
            (
                "InMemoryClusterTemplate",
                zones(json!([zone("a", false)])),
                Err("zones: none is for the control plane"),
            ),
            ("InMemoryMachineTemplate", starting("10s", "0.2"), Ok(())),
            (
                "InMemoryMachineTemplate",
                starting("soon", "0.2"),
                Err(
                    "behaviour of MachineDeployment md: vm.provisioning.startupDuration must be a duration such as \
                     300ms, 20s or 1m30s",
                ),
            ),
            (
                "InMemoryMachinePoolTemplate",
                json!({ "template": starting("10s", "0.2") }),
                Ok(()),
            ),
            (
                "InMemoryMachinePoolTemplate",
                json!({ "template": { "network": { "addressesFromPools": [pool, pool] } } }),
                Err("addressesFromPools of MachineDeployment md: p is there twice"),
            ),
            ("OtherTemplate", starting("soon", "much"), Ok(())),
        ] {
            assert_eq!(
                judged(kind, &spec),
                expected.map_err(str::to_owned),
                "{kind} {spec}"
            );
        }
        let jitter = judged("InMemoryMachineTemplate", &starting("10s", "much")).unwrap_err();
        assert!(
            jitter.starts_with("behaviour of MachineDeployment md: vm.provisioning.startupJitter"),
            "{jitter}"
        );
    }
}
