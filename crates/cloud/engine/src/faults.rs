//! The faults of all namespaces.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use nephele_model::{Decided, FaultRecord, ResourceId, ResourceKind, SimTime, Verb};

use crate::{
    active_effect::NoticeEnd,
    clock::CloudTime,
    fault::{Answer, Call, Effect, Fault, FaultState, Subject, Verdict, call_key},
    fault_index::{Asked, FaultIndex},
    read_after_write::HiddenWrite,
    seed::Seed,
};

/// The faults of all namespaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    by_namespace: BTreeMap<String, OfNamespace>,
    /// When the time of each fault is over, or a window of its schedule begins or ends.
    changes: BTreeSet<(SimTime, ResourceId)>,
}

/// What an earlier process knew about the resources of a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownBefore<'a> {
    /// The resources that it affected.
    pub(crate) affected_ids: &'a [ResourceId],
    /// Whether it affected more than these.
    pub(crate) is_cut: bool,
    /// When its notices are over.
    pub(crate) notices: &'a [NoticeEnd],
    /// The resources that passed because its budget skips the first ones.
    pub(crate) skipped: &'a [ResourceId],
}

/// What happens to a fault as time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A window of its schedule begins.
    WindowBegins,
    /// A window of its schedule ends.
    WindowEnds,
    /// Its time is over.
    Ends,
}

/// The faults of a namespace.
#[derive(Clone, Debug, Default)]
struct OfNamespace {
    by_name: BTreeMap<Arc<str>, FaultState>,
    /// Which of them can be about an operation or a resource.
    index: FaultIndex,
    /// Which of them keep something about a resource.
    knowing: BTreeMap<ResourceId, BTreeSet<Arc<str>>>,
    /// Which of them can hide changes from reads. There are few.
    hiding: BTreeSet<Arc<str>>,
    /// Which of them remember something of a call, by its key.
    calling: BTreeMap<u64, BTreeSet<Arc<str>>>,
}

