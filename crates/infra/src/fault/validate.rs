//! The fault that a Fault describes. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use nephele_api::cloud::v1alpha1::{
    self, AFFECTED_MAX, ApiServerFault, BootstrapFault, CertificateFault, ConnectionReset, CutWatches, Delay,
    Duplicate, ERROR_CODES, EtcdFault, Fail, FaultEffect, FaultMatch, FaultSpec, FaultyCondition, Hold,
    LoadBalancerFault, NoSettings, NodeReboot, Outage, RequestError, SpotReclaim,
};
use nephele_cloud::{Caller, Effect, FailureReason, Fault, Latency, Matches, affliction_of};
use nephele_fault::{Mistake, TURN_MIN, duration, fraction, mistake, selector};
use nephele_model::{
    ApiServerTrouble, ApiServerTroubleKind, BootstrapPhase, ClockSkew, EarlyExpiry, EtcdAlarm, Flap,
    LoadBalancerTrouble, Market, NodeCondition, OtherName, Stage, Symptom, Verb,
};

/// When a failed operation is tried again, unless the Fault says otherwise: often enough to see that a Fault is gone,
/// and seldom enough to read the log.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// How long before its end a spot instance is told, unless the Fault says otherwise: as long as in a large real cloud.
const NOTICE: Duration = Duration::from_secs(120);
/// How long an instance is down that reboots, unless the Fault says otherwise: as long as a virtual machine needs.
const DOWN_FOR: Duration = Duration::from_secs(30);
/// The shortest time until a failed operation is tried again: with less, a machine would keep a processor busy.
const RETRY_AFTER_MIN: Duration = Duration::from_millis(100);
/// The verbs of requests that read.
const READS: [&str; 3] = ["get", "list", "watch"];

/// The fault of a spec. The schema refuses every mistake; this is for objects that got past the schema.
pub(super) fn validate(spec: &FaultSpec) -> Result<Fault, Mistake> {
    let FaultSpec { matches, effect, budget } = spec;
    let fault = Fault {
        matches: matched(matches)?,
        effect: effect_of(effect)?,
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
        return Err(mistake("match.callers", caller, "for a fault of machines or API servers"));
    }
    Ok(fault)
}

fn matched(wanted: &FaultMatch) -> Result<Matches, Mistake> {
    let FaultMatch {
        operations,
        callers,
        names,
        pools,
        zones,
        regions,
        instance_types,
        markets,
        cluster_selector,
        machine_selector,
    } = wanted;
    if let Some(pool) = pools.first() {
        return Err(mistake("match.pools", pool, "for a fault of machines or API servers"));
    }
    let set = |values: &[String]| values.iter().cloned().collect::<BTreeSet<_>>();
    Ok(Matches {
        operations: operations.iter().map(|name| operation(name)).collect::<Result<_, _>>()?,
        callers: callers.iter().map(|name| caller(name)).collect::<Result<_, _>>()?,
        names: set(names),
        zones: set(zones),
        regions: set(regions),
        instance_types: set(instance_types),
        markets: markets.iter().map(|name| market(name)).collect::<Result<_, _>>()?,
        group: selector("match.clusterSelector", cluster_selector.as_ref())?,
        instance: selector("match.machineSelector", machine_selector.as_ref())?,
    })
}

fn operation(name: &str) -> Result<Verb, Mistake> {
    let found = Verb::ALL.into_iter().find(|verb| verb.as_str() == name);
    found.ok_or_else(|| mistake("match.operations", name, "an operation of the cloud"))
}

fn caller(name: &str) -> Result<String, Mistake> {
    let found = Caller::ALL.into_iter().find(|caller| caller.as_str() == name);
    let found = found.ok_or_else(|| mistake("match.callers", name, "a caller of the cloud"))?;
    Ok(found.as_str().to_owned())
}

fn market(name: &str) -> Result<Market, Mistake> {
    let found = Market::ALL.into_iter().find(|market| market.as_str() == name);
    found.ok_or_else(|| mistake("match.markets", name, "OnDemand or Spot"))
}

