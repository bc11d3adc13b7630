//! How long operations of the cloud took, as its journal tells. The engine says it of everything that happens to instances.
//! Load balancers take no time, but a fault may delay their creation.

use std::{collections::BTreeMap, time::Duration};

use nephele_engine::{Engine, Entry, Event, EventKind, Operation, Outcome, Record, Request};
use nephele_model::{ResourceId, ResourceKind, SimTime, Stage, Verb};

/// How long an operation took, or how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OperationTime {
    pub(crate) verb: Verb,
    /// The stage that was reached. None if nothing is left to be done.
    pub(crate) stage: Option<Stage>,
    pub(crate) time: Duration,
}

/// Reads how long operations took from the records of the journal, each in its turn.
#[derive(Debug, Default)]
pub(crate) struct OperationTimes {
    /// When the creation of each load balancer was first delayed that was not carried out yet.
    delayed: BTreeMap<ResourceId, SimTime>,
}

/// How many delayed creations are remembered: 200 KB, and as many as clusters that a manager is made for. Of more, the
/// oldest one counts as if it had not been delayed. Its caller may have given it up.
const DELAYED_MAX: usize = 1000;

impl OperationTimes {
    /// How long operations took that a record tells of. `is_new` says that the record is the creation of a load balancer
    /// which did not exist before, see [`creates_load_balancer`].
    pub(crate) fn read(&mut self, record: &Record, is_new: bool) -> Vec<OperationTime> {
        match record {
            Record::Event(event) => of_event(event),
            Record::Operation {
                operation, outcome, ..
            } => self
                .of_load_balancer(operation, outcome, is_new)
                .into_iter()
                .collect(),
            _ => Vec::new(),
        }
    }

    fn of_load_balancer(
        &mut self,
        operation: &Operation,
        outcome: &Outcome,
        is_new: bool,
    ) -> Option<OperationTime> {
        let Request::Create(spec) = &operation.request else {
            return None;
        };
        if spec.id.kind != ResourceKind::LoadBalancer {
            return None;
        }
        match outcome {
            Outcome::Delayed { .. } => {
                if self.delayed.len() == DELAYED_MAX && !self.delayed.contains_key(&spec.id) {
                    let oldest = self.delayed.iter().min_by_key(|(_, at)| **at);
                    if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                        self.delayed.remove(&oldest);
                    }
                }
                self.delayed.entry(spec.id.clone()).or_insert(operation.at);
                None
            }
            Outcome::Accepted if is_new => {
                let asked = self.delayed.remove(&spec.id).unwrap_or(operation.at);
                let time = operation.at.since(asked);
                Some(OperationTime {
                    verb: Verb::CreateLoadBalancer,
                    stage: None,
                    time,
                })
            }
            Outcome::Accepted | Outcome::AlreadyDone | Outcome::Refused(_) => None,
        }
    }
}

fn of_event(event: &Event) -> Vec<OperationTime> {
    let Some(took) = event.took else { return Vec::new() };
    let (verb, stage) = match (&event.kind, event.id.kind) {
        (EventKind::StageReached(stage), ResourceKind::Instance) => {
            (Verb::CreateInstance, Stage::of_name(stage))
        }
        (EventKind::Deleted, ResourceKind::Instance) => (Verb::DeleteInstance, None),
        (EventKind::Deleted, ResourceKind::LoadBalancer) => (Verb::DeleteLoadBalancer, None),
        _ => return Vec::new(),
    };
    let time = |stage| OperationTime {
        verb,
        stage,
        time: took.time,
    };
    let reached = stage.map(|stage| time(Some(stage)));
    reached
        .into_iter()
        .chain(took.is_all.then(|| time(None)))
        .collect()
}

/// Whether an entry of the journal is the creation of a load balancer that exists since then. The same operation also
/// changes the labels of one that exists.
pub(crate) fn creates_load_balancer(entry: &Entry, engine: &Engine) -> bool {
    let Record::Operation {
        operation,
        outcome: Outcome::Accepted,
        ..
    } = &entry.record
    else {
        return false;
    };
    let Request::Create(spec) = &operation.request else {
        return false;
    };
    spec.id.kind == ResourceKind::LoadBalancer
        && engine
            .get(&spec.id)
            .is_some_and(|made| made.created == operation.at)
}

#[cfg(test)]
mod tests {
    use nephele_engine::{
        ClockSetting, CloudSpec, Config, Effect, Fault, Latencies, Latency, MistakesByCaller, Rate,
        ResourceSpec, Seed, StageSpec,
    };
    use nephele_model::{Budget, ClusterId, FaultRecord, MachineId, Matches, Odds};

    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn at(second: u64) -> SimTime {
        SimTime::from_millis(second * 1000)
    }

    fn cluster() -> ClusterId {
        ClusterId {
            namespace: "default".into(),
            name: "demo".into(),
        }
    }

    fn ask(engine: &mut Engine, second: u64, request: Request) -> Outcome {
        engine.apply(Operation {
            caller: "test".into(),
            request,
            at: at(second),
        })
    }

    /// Everything that the journal tells.
    fn all(engine: &Engine) -> Vec<OperationTime> {
        let mut times = OperationTimes::default();
        let read =
            |entry: &std::sync::Arc<Entry>| times.read(&entry.record, creates_load_balancer(entry, engine));
        engine.journal().since(1).flat_map(read).collect()
    }

