use super::*;

fn definition(kind: &str) -> Value {
    let all = crds();
    let found = all.iter().find(|definition| definition.spec.names.kind == kind);
    serde_json::to_value(found.expect("one of ours")).expect("JSON")
}

/// The schema of a version's spec.
fn spec(kind: &str, version: &str) -> Value {
    let definition = definition(kind);
    let versions = definition["spec"]["versions"].as_array().expect("versions");
    let found = versions
        .iter()
        .find(|known| known["name"] == version)
        .expect("the version");
    found["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
}

#[test]
fn names_and_scopes_are_those_of_the_in_cluster_provider() {
    let found: Vec<_> = crds()
        .into_iter()
        .map(|definition| {
            let names = definition.spec.names;
            let singular = names.singular.unwrap_or_default();
            assert_eq!(singular, names.kind.to_lowercase());
            assert_eq!(names.list_kind, Some(format!("{}List", names.kind)));
            assert_eq!(names.categories, Some(vec!["cluster-api".to_owned()]));
            assert_eq!(names.short_names, None);
            (
                definition.metadata.name.unwrap_or_default(),
                names.kind,
                definition.spec.scope,
            )
        })
        .collect();
    let expected = [
        (
            "globalinclusterippools.ipam.cluster.x-k8s.io",
            "GlobalInClusterIPPool",
            "Cluster",
        ),
        (
            "globalinclusterprefixpools.ipam.cluster.x-k8s.io",
            "GlobalInClusterPrefixPool",
            "Cluster",
        ),
        (
            "inclusterippools.ipam.cluster.x-k8s.io",
            "InClusterIPPool",
            "Namespaced",
        ),
        (
            "inclusterprefixpools.ipam.cluster.x-k8s.io",
            "InClusterPrefixPool",
            "Namespaced",
        ),
    ];
    assert_eq!(
        found,
        expected.map(|(name, kind, scope)| (name.to_owned(), kind.to_owned(), scope.to_owned()))
    );
}

#[test]
fn ip_pools_have_two_versions_with_conversion_and_prefix_pools_one() {
    for definition in crds() {
        let kind = &definition.spec.names.kind;
        let versions: Vec<_> = definition
            .spec
            .versions
            .iter()
            .map(|version| {
                let status = version
                    .subresources
                    .as_ref()
                    .is_some_and(|known| known.status.is_some());
                assert!(status, "{kind}");
                (
                    version.name.as_str(),
                    version.served,
                    version.storage,
                    version.deprecated == Some(true),
                )
            })
            .collect();
        if kind.contains("Prefix") {
            assert_eq!(versions, [("v1alpha2", true, true, false)], "{kind}");
            assert_eq!(definition.spec.conversion, None, "{kind}");
        } else {
            assert_eq!(
                versions,
                [("v1alpha2", true, true, false), ("v1alpha1", true, false, true)],
                "{kind}"
            );
            assert_eq!(
                serde_json::to_value(&definition.spec.conversion).expect("JSON"),
                json!({
                    "strategy": "Webhook",
                    "webhook": {
                        "conversionReviewVersions": ["v1"],
                        "clientConfig": { "service": {
                            "namespace": "capi-ipam-in-cluster-system",
                            "name": "capi-ipam-in-cluster-webhook-service",
                            "path": "/convert",
                        } },
                    },
                }),
                "{kind}"
            );
        }
        assert_eq!(
            serde_json::to_value(&definition.metadata.labels).expect("JSON"),
            json!({
                "cluster.x-k8s.io/v1beta2": "v1alpha2",
                "cluster.x-k8s.io/provider": "ipam-in-cluster",
                "clusterctl.cluster.x-k8s.io": "",
                "clusterctl.cluster.x-k8s.io/move-hierarchy": "",
            }),
            "{kind}"
        );
    }
}

#[test]
fn columns_are_those_of_the_in_cluster_provider_and_first_and_last_show_something() {
    let columns = |kind: &str, version: usize| -> Vec<String> {
        let definition = definition(kind);
        let columns = definition["spec"]["versions"][version]["additionalPrinterColumns"]
            .as_array()
            .cloned();
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let columns = columns.unwrap_or_default();
        columns
            .iter()
            .map(|column| {
                format!(
                    "{} {} {}",
                    text(&column["name"]),
                    text(&column["type"]),
                    text(&column["jsonPath"])
                )
            })
            .collect()
    };
    let counts = [
        "Total integer .status.ipAddresses.total",
        "Free integer .status.ipAddresses.free",
        "Used integer .status.ipAddresses.used",
    ];
    let with = |first: &[&str]| -> Vec<String> {
        first
            .iter()
            .chain(&counts)
            .map(|column| (*column).to_owned())
            .collect()
    };
    for kind in ["InClusterIPPool", "GlobalInClusterIPPool"] {
        assert_eq!(
            columns(kind, 0),
            with(&["Addresses string .spec.addresses"]),
            "{kind}"
        );
    }
    for kind in ["InClusterPrefixPool", "GlobalInClusterPrefixPool"] {
        assert_eq!(
            columns(kind, 0),
            with(&["Prefixes string .spec.prefixes"]),
            "{kind}"
        );
    }
    let range = [
        "Subnet string .spec.subnet",
        "First string .spec.start",
        "Last string .spec.end",
    ];
    assert_eq!(columns("GlobalInClusterIPPool", 1), with(&range));
    let [subnet, first, last] = range;
    assert_eq!(
        columns("InClusterIPPool", 1),
        with(&[subnet, first, last, "Addresses string .spec.addresses"])
    );
}

#[test]
fn schemas_are_no_stricter_than_those_of_the_in_cluster_provider() {
    for kind in ["InClusterIPPool", "GlobalInClusterIPPool"] {
        let stored = spec(kind, "v1alpha2");
        assert_eq!(stored["required"], json!(["addresses", "prefix"]));
        let limits = |field: &str, limit: &str| stored["properties"][field][limit].as_f64();
        assert_eq!(
            (limits("prefix", "minimum"), limits("prefix", "maximum")),
            (Some(0.0), Some(128.0))
        );
        assert_eq!(limits("addressReuseGracePeriodSeconds", "minimum"), Some(0.0));
        assert_eq!(stored["properties"]["addresses"].get("minItems"), None);
        let keys: Vec<_> = stored["properties"]
            .as_object()
            .expect("properties")
            .keys()
            .cloned()
            .collect();
        assert_eq!(
            keys,
            [
                "addressReuseGracePeriodSeconds",
                "addresses",
                "allocateReservedIPAddresses",
                "excludedAddresses",
                "gateway",
                "prefix"
            ]
        );
        let deprecated = spec(kind, "v1alpha1");
        assert_eq!(deprecated.get("required"), None);
        assert_eq!(deprecated["properties"]["prefix"].get("minimum"), None);
        assert_eq!(
            deprecated["properties"]["prefix"]["maximum"].as_f64(),
            Some(128.0)
        );
        let keys: Vec<_> = deprecated["properties"]
            .as_object()
            .expect("properties")
            .keys()
            .cloned()
            .collect();
        assert_eq!(keys, ["addresses", "end", "gateway", "prefix", "start", "subnet"]);
    }
    for kind in ["InClusterPrefixPool", "GlobalInClusterPrefixPool"] {
        let stored = spec(kind, "v1alpha2");
        assert_eq!(stored["required"], json!(["prefixes"]));
        assert_eq!(
            stored["properties"]["allocationPrefixLength"],
            json!({
                "description": "The length of each prefix that is handed out. It cannot be changed.",
                "type": "integer", "format": "int32", "minimum": 1.0, "maximum": 128.0, "default": 64,
                "x-kubernetes-validations": [
                    { "rule": "self == oldSelf", "message": "spec.allocationPrefixLength is immutable" },
                ],
            })
        );
    }
}

#[test]
fn an_object_without_a_spec_reads_as_one_that_has_nothing() {
    for kind in ["InClusterIPPool", "GlobalInClusterIPPool"] {
        assert_eq!(
            spec(kind, "v1alpha2")["default"],
            json!({ "addresses": [], "prefix": 0 })
        );
        assert_eq!(spec(kind, "v1alpha1")["default"], json!({}));
    }
    for kind in ["InClusterPrefixPool", "GlobalInClusterPrefixPool"] {
        assert_eq!(spec(kind, "v1alpha2")["default"], json!({ "prefixes": [] }));
    }
}

#[test]
fn every_version_keeps_the_whole_status() {
    let status = |kind: &str, version: usize| {
        definition(kind)["spec"]["versions"][version]["schema"]["openAPIV3Schema"]["properties"]["status"]
            .clone()
    };
    let stored = status("InClusterIPPool", 0);
    let keys: Vec<_> = stored["properties"]
        .as_object()
        .expect("properties")
        .keys()
        .cloned()
        .collect();
    assert_eq!(
        keys,
        [
            "allocator",
            "conditions",
            "ipAddresses",
            "observedGeneration",
            "pending"
        ]
    );
    assert_eq!(
        stored["properties"]["ipAddresses"]["required"],
        json!(["free", "outOfRange", "total", "used"])
    );
    assert_eq!(status("InClusterIPPool", 1), stored);
    assert_eq!(status("GlobalInClusterIPPool", 0), stored);
    assert_eq!(status("GlobalInClusterIPPool", 1), stored);
    assert_eq!(status("InClusterPrefixPool", 0), stored);
}

#[test]
fn a_global_pool_reads_and_writes_like_any_object() {
    let value = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2",
        "kind": "GlobalInClusterIPPool",
        "metadata": { "name": "pool" },
        "spec": { "addresses": ["10.0.0.10-10.0.0.20"], "prefix": 24, "allocateReservedIPAddresses": true },
        "status": { "ipAddresses": { "total": 11, "free": 10, "used": 1, "outOfRange": 0 } },
    });
    let pool: GlobalInClusterIPPool = serde_json::from_value(value.clone()).expect("readable");
    assert!(pool.spec.allocate_reserved_ip_addresses);
    assert_eq!(serde_json::to_value(&pool).expect("JSON"), value);
    let bare: GlobalInClusterIPPool =
        serde_json::from_value(json!({ "metadata": { "name": "pool" } })).expect("readable");
    assert_eq!(bare.spec, v1alpha2::InClusterIPPoolSpec::default());
}

#[test]
fn stand_ins_are_named_as_cluster_api_names_its_own() {
    let names: Vec<_> = loose_crds()
        .into_iter()
        .map(|definition| definition.metadata.name.unwrap_or_default())
        .collect();
    assert_eq!(
        names,
        [
            "ipaddressclaims.ipam.cluster.x-k8s.io",
            "ipaddresses.ipam.cluster.x-k8s.io"
        ]
    );
}
