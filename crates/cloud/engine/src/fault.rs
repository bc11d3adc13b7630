//! Faults: rules that make operations of a namespace fail or wait, or affect its resources.
//!
//! ```text
//!   operation ──▶ is it one that faults apply to, and would it change something or read something that is there?
//!                   │ yes
//!                   ▼
//!   has a fault answered it, and is its time to retry not over? ──▶ the same answer, and no fault counts it
//!                   │ no: the faults of its namespace, in order of their names
//!                   ▼
//!   matches? ──▶ still active? ──▶ skipped enough? ──▶ draw ──▶ hit: the fault answers, no other fault is asked
//!      └─────────────┴────────────────────┴─────────────┴─────▶ no hit: the next fault
//! ```

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use nephele_model::{
    Budget, CloudError, Decided, Decisions, Earlier, FailureReason, FaultPhase, FaultRecord, LastHits,
    Matches, ResourceId, ResourceKind, SimTime, StageName, Turn, Verb, Window, count_step,
};
use serde::{Deserialize, Serialize};

use crate::{
    active_effect::{ActiveEffect, NoticeEnd},
    as_list,
    clock::CloudTime,
    hasher::StableHasher,
    latency::Latency,
    outcome::Outcome,
    read_after_write::{HiddenWrite, HiddenWrites},
    seed::{Decision, Seed},
    spec::ResourceSpec,
};

/// A rule that makes operations of its namespace fail or wait, or affects its resources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// The operations or resources that the fault selects.
    pub matches: Matches,
    pub effect: Effect,
    pub budget: Budget,
}

impl Fault {
    /// Whether it can be about an operation, whatever its subject is.
    pub(crate) fn concerns(&self, verb: Verb) -> bool {
        let Matches { operations, .. } = &self.matches;
        match &self.effect {
            Effect::Affect(_) => false,
            Effect::Leak if operations.is_empty() => verb == Verb::DeleteInstance,
            Effect::Leak => verb.is_deletion() && operations.contains(&verb),
            Effect::Duplicate { .. } => verb == Verb::CreateInstance,
            Effect::Lag(_) if verb.is_read() => false,
            _ if !operations.is_empty() => operations.contains(&verb),
            // What runs in a zone that is out of service can be deleted.
            Effect::Outage { .. } => verb == Verb::CreateInstance,
            Effect::Fail { .. } | Effect::Delay(_) | Effect::Lag(_) => !verb.is_read(),
        }
    }

    /// Whether it selects an instance or a load balancer that has reached these stages: it affects it, now or later, or
    /// operations on it. What its budget spares, and who calls the operation, decides the moment. `cluster` has the labels
    /// of the cluster; none if it has no load balancer.
    #[must_use]
    pub fn selects(
        &self,
        spec: &ResourceSpec,
        cluster: Option<&BTreeMap<String, String>>,
        has_reached: impl Fn(&StageName) -> bool,
    ) -> bool {
        let hits_operation = self.operations().any(|verb| verb.resource() == spec.id.kind);
        let affects = self.effect.active_effect().is_some_and(|active_effect| {
            spec.can_have(active_effect) && !active_effect.comes_too_late(&has_reached, &has_reached)
        });
        (hits_operation || affects) && fits(&self.matches, &Subject { spec, cluster })
    }

    /// The operations that it can hit.
    pub fn operations(&self) -> impl Iterator<Item = Verb> {
        Verb::ALL.into_iter().filter(|verb| self.concerns(*verb))
    }
}

/// What a fault does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// The cloud refuses an operation.
    Fail {
        reason: FailureReason,
        /// More words for the message.
        message: String,
        /// When the caller should ask again.
        retry_after: Duration,
    },
    /// An operation takes longer. A caller that asks before the delay is over is told to retry.
    Delay(Latency),
    /// Reads do not show what an operation has changed for this long, in the engine's time.
    Lag(Latency),
    /// The cloud says that an instance or a load balancer is deleted, and it still exists, see [`crate::Leaked`]. It affects
    /// deletions of instances, unless it names operations.
    Leak,
    /// No answer comes to a creation that is carried out, and a repetition makes another instance. The first one leaks.
    Duplicate {
        /// When the caller should ask again.
        retry_after: Duration,
    },
    /// Something is wrong with resources.
    #[serde(rename = "Afflict")]
    Affect(ActiveEffect),
    /// Something is wrong with resources, and the cloud refuses an operation.
    Outage {
        /// What is wrong with resources.
        #[serde(rename = "affliction")]
        active_effect: ActiveEffect,
        /// When the caller of an operation should ask again.
        retry_after: Duration,
    },
}

