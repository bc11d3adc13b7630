//! What ties a Machine to its Node.

use std::fmt;

/// The provider id of a simulated machine: `in-memory://<name>`, as the upstream in-memory provider wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderId(String);

impl ProviderId {
    /// The id of the machine called `name`.
    #[must_use]
    pub fn of_machine(name: &str) -> Self {
        Self(format!("in-memory://{name}"))
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
