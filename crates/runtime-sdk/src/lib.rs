//! The Runtime SDK of Cluster API: serve hooks, call hooks, define hooks.
//!
//! ```text
//!                 hooks ── requests, responses, `Hook` ──┐
//!                   │                                    ▼
//!  wire ── JSON as Go reads and writes it ──▶ catalog ── (group, version, hook), conversions, paths
//! ```
//!
//! What it must not know: any particular provider. Objects travel as JSON ([`wire::Object`]), since under one version
//! of the hooks Cluster API has sent Clusters of two of its own versions.
//!
//! The protocol is that of the Runtime SDK proposal (Cluster API, `docs/proposals/20220221-runtime-SDK.md`) as it
//! stands in Cluster API 1.14 (`api/runtime/hooks/v1alpha1`, `internal/runtime/client`).

// The macros below name this crate by its name, inside it too.
extern crate self as nephele_runtime_sdk;

pub mod catalog;
pub mod hooks;
pub mod openapi;
mod patch;
#[cfg(feature = "server")]
pub mod server;
pub mod topology;
pub mod wire;

pub use patch::{between as patch_between, merge_patch};

/// What the macros of this crate expand to uses. Not for anybody else.
#[doc(hidden)]
pub mod export {
    pub use schemars;
    pub use serde;
}
