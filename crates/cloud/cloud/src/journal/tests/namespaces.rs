//! Whoever may read one namespace reads nothing of another. The journals are those of engines that do what generated
//! scripts say, in three namespaces. Each name has the name of its namespace in it, so a look at the bytes finds a leak
//! wherever it is.

use std::collections::{BTreeMap, BTreeSet};

use nephele_engine::{
    CloudSpec, Effect, Fault, Footprint, Journal, Latency, MistakesByCaller, Previous, StageSpec, UpdateSpec,
    Zone,
};
use nephele_model::{
    Budget, FailureReason, FaultRecord, InstanceType, Matches, Odds, Quotas, Schedule, VisibleEffect,
};
use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{Config as Cases, TestRunner},
};

use super::*;
use crate::active_effect::active_effect_of;

const NAMESPACES: [&str; 3] = ["amber", "birch", "coral"];

/// One call, and when it comes after the one before.
#[derive(Clone, Copy, Debug)]
struct Step {
    namespace: &'static str,
    what: u8,
    number: u8,
    /// One of the effects of a Fault.
    effect: u8,
    after: Duration,
}

fn script() -> impl Strategy<Value = Vec<Step>> {
    let pause = prop_oneof![4 => 0..200u64, 1 => 0..120_000u64].prop_map(Duration::from_millis);
    let step = (
        prop::sample::select(&NAMESPACES[..]),
        0..20u8,
        0..3u8,
        0..7u8,
        pause,
    );
    let step = step.prop_map(|(namespace, what, number, effect, after)| Step {
        namespace,
        what,
        number,
        effect,
        after,
    });
    prop::collection::vec(step, 1..160)
}

/// What a reader asks for besides the namespace. Names of other namespaces are among it.
fn questions() -> impl Strategy<Value = (JournalFilter, Option<u64>)> {
    let name = |word: &'static str| {
        let name = (prop::sample::select(&NAMESPACES[..]), 0..3u8);
        prop::option::weighted(
            0.2,
            name.prop_map(move |(namespace, number)| named(word, namespace, number)),
        )
    };
    let operation = prop::sample::select(vec!["CreateInstance", "PutFault", "DeleteInstance"]);
    let operation = prop::option::weighted(0.2, operation.prop_map(str::to_owned));
    let after = prop::option::weighted(0.5, 0..400u64);
    let filter = (name("cluster"), name("machine"), operation, name("fault")).prop_map(
        |(cluster, machine, operation, fault)| JournalFilter {
            namespace: None,
            cluster,
            machine,
            operation,
            fault,
            since: None,
        },
    );
    (filter, after)
}

fn named(word: &str, namespace: &str, number: u8) -> String {
    format!("{word}-{number}-of-{namespace}")
}

impl Step {
    fn id(&self, kind: ResourceKind, word: &str) -> ResourceId {
        ResourceId {
            namespace: self.namespace.into(),
            cluster: named("cluster", self.namespace, 0),
            kind,
            name: named(word, self.namespace, self.number),
        }
    }

    fn machine(&self) -> ResourceSpec {
        let stage = |word: &str, after: Vec<&str>| StageSpec {
            name: word.into(),
            after: after.into_iter().map(Into::into).collect(),
            latency: Some(Latency::Fixed(Duration::from_millis(300))),
            failure: Odds::new(0.2),
        };
        ResourceSpec {
            zone: Some("shared".into()),
            cloud_spec: named("cloud", self.namespace, 0),
            instance_type: Some(named("type", self.namespace, self.number % 2)),
            labels: [("label".to_owned(), named("value", self.namespace, 0))].into(),
            addresses: vec![named("address", self.namespace, self.number)],
            owner: Some(self.id(ResourceKind::Instance, "owner")),
            stages: vec![stage("vm", vec![]), stage("node", vec!["vm"])],
            deletion: Some(Latency::Fixed(Duration::from_millis(200))),
            ..ResourceSpec::new(self.id(ResourceKind::Instance, "machine"))
        }
    }

    fn put_cloud(&self) -> Request {
        let instance_type = |number| InstanceType {
            name: named("type", self.namespace, number),
            cpu: 2,
            ..InstanceType::default()
        };
        let cloud_spec = CloudSpec {
            instance_types: vec![instance_type(0)],
            quotas: Quotas {
                instances: Some(1 + u32::from(self.number)),
                ..Quotas::default()
            },
            ..CloudSpec::default()
        };
        Request::PutCloud {
            id: ResourceId::cloud(self.namespace, named("cloud", self.namespace, 0)),
            cloud_spec: Box::new(cloud_spec),
            clock: None,
            leaked: Vec::new(),
            cost: None,
            caller_mistakes: MistakesByCaller::new(),
        }
    }

