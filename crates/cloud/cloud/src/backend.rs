//! The machines behind a load balancer: which ones get connections, and why the others do not. Pure.

use std::collections::BTreeMap;

use nephele_engine::{Resource, StageState};
use nephele_model::{
    ApiServerRequestEffect, ApiServerRequestEffectKind, LoadBalancerEffect, StageName, VisibleEffect,
};

use crate::active_effect::visible_effects;

/// A machine that is registered with a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// The address at which the load balancer reaches it. Empty if it was published without one.
    pub address: String,
    /// Why it gets no connections. None while it is in service.
    pub out_of_service: Option<OutOfService>,
}

/// Why a machine behind a load balancer gets no connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfService {
    pub reason: OutOfServiceReason,
    /// More words, with the name of the fault. Empty if no fault causes it.
    pub message: String,
}

/// Why a machine behind a load balancer gets no connections, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfServiceReason {
    /// The machine is being deleted.
    Deleting,
    /// Its API server is not up yet.
    Starting,
    /// Nothing answers on the machine, or no API server of the cluster does.
    HealthCheckFailed,
    /// The load balancer has lost its backends.
    Drained,
    /// The load balancer leads to machines of another cluster.
    Diverted,
}

impl OutOfServiceReason {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::Deleting,
        Self::Starting,
        Self::HealthCheckFailed,
        Self::Drained,
        Self::Diverted,
    ];

    /// Its name in a status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deleting => "Deleting",
            Self::Starting => "Starting",
            Self::HealthCheckFailed => "HealthCheckFailed",
            Self::Drained => "Drained",
            Self::Diverted => "Diverted",
        }
    }
}

/// A registered machine that is in service from a stage on, behind a load balancer.
pub(crate) fn backend(balancer: &Resource, machine: &Resource, from: &StageName) -> Backend {
    Backend {
        address: machine.spec.addresses.first().cloned().unwrap_or_default(),
        out_of_service: out_of_service(balancer, machine, from),
    }
}

/// Why a machine gets no connections. What concerns the machine itself comes first.
fn out_of_service(balancer: &Resource, machine: &Resource, from: &StageName) -> Option<OutOfService> {
    let because = |reason| {
        Some(OutOfService {
            reason,
            message: String::new(),
        })
    };
    if machine.deleting.is_some() || balancer.deleting.is_some() {
        return because(OutOfServiceReason::Deleting);
    }
    if !matches!(machine.stage(from), Some(StageState::Reached { .. })) {
        return because(OutOfServiceReason::Starting);
    }
    let of_machine = |visible_effect: &VisibleEffect| {
        visible_effect
            .is_silence()
            .then_some(OutOfServiceReason::HealthCheckFailed)
    };
    let wrong = visible_effects(&machine.active_effects);
    first(&wrong, of_machine).or_else(|| first(&visible_effects(&balancer.active_effects), of_balancer))
}

/// What a visible effect of a load balancer does to all machines behind it.
fn of_balancer(visible_effect: &VisibleEffect) -> Option<OutOfServiceReason> {
    match visible_effect {
        VisibleEffect::ApiServer(ApiServerRequestEffect {
            kind: ApiServerRequestEffectKind::Down,
            ..
        }) => Some(OutOfServiceReason::HealthCheckFailed),
        VisibleEffect::LoadBalancer(LoadBalancerEffect::NoBackends) => Some(OutOfServiceReason::Drained),
        VisibleEffect::LoadBalancer(LoadBalancerEffect::WrongBackends) => Some(OutOfServiceReason::Diverted),
        _ => None,
    }
}

/// The first fault by name whose visible effect takes machines out of service.
fn first(
    wrong: &BTreeMap<String, VisibleEffect>,
    reason: impl Fn(&VisibleEffect) -> Option<OutOfServiceReason>,
) -> Option<OutOfService> {
    wrong.iter().find_map(|(fault, visible_effect)| {
        Some(OutOfService {
            reason: reason(visible_effect)?,
            message: format!("{visible_effect} (Fault {fault})"),
        })
    })
}
