//! The Runtime SDK of Cluster API for Rust: serve hooks, call hooks, define hooks.
//!
//! Cluster API calls runtime extensions at certain points of a cluster's lifecycle: before it is created, upgraded
//! or deleted, while its topology is computed, when a machine could be updated in place. An extension answers over
//! HTTPS; it can make Cluster API wait, change what is created, or refuse. This crate has both sides of that, for
//! the hooks of Cluster API 1.10 to 1.14 and for custom hooks.
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
//! [`first_extension`] explains it step by step, up to the objects that register it. `examples/` has one for a
//! cluster's topology and one with custom hooks.
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
//! The feature `server` adds [`server`], the feature `client` adds [`client`], the calling side; both are on by
//! default, and without them the crate has only types. With `kube` the calling side reads registrations from a
//! management cluster.
//!
//! The crate knows no particular provider. Objects travel as JSON ([`wire::Object`]), because Cluster API has sent
//! Clusters of two versions under one version of the hooks.
//!
//! The server is axum over `nephele-listen`, which bounds what clients can hold.
//!
//! # Differences from Go
//!
//! The protocol is that of the Runtime SDK proposal (Cluster API, `docs/proposals/20220221-runtime-SDK.md`) as
//! implemented by Cluster API 1.14 (`api/runtime/hooks/v1alpha1`, `exp/runtime/server`, `internal/runtime/client`).
//! It differs on purpose here:
//!
//! | of Go | here |
//! |---|---|
//! | a handler that forgets the status is refused by the caller | a response is made with `Success`; an error is `Failure` |
//! | a panic ends the connection | it is a response with status `Failure` |
//! | names, timeouts and policies are first checked by the caller | [`server::Extension::build`] checks them |
//! | the `timeout` of a call is ignored | a call ends with it |
//! | discovery lists handlers in another order each time | it is sorted by name |
//! | any method is accepted | only POST is |
//! | typed templates lead to patches of fields that the type does not know | only of fields that were changed |
//! | text of variables is unquoted as Go's | as JSON's |
//! | fractions are read exactly | those of more than 15 digits may differ in the last bit, as serde_json reads them |
//! | of a repeated field the last counts | it is an error, as are bytes that are not UTF-8 |

// The macros below refer to this crate by its name, even inside it.
extern crate self as nephele_runtime_sdk;

pub mod catalog;
#[cfg(feature = "client")]
pub mod client;
pub mod hooks;
pub mod openapi;
mod patch;
#[cfg(feature = "server")]
pub mod server;
pub mod topology;
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
