//! Objects with sensible defaults, all in one namespace. A test changes the fields that it tests.

use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::core::v1::Secret,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{Resource, ResourceExt};
use nephele_api::{
    core::{
        Bootstrap, Cluster, ClusterInitialization, ClusterNetwork, ClusterSpec, ClusterStatus, Machine,
        MachineSpec, NetworkRanges, ObjectReference,
    },
    infrastructure::{
        self,
        v1beta2::{
            Behaviour, Component, InMemoryCluster, InMemoryMachine, InMemoryMachineSpec, Provisioning,
        },
    },
    labels,
};
use nephele_model::GoDuration;
use nephele_pki::{Authority, KeyAlgorithm};

/// The namespace of all objects.
pub const NAMESPACE: &str = "default";

/// The Kubernetes version of machines.
pub const VERSION: &str = "v1.36.3";

/// The purpose of a certificate authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The API server and its clients: Secret `<cluster>-ca`.
    Cluster,
    /// Etcd members and their clients: Secret `<cluster>-etcd`.
    Etcd,
}

impl Purpose {
    /// The Secret in which Cluster API keeps the authority (`util/secret/consts.go`).
    #[must_use]
    pub fn secret_name(self, cluster: &str) -> String {
        let suffix = match self {
            Self::Cluster => "ca",
            Self::Etcd => "etcd",
        };
        format!("{cluster}-{suffix}")
    }
}

/// A Cluster whose infrastructure is the InMemoryCluster of the same name.
#[must_use]
pub fn cluster(name: &str) -> Cluster {
    let blocks = |block: &str| {
        Some(NetworkRanges {
            cidr_blocks: vec![block.to_owned()],
        })
    };
    Cluster {
        metadata: meta(name),
        spec: ClusterSpec {
            cluster_network: Some(ClusterNetwork {
                pods: blocks("192.168.0.0/16"),
                services: blocks("10.128.0.0/12"),
                service_domain: "cluster.local".to_owned(),
            }),
            infrastructure_ref: Some(reference("InMemoryCluster", name)),
            ..ClusterSpec::default()
        },
        status: None,
    }
}

/// The status of a Cluster whose infrastructure is provisioned, and whose control plane is initialized if the argument
/// says so.
#[must_use]
pub fn provisioned(control_plane_initialized: bool) -> ClusterStatus {
    ClusterStatus {
        initialization: Some(ClusterInitialization {
            infrastructure_provisioned: Some(true),
            control_plane_initialized: control_plane_initialized.then_some(true),
        }),
        ..ClusterStatus::default()
    }
}

/// The InMemoryCluster of a Cluster, with the label and the owner reference that core adds.
#[must_use]
pub fn in_memory_cluster(cluster: &Cluster) -> InMemoryCluster {
    let mut object = InMemoryCluster {
        metadata: meta(&cluster.name_any()),
        ..InMemoryCluster::default()
    };
    label(&mut object, labels::CLUSTER_NAME, &cluster.name_any());
    own(&mut object, cluster);
    object
}

/// A worker Machine whose bootstrap data is ready and whose infrastructure is the InMemoryMachine of the same name.
#[must_use]
pub fn worker(cluster: &str, name: &str) -> Machine {
    let mut object = Machine {
        metadata: meta(name),
        spec: MachineSpec {
            cluster_name: cluster.to_owned(),
            bootstrap: Some(Bootstrap {
                config_ref: None,
                data_secret_name: Some(format!("{name}-bootstrap")),
            }),
            infrastructure_ref: Some(reference("InMemoryMachine", name)),
            version: VERSION.to_owned(),
            ..MachineSpec::default()
        },
        status: None,
    };
    label(&mut object, labels::CLUSTER_NAME, cluster);
    object
}

/// As [`worker`], but a control plane Machine.
#[must_use]
pub fn control_plane(cluster: &str, name: &str) -> Machine {
    let mut object = worker(cluster, name);
    label(&mut object, labels::CONTROL_PLANE, "");
    object
}

