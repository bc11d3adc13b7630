//! Conditions: their types, their reasons, and changes of a list of conditions.
//!
//! Types and reasons are those of Cluster API where it has one (`api/core/v1beta2/condition_consts.go` and the
//! in-memory backend's), so that `clusterctl describe` and users' alerts understand them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The status of a condition that holds.
pub const TRUE: &str = "True";
/// The status of a condition that does not hold.
pub const FALSE: &str = "False";
/// The status of a condition that is not known.
pub const UNKNOWN: &str = "Unknown";

/// Types of conditions.
pub mod types {
    /// The summary: the object works.
    pub const READY: &str = "Ready";
    /// Nothing is done for the object.
    pub const PAUSED: &str = "Paused";
    /// The object is being deleted.
    pub const DELETING: &str = "Deleting";
    /// The load balancer in front of the control plane answers.
    pub const LOAD_BALANCER_AVAILABLE: &str = "LoadBalancerAvailable";
    /// The cloud that the cluster names exists.
    pub const CLOUD_AVAILABLE: &str = "CloudAvailable";
    /// The certificate authorities that Cluster API made for the cluster can be used.
    pub const CERTIFICATE_AUTHORITIES_AVAILABLE: &str = "CertificateAuthoritiesAvailable";
    /// The virtual machine is up.
    pub const VM_PROVISIONED: &str = "VMProvisioned";
    /// The Node has joined.
    pub const NODE_PROVISIONED: &str = "NodeProvisioned";
    /// The etcd member has joined.
    pub const ETCD_PROVISIONED: &str = "EtcdProvisioned";
    /// The API server answers.
    pub const API_SERVER_PROVISIONED: &str = "APIServerProvisioned";
    /// The machine is being updated in place, or the update failed.
    pub const UPDATING: &str = "Updating";
    /// The cloud takes the instance back.
    pub const INTERRUPTION: &str = "Interruption";
    /// The machines of a pool have the pool's current template.
    pub const MACHINES_UP_TO_DATE: &str = "MachinesUpToDate";
    /// As many machines of a pool are up as wanted.
    pub const REPLICAS_READY: &str = "ReplicasReady";
    /// All steps of a scenario have passed.
    pub const PASSED: &str = "Passed";
    /// Cluster API's own, on the Cluster: the first control plane node is up.
    pub const CONTROL_PLANE_INITIALIZED: &str = "ControlPlaneInitialized";

    /// Those whose usual status is False: Cluster API calls that a negative polarity.
    pub const NEGATIVE: [&str; 4] = [PAUSED, DELETING, UPDATING, INTERRUPTION];
}

