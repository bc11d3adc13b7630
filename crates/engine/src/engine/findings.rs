//! What was found about the callers of catalogs.

use nephele_model::ResourceId;

use super::Engine;
use crate::findings::{CallerFindings, Findings};

impl Engine {
    /// What the callers of a catalog did. None if nothing was found.
    #[must_use]
    pub fn findings(&self, catalog: &ResourceId) -> Option<&CallerFindings> {
        self.clouds.get(catalog).map(|cloud| &cloud.findings).filter(|findings| !findings.is_empty())
    }

    /// What the callers of all catalogs did, by catalog.
    pub fn all_findings(&self) -> impl Iterator<Item = (&ResourceId, &CallerFindings)> {
        let findings = self.clouds.iter().map(|(id, cloud)| (id, &cloud.findings));
        findings.filter(|(_, findings)| !findings.is_empty())
    }

    /// Notes what a caller did.
    pub(crate) fn note_finding(
        &mut self,
        catalog: &ResourceId,
        caller: &str,
        found: impl FnOnce(&mut Findings),
    ) {
        self.clouds.change(catalog, |cloud| cloud.note(caller, found));
    }

    /// Continues with what an earlier process had found about the callers of a catalog that is new.
    pub(crate) fn adopt_findings(&mut self, catalog: &ResourceId, callers: &CallerFindings) {
        let known = callers.iter().take(Findings::CALLERS_MAX);
        let known = known.map(|(caller, findings)| (caller.clone(), *findings)).collect();
        self.clouds.change(catalog, |cloud| cloud.findings = known);
    }
}
