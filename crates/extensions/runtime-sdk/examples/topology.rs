//! The three hooks of a cluster's topology: a variable, a patch that uses it, and a check.
#![allow(clippy::print_stdout, reason = "an example prints what it shows")]

use std::error::Error;

use nephele_runtime_sdk::{
    hooks::{
        ClusterClassVariable, DiscoverVariables, DiscoverVariablesResponse, Failure, GeneratePatches,
        ValidateTopology, VariableSchema,
    },
    server::Extension,
    topology::{Template, Walk},
    wire::Object,
};
use serde_json::json;

const GROUP: &str = "infrastructure.cluster.x-k8s.io";

fn set_zone(template: &mut Template<'_>) -> Result<(), Failure> {
    // Machines without a zone are not changed.
    if let Some(zone) = template.variables.find("zone")?.cloned() {
        template.object["spec"]["template"]["spec"]["zone"] = zone;
    }
    Ok(())
}

fn check_zone(template: &mut Template<'_>) -> Result<(), Failure> {
    match template
        .object
        .pointer("/spec/template/spec/zone")
        .and_then(|zone| zone.as_str())
    {
        Some("c") => Err(Failure::new("zone c is closed")),
        _ => Ok(()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let service = Extension::new()
        .on(DiscoverVariables, "variables", |_request, _call| async {
            let schema =
                json!({ "type": "string", "enum": ["a", "b", "c"], "description": "Where machines are." });
            let zone = ClusterClassVariable {
                name: "zone".to_owned(),
                required: Some(false),
                schema: VariableSchema {
                    open_api_v3_schema: Object::try_from(schema)?,
                },
                ..ClusterClassVariable::default()
            };
            Ok(DiscoverVariablesResponse {
                variables: vec![zone],
                ..DiscoverVariablesResponse::default()
            })
        })
        .on(GeneratePatches, "patches", |request, _call| async move {
            Walk::new()
                .on(GROUP, "DevMachineTemplate", set_zone)
                .patches(&request)
        })
        .on(ValidateTopology, "validate", |request, _call| async move {
            Walk::new()
                .on(GROUP, "DevMachineTemplate", check_zone)
                .verdict(&request)
        })
        .build()?;
    for path in service.paths() {
        println!("{path}");
    }
    Ok(())
}
