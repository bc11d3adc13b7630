//! Creations that are carried out twice, and what the callers of a catalog do.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use nephele_engine::{
    CloudSpec, Effect, Engine, EventKind, Fault, Footprint, Latency, Leaked, Line, MistakesByCaller,
    Operation, Outcome, Replay, Request, ResourceSpec,
};
use nephele_model::{
    Budget, Capacity, CloudError, FailureReason, Matches, Odds, Quota, Quotas, ResourceId, SimTime,
};
use proptest::prelude::*;

use crate::{
    cloud::{Watched, ask, at, deregister, engine, id, load_balancer, machine, operation, register},
    faults::{fault, keep, put},
    lags::put_cloud,
};

const RETRY_AFTER: Duration = Duration::from_secs(5);

fn duplicating() -> Fault {
    Fault {
        matches: Matches::default(),
        effect: Effect::Duplicate {
            retry_after: RETRY_AFTER,
        },
        budget: Budget::default(),
    }
}

fn create(name: &str) -> Request {
    Request::Create(ResourceSpec {
        addresses: vec!["10.0.0.1".into()],
        ..machine(name, &Latency::Fixed(Duration::from_secs(3)))
    })
}

fn cloud_spec() -> ResourceId {
    ResourceId::cloud("default", "")
}

fn lost() -> CloudError {
    CloudError::Fault {
        fault: "f".into(),
        reason: FailureReason::LostAnswer,
        message: String::new(),
        retry_after: RETRY_AFTER,
    }
}

fn doubling() -> Watched {
    let mut engine = engine();
    ask(&mut engine, at(0), put_cloud(Duration::ZERO)).expect("it is put");
    ask(&mut engine, at(0), put("f", duplicating())).expect("it is put");
    engine
}

fn leaked(engine: &Engine) -> Vec<(String, SimTime)> {
    engine
        .leaked(&cloud_spec())
        .map(|leaked| (leaked.id.name.clone(), leaked.since))
        .collect()
}

fn double_creates(engine: &Engine) -> u64 {
    let caller_mistakes = engine
        .caller_mistakes(&cloud_spec())
        .and_then(|callers| callers.get("test"));
    caller_mistakes.map_or(0, |caller_mistakes| caller_mistakes.double_creates)
}

#[test]
fn a_repeated_creation_makes_a_second_instance_and_the_first_one_leaks() {
    let mut engine = doubling();
    assert_eq!(ask(&mut engine, at(1), create("m")), Err(lost()));
    engine.poll(at(6));
    assert!(engine.is_unanswered(&id("m")));
    assert_eq!(ask(&mut engine, at(6), create("m")), Ok(Outcome::Accepted));
    let made = engine.get(&id("m")).expect("the second one");
    assert_eq!((made.created, made.unanswered.as_ref()), (at(6), None));
    let first = Leaked {
        id: id("m"),
        since: at(6),
        fault: "f".into(),
        addresses: vec![],
        endpoint: None,
        footprint: Footprint {
            processors: 2,
            ..Footprint::default()
        },
    };
    assert_eq!(engine.leaked(&cloud_spec()).collect::<Vec<_>>(), [&first]);
    let capacity = Capacity::CloudQuota {
        cloud_spec: cloud_spec(),
        of: Quota::Instances,
    };
    assert_eq!((engine.taken(&capacity), double_creates(&engine)), (2, 1));
    // The second one passes through its stages from the beginning, and is found by further repetitions.
    let kinds: Vec<_> = engine
        .poll(at(9))
        .into_iter()
        .map(|event| (event.at, event.kind))
        .collect();
    let leak = EventKind::Leaked {
        fault: "f".into(),
        since: at(6),
        addresses: vec![],
        is_adopted: false,
        is_replaced: true,
    };
    assert_eq!(
        kinds[kinds.len() - 2..],
        [(at(6), leak), (at(9), EventKind::StageReached("vm".into()))],
        "{kinds:?}"
    );
    assert_eq!(ask(&mut engine, at(10), create("m")), Ok(Outcome::AlreadyDone));
    assert_eq!(
        (
            leaked(&engine).len(),
            engine.fault(&fault("f")).unwrap().decisions.record.hits
        ),
        (1, 1)
    );
    ask(&mut engine, at(11), Request::DeleteLeaked(cloud_spec())).unwrap();
    assert_eq!(
        (engine.taken(&capacity), engine.get(&id("m")).is_some()),
        (1, true)
    );
}

