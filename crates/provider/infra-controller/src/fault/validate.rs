//! The fault that a Fault describes. Pure.

use std::time::Duration;

use nephele_api::cloud::v1alpha1::{AFFECTED_MAX, FaultSpec};
use nephele_cloud::{Effect, Fault, Latency, active_effect_of};
use nephele_fault::{Mistake, mistake};
use nephele_model::{
    ApiServerRequestEffect, ApiServerRequestEffectKind, ClockSkew, EarlyExpiry, FaultEffect, Flap, Fraction,
    GoDuration, LoadBalancerEffect, NodeCondition, OtherName, VisibleEffect,
    effect::{
        ApiServerEffect, ApiServerFault, CertificateFault, ClockSkewFault, Delay, Duplicate, EtcdFault, Fail,
        FaultyCondition, FlapTurns, LoadBalancerFault, NodeReboot, Outage, READ_VERBS, SpotReclaim,
    },
};

/// When a failed operation is tried again, unless the Fault says otherwise: often enough to see that a Fault is gone,
/// and seldom enough to read the log.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// How long before its end a spot instance is told, unless the Fault says otherwise: the same time as in a large real cloud.
const NOTICE: Duration = Duration::from_secs(120);
/// How long an instance is down that reboots, unless the Fault says otherwise: the time that a virtual machine needs.
const DOWN_FOR: Duration = Duration::from_secs(30);
/// The shortest time until a failed operation is tried again: with less, a machine would keep a processor busy.
const RETRY_AFTER_MIN: Duration = Duration::from_millis(100);

/// The fault of a spec. The schema refuses every mistake; this is for objects that got past the schema.
pub(crate) fn validate(spec: &FaultSpec) -> Result<Fault, Mistake> {
    let FaultSpec {
        matches,
        effect,
        budget,
    } = spec;
    if let Some(pool) = matches.pools.first() {
        return Err(mistake(
            "match.pools",
            pool,
            "for a fault of machines or API servers",
        ));
    }
    let fault = Fault {
        matches: nephele_fault::matches(matches),
        effect: match effect {
            Some(effect) => effect_of(effect)?,
            None => return Err(mistake("effect", "{}", "exactly one effect")),
        },
        budget: nephele_fault::budget(budget)?,
    };
    check_operations(&fault)?;
    check_budget(&fault)?;
    let is_of_resources = fault.effect.active_effect().is_some();
    if let Some(caller) = fault.matches.callers.first().filter(|_| is_of_resources) {
        return Err(mistake(
            "match.callers",
            caller.as_str(),
            "for a fault of machines or API servers",
        ));
    }
    Ok(fault)
}

/// Checks that a fault names only operations that it can hit.
fn check_operations(fault: &Fault) -> Result<(), Mistake> {
    let mut operations = fault.matches.operations.iter();
    let wrong = match fault.effect {
        Effect::Fail { .. } | Effect::Delay(_) => None,
        Effect::Lag(_) => operations.find(|operation| operation.is_read()),
        Effect::Leak => operations.find(|operation| !operation.is_deletion()),
        Effect::Duplicate { .. } | Effect::Affect(_) | Effect::Outage { .. } => operations.next(),
    };
    let Some(operation) = wrong else { return Ok(()) };
    let expected = match fault.effect {
        Effect::Lag(_) => "an operation that changes something",
        Effect::Leak => "DeleteInstance or DeleteLoadBalancer",
        _ => "for a fault of machines or API servers",
    };
    Err(mistake("match.operations", operation.as_str(), expected))
}

/// Checks that a fault of resources is of no more than its status can list for the next manager: those that it hits, and
/// those that pass.
fn check_budget(fault: &Fault) -> Result<(), Mistake> {
    match fault.effect {
        Effect::Fail { .. } | Effect::Delay(_) | Effect::Lag(_) => return Ok(()),
        Effect::Outage { .. } | Effect::Leak | Effect::Duplicate { .. } | Effect::Affect(_) => {}
    }
    let nephele_model::Budget { count, skip, .. } = fault.budget;
    for (field, number) in [("budget.count", count), ("budget.skip", Some(skip))] {
        if let Some(number) = number.filter(|number| *number > AFFECTED_MAX as u64) {
            return Err(mistake(
                field,
                &number,
                "at most 100, for a fault of machines or API servers",
            ));
        }
    }
    Ok(())
}

