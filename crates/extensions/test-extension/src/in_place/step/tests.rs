use nephele_api::infrastructure::v1beta2::creation_record::CreationRecord;

use super::*;

const NOW: &str = "2026-01-02T03:04:05.678901Z";

fn at(seconds: i64) -> Timestamp {
    let now: Timestamp = NOW.parse().unwrap();
    now + jiff::SignedDuration::from_secs(seconds)
}

fn software(version: &str) -> Software {
    Software {
        version: version.into(),
        ..Software::default()
    }
}

fn pace() -> Pace {
    let setting = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let settings = [("inPlaceUpdateDuration", "1m"), ("inPlaceUpdateJitter", "0.5")];
    Pace::of(&settings.map(setting).into()).unwrap()
}

/// A machine that runs v1.36.3, with its last requested update.
fn object(update: Option<Update>) -> InMemoryMachine {
    running("v1.36.3", update)
}

fn running(version: &str, update: Option<Update>) -> InMemoryMachine {
    let mut object = InMemoryMachine::default();
    object.metadata.name = Some("m".into());
    let origin = CreationRecord {
        software: Some(software(version)),
        ..CreationRecord::begun(MicroTime(at(-1000)))
    };
    object.instance_mut().origin = Some(origin);
    object.instance_mut().update = update;
    object
}

fn update(version: &str) -> Update {
    Update {
        software: software(version),
        asked_at: MicroTime(at(0)),
        duration: GoDuration::parse("1m").ok(),
        jitter: Fraction::parse("0.5").ok(),
        failure: String::new(),
        ended: None,
    }
}

fn ended(update: Update) -> Update {
    Update {
        ended: Some(MicroTime(at(60))),
        ..update
    }
}

fn waits(seconds: u16) -> UpdateMachineResponse {
    UpdateMachineResponse::retry_after(seconds, "the simulated machine is updated to v1.36.4")
}

fn fails(message: &str) -> UpdateMachineResponse {
    UpdateMachineResponse {
        status: ResponseStatus::Failure,
        message: message.into(),
        ..Default::default()
    }
}

fn next(object: &InMemoryMachine, preloaded: Option<UpdateMachineResponse>, seconds: i64) -> Step {
    step(object, &software("v1.36.4"), preloaded, &pace(), at(seconds))
}

fn asks(update: Update) -> Step {
    Step::Ask(Box::new(update), waits(10))
}

#[test]
fn an_update_is_asked_for_once_and_waited_for() {
    assert_eq!(next(&object(None), None, 0), asks(update("v1.36.4")));
    let asked = object(Some(update("v1.36.4")));
    for (seconds, wait) in [(0, 10), (49, 10), (53, 7), (59, 1), (60, 1), (300, 1), (-5, 10)] {
        assert_eq!(
            next(&asked, None, seconds),
            Step::Answer(waits(wait)),
            "{seconds}"
        );
    }
    let done = running("v1.36.4", Some(ended(update("v1.36.4"))));
    assert_eq!(
        next(&done, None, 70),
        Step::Answer(UpdateMachineResponse::default())
    );
}

#[test]
fn what_runs_so_already_is_done() {
    let done = Step::Answer(UpdateMachineResponse::default());
    assert_eq!(next(&running("v1.36.4", None), None, 0), done);
    assert_eq!(
        next(&running("v1.36.4", Some(ended(update("v1.36.2")))), None, 0),
        done
    );
    // An update to another version is in progress.
    let other = running("v1.36.4", Some(update("v1.36.5")));
    assert_eq!(next(&other, None, 0), asks(update("v1.36.4")));
}

/// The end of an update and the software that runs are written together. If they differ, another client wrote one.
#[test]
fn an_update_that_is_over_is_not_done_when_something_else_runs() {
    let lied = object(Some(ended(update("v1.36.4"))));
    let again = Update {
        asked_at: MicroTime(at(80)),
        ..update("v1.36.4")
    };
    assert_eq!(next(&lied, None, 80), asks(again));
    let mut unknown = lied;
    unknown.instance_mut().origin = None;
    assert!(matches!(next(&unknown, None, 80), Step::Ask(..)));
}

#[test]
fn another_target_is_another_update() {
    let asked = object(Some(update("v1.36.5")));
    let another = Update {
        asked_at: MicroTime(at(7)),
        ..update("v1.36.4")
    };
    assert_eq!(next(&asked, None, 7), asks(another));
}

#[test]
fn one_that_is_to_fail_takes_its_time_fails_and_is_begun_again_when_it_may_work() {
    let failing = Update {
        failure: "no space".into(),
        ..update("v1.36.4")
    };
    let preloaded = || Some(fails("no space"));
    assert_eq!(next(&object(None), preloaded(), 0), asks(failing.clone()));
    // An update in progress fails, too.
    assert_eq!(
        next(&object(Some(update("v1.36.4"))), preloaded(), 0),
        asks(failing.clone())
    );
    assert_eq!(
        next(&object(Some(failing.clone())), preloaded(), 55),
        Step::Answer(waits(5))
    );
    let failed = object(Some(ended(failing)));
    for _ in 0..2 {
        assert_eq!(next(&failed, preloaded(), 70), Step::Answer(fails("no space")));
    }
    let again = Update {
        asked_at: MicroTime(at(80)),
        ..update("v1.36.4")
    };
    assert_eq!(next(&failed, None, 80), asks(again));
    let told = Update {
        failure: "a preloaded response makes it fail".into(),
        ..update("v1.36.4")
    };
    assert_eq!(next(&object(None), Some(fails("")), 0), asks(told));
}

#[test]
fn one_that_is_held_is_not_begun() {
    let held = UpdateMachineResponse::retry_after(3, "held");
    assert_eq!(next(&object(None), Some(held.clone()), 0), Step::Answer(held));
    let lets = UpdateMachineResponse::default();
    assert_eq!(next(&object(None), Some(lets), 0), asks(update("v1.36.4")));
}

#[test]
fn the_duration_of_updates_has_the_format_of_start_ups() {
    let settings = |duration: &str, jitter: &str| {
        let setting = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let duration = setting("inPlaceUpdateDuration", duration);
        Settings::from([duration, setting("inPlaceUpdateJitter", jitter)])
    };
    let pace = |duration: &str, jitter: &str| {
        let duration = GoDuration::parse(duration).expect("a duration");
        Pace {
            duration,
            jitter: Fraction::parse(jitter).ok(),
        }
    };
    assert_eq!(Pace::of(&Settings::new()), Ok(pace("10s", "")));
    assert_eq!(Pace::of(&settings("1m30s", "0.5")), Ok(pace("1m30s", "0.5")));
    for (duration, jitter, field) in [
        ("soon", "0", "inPlaceUpdateDuration"),
        ("-1s", "", "inPlaceUpdateDuration"),
        ("1s", "much", "inPlaceUpdateJitter"),
    ] {
        let error = Pace::of(&settings(duration, jitter)).unwrap_err().to_string();
        assert_eq!(error, format!("failed to read the setting {field}"));
    }
}
