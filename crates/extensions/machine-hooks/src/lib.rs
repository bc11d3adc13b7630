//! Hooks of the simulated cloud: an extension can delay a machine before it is created, and its object after it is
//! deleted.
//!
//! ```text
//!  CloudExtensionConfig ──watch──▶ source ──SDK: warm-up, discovery, conditions──▶ registry
//!                                                                                    │
//!  infra ──MachineHooks: may it begin? may it go?──▶ CloudHooks ──SDK: calls, policies┴─HTTPS──▶ extensions
//! ```
//!
//! [`BeforeMachineCreate`] and [`AfterMachineDelete`] are custom hooks, defined with the Runtime SDK. An own kind
//! registers their extensions: Cluster API discovers every extension in an `ExtensionConfig`, and refuses an extension
//! with an unknown hook. An extension that also answers Cluster API's hooks serves these on a separate mount
//! ([`Extension::mount`](nephele_runtime_sdk::server::Extension::mount)).
//!
//! Guarantees for extensions:
//!
//! - `BeforeMachineCreate` is called at least once before the creation of a machine begins, and never after that.
//!   The InMemoryMachine records that the creation has begun, so neither a restart nor a move repeats the call for an
//!   existing machine. For a machine that is moved to another management cluster before it has booted, the hook is
//!   called again there.
//! - `AfterMachineDelete` is called at least once for each InMemoryMachine that is deleted and not only moved,
//!   whether the machine was ever created or not, when only the object is left.
//! - For machines of a paused Cluster, or without a registered extension, no hook is called.
//!
//! The crate does not know what follows from the answers.

mod call;
mod hooks;
mod kind;
mod request;
mod source;

pub use call::CloudHooks;
pub use hooks::{
    AfterMachineDelete, AfterMachineDeleteRequest, AfterMachineDeleteResponse, BeforeMachineCreate,
    BeforeMachineCreateRequest, BeforeMachineCreateResponse, GROUP, Instance, InstanceAddress, VERSION,
    catalog,
};
pub use nephele_runtime_sdk::client::extension_config::WarmUpSettings;
pub use source::{Error, start};
