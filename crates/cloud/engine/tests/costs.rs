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

/// Adds up what exists, from one moment to the next.
#[derive(Default)]
struct Model {
    prices: BTreeMap<(String, Market), u64>,
    /// Prices of an hour times microseconds, by group.
    spent: BTreeMap<String, u128>,
}

impl Model {
    fn pass(&mut self, engine: &Engine, micros: u64) {
        let cloud_spec = cloud_spec();
        let there = engine
            .resources()
            .filter(|there| there.spec.id.kind == ResourceKind::Instance);
        let there = there.map(|there| {
            (
                &there.spec.id.cluster,
                &there.spec.instance_type,
                there.spec.market,
            )
        });
        let leaked = engine.leaked(&cloud_spec);
        let leaked = leaked.map(|leaked| {
            (
                &leaked.id.cluster,
                &leaked.footprint.instance_type,
                leaked.footprint.market,
            )
        });
        for (cluster, instance_type, market) in there.chain(leaked) {
            let product = (instance_type.clone().expect("each has a type"), market);
            let price = self.prices.get(&product).copied().unwrap_or(0);
            *self.spent.entry(cluster.clone()).or_default() += u128::from(price) * u128::from(micros);
        }
    }

    fn all(&self) -> u128 {
        self.spent.values().sum()
    }
}

fn cloud_time(engine: &Engine, now: SimTime) -> u64 {
    engine
        .clock(&cloud_spec())
        .map_or_else(|| CloudTime::from(now), |clock| clock.time(now))
        .as_micros()
}

/// Lets time pass, from one deadline to the next, so that nothing else changes in between.
fn pass(engine: &mut Engine, model: &mut Model, time: &mut u64, now: SimTime) {
    while let Some(due) = engine.next_deadline().filter(|due| *due <= now) {
        let then = cloud_time(engine, due);
        model.pass(engine, then - *time);
        *time = then;
        engine.poll(due);
    }
    let then = cloud_time(engine, now);
    model.pass(engine, then - *time);
    *time = then;
}

proptest! {
    /// The cost is the integral of the prices over the time of the cloud, whatever is created, deleted, leaked and changed,
    /// and however often it is read. A replay adds up the same.
    #[test]
    fn the_cost_is_the_integral_of_the_prices(steps in prop::collection::vec((0..3_000_u64, step()), 1..60)) {
        let mut engine = engine();
        let mut model = Model::default();
        let mut lines = vec![Line::State(engine.state())];
        let mut cursor = engine.journal().end();
        let mut now = at(1_000);
        let mut time = cloud_time(&engine, now);
        let mut ahead = Duration::ZERO;
        for (number, (seconds, step)) in steps.into_iter().enumerate() {
            if number == 20 {
                lines.push(Line::State(engine.state()));
            }
            now = now + Duration::from_secs(seconds);
            pass(&mut engine, &mut model, &mut time, now);
            match step {
                Step::Ask(request) => drop(ask(&mut engine, now, *request)),
                Step::Change(mut cloud_of) => {
                    // Time only ever leaps ahead.
                    ahead += cloud_of.clock.ahead;
                    cloud_of.clock.ahead = ahead;
                    let prices = cloud_of.instance_types.iter().flat_map(|known| {
                        [Market::OnDemand, Market::Spot]
                            .map(|market| ((known.name.clone(), market), known.price(market)))
                    });
                    model.prices = prices.collect();
                    let is_new = engine.clock_setting(&cloud_spec()).is_none();
                    ask(&mut engine, now, put_cloud(*cloud_of, None)).unwrap();
                    let then = cloud_time(&engine, now);
                    if is_new {
                        // What a new catalog counts was done before.
                        model.spent.clear();
                    } else {
                        model.pass(&engine, then - time);
                    }
                    time = then;
                }
                Step::Read => {}
            }
            // Stages and deletions that take no time are over.
            pass(&mut engine, &mut model, &mut time, now);
            let cost = engine.cost(&cloud_spec(), now).unwrap_or_default();
            prop_assert_eq!(u128::from(cost.all.total), (model.all() / MICROS_OF_HOUR).min(u64::MAX.into()));
            for (cluster, spent) in &model.spent {
                let total = cost.clusters.get(cluster).copied().unwrap_or_default().total;
                prop_assert_eq!(u128::from(total), (spent / MICROS_OF_HOUR).min(u64::MAX.into()));
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