/// Reasons of conditions.
pub mod reasons {
    /// `Ready` holds.
    pub const READY: &str = "Ready";
    /// `Ready` does not hold.
    pub const NOT_READY: &str = "NotReady";
    /// It is unknown whether `Ready` holds.
    pub const READY_UNKNOWN: &str = "ReadyUnknown";
    /// The part is up.
    pub const PROVISIONED: &str = "Provisioned";
    /// The part is not up.
    pub const NOT_PROVISIONED: &str = "NotProvisioned";
    /// It can be used.
    pub const AVAILABLE: &str = "Available";
    /// The object is being deleted.
    pub const DELETING: &str = "Deleting";
    /// Nothing is left of the object's resources.
    pub const DELETION_COMPLETED: &str = "DeletionCompleted";
    /// Nephele itself failed, or a Fault lets the cloud fail.
    pub const INTERNAL_ERROR: &str = "InternalError";
    /// Nothing is done for the object.
    pub const PAUSED: &str = "Paused";
    /// The object is reconciled.
    pub const NOT_PAUSED: &str = "NotPaused";
    /// The Cluster's infrastructure is not provisioned yet.
    pub const WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY: &str = "WaitingForClusterInfrastructureReady";
    /// A worker waits for the first control plane machine.
    pub const WAITING_FOR_CONTROL_PLANE_INITIALIZED: &str = "WaitingForControlPlaneInitialized";
    /// The bootstrap provider has not named its Secret yet.
    pub const WAITING_FOR_BOOTSTRAP_DATA: &str = "WaitingForBootstrapData";
    /// The simulated start-up is not over.
    pub const WAITING_FOR_STARTUP_TIMEOUT: &str = "WaitingForStartupTimeout";
    /// An address was claimed from a pool, but its provider has not reported on the claim yet. Later the reason is
    /// the provider's, such as `PoolExhausted`.
    pub const WAITING_FOR_IP_ADDRESS: &str = "WaitingForIPAddress";
    /// An IPAddressClaim with the needed name belongs to another owner.
    pub const IP_ADDRESS_CLAIM_TAKEN: &str = "IPAddressClaimTaken";
    /// A pool gave an invalid address.
    pub const INVALID_IP_ADDRESS: &str = "InvalidIPAddress";
    /// The management cluster does not have Cluster API's kinds IPAddressClaim and IPAddress.
    pub const IPAM_NOT_INSTALLED: &str = "IPAMNotInstalled";
    /// A pool has more or fewer machines up than wanted.
    pub const WAITING_FOR_REPLICAS: &str = "WaitingForReplicas";
    /// A pool has as many machines up as wanted.
    pub const REPLICAS_READY: &str = "ReplicasReady";
    /// Machines of a pool have an earlier template.
    pub const NOT_UP_TO_DATE: &str = "NotUpToDate";
    /// All machines of a pool have its current template.
    pub const UP_TO_DATE: &str = "UpToDate";
    /// The previous stage is not over.
    pub const WAITING_FOR_VM_PROVISIONED: &str = "WaitingForVMProvisioned";
    /// The previous stage is not over.
    pub const WAITING_FOR_NODE_PROVISIONED: &str = "WaitingForNodeProvisioned";
    /// A control plane machine needs the cluster's certificate authorities, which do not exist yet.
    pub const WAITING_FOR_CERTIFICATE_AUTHORITIES: &str = "WaitingForCertificateAuthorities";
    /// A Secret does not contain a usable certificate authority.
    pub const INVALID_CERTIFICATE_AUTHORITY: &str = "InvalidCertificateAuthority";
    /// The user's configuration is invalid.
    pub const INVALID_CONFIGURATION: &str = "InvalidConfiguration";
    /// The cluster has no failure domain of that name.
    pub const UNKNOWN_FAILURE_DOMAIN: &str = "UnknownFailureDomain";
    /// The cloud that the cluster names does not exist.
    pub const CLOUD_NOT_FOUND: &str = "CloudNotFound";
    /// The cloud has no instance type of that name.
    pub const UNKNOWN_INSTANCE_TYPE: &str = "UnknownInstanceType";
    /// The cloud has no image of that name.
    pub const UNKNOWN_IMAGE: &str = "UnknownImage";
    /// The image does not have the machine's version of Kubernetes.
    pub const UNSUPPORTED_KUBERNETES_VERSION: &str = "UnsupportedKubernetesVersion";
    /// The endpoint's port is taken, or none is free.
    pub const PORT_UNAVAILABLE: &str = "PortUnavailable";
    /// The simulated instance was terminated, and stays gone.
    pub const INSTANCE_TERMINATED: &str = "InstanceTerminated";
    /// The simulated stage failed.
    pub const STARTUP_FAILED: &str = "StartupFailed";
    /// The machine is being updated in place.
    pub const IN_PLACE_UPDATING: &str = "InPlaceUpdating";
    /// An update in place failed.
    pub const IN_PLACE_UPDATE_FAILED: &str = "InPlaceUpdateFailed";
    /// No update is under way.
    pub const NOT_UPDATING: &str = "NotUpdating";
    /// The cloud takes a spot instance back; the message names the Fault.
    pub const SPOT_RECLAIM: &str = "SpotReclaim";
    /// The cloud does not take the instance back after all.
    pub const NOT_INTERRUPTED: &str = "NotInterrupted";
    /// An extension delays the machine; the message says why.
    pub const WAITING_FOR_HOOK: &str = "WaitingForHook";
    /// An extension for machines did not answer, or reported a failure.
    pub const HOOK_FAILED: &str = "HookFailed";
    /// A quota is used up: that of the namespace, or one of the SimulatedCloud, or a Fault says so. Another one is created
    /// when there is room.
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
    /// The cloud has no room: the stock of a SimulatedCloud is used up, or a Fault says so.
    pub const INSUFFICIENT_CAPACITY: &str = "InsufficientCapacity";
    /// The cloud is called more often than it allows, or a Fault says so. The manager tries again.
    pub const THROTTLED: &str = "Throttled";
    /// Reads do not show yet what the cloud has created or changed. The manager tries again.
    pub const NOT_VISIBLE_YET: &str = "NotVisibleYet";
    /// A Fault lets the cloud delay the operation.
    pub const REQUEST_DELAYED: &str = "RequestDelayed";
    /// A Fault lets the cloud say that the image cannot be used.
    pub const INVALID_IMAGE: &str = "InvalidImage";
    /// A Fault lets the cloud say that the manager may not do this.
    pub const UNAUTHORIZED: &str = "Unauthorized";
    /// A Fault lets the cloud be unavailable.
    pub const UNAVAILABLE: &str = "Unavailable";
    /// A Fault lets a call of the cloud take too long.
    pub const TIMEOUT: &str = "Timeout";
    /// A Fault lets the answer of the cloud get lost, after the cloud has done what it was asked for.
    pub const LOST_ANSWER: &str = "LostAnswer";
    /// The cloud has no zone of that name.
    pub const UNKNOWN_ZONE: &str = "UnknownZone";
    /// The cloud has a resource of that name that differs.
    pub const CONFLICT: &str = "Conflict";
    /// The cloud does not have the resource.
    pub const NOT_FOUND: &str = "NotFound";
    /// The stages of the machine are not those of the cloud.
    pub const INVALID_STAGE: &str = "InvalidStage";
    /// All steps of a scenario have passed.
    pub const PASSED: &str = "Passed";
    /// A step of a scenario runs; the message says which.
    pub const STEP_RUNNING: &str = "StepRunning";
    /// A step of a scenario failed; the message says which, and why.
    pub const STEP_FAILED: &str = "StepFailed";
    /// As many scenarios as allowed run in the namespace. This one begins when one of them is over.
    pub const TOO_MANY_RUN: &str = "TooManyRun";
    /// The Faults of a scenario are being deleted.
    pub const HEALING: &str = "Healing";
    /// The cloud refused the request.
    pub const CLOUD_REFUSED: &str = "CloudRefused";
}

