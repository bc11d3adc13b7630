//! What is found about the callers of a catalog.

use nephele_engine::CallerFindings;
use nephele_model::ResourceId;

use crate::cloud::Cloud;

impl Cloud {
    /// What was found about the callers of a catalog of a namespace, by caller.
    #[must_use]
    pub fn observe_findings(&self, namespace: &str, name: &str) -> CallerFindings {
        let catalog = ResourceId::catalog(namespace, name);
        self.look(|engine| engine.findings(&catalog).cloned().unwrap_or_default())
    }
}
