//! What instances cost.

use std::{collections::BTreeMap, time::Duration};

use nephele_engine::{
    ClockSetting, CloudSpec, CloudTime, Cost, Cursor, Effect, Engine, Entry, Fault, Journal, Latency, Line,
    MistakesByCaller, Previous, Rate, Replay, Request, ResourceSpec, Spent,
};
use nephele_model::{Amount, Budget, InstanceType, Market, Matches, ResourceId, ResourceKind, SimTime};
use proptest::prelude::*;

use crate::{
    cloud::{ask, at, engine, id, machine},
    faults::put,
};

const MICROS_OF_HOUR: u128 = 3_600_000_000;

fn cloud_spec() -> ResourceId {
    ResourceId::cloud("default", "north")
}

/// What an instance costs on demand and at the Spot market, in millionths.
type Price = [u64; 2];

/// A catalog with the types `s` and `l`.
fn priced(prices: [Price; 2], clock: ClockSetting) -> CloudSpec {
    let instance_type = |(name, [on_demand, spot]): (&str, Price)| InstanceType {
        name: name.into(),
        price: Some(Amount::of(on_demand)),
        spot_price: Some(Amount::of(spot)),
        ..InstanceType::default()
    };
    let instance_types = ["s", "l"].into_iter().zip(prices).map(instance_type).collect();
    CloudSpec {
        instance_types,
        clock,
        ..CloudSpec::default()
    }
}

fn put_cloud(cloud_of: CloudSpec, cost: Option<Cost>) -> Request {
    Request::PutCloud {
        id: cloud_spec(),
        cloud_spec: Box::new(cloud_of),
        clock: None,
        leaked: Vec::new(),
        cost: cost.map(Box::new),
        caller_mistakes: MistakesByCaller::new(),
    }
}

fn price(on_demand: u64, spot: u64) -> Price {
    [on_demand, spot]
}

fn usual() -> CloudSpec {
    priced(
        [price(100_000, 30_000), price(400_000, 100_000)],
        ClockSetting::default(),
    )
}

fn spec(name: &str, cluster: &str, instance_type: &str, market: Market) -> ResourceSpec {
    let spec = machine(name, &Latency::Fixed(Duration::from_secs(3)));
    ResourceSpec {
        id: ResourceId {
            cluster: cluster.into(),
            ..id(name)
        },
        cloud_spec: "north".into(),
        instance_type: Some(instance_type.into()),
        market,
        ..spec
    }
}

fn create(name: &str, cluster: &str, instance_type: &str, market: Market) -> Request {
    Request::Create(spec(name, cluster, instance_type, market))
}

fn delete(name: &str, cluster: &str) -> Request {
    Request::Delete(ResourceId {
        cluster: cluster.into(),
        ..id(name)
    })
}

const HOUR: u64 = 3600;

fn total(engine: &Engine, now: SimTime) -> (u64, u64) {
    let Spent { total, per_hour } = engine.cost(&cloud_spec(), now).unwrap_or_default().all;
    (total, per_hour)
}

#[test]
fn an_instance_costs_its_price_from_its_creation_until_its_deletion_ends() {
    let mut engine = engine();
    ask(&mut engine, at(0), put_cloud(usual(), None)).unwrap();
    assert_eq!(engine.cost(&cloud_spec(), at(HOUR)), None);
    ask(&mut engine, at(HOUR), create("a", "one", "s", Market::OnDemand)).unwrap();
    ask(&mut engine, at(HOUR), create("b", "two", "l", Market::Spot)).unwrap();
    ask(&mut engine, at(HOUR), create("c", "two", "l", Market::OnDemand)).unwrap();
    assert_eq!(total(&engine, at(2 * HOUR)), (600_000, 600_000));
    let cost = engine.cost(&cloud_spec(), at(2 * HOUR)).unwrap();
    let spent = |total| Spent {
        total,
        per_hour: total,
    };
    let expected = [
        ("one".to_owned(), spent(100_000)),
        ("two".to_owned(), spent(500_000)),
    ];
    assert_eq!(
        (cost.time, cost.clusters),
        (CloudTime::from(at(2 * HOUR)), expected.into())
    );
    // The deletion takes three seconds.
    ask(&mut engine, at(2 * HOUR), delete("c", "two")).unwrap();
    engine.poll(at(3 * HOUR));
    assert_eq!(
        total(&engine, at(3 * HOUR)),
        (800_000 + 400_000 * 3 / 3600, 200_000)
    );
}