    fn put_fault(&self) -> Request {
        let time = Duration::from_secs(1);
        let effect = match self.effect {
            0 => Effect::Fail {
                reason: FailureReason::InternalError,
                message: named("message", self.namespace, self.number),
                retry_after: time,
            },
            1 => Effect::Delay(Latency::Fixed(time)),
            2 => Effect::Lag(Latency::Fixed(time)),
            3 => Effect::Leak,
            4 => Effect::Duplicate { retry_after: time },
            5 => Effect::Outage {
                active_effect: active_effect_of(&VisibleEffect::Vanished),
                retry_after: time,
            },
            _ => Effect::Affect(active_effect_of(&VisibleEffect::NotReady)),
        };
        let budget = Budget {
            probability: Odds::new(0.5),
            lasts: (self.number == 0).then_some(4 * time),
            schedule: (self.number == 1).then_some(Schedule {
                every: 2 * time,
                lasts: time,
                offset: time,
            }),
            ..Budget::default()
        };
        Request::PutFault {
            id: ResourceId::fault(self.namespace, named("fault", self.namespace, self.number)),
            fault: Box::new(Fault {
                matches: Matches::default(),
                effect,
                budget,
            }),
            record: FaultRecord::default(),
            affected_ids: Vec::new(),
            is_cut: false,
            notices: Vec::new(),
            skipped: Vec::new(),
            leaked: Vec::new(),
            paused: false,
        }
    }

    fn request(&self, now: SimTime) -> Request {
        let machine = || self.id(ResourceKind::Instance, "machine");
        let load_balancer = || ResourceId {
            name: named("balancer", self.namespace, 0),
            ..self.id(ResourceKind::LoadBalancer, "balancer")
        };
        let stage = || "vm".into();
        match self.what {
            0 => self.put_cloud(),
            1 | 2 => self.put_fault(),
            3 => Request::Delete(ResourceId::fault(
                self.namespace,
                named("fault", self.namespace, self.number),
            )),
            4 => Request::Create(ResourceSpec::new(load_balancer())),
            5 | 6 => Request::RegisterBackend {
                load_balancer: load_balancer(),
                instance: machine().name,
                in_service_from: stage(),
            },
            7 => Request::DeregisterBackend {
                load_balancer: load_balancer(),
                instance: machine().name,
            },
            8 => Request::Delete(load_balancer()),
            9 | 10 => Request::Delete(machine()),
            11 => Request::Describe(machine()),
            12 => Request::Retry(machine(), stage()),
            13 => Request::Update(
                machine(),
                UpdateSpec {
                    name: named("update", self.namespace, self.number),
                    to: named("target", self.namespace, self.number),
                    since: now,
                    latency: Latency::ZERO,
                },
            ),
            14 => Request::Adopt {
                spec: self.machine(),
                previous: Box::new(Previous {
                    created: now,
                    reached: [(stage(), now)].into(),
                    ..Previous::default()
                }),
            },
            15 => Request::Reserve {
                id: machine(),
                footprint: Footprint::default(),
            },
            16 => Request::DeleteLeaked(ResourceId::cloud(
                self.namespace,
                named("cloud", self.namespace, 0),
            )),
            _ => Request::Create(self.machine()),
        }
    }
}

/// Does what the script says, and then what is due.
fn driven(script: &[Step]) -> Arc<Driver> {
    let seconds = Histogram::with_opts(HistogramOpts::new("held", "how long")).expect("it is valid");
    let zone = Zone {
        instances_max: Some(4),
    };
    let config = Config {
        zones: BTreeMap::from([("shared".to_owned(), zone)]),
        ..Config::default()
    };
    let driver = Arc::new(Driver::new(config, "seed", seconds));
    let mut now = SimTime::from_millis(0);
    for step in script {
        now = now + step.after;
        driver.apply(Operation {
            caller: "test".into(),
            request: step.request(now),
            at: now,
        });
    }
    driver.poll(now + Duration::from_secs(600));
    driver
}

/// All lines that pass the filter.
fn read(driver: &Arc<Driver>, filter: JournalFilter, after: Option<u64>) -> Vec<JournalLine> {
    let clock = CloudClock::new(Arc::new(|| Timestamp::UNIX_EPOCH));
    let over = CancellationToken::new();
    let mut reader = RecentRecords::new(driver.clone(), clock, over, filter, after);
    let mut lines = Vec::new();
    loop {
        let more = reader.read();
        if more.is_empty() {
            return lines;
        }
        lines.extend(more);
    }
}

/// What is sent for these lines.
fn sent(lines: &[JournalLine]) -> String {
    let line = |line| serde_json::to_string(line).expect("text, numbers and lists can be written") + "\n";
    lines.iter().map(line).collect()
}