fn effect_of(wanted: &FaultEffect) -> Result<Effect, Mistake> {
    let FaultEffect {
        fail,
        delay,
        outage,
        not_ready,
        node_condition,
        freeze,
        vanish,
        hold,
        api_server,
        etcd,
        certificate,
        load_balancer,
        wrong_provider_id,
        flap,
        leak,
        spot_reclaim,
        bootstrap,
        clock_skew,
        duplicate,
        lag,
        node_reboots_as,
        // The IPAM provider carries these out.
        addresses: _,
    } = wanted;
    let afflict = |symptom: Symptom| Effect::Afflict(affliction_of(&symptom));
    let effects = [
        fail.as_ref().map(failing),
        delay.as_ref().map(|wanted| {
            delaying("effect.delay.duration", "effect.delay.jitter", wanted).map(Effect::Delay)
        }),
        outage.as_ref().map(out_of_service),
        not_ready.as_ref().map(|NoSettings {}| Ok(afflict(Symptom::NotReady))),
        node_condition.as_ref().map(|wanted| condition(wanted).map(Symptom::NodeCondition).map(afflict)),
        freeze.as_ref().map(|NoSettings {}| Ok(afflict(Symptom::Frozen))),
        vanish.as_ref().map(|NoSettings {}| Ok(afflict(Symptom::Vanished))),
        hold.as_ref().map(|Hold { stage }| held(stage).map(Symptom::Held).map(afflict)),
        api_server.as_ref().map(|wanted| trouble(wanted).map(Symptom::ApiServer).map(afflict)),
        etcd.as_ref().map(|wanted| etcd_symptom(wanted).map(afflict)),
        certificate.as_ref().map(|wanted| expiry(wanted).map(Symptom::Certificate).map(afflict)),
        load_balancer.as_ref().map(|wanted| balancer(wanted).map(Symptom::LoadBalancer).map(afflict)),
        wrong_provider_id.as_ref().map(|NoSettings {}| Ok(afflict(Symptom::WrongProviderId))),
        flap.as_ref().map(|wanted| flapping(wanted).map(Symptom::Flapping).map(afflict)),
        leak.as_ref().map(|NoSettings {}| Ok(Effect::Leak)),
        spot_reclaim.as_ref().map(|wanted| notice(wanted).map(Symptom::SpotReclaim).map(afflict)),
        bootstrap.as_ref().map(|wanted| bootstrap_phase(wanted).map(Symptom::BootstrapFailed).map(afflict)),
        clock_skew.as_ref().map(|wanted| skew(wanted).map(Symptom::ClockSkew).map(afflict)),
        lag.as_ref()
            .map(|wanted| delaying("effect.lag.duration", "effect.lag.jitter", wanted).map(Effect::Lag)),
        duplicate.as_ref().map(|Duplicate { retry_after }| {
            Ok(Effect::Duplicate { retry_after: retry("effect.duplicate.retryAfter", retry_after)? })
        }),
        node_reboots_as.as_ref().map(|wanted| reboot(wanted).map(afflict)),
    ];
    let mut set = effects.into_iter().flatten();
    match (set.next(), set.next()) {
        (Some(effect), None) => effect,
        (None, _) => Err(mistake("effect", "{}", "exactly one effect")),
        (Some(_), Some(_)) => Err(mistake("effect", "more than one", "exactly one effect")),
    }
}

fn failing(Fail { reason, message, retry_after }: &Fail) -> Result<Effect, Mistake> {
    let retry_after = retry("effect.fail.retryAfter", retry_after)?;
    Ok(Effect::Fail { reason: failure(reason)?, message: message.clone(), retry_after })
}

fn delaying(
    of_duration: &'static str,
    of_jitter: &'static str,
    Delay { duration: base, jitter }: &Delay,
) -> Result<Latency, Mistake> {
    let base = duration(of_duration, base)?;
    let fraction = fraction(of_jitter, jitter)?.unwrap_or_default();
    Ok(Latency::Jittered { base, fraction })
}

fn out_of_service(Outage { retry_after }: &Outage) -> Result<Effect, Mistake> {
    let retry_after = retry("effect.outage.retryAfter", retry_after)?;
    Ok(Effect::Outage { affliction: affliction_of(&Symptom::Frozen), retry_after })
}

fn notice(SpotReclaim { notice }: &SpotReclaim) -> Result<Duration, Mistake> {
    if notice.is_empty() { Ok(NOTICE) } else { duration("effect.spotReclaim.notice", notice) }
}

fn reboot(NodeReboot { name_suffix, down_for }: &NodeReboot) -> Result<Symptom, Mistake> {
    let is_of_name = |c: char| c == '-' || c.is_ascii_lowercase() || c.is_ascii_digit();
    if !name_suffix.chars().all(is_of_name) || !name_suffix.ends_with(|c| c != '-') {
        return Err(mistake("effect.nodeRebootsAs.nameSuffix", name_suffix, "the end of the name of a Node"));
    }
    let down_for = match down_for.as_str() {
        "" => DOWN_FOR,
        text => duration("effect.nodeRebootsAs.downFor", text)?,
    };
    Ok(Symptom::Rebooting { down_for, name: OtherName::new(name_suffix) })
}

