use nephele_api::cloud::v1alpha1::Fault;
use serde_json::json;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_772_600_000 + second).expect("a time")
}

fn sight(is_available: bool, running: i32) -> Sight {
    Sight(
        [
            ("quiet".to_owned(), (true, 1)),
            ("a".to_owned(), (is_available, running)),
        ]
        .into(),
    )
}

fn fault(name: &str) -> (Act, Outcome) {
    let fault = json!({ "metadata": {}, "spec": { "effect": { "freeze": {} }, "budget": { "for": "60s" } } });
    let fault: Fault = serde_json::from_value(fault).expect("a Fault");
    (
        Act::Create(Box::new(fault)),
        Outcome::Created(Key::new("team", name)),
    )
}

#[test]
fn acts_become_steps_with_what_was_seen_between_them() {
    let mut recording = Recording::begin("team", at(0));
    let (act, outcome) = fault("freeze-1");
    recording.note(&act, &outcome, sight(true, 3), at(5));
    let pause = clock::ClockChange {
        cloud: "default".to_owned(),
        rate: None,
        paused: Some(true),
        step: None,
        jump: None,
    };
    let key = Key::new("team", "default");
    let set = Act::SetClock {
        namespace: "team".to_owned(),
        change: pause,
    };
    recording.note(&set, &Outcome::Set(key), sight(true, 3), at(15));
    let heal = |name: &str| {
        let key = Key::new("team", name);
        (Act::Delete(key.clone()), Outcome::Deleted(key))
    };
    // Of another one, which the Scenario does not make.
    let (act, outcome) = heal("older");
    recording.note(&act, &outcome, sight(false, 2), at(40));
    let (act, outcome) = heal("freeze-1");
    recording.note(&act, &outcome, sight(false, 2), at(45));
    let told = recording.told();
    let words: Vec<_> = told
        .iter()
        .map(|(second, word)| (*second, word.as_str()))
        .collect();
    assert_eq!(
        words,
        [
            (5, "Fault freeze-1 begins"),
            (15, "the clock of default changes"),
            (45, "Fault freeze-1 ends")
        ]
    );
    recording.end(sight(true, 3), at(105));
    let scenario = serde_json::to_value(recording.scenario()).expect("JSON");
    let machines = |count: i32, within: &str| json!({ "machines": { "cluster": "a", "phase": "Running", "count": count }, "within": within });
    let steps = json!([
        { "wait": { "cluster": "a", "condition": "Available", "within": "10m" } },
        { "wait": machines(3, "10m") },
        { "fault": { "name": "freeze-1", "spec": { "effect": { "freeze": {} }, "budget": { "for": "60s" } } } },
        { "pause": "10s" },
        { "clock": { "cloud": "default", "paused": true } },
        { "expect": { "cluster": "a", "condition": "Available", "status": "False", "within": "120s" } },
        { "expect": machines(2, "120s") },
        { "heal": { "fault": "freeze-1" } },
        { "expect": { "cluster": "a", "condition": "Available", "within": "180s" } },
        { "expect": machines(3, "180s") },
    ]);
    assert_eq!(scenario["spec"], json!({ "steps": steps }));
    assert_eq!(scenario["metadata"]["namespace"], "team");
}

#[test]
fn a_full_recording_is_a_scenario_that_the_kind_takes() {
    let mut recording = Recording::begin("team", at(0));
    for number in 0..100 {
        let (act, outcome) = fault(&format!("freeze-{number}"));
        recording.note(
            &act,
            &outcome,
            sight(number % 2 == 0, number),
            at(i64::from(number)),
        );
    }
    recording.end(sight(true, 0), at(200));
    let scenario = recording.scenario();
    assert_eq!(recording.told().len(), ACTS_MAX);
    assert!(scenario.spec.steps.len() <= 100, "{}", scenario.spec.steps.len());
    assert_eq!(
        nephele_scenario::actions(&scenario.spec).len(),
        scenario.spec.steps.len()
    );
}

#[test]
fn acts_elsewhere_are_not_recorded() {
    let mut recording = Recording::begin("other", at(0));
    let (act, outcome) = fault("freeze-1");
    recording.note(&act, &outcome, sight(true, 3), at(5));
    assert_eq!(recording.told(), []);
}