#[test]
fn a_repetition_finds_the_first_instance_if_there_is_no_room_for_a_second_one() {
    let mut engine = doubling();
    let quotas = Quotas {
        instances: Some(1),
        ..Quotas::default()
    };
    let cloud_spec = Box::new(CloudSpec {
        quotas,
        ..CloudSpec::default()
    });
    let caller_mistakes = MistakesByCaller::new();
    let small = Request::PutCloud {
        id: self::cloud_spec(),
        cloud_spec,
        clock: None,
        leaked: vec![],
        cost: None,
        caller_mistakes,
    };
    ask(&mut engine, at(0), small).unwrap();
    assert_eq!(ask(&mut engine, at(1), create("m")), Err(lost()));
    assert_eq!(ask(&mut engine, at(2), create("m")), Ok(Outcome::AlreadyDone));
    assert_eq!(
        (leaked(&engine), engine.waiting().count(), double_creates(&engine)),
        (vec![], 0, 0)
    );
    // When there is room again, the creator knows the instance.
    ask(&mut engine, at(3), put_cloud(Duration::ZERO)).unwrap();
    assert_eq!(ask(&mut engine, at(4), create("m")), Ok(Outcome::AlreadyDone));
    assert_eq!(engine.get(&id("m")).map(|found| found.created), Some(at(1)));
}

#[test]
fn a_repetition_finds_the_first_instance_when_the_fault_is_gone() {
    let mut engine = doubling();
    assert_eq!(ask(&mut engine, at(1), create("m")), Err(lost()));
    ask(&mut engine, at(2), Request::Delete(fault("f"))).unwrap();
    assert_eq!(ask(&mut engine, at(3), create("m")), Ok(Outcome::AlreadyDone));
    assert_eq!((leaked(&engine), double_creates(&engine)), (vec![], 0));
}

#[test]
fn an_instance_that_is_deleted_before_the_repetition_is_not_made_twice() {
    let mut engine = doubling();
    assert_eq!(ask(&mut engine, at(1), create("m")), Err(lost()));
    ask(&mut engine, at(2), Request::Delete(id("m"))).unwrap();
    assert_eq!(
        ask(&mut engine, at(3), create("m")),
        Err(CloudError::Deleting(id("m")))
    );
    engine.poll(at(9));
    assert_eq!(
        ask(&mut engine, at(9), create("m")),
        Err(lost()),
        "another instance, and another hit"
    );
    assert_eq!(leaked(&engine), []);
}

/// One step of a caller.
#[derive(Clone, Debug)]
struct Step {
    now: SimTime,
    caller: &'static str,
    request: Request,
}

/// Steps about two instances and a load balancer.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (
        0u64..60_000,
        prop::sample::select(vec!["one", "two"]),
        0..9u8,
        prop::sample::select(vec!["a", "b"]),
    );
    let step = step.prop_map(|(millis, caller, which, name)| {
        let request = match which {
            0..3 => create(name),
            3..6 => Request::Describe(id(name)),
            6 => Request::Delete(id(name)),
            7 => register("lb", name, "vm"),
            _ => deregister("lb", name),
        };
        Step {
            now: SimTime::from_millis(millis),
            caller,
            request,
        }
    });
    prop::collection::vec(step, 1..80).prop_map(|mut steps| {
        steps.sort_by_key(|step| step.now);
        steps
    })
}

