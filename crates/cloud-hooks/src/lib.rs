//! Hooks of the simulated cloud's own: an extension can have a machine wait before it is created, and its object after it
//! is deleted.
//!
//! ```text
//!  CloudExtensionConfig ──watch──▶ source ──SDK: warm-up, discovery, conditions──▶ registry
//!                                                                                    │
//!  infra ──MachineHooks: may it begin? may it go?──▶ CloudHooks ──SDK: calls, policies┴─HTTPS──▶ extensions
//! ```
//!
//! [`BeforeMachineCreate`] and [`AfterMachineDelete`] are defined with the Runtime SDK as anybody would define hooks of
//! their own. Extensions are registered by a kind of our own, since Cluster API discovers whatever an `ExtensionConfig`
//! names, and refuses an extension that has a hook it does not know. An extension that answers Cluster API's hooks, too,
//! serves these on a mount of their own ([`Extension::mount`](nephele_runtime_sdk::server::Extension::mount)).
//!
//! What is promised to extensions:
//!
//! - `BeforeMachineCreate` is called at least once before a machine is created, and never after that began: whether it did
//!   is read from the InMemoryMachine, so that neither a restart nor a move lets a machine be asked about twice that is
//!   there. A machine that was moved to another management cluster before it had booted is asked about again there.
//! - `AfterMachineDelete` is called at least once for each InMemoryMachine that is deleted and not only moved, whether the
//!   machine was ever created or not, when nothing is left of it but the object.
//! - No machine of a paused Cluster is asked about. Without a registered extension nothing is called.
//!
//! What it must not know: what becomes of the answers.

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
pub use source::{Error, start};
