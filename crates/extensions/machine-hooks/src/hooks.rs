//! The hooks and their messages.

use nephele_runtime_sdk::{
    catalog::Catalog,
    hooks::{Discovery, Hook, HookMeta},
    request, response,
    wire::Object,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The group of the hooks.
pub const GROUP: &str = "hooks.nephele.dev";
/// Their version.
pub const VERSION: &str = "v1alpha1";

const TAGS: &[&str] = &["Machine Hooks"];

/// Called before a simulated machine is created, once everything else is ready for its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BeforeMachineCreate;

impl Hook for BeforeMachineCreate {
    type Request = BeforeMachineCreateRequest;
    type Response = BeforeMachineCreateResponse;
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = VERSION;
    const NAME: &'static str = "BeforeMachineCreate";
    const META: HookMeta = HookMeta::new("Called before a simulated machine is created")
        .description(
            "Called when nothing else is missing for a simulated machine to be created, and again until it is.\n\nA \
             response with retryAfterSeconds has the machine wait, and its message is shown to people. It may be called \
             more than once for a machine, but not after its creation has begun.",
        )
        .tags(TAGS);
}

request! {
    /// The request of [`BeforeMachineCreate`].
    #[schemars(extend("required" = ["infrastructureMachine", "instance"]))]
    pub struct BeforeMachineCreateRequest {
        /// The Cluster of the machine, with the fields that the provider reads.
        #[serde(skip_serializing_if = "Object::is_absent")]
        pub cluster: Object,
        /// The Machine, with the fields that the provider reads.
        #[serde(skip_serializing_if = "Object::is_absent")]
        pub machine: Object,
        /// The InMemoryMachine.
        #[serde(skip_serializing_if = "Object::is_absent")]
        pub infrastructure_machine: Object,
        /// The simulated machine that will be created.
        pub instance: Instance,
    }
}

response! {
    /// The response of [`BeforeMachineCreate`].
    pub struct BeforeMachineCreateResponse: retry {}
}

/// Called after a simulated machine is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AfterMachineDelete;

impl Hook for AfterMachineDelete {
    type Request = AfterMachineDeleteRequest;
    type Response = AfterMachineDeleteResponse;
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = VERSION;
    const NAME: &'static str = "AfterMachineDelete";
    const META: HookMeta = HookMeta::new("Called after a simulated machine is deleted")
        .description(
            "Called when nothing is left of a deleted machine but its InMemoryMachine, also when the machine was never \
             created.\n\nA response with retryAfterSeconds keeps the object, and its message is shown to people. It may \
             be called more than once for a machine.",
        )
        .tags(TAGS);
}

request! {
    /// The request of [`AfterMachineDelete`].
    #[schemars(extend("required" = ["infrastructureMachine", "instance"]))]
    pub struct AfterMachineDeleteRequest {
        /// The Cluster of the machine, with the fields that the provider reads, if it still exists.
        #[serde(skip_serializing_if = "Object::is_absent")]
        pub cluster: Object,
        /// The Machine, with the fields that the provider reads, if it still exists.
        #[serde(skip_serializing_if = "Object::is_absent")]
        pub machine: Object,
        /// The InMemoryMachine.
        #[serde(skip_serializing_if = "Object::is_absent")]
        pub infrastructure_machine: Object,
        /// The simulated machine before its deletion.
        pub instance: Instance,
    }
}

response! {
    /// The response of [`AfterMachineDelete`].
    pub struct AfterMachineDeleteResponse: retry {}
}

/// A simulated machine. Unknown fields are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["controlPlane"]))]
pub struct Instance {
    /// Its provider ID, which is also in its Node. Absent for a deleted machine that was never created.
    #[serde(rename = "providerID", skip_serializing_if = "String::is_empty")]
    pub provider_id: String,
    /// Whether it belongs to a control plane.
    pub control_plane: bool,
    /// The Kubernetes version that it runs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Its zone.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failure_domain: String,
    /// The region of the zone.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// Its instance type.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub instance_type: String,
    /// Its image.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// Its addresses. Before it is created, these are the addresses from pools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<InstanceAddress>,
}

/// An address of a machine, as in Cluster API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["type", "address"]))]
pub struct InstanceAddress {
    /// The type of address, such as `InternalIP`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The address.
    pub address: String,
}

/// The hooks, and discovery.
///
/// # Panics
/// Never: the names are valid and distinct.
#[must_use]
pub fn catalog() -> Catalog {
    let mut catalog = Catalog::empty();
    let named = "hooks with names of their own";
    catalog.add::<Discovery>().expect(named);
    catalog.add::<BeforeMachineCreate>().expect(named);
    catalog.add::<AfterMachineDelete>().expect(named);
    catalog
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The wire format that existing extensions read.
    #[test]
    fn a_request_is_written_as_extensions_read_it() {
        let request = BeforeMachineCreateRequest {
            instance: Instance {
                provider_id: "in-memory://m".into(),
                control_plane: true,
                version: "v1.36.3".into(),
                failure_domain: "a".into(),
                addresses: vec![InstanceAddress {
                    kind: "InternalIP".into(),
                    address: "10.0.0.7".into(),
                }],
                ..Instance::default()
            },
            infrastructure_machine: Object::try_from(json!({ "kind": "InMemoryMachine" }))
                .expect("an object"),
            ..BeforeMachineCreateRequest::default()
        };
        let written = catalog().write_request::<BeforeMachineCreate>(&request, &BeforeMachineCreate::id());
        let written: serde_json::Value = serde_json::from_slice(&written.expect("JSON")).expect("JSON");
        let expected = json!({
            "apiVersion": "hooks.nephele.dev/v1alpha1", "kind": "BeforeMachineCreateRequest",
            "infrastructureMachine": { "kind": "InMemoryMachine" },
            "instance": {
                "providerID": "in-memory://m", "controlPlane": true, "version": "v1.36.3", "failureDomain": "a",
                "addresses": [{ "type": "InternalIP", "address": "10.0.0.7" }],
            },
        });
        assert_eq!(written, expected);
    }

    #[test]
    fn the_hooks_are_on_paths_of_their_own() {
        assert_eq!(
            [BeforeMachineCreate::id(), AfterMachineDelete::id()].map(|id| id.path(Some("quota"))),
            [
                "/hooks.nephele.dev/v1alpha1/beforemachinecreate/quota",
                "/hooks.nephele.dev/v1alpha1/aftermachinedelete/quota",
            ]
        );
        assert_eq!(catalog().ids().count(), 3);
    }
}