/// A condition with this status; [`set`] sets its time.
#[must_use]
pub fn condition(kind: &str, status: &str, reason: &str, message: impl Into<String>) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        observed_generation: None,
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    }
}

/// Sets a condition: replaces the one of its type, or appends it.
///
/// `lastTransitionTime` becomes `now` (in whole seconds, as Kubernetes writes times) when the status changes, and stays
/// unchanged otherwise; the time in `condition` is ignored.
pub fn set(conditions: &mut Vec<Condition>, condition: Condition, now: Timestamp) {
    let known = conditions.iter_mut().find(|known| known.type_ == condition.type_);
    match known {
        Some(known) => {
            let since = if known.status == condition.status {
                known.last_transition_time.clone()
            } else {
                Time(whole_seconds(now))
            };
            *known = Condition {
                last_transition_time: since,
                ..condition
            };
        }
        None => {
            conditions.push(Condition {
                last_transition_time: Time(whole_seconds(now)),
                ..condition
            });
        }
    }
}

/// The condition of a type.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Whether the condition of a type exists and is true.
#[must_use]
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status == TRUE)
}

/// Since when the condition of a type has been true, if it is true.
#[must_use]
pub fn true_since(conditions: &[Condition], kind: &str) -> Option<Timestamp> {
    let condition = find(conditions, kind)?;
    (condition.status == TRUE).then_some(condition.last_transition_time.0)
}

fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new type has to be added here or there: a negative one has no form in `v1beta1`, and is no part of how bad `Ready` is.
    #[test]
    fn each_type_has_a_polarity() {
        const POSITIVE: [&str; 12] = [
            types::READY,
            types::LOAD_BALANCER_AVAILABLE,
            types::CLOUD_AVAILABLE,
            types::CERTIFICATE_AUTHORITIES_AVAILABLE,
            types::VM_PROVISIONED,
            types::NODE_PROVISIONED,
            types::ETCD_PROVISIONED,
            types::API_SERVER_PROVISIONED,
            types::MACHINES_UP_TO_DATE,
            types::REPLICAS_READY,
            types::PASSED,
            types::CONTROL_PLANE_INITIALIZED,
        ];
        let source = include_str!("conditions.rs");
        let (types_of, _) = source
            .split_once("pub mod types {")
            .and_then(|(_, rest)| rest.split_once("\n}"))
            .expect("the module of types");
        let names = types_of.lines().filter_map(|line| line.split_once(": &str = \""));
        let written: Vec<_> = names.map(|(_, name)| name.trim_end_matches("\";")).collect();
        let mut known = [&POSITIVE[..], &types::NEGATIVE].concat();
        known.sort_unstable();
        let mut found = written.clone();
        found.sort_unstable();
        assert_eq!(found, known);
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millisecond(second * 1000 + 600).expect("in range")
    }

    fn since(second: i64, condition: Condition) -> Condition {
        let last_transition_time = Time(Timestamp::from_second(second).expect("in range"));
        Condition {
            last_transition_time,
            ..condition
        }
    }

    #[test]
    fn the_time_moves_only_when_the_status_does() {
        let mut list = Vec::new();
        set(&mut list, condition("A", FALSE, "Waiting", "one"), at(1));
        set(&mut list, condition("B", TRUE, "Fine", ""), at(2));
        set(&mut list, condition("A", FALSE, "StillWaiting", "two"), at(3));
        assert_eq!(
            list,
            [
                since(1, condition("A", FALSE, "StillWaiting", "two")),
                since(2, condition("B", TRUE, "Fine", "")),
            ]
        );
        set(&mut list, condition("A", TRUE, "Fine", ""), at(4));
        assert_eq!(list[0], since(4, condition("A", TRUE, "Fine", "")));
        assert_eq!(
            true_since(&list, "A"),
            Some(Timestamp::from_second(4).expect("in range"))
        );
    }

    #[test]
    fn the_same_condition_again_changes_nothing() {
        let mut list = Vec::new();
        set(&mut list, condition("A", TRUE, "Fine", ""), at(1));
        let before = list.clone();
        set(&mut list, condition("A", TRUE, "Fine", ""), at(9));
        assert_eq!(list, before);
    }

    #[test]
    fn what_is_absent_does_not_hold() {
        assert!(!is_true(&[], "A"));
        assert_eq!(true_since(&[condition("A", FALSE, "No", "")], "A"), None);
    }
}
