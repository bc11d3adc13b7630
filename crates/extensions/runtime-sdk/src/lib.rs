//! The Runtime SDK of Cluster API for Rust: serve hooks, call hooks, define hooks.
//!
//! Cluster API calls runtime extensions at certain points of a cluster's lifecycle: before a cluster is created,
//! upgraded or deleted, while its topology is computed, and when a machine could be updated in place. An extension
//! answers over HTTPS. It can make Cluster API wait, change the objects that are created, or refuse. This crate has
//! the serving side and the calling side, for the hooks of Cluster API 1.10 to 1.14 and for custom hooks.
//!
//! # A complete extension
//!
//! ```no_run
//! use std::{error::Error, net::TcpListener};
//!
//! use nephele_runtime_sdk::{
//!     hooks::{BeforeClusterCreate, BeforeClusterCreateResponse},
//!     server::{Extension, Tls, TlsFiles, serve},
//! };
//! use tokio_util::sync::CancellationToken;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn Error>> {
//!     let extension = Extension::new().on(BeforeClusterCreate, "cost-center", |request, _call| async move {
//!         if request.cluster.annotation("example.com/cost-center").is_none() {
//!             return Ok(BeforeClusterCreateResponse::retry_after(30, "annotate who pays"));
//!         }
//!         Ok(BeforeClusterCreateResponse::default())
//!     });
//!     let tls = Tls::load(TlsFiles::in_folder("/tmp/k8s-webhook-server/serving-certs")).await?;
//!     let listener = TcpListener::bind("0.0.0.0:9443")?;
//!     serve(extension.build()?, listener, tls, CancellationToken::new()).await?;
//!     Ok(())
//! }
//! ```
//!
//! [`first_extension`] explains this extension step by step, up to the objects that register it. `examples/` has an
//! extension for a cluster's topology and one with custom hooks.
//!
//! # Modules
//!
//! ```text
//!                 hooks ── requests, responses, `Hook` ──┐
//!                   │                                    ▼
//!  wire ── JSON as Go reads and writes it ──▶ catalog ── (group, version, hook), conversions
//!                                             │      │
//!                            openapi ◀────────┤      ├────────▶ client: registry, calls, policies
//!                                             ▼
//!                                          server: discovery, deadlines, TLS ◀── topology: variables, patches
//! ```
//!
//! The feature `server` adds [`server`], the serving side. The feature `client` adds [`client`], the calling side.
//! Both are on by default; without them the crate has only types. With the feature `kube`, the calling side reads
//! registrations from a management cluster.
//!
//! The crate does not depend on any provider. Objects are JSON ([`wire::Object`]), because Cluster API has sent
//! Clusters of two versions under one version of the hooks.
//!
//! The server is axum over `nephele-listen`, which bounds what clients can hold.
//!
//! # Differences from Go
//!
//! The protocol is that of the Runtime SDK proposal (Cluster API, `docs/proposals/20220221-runtime-SDK.md`) as
//! implemented by Cluster API 1.14 (`api/runtime/hooks/v1alpha1`, `exp/runtime/server`, `internal/runtime/client`).
//! The differences are deliberate:
//!
//! | Go | this crate |
//! |---|---|
//! | the caller refuses a response without a status | the default status is `Success`; an error is `Failure` |
//! | a panic ends the connection | a panic becomes a response with status `Failure` |
//! | only the caller checks names, timeouts and policies | [`server::Extension::build`] checks them |
//! | the `timeout` of a call is ignored | a call ends at its timeout |
//! | discovery lists handlers in random order | discovery sorts them by name |
//! | any HTTP method is accepted | only POST is accepted |
//! | typed templates lead to patches of fields that the type does not know | patches have only changed fields |
//! | strings in variables are unquoted as in Go | strings are unquoted as in JSON |
//! | fractions are read exactly | fractions of more than 15 digits may differ in the last bit, because of serde_json |
//! | the last of repeated fields counts | a repeated field is an error, and so are bytes that are not UTF-8 |

// The macros below refer to this crate by its name, even inside it.
extern crate self as nephele_runtime_sdk;

pub mod catalog;
#[cfg(feature = "client")]
pub mod client;
// In these modules numbers of users enter: a sum that wraps is a wrong answer, and one that panics ends a request.
#[cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]
pub mod hooks;
pub mod openapi;
mod patch;
#[cfg(feature = "server")]
pub mod server;
#[cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]
pub mod topology;
#[cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]
pub mod wire;

pub use patch::{between as patch_between, merge_patch};

#[doc = include_str!("../docs/first-extension.md")]
pub mod first_extension {}

/// Used by the expansion of this crate's macros. Not a public API.
#[doc(hidden)]
pub mod export {
    pub use schemars;
    pub use serde;
}
