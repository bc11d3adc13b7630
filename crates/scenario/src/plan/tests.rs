//! Scenarios in a world that is a few maps: they end the same wherever they are interrupted.

use std::collections::BTreeSet;

use kube::core::GroupVersionKind;
use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).expect("in range")
}

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// What is seen from this second of the world on.
fn sight(from: u64) -> Sight {
    Sight::Cluster { name: from.to_string(), condition: "Available".into(), status: "True".into() }
}

fn change(name: &str) -> Change {
    let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "MachineDeployment");
    Change::Replicas { kind, name: name.into(), replicas: 3 }
}

/// One step in each group.
fn script(actions: impl IntoIterator<Item = Action>) -> Script {
    grouped(actions.into_iter().map(|action| vec![action]))
}

fn grouped(groups: impl IntoIterator<Item = Vec<Action>>) -> Script {
    let groups = groups.into_iter().enumerate();
    let steps = groups.flat_map(|(group, actions)| {
        actions.into_iter().map(move |action| Step { name: "step".into(), group, action })
    });
    Script { steps: steps.collect() }
}

fn fault(name: &str, lasts: Option<u64>) -> Action {
    Action::Fault { name: name.into(), spec: Box::default(), lasts: lasts.map(seconds) }
}

/// The namespace and the stored status.
#[derive(Default)]
struct World {
    now: Duration,
    /// When each Fault was created.
    faults: BTreeMap<String, Duration>,
    stored: Option<ScenarioStatus>,
    generation: i64,
    /// Everything that was done, as text.
    done: BTreeSet<String>,
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

    fn seen(&self, script: &Script) -> Seen {
        let faults = self.faults.iter().map(|(name, created)| {
            // It takes two seconds until a Fault is in force.
            let phase = if self.now >= *created + seconds(2) { "Active" } else { "" };
            (
                name.clone(),
                SeenFault { is_ours: true, is_going: false, phase: phase.into(), message: String::new() },
            )
        });
        let looks =
            sights(script, self.generation, self.stored.as_ref()).into_iter().map(|(index, sight)| {
                let Sight::Cluster { name, .. } = sight else { panic!("all sights are of Clusters") };
                let is_met = self.now >= seconds(name.parse().expect("a number"));
                let message = format!("seen at {}", self.now.as_secs());
                (index, if is_met { Look::Met(message) } else { Look::NotMet(message) })
            });
        Seen { faults: faults.collect(), looks: looks.collect() }
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
            return true;
        }
        for act in std::mem::take(&mut next.acts) {
            if let Some(step) = act.step {
                let stored = &self.stored.as_ref().expect("a stored status").steps[step];
                assert_eq!((stored.phase.as_str(), stored.started.is_some()), ("Running", true));
            }
            let ending = self.act(&act.deed);
            next.settle(&act, &ending, self.now());
        }
        if stop == Stop::BeforeItWrites {
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

    /// Runs a scenario to its end. The process stops as `stops` says, and is away as long as these say.
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

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        3 => (0u64..30, 0u64..20).prop_map(|(from, within)| Action::Expect {
            sight: sight(from), within: seconds(within),
        }),
        1 => (10u64..60, 0u64..20).prop_map(|(from, during)| Action::Never {
            sight: sight(from), during: seconds(during),
        }),
        2 => proptest::option::of(0u64..9).prop_map(|lasts| fault("", lasts)),
        1 => (0u8..4).prop_map(|name| Action::Heal { fault: format!("fault-{name}") }),
        1 => (0u8..6).prop_map(|name| Action::Change(change(if name == 0 { "refused" } else { "workers" }))),
        1 => (0u64..9).prop_map(|length| Action::Pause(seconds(length))),
        1 => Just(Action::Say("hello".into())),
    ]
}

/// Scripts as validation leaves them: each Fault is created once.
fn scripts() -> impl Strategy<Value = Script> {
    let groups = proptest::collection::vec(proptest::collection::vec(action(), 1..4), 1..6);
    groups.prop_map(|groups| {
        let mut script = grouped(groups);
        for (index, step) in script.steps.iter_mut().enumerate() {
            if let Action::Fault { name, .. } = &mut step.action {
                *name = format!("fault-{index}");
            }
        }
        script
    })
}

fn stops() -> impl Strategy<Value = Vec<Stop>> {
    let stop = prop_oneof![
        2 => Just(Stop::Nowhere),
        1 => Just(Stop::BeforeItActs),
        1 => Just(Stop::BeforeItWrites),
    ];
    proptest::collection::vec(stop, 0..60)
}