impl Effect {
    /// What is wrong with the resources that it hits. None if it hits only operations.
    #[must_use]
    pub fn active_effect(&self) -> Option<&ActiveEffect> {
        match self {
            Self::Affect(active_effect) | Self::Outage { active_effect, .. } => Some(active_effect),
            Self::Fail { .. } | Self::Delay(_) | Self::Lag(_) | Self::Leak | Self::Duplicate { .. } => None,
        }
    }
}

/// A hit of a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hit {
    pub at: SimTime,
    /// The operation. None if the fault affected the target.
    pub operation: Option<Verb>,
    /// The instance or load balancer.
    pub target: ResourceId,
}

/// A fault with what it has done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultState {
    pub id: ResourceId,
    pub fault: Fault,
    /// What it has decided about resources, and what it has done.
    #[serde(flatten)]
    pub decisions: Decisions<ResourceId>,
    pub last_hits: LastHits<Hit>,
    /// The resources that it affects, also those of an earlier process that were not adopted yet.
    #[serde(default)]
    #[serde(rename = "afflicted")]
    pub affected_ids: BTreeSet<ResourceId>,
    /// When its notices are over, by resource, also those of an earlier process.
    #[serde(default, with = "as_list", skip_serializing_if = "BTreeMap::is_empty")]
    pub notices: BTreeMap<ResourceId, CloudTime>,
    /// Whether an earlier process affected more than it could list.
    #[serde(default)]
    pub(crate) is_cut: bool,
    /// Whether the journal says that its time is over.
    pub(crate) has_ended: bool,
    /// When a window begins or ends next, or its time is over. None before it is put, and if that never happens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) changes_at: Option<SimTime>,
    /// How many draws were made for each call, see [`Call::key`].
    attempts: BTreeMap<u64, u32>,
    /// Until when each call that was delayed or refused has this answer: a caller that asks earlier is not counted again.
    #[serde(rename = "delayed")]
    answered: BTreeMap<u64, SimTime>,
    /// What it hides from reads, at most [`FaultState::CALLS_MAX`] changes.
    #[serde(default, with = "as_list", skip_serializing_if = "HiddenWrites::is_empty")]
    pub(crate) hidden: HiddenWrites,
}

/// An instance or a load balancer, as faults see it.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) spec: &'a ResourceSpec,
    /// The labels of the cluster. None if it has no load balancer.
    pub(crate) cluster: Option<&'a BTreeMap<String, String>>,
}

impl Subject<'_> {
    /// The name by which faults select it.
    pub(crate) fn name(&self) -> &str {
        let ResourceId {
            cluster, kind, name, ..
        } = &self.spec.id;
        if *kind == ResourceKind::LoadBalancer {
            cluster
        } else {
            name
        }
    }
}

/// An operation, as faults see it.
pub(crate) struct Call<'a> {
    pub(crate) verb: Verb,
    pub(crate) caller: &'a str,
    pub(crate) subject: Subject<'a>,
    /// Whether its subject can leak: there is a bound on how many of a cloud are leaked.
    pub(crate) can_leak: bool,
    pub(crate) at: SimTime,
    /// When its subject was adopted, if it reads one to which nothing has happened since.
    pub(crate) as_adopted: Option<SimTime>,
    pub(crate) key: OnceCell<u64>,
}

impl Call<'_> {
    /// Identifies the operation and the subject. Calls of different subjects may have the same key by accident, once in
    /// 2^64: then they share their number of attempts. Computed once for all faults that want it.
    pub(crate) fn key(&self) -> u64 {
        *self
            .key
            .get_or_init(|| call_key(self.verb, &self.subject.spec.id))
    }
}