/// What the callers of the cloud would have to know.
#[derive(Default)]
struct Model {
    /// Who created each instance, and when.
    made: BTreeMap<ResourceId, (&'static str, SimTime)>,
    /// The change of each resource that shows last: who made it, and when it shows.
    hidden: BTreeMap<ResourceId, (&'static str, SimTime)>,
    unanswered: BTreeSet<ResourceId>,
    caller_mistakes: MistakesByCaller,
    leaked: usize,
}

impl Model {
    /// Whether a read shows everything, and a note if it does not show what the reader did.
    fn read(&mut self, Step { now, caller, .. }: &Step, id: &ResourceId, lag: Duration) -> bool {
        let made = self.made.get(id).map(|(writer, at)| (*writer, *at + lag));
        let hidden = made.into_iter().chain(self.hidden.get(id).copied());
        let hidden: Vec<_> = hidden.filter(|(_, until)| until > now).collect();
        if hidden.iter().any(|(writer, _)| writer == caller) {
            self.caller_mistakes
                .entry((*caller).to_owned())
                .or_default()
                .missed_reads += 1;
        }
        hidden.is_empty()
    }

    fn hide(&mut self, Step { now, caller, request }: &Step, lag: Duration) {
        let until = *now + lag;
        let known = self
            .hidden
            .entry(request.target().clone())
            .or_insert((caller, until));
        if known.1 <= until {
            *known = (caller, until);
        }
    }
}

proptest! {
    /// Whatever callers do: a read shows what they did exactly when no lag hides it, an instance is made twice exactly
    /// when its creation is repeated after a lost answer, and each caller is told what it did. A replay counts the same.
    #[test]
    fn what_callers_do_is_counted(
        steps in steps(), lag in 0u64..4_000, late in 0u64..9_000, odds in 0.0..1.0f64, middle in 0..80usize,
    ) {
        let lag = Duration::from_millis(lag);
        let late = Duration::from_millis(late);
        let mut engine = engine();
        let mut lines = vec![Line::State(engine.state())];
        let mut cursor = engine.journal().end();
        ask(&mut engine, at(0), put_cloud(lag)).unwrap();
        let budget = || Budget { probability: Odds::new(odds), ..Budget::default() };
        let lagging = Fault { matches: Matches::default(), effect: Effect::Lag(Latency::Fixed(late)), budget: budget() };
        ask(&mut engine, at(0), put("a", lagging)).unwrap();
        ask(&mut engine, at(0), put("b", Fault { budget: budget(), ..duplicating() })).unwrap();
        ask(&mut engine, at(0), Request::Create(ResourceSpec::new(load_balancer("lb")))).unwrap();
        keep(&engine, &mut cursor, &mut lines);
        let mut model = Model::default();
        for (number, step) in steps.iter().enumerate() {
            if number == middle {
                lines.push(Line::State(engine.state()));
            }
            engine.poll(step.now);
            let there = |engine: &Engine| [id("a"), id("b")].map(|id| engine.get(&id).is_some());
            let gone = [id("a"), id("b")].into_iter().zip(there(&engine)).filter(|(_, is_there)| !is_there);
            for (id, _) in gone {
                model.made.remove(&id);
                model.unanswered.remove(&id);
            }
            let hits = |engine: &Engine, name| engine.fault(&fault(name)).unwrap().decisions.record.hits;
            let before = [hits(&engine, "a"), hits(&engine, "b")];
            let target = step.request.target().clone();
            let is_known = engine.get(&target).is_some();
            let is_going = engine.get(&target).is_some_and(|found| found.deleting.is_some());
            let operation = Operation { caller: step.caller.into(), ..operation(step.now, step.request.clone()) };
            let outcome = engine.apply(operation);
            let [is_late, is_twice] = [hits(&engine, "a") > before[0], hits(&engine, "b") > before[1]];
            match &step.request {
                Request::Describe(id) => {
                    let shows = model.read(step, id, lag);
                    match outcome {
                        Outcome::Accepted => prop_assert!(shows && is_known),
                        Outcome::Refused(CloudError::NotFound(_)) => prop_assert!(shows && !is_known),
                        Outcome::Refused(CloudError::NotVisibleYet { .. }) => prop_assert!(!shows),
                        other => prop_assert!(false, "{:?}", other),
                    }
                }
                Request::Create(spec) if !is_known => {
                    model.made.insert(spec.id.clone(), (step.caller, step.now));
                    model.hidden.remove(&spec.id);
                    if is_twice {
                        model.unanswered.insert(spec.id.clone());
                    }
                }
                Request::Create(spec) if !is_going && model.unanswered.remove(&spec.id) => {
                    prop_assert_eq!(outcome, Outcome::Accepted);
                    model.made.insert(spec.id.clone(), (step.caller, step.now));
                    model.hidden.remove(&spec.id);
                    model.leaked += 1;
                    model.caller_mistakes.entry(step.caller.to_owned()).or_default().double_creates += 1;
                }
                Request::Delete(id) => drop(model.unanswered.remove(id)),
                _ => {}
            }
            if is_late {
                model.hide(step, late);
            }
            let found = engine.caller_mistakes(&cloud_spec()).cloned().unwrap_or_default();
            prop_assert_eq!(&found, &model.caller_mistakes);
            prop_assert_eq!(engine.all_leaked().count(), model.leaked);
            for id in [id("a"), id("b")] {
                prop_assert_eq!(engine.is_unanswered(&id), model.unanswered.contains(&id));
            }
            keep(&engine, &mut cursor, &mut lines);
        }
        lines.push(Line::digest(&engine));
        let mut replay = Replay::default();
        for line in &lines {
            let text = serde_json::to_string(line).unwrap();
            prop_assert_eq!(replay.play(&serde_json::from_str(&text).unwrap()), Ok(()));
        }
        prop_assert_eq!(replay.engine().map(Engine::state), Some(engine.state()));
    }
}
