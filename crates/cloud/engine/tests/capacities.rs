//! The limits of catalogs, and the lines of those that wait for room.

use std::collections::{BTreeMap, BTreeSet};

use nephele_engine::{
    CapacityUsage, CloudSpec, Engine, Footprint, Latency, Line, MistakesByCaller, Outcome, Previous, Record,
    Replay, Request, ResourceSpec,
};
use nephele_model::{
    Capacity, CloudError, ErrorClass, InstanceType, Quota, Quotas, ResourceId, SimTime, Stock,
};
use proptest::prelude::*;

use crate::cloud::{Watched, ask, at, engine, id, load_balancer};

/// The instance types, with their processors.
const TYPES: [(&str, u32); 3] = [("s", 1), ("m", 2), ("l", 4)];

fn cloud_id() -> ResourceId {
    ResourceId::cloud(id("m").namespace, "north")
}

/// How much a cloud has room for.
#[derive(Clone, Debug, Default)]
struct Limits {
    quotas: Quotas,
    stock: Vec<Stock>,
}

impl From<Quotas> for Limits {
    fn from(quotas: Quotas) -> Self {
        let stock = Vec::new();
        Self { quotas, stock }
    }
}

impl From<Vec<Stock>> for Limits {
    fn from(stock: Vec<Stock>) -> Self {
        let quotas = Quotas::default();
        Self { quotas, stock }
    }
}

fn processors(max: u32) -> Limits {
    let vcpus = Some(max);
    Limits::from(Quotas {
        vcpus,
        ..Quotas::default()
    })
}

fn instances(max: u32) -> Limits {
    let instances = Some(max);
    Limits::from(Quotas {
        instances,
        ..Quotas::default()
    })
}

fn put(limits: Limits) -> Request {
    let instance_type = |(name, processors): (&str, u32)| InstanceType {
        name: name.into(),
        cpu: processors,
        ..InstanceType::default()
    };
    let instance_types = TYPES.map(instance_type).into();
    Request::PutCloud {
        clock: None,
        leaked: Vec::new(),
        cost: None,
        caller_mistakes: MistakesByCaller::new(),
        id: cloud_id(),
        cloud_spec: Box::new(CloudSpec {
            instance_types,
            quotas: limits.quotas,
            stock: limits.stock,
            ..CloudSpec::default()
        }),
    }
}

fn spec(name: &str, instance_type: &str) -> ResourceSpec {
    ResourceSpec {
        cloud_spec: "north".into(),
        instance_type: Some(instance_type.into()),
        zone: Some(if name < "d" { "a" } else { "b" }.into()),
        deletion: Some(Latency::ZERO),
        ..ResourceSpec::new(id(name))
    }
}

fn capacity(of: Quota) -> Capacity {
    Capacity::CloudQuota {
        cloud_spec: cloud_id(),
        of,
    }
}

fn limited(limits: Limits) -> Watched {
    let mut engine = engine();
    ask(&mut engine, at(0), put(limits)).expect("a catalog is taken");
    engine
}

fn create(engine: &mut Engine, seconds: u64, name: &str, instance_type: &str) -> Result<Outcome, CloudError> {
    ask(engine, at(seconds), Request::Create(spec(name, instance_type)))
}

fn delete(engine: &mut Engine, seconds: u64, name: &str) {
    ask(engine, at(seconds), Request::Delete(id(name))).expect("it is deleted");
    engine.poll(at(seconds));
}

/// Who was told of room so far, in order.
fn told(engine: &Engine) -> Vec<String> {
    let entries = engine.journal().since(0);
    let told = entries.filter_map(|entry| match &entry.record {
        Record::CapacityFreed { waiting, .. } => Some(waiting.name.clone()),
        _ => None,
    });
    told.collect()
}