impl Faults {
    /// All faults, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &FaultState> {
        self.by_namespace
            .values()
            .flat_map(|faults| faults.by_name.values())
    }

    pub(crate) fn get(&self, id: &ResourceId) -> Option<&FaultState> {
        self.of_namespace(id)?.by_name.get(id.name.as_str())
    }

    /// The faults of the namespace of a fault. None for another kind of resource.
    fn of_namespace(&self, id: &ResourceId) -> Option<&OfNamespace> {
        self.by_namespace
            .get(&id.namespace)
            .filter(|_| id.kind == ResourceKind::Fault)
    }

    fn of_namespace_mut(&mut self, id: &ResourceId) -> Option<&mut OfNamespace> {
        self.by_namespace
            .get_mut(&id.namespace)
            .filter(|_| id.kind == ResourceKind::Fault)
    }

    /// Whether there are no faults. Such a cloud pays nothing for them.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_namespace.is_empty()
    }

    /// Adds a fault, or changes it. A changed fault keeps what it has done. Returns what it affects no more because a window
    /// has ended or begun meanwhile; none if nothing changed.
    pub(crate) fn put(
        &mut self,
        now: SimTime,
        id: &ResourceId,
        fault: &Fault,
        record: FaultRecord,
        known: KnownBefore<'_>,
    ) -> Option<BTreeSet<ResourceId>> {
        let mut state = match self.get(id) {
            Some(known) if known.fault == *fault => return None,
            Some(known) => known.clone().changed(fault.clone()),
            None => {
                let KnownBefore {
                    affected_ids,
                    is_cut,
                    notices,
                    skipped,
                } = known;
                let affected_ids = affected_ids.iter().cloned().collect();
                let notices = notices
                    .iter()
                    .map(|notice| (notice.id.clone(), notice.ends))
                    .collect();
                let skipped = skipped.iter().cloned().collect();
                let mut new =
                    FaultState::new(id.clone(), fault.clone(), record, affected_ids, notices, skipped);
                new.is_cut = is_cut;
                // It ended in an earlier process, or while there was none.
                if new.ends().is_some_and(|ends| ends <= now) {
                    new.end();
                }
                new
            }
        };
        let is_over = state.ends().is_some_and(|ends| ends <= now);
        // The journal tells of the end when it is polled next.
        let mut cleared = if is_over { state.let_go() } else { state.turn(now) };
        match state.active_effect() {
            None => cleared.append(&mut state.forget_all()),
            Some(active_effect) if active_effect.notice.is_none() => state.notices.clear(),
            Some(_) => {}
        }
        state.changes_at = state.next_change(now);
        self.insert(state);
        Some(cleared)
    }

    /// Lets a fault decide nothing new, or decide again. Returns whether that changed.
    pub(crate) fn set_paused(&mut self, id: &ResourceId, paused: bool) -> bool {
        let known = self
            .of_namespace_mut(id)
            .and_then(|faults| faults.by_name.get_mut(id.name.as_str()));
        known.is_some_and(|state| std::mem::replace(&mut state.decisions.paused, paused) != paused)
    }

    /// Adds a fault as it was. Replaces a fault of the same name.
    pub(crate) fn insert(&mut self, state: FaultState) {
        self.remove(&state.id);
        self.changes
            .extend(state.changes_at.map(|at| (at, state.id.clone())));
        self.by_namespace
            .entry(state.id.namespace.clone())
            .or_default()
            .insert(state);
    }

    /// Removes a fault, and returns it.
    pub(crate) fn remove(&mut self, id: &ResourceId) -> Option<FaultState> {
        let faults = self.of_namespace_mut(id)?;
        let state = faults.remove(&id.name)?;
        if faults.by_name.is_empty() {
            self.by_namespace.remove(&id.namespace);
        }
        if let Some(at) = state.changes_at {
            self.changes.remove(&(at, state.id.clone()));
        }
        Some(state)
    }

    /// The names of the faults that may have something to decide about a resource, in order: those that can affect it,
    /// and those that have decided about it.
    pub(crate) fn deciding(&self, subject: &Subject<'_>) -> BTreeSet<Arc<str>> {
        let Some(faults) = self.by_namespace.get(&subject.spec.id.namespace) else {
            return BTreeSet::new();
        };
        let mut names: BTreeSet<_> = faults
            .index
            .candidates(Asked::Resource, subject)
            .into_iter()
            .cloned()
            .collect();
        let affects = |name: &&Arc<str>| {
            faults
                .by_name
                .get(*name)
                .is_some_and(|state| state.active_effect().is_some())
        };
        let knowing = faults.knowing.get(&subject.spec.id);
        names.extend(knowing.into_iter().flatten().filter(affects).cloned());
        names
    }

    /// Lets a fault decide about a resource.
    pub(crate) fn decide(
        &mut self,
        fault: &ResourceId,
        subject: &Subject<'_>,
        at: SimTime,
        is_adopted: bool,
        seed: &Seed,
    ) -> Decided {
        let Some(faults) = self.of_namespace_mut(fault) else {
            return Decided::PassedOver;
        };
        let Some(state) = faults.by_name.get_mut(fault.name.as_str()) else {
            return Decided::PassedOver;
        };
        let decided = state.decide(subject, at, is_adopted, seed);
        faults.note(&fault.name, &subject.spec.id);
        decided
    }

    /// Keeps when the notice of a fault to a resource is over.
    pub(crate) fn keep_notice(&mut self, fault: &ResourceId, id: &ResourceId, ends: CloudTime) {
        let Some(faults) = self.of_namespace_mut(fault) else {
            return;
        };
        if let Some(state) = faults.by_name.get_mut(fault.name.as_str()) {
            state.notices.insert(id.clone(), ends);
            faults.note(&fault.name, id);
        }
    }

    /// Lets a fault forget a resource.
    pub(crate) fn forget_in(&mut self, fault: &ResourceId, id: &ResourceId) {
        let Some(faults) = self.of_namespace_mut(fault) else {
            return;
        };
        if let Some(state) = faults.by_name.get_mut(fault.name.as_str())
            && state.knows(id)
        {
            state.forget(id);
            faults.no_longer_knows(&fault.name, id);
        }
    }

    /// Forgets a resource that is gone. Returns whether a fault knew something of it.
    pub(crate) fn forget(&mut self, id: &ResourceId) -> bool {
        let Some(faults) = self.by_namespace.get_mut(&id.namespace) else {
            return false;
        };
        let knowing = faults.knowing.remove(id);
        let mut was_known = knowing.is_some();
        for name in knowing.into_iter().flatten() {
            faults
                .by_name
                .get_mut(&name)
                .expect("a fault is removed with what it knows")
                .forget(id);
        }
        if !faults.calling.is_empty() {
            for key in Verb::ALL.map(|verb| call_key(verb, id)) {
                for name in faults.calling.remove(&key).into_iter().flatten() {
                    let state = faults
                        .by_name
                        .get_mut(&name)
                        .expect("a fault is removed with its calls");
                    state.forget_call(key);
                    was_known = true;
                }
            }
        }
        was_known
    }

    /// Hides a change of a resource from reads.
    pub(crate) fn hide(&mut self, fault: &ResourceId, id: &ResourceId, hidden: HiddenWrite) {
        let state = self
            .of_namespace_mut(fault)
            .and_then(|faults| faults.by_name.get_mut(fault.name.as_str()));
        if let Some(FaultState { hidden: changes, .. }) = state
            && changes.get(id).is_none_or(|known| !known.outlasts(&hidden))
        {
            changes.insert(id.clone(), hidden);
        }
    }

    /// The changes of a resource that reads do not show now, with the names of the faults that hide them.
    pub(crate) fn hidden<'a>(
        &'a self,
        id: &'a ResourceId,
        now: SimTime,
    ) -> impl Iterator<Item = (&'a str, &'a HiddenWrite)> {
        let faults = self.by_namespace.get(&id.namespace);
        let states = faults
            .into_iter()
            .flat_map(|faults| faults.hiding.iter().filter_map(|name| faults.by_name.get(name)));
        states.filter_map(move |state| Some((state.id.name.as_str(), state.hides(id, now)?)))
    }

    /// Lets reads show all changes of a resource: another one has its name from now on.
    pub(crate) fn show(&mut self, id: &ResourceId) {
        let Some(OfNamespace { by_name, hiding, .. }) = self.by_namespace.get_mut(&id.namespace) else {
            return;
        };
        for name in &*hiding {
            if let Some(state) = by_name.get_mut(name) {
                state.hidden.remove(id);
            }
        }
    }

    /// When the next change of a fault is due.
    pub(crate) fn next_change(&self) -> Option<SimTime> {
        self.changes.first().map(|(at, _)| *at)
    }

    /// Lets the next change of a fault happen. Returns what it affects no more.
    pub(crate) fn pop_change(&mut self) -> Option<(ResourceId, Change, BTreeSet<ResourceId>)> {
        let (at, id) = self.changes.pop_first()?;
        let faults = self
            .by_namespace
            .get_mut(&id.namespace)
            .expect("a fault is removed with its changes");
        let state = faults
            .by_name
            .get_mut(id.name.as_str())
            .expect("a fault is removed with its changes");
        let known: Vec<_> = state.known().cloned().collect();
        let (change, cleared) = if state.ends().is_some_and(|ends| ends <= at) {
            (Change::Ends, state.end())
        } else {
            let cleared = state.turn(at);
            (
                if state.window(at).is_open {
                    Change::WindowBegins
                } else {
                    Change::WindowEnds
                },
                cleared,
            )
        };
        state.changes_at = state.next_change(at);
        self.changes.extend(state.changes_at.map(|at| (at, id.clone())));
        known.iter().for_each(|resource| faults.note(&id.name, resource));
        Some((id, change, cleared))
    }

    /// Asks the faults of the namespace of a call, in the order of their names. The first one that hits decides.
    pub(crate) fn strike(&mut self, call: &Call<'_>, seed: &Seed) -> Verdict {
        let mut verdict = Verdict::default();
        let namespace = self.by_namespace.get_mut(&call.subject.spec.id.namespace);
        let Some(OfNamespace {
            by_name,
            index,
            calling,
            ..
        }) = namespace
        else {
            return verdict;
        };
        if !calling.is_empty() {
            let mut remembering = calling.get(&call.key()).into_iter().flatten();
            verdict.repeated = remembering.find_map(|name| by_name.get(name)?.repeated(call));
            if verdict.repeated.is_some() {
                return verdict;
            }
        }
        for name in index.candidates(Asked::Call(call.verb), &call.subject) {
            let state = by_name.get_mut(name).expect("a fault is removed from the index");
            let answer = state.strike(call, seed);
            if let Some(key) = call.key.get() {
                note_call(calling, *key, name, state.remembers(*key));
            }
            verdict.hit = match answer {
                Answer::NotCounted => continue,
                Answer::Passes => None,
                Answer::Hits(strike) => Some(strike),
            };
            verdict.faults.push(state.id.name.clone());
            if verdict.hit.is_some() {
                break;
            }
        }
        verdict
    }
}

