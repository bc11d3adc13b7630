//! Scenarios in a world that is a few maps: they end the same wherever they are interrupted.

use kube::core::GroupVersionKind;
use nephele_api::cloud::v1alpha1::{CloudClockStatus, ScenarioSpec};
use nephele_model::{ClockRate, GoDuration};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::validate::validate;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).expect("in range")
}

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// What is seen from this second of the world on.
fn sight(from: u64) -> Sight {
    Sight::Cluster {
        name: format!("c{from}"),
        condition: "Available".into(),
        status: "True".into(),
    }
}

fn change(name: &str) -> Change {
    let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "MachineDeployment");
    Change::Replicas {
        kind,
        name: name.into(),
        replicas: 3,
    }
}

/// One step after the other.
fn script(actions: impl IntoIterator<Item = Action>) -> Script {
    let steps = actions.into_iter().enumerate();
    let step = |(index, action)| Step {
        name: "step".into(),
        after: (0..index).rev().take(1).collect(),
        action,
    };
    Script {
        steps: steps.map(step).collect(),
    }
}

/// The script of a spec.
fn read(steps: &Value) -> Script {
    let spec: ScenarioSpec = serde_json::from_value(json!({ "steps": steps })).expect("a spec");
    validate("s", &spec).unwrap_or_else(|error| panic!("{error}: {steps}"))
}

fn fault(name: &str, lasts: Option<u64>) -> Action {
    Action::Fault {
        name: name.into(),
        spec: Box::default(),
        lasts: lasts.map(seconds),
    }
}

/// The namespace and the stored status.
#[derive(Default)]
struct World {
    now: Duration,
    /// When each Fault was created.
    faults: BTreeMap<String, Duration>,
    /// The only clock, as it is set.
    clock: CloudClock,
    /// When it was last set, and how it was before.
    clock_before: Option<(Duration, CloudClock)>,
    stored: Option<ScenarioStatus>,
    generation: i64,
    /// Everything that was done, as text.
    done: BTreeSet<String>,
    /// The steps for which something was done, in this order.
    acted: Vec<usize>,
    /// When it was looked for the sight of each step.
    looks: BTreeMap<usize, Vec<Timestamp>>,
    /// What a process remembers of that.
    looked: BTreeMap<usize, Timestamp>,
}

/// Where the process stops.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stop {
    Nowhere,
    BeforeItActs,
    BeforeItWrites,
}

impl World {
    fn now(&self) -> Timestamp {
        after(at(0), self.now)
    }

    fn seen(&mut self, script: &Script) -> Seen {
        let faults = self.faults.iter().map(|(name, created)| {
            // It takes two seconds until a Fault is in force.
            let phase = if self.now >= *created + seconds(2) {
                "Active"
            } else {
                ""
            };
            (
                name.clone(),
                SeenFault {
                    is_ours: true,
                    is_going: false,
                    phase: phase.into(),
                    message: String::new(),
                },
            )
        });
        let Wants { sights, clocks } = wants(script, self.generation, self.stored.as_ref());
        let now = self.now();
        let looks = sights.into_iter().map(|(index, sight)| {
            let Sight::Cluster { name, .. } = sight else {
                panic!("all sights are of Clusters")
            };
            self.looks.entry(index).or_default().push(now);
            let is_met = self.now >= seconds(name[1..].parse().expect("a number"));
            let message = format!("seen at {}", self.now.as_secs());
            (
                index,
                if is_met {
                    Look::Met(message)
                } else {
                    Look::NotMet(message)
                },
            )
        });
        let faults = faults.collect();
        let looks = looks.collect();
        let clocks = clocks
            .into_iter()
            .map(|cloud| (cloud.to_owned(), self.seen_clock()));
        Seen {
            faults,
            looks,
            clocks: clocks.collect(),
            looked: self.looked.clone(),
        }
    }

    /// It takes a second until a clock is in force.
    fn seen_clock(&self) -> SeenClock {
        let before = self
            .clock_before
            .as_ref()
            .filter(|(set, _)| self.now < *set + seconds(1));
        let CloudClock {
            rate,
            paused,
            steps,
            ahead,
        } = before.map_or(&self.clock, |(_, clock)| clock).clone();
        let in_force = CloudClockStatus {
            rate,
            paused,
            steps,
            ahead,
            since: None,
            time: None,
        };
        SeenClock::Read {
            version: String::new(),
            set: self.clock.clone(),
            in_force: Some(Box::new(in_force)),
        }
    }

