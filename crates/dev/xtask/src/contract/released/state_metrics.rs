//! The configuration of kube-state-metrics for our kinds has Cluster API's names, and only fields that exist.
//!
//! kube-state-metrics 2.18.0 was run with the file once, by hand, on a cluster with addresses from a pool: it
//! accepted the file, and every metric of clusters, machines and pools existed with the objects' values.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{documents, file, items, text};

/// The configuration, one entry for each kind.
fn resources() -> Vec<Value> {
    let mut all = documents(&file("config/metrics/crd-metrics-config.yaml"));
    let configuration = all.pop().expect("a document");
    assert_eq!(
        (all.len(), text(&configuration, "/kind")),
        (0, "CustomResourceStateMetrics")
    );
    items(&configuration, "/spec/resources").to_vec()
}

fn kind(resource: &Value) -> &str {
    text(resource, "/groupVersionKind/kind")
}

/// The metric of this name, with the definition of its samples.
fn metric<'a>(resource: &'a Value, name: &str) -> Option<(&'a str, &'a Value)> {
    let metric = items(resource, "/metrics")
        .iter()
        .find(|metric| metric["name"] == name)?;
    let each = &metric["each"];
    let form = text(each, "/type");
    // Kubernetes State Metrics, pkg/customresourcestate/config_metrics_types.go: the field is the type in lower case.
    let field = format!("{}{}", form[..1].to_lowercase(), &form[1..]);
    Some((
        form,
        each.get(&field)
            .unwrap_or_else(|| panic!("{name} says nothing of its {field}")),
    ))
}

/// A kind with its schemas, including the fields that every object has.
struct Kind {
    group: String,
    plural: String,
    scope: String,
    /// By version.
    schemas: BTreeMap<String, Value>,
}

fn kinds() -> BTreeMap<String, Kind> {
    let metadata = json!({ "type": "object", "properties": {
        "name": { "type": "string" }, "namespace": { "type": "string" }, "uid": { "type": "string" },
        "creationTimestamp": { "type": "string", "format": "date-time" },
        "labels": { "type": "object", "additionalProperties": { "type": "string" } },
        "annotations": { "type": "object", "additionalProperties": { "type": "string" } },
        "ownerReferences": { "type": "array", "items": { "type": "object", "properties": {
            "controller": { "type": "boolean" }, "kind": { "type": "string" }, "name": { "type": "string" },
            "uid": { "type": "string" },
        } } },
    } });
    let kinds = nephele_api::crds().into_iter().map(|definition| {
        let value = serde_json::to_value(&definition).expect("JSON");
        let schemas = items(&value, "/spec/versions").iter().map(|version| {
            let mut schema = version["schema"]["openAPIV3Schema"].clone();
            schema["properties"]["metadata"] = metadata.clone();
            (text(version, "/name").to_owned(), schema)
        });
        let kind = Kind {
            group: definition.spec.group,
            plural: definition.spec.names.plural,
            scope: definition.spec.scope,
            schemas: schemas.collect(),
        };
        (definition.spec.names.kind, kind)
    });
    kinds.collect()
}

/// The schema at a path, key by key.
fn resolve<'a>(schema: &'a Value, path: &Value) -> Option<&'a Value> {
    path.as_array()?.iter().try_fold(schema, |schema, key| {
        let key = key.as_str()?;
        schema["properties"]
            .get(key)
            .or_else(|| schema.get("additionalProperties"))
    })
}

/// Whether a field can be a sample's value: a number, a boolean or a time.
fn is_measurable(schema: &Value) -> bool {
    let kind = text(schema, "/type");
    ["integer", "number", "boolean"].contains(&kind) || text(schema, "/format") == "date-time"
}

#[test]
fn every_kind_that_says_how_it_is_is_shown_under_its_name() {
    let shown: Vec<_> = resources()
        .iter()
        .map(|resource| kind(resource).to_owned())
        .collect();
    let known = kinds();
    let expected: Vec<_> = nephele_api::crds()
        .into_iter()
        .map(|definition| definition.spec.names.kind)
        .filter(|kind| {
            let schema = known[kind].schemas.values().last().expect("a version");
            schema
                .pointer("/properties/status/properties/conditions")
                .is_some()
        })
        .collect();
    assert_eq!(shown, expected);
    for resource in resources() {
        let prefix = format!("capi_{}", kind(&resource).to_lowercase());
        assert_eq!(resource["metricNamePrefix"], prefix);
        let group = text(&resource, "/groupVersionKind/group");
        assert_eq!(group, known[kind(&resource)].group, "{prefix}");
    }
}

#[test]
fn every_sample_says_of_which_object_and_cluster_it_is() {
    let known = kinds();
    for resource in resources() {
        let mut expected = json!({ "name": ["metadata", "name"], "uid": ["metadata", "uid"] });
        if known[kind(&resource)].scope == "Namespaced" {
            expected["namespace"] = json!(["metadata", "namespace"]);
            expected["cluster_name"] = json!(["metadata", "labels", "cluster.x-k8s.io/cluster-name"]);
        }
        assert_eq!(resource["labelsFromPath"], expected, "{}", kind(&resource));
    }
}

