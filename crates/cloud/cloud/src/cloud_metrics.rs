//! The metrics of each SimulatedCloud: its limits and its clock. They are read from the engine when they are asked for, so
//! those of a cloud that is gone are gone, too.

use std::{collections::BTreeMap, iter::Sum, sync::Arc};

use nephele_engine::{CapacityUsage, ClockSetting, Engine};
use nephele_model::{Capacity, Quota, ResourceId, SimTime};
use prometheus::{
    GaugeVec, IntGaugeVec, Opts,
    core::{Collector, Desc},
    proto::MetricFamily,
};

use crate::{
    clock::CloudClock,
    driver::Driver,
    namespace_metrics::{CLOUDS_MAX, CloudName, OTHERS, bounded},
};

/// How many entries of stocks have values of their own. Those beyond, in the order of their clouds, zones and types, are
/// counted together.
const STOCKS_MAX: usize = 2000;
/// The zone or the instance type of an entry that covers all of them.
const ALL: &str = "*";

/// Reads the metrics of SimulatedClouds.
pub(crate) struct CloudMetrics {
    driver: Arc<Driver>,
    clock: CloudClock,
    quota: IntGaugeVec,
    stock: IntGaugeVec,
    clock_rate: GaugeVec,
    clock_paused: IntGaugeVec,
    clock_seconds: GaugeVec,
}

impl CloudMetrics {
    pub(crate) fn new(driver: Arc<Driver>, clock: CloudClock) -> Result<Self, prometheus::Error> {
        let quota = IntGaugeVec::new(
            Opts::new(
                "nephele_quota",
                "The quotas of a cloud, by what they count and by state: limit, used or waiting.",
            ),
            &["namespace", "cloud", "quota", "state"],
        )?;
        let stock = IntGaugeVec::new(
            Opts::new(
                "nephele_stock",
                "The machines that a cloud has of a type in a zone, by state: limit, used or waiting.",
            ),
            &["namespace", "cloud", "zone", "instance_type", "state"],
        )?;
        let clock_rate = GaugeVec::new(
            Opts::new(
                "nephele_clock_rate",
                "How fast the clock of a cloud runs while it is not paused.",
            ),
            &["namespace", "cloud"],
        )?;
        let clock_paused = IntGaugeVec::new(
            Opts::new(
                "nephele_clock_paused",
                "Whether the clock of a cloud stands still.",
            ),
            &["namespace", "cloud"],
        )?;
        let clock_seconds = GaugeVec::new(
            Opts::new(
                "nephele_clock_seconds",
                "The time of a cloud, in seconds since the Unix epoch.",
            ),
            &["namespace", "cloud"],
        )?;
        Ok(Self {
            driver,
            clock,
            quota,
            stock,
            clock_rate,
            clock_paused,
            clock_seconds,
        })
    }
}

impl Collector for CloudMetrics {
    fn desc(&self) -> Vec<&Desc> {
        let Self {
            driver: _,
            clock: _,
            quota,
            stock,
            clock_rate,
            clock_paused,
            clock_seconds,
        } = self;
        [
            quota.desc(),
            stock.desc(),
            clock_rate.desc(),
            clock_paused.desc(),
            clock_seconds.desc(),
        ]
        .concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Self {
            driver,
            clock,
            quota,
            stock,
            clock_rate,
            clock_paused,
            clock_seconds,
        } = self;
        let now = clock.now();
        let (capacities, clocks) = driver.look(|engine| (capacities(engine), clocks(engine, now)));
        [quota, stock, clock_paused]
            .into_iter()
            .for_each(IntGaugeVec::reset);
        [clock_rate, clock_seconds].into_iter().for_each(GaugeVec::reset);
        let others = || (OTHERS.to_owned(), OTHERS.to_owned());
        for (name, of_clouds) in capacities.quotas {
            for ((namespace, cloud), level) in bounded(of_clouds, CLOUDS_MAX, others()) {
                for (state, number) in level.states() {
                    quota
                        .with_label_values(&[&namespace, &cloud, name, state])
                        .set(number);
                }
            }
        }
        let others = Stocked {
            cloud: others(),
            zone: OTHERS.to_owned(),
            instance_type: OTHERS.to_owned(),
        };
        for (
            Stocked {
                cloud: (namespace, cloud),
                zone,
                instance_type,
            },
            level,
        ) in bounded(capacities.stocks, STOCKS_MAX, others)
        {
            for (state, number) in level.states() {
                stock
                    .with_label_values(&[&namespace, &cloud, &zone, &instance_type, state])
                    .set(number);
            }
        }
        // The clocks of several clouds have no sum.
        for (
            (namespace, cloud),
            Reading {
                rate,
                is_paused,
                seconds,
            },
        ) in clocks.into_iter().take(CLOUDS_MAX)
        {
            let labels = [namespace, cloud];
            clock_rate.with_label_values(&labels).set(rate);
            clock_paused.with_label_values(&labels).set(is_paused.into());
            clock_seconds.with_label_values(&labels).set(seconds);
        }
        let of_clock = [
            clock_rate.collect(),
            clock_paused.collect(),
            clock_seconds.collect(),
        ]
        .concat();
        [quota.collect(), stock.collect(), of_clock].concat()
    }
}

/// How much of a limit is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Level {
    limit: u64,
    used: u64,
    waiting: u64,
}

