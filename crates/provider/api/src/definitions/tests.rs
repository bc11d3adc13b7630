use super::{infrastructure_group as crds, *};

fn definition(kind: &str) -> Value {
    let all = crds();
    let found = all.iter().find(|definition| definition.spec.names.kind == kind);
    serde_json::to_value(found.expect("one of ours")).expect("JSON")
}

fn schema(kind: &str, path: &str) -> Value {
    let pointer = format!("/spec/versions/0/schema/openAPIV3Schema/properties/{path}");
    definition(kind)
        .pointer(&pointer)
        .unwrap_or_else(|| panic!("no {path} in {kind}"))
        .clone()
}

#[test]
fn names_are_those_that_cluster_api_computes() {
    let names: Vec<_> = crds()
        .into_iter()
        .map(|definition| definition.metadata.name.unwrap_or_default())
        .collect();
    assert_eq!(
        names,
        [
            "inmemoryclusters.infrastructure.cluster.x-k8s.io",
            "inmemoryclustertemplates.infrastructure.cluster.x-k8s.io",
            "inmemorymachinepools.infrastructure.cluster.x-k8s.io",
            "inmemorymachinepooltemplates.infrastructure.cluster.x-k8s.io",
            "inmemorymachines.infrastructure.cluster.x-k8s.io",
            "inmemorymachinetemplates.infrastructure.cluster.x-k8s.io",
        ]
    );
}

#[test]
fn every_definition_can_be_found_by_cluster_api_and_clusterctl() {
    for definition in crds() {
        let kind = definition.spec.names.kind.clone();
        let names = &definition.spec.names;
        assert_eq!(names.list_kind.clone(), Some(format!("{kind}List")), "{kind}");
        assert_eq!(names.plural, format!("{}s", kind.to_lowercase()), "{kind}");
        assert_eq!(names.categories, Some(vec!["cluster-api".to_owned()]), "{kind}");
        assert_eq!(definition.spec.scope, "Namespaced", "{kind}");
        let labels = serde_json::to_value(&definition.metadata.labels).expect("JSON");
        assert_eq!(
            labels,
            json!({
                "cluster.x-k8s.io/v1beta1": "v1beta1",
                "cluster.x-k8s.io/v1beta2": "v1beta2",
                "cluster.x-k8s.io/provider": "infrastructure-in-memory",
                "clusterctl.cluster.x-k8s.io": "",
            }),
            "{kind}"
        );
        let versions: Vec<_> = definition
            .spec
            .versions
            .iter()
            .map(|version| {
                let status = version
                    .subresources
                    .as_ref()
                    .is_some_and(|known| known.status.is_some());
                (version.name.as_str(), version.served, version.storage, status)
            })
            .collect();
        let status = kind != "InMemoryClusterTemplate";
        assert_eq!(
            versions,
            [("v1beta2", true, true, status), ("v1beta1", true, false, status)],
            "{kind}"
        );
    }
}

#[test]
fn the_versions_are_converted_by_the_manager() {
    for definition in crds() {
        let conversion = serde_json::to_value(&definition.spec.conversion).expect("JSON");
        assert_eq!(
            conversion,
            json!({ "strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": { "service": {
                    "namespace": "nephele-system", "name": "nephele-webhook-service", "path": "/convert",
                } },
            } }),
            "{:?}",
            definition.metadata.name
        );
    }
}

#[test]
fn both_versions_have_the_same_columns() {
    for definition in crds() {
        let names = definition.spec.versions.iter().map(|version| -> Vec<_> {
            let columns = version.additional_printer_columns.iter().flatten();
            columns
                .map(|column| (column.name.clone(), column.priority, column.type_.clone()))
                .collect()
        });
        let names: Vec<_> = names.collect();
        assert_eq!(names[0], names[1], "{:?}", definition.metadata.name);
    }
}