proptest! {
    #[test]
    fn an_interrupted_scenario_ends_as_if_nothing_had_happened(script in scripts(), stops in stops()) {
        let (mut calm, mut interrupted) = (World::default(), World::default());
        let expected = calm.run(&script, &[]);
        let stops: Vec<_> = stops.into_iter().map(|stop| (stop, 0)).collect();
        prop_assert_eq!(interrupted.run(&script, &stops), expected);
        prop_assert_eq!(interrupted.done, calm.done);
        prop_assert_eq!((interrupted.faults.len(), calm.faults.len()), (0, 0), "all Faults are healed");
    }

    /// Also when the process is away for longer than anything may take.
    #[test]
    fn steps_run_in_order_and_keep_their_deadlines(
        script in scripts(),
        stops in stops(),
        away in proptest::collection::vec(0u64..40, 60),
    ) {
        let mut world = World::default();
        let stops: Vec<_> = stops.into_iter().zip(away).collect();
        let status = world.run(&script, &stops);
        let has_failed = status.steps.iter().any(|step| step.phase == "Failed");
        prop_assert_eq!(status.phase.as_str(), if has_failed { "Failed" } else { "Passed" });
        prop_assert!(world.faults.is_empty());
        for (step, was) in script.steps.iter().zip(&status.steps) {
            let (started, finished) = (was.started.as_ref().map(|time| time.0), was.finished.as_ref().map(|time| time.0));
            let earlier = script.steps.iter().zip(&status.steps).filter(|(other, _)| other.group < step.group);
            for (_, before) in earlier {
                if let Some(started) = started {
                    prop_assert_eq!(before.phase.as_str(), "Passed");
                    prop_assert!(before.finished.as_ref().is_some_and(|finished| finished.0 <= started));
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
                }
                _ => {}
            }
        }
    }
}

#[test]
fn what_comes_after_a_failed_step_is_skipped_and_its_faults_are_healed() {
    let late = Action::Expect { sight: sight(100), within: seconds(5) };
    let script = script([fault("f", None), late, Action::Change(change("workers"))]);
    let mut world = World::default();
    let status = world.run(&script, &[]);
    assert_eq!((status.phase.as_str(), phases(&status)), ("Failed", vec!["Passed", "Failed", "Skipped"]));
    assert_eq!(status.steps[1].message, "seen at 7");
    assert!(world.faults.is_empty() && world.done.iter().all(|deed| !deed.contains("workers")));
    assert_eq!(status.finish_time, Some(MicroTime(at(7))));
}

#[test]
fn a_fault_lasts_as_long_as_it_says_and_not_longer_than_the_scenario() {
    let script = script([fault("brief", Some(4)), fault("long", Some(900)), Action::Pause(seconds(20))]);
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

/// Otherwise the process that goes on would see a world without the Fault, and the step could pass.
#[test]
fn how_a_step_ended_is_stored_before_its_faults_are_healed() {
    let script = script([fault("f", None), Action::Expect { sight: sight(100), within: seconds(0) }]);
    let mut world = World::default();
    while world.stored.as_ref().is_none_or(|status| status.steps[1].phase != "Failed") {
        assert_eq!(world.faults.is_empty(), world.now == seconds(0) && world.done.is_empty());
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
    assert_eq!((status.phase.as_str(), phases(&status)), ("Pending", vec!["Pending"]));
    assert!(world.faults.is_empty());
    let status = world.run(&second, &[]);
    assert_eq!((status.phase.as_str(), status.observed_generation), ("Passed", Some(2)));
    // It is over, and does nothing more.
    let done = world.done.clone();
    assert_eq!((world.run(&second, &[]), world.done), (status, done));
}

#[test]
fn a_fault_of_somebody_else_is_left_alone() {
    let script = script([fault("f", None)]);
    let stored = plan(&script, 0, None, &Seen::default(), at(0)).status;
    let other = SeenFault { is_ours: false, is_going: false, phase: "Active".into(), message: String::new() };
    let seen = Seen { faults: [("f".to_owned(), other)].into(), ..Seen::default() };
    let next = plan(&script, 0, Some(&stored), &seen, at(1));
    assert_eq!((next.status.steps[0].phase.as_str(), next.acts), ("Failed", vec![]));
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
        assert_eq!((stored.steps[0].phase.as_str(), stored.steps[0].message.as_str()), (phase, "busy"));
    }
}