#[test]
fn quota_of_a_catalog_is_not_that_of_another_and_says_what_it_counts() {
    let quotas = Quotas {
        instances: Some(2),
        vcpus: Some(4),
        load_balancers: Some(1),
    };
    let mut engine = limited(quotas.into());
    assert_eq!(create(&mut engine, 1, "a", "m"), Ok(Outcome::Accepted));
    let refused = create(&mut engine, 1, "b", "l").unwrap_err();
    assert_eq!(
        (refused.category(), refused.class(), refused.to_string()),
        (
            "QuotaExceeded",
            ErrorClass::WaitForChange,
            "quota of 4 vCPUs has no room for 4 more".into()
        )
    );
    delete(&mut engine, 1, "b");
    assert_eq!(create(&mut engine, 1, "c", "s"), Ok(Outcome::Accepted));
    let refused = create(&mut engine, 1, "d", "s").unwrap_err();
    assert_eq!(refused.to_string(), "quota of 2 instances is used up");
    let elsewhere = ResourceSpec {
        cloud_spec: CloudSpec::DEFAULT.into(),
        ..spec("e", "l")
    };
    assert_eq!(
        ask(&mut engine, at(1), Request::Create(elsewhere)),
        Ok(Outcome::Accepted)
    );
    let balancer = |name: &str, cloud_spec: &str| {
        Request::Create(ResourceSpec {
            cloud_spec: cloud_spec.into(),
            ..ResourceSpec::new(load_balancer(name))
        })
    };
    assert_eq!(
        ask(&mut engine, at(1), balancer("x", "north")),
        Ok(Outcome::Accepted)
    );
    let refused = ask(&mut engine, at(1), balancer("y", "north")).unwrap_err();
    assert_eq!(refused.to_string(), "quota of 1 load balancers is used up");
    let usage = |of, limit, taken, waiting| CapacityUsage {
        capacity: capacity(of),
        limit,
        taken,
        waiting,
    };
    assert_eq!(
        engine.usage(&cloud_id()),
        [
            usage(Quota::Instances, 2, 2, 1),
            usage(Quota::Processors, 4, 3, 0),
            usage(Quota::LoadBalancers, 1, 1, 1),
        ]
    );
    // A load balancer moves with its cluster to another catalog, and the next one gets its room.
    assert_eq!(ask(&mut engine, at(2), balancer("x", "")), Ok(Outcome::Accepted));
    assert_eq!(told(&engine), ["y"]);
    assert_eq!(
        ask(&mut engine, at(2), balancer("y", "north")),
        Ok(Outcome::Accepted)
    );
}

#[test]
fn raised_quota_is_told_at_once_and_a_lowered_one_deletes_nothing() {
    let mut engine = limited(instances(1));
    create(&mut engine, 1, "a", "s").unwrap();
    for name in ["b", "c", "d"] {
        create(&mut engine, 1, name, "s").unwrap_err();
    }
    ask(&mut engine, at(2), put(instances(3))).unwrap();
    assert_eq!(told(&engine), ["b", "c"]);
    for name in ["b", "c"] {
        assert_eq!(create(&mut engine, 2, name, "s"), Ok(Outcome::Accepted));
    }
    ask(&mut engine, at(3), put(instances(1))).unwrap();
    assert_eq!(engine.resources().count(), 3);
    assert_eq!(engine.usage(&cloud_id())[0].taken, 3);
    delete(&mut engine, 4, "a");
    delete(&mut engine, 4, "b");
    assert_eq!(told(&engine).len(), 2, "one of one is in use");
    delete(&mut engine, 4, "c");
    assert_eq!(told(&engine), ["b", "c", "d"]);
    ask(&mut engine, at(5), put(Limits::default())).unwrap();
    create(&mut engine, 5, "e", "l").unwrap();
    assert_eq!(engine.usage(&cloud_id()), []);
}

#[test]
fn nothing_overtakes_a_large_instance_that_waits_for_processors() {
    let mut engine = limited(processors(4));
    for name in ["a", "b"] {
        create(&mut engine, 1, name, "m").unwrap();
    }
    create(&mut engine, 2, "large", "l").unwrap_err();
    create(&mut engine, 2, "small", "s").unwrap_err();
    delete(&mut engine, 3, "a");
    assert_eq!(told(&engine), [""; 0], "two are free, and large takes up four");
    let kept = create(&mut engine, 3, "other", "s").unwrap_err();
    assert_eq!(
        kept.to_string(),
        "quota of 4 vCPUs has no room for 1 more: others that asked before wait for it"
    );
    delete(&mut engine, 4, "b");
    assert_eq!(told(&engine), ["large"]);
    create(&mut engine, 4, "other", "s").unwrap_err();
    create(&mut engine, 4, "large", "l").unwrap();
    delete(&mut engine, 5, "large");
    assert_eq!(told(&engine), ["large", "small", "other"]);
}

