//! The index finds the same faults as asking all of them.

use std::{cell::OnceCell, time::Duration};

use nephele_model::{
    Budget, FailureReason, Market, Matches, Odds, Requirement, Schedule, Selector, Verb, VisibleEffect,
};
use proptest::{
    prelude::*,
    sample::{select, subsequence},
};

use super::*;
use crate::{active_effect::ActiveEffect, fault::Effect, spec::ResourceSpec};

const VALUES: [&str; 3] = ["a", "b", "c"];

type Labels = BTreeMap<String, String>;

fn few() -> impl Strategy<Value = BTreeSet<String>> {
    let some = subsequence(VALUES.to_vec(), 1..3);
    let some = some.prop_map(|names| names.into_iter().map(str::to_owned).collect());
    prop_oneof![2 => Just(BTreeSet::new()), 1 => some]
}

fn selector() -> impl Strategy<Value = Selector> {
    let key = || select(vec!["x", "y"]).prop_map(str::to_owned);
    let requirement = prop_oneof![
        4 => (key(), few()).prop_map(|(key, values)| Requirement::In(key, values)),
        1 => (key(), few()).prop_map(|(key, values)| Requirement::NotIn(key, values)),
        1 => key().prop_map(Requirement::Exists),
        1 => key().prop_map(Requirement::DoesNotExist),
    ];
    prop_oneof![2 => Just(Selector::default()), 1 => prop::collection::vec(requirement, 1..3).prop_map(Selector)]
}

fn active_effect() -> ActiveEffect {
    ActiveEffect::new(ResourceKind::Instance, VisibleEffect::NotReady)
}

fn any_fault() -> impl Strategy<Value = Fault> {
    let retry_after = Duration::from_secs(5);
    let fail = Effect::Fail {
        reason: FailureReason::Throttled,
        message: String::new(),
        retry_after,
    };
    let effects = vec![
        fail,
        Effect::Delay(crate::latency::Latency::Fixed(Duration::from_secs(3))),
        Effect::Leak,
        Effect::Affect(active_effect()),
        Effect::Outage {
            active_effect: active_effect(),
            retry_after,
        },
    ];
    let operations = prop_oneof![Just(vec![]), subsequence(Verb::ALL.to_vec(), 1..4)];
    let matches = (
        operations,
        few(),
        few(),
        few(),
        few(),
        subsequence(Market::ALL.to_vec(), 0..2),
        selector(),
        selector(),
    );
    let matches = matches.prop_map(
        |(operations, names, zones, regions, instance_types, markets, cluster, instance)| Matches {
            operations: operations.into_iter().collect(),
            callers: BTreeSet::new(),
            names,
            pools: BTreeSet::new(),
            zones,
            regions,
            instance_types,
            markets: markets.into_iter().collect(),
            cluster,
            instance,
        },
    );
    let budget = (
        prop_oneof![Just(1.0), 0.0..1.0f64],
        0u64..2,
        prop::option::of(0u64..4),
        prop::option::of(1u64..30),
        prop::option::of(schedule()),
    );
    let budget = budget.prop_map(|(probability, skip, count, lasts, schedule)| Budget {
        probability: Odds::new(probability),
        skip,
        count,
        lasts: lasts.map(Duration::from_secs),
        schedule,
    });
    (matches, select(effects), budget).prop_map(|(matches, effect, budget)| Fault {
        matches,
        effect,
        budget,
    })
}

fn schedule() -> impl Strategy<Value = Schedule> {
    (2u64..20, 1u64..10, 0u64..5).prop_map(|(every, lasts, offset)| {
        let [every, lasts, offset] = [every, lasts.min(every - 1), offset].map(Duration::from_secs);
        Schedule { every, lasts, offset }
    })
}

fn labels() -> impl Strategy<Value = Labels> {
    let value = || select(VALUES.to_vec()).prop_map(str::to_owned);
    prop::collection::btree_map(select(vec!["x", "y", "z"]).prop_map(str::to_owned), value(), 0..3)
}

