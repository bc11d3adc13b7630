//! What was found about the callers of catalogs.

use nephele_model::ResourceId;

use super::Engine;
use crate::findings::{CallerFindings, Findings};

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
