//! Tests of the complete projection.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use jiff::Timestamp;
use nephele_apiserver::{DeleteOptions, Key, Store, StoreOptions};
use nephele_model::{Caller, ClusterId, Endpoint, MachineId, Role};
use nephele_pki::{Authority, KeyAlgorithm};
use serde_json::{Value, json};

use super::*;
use crate::{
    identity::MachineAddress,
    spec::{Allocation, ClusterSpec, MachineSpec},
    user_data::{Kubeadm, KubeadmCluster, Taint},
};

static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| authority(KeyAlgorithm::EcdsaP384));

fn at() -> Timestamp {
    "2026-01-02T03:04:05.678Z".parse().unwrap()
}

fn cluster() -> ClusterSpec {
    ClusterSpec {
        id: ClusterId {
            namespace: "default".into(),
            name: "demo".into(),
        },
        labels: BTreeMap::new(),
        region: None,
        cloud_spec: String::new(),
        endpoint: Some(Endpoint {
            host: "10.0.0.9".into(),
            port: 20_000,
        }),
        created_at: at(),
        is_read_refused: false,
        pod_cidrs: vec!["192.168.0.0/16".into()],
        service_cidrs: vec!["10.128.0.0/12".into()],
        service_domain: "cluster.local".into(),
    }
}

fn machine(role: Role) -> MachineSpec {
    let address = |kind: &str, address: &str| MachineAddress {
        kind: kind.into(),
        address: address.into(),
    };
    MachineSpec {
        id: MachineId {
            cluster: cluster().id,
            name: "m1".into(),
        },
        labels: BTreeMap::new(),
        role,
        caller: Caller::Machine,
        version: "v1.36.3".into(),
        zone: Some("sim-1a".into()),
        region: None,
        cloud_spec: String::new(),
        instance_type: Some("m.large".into()),
        market: nephele_model::Market::OnDemand,
        hardware: None,
        image: None,
        start_up: BTreeMap::new(),
        allocation: Allocation {
            addresses: vec![address("InternalIP", "10.1.2.3"), address("Hostname", "m1")],
            pod_cidrs: vec!["192.168.7.0/24".into()],
            ..Allocation::default()
        },
        started_at: None,
        reached: BTreeMap::new(),
        is_deregistered: false,
        etcd_member_removed: false,
        etcd_image_tag: None,
        files: None,
        kubeadm: None,
        update: None,
    }
}

fn authority(algorithm: KeyAlgorithm) -> Authority {
    let end = Timestamp::from_second(at().as_second() + 86_400).unwrap();
    Authority::generate("kubernetes", algorithm, at(), end).unwrap()
}

fn everything() -> Vec<Projected> {
    let cluster = cluster();
    let scope = Scope {
        cluster: &cluster,
        at: at(),
    };
    let machine = machine(Role::ControlPlane);
    let mut all = base(&scope);
    all.extend(node(&scope, &machine, "m1"));
    all.extend(Component::ALL.map(|component| static_pod(&scope, &machine, "m1", component)));
    all.extend(kubeadm(
        &scope,
        &machine.version,
        &KubeadmCluster::default(),
        &AUTHORITY,
    ));
    all.extend(addons(&scope, &machine.version, &KubeadmCluster::default()));
    all
}

fn named<'a>(all: &'a [Projected], resource: &str, name: &str) -> &'a Value {
    let found = all
        .iter()
        .find(|p| p.key.resource.resource == resource && p.key.name == name);
    &found.unwrap_or_else(|| panic!("no {resource} {name}")).value
}

