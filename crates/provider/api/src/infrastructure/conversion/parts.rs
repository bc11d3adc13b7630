//! Conversion of the parts that differ between the versions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as NewCondition, Time};

use super::super::{
    v1beta1::{self, V1Beta2Conditions, severity},
    v1beta2,
};
use crate::conditions::{FALSE, reasons, types};

/// A part of an object that has another form in the other version.
pub(super) trait Part: PartialEq + Sized {
    type Other: Part<Other = Self>;

    /// The other form, converted only from this one.
    fn plainly(&self) -> Self::Other;

    /// The other form: the kept one if it still converts to this one.
    fn with(&self, kept: Option<Self::Other>) -> Self::Other {
        kept.filter(|kept| kept.plainly() == *self)
            .unwrap_or_else(|| self.plainly())
    }
}

/// A part that is missing, or that is not read.
impl Part for () {
    type Other = ();

    fn plainly(&self) {}
}

impl Part for Option<v1beta1::ControlPlaneEndpoint> {
    type Other = Option<v1beta2::ControlPlaneEndpoint>;

    fn plainly(&self) -> Self::Other {
        let v1beta1::ControlPlaneEndpoint { host, port } = self.clone().unwrap_or_default();
        (!host.is_empty() || port != 0).then_some(v1beta2::ControlPlaneEndpoint { host, port })
    }
}

impl Part for Option<v1beta2::ControlPlaneEndpoint> {
    type Other = Option<v1beta1::ControlPlaneEndpoint>;

    fn plainly(&self) -> Self::Other {
        let v1beta2::ControlPlaneEndpoint { host, port } = self.clone()?;
        Some(v1beta1::ControlPlaneEndpoint { host, port })
    }
}

/// Failure domains.
impl Part for BTreeMap<String, v1beta1::FailureDomain> {
    type Other = Vec<v1beta2::FailureDomain>;

    fn plainly(&self) -> Self::Other {
        let one = |(name, domain): (&String, &v1beta1::FailureDomain)| {
            let v1beta1::FailureDomain {
                control_plane,
                attributes,
            } = domain.clone();
            v1beta2::FailureDomain {
                name: name.clone(),
                control_plane,
                attributes,
            }
        };
        self.iter().map(one).collect()
    }
}

impl Part for Vec<v1beta2::FailureDomain> {
    type Other = BTreeMap<String, v1beta1::FailureDomain>;

    fn plainly(&self) -> Self::Other {
        let one = |domain: &v1beta2::FailureDomain| {
            let v1beta2::FailureDomain {
                name,
                control_plane,
                attributes,
            } = domain.clone();
            (
                name,
                v1beta1::FailureDomain {
                    control_plane,
                    attributes,
                },
            )
        };
        self.iter().map(one).collect()
    }
}

/// `ready`.
impl Part for Option<bool> {
    type Other = Option<v1beta2::Initialization>;

    fn plainly(&self) -> Self::Other {
        self.map(|ready| v1beta2::Initialization {
            provisioned: Some(ready),
        })
    }
}

impl Part for Option<v1beta2::Initialization> {
    type Other = Option<bool>;

    fn plainly(&self) -> Self::Other {
        self.as_ref()?.provisioned
    }
}

/// The conditions of `v1beta1` in both of their forms.
type TwofoldConditions = (Vec<v1beta1::Condition>, Option<V1Beta2Conditions>);

impl Part for TwofoldConditions {
    type Other = Vec<NewCondition>;

    fn plainly(&self) -> Self::Other {
        match self {
            (_, Some(new)) => new.conditions.clone(),
            (old, None) => old.iter().map(new_form).collect(),
        }
    }
}

impl Part for Vec<NewCondition> {
    type Other = TwofoldConditions;

    fn plainly(&self) -> Self::Other {
        let old = self.iter().filter(|condition| is_good_news(condition));
        let old = old.map(|condition| old_form(condition, self)).collect();
        (
            old,
            (!self.is_empty()).then(|| V1Beta2Conditions {
                conditions: self.clone(),
            }),
        )
    }
}

