//! The metrics of the clouds of namespaces. They are read from the engine when they are asked for.

use std::{collections::BTreeMap, iter::Sum, sync::Arc};

use nephele_engine::{CallerMistakes, Effect, Engine, FaultState, Leaked, MistakesByCaller};
use nephele_model::{Caller, FaultPhase, ResourceId, ResourceKind, SimTime};
use prometheus::{
    CounterVec, IntCounterVec, IntGaugeVec, Opts,
    core::{Collector, Desc},
    proto::MetricFamily,
};

use crate::{clock::CloudClock, driver::Driver};

/// How many clouds have values of their own. Those beyond, in the order of their names, are counted together: users can
/// make any number of clouds. A manager is made for about a thousand clusters.
pub(crate) const CLOUDS_MAX: usize = 1000;

/// The name of the clouds that are counted together.
pub(crate) const OTHERS: &str = "others";

/// A cloud by namespace and name.
pub(crate) type CloudName = (String, String);

/// Reads the metrics of clouds.
pub(crate) struct NamespaceMetrics {
    driver: Arc<Driver>,
    clock: CloudClock,
    leaked: IntGaugeVec,
    leaked_load_balancers: IntGaugeVec,
    cost: CounterVec,
    double_creates: IntCounterVec,
    missed_reads: IntCounterVec,
    faults: IntGaugeVec,
    fault_hits: IntGaugeVec,
}

impl NamespaceMetrics {
    pub(crate) fn new(driver: Arc<Driver>, clock: CloudClock) -> Result<Self, prometheus::Error> {
        let leaked = IntGaugeVec::new(
            Opts::new(
                "nephele_leaked_instances",
                "Instances that still exist after they were deleted.",
            ),
            &["namespace", "cloud"],
        )?;
        let leaked_load_balancers = IntGaugeVec::new(
            Opts::new(
                "nephele_leaked_load_balancers",
                "Load balancers that still exist after they were deleted.",
            ),
            &["namespace", "cloud"],
        )?;
        let cost = CounterVec::new(
            Opts::new(
                "nephele_cloud_cost_total",
                "What the machines of a cloud have cost.",
            ),
            &["namespace", "cloud"],
        )?;
        let double_creates = IntCounterVec::new(
            Opts::new(
                "nephele_double_creates_total",
                "Creations that made another instance for a machine that had one, by the caller.",
            ),
            &["namespace", "cloud", "caller"],
        )?;
        let missed_reads = IntCounterVec::new(
            Opts::new(
                "nephele_missed_reads_total",
                "Reads that did not show a change that their caller had made before, by the caller.",
            ),
            &["namespace", "cloud", "caller"],
        )?;
        let faults = IntGaugeVec::new(
            Opts::new("nephele_faults", "Faults by effect and phase."),
            &["effect", "phase"],
        )?;
        let fault_hits = IntGaugeVec::new(
            Opts::new(
                "nephele_fault_hits",
                "What the Faults that exist have hit, by effect.",
            ),
            &["effect"],
        )?;
        Ok(Self {
            driver,
            clock,
            leaked,
            leaked_load_balancers,
            cost,
            double_creates,
            missed_reads,
            faults,
            fault_hits,
        })
    }
}