#[test]
fn who_does_not_fit_into_the_whole_quota_is_passed_and_told_when_it_is_raised() {
    let mut engine = limited(processors(3));
    create(&mut engine, 1, "large", "l").unwrap_err();
    create(&mut engine, 1, "a", "m").unwrap();
    create(&mut engine, 1, "b", "m").unwrap_err();
    delete(&mut engine, 2, "a");
    assert_eq!(told(&engine), ["b"]);
    create(&mut engine, 2, "b", "m").unwrap();
    ask(&mut engine, at(3), put(processors(6))).unwrap();
    assert_eq!(told(&engine), ["b", "large"]);
}

#[test]
fn who_gets_one_room_and_lacks_another_waits_there_with_its_old_number() {
    let quotas = Quotas {
        instances: Some(1),
        vcpus: Some(4),
        load_balancers: None,
    };
    let mut engine = limited(quotas.into());
    create(&mut engine, 1, "a", "l").unwrap();
    create(&mut engine, 1, "large", "l").unwrap_err();
    create(&mut engine, 1, "small", "s").unwrap_err();
    let waiting = |engine: &Engine| {
        engine
            .usage(&cloud_id())
            .iter()
            .map(|usage| usage.waiting)
            .collect::<Vec<_>>()
    };
    assert_eq!(waiting(&engine), [2, 0]);
    ask(
        &mut engine,
        at(2),
        put(Limits::from(Quotas {
            instances: Some(3),
            ..quotas
        })),
    )
    .unwrap();
    assert_eq!(told(&engine), ["large", "small"]);
    // Small asks first, and would have to wait if there were a vCPU: it comes after large.
    create(&mut engine, 2, "small", "s").unwrap_err();
    create(&mut engine, 2, "large", "l").unwrap_err();
    assert_eq!(waiting(&engine), [0, 2]);
    delete(&mut engine, 3, "a");
    assert_eq!(told(&engine)[2..], ["large"]);
}

#[test]
fn what_was_there_before_counts_and_is_never_refused() {
    let mut engine = limited(processors(4));
    let footprint = Footprint {
        cloud_spec: "north".into(),
        processors: 3,
        ..Footprint::default()
    };
    ask(
        &mut engine,
        at(1),
        Request::Reserve {
            id: id("r"),
            footprint,
        },
    )
    .unwrap();
    create(&mut engine, 1, "a", "m").unwrap_err();
    for name in ["x", "y"] {
        let adopt = Request::Adopt {
            spec: spec(name, "l"),
            previous: Box::new(Previous {
                created: at(0),
                ..Previous::default()
            }),
        };
        assert_eq!(ask(&mut engine, at(1), adopt), Ok(Outcome::Accepted));
    }
    assert_eq!(engine.taken(&capacity(Quota::Processors)), 11);
    // A reserved one returns, however full the cloud is.
    assert_eq!(create(&mut engine, 2, "r", "m"), Ok(Outcome::Accepted));
    assert_eq!(engine.taken(&capacity(Quota::Processors)), 10);
    for name in ["x", "y"] {
        delete(&mut engine, 3, name);
    }
    assert_eq!(told(&engine), ["a"]);
}

#[test]
fn stock_is_of_a_type_and_a_zone_and_an_instance_has_to_fit_into_each_entry() {
    let all = vec![
        stock(Some("l"), Some("a"), 1),
        stock(Some("l"), None, 2),
        stock(None, Some("b"), 2),
    ];
    let mut engine = limited(all.clone().into());
    let mut ask = |name: &str, instance_type: &str| {
        create(&mut engine, 1, name, instance_type)
            .map_err(|refused| (refused.category(), refused.class(), refused.to_string()))
    };
    let missing = |what: &str| {
        Err((
            "InsufficientCapacity",
            ErrorClass::WaitForChange,
            format!("stock of {what} is used up"),
        ))
    };
    // Names before "d" are in zone a, the others in zone b.
    assert_eq!(ask("a", "l"), Ok(Outcome::Accepted));
    assert_eq!(ask("b", "l"), missing("1 instances of type l in zone a"));
    assert_eq!(ask("c", "m"), Ok(Outcome::Accepted));
    assert_eq!(ask("d", "l"), Ok(Outcome::Accepted));
    assert_eq!(ask("e", "l"), missing("2 instances of type l"));
    assert_eq!(ask("f", "s"), Ok(Outcome::Accepted));
    assert_eq!(ask("g", "s"), missing("2 instances in zone b"));
    let usage = |engine: &Engine| {
        let usage = engine.usage(&cloud_id());
        usage
            .into_iter()
            .map(|usage| (usage.limit, usage.taken, usage.waiting))
            .collect::<Vec<_>>()
    };
    assert_eq!(usage(&engine), [(1, 1, 1), (2, 2, 1), (2, 2, 1)]);
    delete(&mut engine, 2, "d");
    assert_eq!(told(&engine), ["e", "g"]);
    // Without an entry there is no limit.
    ask_all(&mut engine, &all[..1]);
    assert_eq!(told(&engine), ["e", "g"]);
    ask_all(&mut engine, &[]);
    assert_eq!(told(&engine), ["e", "g", "b"]);
}