/// Whether the condition has positive polarity. Only these have an old form, because all old conditions have positive
/// polarity.
fn is_good_news(condition: &NewCondition) -> bool {
    !types::NEGATIVE.contains(&condition.type_.as_str())
}

fn old_form(condition: &NewCondition, all: &[NewCondition]) -> v1beta1::Condition {
    let NewCondition {
        type_,
        status,
        reason,
        message,
        last_transition_time,
        observed_generation: _,
    } = condition.clone();
    v1beta1::Condition {
        severity: severity_of(condition, all).to_owned(),
        type_,
        status,
        last_transition_time: Some(last_transition_time),
        reason,
        message,
    }
}

/// The severity of a condition that is not true. Ready has the highest severity of the other conditions.
fn severity_of(condition: &NewCondition, all: &[NewCondition]) -> &'static str {
    /// Reasons that only a change of the configuration, or a new machine, can remove.
    const ERRORS: [&str; 11] = [
        reasons::INVALID_CONFIGURATION,
        reasons::UNKNOWN_FAILURE_DOMAIN,
        reasons::CLOUD_NOT_FOUND,
        reasons::UNKNOWN_INSTANCE_TYPE,
        reasons::UNKNOWN_IMAGE,
        reasons::UNSUPPORTED_KUBERNETES_VERSION,
        reasons::INVALID_CERTIFICATE_AUTHORITY,
        reasons::IP_ADDRESS_CLAIM_TAKEN,
        reasons::INVALID_IP_ADDRESS,
        reasons::IPAM_NOT_INSTALLED,
        reasons::STARTUP_FAILED,
    ];
    const PASSING: [&str; 3] = [
        reasons::NOT_PROVISIONED,
        reasons::DELETING,
        reasons::DELETION_COMPLETED,
    ];
    let by_reason = |condition: &NewCondition| match condition.reason.as_str() {
        reason if ERRORS.contains(&reason) => severity::ERROR,
        reason if PASSING.contains(&reason) || reason.starts_with("WaitingFor") => severity::INFO,
        _ => severity::WARNING,
    };
    if condition.status != FALSE {
        return "";
    }
    let others: Vec<_> = (all.iter())
        .filter(|other| other.type_ != types::READY && other.status == FALSE && is_good_news(other))
        .map(by_reason)
        .collect();
    let worst = [severity::ERROR, severity::WARNING, severity::INFO]
        .into_iter()
        .find(|bad| others.contains(bad));
    match worst {
        Some(worst) if condition.type_ == types::READY => worst,
        _ => by_reason(condition),
    }
}

/// Converts a condition from its old form as Cluster API does (`util/conditions/getter.go`), but with a time that does
/// not change.
fn new_form(condition: &v1beta1::Condition) -> NewCondition {
    let v1beta1::Condition {
        type_,
        status,
        severity: _,
        last_transition_time,
        reason,
        message,
    } = condition.clone();
    NewCondition {
        type_,
        status,
        reason: if reason.is_empty() {
            "NoReasonReported".to_owned()
        } else {
            reason
        },
        message,
        observed_generation: None,
        last_transition_time: last_transition_time.unwrap_or(Time(Timestamp::UNIX_EPOCH)),
    }
}

impl Part for v1beta1::InMemoryClusterSpec {
    type Other = v1beta2::InMemoryClusterSpec;

    fn plainly(&self) -> Self::Other {
        self.with(None)
    }

    fn with(&self, kept: Option<Self::Other>) -> Self::Other {
        let Self {
            control_plane_endpoint,
            network,
            cloud_ref,
            failure_domains,
            origin,
        } = self;
        let kept = kept
            .map(|kept| (kept.control_plane_endpoint, kept.failure_domains))
            .unzip();
        v1beta2::InMemoryClusterSpec {
            control_plane_endpoint: control_plane_endpoint.with(kept.0),
            network: network.clone(),
            cloud_ref: cloud_ref.clone(),
            failure_domains: failure_domains.with(kept.1),
            origin: origin.clone(),
        }
    }
}