#[test]
fn store_takes_every_object_and_keeps_its_identity() {
    let store = Store::new(StoreOptions::default());
    let all = everything();
    let keys: BTreeSet<_> = all.iter().map(|projected| projected.key.clone()).collect();
    let uids: BTreeSet<_> = all
        .iter()
        .map(|p| p.value["metadata"]["uid"].as_str().unwrap())
        .collect();
    assert_eq!((keys.len(), uids.len()), (all.len(), all.len()));
    for Projected { key, value } in &all {
        let stored = store
            .create(Timestamp::UNIX_EPOCH, key, value.clone())
            .unwrap()
            .value();
        for field in ["uid", "creationTimestamp", "name"] {
            assert_eq!(
                stored["metadata"][field], value["metadata"][field],
                "{key:?} {field}"
            );
        }
        for field in ["spec", "status", "data", "rules"] {
            assert_eq!(stored.get(field), value.get(field), "{key:?} {field}");
        }
    }
    // The control plane's pods belong to their Node, and are deleted with it.
    let nodes = Key::new("", "nodes", "", "m1");
    store.delete(at(), &nodes, &DeleteOptions::default()).unwrap();
    assert!(
        store
            .list(&nephele_apiserver::GroupResource::new("", "pods"), None)
            .objects
            .is_empty()
    );
}

#[test]
fn node_of_a_control_plane_machine() {
    let all = everything();
    let expected_labels = json!({
        "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": "m1", "kubernetes.io/os": "linux", "node-role.kubernetes.io/control-plane": "",
        "node.kubernetes.io/exclude-from-external-load-balancers": "", "node.kubernetes.io/instance-type": "m.large",
        "topology.kubernetes.io/region": "sim-1", "topology.kubernetes.io/zone": "sim-1a",
    });
    let node = named(&all, "nodes", "m1");
    assert_eq!(node["metadata"]["labels"], expected_labels);
    assert_eq!(node["metadata"]["creationTimestamp"], "2026-01-02T03:04:05Z");
    assert_eq!(
        node["spec"],
        json!({
            "providerID": "in-memory://m1", "podCIDR": "192.168.7.0/24", "podCIDRs": ["192.168.7.0/24"],
            "taints": [
                {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
                {"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"},
            ],
        })
    );
    let addresses =
        json!([{"type": "InternalIP", "address": "10.1.2.3"}, {"type": "Hostname", "address": "m1"}]);
    assert_eq!(node["status"]["addresses"], addresses);
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.36.3");
    let conditions = node["status"]["conditions"].as_array().unwrap().iter();
    let conditions: BTreeMap<_, _> = conditions
        .map(|c| (c["type"].as_str().unwrap(), c["status"].as_str().unwrap()))
        .collect();
    let healthy = [
        ("DiskPressure", "False"),
        ("MemoryPressure", "False"),
        ("PIDPressure", "False"),
        ("Ready", "True"),
    ];
    assert_eq!(conditions, healthy.into());
    let lease = named(&all, "leases", "m1");
    assert_eq!(lease["spec"]["renewTime"], "2026-01-02T03:04:05.678000Z");
}

#[test]
fn node_of_a_worker_is_not_the_control_planes() {
    let cluster = cluster();
    let mut worker = machine(Role::Worker);
    worker.zone = None;
    worker.allocation.pod_cidrs.clear();
    let node = &node(
        &Scope {
            cluster: &cluster,
            at: at(),
        },
        &worker,
        "m1",
    )[0]
    .value;
    let taints = json!([{"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"}]);
    assert_eq!(
        node["spec"],
        json!({"providerID": "in-memory://m1", "taints": taints})
    );
    let labels: BTreeSet<_> = node["metadata"]["labels"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = [
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
    ];
    assert_eq!(labels, expected.into());
}

#[test]
fn a_node_reports_the_machine_that_it_runs_on() {
    let cluster = cluster();
    let capacity = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, quantity)| ((*name).to_owned(), (*quantity).to_owned()))
            .collect()
    };
    let mut worker = machine(Role::Worker);
    worker.region = Some("north".into());
    worker.image = Some("ubuntu-24.04".into());
    worker.hardware = Some(nephele_engine::Hardware {
        architecture: "arm64".into(),
        operating_system: "windows".into(),
        capacity: capacity(&[("cpu", "8"), ("memory", "32Gi"), ("nvidia.com/gpu", "1")]),
    });
    let node = &node(
        &Scope {
            cluster: &cluster,
            at: at(),
        },
        &worker,
        "m1",
    )[0]
    .value;
    let labels = &node["metadata"]["labels"];
    let place = (
        &labels["topology.kubernetes.io/region"],
        &labels["topology.kubernetes.io/zone"],
    );
    assert_eq!(place, (&json!("north"), &json!("sim-1a")));
    for name in ["kubernetes.io/arch", "beta.kubernetes.io/arch"] {
        assert_eq!(labels[name], "arm64", "{name}");
    }
    for name in ["kubernetes.io/os", "beta.kubernetes.io/os"] {
        assert_eq!(labels[name], "windows", "{name}");
    }
    let info = &node["status"]["nodeInfo"];
    assert_eq!(
        (&info["architecture"], &info["operatingSystem"]),
        (&json!("arm64"), &json!("windows"))
    );
    assert_eq!(info["osImage"], "ubuntu-24.04");
    let expected = json!({ "cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1", "hugepages-2Mi": "0" });
    assert_eq!(
        (&node["status"]["capacity"], &node["status"]["allocatable"]),
        (&expected, &expected)
    );
}