fn ask_all(engine: &mut Engine, stock: &[Stock]) {
    ask(engine, at(3), put(stock.to_vec().into())).expect("a catalog is taken");
}

/// An account that puts its first catalog has made instances before. They count.
#[test]
fn default_catalog_has_the_instances_that_were_made_before_it() {
    let mut engine = engine();
    let spec = |name: &str| ResourceSpec {
        cloud_spec: CloudSpec::DEFAULT.into(),
        ..ResourceSpec::new(id(name))
    };
    ask(&mut engine, at(0), Request::Create(spec("a"))).unwrap();
    let default = ResourceId::cloud(id("m").namespace, CloudSpec::DEFAULT);
    let cloud_spec = Box::new(CloudSpec {
        quotas: instances(1).quotas,
        ..CloudSpec::default()
    });
    ask(
        &mut engine,
        at(1),
        Request::PutCloud {
            id: default.clone(),
            cloud_spec,
            clock: None,
            leaked: Vec::new(),
            cost: None,
            caller_mistakes: MistakesByCaller::new(),
        },
    )
    .unwrap();
    ask(&mut engine, at(1), Request::Create(spec("b"))).unwrap_err();
    // Without the catalog there is no limit.
    ask(&mut engine, at(2), Request::Delete(default)).unwrap();
    assert_eq!(told(&engine), ["b"]);
    assert_eq!(
        ask(&mut engine, at(2), Request::Create(spec("b"))),
        Ok(Outcome::Accepted)
    );
}

