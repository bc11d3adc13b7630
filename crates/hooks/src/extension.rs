//! What the extension offers.

use kube::Client;
use nephele_runtime_sdk::{
    hooks::{
        AfterClusterUpgrade, AfterControlPlaneInitialized, AfterControlPlaneUpgrade, AfterWorkersUpgrade,
        BeforeClusterCreate, BeforeClusterDelete, BeforeClusterUpgrade, BeforeControlPlaneUpgrade,
        BeforeWorkersUpgrade, DiscoverVariables, GeneratePatches, GenerateUpgradePlan, ValidateTopology,
    },
    server::Extension,
};

use crate::{lifecycle::on_lifecycle, topology, upgrade_plan};

/// The extension, whose ConfigMaps are at this API. The names of handlers are those of Cluster API's own test extension,
/// which classes and tests name.
///
/// Updates in place are not offered: nothing here could make them.
#[must_use]
pub fn extension(client: &Client) -> Extension {
    let extension = Extension::new();
    let extension = on_lifecycle(extension, client, BeforeClusterCreate, "before-cluster-create");
    let extension =
        on_lifecycle(extension, client, AfterControlPlaneInitialized, "after-control-plane-initialized");
    let extension = on_lifecycle(extension, client, BeforeClusterUpgrade, "before-cluster-upgrade");
    let extension =
        on_lifecycle(extension, client, BeforeControlPlaneUpgrade, "before-control-plane-upgrade");
    let extension = on_lifecycle(extension, client, AfterControlPlaneUpgrade, "after-control-plane-upgrade");
    let extension = on_lifecycle(extension, client, BeforeWorkersUpgrade, "before-workers-upgrade");
    let extension = on_lifecycle(extension, client, AfterWorkersUpgrade, "after-workers-upgrade");
    let extension = on_lifecycle(extension, client, AfterClusterUpgrade, "after-cluster-upgrade");
    let extension = on_lifecycle(extension, client, BeforeClusterDelete, "before-cluster-delete");
    extension
        .on(DiscoverVariables, "discover-variables", |_request, _call| async { topology::variables() })
        .on(GeneratePatches, "generate-patches", |request, _call| async move { topology::patches(&request) })
        .on(
            ValidateTopology,
            "validate-topology",
            |request, _call| async move { topology::verdict(&request) },
        )
        .on(GenerateUpgradePlan, "generate-upgrade-plan", |request, _call| async move {
            upgrade_plan::answer(&request)
        })
}
