//! Properties that hold for any requests and polls.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use nephele_engine::{
    CloudSpec, Config, Cursor, Engine, Entry, Event, EventKind, Footprint, Hardware, Latency, Line,
    MistakesByCaller, NamespaceQuotas, Operation, Outcome, Previous, Record, Replay, Request, Resource,
    ResourceSpec, Seed, StageState, UpdateSpec, Zone,
};
use nephele_model::{ClusterId, InstanceType, Odds, ResourceId, ResourceKind, SimTime, StageName};
use proptest::prelude::*;

use crate::cloud::{
    Watched, ask, at, deregister, engine, id, load_balancer, machine, reached_stages, register,
};

fn latency() -> impl Strategy<Value = Latency> {
    let duration = || (0u64..8_000).prop_map(Duration::from_millis);
    prop_oneof![
        Just(Latency::ZERO),
        duration().prop_map(Latency::Fixed),
        (duration(), 0.0..2.0f64).prop_map(|(base, fraction)| Latency::Jittered { base, fraction }),
        (duration(), duration()).prop_map(|(min, max)| Latency::Uniform { min, max }),
        (duration(), duration()).prop_map(|(mean, standard_deviation)| Latency::Normal {
            mean,
            standard_deviation
        }),
        (duration(), duration()).prop_map(|(median, p99)| Latency::Lognormal { median, p99 }),
        (duration(), duration(), duration()).prop_map(|(min, mode, max)| Latency::Triangular {
            min,
            mode,
            max
        }),
        duration().prop_map(|mean| Latency::Exponential { mean }),
        prop::collection::vec(duration(), 0..4).prop_map(Latency::Empirical),
    ]
}

/// A machine that may fail anywhere, in zone a or b.
fn a_machine(name: String) -> impl Strategy<Value = ResourceSpec> {
    let odds = prop_oneof![3 => Just(Odds::NEVER), 1 => (0.0..=1.0f64).prop_map(Odds::new)];
    (
        prop::collection::vec((latency(), odds), 4),
        latency(),
        prop::bool::ANY,
    )
        .prop_map(move |(stages, deletion, in_a)| {
            let mut spec = machine(&name, &Latency::ZERO);
            for (stage, (latency, failure)) in spec.stages.iter_mut().zip(stages) {
                stage.latency = Some(latency);
                stage.failure = failure;
            }
            spec.deletion = Some(deletion);
            spec.zone = Some(if in_a { "a" } else { "b" }.into());
            spec.instance_type = Some("m.large".into());
            spec
        })
}

/// Machines of different names.
fn machines() -> impl Strategy<Value = Vec<ResourceSpec>> {
    prop::collection::btree_set("[a-z]{1,3}", 1..8)
        .prop_flat_map(|names| names.into_iter().map(a_machine).collect::<Vec<_>>())
}

fn instance_type(cpu: u32) -> InstanceType {
    InstanceType {
        name: "m.large".into(),
        architecture: "arm64".into(),
        cpu,
        ..InstanceType::default()
    }
}

/// Any number that a stage stands for.
fn processors(stage: &str) -> u32 {
    u32::from(stage.as_bytes()[0])
}

/// Requests about a few machines, in order of time.
fn script() -> impl Strategy<Value = Vec<(SimTime, Request)>> {
    let request = machines().prop_flat_map(|machines| {
        let stage = prop::sample::select(vec!["vm", "node", "etcd", "api-server", "other"]);
        let request =
            (prop::sample::select(machines), 0..14u8, stage).prop_map(|(spec, which, stage)| match which {
                9 => Request::Create(ResourceSpec {
                    deletion: spec.deletion,
                    ..ResourceSpec::new(load_balancer(balancer_of(stage)))
                }),
                10 | 11 => register(balancer_of(stage), &spec.id.name, stage),
                12 => deregister(balancer_of(stage), &spec.id.name),
                13 => Request::Delete(load_balancer(balancer_of(stage))),
                8 => Request::PutCloud {
                    clock: None,
                    leaked: Vec::new(),
                    cost: None,
                    caller_mistakes: MistakesByCaller::new(),
                    id: ResourceId::cloud(spec.id.namespace, ""),
                    cloud_spec: Box::new(CloudSpec {
                        instance_types: vec![instance_type(processors(stage))],
                        ..CloudSpec::default()
                    }),
                },
                0..3 => Request::Create(spec),
                3 => Request::Delete(spec.id),
                7 => Request::Reserve {
                    footprint: Footprint {
                        zone: spec.zone,
                        ..Footprint::default()
                    },
                    id: spec.id,
                },
                4 => {
                    let latency = spec.stages[0].latency.clone().unwrap_or(Latency::ZERO);
                    Request::Update(
                        spec.id,
                        UpdateSpec {
                            name: stage.into(),
                            to: stage.into(),
                            since: END,
                            latency,
                        },
                    )
                }
                _ => Request::Retry(spec.id, stage.into()),
            });
        prop::collection::vec((0u64..60_000, request), 1..40)
    });
    request.prop_map(|mut script| {
        script.sort_by_key(|(millis, _)| *millis);
        script
            .into_iter()
            .map(|(millis, request)| (SimTime::from_millis(millis), request))
            .collect()
    })
}

