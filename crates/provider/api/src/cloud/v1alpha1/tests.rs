use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use nephele_model::{Gpu, InstanceType};
use serde_json::{Value, json};

use super::*;
use crate::infrastructure::v1beta2::InMemoryCluster;

#[test]
fn a_cloud_reads_back_as_it_was_written() {
    let written = json!({
        "apiVersion": "cloud.nephele.dev/v1alpha1",
        "kind": "SimulatedCloud",
        "metadata": { "name": "default", "namespace": "default" },
        "spec": {
            "regions": [{ "name": "sim-1", "zones": [
                { "name": "sim-1a" }, { "name": "sim-1b", "controlPlane": false },
            ] }],
            "instanceTypes": [{
                "name": "m.large", "cpu": 2, "memory": "8Gi", "ephemeralStorage": "100Gi", "pods": 29,
                "architecture": "arm64", "gpu": { "count": 1, "resource": "amd.com/gpu" },
                "price": "0.096", "spotPrice": "0.03",
            }],
            "images": [{ "name": "ubuntu-24.04", "kubernetes": ["1.35", "1.36"], "operatingSystem": "linux" }],
            "quotas": { "instances": 20, "vCPUs": 64, "loadBalancers": 0 },
            "capacity": [{ "instanceType": "m.large", "zone": "sim-1a", "count": 40 }, { "count": 0 }],
            "seed": "amber-otter-lamp",
            "latency": {
                "vm": { "lognormal": { "median": "45s", "p99": "3m" } },
                "node": { "uniform": { "min": "5s", "max": "20s" } },
                "etcd": { "fixed": { "duration": "2s" } },
                "apiServer": { "triangular": { "min": "1s", "mode": "2s", "max": "9s" } },
                "delete": { "empirical": { "values": ["20s", "21s"] } },
            },
            "clock": { "rate": "60", "paused": true, "steps": 4, "ahead": "1h" },
            "leakedInstances": "Delete",
        },
        "status": {
            "zones": 2,
            "clock": { "rate": "60", "paused": true, "steps": 4, "ahead": "1h0m0s" },
            "leaked": 1,
            "leakedInstances": [{
                "name": "m", "cluster": "demo", "instanceType": "m.large", "zone": "sim-1a", "vCPUs": 2,
                "addresses": ["10.1.2.3"], "since": "2026-01-02T03:04:05.006000Z", "fault": "leak",
            }],
            "cost": {
                "total": "1.25", "perHour": "0.192", "time": "2026-01-02T03:04:05.006000Z",
                "clusters": [{ "name": "demo", "total": "1.25", "perHour": "0.192" }],
            },
            "findings": [{ "caller": "machine", "doubleCreates": 1, "missedReads": 3 }],
        },
    });
    let cloud: SimulatedCloud = serde_json::from_value(written.clone()).expect("readable");
    let zones: Vec<_> = cloud
        .spec
        .zones()
        .map(|(region, zone)| (&*region.name, &*zone.name, zone.control_plane))
        .collect();
    assert_eq!(
        zones,
        [("sim-1", "sim-1a", None), ("sim-1", "sim-1b", Some(false))]
    );
    assert_eq!(serde_json::to_value(&cloud).expect("JSON"), written);
}

#[test]
fn a_type_offers_what_it_says_and_the_usual_of_the_rest() {
    let plain = InstanceType {
        name: "m".into(),
        cpu: 2,
        memory: "8Gi".into(),
        ..InstanceType::default()
    };
    let rich = InstanceType {
        ephemeral_storage: "100Gi".into(),
        pods: Some(29),
        gpu: Some(Gpu {
            count: 4,
            resource: String::new(),
        }),
        architecture: "arm64".into(),
        ..plain.clone()
    };
    let capacity = |kind: &InstanceType| serde_json::to_value(kind.capacity()).expect("JSON");
    assert_eq!(
        capacity(&plain),
        json!({ "cpu": "2", "memory": "8Gi", "ephemeral-storage": "40Gi", "pods": "110" })
    );
    assert_eq!(
        capacity(&rich),
        json!({
            "cpu": "2", "memory": "8Gi", "ephemeral-storage": "100Gi", "pods": "29", "nvidia.com/gpu": "4",
        })
    );
    assert_eq!((plain.architecture(), rich.architecture()), ("amd64", "arm64"));
}

#[test]
fn a_cloud_without_types_has_those_built_in() {
    let names = |spec: &SimulatedCloudSpec| -> Vec<String> {
        spec.instance_types()
            .iter()
            .map(|known| known.name.clone())
            .collect()
    };
    let mut spec = SimulatedCloudSpec::default();
    assert_eq!(
        names(&spec),
        ["small", "medium", "large", "xlarge", "medium-arm64", "large-gpu"]
    );
    spec.instance_types = vec![InstanceType {
        name: "own".into(),
        ..InstanceType::default()
    }];
    assert_eq!(names(&spec), ["own"]);
}

