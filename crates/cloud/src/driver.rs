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

    pub(crate) fn apply(&self, now: SimTime, operation: Operation) -> Result<Outcome, Rejected> {
        let outcome = self.engine.lock().apply(now, operation)?;
        if outcome == Outcome::Accepted {
            self.moved.notify_one();
        }
        Ok(outcome)
    }

    /// Lets happen what is due, and hands each event to `on_event` in order. The lock is held meanwhile, so that two
    /// callers cannot hand events over out of order; `on_event` must not ask the engine.
    pub(crate) fn poll(&self, now: SimTime, mut on_event: impl FnMut(&Event)) {
        let mut engine = self.engine.lock();
        for event in engine.poll(now) {
            on_event(&event);
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<SimTime> {
        self.engine.lock().next_deadline()
    }

    /// Reads a resource.
    pub(crate) fn look<T>(&self, id: &ResourceId, read: impl FnOnce(&Resource) -> T) -> Option<T> {
        self.engine.lock().get(id).map(read)
    }
}