    fn act(&mut self, deed: &Deed) -> Ending {
        self.done.insert(format!("{deed:?}"));
        match deed {
            Deed::CreateFault { name, .. } => {
                self.faults.entry(name.clone()).or_insert(self.now);
            }
            Deed::DeleteFault { name } => {
                self.faults.remove(name);
            }
            Deed::SetClock {
                clock:
                    CloudClock {
                        rate,
                        paused,
                        steps,
                        ahead,
                    },
                ..
            } => {
                self.clock_before = Some((self.now, self.clock.clone()));
                self.clock.rate = rate.clone().or(self.clock.rate.take());
                self.clock.paused = paused.or(self.clock.paused);
                self.clock.steps = steps.or(self.clock.steps);
                self.clock.ahead = ahead.clone().or(self.clock.ahead.take());
            }
            Deed::Change(Change::Replicas { name, .. }) if name == "refused" => {
                return Ending::Refused("it may not".into());
            }
            Deed::Change(_) | Deed::Say(_) => {}
        }
        Ending::Done("done".into())
    }

    /// One round of the reconciler. False when there is nothing left to do.
    fn round(&mut self, script: &Script, stop: Stop) -> bool {
        let seen = self.seen(script);
        let mut next = plan(script, self.generation, self.stored.as_ref(), &seen, self.now());
        if stop == Stop::BeforeItActs {
            self.looked.clear();
            return true;
        }
        let now = self.now();
        self.looked.extend(next.looked.iter().map(|index| (*index, now)));
        for act in std::mem::take(&mut next.acts) {
            if let Some(step) = act.step {
                let stored = &self.stored.as_ref().expect("a stored status").steps[step];
                assert_eq!(
                    (stored.phase.as_str(), stored.started.is_some()),
                    ("Running", true)
                );
                if let Deed::SetClock { .. } = act.deed {
                    assert_eq!(stored.clock, next.status.steps[step].clock);
                    assert!(stored.clock.is_some());
                }
                self.acted.push(step);
            }
            let ending = self.act(&act.deed);
            next.settle(&act, &ending, self.now());
        }
        if stop == Stop::BeforeItWrites {
            self.looked.clear();
            return true;
        }
        let is_new = self.stored.as_ref() != Some(&next.status);
        self.stored = Some(next.status);
        if !is_new {
            let Some(wait) = next.again else { return false };
            self.now += wait;
        }
        true
    }

    /// Runs a scenario to its end. The process stops as `stops` says, and is away for the time that these say.
    fn run(&mut self, script: &Script, stops: &[(Stop, u64)]) -> ScenarioStatus {
        let mut stops = stops.iter();
        for _ in 0..10_000 {
            let (stop, away) = stops.next().copied().unwrap_or((Stop::Nowhere, 0));
            if !self.round(script, stop) {
                return self.stored.clone().expect("a status");
            }
            self.now += seconds(away);
        }
        panic!("it does not end: {:?}", self.stored);
    }
}

fn phases(status: &ScenarioStatus) -> Vec<&str> {
    status.steps.iter().map(|step| step.phase.as_str()).collect()
}

