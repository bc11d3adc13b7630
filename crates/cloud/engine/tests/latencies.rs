//! Distributions of durations, and the latencies of a catalog.

use std::{collections::BTreeMap, time::Duration};

use nephele_engine::{
    CloudSpec, Config, Engine, EventKind, Latencies, Latency, MistakesByCaller, Request, ResourceSpec, Seed,
    StageSpec, StageState,
};
use nephele_model::ResourceId;
use proptest::prelude::*;

use crate::cloud::{Watched, ask, at, engine, id, machine, stage};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A distribution of each kind that is drawn by its quantile, around a minute.
fn distributions() -> [Latency; 5] {
    [
        Latency::Normal {
            mean: seconds(60),
            standard_deviation: seconds(10),
        },
        Latency::Lognormal {
            median: seconds(60),
            p99: seconds(300),
        },
        Latency::Triangular {
            min: seconds(30),
            mode: seconds(40),
            max: seconds(120),
        },
        Latency::Exponential { mean: seconds(60) },
        Latency::Empirical([10, 20, 60, 100].map(seconds).into()),
    ]
}

/// How long the machines `0`, `1`, … of a seed take for one stage, in milliseconds, sorted.
fn draws(latency: &Latency, seed: &str, count: usize) -> Vec<u64> {
    let mut engine = Engine::new(Config::default(), Seed::new(seed));
    for number in 0..count {
        let stages = vec![stage("vm", &[], latency)];
        let spec = ResourceSpec {
            stages,
            ..ResourceSpec::new(id(&number.to_string()))
        };
        ask(&mut engine, at(0), Request::Create(spec)).expect("there is room");
    }
    engine.poll(at(1_000_000));
    let reached = engine
        .resources()
        .flat_map(|resource| resource.stages().map(|(_, state)| state.clone()));
    let mut draws: Vec<_> = reached
        .map(|state| match state {
            StageState::Reached { at } => at.as_millis(),
            other => panic!("{other:?} after eleven days"),
        })
        .collect();
    draws.sort_unstable();
    draws
}

/// A release changes no draw. The times were computed in Python, with its `statistics.NormalDist` and `math`.
#[test]
fn draws_of_distributions_never_change() {
    let golden = [
        [46_937, 55_081, 56_831, 72_358],
        [24_303, 42_693, 48_187, 141_074],
        [39_282, 49_587, 52_953, 92_079],
        [6_037, 22_386, 28_262, 133_386],
        [10_000, 20_000, 20_000, 100_000],
    ];
    for (latency, expected) in distributions().iter().zip(golden) {
        assert_eq!(draws(latency, "amber-otter-lamp", 4), expected, "{latency:?}");
    }
}

/// 4,000 draws: the median of a sample differs from that of the distribution by 3 % of the spread at most, and its 99th
/// percentile by some 15 %.
#[test]
fn samples_have_the_median_and_the_99th_percentile_of_their_distribution() {
    let known = [
        (60.0, 83.26),
        (60.0, 300.0),
        (60.0, 111.51),
        (41.59, 276.31),
        (60.0, 100.0),
    ];
    for (latency, (median, p99)) in distributions().iter().zip(known) {
        let sample = draws(latency, "amber-otter-lamp", 4000);
        let at = |part: f64| sample[(sample.len() as f64 * part) as usize] as f64 / 1000.0;
        let far = |seen: f64, known: f64, part: f64| (seen - known).abs() > known * part;
        // Half of the empirical draws are at most 20 s: there is no single median.
        let is_empirical = matches!(latency, Latency::Empirical(_));
        assert!(
            is_empirical || !far(at(0.5), median, 0.06),
            "{latency:?}: median {}",
            at(0.5)
        );
        assert!(!far(at(0.99), p99, 0.15), "{latency:?}: p99 {}", at(0.99));
    }
}

#[test]
fn empirical_draws_are_the_values_and_each_is_drawn_as_often() {
    let sample = draws(&distributions()[4], "amber-otter-lamp", 4000);
    let mut counts = BTreeMap::<u64, usize>::new();
    sample
        .iter()
        .for_each(|draw| *counts.entry(*draw).or_default() += 1);
    assert!(counts.keys().eq(&[10_000, 20_000, 60_000, 100_000]));
    assert!(
        counts.values().all(|count| (900..1100).contains(count)),
        "{counts:?}"
    );
    assert_eq!(draws(&Latency::Empirical(vec![]), "s", 2), [0, 0]);
}