/// Identifies an operation on a resource, see [`Call::key`].
pub(crate) fn call_key(verb: Verb, id: &ResourceId) -> u64 {
    let mut key = StableHasher::new();
    key.text(verb.as_str());
    key.id(id);
    let [a, b, c, d, e, f, g, h, ..] = key.finish();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// What the faults of a namespace do to a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Verdict {
    /// The names of the faults that counted the call. Such a call belongs into the journal, because a replay has to
    /// count it too.
    pub(crate) faults: Vec<String>,
    /// What the last of them does, if it hits the call.
    pub(crate) hit: Option<Strike>,
    /// The answer that the caller got before, and gets again. No fault counts the call.
    pub(crate) repeated: Option<Outcome>,
}

/// What one fault says to a call.
pub(crate) enum Answer {
    /// It does not match the call, or cannot hit any more.
    NotCounted,
    /// It counts the call and lets it pass.
    Passes,
    /// It counts the call and hits it.
    Hits(Strike),
}

/// What a fault does to a call that it hits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Strike {
    /// The operation is not carried out, and this is the answer.
    Instead(Outcome),
    /// The operation is carried out, and the caller gets this answer if it succeeds.
    After(CloudError),
    /// The instance or load balancer leaks, because of the fault of this name.
    Leak(String),
    /// The operation is carried out, and reads do not show its change.
    Lag(Lag),
    /// The operation is carried out, and a repetition makes another instance.
    Duplicate {
        /// The name of the fault.
        fault: String,
        /// The answer to the operation, if it succeeds.
        error: CloudError,
    },
}

/// How long reads do not show a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lag {
    /// The name of the fault.
    pub(crate) fault: String,
    /// The time after the operation.
    pub(crate) lasts: Duration,
}

impl FaultState {
    /// How many calls a fault remembers attempts or answers of: 16 KiB each. For calls beyond, draws are keyed by the
    /// number of the match, there is no delay, and a refusal counts each time. It also hides as many changes, 300 KiB, and
    /// lets those beyond show.
    const CALLS_MAX: usize = 1024;

    /// A fault with what it did in an earlier process, if anything.
    pub(crate) fn new(
        id: ResourceId,
        fault: Fault,
        record: FaultRecord,
        affected_ids: BTreeSet<ResourceId>,
        notices: BTreeMap<ResourceId, CloudTime>,
        skipped: BTreeSet<ResourceId>,
    ) -> Self {
        Self {
            id,
            fault,
            decisions: Decisions::new(record, skipped),
            last_hits: LastHits::default(),
            affected_ids,
            notices,
            is_cut: false,
            has_ended: false,
            changes_at: None,
            attempts: BTreeMap::new(),
            answered: BTreeMap::new(),
            hidden: HiddenWrites::new(),
        }
    }

    /// The same fault after a change of its specification. It keeps what it has done.
    pub(crate) fn changed(self, fault: Fault) -> Self {
        let hidden = match fault.effect {
            Effect::Lag(_) => self.hidden,
            _ => HiddenWrites::new(),
        };
        let attempts = match fault.effect {
            // It asks for no calls.
            Effect::Affect(_) => BTreeMap::new(),
            _ => self.attempts,
        };
        let answered = match (&self.fault.effect, &fault.effect) {
            (Effect::Delay(_), Effect::Delay(_)) => self.answered,
            (before, after) if before == after => self.answered,
            _ => BTreeMap::new(),
        };
        Self {
            fault,
            has_ended: false,
            hidden,
            attempts,
            answered,
            ..self
        }
    }

    /// The change of a resource that it hides from reads now.
    pub(crate) fn hides(&self, id: &ResourceId, now: SimTime) -> Option<&HiddenWrite> {
        count_step();
        self.hidden
            .get(id)
            .filter(|hidden| !hidden.is_over(now) && self.is_in_force(now))
    }

    /// Whether it can still hit.
    #[must_use]
    pub fn phase(&self, now: SimTime) -> FaultPhase {
        self.fault.budget.phase(&self.decisions.record, now)
    }

    /// The window of its schedule.
    pub(crate) fn window(&self, now: SimTime) -> Window {
        self.fault.budget.window(self.decisions.record.began, now)
    }

    /// Whether its time is not over, and it is in a window of its schedule.
    pub(crate) fn is_in_force(&self, now: SimTime) -> bool {
        self.fault.budget.is_in_force(self.decisions.record.began, now)
    }

    /// When a window of its schedule begins or ends next, or its time is over. A fault that cannot hit any more needs no
    /// more windows.
    pub(crate) fn next_change(&self, now: SimTime) -> Option<SimTime> {
        if self.has_ended {
            None
        } else {
            self.fault.budget.next_change(&self.decisions.record, now)
        }
    }