/// Cluster API, core/config/metrics/templates/common_metrics.yaml.
#[test]
fn conditions_and_when_they_changed_are_two_families() {
    for resource in resources() {
        let expected = json!({
            "path": ["status", "conditions"], "labelsFromPath": { "type": ["type"] }, "labelName": "status",
            "list": ["True", "False", "Unknown"], "valueFrom": ["status"],
        });
        assert_eq!(
            metric(&resource, "status_condition"),
            Some(("StateSet", &expected))
        );
        let expected = json!({
            "path": ["status", "conditions"], "labelsFromPath": { "type": ["type"], "status": ["status"] },
            "valueFrom": ["lastTransitionTime"],
        });
        assert_eq!(
            metric(&resource, "status_condition_last_transition_time"),
            Some(("Gauge", &expected))
        );
    }
}

#[test]
fn there_is_more_than_conditions() {
    for resource in resources() {
        for name in ["created", "annotation_paused", "owner"] {
            assert!(
                metric(&resource, name).is_some(),
                "{} has no {name}",
                kind(&resource)
            );
        }
        let own: &[&str] = match kind(&resource) {
            "InMemoryCluster" => &[
                "info",
                "status_initialization_provisioned",
                "status_failure_domain",
            ],
            "InMemoryMachine" => &["info", "status_initialization_provisioned", "addresses"],
            "InMemoryMachinePool" => &["info", "status_initialization_provisioned", "status_replicas"],
            "CloudExtensionConfig" => &["info"],
            "ClusterFault" => &[
                "status_phase",
                "status_namespaces",
                "status_matched",
                "status_hits",
            ],
            "Fault" => &["status_phase", "status_matched", "status_hits"],
            "Scenario" => &["status_phase"],
            "SimulatedCloud" => &["status_zones"],
            _ => &[
                "status_ipaddresses_free",
                "status_ipaddresses_total",
                "status_ipaddresses_used",
            ],
        };
        for name in own {
            assert!(
                metric(&resource, name).is_some(),
                "{} has no {name}",
                kind(&resource)
            );
        }
    }
}

#[test]
fn every_path_leads_to_something_in_the_schema() {
    let known = kinds();
    let mut paths = 0;
    for resource in resources() {
        let version = text(&resource, "/groupVersionKind/version");
        let schema = &known[kind(&resource)].schemas[version];
        let mut checked = |name: &str, schema: &Value, path: &Value| {
            paths += 1;
            let found = resolve(schema, path);
            found
                .unwrap_or_else(|| panic!("{}: {name}: {path} leads nowhere", kind(&resource)))
                .clone()
        };
        for (label, path) in resource["labelsFromPath"].as_object().expect("labels") {
            assert_eq!(checked(label, schema, path)["type"], "string");
        }
        for name in items(&resource, "/metrics")
            .iter()
            .map(|metric| text(metric, "/name"))
        {
            let (form, each) = metric(&resource, name).expect("it is there");
            let place = match each.get("path") {
                Some(path) => checked(name, schema, path),
                None => schema.clone(),
            };
            // Each entry of a list is a sample.
            let sample = if place["type"] == "array" {
                place["items"].clone()
            } else {
                place
            };
            for (label, path) in each["labelsFromPath"].as_object().into_iter().flatten() {
                let found = checked(&format!("{name} {label}"), &sample, path);
                assert_ne!(found["type"], "object", "{name} {label}");
            }
            let value = match each.get("valueFrom") {
                Some(path) => checked(name, &sample, path),
                None => sample,
            };
            match form {
                "Gauge" => assert!(is_measurable(&value), "{}: {name} is {value}", kind(&resource)),
                "StateSet" => assert_eq!(value["enum"], each["list"], "{name}"),
                form => assert_eq!(form, "Info", "{name}"),
            }
        }
    }
    assert!(paths > 100, "{paths}");
}

#[test]
fn its_role_lets_it_read_what_it_shows_and_nothing_else() {
    let role = documents(&file("config/metrics/crd-clusterrole.yaml")).remove(0);
    assert_eq!(text(&role, "/kind"), "ClusterRole");
    let label = &role["metadata"]["labels"]["kube-state-metrics/aggregate-to-manager"];
    assert_eq!(label, "true");
    let known = kinds();
    let mut expected: Vec<_> = resources()
        .iter()
        .map(|resource| {
            (
                known[kind(resource)].group.clone(),
                known[kind(resource)].plural.clone(),
            )
        })
        .collect();
    expected.sort();
    let mut granted = Vec::new();
    for rule in items(&role, "/rules") {
        assert_eq!(rule["verbs"], json!(["get", "list", "watch"]));
        for resource in items(rule, "/resources") {
            let [group] = items(rule, "/apiGroups") else {
                panic!("{rule}")
            };
            granted.push((
                group.as_str().expect("a group").to_owned(),
                resource.as_str().expect("a plural").to_owned(),
            ));
        }
    }
    granted.sort();
    assert_eq!(granted, expected);
}

/// Cluster API's sidecar merges several files by dropping these lines from each (`hack/observability/
/// kube-state-metrics/crd-sidecar-cm.yaml`).
#[test]
fn the_file_can_be_put_behind_that_of_another_provider() {
    let file = file("config/metrics/crd-metrics-config.yaml");
    let left_out = ["kind: CustomResourceStateMetrics", "spec:", "  resources:"];
    let kept = file
        .lines()
        .filter(|line| !left_out.contains(line))
        .map(|line| format!("{line}\n"));
    let other =
        "kind: CustomResourceStateMetrics\nspec:\n  resources:\n  - groupVersionKind: {kind: Other}\n";
    let whole = documents(&format!("{other}{}", kept.collect::<String>())).remove(0);
    assert_eq!(items(&whole, "/spec/resources")[1..], resources());
}
