//! What came of a form. Pure.

use crate::objects::Key;

/// What an act has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Created(Key),
    Deleted(Key),
    Set(Key),
    /// A Scenario is deleted.
    Stopped(Key),
    /// A Scenario is created, or as it was before.
    Runs(Key),
    /// What a scenario of the library needs is created.
    Made(Key),
    /// The recording is changed.
    Recorded(Change),
}

/// A change of the recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Begin,
    End,
    Forget,
}
