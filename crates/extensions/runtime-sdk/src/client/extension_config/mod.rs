//! Objects that register extensions: the `ExtensionConfig` of Cluster API, and kinds like it.
//!
//! ```text
//!  object ──begin──▶ Wait · Unregister · Keep · Report · Register (read-only) · Inject ┐
//!                                                                   │                  │ Secret
//!                                                                   ▼                  ▼
//!                                                               Discover ◀────────── inject
//!                                                                   │ Client::discover
//!                                                                   ▼
//!                                        Finding ──conclude──▶ status patch, Registration
//! ```
//!
//! The decisions are functions of plain values. Any controller can call them with the objects it has read, and carry
//! out the decisions. With the feature `kube`, `Reconciler` does so.
//!
//! A custom kind only has to map its fields:
//!
//! ```
//! use nephele_runtime_sdk::{
//!     client::{ClientConfig, LabelSelector, extension_config::{ExtensionKind, Metadata, Status}},
//!     hooks::Settings,
//! };
//! use serde::Deserialize;
//!
//! #[derive(Clone, Deserialize)]
//! struct MachineExtension {
//!     metadata: Metadata,
//!     spec: MachineExtensionSpec,
//! }
//!
//! #[derive(Clone, Deserialize)]
//! struct MachineExtensionSpec {
//!     url: String,
//! }
//!
//! impl ExtensionKind for MachineExtension {
//!     const GROUP: &'static str = "machines.example.com";
//!     const VERSION: &'static str = "v1";
//!     const KIND: &'static str = "MachineExtension";
//!     const PLURAL: &'static str = "machineextensions";
//!
//!     fn metadata(&self) -> &Metadata {
//!         &self.metadata
//!     }
//!
//!     fn client_config(&self) -> ClientConfig {
//!         ClientConfig { url: self.spec.url.clone(), ..ClientConfig::default() }
//!     }
//!
//!     fn namespace_selector(&self) -> Option<LabelSelector> {
//!         Some(LabelSelector::default())
//!     }
//!
//!     fn settings(&self) -> Settings {
//!         Settings::new()
//!     }
//!
//!     fn status(&self) -> Status {
//!         Status::default()
//!     }
//! }
//! ```

mod annotations;
mod condition;
mod kind;
mod plan;
#[cfg(feature = "kube")]
mod reconciler;
mod types;

pub use annotations::{INJECT_CA_ANNOTATION, PAUSED_ANNOTATION};
pub use condition::{Condition, DISCOVERED, PAUSED, condition, set_condition};
pub use kind::{ExtensionKind, HandlerStatus, Metadata, Status};
pub use plan::{
    CA_KEY, Conclusion, Finding, InjectError, Mode, NOT_READY_WAIT, SecretRef, Step, Unusable, begin,
    candidate, conclude, inject, injects_from, next, usable,
};
#[cfg(feature = "kube")]
pub use reconciler::{KubeNamespaces, Next, Reconciler, ReconcilerError, WarmUpError, WarmUpSettings};
pub use types::{
    Deprecated, ExtensionConfig, ExtensionConfigSpec, ExtensionConfigStatus, LegacyCondition,
    LegacyConditions, v1alpha1,
};