/// The names of the load balancers. No machine has one of these names.
const BALANCERS: [&str; 2] = ["lb-a", "lb-b"];

fn balancer_of(stage: &str) -> &'static str {
    BALANCERS[usize::from(stage.len() == 4)]
}

/// A cloud with low limits, so that scripts reach them.
fn small_cloud() -> Watched {
    let zone = |instances_max| Zone { instances_max };
    let config = Config {
        zones: BTreeMap::from([("a".to_owned(), zone(Some(2))), ("b".to_owned(), zone(None))]),
        quotas: NamespaceQuotas {
            instances_max: Some(3),
            load_balancers_max: Some(1),
        },
        cloud_spec: CloudSpec::default(),
    };
    Watched::new(config, "amber-otter-lamp")
}

const END: SimTime = SimTime::from_millis(10_000_000);

/// The state of machines by name: the stages reached, and whether the machine is being deleted.
type Reached = BTreeMap<String, (BTreeMap<StageName, SimTime>, bool)>;

fn standing_of(resource: &Resource) -> (BTreeMap<StageName, SimTime>, bool) {
    let reached = resource.stages().filter_map(|(name, state)| match state {
        StageState::Reached { at } => Some((name.clone(), *at)),
        _ => None,
    });
    (reached.collect(), resource.deleting.is_some())
}

fn standing(engine: &Engine) -> Reached {
    let machines = engine.resources();
    machines
        .map(|machine| (machine.spec.id.name.clone(), standing_of(machine)))
        .collect()
}

/// Appends the new records to the lines.
fn keep(engine: &Engine, cursor: &mut Cursor, lines: &mut Vec<Line>) {
    let mut batch = Vec::with_capacity(nephele_engine::Journal::CAPACITY);
    engine
        .journal()
        .read(cursor, &mut batch)
        .expect("tests make fewer records");
    lines.extend(batch.iter().map(|entry| Line::Record(Entry::clone(entry))));
}

/// The name of a machine in another group. It does not exist.
fn elsewhere() -> ResourceId {
    ResourceId {
        cluster: "elsewhere".into(),
        ..id("m")
    }
}

/// A reader of a group, like a projection.
#[derive(Clone)]
struct Reader {
    cursor: Cursor,
    machines: Reached,
    restarts: u32,
}

impl Reader {
    fn read(&mut self, engine: &Engine, cluster: &ClusterId) {
        let mut batch = Vec::with_capacity(3);
        loop {
            batch.clear();
            if engine
                .journal()
                .read_cluster(cluster, &mut self.cursor, &mut batch)
                .is_err()
            {
                self.restarts += 1;
                let machines = engine.cluster(cluster);
                self.machines = machines
                    .map(|machine| (machine.spec.id.name.clone(), standing_of(machine)))
                    .collect();
                return;
            }
            if batch.is_empty() {
                return;
            }
            batch
                .iter()
                .for_each(|entry: &Arc<Entry>| self.fold(&entry.record));
        }
    }

    fn fold(&mut self, record: &Record) {
        let name = &record.resource().name;
        match record {
            Record::Operation {
                operation,
                outcome: Outcome::Accepted,
                ..
            } => match &operation.request {
                Request::Create(_) => drop(self.machines.entry(name.clone()).or_default()),
                // A resource with a reservation may never have been created.
                Request::Delete(_) => {
                    if let Some(machine) = self.machines.get_mut(name) {
                        machine.1 = true;
                    }
                }
                _ => {}
            },
            Record::Event(Event {
                at,
                kind: EventKind::StageReached(stage),
                ..
            }) => {
                let machine = self.machines.get_mut(name).expect("it was created");
                machine.0.insert(stage.clone(), *at);
            }
            Record::Event(Event {
                kind: EventKind::Deleted,
                ..
            }) => drop(self.machines.remove(name)),
            _ => {}
        }
    }
}

