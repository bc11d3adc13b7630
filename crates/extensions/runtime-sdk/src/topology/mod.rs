//! Helpers for the topology hooks: variables by path, a walk over templates that turns changes into patches, and
//! validation of upgrade plans.
//!
//! ```
//! use nephele_runtime_sdk::{hooks::{Failure, GeneratePatchesRequest, GeneratePatchesResponse}, topology::Walk};
//!
//! fn patches(request: &GeneratePatchesRequest) -> Result<GeneratePatchesResponse, Failure> {
//!     Walk::new()
//!         .on("infrastructure.cluster.x-k8s.io", "DevMachineTemplate", |template| {
//!             if let Some(zone) = template.variables.find("zone")? {
//!                 template.object["spec"]["template"]["spec"]["zone"] = zone.clone();
//!             }
//!             Ok(())
//!         })
//!         .patches(request)
//! }
//! ```

mod upgrade_plan;
mod variables;
mod walk;

pub use upgrade_plan::{Planned, UpgradePlanError, judge_upgrade_plan};
pub use variables::{VariableError, Variables};
pub use walk::{Template, Walk};