impl OfNamespace {
    /// Adds a fault. No fault has its name.
    fn insert(&mut self, state: FaultState) {
        let name: Arc<str> = state.id.name.as_str().into();
        self.index.insert(&name, &state.fault);
        if matches!(state.fault.effect, Effect::Lag(_)) {
            self.hiding.insert(Arc::clone(&name));
        }
        for key in state.calls() {
            note_call(&mut self.calling, key, &name, true);
        }
        for id in state.known() {
            self.knowing
                .entry(id.clone())
                .or_default()
                .insert(Arc::clone(&name));
        }
        self.by_name.insert(name, state);
    }

    fn remove(&mut self, name: &str) -> Option<FaultState> {
        let state = self.by_name.remove(name)?;
        self.index.remove(name, &state.fault);
        self.hiding.remove(name);
        for key in state.calls() {
            note_call(&mut self.calling, key, &state.id.name.as_str().into(), false);
        }
        state.known().for_each(|id| self.no_longer_knows(name, id));
        Some(state)
    }

    /// Notes whether a fault keeps something about a resource.
    fn note(&mut self, name: &str, id: &ResourceId) {
        let Some((name, state)) = self.by_name.get_key_value(name) else {
            return;
        };
        let name = Arc::clone(name);
        let knows = state.knows(id);
        if !knows {
            self.no_longer_knows(&name, id);
        } else if let Some(names) = self.knowing.get_mut(id) {
            names.insert(name);
        } else {
            self.knowing.entry(id.clone()).or_default().insert(name);
        }
    }

    fn no_longer_knows(&mut self, name: &str, id: &ResourceId) {
        let Some(names) = self.knowing.get_mut(id) else {
            return;
        };
        names.remove(name);
        if names.is_empty() {
            self.knowing.remove(id);
        }
    }
}

/// Notes whether a fault remembers something of a call.
fn note_call(calling: &mut BTreeMap<u64, BTreeSet<Arc<str>>>, key: u64, name: &Arc<str>, remembers: bool) {
    if remembers {
        calling.entry(key).or_default().insert(Arc::clone(name));
    } else if let Some(names) = calling.get_mut(&key) {
        names.remove(name);
        if names.is_empty() {
            calling.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests;