impl Collector for NamespaceMetrics {
    fn desc(&self) -> Vec<&Desc> {
        let Self {
            driver: _,
            clock: _,
            leaked,
            leaked_load_balancers,
            cost,
            double_creates,
            missed_reads,
            faults,
            fault_hits,
        } = self;
        let of_callers = [double_creates.desc(), missed_reads.desc()].concat();
        let leaked = [leaked.desc(), leaked_load_balancers.desc()].concat();
        [leaked, cost.desc(), of_callers, faults.desc(), fault_hits.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let now = self.clock.now();
        let (instances, balancers, spent, found, faults) = self.driver.look(|engine| {
            let of_kind = |kind| leaked(engine, kind);
            let found = by_caller(engine.all_caller_mistakes());
            let instances = of_kind(ResourceKind::Instance);
            let balancers = of_kind(ResourceKind::LoadBalancer);
            (
                instances,
                balancers,
                spent(engine, now),
                found,
                faults(engine.faults(), now),
            )
        });
        self.leaked.reset();
        self.leaked_load_balancers.reset();
        self.cost.reset();
        self.double_creates.reset();
        self.missed_reads.reset();
        self.faults.reset();
        self.fault_hits.reset();
        for (gauge, counts) in [
            (&self.leaked, instances),
            (&self.leaked_load_balancers, balancers),
        ] {
            for ((namespace, cloud), count) in by_cloud(counts) {
                gauge.with_label_values(&[namespace, cloud]).set(count);
            }
        }
        for ((namespace, cloud), total) in by_cloud(spent) {
            self.cost.with_label_values(&[namespace, cloud]).inc_by(total);
        }
        for (caller, caller_mistakes) in found {
            for (
                (namespace, cloud),
                CallerMistakes {
                    double_creates,
                    missed_reads,
                },
            ) in by_cloud(caller_mistakes)
            {
                let labels = [namespace.as_str(), &cloud, caller];
                self.double_creates
                    .with_label_values(&labels)
                    .inc_by(double_creates);
                self.missed_reads.with_label_values(&labels).inc_by(missed_reads);
            }
        }
        for ((effect, phase), Tally { faults, hits }) in faults {
            self.faults.with_label_values(&[effect, phase]).set(faults);
            self.fault_hits.with_label_values(&[effect]).add(hits);
        }
        let Self {
            driver: _,
            clock: _,
            leaked,
            leaked_load_balancers,
            cost,
            double_creates,
            missed_reads,
            faults,
            fault_hits,
        } = self;
        let of_callers = [double_creates.collect(), missed_reads.collect()].concat();
        let leaked = [leaked.collect(), leaked_load_balancers.collect()].concat();
        [
            leaked,
            cost.collect(),
            of_callers,
            faults.collect(),
            fault_hits.collect(),
        ]
        .concat()
    }
}

/// How many resources of a kind of each cloud are leaked.
fn leaked(engine: &Engine, kind: ResourceKind) -> BTreeMap<CloudName, i64> {
    let mut counts = BTreeMap::new();
    for Leaked { id, footprint, .. } in engine.all_leaked().filter(|leaked| leaked.id.kind == kind) {
        *counts
            .entry((id.namespace.clone(), footprint.cloud_spec.clone()))
            .or_default() += 1;
    }
    counts
}

/// What was spent for each cloud.
fn spent(engine: &Engine, now: SimTime) -> BTreeMap<CloudName, f64> {
    let spent = engine.costs(now);
    let name = |id: &ResourceId| (id.namespace.clone(), id.name.clone());
    spent
        .map(|(id, spent)| (name(id), spent.total as f64 / 1e6))
        .collect()
}

/// What was found about callers, by caller and cloud. The callers are those of [`Caller`]; any other one is the manager
/// itself.
fn by_caller<'a>(
    found: impl Iterator<Item = (&'a ResourceId, &'a MistakesByCaller)>,
) -> BTreeMap<&'static str, BTreeMap<CloudName, CallerMistakes>> {
    let mut all = BTreeMap::<_, BTreeMap<CloudName, CallerMistakes>>::new();
    for (id, callers) in found {
        for (caller, caller_mistakes) in callers {
            let known = Caller::ALL
                .map(Caller::as_str)
                .into_iter()
                .find(|known| known == caller);
            let of_cloud = all.entry(known.unwrap_or("other")).or_default();
            let sum = of_cloud
                .entry((id.namespace.clone(), id.name.clone()))
                .or_default();
            *sum = [*sum, *caller_mistakes].into_iter().sum();
        }
    }
    all
}

/// A number of faults, and how often they have hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    faults: i64,
    hits: i64,
}

/// The faults by effect and phase, in the words of the kind. Both are from fixed sets.
fn faults<'a>(
    faults: impl Iterator<Item = &'a FaultState>,
    now: SimTime,
) -> BTreeMap<(&'static str, &'static str), Tally> {
    let mut tallies = BTreeMap::<_, Tally>::new();
    for state in faults {
        let effect = match &state.fault.effect {
            Effect::Fail { .. } => "fail",
            Effect::Delay(_) => "delay",
            Effect::Lag(_) => "lag",
            Effect::Leak => "leak",
            Effect::Duplicate { .. } => "duplicate",
            Effect::Outage { .. } => "outage",
            Effect::Affect(active_effect) => active_effect.visible_effect.effect(),
        };
        let phase = match state.phase(now) {
            FaultPhase::Active => "Active",
            FaultPhase::Waiting => "Waiting",
            FaultPhase::Exhausted => "Exhausted",
            FaultPhase::Expired => "Expired",
        };
        let tally = tallies.entry((effect, phase)).or_default();
        tally.faults += 1;
        tally.hits = tally
            .hits
            .saturating_add(i64::try_from(state.decisions.record.hits).unwrap_or(i64::MAX));
    }
    tallies
}