    /// A cloud whose clock runs ten times as fast, in which a stage and a deletion take a minute.
    fn fast() -> Engine {
        let mut engine = Engine::new(Config::default(), Seed::new("amber-otter-lamp"));
        let minute = || Latency::Fixed(seconds(60));
        let stages = Stage::ALL.map(|stage| (stage.name(), minute())).into();
        let latencies = Latencies {
            stages,
            deletion: Some(minute()),
        };
        let clock = ClockSetting {
            rate: Rate::from_millionths(10_000_000),
            ..ClockSetting::default()
        };
        let put = Request::PutCloud {
            id: ResourceId::cloud("default", "north"),
            cloud_spec: Box::new(CloudSpec {
                latencies,
                clock,
                ..CloudSpec::default()
            }),
            clock: None,
            leaked: vec![],
            cost: None,
            caller_mistakes: MistakesByCaller::new(),
        };
        ask(&mut engine, 0, put);
        engine
    }

    #[test]
    fn stages_and_deletions_take_seconds_of_the_cloud() {
        let mut engine = fast();
        let id = MachineId {
            cluster: cluster(),
            name: "m".into(),
        }
        .resource();
        let stage = |stage: &Stage| StageSpec {
            name: stage.name(),
            after: stage.after().iter().map(|stage| stage.name()).collect(),
            latency: None,
            failure: Odds::NEVER,
        };
        let stages = Stage::ALL.iter().map(stage).collect();
        let spec = ResourceSpec {
            cloud_spec: "north".into(),
            stages,
            deletion: None,
            ..ResourceSpec::new(id.clone())
        };
        ask(&mut engine, 1, Request::Create(spec));
        engine.poll(at(19));
        ask(&mut engine, 20, Request::Delete(id));
        engine.poll(at(26));
        let created = |stage, time| OperationTime {
            verb: Verb::CreateInstance,
            stage,
            time: seconds(time),
        };
        let deleted = OperationTime {
            verb: Verb::DeleteInstance,
            stage: None,
            time: seconds(60),
        };
        let [vm, node, etcd, api_server] = Stage::ALL.map(Some);
        let expected = [
            created(vm, 60),
            created(node, 120),
            created(etcd, 180),
            created(api_server, 180),
            created(None, 180),
            deleted,
        ];
        assert_eq!(all(&engine), expected, "18 s and 6 s have passed");
    }

    #[test]
    fn load_balancer_takes_as_long_as_its_creation_is_delayed() {
        let mut engine = fast();
        let late = Fault {
            matches: Matches::default(),
            effect: Effect::Delay(Latency::Fixed(seconds(5))),
            budget: Budget {
                count: Some(1),
                ..Budget::default()
            },
        };
        let put = Request::PutFault {
            id: ResourceId::fault("default", "f"),
            fault: Box::new(late),
            record: FaultRecord::default(),
            affected_ids: vec![],
            notices: vec![],
            is_cut: false,
            skipped: Vec::new(),
            leaked: vec![],
            paused: false,
        };
        ask(&mut engine, 0, put);
        let create = |labels: &[(&str, &str)]| {
            let labels = labels
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect();
            let spec = ResourceSpec::new(cluster().load_balancer());
            Request::Create(ResourceSpec {
                labels,
                cloud_spec: "north".into(),
                ..spec
            })
        };
        for second in [1, 3] {
            assert!(matches!(
                ask(&mut engine, second, create(&[])),
                Outcome::Delayed { .. }
            ));
        }
        assert_eq!(ask(&mut engine, 7, create(&[])), Outcome::Accepted);
        // Its labels change, which is no creation.
        assert_eq!(ask(&mut engine, 8, create(&[("a", "b")])), Outcome::Accepted);
        let balancer = |verb, time| OperationTime {
            verb,
            stage: None,
            time: seconds(time),
        };
        assert_eq!(all(&engine), [balancer(Verb::CreateLoadBalancer, 6)]);
        ask(&mut engine, 9, Request::Delete(cluster().load_balancer()));
        engine.poll(at(9));
        // Of one that is gone, it is not known any more whether it was new.
        assert_eq!(all(&engine), [balancer(Verb::DeleteLoadBalancer, 0)]);
    }

    #[test]
    fn as_many_delays_are_remembered_as_there_is_room_for() {
        let mut times = OperationTimes::default();
        let record = |number: usize, outcome: Outcome| {
            let id = ClusterId {
                name: number.to_string(),
                ..cluster()
            }
            .load_balancer();
            let request = Request::Create(ResourceSpec::new(id));
            let operation = Box::new(Operation {
                caller: "test".into(),
                request,
                at: at(number as u64),
            });
            Record::Operation {
                operation,
                outcome,
                faults: vec![],
                is_hit: false,
            }
        };
        for number in 0..=DELAYED_MAX {
            times.read(&record(number, Outcome::Delayed { until: at(0) }), false);
        }
        assert_eq!(times.delayed.len(), DELAYED_MAX);
        let kept = times.delayed.values().min().copied();
        assert_eq!(kept, Some(at(1)), "the oldest one is forgotten");
    }
}