/// Steps that belong together, as they are written. `#` stands for what makes the name of a Fault its own.
fn unit() -> impl Strategy<Value = Vec<Value>> {
    let one = |step: Value| vec![step];
    let sight = |from: u64| json!({ "cluster": format!("c{from}"), "condition": "Available" });
    let timed = move |name: &str, field: &str, from: u64, length: u64| {
        let mut looked = sight(from);
        looked[field] = format!("{length}s").into();
        vec![json!({ name: looked })]
    };
    let fault = json!({ "name": "f#", "spec": { "effect": { "freeze": {} } } });
    let brief = fault.clone();
    prop_oneof![
        8 => (0u64..60, 60u64..90).prop_map(move |(from, within)| timed("expect", "within", from, within)),
        1 => (0u64..60, 0u64..40).prop_map(move |(from, within)| timed("expect", "within", from, within)),
        1 => (90u64..900, 0u64..20).prop_map(move |(from, during)| timed("never", "during", from, during)),
        4 => Just(vec![json!({ "fault": fault.clone() }), json!({ "pause": "3s" }), json!({ "heal": { "fault": "f#" } })]),
        2 => (0u64..9).prop_map(move |lasts| {
            let mut fault = brief.clone();
            fault["for"] = format!("{lasts}s").into();
            one(json!({ "fault": fault }))
        }),
        6 => (1i64..4, 0u64..9).prop_map(move |(step, jump)| {
            one(json!({ "clock": { "cloud": "default", "step": step, "jump": format!("{jump}s") } }))
        }),
        2 => (0u8..2).prop_map(move |paused| {
            one(json!({ "clock": { "cloud": "default", "paused": paused == 0, "rate": "7" } }))
        }),
        2 => (0u8..40).prop_map(move |name| {
            let name = if name == 0 { "refused" } else { "workers" };
            one(json!({ "scale": { "kind": "MachineDeployment", "name": name, "replicas": 3 } }))
        }),
        2 => (0u64..9).prop_map(move |length| one(json!({ "pause": format!("{length}s") }))),
        2 => Just(one(json!({ "say": "round $(index)" }))),
    ]
}

/// How often the steps of a branch or a step run.
#[derive(Debug, Clone, Copy)]
enum Rounds {
    Once,
    Repeat(usize),
    ForEach(usize),
}

fn rounds() -> impl Strategy<Value = Rounds> {
    prop_oneof![
        Just(Rounds::Once),
        (1usize..4).prop_map(Rounds::Repeat),
        (1usize..4).prop_map(Rounds::ForEach),
    ]
}

/// The steps of a branch, and how often they run.
fn branch() -> impl Strategy<Value = (Rounds, Vec<Value>)> {
    let steps = proptest::collection::vec(unit(), 1..3).prop_map(|units| units.concat());
    (rounds(), steps)
}

/// A spec and, for each of its steps in the order of the status: the number of the step in the spec, of its branch, and its place
/// there. This says which steps come before which.
#[derive(Debug, Clone)]
struct Drawn {
    spec: Value,
    places: Vec<(usize, usize, usize)>,
}

impl Drawn {
    fn of(steps: Vec<Vec<(Rounds, Vec<Value>)>>) -> Self {
        let mut spec = Vec::new();
        let mut places = Vec::new();
        let mut names = 0;
        for (number, branches) in steps.into_iter().enumerate() {
            let is_parallel = branches.len() > 1;
            let mut made = Vec::new();
            for (branch, (rounds, mut steps)) in branches.into_iter().enumerate() {
                let rounds = match rounds {
                    // A step without branches has steps only in rounds.
                    Rounds::Once if !is_parallel => Rounds::Repeat(1),
                    rounds => rounds,
                };
                for step in &mut steps {
                    let is_fault = step.get("fault").is_some();
                    names += usize::from(is_fault);
                    let suffix = match rounds {
                        Rounds::Once => format!("{names}"),
                        Rounds::Repeat(_) => format!("{names}-$(index)"),
                        Rounds::ForEach(_) => format!("{names}-$(item)"),
                    };
                    for name in ["/fault/name", "/heal/fault"] {
                        if let Some(name) = step.pointer_mut(name) {
                            *name = format!("f{suffix}").into();
                        }
                    }
                }
                let (times, field) = match rounds {
                    Rounds::Once => (1, json!({})),
                    Rounds::Repeat(times) => (times, json!({ "repeat": times })),
                    Rounds::ForEach(times) => (times, json!({ "forEach": (&["a", "b", "c"][..times]) })),
                };
                places.extend((0..steps.len() * times).map(|place| (number, branch, place)));
                let mut written = field;
                written["steps"] = steps.into();
                made.push(written);
            }
            spec.push(if is_parallel {
                json!({ "parallel": made })
            } else {
                made.remove(0)
            });
        }
        Self {
            spec: spec.into(),
            places,
        }
    }

