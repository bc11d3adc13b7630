use std::collections::BTreeMap;

use nephele_model::{Fraction, GoDuration};
use serde_json::json;

use super::*;

#[test]
fn what_is_not_known_is_not_written() {
    let cluster = InMemoryCluster {
        spec: InMemoryClusterSpec {
            control_plane_endpoint: Some(ControlPlaneEndpoint {
                host: "lb.example".into(),
                port: 0,
            }),
            ..InMemoryClusterSpec::default()
        },
        status: Some(InMemoryClusterStatus::default()),
        ..InMemoryCluster::default()
    };
    assert_eq!(
        serde_json::to_value(&cluster).expect("JSON"),
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
            "kind": "InMemoryCluster",
            "metadata": {},
            "spec": { "controlPlaneEndpoint": { "host": "lb.example" } },
            "status": {},
        })
    );
    let machine = InMemoryMachine::default();
    assert_eq!(
        serde_json::to_value(&machine).expect("JSON"),
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
            "kind": "InMemoryMachine",
            "metadata": {},
            "spec": {},
        })
    );
    let template = InMemoryMachineTemplate::default();
    assert_eq!(
        serde_json::to_value(&template.spec).expect("JSON"),
        json!({ "template": { "spec": {} } })
    );
}

#[test]
fn manifests_of_the_upstream_in_memory_provider_are_read() {
    let template: InMemoryMachineTemplate = serde_json::from_value(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": "InMemoryMachineTemplate",
        "metadata": { "name": "in-memory-control-plane" },
        "spec": { "template": {
            "metadata": { "labels": { "a": "b" } },
            "spec": { "behaviour": {
                "vm": { "provisioning": { "startupDuration": "10s", "startupJitter": "0.2" } },
                "node": { "provisioning": { "startupDuration": "2s" } },
                "apiServer": { "provisioning": { "startupDuration": "2s", "startupJitter": "0.2" } },
                "etcd": {},
            } },
        } },
    }))
    .expect("readable");
    let component = |startup_duration: &str, startup_jitter: &str| {
        Some(Component {
            provisioning: Provisioning {
                startup_duration: GoDuration::parse(startup_duration).ok(),
                startup_jitter: Fraction::parse(startup_jitter).ok(),
            },
        })
    };
    let expected = InMemoryMachineTemplateSpec {
        template: InMemoryMachineTemplateResource {
            metadata: TemplateMetadata {
                labels: BTreeMap::from([("a".into(), "b".into())]),
                annotations: BTreeMap::new(),
            },
            spec: InMemoryMachineSpec {
                behaviour: Some(Behaviour {
                    vm: component("10s", "0.2"),
                    node: component("2s", ""),
                    api_server: component("2s", "0.2"),
                    etcd: component("", ""),
                }),
                ..InMemoryMachineSpec::default()
            },
        },
    };
    assert_eq!(template.spec, expected);
}

#[test]
fn a_machine_reads_back_as_it_was_written() {
    let written = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": "InMemoryMachine",
        "metadata": { "name": "m", "namespace": "default" },
        "spec": {
            "providerID": "in-memory://m",
            "instanceType": "m.large",
            "network": { "addressesFromPools": [
                { "apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "v4" },
            ] },
        },
        "status": {
            "initialization": { "provisioned": true },
            "startTime": "2026-01-01T00:00:00.123000Z",
            "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }],
            "network": { "addresses": [{ "address": "10.0.0.1", "prefix": 24, "gateway": "10.0.0.254" }] },
            "failureDomain": "a",
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    });
    let machine: InMemoryMachine = serde_json::from_value(written.clone()).expect("readable");
    assert!(machine.is_provisioned());
    assert_eq!(serde_json::to_value(&machine).expect("JSON"), written);
}

#[test]
fn a_pool_reads_back_as_it_was_written() {
    let written = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": "InMemoryMachinePool",
        "metadata": { "name": "p", "namespace": "default" },
        "spec": {
            "providerIDList": ["in-memory://p-0"],
            "template": {
                "instanceType": "m.large",
                "behaviour": { "vm": { "provisioning": { "startupDuration": "2s" } } },
            },
        },
        "status": {
            "ready": true,
            "initialization": { "provisioned": true },
            "replicas": 1,
            "infrastructureMachineKind": "InMemoryMachine",
            "nextOrdinal": 1,
            "capacity": { "cpu": "2", "memory": "4Gi" },
            "nodeInfo": { "architecture": "amd64" },
        },
    });
    let pool: InMemoryMachinePool = serde_json::from_value(written.clone()).expect("readable");
    assert!(pool.is_provisioned());
    assert_eq!(serde_json::to_value(&pool).expect("JSON"), written);
}
