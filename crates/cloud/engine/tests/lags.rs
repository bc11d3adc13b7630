//! Changes that reads do not show yet because of a fault.

use std::time::Duration;

use nephele_engine::{
    ApiLimits, CallerMistakes, CloudSpec, Effect, Engine, Fault, Latency, MistakesByCaller, Operation,
    Outcome, Request, ResourceSpec, UpdateSpec,
};
use nephele_model::{Budget, CloudError, HiddenBy, Matches, ResourceId, SimTime, Verb};

use crate::{
    cloud::{Watched, ask, at, engine, id, load_balancer, machine, operation, register},
    faults::{fault, put},
};

fn lagging(seconds: u64, operations: &[Verb]) -> Fault {
    Fault {
        matches: Matches {
            operations: operations.iter().copied().collect(),
            ..Matches::default()
        },
        effect: Effect::Lag(Latency::Fixed(Duration::from_secs(seconds))),
        budget: Budget::default(),
    }
}

fn create(name: &str) -> Request {
    Request::Create(machine(name, &Latency::ZERO))
}

fn cloud_spec() -> ResourceId {
    ResourceId::cloud("default", "")
}

pub(crate) fn put_cloud(lag: Duration) -> Request {
    let api = ApiLimits {
        read_after_write_lag: lag,
        ..ApiLimits::default()
    };
    Request::PutCloud {
        id: cloud_spec(),
        cloud_spec: Box::new(CloudSpec {
            api,
            ..CloudSpec::default()
        }),
        clock: None,
        leaked: Vec::new(),
        cost: None,
        caller_mistakes: MistakesByCaller::new(),
    }
}

fn update(name: &str) -> Request {
    let spec = UpdateSpec {
        name: name.into(),
        to: "v2".into(),
        since: SimTime::default(),
        latency: Latency::ZERO,
    };
    Request::Update(id("m"), spec)
}

/// What a read says about a change that the fault `f` hides.
fn hidden(id: &ResourceId, operation: Verb, lag: u64, left: u64) -> Result<Outcome, CloudError> {
    let lag = Duration::from_secs(lag);
    let visible_in = Duration::from_secs(left);
    let by = Some(Box::new(HiddenBy {
        fault: "f".into(),
        operation,
    }));
    Err(CloudError::NotVisibleYet {
        id: Box::new(id.clone()),
        lag,
        visible_in,
        by,
    })
}

fn read(engine: &mut Engine, now: u64, id: &ResourceId) -> Result<Outcome, CloudError> {
    ask(engine, at(now), Request::Describe(id.clone()))
}

fn lag(fault_of: Fault) -> Watched {
    let mut engine = engine();
    ask(&mut engine, at(0), put_cloud(Duration::ZERO)).expect("it is put");
    ask(&mut engine, at(0), put("f", fault_of)).expect("it is put");
    engine
}

#[test]
fn reads_do_not_show_a_change_until_the_lag_is_over() {
    let mut engine = lag(lagging(4, &[]));
    let m = id("m");
    let lb = load_balancer("lb");
    ask(&mut engine, at(1), create("m")).unwrap();
    assert_eq!(read(&mut engine, 1, &m), hidden(&m, Verb::CreateInstance, 4, 4));
    assert_eq!(read(&mut engine, 4, &m), hidden(&m, Verb::CreateInstance, 4, 1));
    assert_eq!(read(&mut engine, 5, &m), Ok(Outcome::Accepted));
    ask(&mut engine, at(6), update("u")).unwrap();
    assert_eq!(read(&mut engine, 9, &m), hidden(&m, Verb::UpdateInstance, 4, 1));
    // A registration changes the load balancer, and nothing else.
    ask(
        &mut engine,
        at(10),
        Request::Create(ResourceSpec::new(lb.clone())),
    )
    .unwrap();
    ask(&mut engine, at(20), register("lb", "m", "vm")).unwrap();
    assert_eq!(
        read(&mut engine, 21, &lb),
        hidden(&lb, Verb::RegisterBackend, 4, 3)
    );
    assert_eq!(read(&mut engine, 21, &m), Ok(Outcome::Accepted));
    // What is deleted does not show as deleted.
    ask(&mut engine, at(30), Request::Delete(m.clone())).unwrap();
    engine.poll(at(31));
    assert_eq!(engine.get(&m), None);
    assert_eq!(read(&mut engine, 31, &m), hidden(&m, Verb::DeleteInstance, 4, 3));
    assert_eq!(read(&mut engine, 34, &m), Err(CloudError::NotFound(m.clone())));
    let error = hidden(&m, Verb::CreateInstance, 4, 3).unwrap_err();
    let told = "reads of default/demo/instance/m do not show CreateInstance until 4s after it (Fault f)";
    assert_eq!(
        (error.category(), error.to_string()),
        ("NotVisibleYet", told.to_owned())
    );
}

#[test]
fn a_lag_affects_the_operations_that_its_fault_names() {
    let mut engine = lag(lagging(4, &[Verb::UpdateInstance, Verb::DescribeInstance]));
    ask(&mut engine, at(1), create("m")).unwrap();
    assert_eq!(read(&mut engine, 1, &id("m")), Ok(Outcome::Accepted));
    ask(&mut engine, at(2), update("u")).unwrap();
    assert_eq!(
        read(&mut engine, 2, &id("m")),
        hidden(&id("m"), Verb::UpdateInstance, 4, 4)
    );
    let record = engine.fault(&fault("f")).unwrap().decisions.record;
    assert_eq!((record.matched, record.hits), (1, 1), "a read is never hit");
}

