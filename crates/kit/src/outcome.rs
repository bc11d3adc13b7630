use std::time::Duration;

/// How a reconcile ended when nothing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The object is as it should be; the next change triggers another reconcile.
    Done,
    /// It waits for something else, named by a fixed word that becomes a metric label. That has a watch or a
    /// trigger of its own, so nothing is scheduled.
    WaitingOn(&'static str),
    /// Reconcile again after this time: only time is missing. Zero means at once.
    After(Duration),
}

/// What to do about an object whose reconcile failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Try again, after a longer time with each failure in a row.
    BackOff,
    /// Trying again changes nothing: the object, or one it refers to, has to change first.
    WaitForChange,
    /// Expected to pass after this time, like a stale read or a full quota. Logged at debug level only, without an
    /// Event.
    After(Duration),
}

/// What a reconcile error says besides its message.
pub trait ReconcileError: std::error::Error + Send + Sync + 'static {
    /// A category from a fixed set, for metrics and Events. Never a name or a message.
    fn category(&self) -> &'static str;
    /// Whether, and when, to try again.
    fn retry(&self) -> Retry;
}
