//! The calling side: the registered extensions, their handlers, and calls of the handlers.
//!
//! ```text
//!  ExtensionConfig ┐                                        ┌─▶ Namespaces
//!  a kind of your  ├─▶ Client::discover ─▶ Registration ─▶ Registry ─▶ Client::call, ::call_all
//!  own, a file     ┘        │   judged: validate                          │  settings, failure policy, timeouts,
//!                           │                                             │  circuit, versions by the catalog
//!                           └────────────────▶ Transport (Https) ◀────────┘
//! ```
//!
//! A minimal caller, of an extension that is known in advance:
//!
//! ```no_run
//! use nephele_runtime_sdk::{
//!     catalog::Catalog,
//!     client::{Client, ClientConfig, LabelSelector, Registration, Registry, Subject, UnknownHooks},
//!     hooks::{BeforeClusterCreate, BeforeClusterCreateRequest},
//!     wire::Object,
//! };
//!
//! # async fn run(cluster: Object) -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder(Catalog::cluster_api()).registry(Registry::of([])?).build();
//!
//! let client_config = ClientConfig { url: "https://extension.example.com".into(), ..ClientConfig::default() };
//! let discovered = client.discover("my-extension", &client_config, UnknownHooks::Refuse).await?;
//! client.registry().add(Registration {
//!     name: "my-extension".into(),
//!     client_config,
//!     namespace_selector: Some(LabelSelector::default()),
//!     handlers: discovered.handlers,
//!     ..Registration::default()
//! })?;
//!
//! let request = BeforeClusterCreateRequest { cluster, ..BeforeClusterCreateRequest::default() };
//! let subject = Subject::new("my-namespace", "my-cluster");
//! let response = client.call_all::<BeforeClusterCreate>(&subject, &request).await?;
//! if response.retry_after_seconds != 0 {
//!     println!("not yet: {}", response.message);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Behaviour in detail, compared with Cluster API's own client (`internal/runtime/client`):
//!
//! | | here |
//! |---|---|
//! | all handlers of a hook | one after the other in the order of their names, until the first failure; optionally several at a time, and with a total time |
//! | `Ignore` | ignores calls without a response, and only those: a failed conversion, or a response with status `Failure`, is a failure |
//! | responses | 20 MiB at most, whatever their status |
//! | an invalid registration | does not replace the existing one |
//! | a namespace that cannot be read | is reported by name, with the cause |
//! | an extension that is dead at warm-up | does not keep other extensions from being registered, unless configured |
//! | an extension that keeps failing | is not called for a while |
//! | an extension that cannot be reached | is tried twice more, within its timeout |
//! | a server certificate that is marked as a CA | is refused, though Go accepts it (RFC 5280, 4.2.1.9) |
//! | proxies in the environment | are not used |
//!
//! Objects that register extensions are in [`extension_config`]. [`Waits`] and [`Answers`] remember responses that
//! make the caller wait.

mod aggregate;
mod call;
mod circuit;
mod discovery;
mod endpoint;
mod error;
pub mod extension_config;
mod handler;
mod message;
mod metrics;
mod namespaces;
mod registry;
mod selector;
pub mod transport;
mod waits;

pub use aggregate::{aggregate, lowest_non_zero};
pub use call::{CallAll, Client, ClientBuilder, Retries, Subject};
pub use circuit::{Circuit, CircuitSettings};
pub use discovery::{Discovered, DiscoveryProblem, HANDLERS_MAX, InvalidDiscovery, UnknownHooks, validate};
pub use endpoint::{ClientConfig, Endpoint, EndpointError, ServiceReference};
pub use error::{
    CallAllCause, CallAllError, CallCause, CallError, DiscoverCause, DiscoverError, ExternalError,
};
pub use handler::{Handler, HandlerNameError, OnError, extension_of};
pub use metrics::Metrics;
pub use namespaces::{NamespaceError, Namespaces};
pub use nephele_error_chain::chain;
pub use registry::{Candidate, Registration, RegistrationError, Registry, RegistryError, WarmUp, WarmedUp};
pub use selector::{LabelSelector, LabelSelectorRequirement, Labels, Selector, SelectorError};
pub use waits::{Answers, Waits};