#[derive(Clone, Debug)]
enum Step {
    Create(&'static str, &'static str),
    Delete(&'static str),
    Reserve(&'static str, u32),
    Put(Limits),
    Pass(u64),
}

const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

fn stock(instance_type: Option<&str>, zone: Option<&str>, count: u32) -> Stock {
    Stock {
        instance_type: instance_type.unwrap_or_default().to_owned(),
        zone: zone.unwrap_or_default().to_owned(),
        count,
    }
}

fn limits() -> impl Strategy<Value = Limits> {
    let limit = |max| prop::option::weighted(0.7, 0..=max);
    let of = (
        prop::option::of(0..3usize),
        prop::option::of(prop::bool::ANY),
        0..4u32,
    );
    let stock = of.prop_map(|(instance_type, in_a, count)| {
        stock(
            instance_type.map(|which| TYPES[which].0),
            in_a.map(|in_a| if in_a { "a" } else { "b" }),
            count,
        )
    });
    (limit(4u32), limit(9u32), prop::collection::vec(stock, 0..3)).prop_map(|(instances, vcpus, stock)| {
        Limits {
            quotas: Quotas {
                instances,
                vcpus,
                load_balancers: None,
            },
            stock,
        }
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = || prop::sample::select(NAMES.to_vec());
    let step = prop_oneof![
        8 => (name(), 0..3usize).prop_map(|(name, which)| Step::Create(name, TYPES[which].0)),
        4 => name().prop_map(Step::Delete),
        1 => (name(), 0..5u32).prop_map(|(name, processors)| Step::Reserve(name, processors)),
        2 => limits().prop_map(Step::Put),
        2 => (0u64..15).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..50)
}

/// A cloud whose clients ask once, and again when they are told. Those in `deaf` never ask again.
struct Clients {
    engine: Watched,
    now: SimTime,
    wanted: BTreeMap<ResourceId, ResourceSpec>,
    /// Those that were refused, with the number of the step, until they are created or give up.
    refused: BTreeMap<ResourceId, usize>,
    deaf: BTreeSet<String>,
    read: u64,
}

impl Clients {
    fn request(&mut self, request: &Request, step: usize) -> Result<(), TestCaseError> {
        let limits = self.engine.usage(&cloud_id());
        let before = self.engine.taken(&capacity(Quota::Processors));
        let is_reserved = self.engine.reserved().any(|id| id == request.target());
        let answer = ask(&mut self.engine, self.now, request.clone());
        if is_reserved {
            // No limit refuses it.
            self.refused.remove(request.target());
        } else if let Request::Create(spec) = request {
            let limit = limits
                .iter()
                .find(|usage| usage.capacity == capacity(Quota::Processors));
            let is_new = !matches!(answer, Ok(Outcome::AlreadyDone))
                && before != self.engine.taken(&capacity(Quota::Processors));
            match answer {
                Ok(_) if is_new => {
                    // None that fits was refused earlier and was not told since. The room of those who were told is
                    // still free.
                    let own = self.refused.remove(&spec.id).unwrap_or(step);
                    let state = self.engine.state();
                    let mut kept = 0;
                    for waiter in state
                        .waiting
                        .iter()
                        .filter(|waiter| waiter.capacity == capacity(Quota::Processors))
                    {
                        let fits = limit.is_some_and(|usage| waiter.amount <= usage.limit);
                        let is_later = self
                            .refused
                            .get(&waiter.id)
                            .is_some_and(|refused| *refused >= own);
                        let was_told = waiter.grant_ends.is_some();
                        prop_assert!(!fits || was_told || is_later, "{} passed {}", spec.id, waiter.id);
                        kept += if was_told { u64::from(waiter.amount) } else { 0 };
                    }
                    let taken = self.engine.taken(&capacity(Quota::Processors)) + kept;
                    let limit = limit.map_or(u64::MAX, |usage| usage.limit.into());
                    prop_assert!(kept == 0 || taken <= limit, "{} took what is kept", spec.id);
                    for usage in limits {
                        let taken = self.engine.taken(&usage.capacity);
                        let fits = taken <= usage.taken || taken <= u64::from(usage.limit);
                        prop_assert!(fits, "{usage:?} {taken}");
                    }
                }
                Err(CloudError::NoCapacity { .. }) => {
                    self.refused.entry(spec.id.clone()).or_insert(step);
                }
                _ => {}
            }
        }
        self.engine.poll(self.now);
        self.count()
    }

    /// Whoever is told asks.
    fn settle(&mut self, step: usize) -> Result<(), TestCaseError> {
        loop {
            let entries: Vec<_> = self.engine.journal().since(self.read).cloned().collect();
            let Some(last) = entries.last() else { return Ok(()) };
            self.read = last.sequence + 1;
            for entry in entries {
                match &entry.record {
                    Record::CapacityFreed { waiting, .. } if !self.deaf.contains(&waiting.name) => {
                        if let Some(spec) = self.wanted.get(waiting).cloned() {
                            self.request(&Request::Create(spec), step)?;
                        }
                    }
                    Record::GrantEnded { waiting, .. } => drop(self.refused.remove(waiting)),
                    _ => {}
                }
            }
        }
    }

    fn pass(&mut self, until: SimTime, step: usize) -> Result<(), TestCaseError> {
        while let Some(due) = self.engine.next_deadline().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.engine.poll(self.now);
            self.settle(step)?;
        }
        self.now = until;
        Ok(())
    }

    /// What is counted is what is there.
    fn count(&self) -> Result<(), TestCaseError> {
        let processors = |spec: &ResourceSpec| {
            let hardware = &self.engine.get(&spec.id).expect("it is there").hardware;
            hardware.capacity["cpu"].parse::<u64>().expect("a number")
        };
        let there: Vec<_> = self.engine.resources().map(|resource| &resource.spec).collect();
        let state = self.engine.state();
        let reserved = state
            .reserved
            .iter()
            .map(|reserved| u64::from(reserved.footprint.processors));
        let sum = there
            .iter()
            .map(|spec| processors(spec))
            .chain(reserved)
            .sum::<u64>();
        prop_assert_eq!(self.engine.taken(&capacity(Quota::Processors)), sum);
        let number = there.len() + state.reserved.len();
        prop_assert_eq!(self.engine.taken(&capacity(Quota::Instances)), number as u64);
        // A cloud in this state is in the same state.
        prop_assert_eq!(
            Engine::from_state(state.clone()).map(|engine| engine.state()),
            Ok(state)
        );
        Ok(())
    }
}

proptest! {
    /// Whatever is created, deleted and limited: no limit is exceeded by a creation, none is passed in the line for
    /// processors, and all come up in the end when the limits are lifted. The journal replays to the same.
    #[test]
    fn limits_are_kept_in_order_and_whoever_waits_comes_up_in_the_end(
        steps in steps(), deaf in prop::collection::btree_set(prop::sample::select(NAMES.to_vec()), 0..2),
    ) {
        let deaf = deaf.into_iter().map(str::to_owned).collect();
        let engine = limited(Limits::default());
        let mut lines = vec![Line::State(engine.state())];
        let mut cursor = engine.journal().end();
        let mut clients = Clients {
            engine, now: at(0), wanted: BTreeMap::new(), refused: BTreeMap::new(), deaf, read: 1,
        };
        let count = steps.len();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Create(name, instance_type) => {
                    let spec = clients.wanted.entry(id(name)).or_insert_with(|| spec(name, instance_type)).clone();
                    clients.request(&Request::Create(spec), number)?;
                }
                Step::Delete(name) => {
                    clients.wanted.remove(&id(name));
                    clients.refused.remove(&id(name));
                    clients.request(&Request::Delete(id(name)), number)?;
                }
                Step::Reserve(name, processors) => {
                    let footprint = Footprint { cloud_spec: "north".into(), processors, ..Footprint::default() };
                    clients.refused.remove(&id(name));
                    clients.request(&Request::Reserve { id: id(name), footprint }, number)?;
                }
                Step::Put(limits) => clients.request(&put(limits), number)?,
                Step::Pass(seconds) => clients.pass(clients.now + std::time::Duration::from_secs(seconds), number)?,
            }
            clients.settle(number)?;
            // The first in each line does not fit, or it was told and is deaf.
            for usage in clients.engine.usage(&cloud_id()) {
                let is_full = usage.taken >= u64::from(usage.limit);
                let waits = |waiter: &nephele_engine::Waiter| waiter.capacity == usage.capacity && waiter.grant_ends.is_none();
                let state = clients.engine.state();
                let told: u64 = state.waiting.iter().filter(|waiter| waiter.capacity == usage.capacity && waiter.grant_ends.is_some())
                    .map(|waiter| u64::from(waiter.amount)).sum();
                let first = state.waiting.iter().find(|waiter| waits(waiter) && waiter.amount <= usage.limit);
                let fits = first.is_some_and(|waiter| usage.taken + told + u64::from(waiter.amount) <= u64::from(usage.limit));
                prop_assert!(is_full || !fits, "{usage:?} {first:?}");
            }
        }
        clients.request(&put(Limits::default()), count)?;
        clients.settle(count)?;
        clients.pass(clients.now + std::time::Duration::from_secs(60), count)?;
        let reserved: BTreeSet<_> = clients.engine.reserved().cloned().collect();
        for id in clients.wanted.keys().filter(|id| !reserved.contains(id) && !clients.deaf.contains(&id.name)) {
            prop_assert!(clients.engine.get(id).is_some(), "{id} still waits");
        }
        prop_assert_eq!(clients.engine.waiting().count(), 0);

        let mut batch = Vec::with_capacity(nephele_engine::Journal::CAPACITY);
        clients.engine.journal().read(&mut cursor, &mut batch).expect("tests make fewer records");
        lines.extend(batch.iter().map(|entry| Line::Record(nephele_engine::Entry::clone(entry))));
        lines.push(Line::State(clients.engine.state()));
        let mut replay = Replay::default();
        for line in &lines {
            let line = serde_json::from_str(&serde_json::to_string(line).unwrap()).unwrap();
            prop_assert_eq!(replay.play(&line), Ok(()));
        }
        prop_assert_eq!(replay.gaps(), 0);
    }
}
