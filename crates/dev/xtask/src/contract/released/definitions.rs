//! Requirements of Cluster API for definitions.

use serde_json::{Value, json};

use super::{documents, file, items, text};

/// Every kind with the schema of its stored version.
fn stored() -> Vec<(String, Value)> {
    let definitions = nephele_api::crds().into_iter();
    definitions
        .map(|definition| {
            let value = serde_json::to_value(&definition).expect("JSON");
            let version = items(&value, "/spec/versions")
                .iter()
                .find(|version| version["storage"] == true);
            let schema = version.expect("a version is stored")["schema"]["openAPIV3Schema"].clone();
            (definition.spec.names.kind, schema)
        })
        .collect()
}

#[test]
fn the_release_series_has_a_contract_of_the_definitions() {
    let metadata = documents(&file("config/metadata.yaml")).remove(0);
    assert_eq!(metadata["apiVersion"], "clusterctl.cluster.x-k8s.io/v1alpha3");
    assert_eq!(metadata["kind"], "Metadata");
    let mut parts = env!("CARGO_PKG_VERSION")
        .split('.')
        .map(|part| part.parse::<u64>().expect("a number"));
    let major = parts.next();
    let minor = parts.next();
    let of_release = |series: &&Value| (series["major"].as_u64(), series["minor"].as_u64()) == (major, minor);
    let series = items(&metadata, "/releaseSeries")
        .iter()
        .find(of_release)
        .expect("the release's series");
    let contract = text(series, "/contract");
    assert!(["v1beta1", "v1beta2"].contains(&contract), "{contract}");
    for definition in nephele_api::crds() {
        let labels = definition.metadata.labels.unwrap_or_default();
        let versions = labels
            .get(&format!("cluster.x-k8s.io/{contract}"))
            .cloned()
            .unwrap_or_default();
        let served: Vec<_> = definition
            .spec
            .versions
            .iter()
            .filter(|known| known.served)
            .map(|known| known.name.as_str())
            .collect();
        assert!(
            !versions.is_empty() && versions.split('_').all(|version| served.contains(&version)),
            "{}: {versions:?} of {served:?}",
            definition.spec.names.kind
        );
    }
}

/// Kubernetes, apimachinery/pkg/apis/meta/v1/types.go, Condition.
#[test]
fn conditions_have_the_schema_of_the_api_machinery() {
    let mut seen = 0;
    for (kind, schema) in stored() {
        if kind.ends_with("Template") {
            continue;
        }
        seen += 1;
        let list = schema.pointer("/properties/status/properties/conditions");
        let list = list.unwrap_or_else(|| panic!("{kind} has no conditions"));
        assert_eq!(list["x-kubernetes-list-type"], "map", "{kind}");
        assert_eq!(list["x-kubernetes-list-map-keys"], json!(["type"]), "{kind}");
        let item = &list["items"];
        assert_eq!(
            item["required"],
            json!(["lastTransitionTime", "message", "reason", "status", "type"]),
            "{kind}"
        );
        let of = |field: &str| &item["properties"][field];
        assert_eq!(
            of("status")["enum"],
            json!(["True", "False", "Unknown"]),
            "{kind}"
        );
        assert_eq!(of("lastTransitionTime")["format"], "date-time", "{kind}");
        assert_eq!(
            (&of("reason")["minLength"], &of("reason")["maxLength"]),
            (&json!(1), &json!(1024)),
            "{kind}"
        );
        assert_eq!(
            of("reason")["pattern"],
            "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            "{kind}"
        );
        assert_eq!(
            (&of("type")["maxLength"], &of("message")["maxLength"]),
            (&json!(316), &json!(32768)),
            "{kind}"
        );
        assert_eq!(of("observedGeneration")["type"], "integer", "{kind}");
    }
    assert!(seen >= 6, "{seen}");
}

#[test]
fn no_stored_kind_has_fields_for_terminal_failures() {
    for (kind, schema) in stored() {
        for field in ["failureReason", "failureMessage"] {
            let found = schema.pointer(&format!("/properties/status/properties/{field}"));
            assert_eq!(found, None, "{kind}");
        }
    }
}

/// Cluster API, util/contract/contract.go, CalculateCRDName. All our kinds have regular plurals.
#[test]
fn every_kind_is_named_and_scoped_as_cluster_api_looks_for_it() {
    for definition in nephele_api::crds() {
        let names = &definition.spec.names;
        let kind = &names.kind;
        let plural = format!("{}s", kind.to_lowercase());
        assert_eq!(
            definition.metadata.name,
            Some(format!("{plural}.{}", definition.spec.group)),
            "{kind}"
        );
        assert_eq!(
            (&names.plural, names.list_kind.as_deref()),
            (&plural, Some(&*format!("{kind}List")))
        );
        assert_eq!(names.categories, Some(vec!["cluster-api".to_owned()]), "{kind}");
        // CloudExtensionConfigs are cluster-scoped, as Cluster API's ExtensionConfigs are.
        let of_all = ["Global", "Cluster", "CloudExtensionConfig"]
            .iter()
            .any(|begin| kind.starts_with(begin));
        let scope = if of_all { "Cluster" } else { "Namespaced" };
        assert_eq!(definition.spec.scope, scope, "{kind}");
        let labels = definition.metadata.labels.unwrap_or_default();
        assert_eq!(
            labels.get("clusterctl.cluster.x-k8s.io").map(String::as_str),
            Some(""),
            "{kind}"
        );
        for version in &definition.spec.versions {
            let value = serde_json::to_value(version).expect("JSON");
            let has_status = value
                .pointer("/schema/openAPIV3Schema/properties/status")
                .is_some();
            let subresource = value.pointer("/subresources/status").is_some();
            assert_eq!(has_status, subresource, "{kind} {}", version.name);
        }
    }
}

/// The topology controller compares templates with dry runs, which a rule in a schema cannot recognise.
#[test]
fn no_rule_in_a_schema_makes_a_template_immutable() {
    let mut seen = 0;
    for (kind, schema) in stored()
        .into_iter()
        .filter(|(kind, _)| kind.ends_with("Template"))
    {
        seen += 1;
        for path in ["", "/properties/spec", "/properties/spec/properties/template"] {
            let place = schema
                .pointer(path)
                .unwrap_or_else(|| panic!("{kind} has no {path}"));
            assert_eq!(place.get("x-kubernetes-validations"), None, "{kind}{path}");
        }
        let spec = "/properties/spec/properties/template/properties/spec";
        for rule in items(&schema, &format!("{spec}/x-kubernetes-validations")) {
            assert_ne!(text(rule, "/rule"), "self == oldSelf", "{kind}");
        }
    }
    assert!(seen >= 2, "{seen}");
}
