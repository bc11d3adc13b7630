//! Windows in which faults are in force.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use nephele_engine::{
    ActiveEffect, Effect, Engine, Fault, Latency, Outcome, Previous, Record, Request, ResourceSpec,
};
use nephele_model::{
    Budget, FailureReason, FaultPhase, Matches, Odds, ResourceKind, Schedule, SeedKey, SimTime, VisibleEffect,
};
use proptest::prelude::*;

use crate::{
    cloud::{Watched, ask, at, engine, id, machine},
    faults::{fault, put},
};

/// For ten seconds of each minute, five seconds after the begin for the first time.
const SCHEDULE: Schedule = Schedule {
    every: Duration::from_secs(60),
    lasts: Duration::from_secs(10),
    offset: Duration::from_secs(5),
};

fn scheduled(effect: Effect) -> Fault {
    let budget = Budget {
        schedule: Some(SCHEDULE),
        ..Budget::default()
    };
    Fault {
        matches: Matches::default(),
        effect,
        budget,
    }
}

fn not_ready(is_final: bool) -> ActiveEffect {
    ActiveEffect {
        is_final,
        ..ActiveEffect::new(ResourceKind::Instance, VisibleEffect::NotReady)
    }
}

fn numbered(ordinal: u32) -> ResourceSpec {
    let seed_key = Some(SeedKey {
        owner_set: "md".into(),
        ordinal,
    });
    ResourceSpec {
        seed_key,
        ..machine(&format!("m{ordinal}"), &Latency::ZERO)
    }
}

fn affected_ids(engine: &Engine) -> Vec<String> {
    let affected_ids = engine
        .resources()
        .filter(|resource| !resource.active_effects.is_empty());
    affected_ids
        .map(|resource| resource.spec.id.name.clone())
        .collect()
}

fn phase(engine: &Engine, now: SimTime) -> FaultPhase {
    engine.fault(&fault("f")).expect("a fault").phase(now)
}

#[test]
fn operations_are_hit_in_windows_only() {
    let mut engine = engine();
    let retry_after = Duration::from_secs(5);
    let fails = Effect::Fail {
        reason: FailureReason::Throttled,
        message: String::new(),
        retry_after,
    };
    ask(&mut engine, at(100), put("f", scheduled(fails))).unwrap();
    let mut seen = |seconds: u64| {
        let answer = ask(
            &mut engine,
            at(seconds),
            Request::Create(machine(&format!("m{seconds}"), &Latency::ZERO)),
        );
        (answer.is_ok(), phase(&engine, at(seconds)))
    };
    use FaultPhase::{Active, Waiting};
    assert_eq!([100, 104].map(&mut seen), [(true, Waiting); 2]);
    assert_eq!([105, 114].map(&mut seen), [(false, Active); 2]);
    assert_eq!([115, 164].map(&mut seen), [(true, Waiting); 2]);
    assert_eq!([165, 174].map(&mut seen), [(false, Active); 2]);
    assert_eq!(seen(175), (true, Waiting));
    assert_eq!(engine.fault(&fault("f")).unwrap().decisions.record.matched, 4);
}

/// A time to retry that is longer than a window does not answer for the next one.
#[test]
fn each_window_decides_again_about_a_refused_call() {
    let mut engine = engine();
    let fails = Effect::Fail {
        reason: FailureReason::Throttled,
        message: String::new(),
        retry_after: Duration::from_secs(300),
    };
    ask(&mut engine, at(0), put("f", scheduled(fails))).unwrap();
    for seconds in [6, 14, 66] {
        ask(
            &mut engine,
            at(seconds),
            Request::Create(machine("m", &Latency::ZERO)),
        )
        .unwrap_err();
    }
    assert_eq!(engine.fault(&fault("f")).unwrap().decisions.record.hits, 2);
}

/// Who waits for the end of a delay can continue when the window ends.
#[test]
fn a_delay_ends_with_its_window() {
    let mut engine = engine();
    let slow = Effect::Delay(Latency::Fixed(Duration::from_secs(300)));
    ask(&mut engine, at(0), put("f", scheduled(slow))).unwrap();
    let create = || Request::Create(machine("m", &Latency::ZERO));
    assert_eq!(
        ask(&mut engine, at(6), create()),
        Ok(Outcome::Delayed { until: at(306) })
    );
    assert_eq!(
        ask(&mut engine, at(14), create()),
        Ok(Outcome::Delayed { until: at(306) })
    );
    assert_eq!(ask(&mut engine, at(15), create()), Ok(Outcome::Accepted));
}

#[test]
fn machines_are_affected_in_windows_and_the_journal_says_when() {
    let mut engine = engine();
    ask(&mut engine, at(0), Request::Create(numbered(0))).unwrap();
    ask(
        &mut engine,
        at(0),
        put("f", scheduled(Effect::Affect(not_ready(false)))),
    )
    .unwrap();
    let seen = [4, 5, 14, 15, 64, 65, 74, 75].map(|seconds| {
        engine.poll(at(seconds));
        // A machine that comes between two windows waits for the next one.
        let new = numbered(u32::try_from(seconds).expect("small"));
        ask(&mut engine, at(seconds), Request::Create(new)).unwrap();
        affected_ids(&engine).len()
    });
    assert_eq!(seen, [0, 3, 4, 0, 0, 7, 8, 0]);
    let windows = engine.journal().since(1).filter_map(|entry| match &entry.record {
        Record::FaultWindow { at, begins, .. } => Some((*at, *begins)),
        _ => None,
    });
    let expected = [(at(5), true), (at(15), false), (at(65), true), (at(75), false)];
    assert_eq!(windows.collect::<Vec<_>>(), expected);
    engine.poll(at(75));
    assert_eq!(engine.next_deadline(), Some(at(125)));
}