#[test]
fn static_pods_are_mirrors_that_run_and_are_ready() {
    let all = everything();
    let uid = &named(&all, "nodes", "m1")["metadata"]["uid"];
    for (component, image) in [
        ("etcd", "registry.k8s.io/etcd:3.6.8-0"),
        ("kube-apiserver", "registry.k8s.io/kube-apiserver:v1.36.3"),
        (
            "kube-controller-manager",
            "registry.k8s.io/kube-controller-manager:v1.36.3",
        ),
        ("kube-scheduler", "registry.k8s.io/kube-scheduler:v1.36.3"),
    ] {
        let pod = named(&all, "pods", &format!("{component}-m1"));
        assert_eq!(pod["metadata"]["namespace"], "kube-system");
        assert_eq!(
            pod["metadata"]["labels"],
            json!({"component": component, "tier": "control-plane"})
        );
        let annotations = &pod["metadata"]["annotations"];
        assert_eq!(
            annotations["kubernetes.io/config.hash"],
            annotations["kubernetes.io/config.mirror"]
        );
        assert_eq!(annotations["kubernetes.io/config.source"], "file");
        let owner =
            json!([{"apiVersion": "v1", "kind": "Node", "name": "m1", "controller": true, "uid": uid}]);
        assert_eq!(pod["metadata"]["ownerReferences"], owner);
        assert_eq!(
            (&pod["spec"]["nodeName"], &pod["status"]["phase"]),
            (&json!("m1"), &json!("Running"))
        );
        assert_eq!(
            (&pod["status"]["podIP"], &pod["status"]["hostIP"]),
            (&json!("10.1.2.3"), &json!("10.1.2.3"))
        );
        assert_eq!(pod["spec"]["containers"][0]["image"], image);
        let container = &pod["status"]["containerStatuses"][0];
        assert_eq!(
            (&container["name"], &container["ready"], &container["image"]),
            (&json!(component), &json!(true), &json!(image))
        );
        let conditions = pod["status"]["conditions"].as_array().unwrap();
        assert!(
            conditions.iter().any(|c| c["type"] == "Ready")
                && conditions.iter().all(|c| c["status"] == "True")
        );
    }
}