impl Part for v1beta2::InMemoryClusterSpec {
    type Other = v1beta1::InMemoryClusterSpec;

    fn plainly(&self) -> Self::Other {
        self.with(None)
    }

    fn with(&self, kept: Option<Self::Other>) -> Self::Other {
        let Self {
            control_plane_endpoint,
            network,
            cloud_ref,
            failure_domains,
            origin,
        } = self;
        let kept = kept
            .map(|kept| (kept.control_plane_endpoint, kept.failure_domains))
            .unzip();
        v1beta1::InMemoryClusterSpec {
            control_plane_endpoint: control_plane_endpoint.with(kept.0),
            network: network.clone(),
            cloud_ref: cloud_ref.clone(),
            failure_domains: failure_domains.with(kept.1),
            origin: origin.clone(),
        }
    }
}

/// The spec of a template of clusters, whose metadata are the same in both versions.
macro_rules! cluster_template {
    ($from:ident, $to:ident) => {
        impl Part for $from::InMemoryClusterTemplateSpec {
            type Other = $to::InMemoryClusterTemplateSpec;

            fn plainly(&self) -> Self::Other {
                self.with(None)
            }

            fn with(&self, kept: Option<Self::Other>) -> Self::Other {
                let $from::InMemoryClusterTemplateResource { metadata, spec } = &self.template;
                let spec = spec.with(kept.map(|kept| kept.template.spec));
                let template = $to::InMemoryClusterTemplateResource {
                    metadata: metadata.clone(),
                    spec,
                };
                $to::InMemoryClusterTemplateSpec { template }
            }
        }
    };
}

cluster_template!(v1beta1, v1beta2);
cluster_template!(v1beta2, v1beta1);

impl Part for v1beta1::InMemoryClusterStatus {
    type Other = v1beta2::InMemoryClusterStatus;

    fn plainly(&self) -> Self::Other {
        self.with(None)
    }

    fn with(&self, kept: Option<Self::Other>) -> Self::Other {
        let Self {
            ready,
            network,
            load_balancer,
            failure_domains,
            failure_reason: _,
            failure_message: _,
            conditions,
            v1beta2,
        } = self.clone();
        let kept = kept
            .map(|kept| (kept.initialization, (kept.failure_domains, kept.conditions)))
            .unzip();
        let kept_lists = kept.1.unzip();
        v1beta2::InMemoryClusterStatus {
            initialization: ready.with(kept.0),
            network,
            load_balancer,
            failure_domains: failure_domains.with(kept_lists.0),
            conditions: (conditions, v1beta2).with(kept_lists.1),
        }
    }
}

impl Part for v1beta2::InMemoryClusterStatus {
    type Other = v1beta1::InMemoryClusterStatus;

    fn plainly(&self) -> Self::Other {
        self.with(None)
    }

    fn with(&self, kept: Option<Self::Other>) -> Self::Other {
        let Self {
            initialization,
            network,
            load_balancer,
            failure_domains,
            conditions,
        } = self.clone();
        let old = kept.clone();
        let (failure_reason, failure_message) = old
            .map(|old| (old.failure_reason, old.failure_message))
            .unwrap_or_default();
        let kept_conditions = kept
            .as_ref()
            .map(|kept| (kept.conditions.clone(), kept.v1beta2.clone()));
        let (conditions, v1beta2) = conditions.with(kept_conditions);
        v1beta1::InMemoryClusterStatus {
            ready: initialization.with(kept.as_ref().map(|kept| kept.ready)),
            network,
            load_balancer,
            failure_domains: failure_domains.with(kept.map(|kept| kept.failure_domains)),
            failure_reason,
            failure_message,
            conditions,
            v1beta2,
        }
    }
}

impl Part for v1beta1::InMemoryMachineStatus {
    type Other = v1beta2::InMemoryMachineStatus;

    fn plainly(&self) -> Self::Other {
        self.with(None)
    }

