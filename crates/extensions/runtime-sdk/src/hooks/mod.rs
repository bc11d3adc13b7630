//! The hooks of Cluster API 1.14, and the traits of a hook.
//!
//! A hook is a type that implements [`Hook`]: its identity (group, version, name) and its messages. The hooks of
//! Cluster API are defined with the same macros and the same trait as custom hooks:
//!
//! ```
//! use nephele_runtime_sdk::{hooks::{Hook, HookMeta}, request, response, wire::Object};
//!
//! request! {
//!     /// The request before a machine is created.
//!     pub struct BeforeMachineCreateRequest {
//!         /// The machine that will be created.
//!         pub machine: Object,
//!     }
//! }
//!
//! response! {
//!     /// Lets the machine be created, or makes it wait.
//!     pub struct BeforeMachineCreateResponse: retry {}
//! }
//!
//! /// Called before a machine is created.
//! #[derive(Clone, Copy, Debug)]
//! pub struct BeforeMachineCreate;
//!
//! impl Hook for BeforeMachineCreate {
//!     type Request = BeforeMachineCreateRequest;
//!     type Response = BeforeMachineCreateResponse;
//!     const GROUP: &'static str = "hooks.example.com";
//!     const VERSION: &'static str = "v1alpha1";
//!     const NAME: &'static str = "BeforeMachineCreate";
//!     const META: HookMeta = HookMeta::new("Called before a machine is created");
//! }
//! ```
//!
//! | hooks | module | the response has |
//! |---|---|---|
//! | [`Discovery`] | [`discovery`] | the handlers |
//! | nine lifecycle hooks | [`lifecycle`] | [retry](crate::response!), except [`AfterControlPlaneInitialized`] |
//! | three topology hooks | [`topology`] | patches, a verdict, variables |
//! | three hooks for in-place updates | [`in_place`] | patches, or retry |
//! | [`GenerateUpgradePlan`] | [`upgrade_plan`] | versions |

pub mod builtins;
pub mod discovery;
mod hook;
pub mod in_place;
pub mod lifecycle;
mod message;
mod patch;
mod response;
pub mod topology;
pub mod upgrade_plan;

pub use discovery::{
    ApiVersionError, Discovery, DiscoveryRequest, DiscoveryResponse, ExtensionHandler, FailurePolicy,
    GroupVersionHook,
};
pub use hook::{GROUP, Hook, HookId, HookMeta, VERSION};
pub use in_place::{
    CanUpdateMachine, CanUpdateMachineRequest, CanUpdateMachineRequestObjects, CanUpdateMachineResponse,
    CanUpdateMachineSet, CanUpdateMachineSetRequest, CanUpdateMachineSetRequestObjects,
    CanUpdateMachineSetResponse, UpdateMachine, UpdateMachineRequest, UpdateMachineRequestObjects,
    UpdateMachineResponse,
};
pub use lifecycle::{
    AfterClusterUpgrade, AfterClusterUpgradeRequest, AfterClusterUpgradeResponse,
    AfterControlPlaneInitialized, AfterControlPlaneInitializedRequest, AfterControlPlaneInitializedResponse,
    AfterControlPlaneUpgrade, AfterControlPlaneUpgradeRequest, AfterControlPlaneUpgradeResponse,
    AfterWorkersUpgrade, AfterWorkersUpgradeRequest, AfterWorkersUpgradeResponse, BeforeClusterCreate,
    BeforeClusterCreateRequest, BeforeClusterCreateResponse, BeforeClusterDelete, BeforeClusterDeleteRequest,
    BeforeClusterDeleteResponse, BeforeClusterUpgrade, BeforeClusterUpgradeRequest,
    BeforeClusterUpgradeResponse, BeforeControlPlaneUpgrade, BeforeControlPlaneUpgradeRequest,
    BeforeControlPlaneUpgradeResponse, BeforeWorkersUpgrade, BeforeWorkersUpgradeRequest,
    BeforeWorkersUpgradeResponse, UpgradeStepInfo,
};
pub use message::{Message, Request, Response, Settings};
pub use patch::{Patch, PatchType};
pub use response::{Failure, ResponseStatus};
pub use topology::{
    ClusterClassVariable, ClusterClassVariableMetadata, DiscoverVariables, DiscoverVariablesRequest,
    DiscoverVariablesResponse, GeneratePatches, GeneratePatchesRequest, GeneratePatchesRequestItem,
    GeneratePatchesResponse, GeneratePatchesResponseItem, HolderReference, ValidateTopology,
    ValidateTopologyRequest, ValidateTopologyRequestItem, ValidateTopologyResponse, Variable, VariableSchema,
};
pub use upgrade_plan::{
    GenerateUpgradePlan, GenerateUpgradePlanRequest, GenerateUpgradePlanResponse, UpgradeStep,
};