    /// Lets a window begin or end. Returns the resources that it affects no more.
    pub(crate) fn turn(&mut self, now: SimTime) -> BTreeSet<ResourceId> {
        match self.decisions.turn(&self.fault.budget, now) {
            Turn::Continues => BTreeSet::new(),
            Turn::Begins | Turn::Ends => {
                self.forget_refusals();
                self.let_go()
            }
        }
    }

    /// Each window decides again about the calls that it refuses.
    fn forget_refusals(&mut self) {
        if !matches!(self.fault.effect, Effect::Delay(_)) {
            self.answered.clear();
        }
    }

    /// Ends: its time is over. Returns the resources that it affects no more.
    pub(crate) fn end(&mut self) -> BTreeSet<ResourceId> {
        self.has_ended = true;
        self.forget_refusals();
        self.let_go()
    }

    /// Afflicts only those any more for which it is final. Returns the others.
    pub(crate) fn let_go(&mut self) -> BTreeSet<ResourceId> {
        let all = std::mem::take(&mut self.affected_ids);
        let (stay, cleared) = all.into_iter().partition(|id| self.is_final_for(id));
        self.affected_ids = stay;
        self.notices.retain(|id, _| self.affected_ids.contains(id));
        cleared
    }

    /// Forgets all resources. Returns those that it affected.
    pub(crate) fn forget_all(&mut self) -> BTreeSet<ResourceId> {
        self.notices.clear();
        self.decisions.forget_all();
        std::mem::take(&mut self.affected_ids)
    }

    /// Whether what it has done to a resource stays when a window or the time of the fault ends.
    fn is_final_for(&self, id: &ResourceId) -> bool {
        let Some(active_effect) = self.active_effect() else {
            return false;
        };
        let is_final = |active_effect: &ActiveEffect| active_effect.is_final;
        let comes_after = active_effect
            .notice
            .as_ref()
            .is_some_and(|notice| is_final(&notice.then));
        is_final(active_effect) || (comes_after && self.notice_end(id) == Some(NoticeEnd::OVER))
    }

    /// When its time is over.
    #[must_use]
    pub fn ends(&self) -> Option<SimTime> {
        self.fault.budget.ends(self.decisions.record.began)
    }

    /// Decides whether it affects a resource. Each decision is made once, and holds until the fault no longer matches
    /// the resource.
    pub(crate) fn decide(
        &mut self,
        subject: &Subject<'_>,
        at: SimTime,
        is_adopted: bool,
        seed: &Seed,
    ) -> Decided {
        let Subject { spec, .. } = subject;
        if !self.can_affect(subject) {
            self.forget(&spec.id);
            return Decided::PassedOver;
        }
        let is_kept = self.is_in_force(at) || self.is_final_for(&spec.id);
        if is_kept && self.affected_ids.contains(&spec.id) {
            return Decided::Hit;
        }
        let Self {
            id,
            fault: Fault { budget, .. },
            decisions,
            ..
        } = self;
        let earlier = match (is_adopted, self.is_cut) {
            (false, _) => Earlier::Nothing,
            (true, false) => Earlier::Listed,
            (true, true) => Earlier::Drawn,
        };
        let decision = Decision::ActiveEffect { fault: &id.name };
        let decided = decisions.decide(budget, &spec.id, at, earlier, |window| {
            let window = u32::try_from(window).unwrap_or(u32::MAX);
            seed.draws(spec.drawn_by(), decision, window)
                .happens(budget.probability)
        });
        match decided {
            Decided::PassedOver => return decided,
            Decided::Hit => self.last_hits.push(Hit {
                at,
                operation: None,
                target: spec.id.clone(),
            }),
            Decided::HitBefore => {}
        }
        self.affected_ids.insert(spec.id.clone());
        decided
    }

    /// Whether it matches a resource that can have its active effect.
    pub(crate) fn can_affect(&self, subject: &Subject<'_>) -> bool {
        self.active_effect()
            .is_some_and(|active_effect| subject.spec.can_have(active_effect))
            && fits(&self.fault.matches, subject)
    }