#[test]
fn a_scenario_reads_back_as_it_was_written() {
    let written = json!({
        "apiVersion": "cloud.nephele.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": { "name": "s", "namespace": "default" },
        "spec": { "steps": [
            { "name": "fast", "clock": { "cloud": "default", "rate": "60", "paused": false, "step": 2, "jump": "1h" } },
            { "parallel": [
                { "name": "a", "repeat": 2, "steps": [{ "name": "b", "pause": "1s" }] },
                { "forEach": ["x"], "steps": [{ "say": "$(item)" }] },
            ] },
            { "forEach": ["x", "y"], "steps": [{ "heal": { "fault": "f-$(item)" } }] },
        ] },
        "status": { "phase": "Running", "steps": [
            { "name": "fast", "phase": "Running", "clock": { "rate": "60", "paused": false, "steps": 2, "ahead": "1h" } },
            { "name": "step-2/a/1/b", "phase": "Pending" },
        ] },
    });
    let scenario: Scenario = serde_json::from_value(written.clone()).expect("readable");
    assert_eq!(serde_json::to_value(&scenario).expect("JSON"), written);
}

#[test]
fn texts_of_steps_in_rounds_can_have_variables() {
    let definitions = serde_json::to_value(crate::crds()).expect("JSON");
    let definitions = definitions.as_array().expect("a list");
    let scenario = definitions
        .iter()
        .find(|definition| definition["spec"]["names"]["kind"] == "Scenario");
    let root = &scenario.expect("one of ours")["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let schema = |path: &str| root.pointer(path).unwrap_or_else(|| panic!("no {path}")).clone();
    let pattern = |path: &str| schema(path)["pattern"].as_str().unwrap_or("none").to_owned();
    let outer = "/properties/spec/properties/steps/items";
    let variable = r"|^[-A-Za-z0-9._+]*(\$\((item|index)\)[-A-Za-z0-9._+]*)+$";
    for inner in [
        format!("{outer}/properties/steps/items"),
        format!("{outer}/properties/parallel/items/properties/steps/items"),
    ] {
        let fields = |steps: &str| -> Vec<String> {
            let properties = schema(&format!("{steps}/properties"));
            properties.as_object().expect("fields").keys().cloned().collect()
        };
        let mut of_action = fields(outer);
        of_action.retain(|name| !["parallel", "repeat", "forEach", "steps"].contains(&name.as_str()));
        assert_eq!(fields(&inner), of_action);
        for text in [
            "/properties/pause",
            "/properties/fault/properties/name",
            "/properties/fault/properties/spec/properties/match/properties/instanceTypes/items",
        ] {
            let plain = pattern(&format!("{outer}{text}"));
            assert_ne!(plain, "none", "{text}");
            assert_eq!(
                pattern(&format!("{inner}{text}")),
                format!("{plain}{variable}"),
                "{text}"
            );
        }
        // A rule reads it as a duration.
        let up = "/properties/fault/properties/spec/properties/effect/properties/flap/properties/up";
        assert_eq!(pattern(&format!("{inner}{up}")), pattern(&format!("{outer}{up}")));
    }
    let rule = &schema("/properties/spec")["x-kubernetes-validations"][0]["rule"];
    let most = format!("<= {STEPS_MAX}");
    assert!(rule.as_str().is_some_and(|rule| rule.ends_with(&most)), "{rule}");
}

/// The alternatives of a pattern that are not in brackets.
fn alternatives(pattern: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut depth = 0;
    let mut in_class = false;
    let mut is_escaped = false;
    for character in pattern.chars() {
        match character {
            '[' if !is_escaped => in_class = true,
            ']' if !is_escaped => in_class = false,
            '(' if !is_escaped && !in_class => depth += 1,
            ')' if !is_escaped && !in_class => depth -= 1,
            '|' if !is_escaped && !in_class && depth == 0 => {
                found.push(String::new());
                continue;
            }
            _ => {}
        }
        is_escaped = character == '\\' && !is_escaped;
        found.last_mut().expect("at least one").push(character);
    }
    found
}

/// Else a text passes that only has a part of the wanted form, such as `x/status?$(item)`.
#[test]
fn every_pattern_of_every_schema_covers_the_whole_text() {
    fn visit(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("pattern").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|field| visit(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| visit(item, found)),
            _ => {}
        }
    }
    let mut patterns = Vec::new();
    visit(&serde_json::to_value(crate::crds()).expect("JSON"), &mut patterns);
    assert!(patterns.len() > 100, "{}", patterns.len());
    let is_whole = |part: &String| part.starts_with('^') && part.ends_with('$') && !part.ends_with("\\$");
    patterns.retain(|pattern| !alternatives(pattern).iter().all(is_whole));
    patterns.sort_unstable();
    patterns.dedup();
    assert_eq!(patterns, [""; 0]);
}

#[test]
fn a_fault_can_match_each_zone_and_region_that_a_failure_domain_can_name() {
    let schema = |crd: CustomResourceDefinition, path: &str| {
        let versions = serde_json::to_value(crd.spec.versions).unwrap();
        versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
            .pointer(path)
            .cloned()
            .unwrap()
    };
    let mut name = schema(InMemoryCluster::crd(), "/failureDomains/items/properties/name");
    name.as_object_mut().unwrap().remove("description");
    let matched =
        ["zones", "regions"].map(|field| schema(Fault::crd(), &format!("/match/properties/{field}/items")));
    assert_eq!(matched, [name.clone(), name]);
}