    /// Whether a step has to be over before another one begins.
    fn is_before(&self, earlier: usize, later: usize) -> bool {
        let (step, branch, place) = self.places[earlier];
        let (other_step, other_branch, other_place) = self.places[later];
        step < other_step || (step == other_step && branch == other_branch && place < other_place)
    }
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let step = proptest::collection::vec(branch(), 1..4);
    let steps = proptest::collection::vec(step, 1..4).prop_map(Drawn::of);
    steps.prop_filter("too many steps", |drawn| drawn.places.len() <= 100)
}

fn stops() -> impl Strategy<Value = Vec<Stop>> {
    let stop = prop_oneof![
        2 => Just(Stop::Nowhere),
        1 => Just(Stop::BeforeItActs),
        1 => Just(Stop::BeforeItWrites),
    ];
    proptest::collection::vec(stop, 0..60)
}

/// The sum of the steps of clocks, and of their jumps in seconds, over steps in one of these phases.
fn counted(script: &Script, status: &ScenarioStatus, phases: &[&str]) -> (i64, u64) {
    let steps = script.steps.iter().zip(&status.steps);
    let clocks = steps.filter_map(|(step, status)| match &step.action {
        Action::Clock(change) if phases.contains(&status.phase.as_str()) => Some(change),
        _ => None,
    });
    clocks.fold((0, 0), |(steps, ahead), change| {
        (
            steps + change.step.unwrap_or(0),
            ahead + change.jump.unwrap_or_default().as_secs(),
        )
    })
}

proptest! {
    #[test]
    fn an_interrupted_scenario_ends_as_if_nothing_had_happened(drawn in drawn(), stops in stops()) {
        let script = read(&drawn.spec);
        let mut calm = World::default();
        let mut interrupted = World::default();
        let expected = calm.run(&script, &[]);
        let stops: Vec<_> = stops.into_iter().map(|stop| (stop, 0)).collect();
        prop_assert_eq!(interrupted.run(&script, &stops), expected);
        prop_assert_eq!(&interrupted.done, &calm.done);
        prop_assert_eq!(&interrupted.clock, &calm.clock, "nothing is set twice");
        prop_assert_eq!((interrupted.faults.len(), calm.faults.len()), (0, 0), "all Faults are healed");
    }

    /// Also when the process is away for longer than anything may take.
    #[test]
    fn steps_run_once_in_order_and_keep_their_deadlines(
        drawn in drawn(),
        stops in stops(),
        away in proptest::collection::vec(0u64..40, 60),
    ) {
        let script = read(&drawn.spec);
        prop_assert_eq!(script.steps.len(), drawn.places.len());
        let mut world = World::default();
        let is_calm = stops.iter().all(|stop| *stop == Stop::Nowhere);
        let stops: Vec<_> = stops.into_iter().zip(away).collect();
        let status = world.run(&script, &stops);
        let has_failed = status.steps.iter().any(|step| step.phase == "Failed");
        prop_assert_eq!(status.phase.as_str(), if has_failed { "Failed" } else { "Passed" });
        let ends: &[_] = if has_failed { &["Passed", "Failed", "Skipped"] } else { &["Passed"] };
        prop_assert!(status.steps.iter().all(|step| ends.contains(&step.phase.as_str())));
        prop_assert!(world.faults.is_empty());
        let acted: BTreeSet<_> = world.acted.iter().collect();
        prop_assert!(!is_calm || acted.len() == world.acted.len(), "a step has acted twice: {:?}", world.acted);
        // What a step that was over has counted is there, and nothing that has not begun.
        let clock = (world.clock.steps.unwrap_or(0), world.clock.ahead.as_ref().map_or(0, |ahead| ahead.get().as_secs()));
        let least = counted(&script, &status, &["Passed"]);
        let most = counted(&script, &status, ends);
        prop_assert!(least.0 <= clock.0 && clock.0 <= most.0 && least.1 <= clock.1 && clock.1 <= most.1);
        for (index, (step, was)) in script.steps.iter().zip(&status.steps).enumerate() {
            let started = was.started.as_ref().map(|time| time.0);
            let finished = was.finished.as_ref().map(|time| time.0);
            for (other, before) in status.steps.iter().enumerate() {
                if let Some(started) = started.filter(|_| drawn.is_before(other, index)) {
                    prop_assert_eq!(before.phase.as_str(), "Passed");
                    prop_assert!(before.finished.as_ref().is_some_and(|finished| finished.0 <= started));
                }
                // Branches begin together.
                let (number, _, place) = drawn.places[index];
                let (other_number, _, other_place) = drawn.places[other];
                let is_clock = [step, &script.steps[other]].iter().any(|step| matches!(step.action, Action::Clock(_)));
                if number == other_number && (place, other_place) == (0, 0) && !is_clock {
                    prop_assert_eq!(&was.started, &before.started);
                }
            }
            let (Some(started), Some(finished)) = (started, finished) else { continue };
            match (&step.action, was.phase.as_str()) {
                (Action::Expect { within, .. }, "Passed") => {
                    prop_assert!(finished <= after(after(started, *within), LATE_MAX));
                }
                (Action::Expect { within, .. }, "Failed") => prop_assert!(finished >= after(started, *within)),
                (Action::Never { during: length, .. } | Action::Pause(length), "Passed") => {
                    prop_assert!(finished >= after(started, *length));
                    if let Action::Never { .. } = step.action {
                        // A look that is not remembered is one, too.
                        let times = || [started].into_iter().chain(world.looks[&index].iter().copied().filter(|look| *look <= finished)).chain([finished]);
                        for (before, next) in times().zip(times().skip(1)) {
                            prop_assert!(next <= after(before, LATE_MAX), "not looked at from {} to {}", before, next);
                        }
                        prop_assert_eq!(&was.looked, &was.finished);
                    }
                }
                _ => {}
            }
        }
    }
}