#[test]
fn kubeadm_config_is_the_document_that_kubeadm_writes() {
    let all = everything();
    let text = named(&all, "configmaps", "kubeadm-config")["data"]["ClusterConfiguration"]
        .as_str()
        .unwrap()
        .to_owned();
    let document: Value = serde_yaml_ng::from_str(&text).unwrap();
    assert_eq!(
        document,
        json!({
            "apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration", "apiServer": {},
            "caCertificateValidityPeriod": "87600h0m0s", "certificateValidityPeriod": "8760h0m0s",
            "certificatesDir": "/etc/kubernetes/pki", "clusterName": "demo",
            "controlPlaneEndpoint": "10.0.0.9:20000", "controllerManager": {}, "dns": {},
            "encryptionAlgorithm": "ECDSA-P384", "etcd": {"local": {"dataDir": "/var/lib/etcd"}},
            "imageRepository": "registry.k8s.io", "kubernetesVersion": "v1.36.3",
            "networking": {
                "dnsDomain": "cluster.local", "podSubnet": "192.168.0.0/16", "serviceSubnet": "10.128.0.0/12",
            },
            "proxy": {}, "scheduler": {},
        })
    );
    let info = named(&all, "configmaps", "cluster-info")["data"]["kubeconfig"]
        .as_str()
        .unwrap()
        .to_owned();
    let info: Value = serde_yaml_ng::from_str(&info).unwrap();
    let encoded = {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(AUTHORITY.certificate_pem())
    };
    let expected = json!({"server": "https://10.0.0.9:20000", "certificate-authority-data": encoded});
    assert_eq!(info["clusters"][0]["cluster"], expected);
}

#[test]
fn kubeadm_config_names_the_algorithm_of_the_clusters_authority() {
    let cluster = cluster();
    let scope = Scope {
        cluster: &cluster,
        at: at(),
    };
    for algorithm in [
        KeyAlgorithm::Rsa2048,
        KeyAlgorithm::EcdsaP256,
        KeyAlgorithm::EcdsaP384,
    ] {
        let configuration = kubeadm(
            &scope,
            "v1.36.3",
            &KubeadmCluster::default(),
            &authority(algorithm),
        )
        .remove(0)
        .value;
        let text = configuration["data"]["ClusterConfiguration"].as_str().unwrap();
        let document: Value = serde_yaml_ng::from_str(text).unwrap();
        assert_eq!(document["encryptionAlgorithm"], algorithm.as_str());
    }
}

#[test]
fn etcd_is_the_one_that_kubeadm_runs_with_the_version() {
    let cluster = cluster();
    let scope = Scope {
        cluster: &cluster,
        at: at(),
    };
    for (version, tag) in [
        ("v1.29.14", "3.5.24-0"),
        ("v1.33.1", "3.5.24-0"),
        ("v1.34.0-rc.1", "3.6.8-0"),
        ("1.36.3", "3.6.8-0"),
        ("v1.99.0", "3.6.8-0"),
        ("", "3.6.8-0"),
    ] {
        let machine = MachineSpec {
            version: version.into(),
            ..machine(Role::ControlPlane)
        };
        let pod = static_pod(&scope, &machine, "m1", Component::Etcd).value;
        let image = &pod["spec"]["containers"][0]["image"];
        assert_eq!(*image, format!("registry.k8s.io/etcd:{tag}"), "{version}");
    }
}

#[test]
fn second_node_of_a_machine_differs_in_what_a_host_name_and_a_boot_change() {
    let cluster = cluster();
    let scope = Scope {
        cluster: &cluster,
        at: at(),
    };
    let machine = machine(Role::Worker);
    let [first, second] = ["m1", "m1-2"].map(|name| node(&scope, &machine, name).remove(0).value);
    let mut expected = first.clone();
    expected["metadata"]["name"] = "m1-2".into();
    expected["metadata"]["uid"] = uid(&cluster.id, "nodes", "", "m1-2").into();
    expected["metadata"]["labels"]["kubernetes.io/hostname"] = "m1-2".into();
    expected["status"]["addresses"][1]["address"] = "m1-2".into();
    expected["status"]["nodeInfo"]["bootID"] = uid(&cluster.id, "boot", "", "m1-2").into();
    let spec = expected["spec"].as_object_mut().unwrap();
    spec.retain(|field, _| !field.starts_with("podCIDR"));
    assert_eq!(second, expected);
    assert!(is_node_of(&first, &machine) && is_node_of(&second, &machine));
    let lease = node(&scope, &machine, "m1-2").remove(1);
    assert_eq!(
        (lease.key.name.as_str(), &lease.value["spec"]["holderIdentity"]),
        ("m1-2", &json!("m1-2"))
    );
}