/// The parts of a schema for shapes that only the old version has.
#[test]
fn the_old_version_has_the_shapes_of_its_contract() {
    let old = |kind: &str, path: &str| {
        let pointer = format!("/spec/versions/1/schema/openAPIV3Schema/properties/{path}");
        definition(kind)
            .pointer(&pointer)
            .unwrap_or_else(|| panic!("no {path} in {kind}"))
            .clone()
    };
    let endpoint = old("InMemoryCluster", "spec/properties/controlPlaneEndpoint");
    assert_eq!(endpoint["required"], json!(["host", "port"]));
    assert_eq!(endpoint["properties"]["host"]["minLength"], Value::Null);
    assert_eq!(endpoint["properties"]["port"]["minimum"], 0.0);
    for (path, least) in [
        ("spec/properties/failureDomains", 0),
        ("status/properties/failureDomains", 1),
    ] {
        let domains = old("InMemoryCluster", path);
        assert_eq!(
            (&domains["type"], &domains["minProperties"]),
            (&json!("object"), &json!(least)),
            "{path}"
        );
        assert_eq!(
            domains["additionalProperties"]["properties"]["controlPlane"]["type"], "boolean",
            "{path}"
        );
    }
    for kind in ["InMemoryCluster", "InMemoryMachine"] {
        let status = old(kind, "status/properties");
        assert_eq!(status["ready"]["type"], "boolean", "{kind}");
        assert_eq!(status["initialization"], Value::Null, "{kind}");
        let fields = &status["conditions"]["items"]["properties"];
        assert_eq!(
            fields["severity"]["enum"],
            json!(["", "Info", "Warning", "Error"]),
            "{kind}"
        );
        let new = schema(kind, "status/properties/conditions");
        assert_eq!(
            status["v1beta2"]["properties"]["conditions"]["items"], new["items"],
            "{kind}"
        );
    }
    let spec = old("InMemoryMachine", "spec/properties");
    assert_eq!(spec["failureDomain"], Value::Null);
    assert_eq!(spec, schema("InMemoryMachine", "spec/properties"));
}

#[test]
fn columns_show_what_cluster_api_users_look_for() {
    let columns = |kind: &str| -> Vec<(String, i64)> {
        let value = definition(kind);
        let columns = value["spec"]["versions"][0]["additionalPrinterColumns"]
            .as_array()
            .expect("columns");
        columns
            .iter()
            .map(|column| {
                (
                    column["name"].as_str().expect("a name").to_owned(),
                    column["priority"].as_i64().unwrap_or(0),
                )
            })
            .collect()
    };
    let expected = |list: &[(&str, i64)]| -> Vec<(String, i64)> {
        list.iter()
            .map(|(name, priority)| ((*name).to_owned(), *priority))
            .collect()
    };
    assert_eq!(
        columns("InMemoryCluster"),
        expected(&[
            ("Cluster", 0),
            ("Provisioned", 0),
            ("Endpoint", 0),
            ("Port", 0),
            ("Load balancer", 10),
            ("Paused", 10),
            ("Age", 0)
        ])
    );
    assert_eq!(
        columns("InMemoryMachine"),
        expected(&[
            ("Cluster", 0),
            ("Provider ID", 10),
            ("Failure domain", 0),
            ("IP", 10),
            ("Paused", 10),
            ("Provisioned", 0),
            ("Ready", 0),
            ("Age", 0),
        ])
    );
}

#[test]
fn a_machine_has_no_failure_domain_in_its_spec() {
    let spec = schema("InMemoryMachine", "spec/properties");
    let keys: Vec<_> = spec.as_object().expect("properties").keys().cloned().collect();
    assert_eq!(
        keys,
        [
            "behaviour",
            "image",
            "instance",
            "instanceType",
            "market",
            "network",
            "providerID"
        ]
    );
}

#[test]
fn the_endpoint_is_bounded_and_set_once() {
    let endpoint = schema("InMemoryCluster", "spec/properties/controlPlaneEndpoint");
    let immutable = |field: &str| format!("spec.controlPlaneEndpoint.{field} is immutable once set");
    assert_eq!(
        endpoint["properties"]["host"],
        json!({
            "description": "A host name or an IP address.",
            "type": "string", "minLength": 1, "maxLength": 512,
            "x-kubernetes-validations": [{ "rule": "self == oldSelf", "message": immutable("host") }],
        })
    );
    assert_eq!(
        endpoint["properties"]["port"],
        json!({
            "description": "A TCP port.",
            "type": "integer", "format": "int32", "minimum": 1.0, "maximum": 65535.0,
            "x-kubernetes-validations": [{ "rule": "self == oldSelf", "message": immutable("port") }],
        })
    );
    assert_eq!(endpoint["minProperties"], 1);
    assert_eq!(endpoint["required"], Value::Null);
    assert_eq!(
        endpoint["x-kubernetes-validations"],
        json!([
            { "rule": "!has(oldSelf.host) || has(self.host)", "message": immutable("host") },
            { "rule": "!has(oldSelf.port) || has(self.port)", "message": immutable("port") },
        ])
    );
}

#[test]
fn what_the_provider_sets_is_set_once() {
    let spec = schema("InMemoryMachine", "spec");
    let message = "spec.providerID is immutable once set";
    assert_eq!(
        spec["x-kubernetes-validations"],
        json!([
            { "rule": "!has(oldSelf.providerID) || has(self.providerID)", "message": message },
            {
                "rule": "!has(oldSelf.instance) || has(self.instance)",
                "message": "spec.instance is set once and stays",
            },
        ])
    );
    assert_eq!(
        spec["properties"]["providerID"]["x-kubernetes-validations"],
        json!([{ "rule": "self == oldSelf", "message": message }])
    );
}

