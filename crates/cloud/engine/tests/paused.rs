//! Faults that are paused: they keep their effect on what they have hit, and decide nothing new.

use std::{collections::BTreeSet, time::Duration};

use nephele_engine::{ActiveEffect, Effect, Engine, Fault, Latency, Outcome, Request};
use nephele_model::{
    Budget, FailureReason, FaultRecord, Matches, Odds, ResourceId, ResourceKind, Schedule, VisibleEffect,
};
use proptest::prelude::*;

use crate::{
    cloud::{Watched, ask, at, engine, id, machine},
    faults::{fault, put},
};

fn set_paused(request: Request, paused: bool) -> Request {
    match request {
        Request::PutFault {
            id,
            fault,
            record,
            affected_ids,
            is_cut,
            notices,
            skipped,
            leaked,
            ..
        } => Request::PutFault {
            id,
            fault,
            record,
            affected_ids,
            is_cut,
            notices,
            skipped,
            leaked,
            paused,
        },
        other => other,
    }
}

fn name(number: u8) -> String {
    format!("m{number}")
}

fn create(engine: &mut Engine, second: u64, number: u8) {
    let _ = ask(
        engine,
        at(second),
        Request::Create(machine(&name(number), &Latency::ZERO)),
    );
}

/// The machines that are ill.
fn ill(engine: &Engine) -> BTreeSet<String> {
    let ill = engine
        .resources()
        .filter(|resource| !resource.active_effects.is_empty());
    ill.map(|resource| resource.spec.id.name.clone()).collect()
}

fn record(engine: &Engine) -> FaultRecord {
    engine.fault(&fault("f")).expect("it is there").decisions.record
}

/// The next process: it has what the status of the Fault said when it was paused, and adopts all machines.
fn restarted(
    engine: &Engine,
    second: u64,
    fault_of: &Fault,
    record: FaultRecord,
    ill: &BTreeSet<String>,
) -> Watched {
    let mut next = self::engine();
    let affected_ids: Vec<ResourceId> = ill.iter().map(|name| id(name)).collect();
    let put = Request::PutFault {
        id: fault("f"),
        fault: Box::new(fault_of.clone()),
        record,
        affected_ids,
        notices: Vec::new(),
        is_cut: false,
        skipped: Vec::new(),
        leaked: Vec::new(),
        paused: true,
    };
    ask(&mut next, at(second), put).expect("it is taken");
    for resource in engine.resources() {
        let adopt = Request::Adopt {
            spec: resource.spec.clone(),
            previous: Box::default(),
        };
        ask(&mut next, at(second), adopt).expect("it is adopted");
    }
    next
}

fn faults() -> impl Strategy<Value = Fault> {
    let effect = prop_oneof![
        Just(Effect::Affect(ActiveEffect::new(
            ResourceKind::Instance,
            VisibleEffect::NotReady
        ))),
        Just(Effect::Fail {
            reason: FailureReason::Throttled,
            message: String::new(),
            retry_after: Duration::from_secs(1),
        }),
        Just(Effect::Outage {
            active_effect: ActiveEffect::new(ResourceKind::Instance, VisibleEffect::NotReady),
            retry_after: Duration::from_secs(1),
        }),
    ];
    let schedule = (2..30_u64, 1..20_u64).prop_map(|(every, lasts)| Schedule {
        every: Duration::from_secs(every + lasts),
        lasts: Duration::from_secs(lasts),
        offset: Duration::ZERO,
    });
    let lasts = prop::option::of((1..80_u64).prop_map(Duration::from_secs));
    (
        effect,
        0.2..1.0f64,
        0..3_u64,
        prop::option::of(1..6_u64),
        lasts,
        prop::option::of(schedule),
    )
        .prop_map(|(effect, odds, skip, count, lasts, schedule)| {
            let budget = Budget {
                probability: Odds::new(odds),
                skip,
                count,
                lasts,
                schedule,
            };
            Fault {
                matches: Matches::default(),
                effect,
                budget,
            }
        })
}

proptest! {
    /// Whatever happens, a paused fault counts nothing, hits nothing and heals on time, before and after a restart alike. When
    /// it is resumed, it decides about what came meanwhile.
    #[test]
    fn a_paused_fault_only_ends(
        fault_of in faults(),
        before in 1..8_u8,
        paused_at in 2..40_u64,
        steps in prop::collection::vec((1..30_u64, 0..16_u8, prop::bool::ANY), 1..8),
    ) {
        let mut engine = engine();
        ask(&mut engine, at(1), put("f", fault_of.clone())).expect("it is taken");
        for number in 0..before {
            create(&mut engine, 1, number);
        }
        engine.poll(at(paused_at));
        ask(&mut engine, at(paused_at), set_paused(put("f", fault_of.clone()), true)).expect("it is taken");
        // What the status says, which is not written again.
        let known = record(&engine);
        let were_ill = ill(&engine);
        let mut now = paused_at;
        let mut still = were_ill.clone();
        let mut made = before;
        for (passes, number, deletes) in steps {
            now += passes;
            engine.poll(at(now));
            let request = if deletes {
                Request::Delete(id(&name(number)))
            } else {
                // As in a management cluster, no name is used again.
                made += 1;
                Request::Create(machine(&name(made), &Latency::ZERO))
            };
            let asked = ask(&mut engine, at(now), request);
            prop_assert!(asked.is_ok(), "{asked:?}");
            engine.poll(at(now));
            let FaultRecord { matched, hits, .. } = record(&engine);
            prop_assert_eq!((matched, hits), (known.matched, known.hits));
            let ill_now = ill(&engine);
            prop_assert!(ill_now.is_subset(&still), "{ill_now:?} of {still:?}");
            still = ill_now;
            let next = restarted(&engine, now, &fault_of, known, &were_ill);
            prop_assert_eq!(&ill(&next), &still);
            let FaultRecord { matched, hits, .. } = record(&next);
            prop_assert_eq!((matched, hits), (known.matched, known.hits));
        }
        let resumed = ask(&mut engine, at(now), put("f", fault_of.clone()));
        prop_assert_eq!(resumed, Ok(Outcome::Accepted));
        prop_assert!(ill(&engine).is_superset(&still), "what was ill stays ill");
    }
}

#[test]
fn a_call_that_a_paused_fault_delays_waits_for_its_time_and_another_one_does_not() {
    let mut engine = engine();
    let slow = Effect::Delay(Latency::Fixed(Duration::from_secs(60)));
    let fault_of = Fault {
        matches: Matches::default(),
        effect: slow,
        budget: Budget::default(),
    };
    ask(&mut engine, at(0), put("f", fault_of.clone())).expect("it is taken");
    let asked = |engine: &mut Engine, second: u64, name: &str| {
        ask(engine, at(second), Request::Create(machine(name, &Latency::ZERO)))
    };
    let waits = Ok(Outcome::Delayed { until: at(61) });
    assert_eq!(asked(&mut engine, 1, "a"), waits);
    ask(&mut engine, at(2), set_paused(put("f", fault_of), true)).expect("it is taken");
    assert_eq!(asked(&mut engine, 3, "a"), waits);
    assert_eq!(asked(&mut engine, 3, "b"), Ok(Outcome::Accepted));
    assert_eq!(asked(&mut engine, 61, "a"), Ok(Outcome::Accepted));
    assert_eq!(record(&engine).hits, 1);
}
