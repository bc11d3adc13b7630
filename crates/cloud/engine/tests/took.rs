//! How long operations took, in the time of their cloud.

use std::time::Duration;

use nephele_engine::{
    ClockSetting, CloudSpec, Engine, Event, EventKind, Latency, MistakesByCaller, Previous, Rate, Record,
    Request, ResourceSpec, Took,
};
use nephele_model::{ResourceId, SimTime};
use proptest::prelude::*;

use crate::cloud::{Watched, ask, at, engine, id, load_balancer, machine, reached_stages};

const END: SimTime = SimTime::from_millis(100_000_000_000);

fn put(rate: u64) -> Request {
    let clock = ClockSetting {
        rate: Rate::from_millionths(rate),
        ..ClockSetting::default()
    };
    Request::PutCloud {
        id: ResourceId::cloud("default", "north"),
        cloud_spec: Box::new(CloudSpec {
            clock,
            ..CloudSpec::default()
        }),
        clock: None,
        leaked: Vec::new(),
        cost: None,
        caller_mistakes: MistakesByCaller::new(),
    }
}

/// A machine whose stages and deletion take a minute each.
fn slow() -> ResourceSpec {
    let minute = Latency::Fixed(Duration::from_secs(60));
    ResourceSpec {
        cloud_spec: "north".into(),
        ..machine("m", &minute)
    }
}

fn with_clouds() -> Watched {
    let mut engine = engine();
    ask(&mut engine, at(0), put(1_000_000)).expect("a catalog");
    engine
}

/// What took how many seconds, and whether nothing was left then.
fn told(engine: &Engine) -> Vec<(String, u64, bool)> {
    let took = engine.journal().since(1).filter_map(|entry| match &entry.record {
        Record::Event(Event {
            kind,
            took: Some(Took { time, is_all }),
            ..
        }) => {
            let what = match kind {
                EventKind::StageReached(stage) => stage.to_string(),
                other => format!("{other:?}"),
            };
            assert_eq!(time.subsec_nanos(), 0, "{what} took {time:?}");
            Some((what, time.as_secs(), *is_all))
        }
        _ => None,
    });
    took.collect()
}

fn expected(all: &[(&str, u64, bool)]) -> Vec<(String, u64, bool)> {
    all.iter()
        .map(|(what, seconds, is_all)| ((*what).to_owned(), *seconds, *is_all))
        .collect()
}

const LIFE: [(&str, u64, bool); 5] = [
    ("vm", 60, false),
    ("node", 120, false),
    ("etcd", 180, false),
    ("api-server", 180, true),
    ("Deleted", 60, true),
];

#[test]
fn operations_take_as_long_in_a_fast_cloud_and_deletions_of_load_balancers_no_time() {
    let mut engine = engine();
    ask(&mut engine, at(0), put(10_000_000)).unwrap();
    ask(&mut engine, at(5), Request::Create(slow())).unwrap();
    engine.poll(at(23));
    ask(&mut engine, at(30), Request::Delete(id("m"))).unwrap();
    engine.poll(at(36));
    assert_eq!(told(&engine), expected(&LIFE), "18 s and 6 s have passed");

    let mut engine = self::engine();
    ask(
        &mut engine,
        at(1),
        Request::Create(ResourceSpec::new(load_balancer("lb"))),
    )
    .unwrap();
    ask(&mut engine, at(9), Request::Delete(load_balancer("lb"))).unwrap();
    engine.poll(at(9));
    assert_eq!(told(&engine), expected(&[("Deleted", 0, true)]));
}

#[test]
fn it_is_unknown_how_long_took_what_an_earlier_process_accepted() {
    let mut engine = with_clouds();
    ask(&mut engine, at(0), Request::Create(slow())).unwrap();
    engine.poll(at(70));
    let mut after = with_clouds();
    let reached = reached_stages(&engine, &id("m"));
    let adopt = Request::Adopt {
        spec: slow(),
        previous: Box::new(Previous {
            created: at(0),
            reached,
            ..Previous::default()
        }),
    };
    ask(&mut after, at(80), adopt).unwrap();
    after.poll(at(200));
    assert_eq!(told(&after), []);
    ask(&mut after, at(200), Request::Delete(id("m"))).unwrap();
    after.poll(at(300));
    assert_eq!(told(&after), expected(&LIFE[4..]));
    let again = Request::Adopt {
        spec: slow(),
        previous: Box::new(Previous {
            created: at(0),
            reached: reached_stages(&engine, &id("m")),
            deleting: Some(at(290)),
            ..Previous::default()
        }),
    };
    let mut after = with_clouds();
    ask(&mut after, at(300), again).unwrap();
    after.poll(at(400));
    assert_eq!(told(&after), []);
}

/// A cloud in which the machine is created and deleted while the rate of the clock changes.
fn changing(rates: &[(u64, u64)], created: u64, deleted: u64) -> Watched {
    let mut engine = engine();
    let mut steps = vec![(0, put(1_000_000)), (created, Request::Create(slow()))];
    steps.push((deleted, Request::Delete(id("m"))));
    steps.extend(rates.iter().map(|(millis, rate)| (*millis, put(*rate))));
    steps.sort_by_key(|(millis, _)| *millis);
    for (millis, request) in steps {
        ask(&mut engine, SimTime::from_millis(millis), request).expect("it is accepted");
    }
    engine.poll(END);
    engine
}

proptest! {
    /// However fast the clock runs at any time, operations take as long in the time of the cloud.
    #[test]
    fn a_change_of_the_rate_changes_nothing_about_how_long_operations_take(
        rates in prop::collection::vec((1u64..400_000, 100_000u64..100_000_000), 0..6),
        created in 1u64..100_000, lives in 1u64..600_000,
    ) {
        let engine = changing(&rates, created, created + lives);
        let told = told(&engine);
        let (deleted, stages) = told.split_last().expect("it is deleted");
        prop_assert_eq!(deleted, &expected(&LIFE)[4]);
        prop_assert_eq!(stages, &expected(&LIFE)[..stages.len()]);
    }
}
