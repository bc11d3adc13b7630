//! The fault that a Fault describes. Pure.

use std::time::Duration;

use nephele_api::cloud::v1alpha1::{AFFECTED_MAX, FaultSpec};
use nephele_cloud::{Effect, Fault, Latency, affliction_of};
use nephele_fault::{Mistake, mistake};
use nephele_model::effect::{
    ApiServerEffect, ApiServerFault, CertificateFault, ClockSkewFault, Delay, Duplicate, EtcdFault, Fail,
    FaultyCondition, FlapTurns, LoadBalancerFault, NodeReboot, Outage, READ_VERBS, SpotReclaim,
};
use nephele_model::{
    ApiServerTrouble, ApiServerTroubleKind, ClockSkew, EarlyExpiry, FaultEffect, Flap, Fraction, GoDuration,
    LoadBalancerTrouble, NodeCondition, OtherName, Symptom,
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
pub(super) fn validate(spec: &FaultSpec) -> Result<Fault, Mistake> {
    let FaultSpec { matches, effect, budget } = spec;
    if let Some(pool) = matches.pools.first() {
        return Err(mistake("match.pools", pool, "for a fault of machines or API servers"));
    }
    let fault = Fault {
        matches: nephele_fault::matches(matches),
        effect: match effect {
            Some(effect) => effect_of(effect)?,
            None => return Err(mistake("effect", "{}", "exactly one effect")),
        },
        budget: nephele_fault::budget(budget)?,
    };
    if matches!(fault.effect, Effect::Lag(_))
        && let Some(operation) = fault.matches.operations.iter().find(|operation| operation.is_read())
    {
        return Err(mistake("match.operations", operation.as_str(), "an operation that changes something"));
    }
    if fault.effect == Effect::Leak
        && let Some(operation) = fault.matches.operations.iter().find(|operation| !operation.is_deletion())
    {
        return Err(mistake("match.operations", operation.as_str(), "DeleteInstance or DeleteLoadBalancer"));
    }
    if !matches!(fault.effect, Effect::Fail { .. } | Effect::Delay(_) | Effect::Lag(_)) {
        if let Some(operation) = fault.matches.operations.first().filter(|_| fault.effect != Effect::Leak) {
            return Err(mistake(
                "match.operations",
                operation.as_str(),
                "for a fault of machines or API servers",
            ));
        }
        // The status lists those that were hit and those that passed, for the next manager.
        let nephele_model::Budget { count, skip, .. } = fault.budget;
        for (field, number) in [("budget.count", count), ("budget.skip", Some(skip))] {
            if let Some(number) = number.filter(|number| *number > AFFECTED_MAX as u64) {
                return Err(mistake(field, &number, "at most 100, for a fault of machines or API servers"));
            }
        }
    }
    let is_of_resources = fault.effect.affliction().is_some();
    if let Some(caller) = fault.matches.callers.first().filter(|_| is_of_resources) {
        return Err(mistake("match.callers", caller.as_str(), "for a fault of machines or API servers"));
    }
    Ok(fault)
}

/// What a Fault does, for the engine: it acts on what changes its own operations, and carries what afflicts resources.
fn effect_of(effect: &FaultEffect) -> Result<Effect, Mistake> {
    let afflict = |symptom: Symptom| Effect::Afflict(affliction_of(&symptom));
    Ok(match effect {
        FaultEffect::Fail(Fail { reason, message, retry_after }) => {
            let retry_after = retry(retry_after.as_ref());
            Effect::Fail { reason: *reason, message: message.clone(), retry_after }
        }
        FaultEffect::Delay(delay) => Effect::Delay(latency(delay)),
        FaultEffect::Lag(delay) => Effect::Lag(latency(delay)),
        FaultEffect::Leak {} => Effect::Leak,
        FaultEffect::Duplicate(Duplicate { retry_after }) => {
            Effect::Duplicate { retry_after: retry(retry_after.as_ref()) }
        }
        FaultEffect::Outage(Outage { retry_after }) => {
            let affliction = affliction_of(&Symptom::Frozen);
            Effect::Outage { affliction, retry_after: retry(retry_after.as_ref()) }
        }
        FaultEffect::NotReady {} => afflict(Symptom::NotReady),
        FaultEffect::NodeCondition(wanted) => afflict(Symptom::NodeCondition(condition(wanted))),
        FaultEffect::Freeze {} => afflict(Symptom::Frozen),
        FaultEffect::Vanish {} => afflict(Symptom::Vanished),
        FaultEffect::Hold(hold) => afflict(Symptom::Held(hold.stage)),
        FaultEffect::ApiServer(wanted) => afflict(Symptom::ApiServer(trouble(wanted))),
        FaultEffect::Etcd(wanted) => afflict(etcd(wanted)),
        FaultEffect::Certificate(wanted) => afflict(Symptom::Certificate(expiry(wanted))),
        FaultEffect::LoadBalancer(wanted) => afflict(Symptom::LoadBalancer(balancer(wanted))),
        FaultEffect::WrongProviderId {} => afflict(Symptom::WrongProviderId),
        FaultEffect::Flap(FlapTurns { up, down }) => {
            afflict(Symptom::Flapping(Flap::new(down.get(), up.get())))
        }
        FaultEffect::SpotReclaim(SpotReclaim { notice }) => {
            afflict(Symptom::SpotReclaim(notice.as_ref().map_or(NOTICE, GoDuration::get)))
        }
        FaultEffect::Bootstrap(wanted) => afflict(Symptom::BootstrapFailed(wanted.failed_phase)),
        FaultEffect::ClockSkew(ClockSkewFault::Ahead(by)) => {
            afflict(Symptom::ClockSkew(ClockSkew::Ahead(by.get())))
        }
        FaultEffect::ClockSkew(ClockSkewFault::Behind(by)) => {
            afflict(Symptom::ClockSkew(ClockSkew::Behind(by.get())))
        }
        FaultEffect::NodeRebootsAs(NodeReboot { name_suffix, down_for }) => {
            let down_for = down_for.as_ref().map_or(DOWN_FOR, GoDuration::get);
            afflict(Symptom::Rebooting { down_for, name: OtherName::new(name_suffix) })
        }
        // The IPAM provider carries these out.
        FaultEffect::Addresses(_) => {
            return Err(mistake("effect", "addresses", "for a fault of machines or API servers"));
        }
    })
}

fn latency(delay: &Delay) -> Latency {
    Latency::jittered(&delay.duration, delay.jitter.as_ref())
}

fn retry(wanted: Option<&GoDuration>) -> Duration {
    wanted.map_or(RETRY_AFTER, |wanted| wanted.get().max(RETRY_AFTER_MIN))
}

fn condition(FaultyCondition { kind, status, reason, message }: &FaultyCondition) -> NodeCondition {
    let reason = if reason.is_empty() { "SimulatedFault" } else { reason };
    NodeCondition {
        kind: kind.clone(),
        status: status.as_str().to_owned(),
        reason: reason.to_owned(),
        message: message.clone(),
    }
}

fn trouble(ApiServerFault { effect, verbs, resources }: &ApiServerFault) -> ApiServerTrouble {
    let kind = match effect {
        ApiServerEffect::Down {} => ApiServerTroubleKind::Down,
        ApiServerEffect::Error(error) => ApiServerTroubleKind::Error {
            code: error.code,
            per_million: per_million(error.probability.as_ref()),
        },
        ApiServerEffect::Latency(delay) => ApiServerTroubleKind::Latency {
            base: delay.duration.get(),
            jitter_per_million: delay.jitter_per_million(),
        },
        ApiServerEffect::CutWatches(cut) => ApiServerTroubleKind::Cut { after: cut.after.get() },
        ApiServerEffect::StaleReads {} => ApiServerTroubleKind::Stale,
    };
    let verbs = match effect {
        ApiServerEffect::CutWatches(_) => vec!["watch".to_owned()],
        ApiServerEffect::StaleReads {} if verbs.is_empty() => READ_VERBS.map(str::to_owned).to_vec(),
        _ => verbs.clone(),
    };
    ApiServerTrouble { verbs, resources: resources.clone(), kind }
}

fn etcd(wanted: &EtcdFault) -> Symptom {
    match wanted {
        EtcdFault::Alarm(alarm) => Symptom::EtcdAlarm(*alarm),
        EtcdFault::NoLeader {} => Symptom::EtcdWithoutLeader,
        EtcdFault::Slow(delay) => {
            Symptom::EtcdSlow { base: delay.duration.get(), jitter_per_million: delay.jitter_per_million() }
        }
        EtcdFault::HiddenMember {} => Symptom::EtcdMemberHidden,
    }
}

fn expiry(wanted: &CertificateFault) -> EarlyExpiry {
    match wanted {
        CertificateFault::ExpiresIn(time) => EarlyExpiry::new(time.get()),
        CertificateFault::Expired {} => EarlyExpiry::new(Duration::ZERO),
    }
}

fn balancer(wanted: &LoadBalancerFault) -> LoadBalancerTrouble {
    match wanted {
        LoadBalancerFault::NoBackends {} => LoadBalancerTrouble::NoBackends,
        LoadBalancerFault::WrongBackends {} => LoadBalancerTrouble::WrongBackends,
        LoadBalancerFault::Reset(reset) => LoadBalancerTrouble::Reset {
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
