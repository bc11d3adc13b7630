use std::collections::BTreeMap;

use serde_json::json;

use super::*;

fn cluster() -> Cluster {
    serde_json::from_value(json!({"metadata": {"name": "demo", "namespace": "team"}, "spec": {}}))
        .expect("a Cluster")
}

fn read(topology: &Value) -> Result<ClusterPlan, String> {
    plan(&cluster(), topology, None).map_err(|error| error.to_string())
}

/// A topology with further fields.
fn with(further: Value) -> Value {
    let mut topology = json!({"classRef": {"name": "in-memory"}, "version": "v1.36.3"});
    let (Value::Object(members), Value::Object(further)) = (&mut topology, further) else {
        panic!("objects")
    };
    members.extend(further);
    topology
}

#[test]
fn least_topology_is_one_control_plane_machine() {
    let plan = read(&with(json!({}))).expect("readable");
    assert_eq!((plan.namespace.as_str(), plan.name.as_str()), ("team", "demo"));
    assert_eq!((plan.control_plane, plan.workers(), plan.pool), (1, 0, None));
    assert_eq!(plan.version, "v1.36.3");
}

#[test]
fn each_deployment_has_its_replicas_those_of_pools_are_added_up_and_they_default_to_one() {
    let plan = read(&with(json!({
        "controlPlane": {"replicas": 3},
        "workers": {
            "machineDeployments": [{"class": "a", "name": "x", "replicas": 4}, {"class": "a", "name": "y"}],
            "machinePools": [{"class": "a", "name": "p", "replicas": 2}, {"class": "a", "name": "q", "replicas": 0}],
        },
    })))
    .expect("readable");
    let deployments: Vec<_> = plan
        .deployments
        .iter()
        .map(|plan| (plan.topology_name.as_str(), plan.replicas))
        .collect();
    assert_eq!(
        (plan.control_plane, deployments, plan.pool),
        (3, vec![("x", 4), ("y", 1)], Some(2))
    );
}

#[test]
fn class_of_the_older_version_is_read_and_what_has_no_replicas_may_be_scaled() {
    let older = json!({
        "class": "in-memory", "version": "v1.36.3",
        "workers": {
            "machineDeployments": [{"class": "a", "name": "x"}, {"class": "a", "name": "y", "replicas": 2}],
            "machinePools": [{"class": "a", "name": "p"}],
        },
    });
    let plan = read(&older).expect("readable");
    let scalable: Vec<_> = plan
        .deployments
        .iter()
        .map(|part| (part.replicas, part.is_scalable))
        .collect();
    assert_eq!(scalable, [(1, true), (2, false)]);
    assert_eq!(
        (plan.is_control_plane_scalable, plan.pool, plan.is_pool_scalable),
        (true, Some(1), true)
    );
    let said = read(&with(json!({
        "controlPlane": {"replicas": 3},
        "workers": {"machinePools": [{"name": "p"}, {"name": "q", "replicas": 2}]},
    })));
    let said = said.expect("readable");
    assert_eq!(
        (said.is_control_plane_scalable, said.pool, said.is_pool_scalable),
        (false, Some(3), false)
    );
}

#[test]
fn names_of_groups_that_look_alike_differ_between_clusters() {
    let named = |cluster: &str, group: &str| {
        let object = json!({"metadata": {"name": cluster, "namespace": "team"}, "spec": {}});
        let cluster: Cluster = serde_json::from_value(object).expect("a Cluster");
        let topology = with(json!({"workers": {"machineDeployments": [{"class": "a", "name": group}]}}));
        let plan = plan(&cluster, &topology, None).expect("readable");
        [plan.control_plane_name.clone(), plan.deployments[0].name.clone()]
    };
    let [one, other] = [named("a", "b-c"), named("a-b", "c")];
    assert_ne!(one[1], other[1]);
    assert!(
        one[1].starts_with("a-b-c-") && other[1].starts_with("a-b-c-"),
        "{one:?} {other:?}"
    );
    assert_eq!((one[0].len(), named("a", "b-c")), ("a-12345".len(), one.clone()));
}