#[test]
fn what_is_final_stays_over_the_end_of_a_window_and_counts_once() {
    let mut engine = engine();
    ask(&mut engine, at(0), Request::Create(numbered(0))).unwrap();
    ask(
        &mut engine,
        at(0),
        put("f", scheduled(Effect::Affect(not_ready(true)))),
    )
    .unwrap();
    engine.poll(at(130));
    let state = engine.fault(&fault("f")).unwrap();
    assert_eq!(
        (affected_ids(&engine), state.decisions.record.hits),
        (vec!["m0".to_owned()], 1)
    );
    assert_eq!(state.affected_ids, BTreeSet::from([id("m0")]));
}

#[test]
fn a_fault_that_is_used_up_heals_at_the_end_of_its_window_and_has_no_more_windows() {
    let mut engine = engine();
    for ordinal in 0..3 {
        ask(&mut engine, at(0), Request::Create(numbered(ordinal))).unwrap();
    }
    let budget = Budget {
        count: Some(2),
        schedule: Some(SCHEDULE),
        ..Budget::default()
    };
    let once = Fault {
        budget,
        ..scheduled(Effect::Affect(not_ready(false)))
    };
    ask(&mut engine, at(0), put("f", once)).unwrap();
    engine.poll(at(10));
    assert_eq!(
        (affected_ids(&engine).len(), phase(&engine, at(10))),
        (2, FaultPhase::Exhausted)
    );
    engine.poll(at(500));
    assert_eq!((affected_ids(&engine), engine.next_deadline()), (vec![], None));
}

#[test]
fn a_change_of_the_schedule_holds_at_once() {
    let mut engine = engine();
    ask(&mut engine, at(0), Request::Create(numbered(0))).unwrap();
    let fault_of = scheduled(Effect::Affect(not_ready(false)));
    ask(&mut engine, at(0), put("f", fault_of.clone())).unwrap();
    engine.poll(at(6));
    assert_eq!(affected_ids(&engine).len(), 1);
    let later = Schedule {
        offset: Duration::from_secs(30),
        ..SCHEDULE
    };
    let budget = Budget {
        schedule: Some(later),
        ..Budget::default()
    };
    ask(
        &mut engine,
        at(7),
        put(
            "f",
            Fault {
                budget,
                ..fault_of.clone()
            },
        ),
    )
    .unwrap();
    assert_eq!(
        (affected_ids(&engine), engine.next_deadline()),
        (vec![], Some(at(30)))
    );
    ask(
        &mut engine,
        at(8),
        put(
            "f",
            Fault {
                budget: Budget::default(),
                ..fault_of
            },
        ),
    )
    .unwrap();
    assert_eq!((affected_ids(&engine).len(), engine.next_deadline()), (1, None));
}

proptest! {
    /// Whenever the manager restarts, also between two windows or for several, the same machines are affected as
    /// without the restart. The status of the Fault has what the next manager is told.
    #[test]
    fn a_restart_shifts_no_window_and_changes_no_machine(
        odds in 0.0..1.0f64, stop in 0u64..400, pause in 0u64..200, after in 0u64..400,
    ) {
        let budget = Budget { probability: Odds::new(odds), schedule: Some(SCHEDULE), ..Budget::default() };
        let fault_of = Fault { budget, ..scheduled(Effect::Affect(not_ready(false))) };
        let started = || {
            let mut engine = engine();
            for ordinal in 0..6 {
                ask(&mut engine, at(0), Request::Create(numbered(ordinal))).unwrap();
            }
            ask(&mut engine, at(0), put("f", fault_of.clone())).unwrap();
            engine
        };
        let mut stays = started();
        let mut stops = started();
        stops.poll(at(stop));
        let state = stops.fault(&fault("f")).unwrap();
        let put = Request::PutFault {
            id: fault("f"),
            fault: Box::new(fault_of.clone()),
            record: state.decisions.record,
            affected_ids: state.affected_ids.iter().cloned().collect(),
            notices: Vec::new(),
            is_cut: false,
            skipped: Vec::new(),
            leaked: Vec::new(),
            paused: false,
        };
        let mut next: Watched = engine();
        let back = at(stop + pause);
        ask(&mut next, back, put).unwrap();
        for ordinal in [5, 0, 4, 1, 3, 2] {
            let spec = numbered(ordinal);
            let reached = BTreeMap::new();
            let adopt = Request::Adopt { spec, previous: Box::new(Previous { created: at(0), reached, ..Previous::default() }) };
            ask(&mut next, back, adopt).unwrap();
        }
        for now in [back, at(stop + pause + after)] {
            stays.poll(now);
            next.poll(now);
            prop_assert_eq!(affected_ids(&next), affected_ids(&stays));
            prop_assert_eq!(next.next_deadline(), stays.next_deadline());
        }
    }
}