    fn with(&self, kept: Option<Self::Other>) -> Self::Other {
        let Self {
            ready,
            start_time,
            addresses,
            network,
            failure_domain,
            interruptible,
            failure_reason: _,
            failure_message: _,
            conditions,
            v1beta2,
        } = self.clone();
        let kept = kept.map(|kept| (kept.initialization, kept.conditions)).unzip();
        v1beta2::InMemoryMachineStatus {
            initialization: ready.with(kept.0),
            start_time,
            addresses,
            network,
            failure_domain,
            interruptible,
            conditions: (conditions, v1beta2).with(kept.1),
        }
    }
}

impl Part for v1beta2::InMemoryMachineStatus {
    type Other = v1beta1::InMemoryMachineStatus;

    fn plainly(&self) -> Self::Other {
        self.with(None)
    }

    fn with(&self, kept: Option<Self::Other>) -> Self::Other {
        let Self {
            initialization,
            start_time,
            addresses,
            network,
            failure_domain,
            interruptible,
            conditions,
        } = self.clone();
        let kept_ready = kept.as_ref().map(|kept| kept.ready);
        let old = kept.unwrap_or_default();
        let (conditions, v1beta2) = conditions.with(Some((old.conditions, old.v1beta2)));
        v1beta1::InMemoryMachineStatus {
            ready: initialization.with(kept_ready),
            start_time,
            addresses,
            network,
            failure_domain,
            interruptible,
            failure_reason: old.failure_reason,
            failure_message: old.failure_message,
            conditions,
            v1beta2,
        }
    }
}

/// `ready` of a pool in `v1beta1`.
#[derive(PartialEq)]
pub(super) struct PoolReady(Option<bool>);

/// `ready` and `initialization` of a pool in `v1beta2`, which have the same meaning.
type PoolFlags = (Option<bool>, Option<v1beta2::Initialization>);

impl Part for PoolReady {
    type Other = PoolFlags;

    fn plainly(&self) -> Self::Other {
        let provisioned = self.0.filter(|ready| *ready);
        (
            self.0,
            provisioned.map(|ready| v1beta2::Initialization {
                provisioned: Some(ready),
            }),
        )
    }
}

impl Part for PoolFlags {
    type Other = PoolReady;

    fn plainly(&self) -> Self::Other {
        PoolReady(self.0)
    }
}

impl Part for v1beta1::InMemoryMachinePoolStatus {
    type Other = v1beta2::InMemoryMachinePoolStatus;

    fn plainly(&self) -> Self::Other {
        self.with(None)
    }

    fn with(&self, kept: Option<Self::Other>) -> Self::Other {
        let Self {
            ready,
            replicas,
            infrastructure_machine_kind,
            next_ordinal,
            capacity,
            node_info,
            conditions,
            v1beta2,
        } = self.clone();
        let kept = kept
            .map(|kept| ((kept.ready, kept.initialization), kept.conditions))
            .unzip();
        let (ready, initialization) = PoolReady(ready).with(kept.0);
        v1beta2::InMemoryMachinePoolStatus {
            ready,
            initialization,
            replicas,
            infrastructure_machine_kind,
            next_ordinal,
            capacity,
            node_info,
            conditions: (conditions, v1beta2).with(kept.1),
        }
    }
}

impl Part for v1beta2::InMemoryMachinePoolStatus {
    type Other = v1beta1::InMemoryMachinePoolStatus;

    fn plainly(&self) -> Self::Other {
        self.with(None)
    }

    fn with(&self, kept: Option<Self::Other>) -> Self::Other {
        let Self {
            ready,
            initialization,
            replicas,
            infrastructure_machine_kind,
            next_ordinal,
            capacity,
            node_info,
            conditions,
        } = self.clone();
        let (conditions, v1beta2) = conditions.with(kept.map(|kept| (kept.conditions, kept.v1beta2)));
        v1beta1::InMemoryMachinePoolStatus {
            ready: (ready, initialization).plainly().0,
            replicas,
            infrastructure_machine_kind,
            next_ordinal,
            capacity,
            node_info,
            conditions,
            v1beta2,
        }
    }
}