/// A duration at the edges of its type, as it is written.
fn edge_of_time() -> impl Strategy<Value = &'static str> {
    let edges = [
        "0",
        "1ns",
        "1s",
        "2562047h47m16.854775807s",
        "9223372036854775807ns",
        "9223372036854775806ns",
        "8760h",
    ];
    prop::sample::select(edges.to_vec())
}

/// A number at the edges of its type.
fn edge() -> impl Strategy<Value = i64> {
    let edges = [
        0,
        1,
        2,
        99,
        100,
        101,
        1000,
        1001,
        i64::from(i32::MAX) - 1,
        i64::from(i32::MAX),
        i64::MAX - 1,
        i64::MAX,
    ];
    prop::sample::select(edges.to_vec())
        .prop_flat_map(|edge| prop::sample::select(vec![edge, -edge, i64::MIN]))
}

proptest! {
    /// Whatever the numbers of a spec and the times are, there is a mistake or a plan.
    #[test]
    fn numbers_at_the_edges_of_their_type_are_refused_or_planned(
        number in edge(), other in edge(), length in edge_of_time(), jump in edge_of_time(),
        seconds in proptest::collection::vec(
            prop::sample::select(vec![Timestamp::MIN, at(0), at(1), at(7), Timestamp::MAX]), 1..8,
        ),
    ) {
        let machines = json!({ "machines": { "count": number }, "within": length, "during": length });
        let fault = json!({ "name": "f", "spec": { "effect": { "freeze": {} } }, "for": length });
        for step in [
            json!({ "expect": machines }),
            json!({ "never": machines }),
            json!({ "fault": fault }),
            json!({ "pause": length }),
            json!({ "clock": { "cloud": "a", "step": number, "jump": jump } }),
            json!({ "scale": { "kind": "MachinePool", "name": "a", "replicas": number } }),
            json!({ "repeat": number, "steps": [{ "pause": length }] }),
            json!({ "parallel": [{ "repeat": number, "steps": [{ "pause": "1s" }] }, { "repeat": other, "steps": [{ "pause": "1s" }] }] }),
        ] {
            let Ok(spec) = serde_json::from_value::<ScenarioSpec>(json!({ "steps": [step] })) else { continue };
            let Ok(script) = validate("s", &spec) else { continue };
            prop_assert!(script.steps.len() <= 100);
            let set = CloudClock { steps: Some(other), ahead: GoDuration::parse(jump).ok(), ..CloudClock::default() };
            let in_force = Some(CloudClockStatus { steps: Some(number), ..CloudClockStatus::default() });
            let in_force = in_force.map(Box::new);
            let clock = SeenClock::Read { version: String::new(), set, in_force };
            let seen = Seen {
                looks: [(0, Look::NotMet("no".into()))].into(),
                clocks: [("a".to_owned(), clock)].into(),
                ..Seen::default()
            };
            let mut stored = None;
            for now in &seconds {
                stored = Some(plan(&script, 1, stored.as_ref(), &seen, *now).status);
            }
        }
    }
}