#[test]
fn a_changed_price_is_for_the_time_after_the_change_and_a_clock_that_stands_still_costs_nothing() {
    let mut engine = engine();
    ask(&mut engine, at(0), put_cloud(usual(), None)).unwrap();
    ask(&mut engine, at(0), create("a", "one", "s", Market::OnDemand)).unwrap();
    let dear = |clock| put_cloud(priced([price(1_000_000, 0), price(0, 0)], clock), None);
    ask(&mut engine, at(HOUR), dear(ClockSetting::default())).unwrap();
    assert_eq!(total(&engine, at(2 * HOUR)), (1_100_000, 1_000_000));
    let still = ClockSetting {
        is_paused: true,
        ..ClockSetting::default()
    };
    ask(&mut engine, at(2 * HOUR), dear(still)).unwrap();
    assert_eq!(total(&engine, at(9 * HOUR)), (1_100_000, 1_000_000));
    // What passes at once costs as much as if it passed in time.
    let ahead = ClockSetting {
        ahead: Duration::from_secs(HOUR),
        ..still
    };
    ask(&mut engine, at(9 * HOUR), dear(ahead)).unwrap();
    assert_eq!(total(&engine, at(9 * HOUR)), (2_100_000, 1_000_000));
    let fast = ClockSetting {
        is_paused: false,
        rate: Rate::from_millionths(60_000_000),
        ..ahead
    };
    ask(&mut engine, at(9 * HOUR), dear(fast)).unwrap();
    assert_eq!(total(&engine, at(9 * HOUR + 60)), (3_100_000, 1_000_000));
}

#[test]
fn a_leaked_instance_costs_until_it_is_deleted() {
    let mut engine = engine();
    ask(&mut engine, at(0), put_cloud(usual(), None)).unwrap();
    ask(&mut engine, at(0), create("a", "one", "s", Market::OnDemand)).unwrap();
    let leak = Fault {
        matches: Matches::default(),
        effect: Effect::Leak,
        budget: Budget::default(),
    };
    ask(&mut engine, at(0), put("f", leak)).unwrap();
    ask(&mut engine, at(HOUR), delete("a", "one")).unwrap();
    assert_eq!(total(&engine, at(2 * HOUR)), (200_000, 100_000));
    ask(&mut engine, at(2 * HOUR), Request::DeleteLeaked(cloud_spec())).unwrap();
    assert_eq!(total(&engine, at(3 * HOUR)), (200_000, 0));
}

/// As after a restart of the manager, which took an hour.
#[test]
fn the_total_continues_where_an_earlier_process_left_it() {
    let mut engine = engine();
    ask(&mut engine, at(0), put_cloud(usual(), None)).unwrap();
    ask(&mut engine, at(0), create("a", "one", "s", Market::OnDemand)).unwrap();
    ask(&mut engine, at(HOUR), create("b", "gone", "l", Market::OnDemand)).unwrap();
    ask(&mut engine, at(HOUR), delete("b", "gone")).unwrap();
    engine.poll(at(2 * HOUR));
    let before = engine.cost(&cloud_spec(), at(2 * HOUR)).unwrap();
    let mut after = self::engine();
    let reached = BTreeMap::new();
    let adopt = Request::Adopt {
        spec: spec("a", "one", "s", Market::OnDemand),
        previous: Box::new(Previous {
            created: at(0),
            reached,
            ..Previous::default()
        }),
    };
    ask(&mut after, at(3 * HOUR), put_cloud(usual(), Some(before))).unwrap();
    ask(&mut after, at(3 * HOUR), adopt).unwrap();
    assert_eq!(
        after.cost(&cloud_spec(), at(4 * HOUR)),
        engine.cost(&cloud_spec(), at(4 * HOUR))
    );
}

/// Clusters come and go without end.
#[test]
fn the_dearest_groups_without_instances_are_remembered_and_the_total_has_all() {
    let mut engine = engine();
    ask(&mut engine, at(0), put_cloud(usual(), None)).unwrap();
    for number in 0..150_u64 {
        let cluster = format!("g{number:03}");
        let now = number * HOUR;
        ask(&mut engine, at(now), create("a", &cluster, "s", Market::OnDemand)).unwrap();
        ask(&mut engine, at(now + number), delete("a", &cluster)).unwrap();
    }
    engine.poll(at(200 * HOUR));
    let cost = engine.cost(&cloud_spec(), at(200 * HOUR)).unwrap();
    assert_eq!(
        (
            cost.clusters.len(),
            cost.clusters.first_key_value().unwrap().0.as_str()
        ),
        (100, "g050")
    );
    let seconds = (0..150_u64).map(|number| number + 3).sum::<u64>();
    assert_eq!(
        cost.all,
        Spent {
            total: 100_000 * seconds / 3600,
            per_hour: 0
        }
    );
}

