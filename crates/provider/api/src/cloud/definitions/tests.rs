use serde_json::{Value, json};

use super::*;

fn named(name: &str) -> Value {
    let found = crds()
        .into_iter()
        .find(|definition| definition.metadata.name.as_deref() == Some(name));
    serde_json::to_value(found.expect("it is one of ours")).expect("JSON")
}

fn definition() -> Value {
    named("simulatedclouds.cloud.nephele.dev")
}

fn schema(path: &str) -> Value {
    let pointer = format!("/spec/versions/0/schema/openAPIV3Schema/properties/{path}");
    definition()
        .pointer(&pointer)
        .unwrap_or_else(|| panic!("no {path}"))
        .clone()
}

#[test]
fn clusterctl_finds_clouds_and_moves_them_with_the_clusters_of_their_namespace() {
    let definition = definition();
    assert_eq!(
        definition["metadata"]["labels"],
        json!({
            "cluster.x-k8s.io/v1beta2": "v1alpha1",
            "cluster.x-k8s.io/provider": "infrastructure-in-memory",
            "clusterctl.cluster.x-k8s.io": "",
            "clusterctl.cluster.x-k8s.io/move": "",
        })
    );
    assert_eq!(definition["spec"]["scope"], "Namespaced");
    assert_eq!(
        definition["spec"]["versions"][0]["subresources"],
        json!({ "status": {} })
    );
    assert_eq!(definition["spec"]["conversion"], Value::Null);
}

/// Each list is bounded, and each name in it is used once.
#[test]
fn names_are_used_once() {
    for (path, most) in [
        ("regions", 10),
        ("regions/items/properties/zones", 10),
        ("instanceTypes", 100),
        ("images", 100),
    ] {
        let list = schema(&format!("spec/properties/{path}"));
        assert_eq!(list["x-kubernetes-list-type"], "map", "{path}");
        assert_eq!(list["x-kubernetes-list-map-keys"], json!(["name"]), "{path}");
        assert_eq!(list["maxItems"], json!(most), "{path}");
        let name = &list["items"]["properties"]["name"];
        assert!(
            list["items"]["required"]
                .as_array()
                .is_some_and(|all| all.contains(&json!("name"))),
            "{path}"
        );
        assert_eq!(
            (&name["minLength"], &name["maxLength"]),
            (&json!(1), &json!(63)),
            "{path}"
        );
        assert!(name["pattern"].is_string(), "{path}");
    }
    let rules = schema("spec/properties/regions/x-kubernetes-validations");
    assert_eq!(
        rules[0]["message"],
        "the name of a zone is used in one region only"
    );
    let versions = schema("spec/properties/images/items/properties/kubernetes");
    assert_eq!(
        versions["items"],
        json!({ "type": "string", "minLength": 3, "maxLength": 5, "pattern": r"^1\.(0|[1-9][0-9]{0,2})$" })
    );
    assert_eq!(
        (&versions["maxItems"], &versions["x-kubernetes-list-type"]),
        (&json!(32), &json!("set"))
    );
}

#[test]
fn extensions_are_of_the_management_cluster_and_stay_there() {
    let definition = named("cloudextensionconfigs.cloud.nephele.dev");
    assert_eq!(definition["spec"]["scope"], "Cluster");
    assert_eq!(
        definition["metadata"]["labels"],
        json!({
            "cluster.x-k8s.io/v1beta2": "v1alpha1",
            "cluster.x-k8s.io/provider": "infrastructure-in-memory",
            "clusterctl.cluster.x-k8s.io": "",
        })
    );
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(schema["required"], json!(["spec"]));
    let named = "size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')";
    assert_eq!(schema["x-kubernetes-validations"][0]["rule"], named);
    let spec = &schema["properties"]["spec"];
    assert_eq!(spec["required"], json!(["clientConfig"]));
    let client_config = &spec["properties"]["clientConfig"];
    assert_eq!(
        client_config["x-kubernetes-validations"][0]["rule"],
        "has(self.url) != has(self.service)"
    );
    assert_eq!(client_config["properties"]["caBundle"]["format"], "byte");
    assert_eq!(
        spec["properties"]["namespaceSelector"]["properties"]["matchExpressions"]["items"]["required"],
        json!(["key", "operator"])
    );
}

/// A Fault is tried out in one place: it has no effect on clusters that moved away.
#[test]
fn faults_stay_and_have_exactly_one_effect() {
    let definition = named("faults.cloud.nephele.dev");
    assert_eq!(
        definition["metadata"]["labels"].get("clusterctl.cluster.x-k8s.io/move"),
        None
    );
    assert_eq!(definition["spec"]["scope"], "Namespaced");
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let spec = &schema["properties"]["spec"];
    assert_eq!(
        (&schema["required"], &spec["required"]),
        (&json!(["spec"]), &json!(["effect"]))
    );
    let rule = &spec["properties"]["effect"]["x-kubernetes-validations"][0];
    let effects = spec["properties"]["effect"]["properties"]
        .as_object()
        .expect("fields")
        .keys();
    let mut counted: Vec<_> = rule["rule"]
        .as_str()
        .expect("a rule")
        .split("has(self.")
        .skip(1)
        .collect();
    counted.sort_unstable();
    let counted: Vec<_> = counted
        .into_iter()
        .filter_map(|rest| Some(rest.split_once(')')?.0))
        .collect();
    assert_eq!(counted, effects.collect::<Vec<_>>());
    let operations = &spec["properties"]["match"]["properties"]["operations"];
    assert_eq!(operations["items"]["enum"], json!(nephele_model::Verb::ALL));
}

/// The rules are those of a Fault, because they come from the same type.
#[test]
fn cluster_faults_are_faults_of_selected_namespaces() {
    let of_all = named("clusterfaults.cloud.nephele.dev");
    let of_one = named("faults.cloud.nephele.dev");
    assert_eq!(of_all["spec"]["scope"], "Cluster");
    assert_eq!(of_all["metadata"]["labels"], of_one["metadata"]["labels"]);
    let schema = |definition: &Value| definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    let of_all = schema(&of_all);
    let of_one = schema(&of_one);
    let named = "size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')";
    assert_eq!(of_all["x-kubernetes-validations"][0]["rule"], named);
    assert_eq!(of_all["required"], of_one["required"]);
    let mut of_all = of_all["properties"]["spec"].clone();
    let of_one = &of_one["properties"]["spec"];
    let selector = of_all["properties"]
        .as_object_mut()
        .expect("fields")
        .remove("namespaceSelector");
    assert!(selector.is_some());
    of_all["description"] = of_one["description"].clone();
    assert_eq!(of_all, *of_one);
}
