use serde_json::json;

use super::{failure_domain::FailureDomain, *};

#[test]
fn unknown_fields_are_passed_over() {
    let cluster: Cluster = serde_json::from_value(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": { "name": "c", "namespace": "default" },
        "spec": {
            "paused": true,
            "topology": { "classRef": { "name": "quick-start" }, "version": "v1.36.3" },
            "clusterNetwork": { "services": { "cidrBlocks": ["10.128.0.0/12"] }, "apiServerPort": 6443 },
            "infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "InMemoryCluster", "name": "c-1",
            },
        },
        "status": {
            "initialization": { "infrastructureProvisioned": true },
            "failureDomains": [{ "name": "a" }],
            "v1beta2": { "conditions": [] },
        },
    }))
    .expect("readable");
    let expected = ClusterSpec {
        paused: Some(true),
        cluster_network: Some(ClusterNetwork {
            services: Some(NetworkRanges {
                cidr_blocks: vec!["10.128.0.0/12".into()],
            }),
            ..ClusterNetwork::default()
        }),
        infrastructure_ref: Some(ObjectReference {
            api_group: "infrastructure.cluster.x-k8s.io".into(),
            kind: "InMemoryCluster".into(),
            name: "c-1".into(),
        }),
        ..ClusterSpec::default()
    };
    assert_eq!(cluster.spec, expected);
    assert!(cluster.is_paused() && cluster.is_infrastructure_provisioned());
    assert!(!cluster.is_control_plane_initialized());
}

