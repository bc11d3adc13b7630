//! The released class, with the extension instead of its own variables, patches and upgrades.

use nephele_e2e::templates;
use serde_json::{Value, json};

/// The objects of the class.
pub(crate) fn of_extension() -> anyhow::Result<Vec<Value>> {
    let mut objects = templates::class()?;
    for object in objects
        .iter_mut()
        .filter(|object| object["kind"] == "ClusterClass")
    {
        let spec = &mut object["spec"];
        spec["patches"] = json!([{
            "name": "nephele",
            "external": {
                "generatePatchesExtension": "generate-patches.nephele",
                "validateTopologyExtension": "validate-topology.nephele",
                "discoverVariablesExtension": "discover-variables.nephele",
            },
        }]);
        spec["upgrade"] =
            json!({"external": {"generateUpgradePlanExtension": "generate-upgrade-plan.nephele"}});
        if let Some(spec) = spec.as_object_mut() {
            spec.remove("variables");
        }
    }
    Ok(objects)
}
