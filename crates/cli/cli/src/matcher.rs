//! The matcher of the cloud, for the page.

use nephele_api::cloud::v1alpha1::FaultSpec;
use nephele_infra_controller::{Objects, Preview, preview};
use nephele_model::Verb;
use nephele_page::{Candidates, Selected};

/// What a Fault would select among the objects of its namespace.
///
/// # Errors
/// With the first field that cannot be used.
pub(crate) fn matcher(spec: &FaultSpec, candidates: &Candidates) -> Result<Selected, String> {
    let Candidates {
        clusters,
        machines,
        owning_clusters,
        owning_machines,
        clouds,
    } = candidates.clone();
    let objects = Objects {
        clusters,
        machines,
        owning_clusters,
        owning_machines,
        simulated_clouds: clouds,
    };
    let Preview {
        clusters,
        machines,
        operations,
    } = preview(spec, &objects).map_err(|mistake| mistake.to_string())?;
    Ok(Selected {
        clusters,
        machines,
        operations: operations.into_iter().map(Verb::as_str).collect(),
    })
}