#[test]
fn health_check_of_a_group_counts_unless_it_is_off() {
    let check = json!({"checks": {"nodeStartupTimeoutSeconds": 5}, "remediation": {"triggerIf": {}}});
    let mut off = check.clone();
    off["enabled"] = false.into();
    let plan = read(&with(json!({
        "controlPlane": {"healthCheck": check},
        "workers": {"machineDeployments": [{"name": "a", "healthCheck": off}, {"name": "b"}]},
    })))
    .expect("readable");
    let given = HealthCheck {
        checks: check["checks"].clone(),
        remediation: check["remediation"].clone(),
    };
    assert_eq!(plan.control_plane_health_check, Some(given));
    assert!(plan.deployments.iter().all(|part| part.health_check.is_none()));

    let class = json!({"spec": {
        "controlPlane": {"healthCheck": {"checks": {"nodeStartupTimeoutSeconds": 7}}},
        "workers": {"machineDeployments": [
            {"class": "one", "healthCheck": check}, {"class": "other"}, {"class": "odd", "healthCheck": "x"},
        ]},
    }});
    let topology = with(json!({
        "controlPlane": {"healthCheck": {"enabled": false}},
        "workers": {"machineDeployments": [
            {"class": "one", "name": "a"}, {"class": "other", "name": "b"}, {"class": "odd", "name": "c"},
        ]},
    }));
    let plan = super::plan(&cluster(), &topology, Some(&class)).expect("readable");
    assert_eq!(plan.control_plane_health_check, None);
    let given: Vec<_> = plan
        .deployments
        .into_iter()
        .map(|part| part.health_check.map(|it| it.checks))
        .collect();
    assert_eq!(given, [Some(check["checks"].clone()), None, None]);
}

#[test]
fn version_gets_the_v_that_the_webhook_adds() {
    for (text, version) in [
        ("1.36.3", "v1.36.3"),
        ("v1.37.0-rc.1+build", "v1.37.0-rc.1+build"),
    ] {
        assert_eq!(
            read(&with(json!({"version": text}))).map(|plan| plan.version),
            Ok(version.to_owned())
        );
    }
    for text in [
        "", "v1", "v1.36", "latest", "v1.x.3", "1.2.3.4", "v1..3", "v-1.2.3",
    ] {
        let error = read(&with(json!({"version": text}))).expect_err(text);
        assert_eq!(
            error,
            format!("spec.topology.version {text:?} is not a version such as v1.36.3")
        );
    }
}

#[test]
fn variables_are_those_of_the_class() {
    let provisioning = json!({"provisioning": {"startupDuration": "10s", "startupJitter": "0.2"}});
    let plan = read(&with(json!({"variables": [
        {"name": "controlPlaneBehaviour", "value": {"vm": provisioning, "etcd": provisioning}},
        {"name": "zones", "value": [{"name": "a"}, {"name": "b", "controlPlane": false}]},
        {"name": "workerInstanceType", "value": "small"},
        {"name": "controlPlaneInstanceType", "value": "large"},
        {"name": "addressesFromPools", "value": [{"name": "machines"}, {"name": "global", "kind": "GlobalInClusterIPPool"}]},
        {"name": "somethingElse", "value": {"any": ["thing"]}},
        {"name": "withoutValue"},
    ]})))
    .expect("readable");
    let vm = plan.behaviour.vm.expect("a delay").provisioning;
    assert_eq!(json!(vm), provisioning["provisioning"]);
    // In the class, the behaviour of one role is not the default of the other.
    assert_eq!(plan.worker_behaviour, Some(Behaviour::default()));
    let zones: Vec<_> = plan
        .failure_domains
        .iter()
        .map(|zone| (zone.name.as_str(), zone.control_plane))
        .collect();
    assert_eq!(zones, [("a", Some(true)), ("b", Some(false))]);
    assert_eq!(
        (
            plan.control_plane_instance_type.as_str(),
            plan.worker_instance_type.as_str()
        ),
        ("large", "small")
    );
    let pools: Vec<_> = plan
        .address_pools
        .iter()
        .map(|pool| (pool.kind.as_str(), pool.name.as_str()))
        .collect();
    assert_eq!(
        pools,
        [
            ("InClusterIPPool", "machines"),
            ("GlobalInClusterIPPool", "global")
        ]
    );
}

