//! The Runtime SDK of Cluster API for Rust: serve hooks, call hooks, define hooks.
//!
//! Cluster API asks runtime extensions at certain points of a cluster's life: before it is made, upgraded or deleted,
//! while its topology is computed, when a machine could be updated in place. An extension answers over HTTPS; it can
//! have Cluster API wait, change what is made, or refuse. This crate has both sides of that, for the hooks of Cluster
//! API 1.10 to 1.14 and for hooks of anybody's own.
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
//! [`first_extension`] goes through it step by step, up to the objects that register it. `examples/` has one with a
//! cluster's topology and one with hooks of its own.
//!
//! # What is where
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
//! With the feature `server` comes [`server`], with `client` comes [`client`], the calling side; both are on by default,
//! and without them the crate has types only. With `kube` the calling side learns of extensions from a cluster by itself.
//!
//! What it must not know: any particular provider. Objects travel as JSON ([`wire::Object`]), since under one version
//! of the hooks Cluster API has sent Clusters of two of its own versions.
//!
//! The server is axum over `nephele-listen`, which bounds what clients can hold of it.
//!
//! # Where it is another than Go's
//!
//! The protocol is that of the Runtime SDK proposal (Cluster API, `docs/proposals/20220221-runtime-SDK.md`) as it
//! stands in Cluster API 1.14 (`api/runtime/hooks/v1alpha1`, `exp/runtime/server`, `internal/runtime/client`). On
//! purpose it differs here:
//!
//! | of Go | here |
//! |---|---|
//! | a handler that forgets the status is refused by the caller | a response is made with `Success`; an error is `Failure` |
//! | a panic ends the connection | it is a response with status `Failure` |
//! | names, timeouts and policies are first judged by the caller | they are judged by [`server::Extension::build`] |
//! | the `timeout` of a call is not looked at | a call ends with it |
//! | discovery is in another order each time | it is in the order of names |
//! | any method is taken | POST is |
//! | typed templates become patches of what the type does not know | only what was changed does |
//! | text of variables is unquoted as Go's | as JSON's |
//! | fractions are read to the last bit | those of more than 15 digits may be off by it, as serde_json reads them |
//! | one field twice: the last counts | it is an error, as are bytes that are not UTF-8 |

// The macros below name this crate by its name, inside it too.
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

/// What the macros of this crate expand to uses. Not for anybody else.
#[doc(hidden)]
pub mod export {
    pub use schemars;
    pub use serde;
}