fn retry(field: &'static str, text: &str) -> Result<Duration, Mistake> {
    if text.is_empty() { Ok(RETRY_AFTER) } else { Ok(duration(field, text)?.max(RETRY_AFTER_MIN)) }
}

fn condition(wanted: &FaultyCondition) -> Result<NodeCondition, Mistake> {
    let FaultyCondition { kind, status, reason, message } = wanted;
    if kind.is_empty() {
        return Err(mistake("effect.nodeCondition.type", kind, "the type of a condition"));
    }
    if !["True", "False", "Unknown"].contains(&status.as_str()) {
        return Err(mistake("effect.nodeCondition.status", status, "True, False or Unknown"));
    }
    let reason = if reason.is_empty() { "SimulatedFault" } else { reason };
    let (kind, status, message) = (kind.clone(), status.clone(), message.clone());
    Ok(NodeCondition { kind, status, reason: reason.to_owned(), message })
}

fn trouble(wanted: &ApiServerFault) -> Result<ApiServerTrouble, Mistake> {
    let ApiServerFault { down, error, latency, cut_watches, stale_reads, verbs, resources } = wanted;
    let kinds = [
        down.as_ref().map(|NoSettings {}| Ok(ApiServerTroubleKind::Down)),
        error.as_ref().map(request_error),
        latency.as_ref().map(|Delay { duration: base, jitter }| {
            let base = duration("effect.apiServer.latency.duration", base)?;
            let jitter = fraction("effect.apiServer.latency.jitter", jitter)?.unwrap_or_default();
            Ok(ApiServerTroubleKind::Latency { base, jitter_per_million: per_million(jitter) })
        }),
        cut_watches.as_ref().map(|CutWatches { after }| {
            Ok(ApiServerTroubleKind::Cut { after: duration("effect.apiServer.cutWatches.after", after)? })
        }),
        stale_reads.as_ref().map(|NoSettings {}| Ok(ApiServerTroubleKind::Stale)),
    ];
    let mut set = kinds.into_iter().flatten();
    let (Some(kind), None) = (set.next(), set.next()) else {
        let expected = "exactly one of down, error, latency, cutWatches and staleReads";
        return Err(mistake("effect.apiServer", "", expected));
    };
    let is_read = |verb: &&String| READS.contains(&verb.as_str());
    let verbs = match (cut_watches, stale_reads) {
        (Some(_), _) => vec!["watch".to_owned()],
        (None, Some(_)) if verbs.is_empty() => READS.map(str::to_owned).to_vec(),
        (None, Some(_)) => match verbs.iter().find(|verb| !is_read(verb)) {
            Some(verb) => return Err(mistake("effect.apiServer.verbs", verb, "get, list or watch")),
            None => verbs.clone(),
        },
        (None, None) => verbs.clone(),
    };
    Ok(ApiServerTrouble { verbs, resources: resources.clone(), kind: kind? })
}

fn bootstrap_phase(BootstrapFault { failed_phase }: &BootstrapFault) -> Result<BootstrapPhase, Mistake> {
    let found = BootstrapPhase::ALL.into_iter().find(|phase| phase.as_str() == failed_phase);
    found.ok_or_else(|| mistake("effect.bootstrap.failedPhase", failed_phase, "a phase of kubeadm"))
}

fn skew(v1alpha1::ClockSkew { ahead, behind }: &v1alpha1::ClockSkew) -> Result<ClockSkew, Mistake> {
    match (ahead.as_str(), behind.as_str()) {
        ("", "") => Err(mistake("effect.clockSkew", "", "exactly one of ahead and behind")),
        (ahead, "") => duration("effect.clockSkew.ahead", ahead).map(ClockSkew::Ahead),
        ("", behind) => duration("effect.clockSkew.behind", behind).map(ClockSkew::Behind),
        (_, _) => Err(mistake("effect.clockSkew", "both", "exactly one of ahead and behind")),
    }
}