proptest! {
    /// Whatever the parameters, a draw is between zero and a day, and in whole milliseconds.
    #[test]
    fn draws_stay_within_their_bounds(one: u64, other: u64, third: u64, seed in "[a-z]{1,8}", shift in 0..64u32) {
        let [one, other, third] = [one, other, third].map(|millis| Duration::from_millis(millis >> shift));
        let mut corners = [one, other, third];
        corners.sort_unstable();
        let day = 86_400_000;
        for latency in [
            Latency::Normal { mean: one, standard_deviation: other },
            Latency::Lognormal { median: one, p99: other },
            Latency::Exponential { mean: one },
            Latency::Empirical(corners.into()),
        ] {
            let sample = draws(&latency, &seed, 3);
            prop_assert!(sample.iter().all(|draw| *draw <= day), "{:?} {:?}", latency, sample);
        }
        let sample = draws(&Latency::Triangular { min: one, mode: other, max: third }, &seed, 3);
        let [min, _, max] = corners.map(|corner| u64::try_from(corner.as_millis()).unwrap_or(u64::MAX).min(day));
        prop_assert!(sample.iter().all(|draw| (min.saturating_sub(1)..=max.saturating_add(1)).contains(draw)));
    }
}

fn cloud_spec(latencies: Latencies) -> Request {
    let id = ResourceId::cloud(id("m").namespace, "north");
    let cloud_spec = Box::new(CloudSpec {
        latencies,
        ..CloudSpec::default()
    });
    Request::PutCloud {
        id,
        cloud_spec,
        clock: None,
        leaked: Vec::new(),
        cost: None,
        caller_mistakes: MistakesByCaller::new(),
    }
}

fn latencies(vm: u64, deletion: u64) -> Latencies {
    Latencies {
        stages: [("vm".into(), Latency::Fixed(seconds(vm)))].into(),
        deletion: Some(Latency::Fixed(seconds(deletion))),
    }
}

/// A machine of the catalog that leaves everything open but the stage node.
fn open_machine(name: &str) -> ResourceSpec {
    let spec = machine(name, &Latency::ZERO);
    let open = |stage: StageSpec| StageSpec {
        latency: None,
        ..stage
    };
    let mut stages: Vec<_> = spec.stages.iter().cloned().map(open).collect();
    stages[1].latency = Some(Latency::Fixed(seconds(7)));
    ResourceSpec {
        cloud_spec: "north".into(),
        stages,
        deletion: None,
        ..spec
    }
}

#[test]
fn what_a_specification_leaves_open_takes_as_long_as_the_catalog_says() {
    let mut engine = engine();
    ask(&mut engine, at(0), cloud_spec(latencies(10, 30))).unwrap();
    ask(&mut engine, at(0), Request::Create(open_machine("m"))).unwrap();
    let told = |engine: &mut Watched, now| {
        let told = engine.poll(at(now)).into_iter();
        told.map(|event| (event.at.as_millis() / 1000, event.id.name, event.kind))
            .collect::<Vec<_>>()
    };
    let reached = |at: u64, stage: &str| (at, "m".to_owned(), EventKind::StageReached(stage.into()));
    assert_eq!(
        told(&mut engine, 20),
        [
            reached(10, "vm"),
            reached(17, "node"),
            reached(17, "etcd"),
            reached(17, "api-server")
        ]
    );
    // Changed latencies are for what begins from then on: also for the deletion of what exists.
    ask(&mut engine, at(20), Request::Create(open_machine("n"))).unwrap();
    ask(&mut engine, at(21), cloud_spec(latencies(100, 5))).unwrap();
    ask(&mut engine, at(21), Request::Delete(id("m"))).unwrap();
    assert_eq!(told(&mut engine, 26), [(26, "m".to_owned(), EventKind::Deleted)]);
    let vm = (30, "n".to_owned(), EventKind::StageReached("vm".into()));
    assert_eq!(told(&mut engine, 30), [vm]);
    // Without the catalog nothing takes time any more.
    ask(
        &mut engine,
        at(31),
        Request::Delete(ResourceId::cloud(id("m").namespace, "north")),
    )
    .unwrap();
    ask(&mut engine, at(31), Request::Delete(id("n"))).unwrap();
    assert_eq!(told(&mut engine, 31), [(31, "n".to_owned(), EventKind::Deleted)]);
}