proptest! {
    #![proptest_config(Cases::with_cases(128))]

    #[test]
    fn no_byte_for_a_reader_of_a_namespace_names_another(script in script(), (filter, after) in questions()) {
        let driver = driven(&script);
        let all = read(&driver, filter.clone(), after);
        for namespace in NAMESPACES {
            let of_namespace = JournalFilter { namespace: Some(namespace.into()), ..filter.clone() };
            let lines = read(&driver, of_namespace, after);
            let text = sent(&lines);
            for other in NAMESPACES.into_iter().filter(|other| *other != namespace) {
                prop_assert!(!text.contains(other), "{other} in what {namespace} reads:\n{text}");
            }
            let is_for_it = |line: &&JournalLine| line.namespace == namespace || line.event == "RecordsMissed";
            let expected: Vec<_> = all.iter().filter(is_for_it).cloned().collect();
            prop_assert_eq!(lines, expected);
        }
    }
}

/// The property above holds for each of them.
#[test]
fn generated_journals_have_every_kind_of_record() {
    let mut runner = TestRunner::deterministic();
    let mut words = BTreeSet::new();
    let mut operations = BTreeSet::new();
    for _ in 0..200 {
        let script = script().new_tree(&mut runner).expect("a script").current();
        for line in read(&driven(&script), JournalFilter::default(), None) {
            words.insert(line.event);
            operations.insert(line.operation);
        }
    }
    let events = [
        "",
        "Adopted",
        "Afflicted",
        "BackendInService",
        "BackendOutOfService",
        "Deleted",
        "FaultEnded",
        "FaultWindowBegan",
        "FaultWindowEnded",
        "Healed",
        "Leaked",
        "LeakedDeleted",
        "RoomFreed",
        "StageFailed",
        "StageReached",
        "TurnEnded",
        "Updated",
    ];
    assert_eq!(words, events.map(str::to_owned).into());
    let expected = [
        "",
        "AdoptInstance",
        "CreateInstance",
        "CreateLoadBalancer",
        "DeleteFault",
        "DeleteInstance",
        "DeleteLeakedInstances",
        "DeleteLoadBalancer",
        "DeregisterBackend",
        "DescribeInstance",
        "PutCatalog",
        "PutFault",
        "RegisterBackend",
        "ReserveInstance",
        "RetryInstance",
        "UpdateInstance",
    ];
    assert_eq!(operations, expected.map(str::to_owned).into());
}

/// The number of missing records counts those of all namespaces, as the numbers of records do.
#[test]
fn a_gap_and_the_end_of_access_name_no_namespace() {
    let step = |namespace, number: u8| Step {
        namespace,
        what: 4,
        number,
        effect: 0,
        after: Duration::ZERO,
    };
    let driver = driven(&[step("amber", 0), step("birch", 0)]);
    let created = read(&driver, JournalFilter::default(), None);
    let more = 10 + Journal::CAPACITY as u64 - created.len() as u64;
    (0..more).for_each(|number| create(&driver, 1000 + number));
    let amber = JournalFilter {
        namespace: Some("amber".into()),
        ..JournalFilter::default()
    };
    let expected = |event: &str, sequence, message: &str| JournalLine {
        sequence,
        time: Timestamp::UNIX_EPOCH,
        event: event.into(),
        message: message.into(),
        ..JournalLine::default()
    };
    assert_eq!(
        read(&driver, amber.clone(), Some(1)),
        [expected(
            "RecordsMissed",
            10,
            "9 records are no longer in the journal"
        )]
    );
    let clock = CloudClock::new(Arc::new(|| Timestamp::UNIX_EPOCH));
    let mut reader = RecentRecords::new(driver, clock, CancellationToken::new(), amber, None);
    assert_eq!(reader.read(), []);
    let why = "The permission to read the journal was taken away, or could not be checked again";
    let last = 10 + Journal::CAPACITY as u64;
    assert_eq!(reader.access_ended(), expected("AccessEnded", last, why));
}

/// A namespace may have any number of Faults.
#[test]
fn lines_that_many_faults_make_long_are_read_a_few_at_a_time() {
    let faults = (0..300).map(|number| format!("{number:0>253}"));
    let faults: Vec<_> = faults.collect();
    let record = Record::Operation {
        operation: Box::new(Operation {
            caller: "test".into(),
            request: Request::Delete(ResourceId::cloud("amber", "cloud")),
            at: SimTime::from_millis(0),
        }),
        outcome: nephele_engine::Outcome::Accepted,
        faults: faults.clone(),
        is_hit: true,
    };
    let entry = |sequence| {
        let record = record.clone();
        Arc::new(nephele_engine::Entry { sequence, record })
    };
    let batch: Vec<_> = (1..=256).map(entry).collect();
    let clock = CloudClock::new(Arc::new(|| Timestamp::UNIX_EPOCH));
    let over = CancellationToken::new();
    let mut reader = RecentRecords::new(driver(), clock, over, JournalFilter::default(), None);
    let lines = reader.wanted(None, &batch);
    let sequences: Vec<_> = lines.iter().map(|line| line.sequence).collect();
    assert_eq!((sequences, reader.last), (vec![1, 2, 3], 3));
    assert_eq!(lines[0].faults, faults[200..]);
    let length = sent(&lines).len();
    assert!(length <= 96 * 1024, "{length}");
}
