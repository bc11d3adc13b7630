//! What the extension offers.

use kube::Client;
use nephele_kit::{Clock, wall_clock};
use nephele_runtime_sdk::{
    hooks::{
        AfterClusterUpgrade, AfterControlPlaneInitialized, AfterControlPlaneUpgrade, AfterWorkersUpgrade,
        BeforeClusterCreate, BeforeClusterDelete, BeforeClusterUpgrade, BeforeControlPlaneUpgrade,
        BeforeWorkersUpgrade, CanUpdateMachine, CanUpdateMachineSet, DiscoverVariables, Failure,
        GeneratePatches, GenerateUpgradePlan, UpdateMachine, ValidateTopology,
    },
    server::Extension,
};

use crate::{in_place, lifecycle::on_lifecycle, topology, upgrade_plan};

/// The extension, whose ConfigMaps are at this API. The names of handlers are those of Cluster API's own test extension,
/// which classes and tests name.
#[must_use]
pub fn extension(client: &Client) -> Extension {
    extension_at(client, wall_clock())
}

/// The same, by this clock.
#[must_use]
pub fn extension_at(client: &Client, clock: Clock) -> Extension {
    let updates = client.clone();
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
        .on(CanUpdateMachine, "can-update-machine", |request, _call| async move {
            Ok::<_, Failure>(in_place::can_update_machine(&request))
        })
        .on(CanUpdateMachineSet, "can-update-machineset", |request, _call| async move {
            Ok::<_, Failure>(in_place::can_update_machine_set(&request))
        })
        .on(UpdateMachine, "update-machine", move |request, _call| {
            let (client, clock) = (updates.clone(), Clock::clone(&clock));
            async move { in_place::update_machine(&client, &clock, request).await }
        })
}
