//! Runs the engine: applies operations under a lock, and polls when something is due.

use std::time::Instant;

use nephele_engine::{Config, Cursor, Engine, Operation, Outcome, Seed};
use nephele_model::SimTime;
use parking_lot::{Mutex, MutexGuard};
use prometheus::Histogram;
use tokio::sync::{Notify, watch};

/// How many deadlines pass under one lock. Each takes some 6 µs (a draw, a few map entries, a record), so the lock is
/// held for a fifth of a millisecond at a time, however many machines boot at once.
const DEADLINES_MAX: usize = 32;

/// The engine, and the notifications about it. The lock is held for single calls that run nothing but the engine.
/// Everybody else reads the journal to learn what happened.
pub(crate) struct Driver {
    engine: Mutex<Engine>,
    /// Notified when the next deadline may have moved.
    pub(crate) moved: Notify,
    /// Notified when the journal has grown.
    appended: watch::Sender<()>,
    /// How long the lock was held.
    held_seconds: Histogram,
}

impl Driver {
    pub(crate) fn new(config: Config, seed: &str, held_seconds: Histogram) -> Self {
        let engine = Mutex::new(Engine::new(config, Seed::new(seed)));
        Self {
            engine,
            moved: Notify::new(),
            appended: watch::Sender::new(()),
            held_seconds,
        }
    }

    /// Applies an operation, and lets happen what is due by its time, before and after it.
    pub(crate) fn apply(&self, operation: Operation) -> Outcome {
        let now = operation.at;
        let is_read = operation.request.is_read();
        // Polls in small parts first, so that the operation itself finds little left to do.
        self.poll(now);
        let (outcome, has_moved) = self.change(|engine| {
            let before = engine.next_deadline();
            let outcome = engine.apply(operation);
            (outcome, engine.next_deadline() != before)
        });
        // A refused creation may make way for another one, whose turn ends some time.
        if has_moved {
            self.moved.notify_one();
        }
        if outcome == Outcome::Accepted && !is_read {
            self.poll(now);
        }
        outcome
    }

    /// Lets happen what is due.
    pub(crate) fn poll(&self, now: SimTime) {
        while self.change(|engine| engine.poll_some(now, DEADLINES_MAX)) {}
    }

    /// Changes the engine, and notifies the readers of the journal if it has grown.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Engine) -> T) -> T {
        let (result, grew) = {
            let mut engine = self.lock();
            let engine = engine.engine();
            let end: Cursor = engine.journal().end();
            let result = change(engine);
            (result, engine.journal().end() != end)
        };
        if grew {
            self.appended.send_replace(());
        }
        result
    }

    /// Notifies when the journal grows from now on.
    pub(crate) fn appended(&self) -> watch::Receiver<()> {
        self.appended.subscribe()
    }

    /// Reads the engine.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Engine) -> T) -> T {
        look(self.lock().engine())
    }

    fn lock(&self) -> Held<'_> {
        let engine = self.engine.lock();
        Held {
            engine: Some(engine),
            since: Instant::now(),
            seconds: &self.held_seconds,
        }
    }
}

/// The lock while it is held. Records how long it was held after it is released.
struct Held<'a> {
    engine: Option<MutexGuard<'a, Engine>>,
    since: Instant,
    seconds: &'a Histogram,
}

impl Held<'_> {
    fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("it is held until it is dropped")
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let held = self.since.elapsed();
        drop(self.engine.take());
        self.seconds.observe(held.as_secs_f64());
    }
}
