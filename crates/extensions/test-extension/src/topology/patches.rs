//! Patches templates with the values of variables.

use nephele_runtime_sdk::{
    hooks::{Failure, GeneratePatchesRequest, GeneratePatchesResponse},
    topology::{Template, Variables, Walk},
};
use serde_json::{Map, Value};

use super::{
    templates::{CLUSTER_TEMPLATE, GROUP, MACHINE_POOL_TEMPLATE, MACHINE_TEMPLATE, POOL_SPEC, SPEC},
    variables::{
        ADDRESSES_FROM_POOLS, CONTROL_PLANE_BEHAVIOUR, CONTROL_PLANE_INSTANCE_TYPE, WORKER_BEHAVIOUR,
        WORKER_INSTANCE_TYPE, ZONES,
    },
};

/// Patches for the templates of simulated clusters and machines. Other templates are not patched.
///
/// # Errors
/// When a template has a value of another type where a field has to be changed.
pub fn patches(request: &GeneratePatchesRequest) -> Result<GeneratePatchesResponse, Failure> {
    Walk::new()
        .on(GROUP, CLUSTER_TEMPLATE, cluster)
        .on(GROUP, MACHINE_TEMPLATE, |template| machine(template, &SPEC))
        .on(GROUP, MACHINE_POOL_TEMPLATE, |template| {
            machine(template, &POOL_SPEC)
        })
        .patches(request)
}

fn cluster(template: &mut Template<'_>) -> Result<(), Failure> {
    let Some(zones) = template.variables.find(ZONES)?.cloned() else {
        return Ok(());
    };
    let is_by_name = template.object["apiVersion"] == format!("{GROUP}/v1beta1");
    let domains = if is_by_name { by_name(&zones) } else { zones };
    set(&mut template.object, &SPEC, "failureDomains", domains)
}

/// Failure domains as a map by name, as before `v1beta2`.
fn by_name(zones: &Value) -> Value {
    let zones = zones.as_array().into_iter().flatten();
    let domains = zones.filter_map(|zone| {
        let mut domain = zone.as_object()?.clone();
        let name = domain.remove("name")?;
        Some((name.as_str()?.to_owned(), Value::Object(domain)))
    });
    Value::Object(domains.collect())
}

/// The names of the variables for machines of one part of the cluster.
struct Names {
    instance_type: &'static str,
    behaviour: &'static str,
}

const CONTROL_PLANE: Names = Names {
    instance_type: CONTROL_PLANE_INSTANCE_TYPE,
    behaviour: CONTROL_PLANE_BEHAVIOUR,
};
const WORKER: Names = Names {
    instance_type: WORKER_INSTANCE_TYPE,
    behaviour: WORKER_BEHAVIOUR,
};

/// The part of the cluster that a template is for. Its builtin variables show that part.
fn part(variables: &Variables) -> Result<Option<Names>, Failure> {
    if variables.find("builtin.controlPlane")?.is_some() {
        return Ok(Some(CONTROL_PLANE));
    }
    let works = variables.find("builtin.machineDeployment")?.is_some()
        || variables.find("builtin.machinePool")?.is_some();
    Ok(works.then_some(WORKER))
}

fn machine(template: &mut Template<'_>, spec: &[&str]) -> Result<(), Failure> {
    let Some(names) = part(&template.variables)? else {
        return Ok(());
    };
    let variable = |name| Ok::<_, Failure>(template.variables.find(name)?.cloned());
    let instance_type = variable(names.instance_type)?;
    let behaviour = variable(names.behaviour)?;
    let pools = variable(ADDRESSES_FROM_POOLS)?;
    if let Some(instance_type) = instance_type {
        set(&mut template.object, spec, "instanceType", instance_type)?;
    }
    if let Some(behaviour) = behaviour {
        set(&mut template.object, spec, "behaviour", behaviour)?;
    }
    if let Some(pools) = pools {
        let network: Vec<&str> = spec.iter().copied().chain(["network"]).collect();
        set(&mut template.object, &network, "addressesFromPools", pools)?;
    }
    Ok(())
}