#[derive(Clone, Debug)]
enum Step {
    Ask(Box<Request>),
    Change(Box<CloudSpec>),
    Read,
}

fn step() -> impl Strategy<Value = Step> {
    let name = || prop::sample::select(vec!["a", "b", "c"]);
    let cluster = || prop::sample::select(vec!["one", "two"]);
    let product = (
        prop::sample::select(vec!["s", "l"]),
        prop::sample::select(Market::ALL.to_vec()),
    );
    let price =
        || (0..1_000_000_000_000_u64, 0..1_000_u64).prop_map(|(on_demand, spot)| price(on_demand, spot));
    let clock = (1_u64..2_000_000_000, any::<bool>(), 0..3_u64, 0..1_000_u64).prop_map(
        |(rate, is_paused, steps, ahead)| ClockSetting {
            rate: Rate::from_millionths(rate),
            is_paused,
            steps,
            ahead: Duration::from_secs(ahead),
        },
    );
    let leak = Fault {
        matches: Matches::default(),
        effect: Effect::Leak,
        budget: Budget::default(),
    };
    prop_oneof![
        6 => (name(), cluster(), product).prop_map(|(name, cluster, (kind, market))| {
            Step::Ask(Box::new(create(name, cluster, kind, market)))
        }),
        4 => (name(), cluster()).prop_map(|(name, cluster)| Step::Ask(Box::new(delete(name, cluster)))),
        3 => (price(), price(), clock).prop_map(|(s, l, clock)| Step::Change(Box::new(priced([s, l], clock)))),
        2 => Just(Step::Read),
        1 => Just(Step::Ask(Box::new(put("f", leak)))),
        1 => Just(Step::Ask(Box::new(Request::Delete(crate::faults::fault("f"))))),
        1 => Just(Step::Ask(Box::new(Request::DeleteLeaked(cloud_spec())))),
    ]
}

/// An instance that exists: its cluster and its product.
type Billed = (String, (String, Market));

fn billed(engine: &Engine) -> Vec<Billed> {
    let product = |instance_type: &Option<String>, market| {
        let instance_type = instance_type.clone().expect("each has a type");
        (instance_type, market)
    };
    let there = engine
        .resources()
        .map(|there| &there.spec)
        .filter(|spec| spec.id.kind == ResourceKind::Instance)
        .map(|spec| (spec.id.cluster.clone(), product(&spec.instance_type, spec.market)));
    let cloud_spec = cloud_spec();
    let leaked = engine.leaked(&cloud_spec).map(|leaked| {
        let footprint = &leaked.footprint;
        (
            leaked.id.cluster.clone(),
            product(&footprint.instance_type, footprint.market),
        )
    });
    let mut billed: Vec<_> = there.chain(leaked).collect();
    billed.sort();
    billed
}

/// Adds up what exists, from one change to the next.
#[derive(Default)]
struct Model {
    prices: BTreeMap<(String, Market), u64>,
    billed: Vec<Billed>,
    /// Prices of an hour times microseconds, by cluster.
    spent: BTreeMap<String, u128>,
    /// The time of the cloud until which it was added up, in microseconds.
    until: u64,
}

impl Model {
    /// What each cluster has spent by a time of the cloud. While the wall clock is set back, nothing is spent.
    fn spent(&self, time: u64) -> BTreeMap<String, u128> {
        let mut spent = self.spent.clone();
        for (cluster, product) in &self.billed {
            let price = self.prices.get(product).copied().unwrap_or(0);
            let passed = time.saturating_sub(self.until);
            *spent.entry(cluster.clone()).or_default() += u128::from(price) * u128::from(passed);
        }
        spent
    }

    fn add_up(&mut self, time: u64) {
        self.spent = self.spent(time);
        self.until = self.until.max(time);
    }

    /// Sees which instances are there now. A meter without instances that has counted nothing is forgotten.
    fn look(&mut self, engine: &Engine, now: SimTime) {
        let billed = billed(engine);
        if billed != self.billed {
            self.add_up(cloud_time(engine, now));
            self.billed = billed;
        }
        if self.billed.is_empty() && self.spent.values().all(|spent| *spent == 0) {
            self.until = 0;
        }
    }
}

