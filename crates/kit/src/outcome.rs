use std::time::Duration;

/// How a reconcile ended when nothing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The object is as it should be; the next change brings it back.
    Done,
    /// It cannot go on before something else happens, named by a fixed word (it becomes a metric label). That
    /// something has a watch or a trigger of its own, so nothing is scheduled.
    WaitingOn(&'static str),
    /// Look again after this time: the one thing missing is time itself. Zero means at once.
    After(Duration),
}

/// What to do about an object whose reconcile failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Try again, later each time it fails in a row.
    BackOff,
    /// Trying again changes nothing: the object or what it refers to has to change first.
    WaitForChange,
    /// Expected to pass after this time, as a stale read or a full quota does. Logged at debug level only and
    /// without an Event.
    After(Duration),
}

/// What a reconcile error answers besides its message.
pub trait ReconcileError: std::error::Error + Send + Sync + 'static {
    /// A word from a closed set, for metrics and Events. Never a name or a message.
    fn category(&self) -> &'static str;
    /// Whether, and when, to try again.
    fn retry(&self) -> Retry;
}
