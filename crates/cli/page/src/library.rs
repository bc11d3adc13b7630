//! The library of scenarios, as the page shows it. Whoever starts the page has the library, and knows what an entry needs.

use std::sync::Arc;

use futures::future::BoxFuture;
use nephele_api::cloud::v1alpha1::Scenario;

/// A scenario of the library.
#[derive(Clone, Debug)]
pub struct LibraryEntry {
    /// What it shows, in one sentence.
    pub shows: String,
    /// About how long it takes.
    pub takes: String,
    /// What happens in it, in some sentences.
    pub story: String,
    /// What it needs, in one word: `up` or `cluster-api`.
    pub needs: &'static str,
    /// The Scenario. Its name is that of the entry.
    pub scenario: Scenario,
}

impl LibraryEntry {
    /// The name.
    pub(crate) fn name(&self) -> &str {
        self.scenario.metadata.name.as_deref().unwrap_or_default()
    }
}

/// What a scenario lacks in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lacks {
    /// Each thing that is missing, in words.
    pub told: Vec<String>,
    /// Whether making its cluster would mend all of them.
    pub can_be_made: bool,
}

/// The library of scenarios.
pub trait Library: Send + Sync {
    /// All entries, by name.
    fn entries(&self) -> &[LibraryEntry];

    /// What an entry lacks in a namespace.
    ///
    /// # Errors
    /// With what a person reads, when the management API does not say.
    fn lacks<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Result<Lacks, String>>;

    /// Creates what is missing of the cluster of an entry, without waiting for it.
    ///
    /// # Errors
    /// With what a person reads, when the management API refuses it.
    fn make<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Result<(), String>>;
}

/// The library of a page.
pub(crate) type SharedLibrary = Arc<dyn Library>;

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// A library of two entries, `one` and `two`. `two` lacks a cluster, which can be made once.
    pub(crate) struct Two {
        entries: Vec<LibraryEntry>,
        made: parking_lot::Mutex<bool>,
    }

    impl Two {
        pub(crate) fn shared() -> SharedLibrary {
            let entry = |name: &str| {
                let scenario =
                    json!({ "metadata": { "name": name }, "spec": { "steps": [{ "say": name }] } });
                LibraryEntry {
                    shows: format!("it shows {name}"),
                    takes: "1m".to_owned(),
                    story: format!("the story of {name}"),
                    needs: "up",
                    scenario: serde_json::from_value(scenario).expect("a Scenario"),
                }
            };
            Arc::new(Self {
                entries: ["one", "two"].map(entry).to_vec(),
                made: parking_lot::Mutex::new(false),
            })
        }
    }

    impl Library for Two {
        fn entries(&self) -> &[LibraryEntry] {
            &self.entries
        }

        fn lacks<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Result<Lacks, String>> {
            let is_missing = name == "two" && !*self.made.lock();
            let told = is_missing.then(|| format!("there is no Cluster in {namespace}"));
            let lacks = Lacks {
                told: told.into_iter().collect(),
                can_be_made: is_missing,
            };
            Box::pin(std::future::ready(Ok(lacks)))
        }

        fn make<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), String>> {
            *self.made.lock() = true;
            Box::pin(std::future::ready(Ok(())))
        }
    }
}