#[test]
fn addons_run_what_was_asked_for() {
    let all = everything();
    let image = |resource: &str, name: &str| {
        named(&all, resource, name)["spec"]["template"]["spec"]["containers"][0]["image"].clone()
    };
    assert_eq!(
        image("daemonsets", "kube-proxy"),
        "registry.k8s.io/kube-proxy:v1.36.3"
    );
    assert_eq!(
        image("deployments", "coredns"),
        format!("registry.k8s.io/coredns/coredns:{DNS_IMAGE_TAG}")
    );
    let corefile = named(&all, "configmaps", "coredns")["data"]["Corefile"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(corefile.contains("kubernetes cluster.local in-addr.arpa") && !corefile.contains("DOMAIN"));
    assert_eq!(
        named(&all, "services", "kube-dns")["spec"]["clusterIP"],
        "10.128.0.10"
    );
    assert_eq!(
        named(&all, "services", "kubernetes")["spec"]["clusterIP"],
        "10.128.0.1"
    );
}

#[test]
fn what_the_kubeadm_configuration_says_is_what_is_shown() {
    let cluster = cluster();
    let scope = Scope {
        cluster: &cluster,
        at: at(),
    };
    let taint = |key: &str, value: &str| Taint {
        key: key.into(),
        value: value.into(),
        effect: "NoSchedule".into(),
    };
    let registered = |role: Role, labels: &[(&str, &str)], taints: Option<Vec<Taint>>| {
        let node_labels = labels
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect();
        let kubeadm = Some(Box::new(Kubeadm {
            node_labels,
            taints,
            cluster: None,
        }));
        let node = node(
            &scope,
            &MachineSpec {
                kubeadm,
                ..machine(role)
            },
            "m1",
        )
        .remove(0)
        .value;
        let shown = labels
            .iter()
            .map(|(key, _)| node["metadata"]["labels"][*key].clone());
        (node["spec"]["taints"].clone(), shown.collect::<Vec<_>>())
    };
    let labels = [
        ("pool", "gpu"),
        ("kubernetes.io/os", "windows"),
        ("topology.kubernetes.io/zone", "z"),
    ];
    let taints =
        json!([{"key": "gpu", "effect": "NoSchedule"}, {"key": "a", "value": "b", "effect": "NoSchedule"}]);
    // The cloud decides about the zone.
    let shown = vec![json!("gpu"), json!("windows"), json!("sim-1a")];
    let both = Some(vec![taint("gpu", ""), taint("a", "b")]);
    assert_eq!(registered(Role::Worker, &labels, both), (taints, shown));
    assert_eq!(
        registered(Role::ControlPlane, &[], Some(vec![])),
        (json!(null), vec![])
    );
    assert_eq!(registered(Role::Worker, &[], None), (json!(null), vec![]));
    let usual = json!([{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]);
    assert_eq!(registered(Role::ControlPlane, &[], None), (usual, vec![]));

    let configured = KubeadmCluster {
        image_repository: "mirror.example".into(),
        ..KubeadmCluster::default()
    };
    let images = |configured: &KubeadmCluster| {
        let kubeadm = Kubeadm {
            cluster: Some(configured.clone()),
            ..Kubeadm::default()
        };
        let machine = MachineSpec {
            kubeadm: Some(Box::new(kubeadm)),
            ..machine(Role::ControlPlane)
        };
        let mut all: Vec<_> = Component::ALL
            .map(|component| static_pod(&scope, &machine, "m1", component))
            .into();
        all.extend(addons(&scope, "v1.36.3", configured));
        let images = all.iter().filter_map(|object| {
            let template = object
                .value
                .pointer("/spec/template/spec")
                .unwrap_or(&object.value["spec"]);
            template["containers"][0]["image"].as_str().map(str::to_owned)
        });
        images.collect::<Vec<_>>()
    };
    let of = |etcd: &str, dns: &str| {
        [
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kube-proxy",
        ]
        .map(|name| format!("mirror.example/{name}:v1.36.3"))
        .into_iter()
        .enumerate()
        .flat_map(|(index, image)| [(index == 0).then(|| etcd.to_owned()), Some(image)])
        .flatten()
        .chain([dns.to_owned()])
        .collect::<Vec<_>>()
    };
    let dns = format!("mirror.example/coredns:{DNS_IMAGE_TAG}");
    assert_eq!(images(&configured), of("mirror.example/etcd:3.6.8-0", &dns));
    let all = KubeadmCluster {
        dns_image_repository: "dns.example/a".into(),
        dns_image_tag: "v1.12.0".into(),
        etcd_image_repository: "etcd.example".into(),
        etcd_image_tag: "3.5.0".into(),
        ..configured
    };
    assert_eq!(
        images(&all),
        of("etcd.example/etcd:3.6.8-0", "dns.example/a/coredns:v1.12.0")
    );
    let written = |configured: &KubeadmCluster| {
        let map = kubeadm(&scope, "v1.36.3", configured, &AUTHORITY).remove(0).value;
        KubeadmCluster::published(map["data"]["ClusterConfiguration"].as_str().unwrap()).unwrap()
    };
    assert_eq!(written(&all), all);
    let external = KubeadmCluster {
        external_etcd: vec!["https://a:2379".into()],
        image_repository: "r".into(),
        ..KubeadmCluster::default()
    };
    assert_eq!(written(&external), external);

    let skipped = KubeadmCluster {
        skips_proxy: true,
        skips_dns: true,
        ..KubeadmCluster::default()
    };
    assert_eq!(addons(&scope, "v1.36.3", &skipped), []);
}

#[test]
fn addon_is_rolled_out_to_as_many_as_are_asked_for() {
    let mut deployment =
        json!({"metadata": {"generation": 4}, "spec": {"replicas": 3}, "status": {"replicas": 2}});
    roll_out(&mut deployment);
    let expected = json!({
        "observedGeneration": 4, "replicas": 3, "availableReplicas": 3, "readyReplicas": 3, "updatedReplicas": 3,
    });
    assert_eq!(deployment["status"], expected);
    let mut daemon_set = json!({"metadata": {"generation": 2}, "status": {"numberMisscheduled": 0}});
    roll_out(&mut daemon_set);
    count_nodes(&mut daemon_set, 2);
    let expected = json!({
        "observedGeneration": 2, "numberMisscheduled": 0, "currentNumberScheduled": 2, "desiredNumberScheduled": 2,
        "numberAvailable": 2, "numberReady": 2, "updatedNumberScheduled": 2,
    });
    assert_eq!(daemon_set["status"], expected);
}

#[test]
fn ipv6_cluster_has_ipv6_services() {
    let mut cluster = cluster();
    cluster.service_cidrs = vec!["fd00:1::/108".into()];
    cluster.endpoint = Some(Endpoint {
        host: "fd00::9".into(),
        port: 20_000,
    });
    let scope = Scope {
        cluster: &cluster,
        at: at(),
    };
    let service = base(&scope).pop().unwrap().value;
    assert_eq!(
        (&service["spec"]["clusterIP"], &service["spec"]["ipFamilies"]),
        (&json!("fd00:1::1"), &json!(["IPv6"]))
    );
    let configuration = kubeadm(&scope, "v1.36.3", &KubeadmCluster::default(), &AUTHORITY)
        .remove(0)
        .value;
    let text = configuration["data"]["ClusterConfiguration"].as_str().unwrap();
    assert!(
        text.contains("'[fd00::9]:20000'") || text.contains("\"[fd00::9]:20000\""),
        "{text}"
    );
}
