//! The hooks of updates in place (Cluster API, `inplaceupdate_types.go`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hook::{HookMeta, hook};
pub use super::patch::Patch;
use crate::{request, response, wire::Object};

const TAGS: &[&str] = &["In-Place Update Hooks"];

/// Whether the value is the default, which Go omits.
fn absent<T: Default + PartialEq>(objects: &T) -> bool {
    *objects == T::default()
}

hook! {
    /// Called to learn which changes of a Machine an extension can make in place.
    CanUpdateMachine: CanUpdateMachineRequest => CanUpdateMachineResponse,
    HookMeta::new("Called to learn which changes of a Machine can be made in place")
        .description(
            "Called when a Machine of a control plane is to be updated, with the objects as they are and as they are \
             to be, without status.\n\nThe response has patches from what is to what the extension can make of it. \
             What no extension covers is updated by replacement.",
        )
        .tags(TAGS)
}

request! {
    /// The request of [`CanUpdateMachine`].
    #[schemars(extend("required" = ["current", "desired"]))]
    pub struct CanUpdateMachineRequest {
        /// The current objects.
        #[serde(skip_serializing_if = "absent")]
        pub current: CanUpdateMachineRequestObjects,
        /// The desired objects.
        #[serde(skip_serializing_if = "absent")]
        pub desired: CanUpdateMachineRequestObjects,
    }
}

/// A Machine and the objects that it refers to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["machine", "infrastructureMachine"]))]
pub struct CanUpdateMachineRequestObjects {
    /// The Machine.
    #[serde(skip_serializing_if = "Object::is_absent")]
    pub machine: Object,
    /// Its infrastructure.
    #[serde(skip_serializing_if = "Object::is_absent")]
    pub infrastructure_machine: Object,
    /// Its bootstrap config, if it has one.
    #[serde(skip_serializing_if = "Object::is_absent")]
    pub bootstrap_config: Object,
}

response! {
    /// The response of [`CanUpdateMachine`].
    pub struct CanUpdateMachineResponse: plain {
        /// The changes of the Machine that can be made in place.
        #[serde(skip_serializing_if = "Patch::is_absent")]
        pub machine_patch: Patch,
        /// The changes of its infrastructure that can be made in place.
        #[serde(skip_serializing_if = "Patch::is_absent")]
        pub infrastructure_machine_patch: Patch,
        /// The changes of its bootstrap config that can be made in place.
        #[serde(skip_serializing_if = "Patch::is_absent")]
        pub bootstrap_config_patch: Patch,
    }
}

hook! {
    /// Called to learn which changes of the Machines of a `MachineSet` an extension can make in place.
    CanUpdateMachineSet: CanUpdateMachineSetRequest => CanUpdateMachineSetResponse,
    HookMeta::new("Called to learn which changes of a MachineSet's Machines can be made in place")
        .description(
            "Called when the Machines of a MachineSet are to be updated, with the objects as they are and as they are \
             to be, without status.\n\nThe response has patches from what is to what the extension can make of it. \
             What no extension covers is updated by replacement.",
        )
        .tags(TAGS)
}

request! {
    /// The request of [`CanUpdateMachineSet`].
    #[schemars(extend("required" = ["current", "desired"]))]
    pub struct CanUpdateMachineSetRequest {
        /// The current objects.
        #[serde(skip_serializing_if = "absent")]
        pub current: CanUpdateMachineSetRequestObjects,
        /// The desired objects.
        #[serde(skip_serializing_if = "absent")]
        pub desired: CanUpdateMachineSetRequestObjects,
    }
}

/// A `MachineSet` and the templates that it refers to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["machineSet", "infrastructureMachineTemplate"]))]
pub struct CanUpdateMachineSetRequestObjects {
    /// The `MachineSet`.
    #[serde(skip_serializing_if = "Object::is_absent")]
    pub machine_set: Object,
    /// The template of its infrastructure.
    #[serde(skip_serializing_if = "Object::is_absent")]
    pub infrastructure_machine_template: Object,
    /// The template of its bootstrap configs, if it has one.
    #[serde(skip_serializing_if = "Object::is_absent")]
    pub bootstrap_config_template: Object,
}

response! {
    /// The response of [`CanUpdateMachineSet`].
    pub struct CanUpdateMachineSetResponse: plain {
        /// The changes of the `MachineSet` that can be made in place.
        #[serde(skip_serializing_if = "Patch::is_absent")]
        pub machine_set_patch: Patch,
        /// The changes of its infrastructure template that can be made in place.
        #[serde(skip_serializing_if = "Patch::is_absent")]
        pub infrastructure_machine_template_patch: Patch,
        /// The changes of its bootstrap config template that can be made in place.
        #[serde(skip_serializing_if = "Patch::is_absent")]
        pub bootstrap_config_template_patch: Patch,
    }
}

hook! {
    /// Called to update a Machine in place. Called again until the update is done.
    UpdateMachine: UpdateMachineRequest => UpdateMachineResponse,
    HookMeta::new("Called to update a Machine in place")
        .description(
            "Called with the objects of a Machine as they are to be, without status, again and again until the \
             response has the caller wait no more.\n\nAnother call for the same update must change nothing.",
        )
        .tags(TAGS)
}

request! {
    /// The request of [`UpdateMachine`].
    #[schemars(extend("required" = ["desired"]))]
    pub struct UpdateMachineRequest {
        /// The desired objects.
        #[serde(skip_serializing_if = "absent")]
        pub desired: UpdateMachineRequestObjects,
    }
}

/// A Machine and the objects that it refers to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["machine", "infrastructureMachine"]))]
pub struct UpdateMachineRequestObjects {
    /// The Machine.
    #[serde(skip_serializing_if = "Object::is_absent")]
    pub machine: Object,
    /// Its infrastructure.
    #[serde(skip_serializing_if = "Object::is_absent")]
    pub infrastructure_machine: Object,
    /// Its bootstrap config, if it has one.
    #[serde(skip_serializing_if = "Object::is_absent")]
    pub bootstrap_config: Object,
}

response! {
    /// The response of [`UpdateMachine`].
    pub struct UpdateMachineResponse: retry {}
}
