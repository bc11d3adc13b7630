//! What to do about a machine. Pure.

use nephele_api::conditions::reasons;
use nephele_api::infrastructure::v1beta2::InMemoryMachine;
use nephele_cloud::{MachineId, MachineSpec, Role};
use nephele_kit::Outcome;

use super::validate::{Validated, Wanted};

/// Longest name of a control-plane machine: its etcd member is asked for by the TLS server name `etcd-<name>`, one
/// DNS label of at most 63 characters (RFC 1035 section 2.3.4).
const CONTROL_PLANE_NAME_MAX: usize = 58;

/// What to do.
#[derive(Debug, PartialEq)]
pub(super) enum Plan {
    /// Nothing.
    Leave(Outcome),
    /// Say that it is paused, for this reason.
    Pause(String),
    /// Say what it waits for.
    Wait(Waiting),
    /// Bring it about.
    Provide(MachineSpec),
    /// Let it go.
    Remove(Option<MachineId>),
}

/// What a machine waits for before it boots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    ClusterInfrastructure,
    ControlPlaneInitialized,
    BootstrapData,
    /// The simulated cluster, after a restart.
    Cluster,
    Certificates,
    /// A name that fits.
    ShorterName(usize),
}

impl Waiting {
    /// The reason of the condition.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::ClusterInfrastructure | Self::Cluster => reasons::WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY,
            Self::ControlPlaneInitialized => reasons::WAITING_FOR_CONTROL_PLANE_INITIALIZED,
            Self::BootstrapData => reasons::WAITING_FOR_BOOTSTRAP_DATA,
            Self::Certificates => reasons::WAITING_FOR_CERTIFICATE_AUTHORITIES,
            Self::ShorterName(_) => reasons::NAME_TOO_LONG,
        }
    }

    /// The message of the condition.
    pub(super) fn message(&self) -> String {
        match self {
            Self::ClusterInfrastructure | Self::Cluster => String::new(),
            Self::ControlPlaneInitialized => "Waiting for the control plane to be initialized".to_owned(),
            Self::BootstrapData => "Waiting for the bootstrap provider to provide bootstrap data".to_owned(),
            Self::Certificates => {
                "Waiting for usable certificate authorities in the cluster's -ca and -etcd Secrets".to_owned()
            }
            Self::ShorterName(length) => format!(
                "The name has {length} characters; a control-plane machine's may have {CONTROL_PLANE_NAME_MAX}, \
                 because its etcd member is asked for by the TLS server name etcd-<name>"
            ),
        }
    }
}

pub(super) fn plan(object: &InMemoryMachine, validated: Validated) -> Plan {
    let deleting = object.metadata.deletion_timestamp.is_some();
    match validated {
        Validated::ExternallyManaged => Plan::Leave(Outcome::WaitingOn("external manager")),
        // A paused object that is being deleted may be on its way to another management cluster.
        Validated::Paused(message) => Plan::Pause(message),
        Validated::WithoutOwner(id) | Validated::Orphaned(id) if deleting => Plan::Remove(id),
        Validated::WithoutOwner(_) => Plan::Leave(Outcome::WaitingOn("owner")),
        Validated::Orphaned(_) => Plan::Leave(Outcome::WaitingOn("machine and cluster")),
        Validated::Wanted(wanted) if deleting => Plan::Remove(Some(wanted.spec.id)),
        Validated::Wanted(wanted) => match waits_for(&wanted) {
            Some(waiting) => Plan::Wait(waiting),
            None => Plan::Provide(wanted.spec),
        },
    }
}

fn waits_for(wanted: &Wanted) -> Option<Waiting> {
    let control_plane = wanted.spec.role == Role::ControlPlane;
    let length = wanted.spec.id.name.len();
    if control_plane && length > CONTROL_PLANE_NAME_MAX {
        return Some(Waiting::ShorterName(length));
    }
    if !wanted.provisioned {
        if !wanted.infrastructure_provisioned {
            return Some(Waiting::ClusterInfrastructure);
        }
        if !wanted.bootstrapped {
            return Some(if control_plane || wanted.control_plane_initialized {
                Waiting::BootstrapData
            } else {
                Waiting::ControlPlaneInitialized
            });
        }
    }
    if !wanted.cluster_known {
        return Some(Waiting::Cluster);
    }
    // A worker joins through an API server that is up, so that the authorities are there when it does.
    (control_plane && !wanted.authorities_set).then_some(Waiting::Certificates)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use nephele_cloud::ClusterId;

    use super::*;

    fn wanted(role: Role) -> Wanted {
        let cluster = ClusterId { namespace: "default".into(), name: "demo".into() };
        Wanted {
            spec: MachineSpec {
                id: MachineId { cluster, name: "m".into() },
                role,
                version: "v1.36.3".into(),
                zone: None,
                instance_type: None,
                start_up: BTreeMap::new(),
                addresses: vec![],
                reached: BTreeMap::new(),
            },
            infrastructure_provisioned: true,
            control_plane_initialized: true,
            bootstrapped: true,
            cluster_known: true,
            authorities_set: true,
            provisioned: false,
        }
    }

    #[test]
    fn machine_waits_for_what_comes_first() {
        let worker = wanted(Role::Worker);
        let control_plane = wanted(Role::ControlPlane);
        let mut long = control_plane.clone();
        long.spec.id.name = "x".repeat(59);
        let cases = [
            (worker.clone(), None),
            (control_plane.clone(), None),
            (
                Wanted { infrastructure_provisioned: false, ..worker.clone() },
                Some(Waiting::ClusterInfrastructure),
            ),
            (Wanted { bootstrapped: false, ..worker.clone() }, Some(Waiting::BootstrapData)),
            (
                Wanted { bootstrapped: false, control_plane_initialized: false, ..worker.clone() },
                Some(Waiting::ControlPlaneInitialized),
            ),
            (
                Wanted { bootstrapped: false, control_plane_initialized: false, ..control_plane.clone() },
                Some(Waiting::BootstrapData),
            ),
            (Wanted { authorities_set: false, ..control_plane.clone() }, Some(Waiting::Certificates)),
            (Wanted { authorities_set: false, ..worker.clone() }, None),
            (Wanted { cluster_known: false, ..worker.clone() }, Some(Waiting::Cluster)),
            (long, Some(Waiting::ShorterName(59))),
            (
                Wanted {
                    provisioned: true,
                    bootstrapped: false,
                    infrastructure_provisioned: false,
                    ..control_plane
                },
                None,
            ),
        ];
        for (wanted, expected) in cases {
            assert_eq!(waits_for(&wanted), expected, "{wanted:?}");
        }
    }

    #[test]
    fn deletion_waits_for_nothing() {
        let mut object = InMemoryMachine::default();
        object.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        let stuck = Wanted { infrastructure_provisioned: false, bootstrapped: false, ..wanted(Role::Worker) };
        let id = stuck.spec.id.clone();
        assert_eq!(plan(&object, Validated::Wanted(Box::new(stuck))), Plan::Remove(Some(id)));
        assert_eq!(plan(&object, Validated::WithoutOwner(None)), Plan::Remove(None));
        assert_eq!(plan(&object, Validated::Paused("p".into())), Plan::Pause("p".into()));
    }
}
