//! The rate of calls of a catalog, and reads that do not show yet what was created.

use std::time::Duration;

use nephele_engine::{
    ApiLimits, CloudSpec, Engine, Entry, Latency, Line, MistakesByCaller, Operation, Outcome, Record, Replay,
    Request, ResourceSpec,
};
use nephele_model::{CallRate, CloudError, ResourceId, SimTime};
use proptest::prelude::*;

use crate::cloud::{Watched, ask, at, engine, id, load_balancer, machine, operation};

/// Sets the limits of the catalog without a name.
fn put(api: ApiLimits) -> Request {
    let id = ResourceId::cloud("default", "");
    let cloud_spec = Box::new(CloudSpec {
        api,
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

fn rate(per_second: u32, burst: u32) -> ApiLimits {
    ApiLimits {
        calls: Some(CallRate { per_second, burst }),
        ..ApiLimits::default()
    }
}

fn lag(seconds: u64) -> ApiLimits {
    ApiLimits {
        read_after_write_lag: Duration::from_secs(seconds),
        ..ApiLimits::default()
    }
}

fn limited(api: ApiLimits) -> Watched {
    let mut engine = engine();
    ask(&mut engine, at(0), put(api)).expect("a catalog can be put");
    engine
}

fn create(name: &str) -> Request {
    Request::Create(machine(name, &Latency::ZERO))
}

#[test]
fn calls_beyond_the_rate_are_refused_until_time_has_passed() {
    let mut engine = limited(rate(1, 2));
    assert_eq!(ask(&mut engine, at(1), create("a")), Ok(Outcome::Accepted));
    assert_eq!(
        ask(&mut engine, at(1), Request::Describe(id("a"))),
        Ok(Outcome::Accepted)
    );
    let rate = CallRate {
        per_second: 1,
        burst: 2,
    };
    let retry_after = Duration::from_secs(1);
    assert_eq!(
        ask(&mut engine, at(1), create("b")),
        Err(CloudError::Throttled { rate, retry_after })
    );
    assert!(engine.get(&id("b")).is_none());
    assert_eq!(ask(&mut engine, at(2), create("b")), Ok(Outcome::Accepted));
}

#[test]
fn a_repeated_call_that_changes_nothing_does_not_count() {
    let mut engine = limited(rate(1, 1));
    assert_eq!(ask(&mut engine, at(1), create("a")), Ok(Outcome::Accepted));
    for _ in 0..3 {
        assert_eq!(ask(&mut engine, at(1), create("a")), Ok(Outcome::AlreadyDone));
        assert_eq!(
            ask(&mut engine, at(1), Request::Delete(id("b"))),
            Ok(Outcome::AlreadyDone)
        );
    }
}

#[test]
fn a_changed_rate_holds_at_once() {
    let mut engine = limited(rate(1, 1));
    assert_eq!(ask(&mut engine, at(1), create("a")), Ok(Outcome::Accepted));
    assert!(ask(&mut engine, at(1), create("b")).is_err());
    ask(&mut engine, at(1), put(ApiLimits::default())).expect("a catalog can be put");
    assert_eq!(ask(&mut engine, at(1), create("b")), Ok(Outcome::Accepted));
    ask(&mut engine, at(1), put(rate(1, 1))).expect("a catalog can be put");
    assert_eq!(ask(&mut engine, at(1), create("c")), Ok(Outcome::Accepted));
}

#[test]
fn the_sweep_is_never_throttled() {
    let mut engine = limited(rate(1, 1));
    assert_eq!(ask(&mut engine, at(1), create("a")), Ok(Outcome::Accepted));
    let delete = Operation {
        caller: Operation::SWEEPER.into(),
        ..operation(at(1), Request::Delete(id("a")))
    };
    assert_eq!(engine.apply(delete), Outcome::Accepted);
}

#[test]
fn what_was_created_does_not_show_in_reads_before_the_lag_is_over() {
    let mut engine = limited(lag(3));
    let balancer = load_balancer("lb");
    ask(&mut engine, at(1), create("a")).expect("there is room");
    ask(
        &mut engine,
        at(1),
        Request::Create(ResourceSpec::new(balancer.clone())),
    )
    .expect("there is room");
    for id in [id("a"), balancer] {
        let hidden = |visible_in| {
            let lag = Duration::from_secs(3);
            let visible_in = Duration::from_secs(visible_in);
            Err(CloudError::NotVisibleYet {
                id: Box::new(id.clone()),
                lag,
                visible_in,
                by: None,
            })
        };
        assert_eq!(ask(&mut engine, at(1), Request::Describe(id.clone())), hidden(3));
        assert_eq!(ask(&mut engine, at(3), Request::Describe(id.clone())), hidden(1));
        assert_eq!(
            ask(&mut engine, at(4), Request::Describe(id.clone())),
            Ok(Outcome::Accepted)
        );
        // The clock of the next one does not go back.
        let missing = ResourceId {
            name: "other".into(),
            ..id.clone()
        };
        let answer = ask(&mut engine, at(1), Request::Describe(missing.clone()));
        assert_eq!(answer, Err(CloudError::NotFound(missing)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A replay counts the same calls and gives the same answers, also from a state in the middle.
    #[test]
    fn replay_counts_the_same_calls(
        script in prop::collection::vec((0_u64..500, 0_u8..4, 0_usize..4), 1..60),
        per_second in 1_u32..8,
        burst in 1_u32..5,
        lag in 0_u64..3,
        middle in 0_usize..60,
    ) {
        let limits = ApiLimits { read_after_write_lag: Duration::from_secs(lag), ..rate(per_second, burst) };
        let mut engine = engine();
        let mut cursor = engine.journal().end();
        let mut lines = vec![Line::State(engine.state())];
        let mut keep = |engine: &Engine, lines: &mut Vec<Line>| {
            let mut batch = Vec::with_capacity(nephele_engine::Journal::CAPACITY);
            engine.journal().read(&mut cursor, &mut batch).expect("tests make fewer records");
            lines.extend(batch.iter().map(|entry| Line::Record(Entry::clone(entry))));
        };
        ask(&mut engine, at(0), put(limits)).expect("a catalog can be put");
        let mut now = 0;
        let mut refused = 0;
        for (step, (wait, what, which)) in script.into_iter().enumerate() {
            now += wait;
            let name = ["a", "b", "c", "d"][which];
            let request = match what {
                0 | 1 => create(name),
                2 => Request::Describe(id(name)),
                _ => Request::Delete(id(name)),
            };
            let answer = ask(&mut engine, SimTime::from_millis(now), request);
            refused += u32::from(matches!(answer, Err(CloudError::Throttled { .. })));
            keep(&engine, &mut lines);
            if step == middle {
                lines.push(Line::State(engine.state()));
            }
        }
        lines.push(Line::digest(&engine));
        let counted = |line: &Line| {
            matches!(line, Line::Record(Entry { record: Record::Operation { outcome: Outcome::Refused(error), .. }, .. })
                if matches!(error, CloudError::Throttled { .. }))
        };
        prop_assert_eq!(lines.iter().filter(|line| counted(line)).count(), refused as usize);
        for from in [0, lines.iter().rposition(|line| matches!(line, Line::State(_))).expect("there is one")] {
            let mut replay = Replay::default();
            for line in &lines[from..] {
                let text = serde_json::to_string(line).unwrap();
                prop_assert_eq!(replay.play(&serde_json::from_str(&text).unwrap()), Ok(()));
            }
            prop_assert_eq!(replay.engine().map(Engine::digest), Some(engine.digest()));
        }
    }
}