#[test]
fn what_comes_after_a_failed_step_is_skipped_and_its_faults_are_healed() {
    let late = Action::Expect {
        sight: sight(100),
        within: seconds(5),
    };
    let script = script([fault("f", None), late, Action::Change(change("workers"))]);
    let mut world = World::default();
    let status = world.run(&script, &[]);
    assert_eq!(
        (status.phase.as_str(), phases(&status)),
        ("Failed", vec!["Passed", "Failed", "Skipped"])
    );
    assert_eq!(status.steps[1].message, "seen at 7");
    assert!(world.faults.is_empty() && world.done.iter().all(|deed| !deed.contains("workers")));
    assert_eq!(status.finish_time, Some(MicroTime(at(7))));
}

#[test]
fn when_a_branch_fails_the_others_stop_where_they_are() {
    let script = read(&json!([
        { "parallel": [
            { "steps": [{ "pause": "3s" }, { "expect": { "cluster": "c100", "condition": "Available", "within": "2s" } }] },
            { "steps": [{ "say": "a" }, { "pause": "1h" }, { "say": "never said" }] },
        ] },
        { "say": "never said" },
    ]));
    let mut world = World::default();
    let status = world.run(&script, &[]);
    assert_eq!(
        phases(&status),
        ["Passed", "Failed", "Passed", "Skipped", "Skipped", "Skipped"]
    );
    assert_eq!(
        (status.phase.as_str(), status.finish_time),
        ("Failed", Some(MicroTime(at(5))))
    );
    assert_eq!(world.done.into_iter().collect::<Vec<_>>(), ["Say(\"a\")"]);
}

#[test]
fn changes_of_one_clock_wait_for_each_other_and_others_do_not() {
    let clock = |cloud: &str| json!({ "steps": [{ "clock": { "cloud": cloud, "step": 2 } }] });
    let script = read(&json!([{ "parallel": [clock("a"), clock("a"), clock("b")] }]));
    let mut world = World::default();
    world.round(&script, Stop::Nowhere);
    assert_eq!(
        phases(world.stored.as_ref().expect("a status")),
        ["Running", "Pending", "Running"]
    );
}

#[test]
fn a_clock_is_set_once_its_count_is_stored_and_passes_when_that_is_in_force() {
    let script = read(&json!([{ "clock": { "cloud": "default", "step": 2, "jump": "1m", "paused": true } }]));
    let clock = CloudClock {
        steps: Some(5),
        ..CloudClock::default()
    };
    let mut world = World {
        clock,
        ..World::default()
    };
    for stop in [Stop::Nowhere, Stop::Nowhere, Stop::BeforeItWrites] {
        world.round(&script, stop);
    }
    let ahead = GoDuration::parse("60s").ok();
    let wanted = CloudClock {
        paused: Some(true),
        steps: Some(7),
        ahead,
        ..CloudClock::default()
    };
    let of_step = |world: &World| world.stored.as_ref().expect("a status").steps[0].clone();
    assert_eq!(
        (&world.clock, of_step(&world).clock),
        (&wanted, Some(wanted.clone()))
    );
    // The manager that comes next sees its own count and does not count on.
    let status = world.run(&script, &[]);
    let message = "the clock of SimulatedCloud default: paused true, steps 7, ahead 60s";
    assert_eq!(
        (status.phase.as_str(), status.steps[0].message.as_str()),
        ("Passed", message)
    );
    assert_eq!((&world.clock, world.acted.len()), (&wanted, 1));
    assert_eq!(status.finish_time, Some(MicroTime(at(1))));
}