    /// Whether it keeps something about a resource.
    pub(crate) fn knows(&self, id: &ResourceId) -> bool {
        count_step();
        self.affected_ids.contains(id) || self.decisions.knows(id) || self.notices.contains_key(id)
    }

    /// The resources about which it keeps something. One may appear more than once.
    pub(crate) fn known(&self) -> impl Iterator<Item = &ResourceId> {
        self.affected_ids
            .iter()
            .chain(self.decisions.known())
            .chain(self.notices.keys())
    }

    /// Forgets a resource that is gone, or that it no longer matches.
    pub(crate) fn forget(&mut self, id: &ResourceId) {
        self.notices.remove(id);
        self.affected_ids.remove(id);
        self.decisions.forget(id);
    }

    /// The keys of the calls of which it remembers something. One may appear more than once.
    pub(crate) fn calls(&self) -> impl Iterator<Item = u64> {
        self.attempts.keys().chain(self.answered.keys()).copied()
    }

    /// Whether it remembers something of a call.
    pub(crate) fn remembers(&self, key: u64) -> bool {
        self.attempts.contains_key(&key) || self.answered.contains_key(&key)
    }

    /// Forgets a call about a resource that is gone.
    pub(crate) fn forget_call(&mut self, key: u64) {
        self.attempts.remove(&key);
        self.answered.remove(&key);
    }

    /// When its notice to a resource is over, if it has given one.
    pub(crate) fn notice_end(&self, id: &ResourceId) -> Option<CloudTime> {
        self.notices.get(id).copied()
    }

    /// The answer to a call that was answered before, and whose caller asks earlier than it was told.
    pub(crate) fn repeated(&self, call: &Call<'_>) -> Option<Outcome> {
        let until = *self.answered.get(&call.key())?;
        if call.at >= until || !self.is_in_force(call.at) || !self.concerns(call) {
            return None;
        }
        let refusal = self.refusal(until.since(call.at));
        Some(refusal.map_or(Outcome::Delayed { until }, Outcome::Refused))
    }

    /// Decides about a call that it does not answer as before.
    pub(crate) fn strike(&mut self, call: &Call<'_>, seed: &Seed) -> Answer {
        count_step();
        let is_active = self.decisions.is_active(&self.fault.budget, call.at);
        let delays = matches!(self.fault.effect, Effect::Delay(_)) && !self.answered.is_empty();
        let may_count = is_active || delays;
        // What was in force before a restart has met the reads before it.
        let is_of_restart = call
            .as_adopted
            .is_some_and(|at| self.decisions.record.began <= at);
        if !may_count || is_of_restart || !self.concerns(call) {
            return Answer::NotCounted;
        }
        if delays && self.answered.remove(&call.key()).is_some() {
            return Answer::Passes;
        }
        if !is_active {
            return Answer::NotCounted;
        }
        if !self.decisions.record.count_match(&self.fault.budget) {
            return Answer::Passes;
        }
        self.hit(call, seed).map_or(Answer::Passes, Answer::Hits)
    }

    /// Decides whether a call that was counted, and that its budget does not skip, is hit.
    fn hit(&mut self, call: &Call<'_>, seed: &Seed) -> Option<Strike> {
        let attempt = self.attempt(call.key());
        let odds = self.fault.budget.probability;
        let decision = Decision::Fault {
            fault: &self.id.name,
            operation: call.verb,
        };
        if !seed
            .draws(call.subject.spec.drawn_by(), decision, attempt)
            .happens(odds)
        {
            return None;
        }
        let strike = self.effect(call, attempt, seed)?;
        let target = call.subject.spec.id.clone();
        self.decisions.record.count_hit();
        self.last_hits.push(Hit {
            at: call.at,
            operation: Some(call.verb),
            target,
        });
        Some(strike)
    }

    /// Whether it matches a call.
    fn concerns(&self, call: &Call<'_>) -> bool {
        let Matches { callers, .. } = &self.fault.matches;
        self.fault.concerns(call.verb)
            && (call.can_leak || !matches!(self.fault.effect, Effect::Leak | Effect::Duplicate { .. }))
            && (callers.is_empty() || callers.iter().any(|caller| caller.as_str() == call.caller))
            && fits(&self.fault.matches, &call.subject)
    }

