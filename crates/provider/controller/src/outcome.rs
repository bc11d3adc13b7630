use std::time::Duration;

/// The result of a reconcile that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The object is as it should be; the next change triggers another reconcile.
    Done,
    /// The object waits for something else, named by a fixed word that becomes a metric label. A watch or another
    /// trigger reports the change, so no reconcile is scheduled.
    WaitingOn(&'static str),
    /// Reconcile again after this time. Zero means at once.
    After(Duration),
}

/// When to reconcile an object again after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Try again, after a longer time with each failure in a row.
    BackOff,
    /// A retry is useless: the object, or an object that it refers to, has to change first.
    WaitForChange,
    /// The cause, such as a stale read or a full quota, is expected to be gone after this time. Logged at debug level
    /// only, without an Event.
    After(Duration),
}

/// An error of a reconcile function.
pub trait ReconcileError: std::error::Error + Send + Sync + 'static {
    /// A category from a fixed set, for metrics and Events. Never a name or a message.
    fn category(&self) -> &'static str;
    /// Whether, and when, to try again.
    fn retry(&self) -> Retry;
}
