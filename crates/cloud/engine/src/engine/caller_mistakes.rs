//! What was found about the callers of clouds.

use nephele_model::ResourceId;

use super::Engine;
use crate::caller_mistakes::{CallerMistakes, MistakesByCaller};

impl Engine {
    /// What the callers of a cloud did. None if nothing was found.
    #[must_use]
    pub fn caller_mistakes(&self, cloud_spec: &ResourceId) -> Option<&MistakesByCaller> {
        self.clouds
            .get(cloud_spec)
            .map(|cloud| &cloud.caller_mistakes)
            .filter(|caller_mistakes| !caller_mistakes.is_empty())
    }

    /// What the callers of all clouds did, by cloud.
    pub fn all_caller_mistakes(&self) -> impl Iterator<Item = (&ResourceId, &MistakesByCaller)> {
        let caller_mistakes = self.clouds.iter().map(|(id, cloud)| (id, &cloud.caller_mistakes));
        caller_mistakes.filter(|(_, caller_mistakes)| !caller_mistakes.is_empty())
    }

    /// Notes what a caller did.
    pub(crate) fn note_caller_mistake(
        &mut self,
        cloud_spec: &ResourceId,
        caller: &str,
        found: impl FnOnce(&mut CallerMistakes),
    ) {
        self.clouds.change(cloud_spec, |cloud| cloud.note(caller, found));
    }

    /// Continues with what an earlier process had found about the callers of a cloud that is new.
    pub(crate) fn adopt_caller_mistakes(&mut self, cloud_spec: &ResourceId, callers: &MistakesByCaller) {
        let known = callers.iter().take(CallerMistakes::CALLERS_MAX);
        let known = known
            .map(|(caller, caller_mistakes)| (caller.clone(), *caller_mistakes))
            .collect();
        self.clouds
            .change(cloud_spec, |cloud| cloud.caller_mistakes = known);
    }
}
