//! The engine in time: asked under a lock, polled when something is due.

use nephele_engine::{
    Config, Engine, Event, Operation, Outcome, Rejected, Resource, ResourceId, Seed, SimTime,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The engine and who waits for it. The lock is held for single calls only.
pub(crate) struct Driver {
    engine: Mutex<Engine>,
    /// Told when the next deadline may have moved.
    pub(crate) moved: Notify,
}

impl Driver {
    pub(crate) fn new(config: Config, seed: &str) -> Self {
        Self { engine: Mutex::new(Engine::new(config, Seed::new(seed))), moved: Notify::new() }
    }

    /// Asks for a change: calls `on_accepted` with the resource when it was one, then hands over what is due, as
    /// [`Driver::poll`] does.
    ///
    /// All under one lock: an operation lets happen what is due before it, and whoever looks at the engine must not see
    /// what was not handed over yet.
    pub(crate) fn apply(
        &self,
        now: SimTime,
        operation: Operation,
        on_accepted: impl FnOnce(&Resource),
        on_event: impl FnMut(&Event),
    ) -> Result<Outcome, Rejected> {
        let mut engine = self.engine.lock();
        let id = operation.command.resource().clone();
        let outcome = engine.apply(now, operation);
        if outcome == Ok(Outcome::Accepted) {
            if let Some(resource) = engine.get(&id) {
                on_accepted(resource);
            }
            self.moved.notify_one();
        }
        engine.poll(now).iter().for_each(on_event);
        outcome
    }

    /// Lets happen what is due, and hands each event to `on_event` in order. The lock is held meanwhile, so that two
    /// callers cannot hand events over out of order; `on_event` must not ask the engine.
    pub(crate) fn poll(&self, now: SimTime, on_event: impl FnMut(&Event)) {
        self.engine.lock().poll(now).iter().for_each(on_event);
    }

    pub(crate) fn next_deadline(&self) -> Option<SimTime> {
        self.engine.lock().next_deadline()
    }

    /// Reads a resource.
    pub(crate) fn look<T>(&self, id: &ResourceId, read: impl FnOnce(&Resource) -> T) -> Option<T> {
        self.engine.lock().get(id).map(read)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use nephele_engine::{
        Command, EventKind, Latency, Odds, ResourceKind, ResourceSpec, StageSpec, StageState,
    };

    use super::*;

    fn id(name: &str) -> ResourceId {
        let (account, group) = ("default".to_owned(), "demo".to_owned());
        ResourceId { account, group, kind: ResourceKind::Instance, name: name.to_owned() }
    }

    fn create(name: &str, seconds: u64) -> Operation {
        let latency = Latency::Fixed(std::time::Duration::from_secs(seconds));
        let stage = StageSpec { name: "vm".into(), after: vec![], latency, failure: Odds::NEVER };
        let spec = ResourceSpec {
            id: id(name),
            zone: None,
            instance_type: None,
            owner: None,
            labels: BTreeMap::new(),
            stages: vec![stage],
            deletion: Latency::ZERO,
        };
        Operation { caller: "test".to_owned(), command: Command::Create(spec) }
    }

    #[test]
    fn what_an_operation_lets_happen_is_handed_over_before_anyone_can_see_it() {
        let driver = Driver::new(Config::default(), "seed");
        let at = |seconds: u64| SimTime::from_millis(seconds * 1000);
        let mut told = Vec::new();
        let mut apply = |now, operation| {
            let mut accepted = false;
            let outcome = driver.apply(
                now,
                operation,
                |_| accepted = true,
                |event| told.push((event.id.name.clone(), event.kind.clone())),
            );
            assert_eq!(accepted, outcome == Ok(Outcome::Accepted));
            outcome
        };
        apply(at(0), create("slow", 5)).expect("accepted");
        // Another operation, whose turn comes when the first machine's stage is due: an accepted one or a repeated one.
        for operation in [create("fast", 0), create("fast", 0)] {
            apply(at(9), operation).expect("no refusal");
        }
        let reached = |name: &str| (name.to_owned(), EventKind::StageReached("vm".into()));
        assert_eq!(told, [reached("slow"), reached("fast")]);
        let state = driver.look(&id("slow"), |resource| resource.stage(&"vm".into()).cloned());
        assert_eq!(state, Some(Some(StageState::Reached { at: at(5) })));
    }
}