#[test]
fn a_clock_that_cannot_be_set_fails_the_step() {
    let script = read(&json!([{ "clock": { "cloud": "default", "rate": "10" } }]));
    let set = CloudClock::default();
    let read = |in_force: Option<CloudClockStatus>| {
        let in_force = in_force.map(Box::new);
        SeenClock::Read {
            version: "1".into(),
            set: set.clone(),
            in_force,
        }
    };
    let known = Some(CloudClockStatus::default());
    for (seen, second, phase, message) in [
        (
            SeenClock::Missing,
            1,
            "Failed",
            "there is no SimulatedCloud default",
        ),
        (SeenClock::Refused("no".into()), 1, "Failed", "no"),
        (SeenClock::Unclear("busy".into()), 59, "Running", "busy"),
        (SeenClock::Unclear("busy".into()), 60, "Failed", "busy"),
        (
            read(None),
            29,
            "Running",
            "SimulatedCloud default has no status yet",
        ),
        (
            read(None),
            30,
            "Failed",
            "SimulatedCloud default has no status; does its manager run?",
        ),
        (read(known.clone()), 59, "Running", ""),
        (
            read(known),
            60,
            "Failed",
            "SimulatedCloud default was not given this clock in time: rate 10",
        ),
    ] {
        let mut stored = plan(&script, 0, None, &Seen::default(), at(0)).status;
        stored.steps[0].clock = Some(CloudClock {
            rate: ClockRate::parse("10").ok(),
            ..CloudClock::default()
        });
        let seen = Seen {
            clocks: [("default".to_owned(), seen)].into(),
            ..Seen::default()
        };
        let next = plan(&script, 0, Some(&stored), &seen, at(second));
        let step = &next.status.steps[0];
        assert_eq!((step.phase.as_str(), step.message.as_str()), (phase, message));
    }
}

#[test]
fn a_fault_lasts_as_long_as_it_says_and_not_longer_than_the_scenario() {
    let script = script([
        fault("brief", Some(4)),
        fault("long", Some(900)),
        Action::Pause(seconds(20)),
    ]);
    let mut world = World::default();
    let mut ended = None;
    while world.round(&script, Stop::Nowhere) {
        // In force after two seconds, and then for four.
        if world.faults.len() == 1 && world.faults.contains_key("long") && ended.is_none() {
            ended = Some(world.now);
        }
    }
    assert_eq!(ended, Some(seconds(6)));
    assert!(world.faults.is_empty());
    assert_eq!(world.now, seconds(24));
}

/// Otherwise the process that continues would see a world without the Fault, and the step could pass.
#[test]
fn how_a_step_ended_is_stored_before_its_faults_are_healed() {
    let script = script([
        fault("f", None),
        Action::Expect {
            sight: sight(100),
            within: seconds(0),
        },
    ]);
    let mut world = World::default();
    while world
        .stored
        .as_ref()
        .is_none_or(|status| status.steps[1].phase != "Failed")
    {
        assert_eq!(
            world.faults.is_empty(),
            world.now == seconds(0) && world.done.is_empty()
        );
        world.round(&script, Stop::Nowhere);
    }
    assert_eq!(world.faults.len(), 1);
}

#[test]
fn a_changed_scenario_begins_again_when_its_old_faults_are_gone() {
    let first = script([fault("f", None), Action::Pause(seconds(60))]);
    let mut world = World::default();
    while world.faults.is_empty() {
        world.round(&first, Stop::Nowhere);
    }
    let second = script([Action::Say("hello".into())]);
    world.generation = 2;
    world.round(&second, Stop::Nowhere);
    let status = world.stored.clone().expect("a status");
    assert_eq!(
        (status.phase.as_str(), phases(&status)),
        ("Pending", vec!["Pending"])
    );
    assert!(world.faults.is_empty());
    let status = world.run(&second, &[]);
    assert_eq!(
        (status.phase.as_str(), status.observed_generation),
        ("Passed", Some(2))
    );
    // It is over, and does nothing more.
    let done = world.done.clone();
    assert_eq!((world.run(&second, &[]), world.done), (status, done));
}

#[test]
fn a_fault_of_another_owner_is_left_alone() {
    let script = script([fault("f", None)]);
    let stored = plan(&script, 0, None, &Seen::default(), at(0)).status;
    let other = SeenFault {
        is_ours: false,
        is_going: false,
        phase: "Active".into(),
        message: String::new(),
    };
    let seen = Seen {
        faults: [("f".to_owned(), other)].into(),
        ..Seen::default()
    };
    let next = plan(&script, 0, Some(&stored), &seen, at(1));
    assert_eq!(
        (next.status.steps[0].phase.as_str(), next.acts),
        ("Failed", vec![])
    );
    assert!(next.status.steps[0].message.contains("not of this scenario"));
    let last = plan(&script, 0, Some(&next.status), &seen, at(2));
    assert_eq!((last.status.phase.as_str(), last.acts), ("Failed", vec![]));
}