impl Level {
    fn states(self) -> [(&'static str, i64); 3] {
        let Self { limit, used, waiting } = self;
        [("limit", limit), ("used", used), ("waiting", waiting)]
            .map(|(state, number)| (state, i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

impl Sum for Level {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            limit: sum.limit.saturating_add(one.limit),
            used: sum.used.saturating_add(one.used),
            waiting: sum.waiting.saturating_add(one.waiting),
        })
    }
}

/// An entry of the stock of a cloud.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Stocked {
    cloud: CloudName,
    zone: String,
    instance_type: String,
}

/// The limits of all clouds.
#[derive(Debug, Default, PartialEq, Eq)]
struct Capacities {
    quotas: BTreeMap<&'static str, BTreeMap<CloudName, Level>>,
    stocks: BTreeMap<Stocked, Level>,
}

fn capacities(engine: &Engine) -> Capacities {
    let mut capacities = Capacities::default();
    for id in engine.cloud_ids() {
        let cloud = name(id);
        for CapacityUsage {
            capacity,
            limit,
            taken,
            waiting,
        } in engine.usage(id)
        {
            let level = Level {
                limit: limit.into(),
                used: taken,
                waiting: waiting as u64,
            };
            match capacity {
                Capacity::CloudQuota { of, .. } => {
                    let of_quota = capacities.quotas.entry(quota_name(of)).or_default();
                    of_quota.insert(cloud.clone(), level);
                }
                Capacity::Stock {
                    instance_type, zone, ..
                } => {
                    let any = |name: Option<String>| name.unwrap_or_else(|| ALL.to_owned());
                    let zone = any(zone);
                    let instance_type = any(instance_type);
                    capacities.stocks.insert(
                        Stocked {
                            cloud: cloud.clone(),
                            zone,
                            instance_type,
                        },
                        level,
                    );
                }
                Capacity::Quota { .. } | Capacity::Zone(_) => {}
            }
        }
    }
    capacities
}

/// The name of a quota in the spec of a SimulatedCloud.
fn quota_name(of: Quota) -> &'static str {
    match of {
        Quota::Instances => "instances",
        Quota::Processors => "vCPUs",
        Quota::LoadBalancers => "loadBalancers",
    }
}

/// What the clock of a cloud shows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    rate: f64,
    is_paused: bool,
    seconds: f64,
}

fn clocks(engine: &Engine, now: SimTime) -> BTreeMap<CloudName, Reading> {
    let reading = |id: &ResourceId| {
        let ClockSetting { rate, is_paused, .. } = engine.clock_setting(id)?;
        let time = engine
            .clock(id)
            .map_or_else(|| now.into(), |clock| clock.time(now));
        let rate = rate.millionths() as f64 / 1e6;
        let seconds = time.as_micros() as f64 / 1e6;
        Some((
            name(id),
            Reading {
                rate,
                is_paused,
                seconds,
            },
        ))
    };
    engine.cloud_ids().filter_map(reading).collect()
}

fn name(id: &ResourceId) -> CloudName {
    (id.namespace.clone(), id.name.clone())
}

#[cfg(test)]
mod tests {
    use nephele_engine::{CloudSpec, Config, MistakesByCaller, Operation, Rate, Request, ResourceSpec, Seed};
    use nephele_model::{Quotas, ResourceKind, Stock};

    use super::*;

    fn engine() -> Engine {
        let mut engine = Engine::new(Config::default(), Seed::new("amber-otter-lamp"));
        let stock = |instance_type: Option<&str>, count| Stock {
            instance_type: instance_type.unwrap_or_default().to_owned(),
            zone: "a".into(),
            count,
        };
        let quotas = Quotas {
            instances: Some(4),
            ..Quotas::default()
        };
        let clock = ClockSetting {
            rate: Rate::from_millionths(2_500_000),
            ..ClockSetting::default()
        };
        let id = ResourceId::cloud("default", "north");
        let put = Request::PutCloud {
            id,
            cloud_spec: Box::new(CloudSpec {
                quotas,
                stock: vec![stock(None, 1), stock(Some("l"), 0)],
                clock,
                ..CloudSpec::default()
            }),
            clock: None,
            leaked: vec![],
            cost: None,
            caller_mistakes: MistakesByCaller::new(),
        };
        let create = |name: &str| {
            let id = ResourceId {
                namespace: "default".into(),
                cluster: "demo".into(),
                kind: ResourceKind::Instance,
                name: name.into(),
            };
            let cloud_spec = "north".into();
            let zone = Some("a".into());
            Request::Create(ResourceSpec {
                cloud_spec,
                zone,
                ..ResourceSpec::new(id)
            })
        };
        for request in [put, create("m"), create("n")] {
            engine.apply(Operation {
                caller: "test".into(),
                request,
                at: SimTime::from_millis(1000),
            });
        }
        engine
    }

    #[test]
    fn each_limit_of_a_cloud_has_what_is_used_and_who_waits() {
        let cloud = || ("default".to_owned(), "north".to_owned());
        let level = |limit, used, waiting| Level { limit, used, waiting };
        let stocked = |instance_type: &str| Stocked {
            cloud: cloud(),
            zone: "a".into(),
            instance_type: instance_type.into(),
        };
        let expected = Capacities {
            quotas: BTreeMap::from([("instances", BTreeMap::from([(cloud(), level(4, 1, 0))]))]),
            stocks: BTreeMap::from([(stocked("*"), level(1, 1, 1)), (stocked("l"), level(0, 0, 0))]),
        };
        assert_eq!(capacities(&engine()), expected);
    }

    #[test]
    fn the_clock_of_a_cloud_is_read_in_its_own_time() {
        let reading = Reading {
            rate: 2.5,
            is_paused: false,
            seconds: 1.0 + 2.5 * 2.0,
        };
        let expected = BTreeMap::from([(("default".to_owned(), "north".to_owned()), reading)]);
        assert_eq!(clocks(&engine(), SimTime::from_millis(3000)), expected);
    }
}