#[test]
fn deployment_has_its_own_metadata_failure_domain_and_variables() {
    let plan = read(&with(json!({
        "controlPlane": {"metadata": {"labels": {"tier": "control"}}},
        "variables": [{"name": "workerInstanceType", "value": "small"}],
        "workers": {"machineDeployments": [
            {
                "class": "a", "name": "gold", "failureDomain": "z1",
                "metadata": {"labels": {"tier": "gold"}, "annotations": {"note": "n"}},
                "variables": {"overrides": [{"name": "workerInstanceType", "value": "large"}]},
            },
            {"class": "a", "name": "plain"},
        ]},
    })))
    .expect("readable");
    let label = |value: &str| BTreeMap::from([("tier".to_owned(), value.to_owned())]);
    assert_eq!(
        plan.control_plane_metadata,
        Metadata {
            labels: label("control"),
            ..Metadata::default()
        }
    );
    let gold = DeploymentPlan {
        topology_name: "gold".into(),
        name: names::generated("demo-gold", "team/demo", &BTreeSet::new()),
        replicas: 1,
        is_scalable: true,
        health_check: None,
        metadata: Metadata {
            labels: label("gold"),
            annotations: BTreeMap::from([("note".to_owned(), "n".to_owned())]),
        },
        failure_domain: "z1".into(),
        behaviour: Some(Behaviour::default()),
        instance_type: Some("large".into()),
    };
    let plain = DeploymentPlan {
        topology_name: "plain".into(),
        name: names::generated("demo-plain", "team/demo", &BTreeSet::new()),
        metadata: Metadata::default(),
        failure_domain: String::new(),
        instance_type: Some("small".into()),
        ..gold.clone()
    };
    assert_eq!(plan.deployments, [gold, plain]);
}

#[test]
fn every_variable_that_is_read_is_one_of_the_class() {
    let class = include_str!("../../../../../config/templates/clusterclass-in-memory.yaml");
    let variables = include_str!("variables.rs");
    let names: Vec<_> = variables
        .lines()
        .filter_map(|line| line.trim().strip_prefix('"')?.split_once("\" => "))
        .collect();
    assert_eq!(names.len(), 6, "{names:?}");
    for (name, _) in names {
        assert!(class.contains(&format!("    - name: {name}\n")), "{name}");
    }
}

#[test]
fn error_names_the_field_and_what_it_may_be() {
    let behaviour = |duration: &str, jitter: &str| {
        let provisioning = json!({"startupDuration": duration, "startupJitter": jitter});
        with(
            json!({"variables": [{"name": "workerBehaviour", "value": {"node": {"provisioning": provisioning}}}]}),
        )
    };
    for (topology, expected) in [
        (
            json!("a text"),
            "failed to read spec.topology: invalid type: string",
        ),
        (
            with(json!({"classRef": null})),
            "failed to read spec.topology: invalid type: null",
        ),
        (
            json!({"version": "v1.36.3"}),
            "spec.topology.classRef.name is missing",
        ),
        (
            with(json!({"controlPlane": {"replicas": -1}})),
            "spec.topology.controlPlane.replicas is -1, which is not between 0 and 100000",
        ),
        (
            with(json!({"workers": {"machineDeployments": [{"name": "a"}, {"name": "a"}]}})),
            "spec.topology.workers.machineDeployments[1].name is \"a\", as that of another MachineDeployment",
        ),
        (
            with(json!({"workers": {"machineDeployments": [{"class": "a"}]}})),
            "spec.topology.workers.machineDeployments[0].name is missing",
        ),
        (
            with(
                json!({"workers": {"machineDeployments": [{"name": "a"}, {"name": "b", "replicas": 9_000_000_000_i64}]}}),
            ),
            "spec.topology.workers.machineDeployments[1].replicas is 9000000000, which",
        ),
        (
            with(json!({"controlPlane": {"replicas": "three"}})),
            "failed to read spec.topology: invalid type",
        ),
        (
            with(json!({"variables": [{"name": "zones", "value": "a"}]})),
            "failed to read the variable zones: invalid type",
        ),
        (
            behaviour("soon", ""),
            "failed to read the variable workerBehaviour: node.provisioning.startupDuration: \"soon\" is not a duration",
        ),
        (
            behaviour("10s", "20%"),
            "failed to read the variable workerBehaviour: node.provisioning.startupJitter: \"20%\" is not a fraction",
        ),
    ] {
        let error = read(&topology).expect_err(expected);
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn cluster_is_completed_once_and_keeps_what_the_user_wrote() {
    let plan = read(&with(json!({}))).expect("readable");
    let complete = completed(&cluster(), &plan);
    assert_eq!(complete.finalizers(), [CLUSTER_FINALIZER]);
    let reference = complete.spec.infrastructure_ref.as_ref().expect("a reference");
    assert_eq!(
        (reference.kind.as_str(), reference.name.as_str()),
        ("InMemoryCluster", "demo")
    );
    let pods = complete
        .spec
        .cluster_network
        .as_ref()
        .and_then(|network| network.pods.clone());
    assert_eq!(pods.expect("a default").cidr_blocks, ["192.168.0.0/16"]);
    assert_eq!(completed(&complete, &plan), complete);

    let mut own = cluster();
    own.spec.cluster_network = Some(nephele_api::core::ClusterNetwork::default());
    assert_eq!(
        completed(&own, &plan).spec.cluster_network,
        own.spec.cluster_network
    );
}