/// The values of the first clouds, and the sum of the others.
fn by_cloud<T: Copy + Sum>(values: BTreeMap<CloudName, T>) -> Vec<(CloudName, T)> {
    bounded(values, CLOUDS_MAX, (OTHERS.to_owned(), OTHERS.to_owned()))
}

/// The first values, and the sum of the others under a name of their own: so many in all, at most.
pub(crate) fn bounded<K: Ord, T: Copy + Sum>(values: BTreeMap<K, T>, max: usize, name: K) -> Vec<(K, T)> {
    let mut values: Vec<_> = values.into_iter().collect();
    if values.len() > max {
        let others = values.split_off(max - 1);
        values.push((name, others.into_iter().map(|(_, value)| value).sum()));
    }
    values
}

#[cfg(test)]
mod tests {
    use nephele_engine::{Config, Fault, Operation, Request, Seed};
    use nephele_model::{Budget, FaultRecord, Matches, VisibleEffect};

    use super::*;
    use crate::active_effect::active_effect_of;

    #[test]
    fn faults_are_counted_by_the_field_of_their_effect_and_by_phase() {
        let fault = |effect: Effect, count| Fault {
            matches: Matches::default(),
            effect,
            budget: Budget {
                count,
                ..Budget::default()
            },
        };
        let mut engine = Engine::new(Config::default(), Seed::new("amber-otter-lamp"));
        let all = [
            (
                "a",
                fault(Effect::Affect(active_effect_of(&VisibleEffect::NotReady)), None),
            ),
            (
                "b",
                fault(
                    Effect::Affect(active_effect_of(&VisibleEffect::EtcdWithoutLeader)),
                    None,
                ),
            ),
            ("c", fault(Effect::Leak, Some(3))),
            ("d", fault(Effect::Leak, Some(9))),
        ];
        for (name, fault) in all {
            let id = ResourceId::fault("default", name);
            let record = FaultRecord {
                hits: 3,
                matched: 4,
                ..FaultRecord::default()
            };
            let request = Request::PutFault {
                id,
                fault: Box::new(fault),
                record,
                affected_ids: vec![],
                notices: vec![],
                is_cut: false,
                skipped: Vec::new(),
                leaked: vec![],
                paused: false,
            };
            let at = SimTime::from_millis(0);
            engine.apply(Operation {
                caller: "test".into(),
                request,
                at,
            });
        }
        let tally = Tally { faults: 1, hits: 3 };
        let expected = [
            (("etcd", "Active"), tally),
            (("leak", "Active"), tally),
            (("leak", "Exhausted"), tally),
            (("notReady", "Active"), tally),
        ];
        assert_eq!(faults(engine.faults(), SimTime::from_millis(5)), expected.into());
    }

    #[test]
    fn findings_are_counted_by_caller_and_unknown_callers_together() {
        let found = |double_creates, missed_reads| CallerMistakes {
            double_creates,
            missed_reads,
        };
        let callers = |all: &[(&str, CallerMistakes)]| {
            all.iter()
                .map(|(caller, found)| ((*caller).to_owned(), *found))
                .collect::<MistakesByCaller>()
        };
        let north = ResourceId::cloud("default", "north");
        let south = ResourceId::cloud("other", "south");
        let all = [
            (
                &north,
                &callers(&[("machine", found(1, 2)), ("a", found(3, 0)), ("b", found(0, 4))]),
            ),
            (&south, &callers(&[("machine", found(5, 6))])),
        ];
        let name = |namespace: &str, cloud: &str| (namespace.to_owned(), cloud.to_owned());
        let expected = BTreeMap::from([
            (
                "machine",
                BTreeMap::from([
                    (name("default", "north"), found(1, 2)),
                    (name("other", "south"), found(5, 6)),
                ]),
            ),
            ("other", BTreeMap::from([(name("default", "north"), found(3, 4))])),
        ]);
        assert_eq!(by_caller(all.into_iter()), expected);
    }

    #[test]
    fn clouds_beyond_the_bound_are_counted_together() {
        let values = |count: usize| {
            let cloud = |number| (("default".to_owned(), format!("c{number:04}")), 1_i64);
            by_cloud((0..count).map(cloud).collect())
        };
        let all = values(CLOUDS_MAX);
        assert_eq!(
            (all.len(), all.iter().map(|(_, count)| count).sum::<i64>()),
            (CLOUDS_MAX, 1000)
        );
        let more = values(CLOUDS_MAX + 7);
        assert_eq!(more.len(), CLOUDS_MAX);
        assert_eq!(more.last(), Some(&((OTHERS.to_owned(), OTHERS.to_owned()), 8)));
    }
}