    /// The number of this call among the same calls. Draws are keyed by it, so that they do not depend on other calls.
    fn attempt(&mut self, key: u64) -> u32 {
        if self.attempts.len() == Self::CALLS_MAX && !self.attempts.contains_key(&key) {
            return u32::try_from(self.decisions.record.matched).unwrap_or(u32::MAX);
        }
        let attempt = self.attempts.entry(key).or_default();
        *attempt = attempt.saturating_add(1);
        *attempt
    }

    fn error(&self, reason: FailureReason, message: &str, retry_after: Duration) -> CloudError {
        CloudError::Fault {
            fault: self.id.name.clone(),
            reason,
            message: message.to_owned(),
            retry_after,
        }
    }

    /// What it answers instead of carrying out a call, if it refuses calls.
    fn refusal(&self, retry_after: Duration) -> Option<CloudError> {
        match &self.fault.effect {
            Effect::Outage { .. } => Some(self.error(FailureReason::Unavailable, "", retry_after)),
            Effect::Fail { reason, message, .. } if *reason != FailureReason::LostAnswer => {
                Some(self.error(*reason, message, retry_after))
            }
            _ => None,
        }
    }

    fn effect(&mut self, call: &Call<'_>, attempt: u32, seed: &Seed) -> Option<Strike> {
        match &self.fault.effect {
            Effect::Affect(_) => None,
            Effect::Leak => Some(Strike::Leak(self.id.name.clone())),
            Effect::Duplicate { retry_after } => {
                let error = self.error(FailureReason::LostAnswer, "", *retry_after);
                Some(Strike::Duplicate {
                    fault: self.id.name.clone(),
                    error,
                })
            }
            Effect::Lag(latency) => {
                if self.hidden.len() == Self::CALLS_MAX {
                    self.hidden.retain(|_, hidden| !hidden.is_over(call.at));
                }
                if self.hidden.len() == Self::CALLS_MAX {
                    return None;
                }
                let decision = Decision::FaultLag {
                    fault: &self.id.name,
                    operation: call.verb,
                };
                let lasts = latency.draw(&mut seed.draws(call.subject.spec.drawn_by(), decision, attempt));
                Some(Strike::Lag(Lag {
                    fault: self.id.name.clone(),
                    lasts,
                }))
            }
            Effect::Outage { retry_after, .. } | Effect::Fail { retry_after, .. } => {
                let retry_after = *retry_after;
                let Some(error) = self.refusal(retry_after) else {
                    let error = self.error(FailureReason::LostAnswer, "", retry_after);
                    return Some(Strike::After(error));
                };
                // Whatever forgets a call finds it among the attempts.
                if !retry_after.is_zero() && self.attempts.contains_key(&call.key()) {
                    self.answered.insert(call.key(), call.at + retry_after);
                }
                Some(Strike::Instead(Outcome::Refused(error)))
            }
            Effect::Delay(latency) => {
                if self.answered.len() == Self::CALLS_MAX {
                    return None;
                }
                let decision = Decision::FaultDelay {
                    fault: &self.id.name,
                    operation: call.verb,
                };
                let until =
                    call.at + latency.draw(&mut seed.draws(call.subject.spec.drawn_by(), decision, attempt));
                self.answered.insert(call.key(), until);
                Some(Strike::Instead(Outcome::Delayed { until }))
            }
        }
    }
}

/// Whether a fault that matches these affects an instance or a load balancer.
fn fits(matches: &Matches, subject: &Subject<'_>) -> bool {
    let Matches {
        operations: _,
        callers: _,
        names,
        pools: _,
        zones,
        regions,
        instance_types,
        markets,
        cluster,
        instance,
    } = matches;
    let ResourceSpec {
        id,
        zone,
        region,
        instance_type,
        market,
        labels,
        ..
    } = subject.spec;
    let is_one = |set: &BTreeSet<String>, value: Option<&str>| {
        set.is_empty() || value.is_some_and(|value| set.contains(value))
    };
    let none = BTreeMap::new();
    is_one(names, Some(subject.name()))
        && is_one(zones, zone.as_deref())
        && is_one(regions, region.as_deref())
        && is_one(instance_types, instance_type.as_deref())
        && (markets.is_empty() || (id.kind == ResourceKind::Instance && markets.contains(market)))
        && cluster.fits(subject.cluster.unwrap_or(&none))
        && (instance.is_empty() || (id.kind == ResourceKind::Instance && instance.fits(labels)))
}
