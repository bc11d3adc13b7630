//! What callers do that shows a mistake of theirs, or that they have to be ready for.
//!
//! Only the callers of catalogs that were put are counted: the catalog without a name is nobody's, and accounts come and go
//! without end.

use std::collections::BTreeMap;
use std::iter::Sum;

use nephele_model::ResourceId;
use serde::{Deserialize, Serialize};

use crate::engine::Engine;

/// What a caller did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// Creations that made another instance of a name that had one already.
    pub double_creates: u64,
    /// Reads that did not show a change that the caller itself had made.
    pub missed_reads: u64,
}

impl Sum for Findings {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            double_creates: sum.double_creates.saturating_add(one.double_creates),
            missed_reads: sum.missed_reads.saturating_add(one.missed_reads),
        })
    }
}

impl Findings {
    /// How many callers of a catalog are told apart. There are three; the name of a caller is any text to the engine.
    pub const CALLERS_MAX: usize = 16;
}

/// What the callers of a catalog did, by caller.
pub type CallerFindings = BTreeMap<String, Findings>;

/// What the callers of a catalog did, with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedFindings {
    /// The catalog.
    pub id: ResourceId,
    /// What its callers did.
    pub callers: CallerFindings,
}

impl Engine {
    /// What the callers of a catalog did. None if nothing was found.
    #[must_use]
    pub fn findings(&self, catalog: &ResourceId) -> Option<&CallerFindings> {
        self.findings.get(catalog)
    }

    /// What the callers of all catalogs did, by catalog.
    pub fn all_findings(&self) -> impl Iterator<Item = (&ResourceId, &CallerFindings)> {
        self.findings.iter()
    }

    /// Notes what a caller did.
    pub(crate) fn note_finding(
        &mut self,
        catalog: &ResourceId,
        caller: &str,
        found: impl FnOnce(&mut Findings),
    ) {
        if !self.catalogs.contains_key(catalog) {
            return;
        }
        let callers = self.findings.entry(catalog.clone()).or_default();
        if callers.len() < Findings::CALLERS_MAX || callers.contains_key(caller) {
            found(callers.entry(caller.to_owned()).or_default());
        }
    }

    /// Goes on with what an earlier process had found about the callers of a catalog that is new.
    pub(crate) fn adopt_findings(&mut self, catalog: &ResourceId, callers: &CallerFindings) {
        if !callers.is_empty() {
            let known = callers.iter().take(Findings::CALLERS_MAX);
            let known = known.map(|(caller, findings)| (caller.clone(), *findings)).collect();
            self.findings.insert(catalog.clone(), known);
        }
    }
}