/// An instance or a load balancer, and the labels of its cluster.
fn subject() -> impl Strategy<Value = (ResourceSpec, Option<Labels>)> {
    let value = || select(VALUES.to_vec()).prop_map(str::to_owned);
    let kinds = select(vec![ResourceKind::Instance, ResourceKind::LoadBalancer]);
    let other = prop::option::of(value());
    let places = (other.clone(), other.clone());
    let fields = (
        kinds,
        value(),
        value(),
        places,
        other,
        select(Market::ALL.to_vec()),
        labels(),
    );
    (fields, prop::option::of(labels())).prop_map(
        |((kind, cluster, name, (zone, region), instance_type, market, labels), of_cluster)| {
            let id = ResourceId {
                namespace: "default".into(),
                cluster,
                kind,
                name,
            };
            let spec = ResourceSpec {
                zone,
                region,
                instance_type,
                market,
                labels,
                ..ResourceSpec::new(id)
            };
            (spec, of_cluster)
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    Put(&'static str, Box<Fault>),
    Remove(&'static str),
    Call(Verb, bool, ResourceSpec, Option<Labels>),
    Decide(ResourceSpec, Option<Labels>),
    Forget(ResourceId),
    End,
}

fn step() -> impl Strategy<Value = Step> {
    let name = || select(vec!["one", "two", "three", "four", "five"]);
    prop_oneof![
        4 => (name(), any_fault()).prop_map(|(name, fault)| Step::Put(name, Box::new(fault))),
        1 => name().prop_map(Step::Remove),
        6 => (select(Verb::ALL.to_vec()), any::<bool>(), subject())
            .prop_map(|(verb, can_leak, (spec, cluster))| Step::Call(verb, can_leak, spec, cluster)),
        4 => subject().prop_map(|(spec, cluster)| Step::Decide(spec, cluster)),
        1 => subject().prop_map(|(spec, _)| Step::Forget(spec.id)),
        1 => Just(Step::End),
    ]
}

/// All faults of the namespace, without an index.
#[derive(Default)]
struct Walk(BTreeMap<String, FaultState>);

impl Walk {
    fn strike(&mut self, call: &Call<'_>, seed: &Seed) -> Verdict {
        let mut verdict = Verdict {
            repeated: self.0.values().find_map(|state| state.repeated(call)),
            ..Verdict::default()
        };
        if verdict.repeated.is_some() {
            return verdict;
        }
        for (name, state) in &mut self.0 {
            verdict.hit = match state.strike(call, seed) {
                Answer::NotCounted => continue,
                Answer::Passes => None,
                Answer::Hits(strike) => Some(strike),
            };
            verdict.faults.push(name.clone());
            if verdict.hit.is_some() {
                break;
            }
        }
        verdict
    }
}

proptest! {
    /// Whatever faults there are: the index asks those that a walk over all of them asks and that have something to say,
    /// in the same order, so that hits, counters and what the faults remember are the same.
    #[test]
    fn candidates_are_those_of_a_walk_over_all_faults(steps in prop::collection::vec(step(), 1..60)) {
        let mut faults = Faults::default();
        let mut walk = Walk::default();
        let seed = Seed::new("amber-otter-lamp");
        for (number, step) in steps.into_iter().enumerate() {
            let at = SimTime::from_millis(number as u64 * 1_000);
            match step {
                Step::Put(name, fault) => {
                    let id = ResourceId::fault("default", name);
                    let record = FaultRecord { began: at, ..FaultRecord::default() };
                    faults.put(at, &id, &fault, record, KnownBefore { affected_ids: &[], is_cut: false, notices: &[], skipped: &[] });
                    walk.0.insert(name.to_owned(), faults.get(&id).expect("it was put").clone());
                }
                Step::Remove(name) => {
                    prop_assert_eq!(faults.remove(&ResourceId::fault("default", name)), walk.0.remove(name));
                }
                Step::Call(verb, can_leak, spec, cluster) => {
                    let subject = Subject { spec: &spec, cluster: cluster.as_ref() };
                    let as_adopted = None;
                    let key = OnceCell::new();
                    let call = Call { verb, caller: "test", subject, can_leak, at, as_adopted, key };
                    prop_assert_eq!(faults.strike(&call, &seed), walk.strike(&call, &seed));
                }
                Step::Decide(spec, cluster) => {
                    let subject = Subject { spec: &spec, cluster: cluster.as_ref() };
                    let decided = faults.deciding(&subject).into_iter().map(|name| {
                        let id = ResourceId::fault("default", &*name);
                        (name.to_string(), faults.decide(&id, &subject, at, false, &seed))
                    });
                    let decided: Vec<_> = decided.filter(|(_, decided)| *decided != Decided::PassedOver).collect();
                    let affecting = walk.0.iter_mut().filter(|(_, state)| state.active_effect().is_some());
                    let walked: Vec<_> = affecting
                        .filter_map(|(name, state)| {
                            let decided = state.decide(&subject, at, false, &seed);
                            (decided != Decided::PassedOver).then(|| (name.clone(), decided))
                        })
                        .collect();
                    prop_assert_eq!(decided, walked);
                }
                Step::Forget(id) => {
                    faults.forget(&id);
                    let keys = Verb::ALL.map(|verb| call_key(verb, &id));
                    for state in walk.0.values_mut() {
                        state.forget(&id);
                        keys.iter().for_each(|key| state.forget_call(*key));
                    }
                }
                Step::End => {
                    if let Some((id, change, cleared)) = faults.pop_change() {
                        let state = walk.0.get_mut(&id.name).expect("a fault");
                        let due = state.changes_at.expect("it was due");
                        let walked = if change == Change::Ends {
                            state.end()
                        } else {
                            state.turn(due)
                        };
                        state.changes_at = state.next_change(due);
                        prop_assert_eq!(walked, cleared);
                    }
                }
            }
            prop_assert!(faults.iter().eq(walk.0.values()));
        }
        // Nothing of a fault that is gone stays in the index.
        walk.0.keys().for_each(|name| drop(faults.remove(&ResourceId::fault("default", name.as_str()))));
        prop_assert!(faults.is_empty() && faults.changes.is_empty());
    }

    /// What is filed is taken out again.
    #[test]
    fn an_index_without_faults_is_empty(all in prop::collection::vec(any_fault(), 1..8)) {
        let mut index = FaultIndex::default();
        let names: Vec<Arc<str>> = (0..all.len()).map(|number| number.to_string().into()).collect();
        names.iter().zip(&all).for_each(|(name, fault)| index.insert(name, fault));
        names.iter().zip(&all).for_each(|(name, fault)| index.remove(name, fault));
        prop_assert_eq!(index, FaultIndex::default());
    }
}