proptest! {
    #[test]
    fn order_of_arrival_changes_no_result(
        (machines, shuffled) in machines().prop_flat_map(|machines| {
            (Just(machines.clone()), Just(machines).prop_shuffle())
        }),
    ) {
        let run = |order: &[ResourceSpec]| {
            let mut engine = engine();
            for spec in order {
                ask(&mut engine, at(1), Request::Create(spec.clone())).unwrap();
            }
            (engine.poll(END), engine.digest())
        };
        prop_assert_eq!(run(&machines), run(&shuffled));
    }

    #[test]
    fn extra_polls_and_repeated_requests_change_no_answer_no_event_and_no_state(
        script in script(), polls in prop::collection::vec(0u64..60_000, 0..30), repeat: bool,
    ) {
        let mut once = small_cloud();
        let answers: Vec<_> = script.iter().map(|(now, request)| ask(&mut once, *now, request.clone())).collect();

        let mut often = small_cloud();
        let mut polls: Vec<_> = polls.into_iter().map(SimTime::from_millis).collect();
        polls.sort_unstable();
        let mut polls = polls.into_iter().peekable();
        let mut seen = Vec::new();
        for ((now, request), answer) in script.iter().zip(answers) {
            while let Some(poll) = polls.next_if(|poll| poll <= now) {
                seen.extend(often.poll(poll));
            }
            prop_assert_eq!(ask(&mut often, *now, request.clone()), answer.clone());
            if repeat && answer.is_ok() && !matches!(request, Request::Retry(..)) {
                prop_assert_eq!(ask(&mut often, *now, request.clone()), Ok(Outcome::AlreadyDone));
            }
        }
        seen.extend(often.poll(END));
        prop_assert_eq!(once.poll(END), seen);
        prop_assert_eq!(once.digest(), often.digest());
    }

    #[test]
    fn restart_in_the_middle_changes_no_deadline_no_event_and_no_state(
        machines in machines(), stop in 0u64..40_000, pause in 0u64..5_000,
    ) {
        let mut before = engine();
        for spec in &machines {
            ask(&mut before, at(1), Request::Create(spec.clone())).unwrap();
        }
        let stop = at(1) + Duration::from_millis(stop);
        let told_before = before.poll(stop);

        let mut after = engine();
        for spec in machines.iter().rev() {
            let reached = reached_stages(&before, &spec.id);
            let adopt = Request::Adopt { spec: spec.clone(), previous: Box::new(Previous { created: at(1), reached, ..Previous::default() }) };
            ask(&mut after, stop + Duration::from_millis(pause), adopt).unwrap();
        }
        // A stage that had failed fails again at the same time, and the event is recorded again.
        let reached = |event: &Event| matches!(event.kind, EventKind::StageReached(_));
        let failed_before = told_before.into_iter().filter(|event| !reached(event));
        let failures: Vec<_> = failed_before.map(|event| (event.at, event.id, event.kind)).collect();
        let mut again: Vec<_> = after.poll(END).into_iter().map(|event| (event.at, event.id, event.kind)).collect();
        for failure in failures {
            let place = again.iter().position(|event| *event == failure);
            prop_assert!(place.is_some(), "{:?} was not told again", failure);
            again.remove(place.unwrap());
        }
        let rest: Vec<_> = before.poll(END).into_iter().map(|event| (event.at, event.id, event.kind)).collect();
        prop_assert_eq!(again, rest);
        prop_assert_eq!(before.digest(), after.digest());
    }

    #[test]
    fn restart_from_whole_seconds_changes_no_deadline_and_no_state(
        machines in machines(), stop in 0u64..40_000, created in 0u64..5_000,
    ) {
        let created = SimTime::from_millis(created);
        let mut before = engine();
        for spec in &machines {
            ask(&mut before, created, Request::Create(spec.clone())).unwrap();
        }
        let stop = created + Duration::from_millis(stop);
        before.poll(stop);
        let mut after = engine();
        for spec in &machines {
            let mut reached = reached_stages(&before, &spec.id);
            for at in reached.values_mut() {
                *at = SimTime::from_millis(at.as_millis() / 1000 * 1000);
            }
            ask(&mut after, stop, Request::Adopt { spec: spec.clone(), previous: Box::new(Previous { created, reached, ..Previous::default() }) }).unwrap();
        }
        after.poll(stop);
        prop_assert_eq!(before.next_deadline(), after.next_deadline());
        before.poll(END);
        after.poll(END);
        prop_assert_eq!(before.digest(), after.digest());
    }

    #[test]
    fn restart_in_the_middle_of_an_update_changes_no_deadline_and_no_state(
        latency in latency(), began in 0u64..5_000, stop in 0u64..20_000,
    ) {
        let began = at(100) + Duration::from_millis(began);
        let stop = began + Duration::from_millis(stop);
        let spec = machine("m", &Latency::ZERO);
        let update = || Request::Update(id("m"), UpdateSpec { name: "u".into(), to: "v2".into(), since: began, latency: latency.clone() });
        let mut before = engine();
        ask(&mut before, at(1), Request::Create(spec.clone())).unwrap();
        ask(&mut before, began, update()).unwrap();
        before.poll(stop);
        let reached = reached_stages(&before, &id("m"));
        let mut after = engine();
        ask(&mut after, stop, Request::Adopt { spec, previous: Box::new(Previous { created: at(1), reached, ..Previous::default() }) }).unwrap();
        after.poll(stop);
        // If the update was seen to be over, it is not requested again.
        if before.next_deadline().is_some() {
            ask(&mut after, stop, update()).unwrap();
        }
        prop_assert_eq!(before.digest(), after.digest());
        prop_assert_eq!(before.next_deadline(), after.next_deadline());
        prop_assert_eq!(before.poll(END).len(), after.poll(END).len());
    }

    #[test]
    fn restart_in_the_middle_of_a_deletion_changes_no_deadline_and_no_state(
        latency in latency(), began in 0u64..5_000, stop in 0u64..20_000,
    ) {
        let began = at(100) + Duration::from_millis(began);
        let stop = began + Duration::from_millis(stop);
        let spec = ResourceSpec { deletion: Some(latency), ..machine("m", &Latency::ZERO) };
        let mut before = engine();
        ask(&mut before, at(1), Request::Create(spec.clone())).unwrap();
        ask(&mut before, began, Request::Delete(id("m"))).unwrap();
        before.poll(stop);
        let Some(left) = before.get(&id("m")) else { return Ok(()) };
        let reached = reached_stages(&before, &id("m"));
        let deleting = left.deleting.as_ref().map(|left| left.since);
        prop_assert_eq!(deleting, Some(began));
        let mut after = engine();
        let adopt = Request::Adopt { spec, previous: Box::new(Previous { created: at(1), reached, deleting, ..Previous::default() }) };
        let mut lines = vec![Line::State(after.state())];
        let mut cursor = after.journal().end();
        ask(&mut after, stop, adopt.clone()).unwrap();
        prop_assert_eq!(ask(&mut after, stop, Request::Delete(id("m"))), Ok(Outcome::AlreadyDone));
        prop_assert_eq!(before.digest(), after.digest());
        prop_assert_eq!(before.next_deadline(), after.next_deadline());
        // The generations differ by the stages, which the first one reached one by one.
        let gone = |engine: &mut Watched| engine.poll(END).iter().map(|event| (event.at, event.kind.clone())).collect::<Vec<_>>();
        prop_assert_eq!(gone(&mut before), gone(&mut after));
        keep(&after, &mut cursor, &mut lines);
        lines.push(Line::digest(&after));
        let mut replay = Replay::default();
        prop_assert!(lines.iter().try_for_each(|line| replay.play(line)).is_ok());
        // A deletion that is over ends at once.
        ask(&mut after, END, adopt).unwrap();
        after.poll(END);
        prop_assert!(after.get(&id("m")).is_none());
    }

    #[test]
    fn restart_of_what_never_failed_continues_its_generations(names in prop::collection::btree_set("[a-z]{1,3}", 1..6), stop in 0u64..30_000) {
        let jittered = Latency::Jittered { base: Duration::from_secs(5), fraction: 0.5 };
        let mut before = engine();
        for name in &names {
            ask(&mut before, at(0), Request::Create(machine(name, &jittered))).unwrap();
        }
        before.poll(SimTime::from_millis(stop));
        let mut after = engine();
        for name in &names {
            let reached = reached_stages(&before, &id(name));
            let adopt = Request::Adopt { spec: machine(name, &jittered), previous: Box::new(Previous { created: at(0), reached, ..Previous::default() }) };
            ask(&mut after, SimTime::from_millis(stop), adopt).unwrap();
        }
        prop_assert_eq!(before.next_deadline(), after.next_deadline());
        prop_assert_eq!(before.poll(END), after.poll(END));
    }

    #[test]
    fn events_are_ordered_and_neither_early_nor_late(
        script in script(), polls in prop::collection::vec(0u64..80_000, 1..20),
    ) {
        let mut engine = small_cloud();
        let mut polls = polls;
        polls.sort_unstable();
        let mut script = script.into_iter().peekable();
        let mut last = SimTime::default();
        for poll in polls {
            let poll = SimTime::from_millis(poll);
            while let Some((now, request)) = script.next_if(|(now, _)| *now <= poll) {
                let _ = ask(&mut engine, now, request);
            }
            let events = engine.poll(poll);
            let keys: Vec<_> = events.iter().map(|event| (event.at, event.id.clone(), event.generation)).collect();
            let ordered: BTreeSet<_> = keys.iter().cloned().collect();
            prop_assert_eq!(keys, ordered.into_iter().collect::<Vec<_>>(), "ordered, and each once");
            prop_assert!(events.iter().all(|event| last <= event.at && event.at <= poll));
            prop_assert!(engine.next_deadline().is_none_or(|deadline| deadline > poll));
            last = poll;
        }
    }

    #[test]
    fn journal_played_to_another_cloud_makes_it_equal(script in script()) {
        let mut first = small_cloud();
        for (now, request) in script {
            let _ = ask(&mut first, now, request);
        }
        let mut second = small_cloud();
        for entry in first.journal().since(1) {
            if let Record::Operation { operation, outcome, .. } = &entry.record {
                prop_assert_eq!(&second.apply(Operation::clone(operation)), outcome);
            }
        }
        prop_assert_eq!(first.poll(END), second.poll(END));
        prop_assert_eq!(first.digest(), second.digest());
        prop_assert!(first.journal().since(1).eq(second.journal().since(1)));
    }

    /// A kept journal is replayed, whenever the engine was polled and wherever a state was written in between. A
    /// journal with a missing record or another answer is not replayed.
    #[test]
    fn kept_journal_is_played_again_without_a_difference(
        script in script(), polls in prop::collection::vec(0u64..60_000, 0..30), at in 0..40usize, broken in 0..200usize,
    ) {
        let mut engine = small_cloud();
        let mut polls: Vec<_> = polls.into_iter().map(SimTime::from_millis).collect();
        polls.sort_unstable();
        let mut polls = polls.into_iter().peekable();
        let mut lines = vec![Line::State(engine.state())];
        let mut cursor = engine.journal().end();
        for (step, (now, request)) in script.into_iter().enumerate() {
            if step == at {
                lines.push(Line::State(engine.state()));
            }
            while let Some(poll) = polls.next_if(|poll| *poll <= now) {
                engine.poll_some(poll, 3);
                keep(&engine, &mut cursor, &mut lines);
            }
            // A caller may have read the clock a while earlier.
            let asked = SimTime::from_millis(now.as_millis().saturating_sub(polls.len() as u64));
            let _ = ask(&mut engine, asked, request);
            keep(&engine, &mut cursor, &mut lines);
        }
        engine.poll_some(END, usize::MAX);
        keep(&engine, &mut cursor, &mut lines);
        lines.push(Line::digest(&engine));

        let play = |lines: &[Line]| {
            let mut replay = Replay::default();
            let played = lines.iter().try_for_each(|line| {
                let text = serde_json::to_string(line).unwrap();
                replay.play(&serde_json::from_str(&text).unwrap())
            });
            played.map(|()| (replay.engine().map(Engine::digest), replay.gaps()))
        };
        prop_assert_eq!(play(&lines), Ok((Some(engine.digest()), 0)));

        let records: Vec<_> = (0..lines.len()).filter(|line| matches!(lines[*line], Line::Record(_))).collect();
        prop_assume!(!records.is_empty());
        let mut missing = lines.clone();
        missing.remove(records[broken % records.len()]);
        // A record that is missing right before a state looks like a reader that fell behind.
        prop_assert!(play(&missing).map_or(true, |(_, gaps)| gaps == 1));
        let mut other = lines;
        match &mut other[records[broken % records.len()]] {
            Line::Record(Entry { record: Record::Event(event), .. }) => event.generation += 1,
            Line::Record(Entry { record: Record::Operation { outcome, .. }, .. }) => {
                *outcome = Outcome::Delayed { until: END };
            }
            Line::Record(Entry {
                record:
                    Record::CapacityFreed { at, .. }
                    | Record::GrantEnded { at, .. }
                    | Record::FaultEnded { at, .. }
                    | Record::FaultWindow { at, .. },
                ..
            }) => *at = END,
            Line::State(_) | Line::Digest { .. } => unreachable!("it is a record"),
        }
        prop_assert!(play(&other).is_err());
    }

    /// Two readers derive the state of each machine from the journal. One reads after each step. The other reads now
    /// and then, often after the journal has dropped records that it did not read. Both must end with the state of the
    /// engine.
    #[test]
    fn reader_that_lags_sees_what_one_that_does_not_sees(
        script in script(), noise in prop::collection::vec(prop_oneof![19 => Just(0), 1 => 1usize..6_000], 40),
    ) {
        let mut engine = Engine::new(Config::default(), Seed::new("amber-otter-lamp"));
        let cluster = ClusterId { namespace: id("m").namespace, name: id("m").cluster };
        let cursor = engine.follow(cluster.clone());
        let mut prompt = Reader { cursor, machines: BTreeMap::new(), restarts: 0 };
        let mut late = prompt.clone();
        for ((now, request), noise) in script.into_iter().zip(noise) {
            let _ = ask(&mut engine, now, request);
            engine.poll(now);
            prompt.read(&engine, &cluster);
            if noise > 0 {
                for _ in 0..noise {
                    let _ = ask(&mut engine, now, Request::Retry(elsewhere(), "vm".into()));
                }
                if noise % 2 == 0 {
                    late.read(&engine, &cluster);
                }
            }
        }
        engine.poll(END);
        for reader in [&mut prompt, &mut late] {
            reader.read(&engine, &cluster);
            prop_assert_eq!(&reader.machines, &standing(&engine));
        }
        prop_assert_eq!(prompt.restarts, 0, "others' records push nothing out that it did not read");
    }

    /// A model that counts the existing and reserved resources by zone at each creation.
    #[test]
    fn limits_are_kept_and_nothing_is_refused_below_them(script in script()) {
        let mut engine = small_cloud();
        let mut reserved = BTreeMap::new();
        for (now, request) in script {
            engine.poll(now);
            let of_kind = |kind| engine.resources().filter(move |resource| resource.spec.id.kind == kind);
            let mut zones: Vec<_> =
                of_kind(ResourceKind::Instance).map(|resource| resource.spec.zone.clone()).collect();
            let balancers = of_kind(ResourceKind::LoadBalancer).count();
            zones.extend(reserved.values().cloned());
            let in_a = zones.iter().filter(|zone| zone.as_deref() == Some("a")).count();
            let id = request.target().clone();
            let known = engine.get(&id).is_some() || reserved.contains_key(&id);
            match &request {
                Request::Reserve { footprint, .. } if !known => drop(reserved.insert(id, footprint.zone.clone())),
                Request::Create(_) | Request::Delete(_) => drop(reserved.remove(&id)),
                _ => {}
            }
            let capacity = match &request {
                Request::Create(spec) if !known && spec.id.kind == ResourceKind::LoadBalancer => {
                    Some(balancers < 1)
                }
                Request::Create(spec) if !known => {
                    Some(zones.len() < 3 && (spec.zone.as_deref() != Some("a") || in_a < 2))
                }
                _ => None,
            };
            let answer = ask(&mut engine, now, request);
            if let Some(capacity) = capacity {
                prop_assert_eq!(answer.is_ok(), capacity, "{:?}", answer);
            }
            prop_assert!(engine.reserved().eq(reserved.keys()));
        }
    }

    /// A backend is in service exactly while it is registered, up and not being deleted. A reader of the events alone
    /// knows the same.
    #[test]
    fn load_balancer_leads_to_what_is_registered_and_up(script in script()) {
        let mut engine = small_cloud();
        let mut registered = BTreeSet::new();
        let mut told = BTreeMap::<String, BTreeSet<String>>::new();
        let mut read = 1;
        for (now, request) in script {
            let answer = ask(&mut engine, now, request.clone());
            engine.poll(now);
            let instance_is_there = |name: &String| engine.get(&id(name)).is_some();
            match request {
                Request::RegisterBackend { load_balancer, instance, in_service_from } if answer.is_ok() => {
                    registered.retain(|(name, known, _)| (name, known) != (&load_balancer.name, &instance));
                    registered.insert((load_balancer.name, instance, in_service_from));
                }
                Request::DeregisterBackend { load_balancer, instance } => {
                    registered.retain(|(name, known, _)| (name, known) != (&load_balancer.name, &instance));
                }
                _ => {}
            }
            for entry in engine.journal().since(read) {
                read = entry.sequence + 1;
                let name = entry.record.resource().name.clone();
                let is_balancer = entry.record.resource().kind == ResourceKind::LoadBalancer;
                match &entry.record {
                    Record::Event(Event { kind: EventKind::BackendInService(backend), .. }) => {
                        prop_assert!(told.entry(name).or_default().insert(backend.clone()), "told twice");
                    }
                    Record::Event(Event { kind: EventKind::BackendOutOfService(backend), .. }) => {
                        prop_assert!(told.entry(name).or_default().remove(backend), "told twice");
                    }
                    Record::Operation { operation, outcome: Outcome::Accepted, .. }
                        if is_balancer && matches!(operation.request, Request::Delete(_)) =>
                    {
                        told.remove(&name);
                    }
                    Record::Event(Event { kind: EventKind::Deleted, .. }) => {
                        registered.retain(|(of, backend, _)| *if is_balancer { of } else { backend } != name);
                    }
                    _ => {}
                }
            }
            registered.retain(|(_, instance, _)| instance_is_there(instance));
            for balancer in BALANCERS {
                let leads: BTreeSet<_> = engine.in_service(&load_balancer(balancer)).map(str::to_owned).collect();
                let is_led_to = |(of, instance, stage): &&(String, String, StageName)| {
                    let up = |state: Option<&StageState>| matches!(state, Some(StageState::Reached { .. }));
                    let there = |id: &ResourceId| engine.get(id).filter(|found| found.deleting.is_none());
                    of == balancer
                        && there(&load_balancer(balancer)).is_some()
                        && there(&id(instance)).is_some_and(|found| up(found.stage(stage)))
                };
                let expected: BTreeSet<_> =
                    registered.iter().filter(is_led_to).map(|(_, instance, _)| instance.clone()).collect();
                prop_assert_eq!(&leads, &expected);
                prop_assert_eq!(&leads, &told.get(balancer).cloned().unwrap_or_default());
            }
        }
    }

    /// Whatever happens to a catalog, an instance keeps the hardware that the catalog had when the instance was
    /// created. A type that the catalog does not have is refused.
    #[test]
    fn instance_is_made_of_what_its_catalog_had_then(
        steps in prop::collection::vec((0..6u8, 0..3usize, prop::bool::ANY), 1..40),
    ) {
        let mut engine = engine();
        let cloud_id = ResourceId::cloud(id("m").namespace, "north");
        let mut offered = BTreeMap::<String, Hardware>::new();
        let mut is_there = false;
        let mut made = BTreeMap::new();
        for ((step, machine, which), number) in steps.into_iter().zip(0u64..) {
            let now = at(number);
            let spec = ResourceSpec {
                cloud_spec: "north".into(),
                instance_type: Some(if which { "x" } else { "y" }.into()),
                ..crate::cloud::machine(&machine.to_string(), &Latency::ZERO)
            };
            match step {
                0 => {
                    let names = if which { vec!["x"] } else { vec!["x", "y"] };
                    let of_name = |name| InstanceType { name: String::from(name), cpu: number as u32, ..InstanceType::default() };
                    let types: Vec<_> = names.into_iter().map(of_name).collect();
                    offered = types.iter().map(|known| (known.name.clone(), Hardware { capacity: known.capacity(), ..Hardware::default() })).collect();
                    let cloud_spec = Box::new(CloudSpec { instance_types: types, ..CloudSpec::default() });
                    ask(&mut engine, now, Request::PutCloud { id: cloud_id.clone(), cloud_spec, clock: None, leaked: Vec::new(), cost: None, caller_mistakes: MistakesByCaller::new() }).unwrap();
                    is_there = true;
                }
                1 => {
                    ask(&mut engine, now, Request::Delete(cloud_id.clone())).unwrap();
                    (is_there, offered) = (false, BTreeMap::new());
                }
                2 => {
                    ask(&mut engine, now, Request::Delete(spec.id.clone())).unwrap();
                    engine.poll(now);
                    made.remove(&spec.id);
                }
                _ if made.contains_key(&spec.id) => {}
                _ => {
                    let expected = offered.get(spec.instance_type.as_deref().unwrap_or_default()).filter(|_| is_there);
                    let answer = ask(&mut engine, now, Request::Create(spec.clone()));
                    prop_assert_eq!(answer.is_ok(), expected.is_some(), "{:?}", answer);
                    made.extend(expected.map(|hardware| (spec.id, hardware.clone())));
                }
            }
            for (id, hardware) in &made {
                prop_assert_eq!(engine.get(id).map(|made| &made.hardware), Some(hardware));
            }
        }
    }

    /// Clients ask again only when they are told that there is room. No client waits while there is room for its
    /// machine.
    #[test]
    fn no_one_waits_while_there_is_room(
        script in script(), deaf in prop::collection::btree_set("[a-z]{1,3}", 0..2),
    ) {
        let mut engine = small_cloud();
        let mut wanted = BTreeMap::new();
        let mut read = engine.journal().oldest();
        let mut now = SimTime::default();
        let settle = |engine: &mut Watched, wanted: &BTreeMap<ResourceId, ResourceSpec>, read: &mut u64, now| {
            loop {
                let entries: Vec<_> = engine.journal().since(*read).cloned().collect();
                let Some(last) = entries.last() else { return };
                *read = last.sequence + 1;
                for entry in &entries {
                    if let Record::CapacityFreed { waiting, .. } = &entry.record
                        && let Some(spec) = wanted.get(waiting)
                        && !deaf.contains(&waiting.name)
                    {
                        let _ = ask(engine, now, Request::Create(spec.clone()));
                    }
                }
            }
        };
        for (at, request) in script {
            // The end of each turn is polled for at its time.
            while let Some(due) = engine.next_deadline().filter(|due| *due <= at) {
                now = now.max(due);
                engine.poll(now);
                settle(&mut engine, &wanted, &mut read, now);
            }
            now = at;
            match &request {
                Request::Create(spec) if engine.get(&spec.id).is_none() => drop(wanted.insert(spec.id.clone(), spec.clone())),
                Request::Delete(id) => drop(wanted.remove(id)),
                _ => {}
            }
            let _ = ask(&mut engine, now, request);
            settle(&mut engine, &wanted, &mut read, now);
        }
        while let Some(due) = engine.next_deadline() {
            now = now.max(due);
            engine.poll(now);
            settle(&mut engine, &wanted, &mut read, now);
        }
        let left = wanted.into_iter().filter(|(id, _)| engine.get(id).is_none() && !deaf.contains(&id.name));
        for (id, spec) in left.collect::<Vec<_>>() {
            let reserved = engine.reserved().any(|reserved| *reserved == id);
            let refused = ask(&mut engine, now, Request::Create(spec)).is_err();
            prop_assert!(refused || reserved, "{id} was left waiting");
        }
    }

    #[test]
    fn no_time_and_no_number_makes_it_panic(
        created: u64, now: u64, poll: u64, reached: u64, seconds: u64, fraction: f64, probability: f64,
    ) {
        let time = SimTime::from_millis;
        let mut engine = engine();
        let latency = Latency::Jittered { base: Duration::from_secs(seconds), fraction };
        let mut spec = machine("m", &latency);
        spec.stages[1].failure = Odds::new(probability);
        let adopt = Request::Adopt { spec, previous: Box::new(Previous { created: time(created), reached: BTreeMap::from([("vm".into(), time(reached))]), ..Previous::default() }) };
        ask(&mut engine, time(now), adopt).unwrap();
        engine.poll(time(poll));
        let _ = ask(&mut engine, time(now), Request::Retry(id("m"), "node".into()));
        engine.poll(time(poll));
        ask(&mut engine, time(poll), Request::Delete(id("m"))).unwrap();
        engine.poll(time(u64::MAX));
        prop_assert!(engine.get(&id("m")).is_none());
    }
}