fn etcd_symptom(wanted: &EtcdFault) -> Result<Symptom, Mistake> {
    let EtcdFault { alarm, no_leader, slow, hidden_member } = wanted;
    let symptoms = [
        Some(alarm.as_str()).filter(|alarm| !alarm.is_empty()).map(|alarm| match alarm {
            "NoSpace" => Ok(Symptom::EtcdAlarm(EtcdAlarm::NoSpace)),
            "Corrupt" => Ok(Symptom::EtcdAlarm(EtcdAlarm::Corrupt)),
            other => Err(mistake("effect.etcd.alarm", other, "an alarm of etcd")),
        }),
        no_leader.as_ref().map(|NoSettings {}| Ok(Symptom::EtcdWithoutLeader)),
        slow.as_ref().map(|Delay { duration: base, jitter }| {
            let base = duration("effect.etcd.slow.duration", base)?;
            let jitter = fraction("effect.etcd.slow.jitter", jitter)?.unwrap_or_default();
            Ok(Symptom::EtcdSlow { base, jitter_per_million: per_million(jitter) })
        }),
        hidden_member.as_ref().map(|NoSettings {}| Ok(Symptom::EtcdMemberHidden)),
    ];
    let mut set = symptoms.into_iter().flatten();
    let (Some(symptom), None) = (set.next(), set.next()) else {
        return Err(mistake("effect.etcd", "", "exactly one of alarm, noLeader, slow and hiddenMember"));
    };
    symptom
}

fn expiry(CertificateFault { expires_in, expired }: &CertificateFault) -> Result<EarlyExpiry, Mistake> {
    match (expires_in.as_str(), expired) {
        ("", Some(NoSettings {})) => Ok(EarlyExpiry::new(Duration::ZERO)),
        ("", None) | (_, Some(_)) => {
            Err(mistake("effect.certificate", "", "exactly one of expiresIn and expired"))
        }
        (text, None) => duration("effect.certificate.expiresIn", text).map(EarlyExpiry::new),
    }
}

fn balancer(wanted: &LoadBalancerFault) -> Result<LoadBalancerTrouble, Mistake> {
    let LoadBalancerFault { no_backends, wrong_backends, reset } = wanted;
    let troubles = [
        no_backends.as_ref().map(|NoSettings {}| Ok(LoadBalancerTrouble::NoBackends)),
        wrong_backends.as_ref().map(|NoSettings {}| Ok(LoadBalancerTrouble::WrongBackends)),
        reset.as_ref().map(|ConnectionReset { after, probability }| {
            let after = duration("effect.loadBalancer.reset.after", after)?;
            let probability = fraction("effect.loadBalancer.reset.probability", probability)?.unwrap_or(1.0);
            Ok(LoadBalancerTrouble::Reset { after, per_million: per_million(probability) })
        }),
    ];
    let mut set = troubles.into_iter().flatten();
    let (Some(trouble), None) = (set.next(), set.next()) else {
        let expected = "exactly one of noBackends, wrongBackends and reset";
        return Err(mistake("effect.loadBalancer", "", expected));
    };
    trouble
}

fn flapping(v1alpha1::Flap { up, down }: &v1alpha1::Flap) -> Result<Flap, Mistake> {
    let turn = |field, text: &str| {
        let turn = duration(field, text)?;
        if turn < TURN_MIN { Err(mistake(field, text, "at least 1s")) } else { Ok(turn) }
    };
    Ok(Flap::new(turn("effect.flap.down", down)?, turn("effect.flap.up", up)?))
}

fn request_error(RequestError { code, probability }: &RequestError) -> Result<ApiServerTroubleKind, Mistake> {
    let known = ERROR_CODES.contains(code).then(|| u16::try_from(*code).ok()).flatten();
    let code =
        known.ok_or_else(|| mistake("effect.apiServer.error.code", code, "a status code of an error"))?;
    let probability = fraction("effect.apiServer.error.probability", probability)?.unwrap_or(1.0);
    Ok(ApiServerTroubleKind::Error { code, per_million: per_million(probability) })
}

/// A fraction from 0 to 1 in millionths.
fn per_million(fraction: f64) -> u32 {
    (fraction.clamp(0.0, 1.0) * 1e6).round() as u32
}

fn held(name: &str) -> Result<Stage, Mistake> {
    let found = Stage::ALL.into_iter().find(|stage| stage.as_str() == name);
    found.ok_or_else(|| mistake("effect.hold.stage", name, "a stage of a machine's start"))
}

fn failure(reason: &str) -> Result<FailureReason, Mistake> {
    match reason {
        "InsufficientCapacity" => Ok(FailureReason::InsufficientCapacity),
        "QuotaExceeded" => Ok(FailureReason::QuotaExceeded),
        "Throttled" => Ok(FailureReason::Throttled),
        "InvalidImage" => Ok(FailureReason::InvalidImage),
        "Unauthorized" => Ok(FailureReason::Unauthorized),
        "InternalError" => Ok(FailureReason::InternalError),
        "Unavailable" => Ok(FailureReason::Unavailable),
        "Timeout" => Ok(FailureReason::Timeout),
        "LostAnswer" => Ok(FailureReason::LostAnswer),
        other => Err(mistake("effect.fail.reason", other, "a reason")),
    }
}

#[cfg(test)]
mod tests;