/// What a Fault does, for the engine: it acts on what changes its own operations, and carries what affects resources.
fn effect_of(effect: &FaultEffect) -> Result<Effect, Mistake> {
    let affect = |visible_effect: VisibleEffect| Effect::Affect(active_effect_of(&visible_effect));
    Ok(match effect {
        FaultEffect::Fail(Fail {
            reason,
            message,
            retry_after,
        }) => {
            let retry_after = retry(retry_after.as_ref());
            Effect::Fail {
                reason: *reason,
                message: message.clone(),
                retry_after,
            }
        }
        FaultEffect::Delay(delay) => Effect::Delay(latency(delay)),
        FaultEffect::Lag(delay) => Effect::Lag(latency(delay)),
        FaultEffect::Leak {} => Effect::Leak,
        FaultEffect::Duplicate(Duplicate { retry_after }) => Effect::Duplicate {
            retry_after: retry(retry_after.as_ref()),
        },
        FaultEffect::Outage(Outage { retry_after }) => {
            let active_effect = active_effect_of(&VisibleEffect::Frozen);
            Effect::Outage {
                active_effect,
                retry_after: retry(retry_after.as_ref()),
            }
        }
        FaultEffect::NotReady {} => affect(VisibleEffect::NotReady),
        FaultEffect::NodeCondition(wanted) => affect(VisibleEffect::NodeCondition(condition(wanted))),
        FaultEffect::Freeze {} => affect(VisibleEffect::Frozen),
        FaultEffect::Vanish {} => affect(VisibleEffect::Vanished),
        FaultEffect::Hold(hold) => affect(VisibleEffect::Held(hold.stage)),
        FaultEffect::ApiServer(wanted) => affect(VisibleEffect::ApiServer(request_effect(wanted))),
        FaultEffect::Etcd(wanted) => affect(etcd(wanted)),
        FaultEffect::Certificate(wanted) => affect(VisibleEffect::Certificate(expiry(wanted))),
        FaultEffect::LoadBalancer(wanted) => affect(VisibleEffect::LoadBalancer(balancer(wanted))),
        FaultEffect::WrongProviderId {} => affect(VisibleEffect::WrongProviderId),
        FaultEffect::Flap(FlapTurns { up, down }) => {
            affect(VisibleEffect::Flapping(Flap::new(down.get(), up.get())))
        }
        FaultEffect::SpotReclaim(SpotReclaim { notice }) => affect(VisibleEffect::SpotReclaim(
            notice.as_ref().map_or(NOTICE, GoDuration::get),
        )),
        FaultEffect::Bootstrap(wanted) => affect(VisibleEffect::BootstrapFailed(wanted.failed_phase)),
        FaultEffect::ClockSkew(ClockSkewFault::Ahead(by)) => {
            affect(VisibleEffect::ClockSkew(ClockSkew::Ahead(by.get())))
        }
        FaultEffect::ClockSkew(ClockSkewFault::Behind(by)) => {
            affect(VisibleEffect::ClockSkew(ClockSkew::Behind(by.get())))
        }
        FaultEffect::NodeRebootsAs(NodeReboot {
            name_suffix,
            down_for,
        }) => {
            let down_for = down_for.as_ref().map_or(DOWN_FOR, GoDuration::get);
            affect(VisibleEffect::Rebooting {
                down_for,
                name: OtherName::new(name_suffix),
            })
        }
        // The IPAM provider carries these out.
        FaultEffect::Addresses(_) => {
            return Err(mistake(
                "effect",
                "addresses",
                "for a fault of machines or API servers",
            ));
        }
    })
}

fn latency(delay: &Delay) -> Latency {
    Latency::jittered(&delay.duration, delay.jitter.as_ref())
}

fn retry(wanted: Option<&GoDuration>) -> Duration {
    wanted.map_or(RETRY_AFTER, |wanted| wanted.get().max(RETRY_AFTER_MIN))
}

fn condition(
    FaultyCondition {
        kind,
        status,
        reason,
        message,
    }: &FaultyCondition,
) -> NodeCondition {
    let reason = if reason.is_empty() {
        "SimulatedFault"
    } else {
        reason
    };
    NodeCondition {
        kind: kind.clone(),
        status: status.as_str().to_owned(),
        reason: reason.to_owned(),
        message: message.clone(),
    }
}

fn request_effect(
    ApiServerFault {
        effect,
        verbs,
        resources,
    }: &ApiServerFault,
) -> ApiServerRequestEffect {
    let kind = match effect {
        ApiServerEffect::Down {} => ApiServerRequestEffectKind::Down,
        ApiServerEffect::Error(error) => ApiServerRequestEffectKind::Error {
            code: error.code,
            per_million: per_million(error.probability.as_ref()),
        },
        ApiServerEffect::Latency(delay) => ApiServerRequestEffectKind::Latency {
            base: delay.duration.get(),
            jitter_per_million: delay.jitter_per_million(),
        },
        ApiServerEffect::CutWatches(cut) => ApiServerRequestEffectKind::Cut {
            after: cut.after.get(),
        },
        ApiServerEffect::StaleReads {} => ApiServerRequestEffectKind::Stale,
    };
    let verbs = match effect {
        ApiServerEffect::CutWatches(_) => vec!["watch".to_owned()],
        ApiServerEffect::StaleReads {} if verbs.is_empty() => READ_VERBS.map(str::to_owned).to_vec(),
        _ => verbs.clone(),
    };
    ApiServerRequestEffect {
        verbs,
        resources: resources.clone(),
        kind,
    }
}

fn etcd(wanted: &EtcdFault) -> VisibleEffect {
    match wanted {
        EtcdFault::Alarm(alarm) => VisibleEffect::EtcdAlarm(*alarm),
        EtcdFault::NoLeader {} => VisibleEffect::EtcdWithoutLeader,
        EtcdFault::Slow(delay) => VisibleEffect::EtcdSlow {
            base: delay.duration.get(),
            jitter_per_million: delay.jitter_per_million(),
        },
        EtcdFault::HiddenMember {} => VisibleEffect::EtcdMemberHidden,
    }
}

fn expiry(wanted: &CertificateFault) -> EarlyExpiry {
    match wanted {
        CertificateFault::ExpiresIn(time) => EarlyExpiry::new(time.get()),
        CertificateFault::Expired {} => EarlyExpiry::new(Duration::ZERO),
    }
}

fn balancer(wanted: &LoadBalancerFault) -> LoadBalancerEffect {
    match wanted {
        LoadBalancerFault::NoBackends {} => LoadBalancerEffect::NoBackends,
        LoadBalancerFault::WrongBackends {} => LoadBalancerEffect::WrongBackends,
        LoadBalancerFault::Reset(reset) => LoadBalancerEffect::Reset {
            after: reset.after.get(),
            per_million: per_million(reset.probability.as_ref()),
        },
    }
}

/// How many of a million are hit, if this is the probability; all by default.
fn per_million(probability: Option<&Fraction>) -> u32 {
    probability.map_or(1_000_000, Fraction::per_million)
}

#[cfg(test)]
mod tests;
