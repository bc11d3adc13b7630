//! The handlers of the extension.

use nephele_controller::Clock;
use nephele_runtime_sdk::{
    hooks::{
        AfterClusterUpgrade, AfterControlPlaneInitialized, AfterControlPlaneUpgrade, AfterWorkersUpgrade,
        BeforeClusterCreate, BeforeClusterDelete, BeforeClusterUpgrade, BeforeControlPlaneUpgrade,
        BeforeWorkersUpgrade, CanUpdateMachine, CanUpdateMachineSet, DiscoverVariables, Failure,
        GeneratePatches, GenerateUpgradePlan, UpdateMachine, ValidateTopology,
    },
    server::{Extension, Limits},
};

use crate::{access::Access, in_place, lifecycle::on_lifecycle, topology, upgrade_plan};

/// The limits of the extension. A parsed body can need sixteen times its length (a list of digits), so one body of
/// 20 MiB at a time needs at most 320 MiB. Cluster API sends some tens of KiB.
const LIMITS: Limits = Limits {
    connections_max: 256,
    ..Limits::DEFAULT
};

/// The extension. Its handlers have the names of Cluster API's own test extension, to which classes and tests
/// refer.
#[must_use]
pub fn extension(access: &Access, clock: Clock) -> Extension {
    let updates = access.clone();
    let extension = Extension::new().limits(LIMITS);
    let extension = on_lifecycle(extension, access, BeforeClusterCreate, "before-cluster-create");
    let extension = on_lifecycle(
        extension,
        access,
        AfterControlPlaneInitialized,
        "after-control-plane-initialized",
    );
    let extension = on_lifecycle(extension, access, BeforeClusterUpgrade, "before-cluster-upgrade");
    let extension = on_lifecycle(
        extension,
        access,
        BeforeControlPlaneUpgrade,
        "before-control-plane-upgrade",
    );
    let extension = on_lifecycle(
        extension,
        access,
        AfterControlPlaneUpgrade,
        "after-control-plane-upgrade",
    );
    let extension = on_lifecycle(extension, access, BeforeWorkersUpgrade, "before-workers-upgrade");
    let extension = on_lifecycle(extension, access, AfterWorkersUpgrade, "after-workers-upgrade");
    let extension = on_lifecycle(extension, access, AfterClusterUpgrade, "after-cluster-upgrade");
    let extension = on_lifecycle(extension, access, BeforeClusterDelete, "before-cluster-delete");
    extension
        .on(DiscoverVariables, "discover-variables", |_request, _call| async {
            topology::variables()
        })
        .on(GeneratePatches, "generate-patches", |request, _call| async move {
            topology::patches(&request)
        })
        .on(
            ValidateTopology,
            "validate-topology",
            |request, _call| async move { topology::verdict(&request) },
        )
        .on(
            GenerateUpgradePlan,
            "generate-upgrade-plan",
            |request, _call| async move { upgrade_plan::answer(&request) },
        )
        .on(
            CanUpdateMachine,
            "can-update-machine",
            |request, _call| async move { Ok::<_, Failure>(in_place::can_update_machine(&request)) },
        )
        .on(
            CanUpdateMachineSet,
            "can-update-machineset",
            |request, _call| async move { Ok::<_, Failure>(in_place::can_update_machine_set(&request)) },
        )
        .on(UpdateMachine, "update-machine", move |request, _call| {
            let access = updates.clone();
            let clock = Clock::clone(&clock);
            async move { in_place::update_machine(&access, &clock, request).await }
        })
}
