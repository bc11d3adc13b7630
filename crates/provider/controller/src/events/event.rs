//! A message about an object for its users.

use k8s_openapi::api::core::v1::ObjectReference;

/// The type of an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Nothing is wrong.
    Normal,
    /// A person should look at the object.
    Warning,
}

impl Severity {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// A message about an object for its users.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The object that it names.
    pub regarding: ObjectReference,
    /// The type of the Event.
    pub severity: Severity,
    /// Why, as one word in PascalCase.
    pub reason: &'static str,
    /// What was done or attempted, as one word in PascalCase.
    pub action: &'static str,
    /// The message for people. Cut at 1 KiB.
    pub note: String,
}