#[test]
fn everything_shows_when_the_fault_is_gone_or_its_time_is_over() {
    let mut engine = lag(lagging(100, &[]));
    ask(&mut engine, at(1), create("m")).unwrap();
    ask(&mut engine, at(2), Request::Delete(fault("f"))).unwrap();
    assert_eq!(read(&mut engine, 2, &id("m")), Ok(Outcome::Accepted));
    let brief = Budget {
        lasts: Some(Duration::from_secs(10)),
        ..Budget::default()
    };
    ask(
        &mut engine,
        at(3),
        put(
            "f",
            Fault {
                budget: brief,
                ..lagging(100, &[])
            },
        ),
    )
    .unwrap();
    ask(&mut engine, at(4), create("n")).unwrap();
    assert!(read(&mut engine, 12, &id("n")).is_err());
    assert_eq!(read(&mut engine, 13, &id("n")), Ok(Outcome::Accepted));
}

#[test]
fn the_longer_one_of_two_lags_decides() {
    let mut engine = lag(lagging(4, &[]));
    ask(&mut engine, at(0), put_cloud(Duration::from_secs(9))).unwrap();
    ask(&mut engine, at(1), create("m")).unwrap();
    let lag = Duration::from_secs(9);
    let visible_in = Duration::from_secs(8);
    let of_cloud = CloudError::NotVisibleYet {
        id: Box::new(id("m")),
        lag,
        visible_in,
        by: None,
    };
    assert_eq!(read(&mut engine, 2, &id("m")), Err(of_cloud));
    ask(&mut engine, at(8), update("u")).unwrap();
    assert_eq!(
        read(&mut engine, 9, &id("m")),
        hidden(&id("m"), Verb::UpdateInstance, 4, 3)
    );
}

#[test]
fn a_new_resource_is_not_hidden_by_the_deletion_of_the_one_before() {
    let mut engine = lag(lagging(50, &[Verb::DeleteInstance]));
    ask(&mut engine, at(1), create("m")).unwrap();
    ask(&mut engine, at(2), Request::Delete(id("m"))).unwrap();
    engine.poll(at(3));
    assert_eq!(
        read(&mut engine, 3, &id("m")),
        hidden(&id("m"), Verb::DeleteInstance, 50, 49)
    );
    ask(&mut engine, at(4), create("m")).unwrap();
    assert_eq!(read(&mut engine, 4, &id("m")), Ok(Outcome::Accepted));
}

#[test]
fn a_read_that_misses_a_change_of_its_own_caller_is_counted_for_the_caller() {
    let mut engine = lag(lagging(4, &[]));
    let call = |engine: &mut Engine, caller: &str, now, request| {
        engine.apply(Operation {
            caller: caller.into(),
            ..operation(at(now), request)
        })
    };
    call(&mut engine, "one", 1, create("m"));
    for (caller, times) in [("one", 2), ("two", 3)] {
        for _ in 0..times {
            call(&mut engine, caller, 2, Request::Describe(id("m")));
        }
    }
    call(&mut engine, "one", 9, Request::Describe(id("m")));
    let found = CallerMistakes {
        missed_reads: 2,
        ..CallerMistakes::default()
    };
    let expected = MistakesByCaller::from([("one".to_owned(), found)]);
    assert_eq!(
        engine.caller_mistakes(&cloud_spec()),
        Some(&expected),
        "others read what is not theirs"
    );
    ask(&mut engine, at(10), Request::Delete(cloud_spec())).unwrap();
    assert_eq!(engine.caller_mistakes(&cloud_spec()), None);
    // As after a restart of the manager.
    let again = Request::PutCloud {
        id: cloud_spec(),
        cloud_spec: Box::default(),
        clock: None,
        leaked: Vec::new(),
        cost: None,
        caller_mistakes: expected.clone(),
    };
    ask(&mut engine, at(11), again).unwrap();
    assert_eq!(engine.caller_mistakes(&cloud_spec()), Some(&expected));
}

/// Otherwise any number of callers would be remembered, and any number of changes.
#[test]
fn what_is_remembered_is_bounded() {
    let mut engine = lag(lagging(1000, &[]));
    for number in 0..1100 {
        ask(&mut engine, at(1), create(&format!("m{number}"))).unwrap();
    }
    assert_eq!(engine.fault(&fault("f")).unwrap().decisions.record.hits, 1024);
    assert_eq!(read(&mut engine, 2, &id("m1099")), Ok(Outcome::Accepted));
    ask(&mut engine, at(1003), create("m")).unwrap();
    for number in 0..20 {
        let caller = format!("caller-{number}");
        engine.apply(Operation {
            caller: caller.clone(),
            ..operation(at(2100 + number), update(&caller))
        });
        engine.apply(Operation {
            caller,
            ..operation(at(2100 + number), Request::Describe(id("m")))
        });
    }
    assert_eq!(
        engine.caller_mistakes(&cloud_spec()).map(MistakesByCaller::len),
        Some(CallerMistakes::CALLERS_MAX)
    );
}