#[test]
fn start_up_is_bounded_for_every_part_of_a_machine() {
    for (kind, prefix) in [
        ("InMemoryMachine", "spec/properties"),
        (
            "InMemoryMachineTemplate",
            "spec/properties/template/properties/spec/properties",
        ),
    ] {
        for part in ["vm", "node", "apiServer", "etcd"] {
            let path = format!("{prefix}/behaviour/properties/{part}/properties/provisioning/properties");
            let provisioning = schema(kind, &path);
            for (field, pattern) in [
                ("startupDuration", crate::start_up::DURATION_PATTERN),
                ("startupJitter", crate::start_up::JITTER_PATTERN),
            ] {
                assert_eq!(provisioning[field]["pattern"], pattern, "{kind} {part} {field}");
                let message = provisioning[field]["x-kubernetes-validations"][0]["message"].as_str();
                assert!(
                    message.is_some_and(|message| message.starts_with(field)),
                    "{kind} {part} {field}"
                );
            }
        }
    }
}

#[test]
fn nothing_is_nullable_and_nothing_but_an_absent_spec_has_a_default() {
    fn check(path: &str, schema: &Value) {
        assert_eq!(schema.get("nullable"), None, "{path}");
        let spec_of_an_object = [
            "InMemoryCluster.spec",
            "InMemoryMachine.spec",
            "InMemoryMachinePool.spec",
        ]
        .contains(&path);
        assert_eq!(
            schema.get("default"),
            spec_of_an_object.then_some(&json!({})),
            "{path}"
        );
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            check(&format!("{path}.{name}"), property);
        }
        if let Some(items) = schema.get("items") {
            check(&format!("{path}[]"), items);
        }
    }
    for definition in crds() {
        let value = serde_json::to_value(&definition).expect("JSON");
        for version in value["spec"]["versions"].as_array().expect("versions") {
            check(&definition.spec.names.kind, &version["schema"]["openAPIV3Schema"]);
        }
    }
}

#[test]
fn the_definitions_are_the_same_every_time() {
    let yaml = || serde_yaml_ng::to_string(&crate::crds()).expect("YAML");
    assert_eq!(yaml(), yaml());
}

/// In a template they would be the same for all objects that are created from it.
#[test]
fn what_each_object_has_for_itself_no_template_has_and_no_rule_there_forbids_changes() {
    let rules = |kind: &str, version: usize| -> Vec<(String, String)> {
        let pointer = format!(
            "/spec/versions/{version}/schema/openAPIV3Schema/properties/spec/properties/template/properties/spec"
        );
        let spec = definition(kind).pointer(&pointer).expect("a spec").clone();
        assert!(!spec.to_string().contains("oldSelf"), "{kind}");
        let rules = spec["x-kubernetes-validations"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let texts =
            |rule: &Value| ["fieldPath", "rule"].map(|name| rule[name].as_str().unwrap_or("").to_owned());
        rules
            .iter()
            .map(texts)
            .map(|[field, rule]| (field, rule))
            .collect()
    };
    let forbidden = |field: &str| vec![(format!(".{field}"), format!("!has(self.{field})"))];
    for version in [0, 1] {
        let both = [forbidden("instance"), forbidden("providerID")].concat();
        assert_eq!(rules("InMemoryMachineTemplate", version), both);
        assert_eq!(
            rules("InMemoryMachinePoolTemplate", version),
            forbidden("providerIDList")
        );
    }
    let both = [forbidden("controlPlaneEndpoint"), forbidden("origin")].concat();
    assert_eq!(rules("InMemoryClusterTemplate", 0), both);
    let old = "!has(self.controlPlaneEndpoint) || \
               (self.controlPlaneEndpoint.host == '' && self.controlPlaneEndpoint.port == 0)";
    let old = [
        vec![(".controlPlaneEndpoint".to_owned(), old.to_owned())],
        forbidden("origin"),
    ]
    .concat();
    assert_eq!(rules("InMemoryClusterTemplate", 1), old);
}

#[test]
fn a_template_says_what_is_made_from_it() {
    for (kind, version) in [
        ("InMemoryClusterTemplate", 0),
        ("InMemoryClusterTemplate", 1),
        ("InMemoryMachineTemplate", 0),
        ("InMemoryMachineTemplate", 1),
    ] {
        let root = definition(kind)["spec"]["versions"][version]["schema"]["openAPIV3Schema"].clone();
        assert_eq!(root["required"], json!(["spec"]), "{kind}");
        assert_eq!(
            root["properties"]["spec"]["required"],
            json!(["template"]),
            "{kind}"
        );
        assert_eq!(
            root["properties"]["spec"]["properties"]["template"]["required"],
            json!(["spec"]),
            "{kind}"
        );
    }
}