/// Sets a field of the object at a path, creating missing objects on the path.
fn set(object: &mut Value, path: &[&str], field: &str, value: Value) -> Result<(), Failure> {
    let mut at = object;
    for step in path.iter().chain([&field]) {
        if at.is_null() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(fields) = at else {
            let place = path.join(".");
            return Err(Failure::new(format!(
                "the path to {place}.{field} has a value that is not an object"
            )));
        };
        at = fields.entry(*step).or_insert(Value::Null);
    }
    *at = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use nephele_runtime_sdk::{
        hooks::{GeneratePatchesRequestItem, HolderReference, Variable},
        wire::Object,
    };
    use serde_json::json;

    use super::*;

    const V1BETA2: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

    fn item(part: &str, api_version: &str, kind: &str, spec: &Value) -> GeneratePatchesRequestItem {
        let template =
            json!({ "apiVersion": api_version, "kind": kind, "spec": { "template": { "spec": spec } } });
        GeneratePatchesRequestItem {
            uid: format!("{part}-{kind}"),
            holder_reference: HolderReference {
                api_version: "cluster.x-k8s.io/v1beta2".into(),
                ..HolderReference::default()
            },
            object: Object::try_from(template).unwrap(),
            variables: vec![Variable {
                name: "builtin".into(),
                value: json!({ part: { "version": "v1.36.0" } }),
            }],
        }
    }

    /// The templates' specs after the patches.
    fn patched(items: Vec<GeneratePatchesRequestItem>, variables: &Value) -> Result<Vec<Value>, Failure> {
        let variables = variables.as_object().unwrap().iter();
        let variables = variables.map(|(name, value)| Variable {
            name: name.clone(),
            value: value.clone(),
        });
        let request = GeneratePatchesRequest {
            variables: variables.collect(),
            items,
            ..Default::default()
        };
        let response = patches(&request)?;
        let found = response.items.iter().map(|answer| {
            let item = request.items.iter().find(|item| item.uid == answer.uid).unwrap();
            let mut object = item.object.to_value();
            let operations: json_patch::Patch = serde_json::from_slice(&answer.patch.0).unwrap();
            json_patch::patch(&mut object, &operations).unwrap();
            object["spec"]["template"]["spec"].take()
        });
        Ok(found.collect())
    }

    fn templates() -> Vec<GeneratePatchesRequestItem> {
        let network = json!({ "network": { "other": true } });
        vec![
            item("cluster", V1BETA2, "InMemoryClusterTemplate", &json!({})),
            item(
                "controlPlane",
                "controlplane.cluster.x-k8s.io/v1beta2",
                "KubeadmControlPlaneTemplate",
                &json!({}),
            ),
            item("controlPlane", V1BETA2, "InMemoryMachineTemplate", &network),
            item(
                "machineDeployment",
                V1BETA2,
                "InMemoryMachineTemplate",
                &json!({}),
            ),
            item(
                "machinePool",
                V1BETA2,
                "InMemoryMachinePoolTemplate",
                &json!({ "template": {} }),
            ),
        ]
    }

    #[test]
    fn each_variable_goes_to_the_templates_that_it_concerns() {
        let zones = json!([{ "name": "a", "controlPlane": true }, { "name": "b", "controlPlane": false }]);
        let pools = json!([{ "apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "p" }]);
        let slow = json!({ "vm": { "provisioning": { "startupDuration": "10s" } } });
        let quick = json!({ "vm": { "provisioning": { "startupDuration": "1s" } } });
        let all = json!({
            "zones": zones, "controlPlaneInstanceType": "large", "workerInstanceType": "small",
            "addressesFromPools": pools, "controlPlaneBehaviour": slow, "workerBehaviour": quick,
        });
        let worker = json!({ "instanceType": "small", "behaviour": quick, "network": { "addressesFromPools": pools } });
        let expected = vec![
            json!({ "failureDomains": zones }),
            json!({
                "instanceType": "large", "behaviour": slow,
                "network": { "addressesFromPools": pools, "other": true },
            }),
            worker.clone(),
            json!({ "template": worker }),
        ];
        assert_eq!(patched(templates(), &all), Ok(expected));
    }

    #[test]
    fn nothing_set_changes_nothing() {
        let before: Vec<Value> = templates()
            .iter()
            .filter(|item| item.object.group() == GROUP)
            .map(|item| item.object.to_value()["spec"]["template"]["spec"].take())
            .collect();
        assert_eq!(patched(templates(), &json!({})), Ok(before));
    }

    /// Patches that changed from call to call would make Cluster API replace machines again and again.
    #[test]
    fn the_same_request_has_the_same_patches_whatever_the_order_of_its_variables() {
        let variable = |name: &str, value: Value| Variable {
            name: name.into(),
            value,
        };
        let mut request = GeneratePatchesRequest {
            variables: vec![
                variable("zones", json!([{ "name": "b" }, { "name": "a" }])),
                variable("controlPlaneInstanceType", json!("large")),
                variable(
                    "controlPlaneBehaviour",
                    json!({ "vm": { "provisioning": { "startupDuration": "1s" } } }),
                ),
                variable("addressesFromPools", json!([{ "name": "p" }])),
            ],
            items: templates(),
            ..GeneratePatchesRequest::default()
        };
        let first = patches(&request).unwrap();
        assert_eq!(patches(&request), Ok(first.clone()));
        request.variables.reverse();
        assert_eq!(patches(&request), Ok(first));
    }

    #[test]
    fn failure_domains_are_by_name_before_v1beta2() {
        let old = item(
            "cluster",
            "infrastructure.cluster.x-k8s.io/v1beta1",
            "InMemoryClusterTemplate",
            &json!({}),
        );
        let zones = json!([{ "name": "a", "controlPlane": true }, { "name": "b" }]);
        let expected = json!({ "failureDomains": { "a": { "controlPlane": true }, "b": {} } });
        assert_eq!(patched(vec![old], &json!({ "zones": zones })), Ok(vec![expected]));
    }

    #[test]
    fn a_template_of_another_shape_is_a_failure() {
        let odd = item(
            "controlPlane",
            V1BETA2,
            "InMemoryMachineTemplate",
            &json!({ "network": [] }),
        );
        let found = patched(vec![odd], &json!({ "addressesFromPools": [{ "name": "p" }] }));
        let message =
            "the path to spec.template.spec.network.addressesFromPools has a value that is not an object";
        assert_eq!(found, Err(Failure::new(message)));
    }
}