fn cloud_time(engine: &Engine, now: SimTime) -> u64 {
    engine
        .clock(&cloud_spec())
        .map_or_else(|| CloudTime::from(now), |clock| clock.time(now))
        .as_micros()
}

/// Lets time pass, from one deadline to the next.
fn pass(engine: &mut Engine, model: &mut Model, now: SimTime) {
    while let Some(due) = engine.next_deadline().filter(|due| *due <= now) {
        engine.poll(due);
        model.look(engine, due);
    }
}

/// What is spent by a time of the cloud if nothing changes until then, according to a cost that was read.
fn predicted(cost: &Cost, time: CloudTime) -> u128 {
    let passed = u128::from(time.as_micros() - cost.time.as_micros());
    u128::from(cost.all.total) + u128::from(cost.all.per_hour) * passed / MICROS_OF_HOUR
}

proptest! {
    /// The cost is the integral of the prices over the time of the cloud, whatever is created, deleted, leaked and changed,
    /// and however often it is read, also where the wall clock is set back. What is read predicts what is read
    /// later. A replay adds up the same.
    #[test]
    fn the_cost_is_the_integral_of_the_prices(steps in prop::collection::vec((-100..3_000_i64, step()), 1..60)) {
        let mut engine = engine();
        let mut model = Model::default();
        let mut lines = vec![Line::State(engine.state())];
        let mut cursor = engine.journal().end();
        let mut second = 10_000_i64;
        let mut ahead = Duration::ZERO;
        for (number, (seconds, step)) in steps.into_iter().enumerate() {
            if number == 20 {
                lines.push(Line::State(engine.state()));
            }
            second += seconds;
            let now = at(second.unsigned_abs());
            pass(&mut engine, &mut model, now);
            match step {
                Step::Ask(request) => {
                    drop(ask(&mut engine, now, *request));
                    model.look(&engine, now);
                }
                Step::Change(mut cloud_of) => {
                    // Time only ever leaps ahead.
                    ahead += cloud_of.clock.ahead;
                    cloud_of.clock.ahead = ahead;
                    let prices = cloud_of.instance_types.iter().flat_map(|known| {
                        [Market::OnDemand, Market::Spot]
                            .map(|market| ((known.name.clone(), market), known.price(market)))
                    });
                    model.add_up(cloud_time(&engine, now));
                    model.prices = prices.collect();
                    let is_new = engine.clock_setting(&cloud_spec()).is_none();
                    ask(&mut engine, now, put_cloud(*cloud_of, None)).unwrap();
                    if is_new {
                        // What a new catalog counts was done before.
                        model.spent.clear();
                        model.until = 0;
                    }
                    model.add_up(cloud_time(&engine, now));
                    model.look(&engine, now);
                }
                Step::Read => {}
            }
            // Stages and deletions that take no time are over.
            pass(&mut engine, &mut model, now);
            let cost = engine.cost(&cloud_spec(), now).unwrap_or_default();
            let spent = model.spent(cloud_time(&engine, now));
            let all = spent.values().sum::<u128>() / MICROS_OF_HOUR;
            prop_assert_eq!(u128::from(cost.all.total), all.min(u64::MAX.into()));
            for (cluster, spent) in &spent {
                let total = cost.clusters.get(cluster).copied().unwrap_or_default().total;
                prop_assert_eq!(u128::from(total), (spent / MICROS_OF_HOUR).min(u64::MAX.into()));
            }
            let later = [1, 50, 200].map(|seconds| now + Duration::from_secs(seconds));
            for read in later.map(|then| engine.cost(&cloud_spec(), then).unwrap_or_default()) {
                let total = u128::from(read.all.total);
                let is_predicted = cost == Cost::default() || total.abs_diff(predicted(&cost, read.time)) <= 1;
                prop_assert!(is_predicted, "{:?}, then {:?}", cost.all, read);
            }
            keep(&engine, &mut cursor, &mut lines);
        }
        let mut replay = Replay::default();
        for line in &lines {
            let text = serde_json::to_string(line).unwrap();
            prop_assert_eq!(replay.play(&serde_json::from_str(&text).unwrap()), Ok(()));
        }
        prop_assert_eq!(replay.engine().map(Engine::state), Some(engine.state()));
    }
}

fn keep(engine: &Engine, cursor: &mut Cursor, lines: &mut Vec<Line>) {
    let mut batch = Vec::with_capacity(Journal::CAPACITY);
    engine
        .journal()
        .read(cursor, &mut batch)
        .expect("tests make fewer records");
    lines.extend(batch.iter().map(|entry| Line::Record(Entry::clone(entry))));
}