/// The InMemoryMachine of a Machine, with the labels and the owner reference that core adds. It starts without delay.
#[must_use]
pub fn in_memory_machine(machine: &Machine) -> InMemoryMachine {
    let mut object = InMemoryMachine {
        metadata: meta(&machine.name_any()),
        ..InMemoryMachine::default()
    };
    object.metadata.labels = machine.metadata.labels.clone();
    own(&mut object, machine);
    object
}

/// A spec whose parts all take exactly `startup_duration` to start.
#[must_use]
pub fn starting_in(startup_duration: &str) -> InMemoryMachineSpec {
    let component = || {
        let startup_duration = Some(GoDuration::parse(startup_duration).expect("a duration"));
        Some(Component {
            provisioning: Provisioning {
                startup_duration,
                ..Provisioning::default()
            },
        })
    };
    InMemoryMachineSpec {
        behaviour: Some(Behaviour {
            vm: component(),
            node: component(),
            api_server: component(),
            etcd: component(),
        }),
        ..InMemoryMachineSpec::default()
    }
}

/// The Secret with a new certificate authority, as Cluster API's control plane provider creates it.
#[must_use]
pub fn authority_secret(cluster: &str, purpose: Purpose) -> Secret {
    let second = |second: i64| Timestamp::from_second(second).expect("in range");
    let name = if purpose == Purpose::Etcd {
        "etcd-ca"
    } else {
        "kubernetes"
    };
    // From 2020 to 2100.
    let validity = (second(1_577_836_800), second(4_102_444_800));
    let authority = Authority::generate(name, KeyAlgorithm::EcdsaP256, validity.0, validity.1);
    let authority = authority.expect("an authority can be made");
    secret(
        cluster,
        purpose,
        authority.certificate_pem().as_bytes(),
        authority.key_pem().as_bytes(),
    )
}

/// The Secret of a certificate authority with this content, valid or not.
#[must_use]
pub fn secret(cluster: &str, purpose: Purpose, certificate: &[u8], key: &[u8]) -> Secret {
    let mut object = Secret {
        metadata: meta(&purpose.secret_name(cluster)),
        type_: Some("cluster.x-k8s.io/secret".to_owned()),
        data: Some(
            [("tls.crt", certificate), ("tls.key", key)]
                .map(|(name, bytes)| (name.to_owned(), ByteString(bytes.to_vec())))
                .into(),
        ),
        ..Secret::default()
    };
    label(&mut object, labels::CLUSTER_NAME, cluster);
    object
}

/// Adds the controller owner reference that core sets.
pub fn own<K, Owner>(object: &mut K, owner: &Owner)
where
    K: Resource<DynamicType = ()>,
    Owner: Resource<DynamicType = ()>,
{
    let reference = OwnerReference {
        api_version: Owner::api_version(&()).into_owned(),
        kind: Owner::kind(&()).into_owned(),
        name: owner.name_any(),
        // A test that builds both objects before it creates the owner has no uid yet; our controllers only read the
        // name.
        uid: owner.uid().unwrap_or_else(|| "not-created-yet".to_owned()),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    object.owner_references_mut().push(reference);
}

/// Sets a label.
pub fn label<K: Resource<DynamicType = ()>>(object: &mut K, name: &str, value: &str) {
    object.labels_mut().insert(name.to_owned(), value.to_owned());
}

/// Sets an annotation.
pub fn annotate<K: Resource<DynamicType = ()>>(object: &mut K, name: &str, value: &str) {
    object.annotations_mut().insert(name.to_owned(), value.to_owned());
}

fn meta(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(NAMESPACE.to_owned()),
        ..ObjectMeta::default()
    }
}

fn reference(kind: &str, name: &str) -> ObjectReference {
    ObjectReference {
        api_group: infrastructure::GROUP.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}
