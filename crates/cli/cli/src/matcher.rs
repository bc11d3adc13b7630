//! The matchers of the cloud and of its pools of addresses, for the page.

use nephele_api::cloud::v1alpha1::FaultSpec;
use nephele_fault::is_of_addresses;
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
        claims,
        now,
    } = candidates.clone();
    if is_of_addresses(spec) {
        let objects = nephele_ipam_controller::Objects {
            claims,
            clusters: owning_clusters,
        };
        let previewed = nephele_ipam_controller::preview(spec, &objects, now);
        let previewed = previewed.map_err(|mistake| mistake.to_string())?;
        return Ok(Selected {
            claims: previewed.claims,
            moment: previewed.moment.as_str(),
            ..Selected::default()
        });
    }
    let objects = nephele_infra_controller::Objects {
        clusters,
        machines,
        owning_clusters,
        owning_machines,
        simulated_clouds: clouds,
    };
    let previewed = nephele_infra_controller::preview(spec, &objects);
    let previewed = previewed.map_err(|mistake| mistake.to_string())?;
    Ok(Selected {
        clusters: previewed.clusters,
        machines: previewed.machines,
        operations: previewed.operations.into_iter().map(Verb::as_str).collect(),
        ..Selected::default()
    })
}
