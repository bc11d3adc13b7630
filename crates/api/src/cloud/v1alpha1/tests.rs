use serde_json::json;

use super::*;

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
        },
    });
    let cloud: SimulatedCloud = serde_json::from_value(written.clone()).expect("readable");
    let zones: Vec<_> =
        cloud.spec.zones().map(|(region, zone)| (&*region.name, &*zone.name, zone.control_plane)).collect();
    assert_eq!(zones, [("sim-1", "sim-1a", None), ("sim-1", "sim-1b", Some(false))]);
    assert_eq!(serde_json::to_value(&cloud).expect("JSON"), written);
}

#[test]
fn a_type_offers_what_it_says_and_the_usual_of_the_rest() {
    let plain = InstanceType { name: "m".into(), cpu: 2, memory: "8Gi".into(), ..InstanceType::default() };
    let rich = InstanceType {
        ephemeral_storage: "100Gi".into(),
        pods: Some(29),
        gpu: Some(Gpu { count: 4, resource: String::new() }),
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
        spec.instance_types().iter().map(|known| known.name.clone()).collect()
    };
    let mut spec = SimulatedCloudSpec::default();
    assert_eq!(names(&spec), ["small", "medium", "large", "xlarge", "medium-arm64", "large-gpu"]);
    spec.instance_types = vec![InstanceType { name: "own".into(), ..InstanceType::default() }];
    assert_eq!(names(&spec), ["own"]);
}