#[test]
fn what_may_pass_is_tried_for_a_minute() {
    let script = script([Action::Change(change("workers"))]);
    let mut stored = plan(&script, 0, None, &Seen::default(), at(0)).status;
    for (second, phase) in [(1, "Running"), (59, "Running"), (60, "Failed")] {
        let mut next = plan(&script, 0, Some(&stored), &Seen::default(), at(second));
        let acts = std::mem::take(&mut next.acts);
        assert_eq!((acts.len(), next.again), (1, Some(LOOK_EVERY)));
        next.settle(&acts[0], &Ending::Unclear("busy".into()), at(second));
        stored = next.status;
        assert_eq!(
            (stored.steps[0].phase.as_str(), stored.steps[0].message.as_str()),
            (phase, "busy")
        );
    }
}

fn never(from: u64, during: u64) -> Action {
    Action::Never {
        sight: sight(from),
        during: seconds(during),
    }
}

#[test]
fn what_was_not_looked_for_has_not_been_absent() {
    let script = script([never(900, 60)]);
    let seen = |look: &Look| Seen {
        looks: [(0, look.clone())].into(),
        ..Seen::default()
    };
    let absent = Look::NotMet("it is not there".into());
    let unclear = Look::Unclear("busy".into());
    let begun = plan(&script, 0, None, &Seen::default(), at(0)).status;
    let next = |stored: &ScenarioStatus, look: &Look, second: i64| {
        let step = plan(&script, 0, Some(stored), &seen(look), at(second))
            .status
            .steps
            .remove(0);
        (step.phase, step.message, step.looked.map(|looked| looked.0))
    };
    let status = plan(&script, 0, Some(&begun), &seen(&absent), at(5)).status;
    assert_eq!(status.steps[0].looked, Some(MicroTime(at(5))));
    let running = |looked| {
        (
            "Running".to_owned(),
            "it is not there".to_owned(),
            Some(at(looked)),
        )
    };
    // Two looks that the status has are at least two seconds apart.
    assert_eq!(next(&status, &absent, 6), running(5));
    assert_eq!(next(&status, &absent, 7), running(7));
    assert_eq!(next(&status, &absent, 10), running(10));
    let gap =
        "not looked at from 2023-11-14T22:13:25.000Z to 2023-11-14T22:13:31.000Z, which is longer than 5s";
    assert_eq!(
        next(&status, &absent, 11),
        (
            "Failed".to_owned(),
            format!("{gap}; now it is not there"),
            Some(at(11))
        )
    );
    // Whoever could not see anything has not looked.
    assert_eq!(
        next(&status, &unclear, 10),
        ("Running".to_owned(), "busy".to_owned(), Some(at(5)))
    );
    assert_eq!(
        next(&status, &unclear, 11),
        ("Failed".to_owned(), format!("{gap}; now busy"), Some(at(5)))
    );
    // A process knows its own looks better than the status.
    let remembered = Seen {
        looked: [(0, at(9))].into(),
        ..seen(&absent)
    };
    assert_eq!(
        plan(&script, 0, Some(&status), &remembered, at(14)).status.steps[0].phase,
        "Running"
    );
    // The first look is one that can be missed, too.
    assert_eq!(next(&begun, &absent, 6).0, "Failed");
}

#[test]
fn a_status_is_written_for_half_of_the_looks_at_most() {
    let constant = script([never(900, 600)]);
    let mut stored = plan(&constant, 0, None, &Seen::default(), at(0)).status;
    let mut writes = 0;
    for second in 1..=600 {
        let seen = Seen {
            looks: [(0, Look::NotMet("no".into()))].into(),
            ..Seen::default()
        };
        let next = plan(&constant, 0, Some(&stored), &seen, at(second)).status;
        writes += usize::from(next != stored);
        stored = next;
    }
    assert_eq!((stored.steps[0].phase.as_str(), writes), ("Passed", 301));
}