#[test]
fn the_older_version_is_read_as_the_newer_one() {
    let cluster: Cluster = serde_json::from_value(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": "Cluster",
        "metadata": { "name": "c", "namespace": "default" },
        "spec": {
            "controlPlaneEndpoint": { "host": "", "port": 0 },
            "infrastructureRef": {
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "InMemoryCluster",
                "name": "c-1", "namespace": "default",
            },
        },
        "status": {
            "infrastructureReady": true,
            "controlPlaneReady": false,
            "failureDomains": { "b": { "controlPlane": false }, "a": { "controlPlane": true } },
            "conditions": [{
                "type": "ControlPlaneInitialized", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    }))
    .expect("readable");
    let reference = ObjectReference {
        api_group: "infrastructure.cluster.x-k8s.io".into(),
        kind: "InMemoryCluster".into(),
        name: "c-1".into(),
    };
    assert_eq!(cluster.spec.infrastructure_ref, Some(reference));
    assert!(cluster.is_infrastructure_provisioned() && cluster.is_control_plane_initialized());
    let domain = |name: &str, control_plane| FailureDomain {
        name: name.into(),
        control_plane: Some(control_plane),
        ..FailureDomain::default()
    };
    let status = cluster.status.expect("there is one");
    assert_eq!(status.failure_domains, [domain("a", true), domain("b", false)]);

    let none: Cluster = serde_json::from_value(json!({
        "metadata": { "name": "c" }, "spec": {}, "status": { "failureDomains": null, "infrastructureReady": false },
    }))
    .expect("readable");
    assert_eq!(
        none.status.as_ref().map(|status| status.failure_domains.len()),
        Some(0)
    );
    assert!(!none.is_infrastructure_provisioned());
}

#[test]
fn the_name_of_the_bootstrap_secret_may_be_empty_but_not_absent() {
    let machine = |bootstrap| -> Machine {
        serde_json::from_value(json!({
            "metadata": { "name": "m" }, "spec": { "clusterName": "c", "bootstrap": bootstrap },
        }))
        .expect("readable")
    };
    assert_eq!(
        machine(json!({ "configRef": { "kind": "KubeadmConfig" } })).data_secret_name(),
        None
    );
    assert_eq!(
        machine(json!({ "dataSecretName": "" })).data_secret_name(),
        Some("")
    );
    assert_eq!(
        machine(json!({ "dataSecretName": "m-data" })).data_secret_name(),
        Some("m-data")
    );
}

/// What `core/config/crd/bases` and `controlplane/kubeadm/config/crd/bases` of cluster-api 1.14.2 have in `v1beta2`:
/// short names, the selector of the subresource `scale`, and columns, those for `--output wide` in brackets.
const UPSTREAM: [(&str, &str, &str, &str); 8] = [
    (
        "clusters.cluster.x-k8s.io",
        "cl",
        "-",
        "ClusterClass, Available, CP Desired, [CP Current], [CP Ready], CP Available, CP Up-to-date, W Desired, [W Current], [W Ready], W Available, W Up-to-date, [Paused], Phase, Age, Version",
    ),
    (
        "machinedeployments.cluster.x-k8s.io",
        "md",
        ".status.selector",
        "Cluster, Available, Desired, Current, Ready, Available, Up-to-date, [Paused], Phase, Age, Version",
    ),
    (
        "machinesets.cluster.x-k8s.io",
        "ms",
        ".status.selector",
        "Cluster, Available, Desired, Current, Ready, Available, Up-to-date, [Paused], Age, Version",
    ),
    (
        "machines.cluster.x-k8s.io",
        "ma",
        "-",
        "Cluster, Node Name, [Provider ID], Failure domain, Ready, Available, Up-to-date, [Internal-IP], [External-IP], [OS-Image], [Paused], Phase, Age, Version",
    ),
    (
        "machinepools.cluster.x-k8s.io",
        "mp",
        "",
        "Cluster, Desired, Current, Ready, Available, Up-to-date, [Paused], Phase, Age, Version",
    ),
    (
        "machinehealthchecks.cluster.x-k8s.io",
        "mhc mhcs",
        "-",
        "Cluster, Replicas, Healthy, [Paused], Age",
    ),
    (
        "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io",
        "kcp",
        ".status.selector",
        "Cluster, Available, Desired, Current, Ready, Available, Up-to-date, [Paused], Initialized, Age, Version",
    ),
    (
        "kubeadmconfigs.bootstrap.cluster.x-k8s.io",
        "",
        "-",
        "Cluster, [Paused], Data secret created, Age",
    ),
];

#[test]
fn loose_definitions_take_any_field_and_are_shown_and_scaled_as_upstreams() {
    let definitions: Vec<_> = loose_crds()
        .into_iter()
        .map(|definition| {
            let spec = definition.spec;
            let name = definition.metadata.name.unwrap_or_default();
            let version = &spec.versions[0];
            let versions: Vec<_> = spec
                .versions
                .iter()
                .map(|version| (&*version.name, version.storage))
                .collect();
            assert_eq!(versions, [("v1beta2", true), ("v1beta1", false)], "{name}");
            let schema = version
                .schema
                .clone()
                .and_then(|schema| schema.open_api_v3_schema);
            assert_eq!(
                schema.and_then(|schema| schema.x_kubernetes_preserve_unknown_fields),
                Some(true)
            );
            assert_eq!(
                spec.names.categories,
                Some(vec!["cluster-api".to_owned()]),
                "{name}"
            );
            let scale = version
                .subresources
                .as_ref()
                .and_then(|subresources| subresources.scale.clone());
            let selector = scale.map(|scale| scale.label_selector_path.unwrap_or_default());
            let columns = version.additional_printer_columns.iter().flatten();
            let columns = columns.map(|column| match column.priority {
                None => column.name.clone(),
                Some(_) => format!("[{}]", column.name),
            });
            let columns = columns.collect::<Vec<_>>().join(", ");
            let short_names = spec.names.short_names.unwrap_or_default().join(" ");
            (
                name,
                short_names,
                selector.unwrap_or_else(|| "-".to_owned()),
                columns,
            )
        })
        .collect();
    let upstream =
        UPSTREAM.map(|(name, short, scale, columns)| [name, short, scale, columns].map(str::to_owned));
    assert_eq!(
        definitions,
        upstream.map(|[name, short, scale, columns]| (name, short, scale, columns))
    );
}

/// The fields in the table of this module's documentation, as paths. A new field has to be reviewed and added there.
#[test]
fn no_field_is_read_that_was_not_reviewed() {
    let source = [
        include_str!("cluster.rs"),
        include_str!("machine.rs"),
        include_str!("machine_pool.rs"),
    ];
    let fields: std::collections::BTreeSet<&str> = source
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(": "))
        .map(|(name, _)| name)
        .collect();
    let reviewed = [
        "addresses",
        "available_replicas",
        "bootstrap",
        "bootstrap_data_secret_created",
        "cidr_blocks",
        "cluster_name",
        "cluster_network",
        "conditions",
        "config_ref",
        "control_plane",
        "control_plane_endpoint",
        "control_plane_initialized",
        "control_plane_ref",
        "data_secret_name",
        "desired_replicas",
        "failure_domain",
        "failure_domains",
        "host",
        "infrastructure_provisioned",
        "infrastructure_ready",
        "infrastructure_ref",
        "initialization",
        "name",
        "node_ref",
        "paused",
        "phase",
        "pods",
        "port",
        "provider_id",
        "provider_id_list",
        "ready_replicas",
        "replicas",
        "service_domain",
        "services",
        "spec",
        "template",
        "up_to_date_replicas",
        "version",
        "workers",
    ];
    assert_eq!(fields, reviewed.into());
}
