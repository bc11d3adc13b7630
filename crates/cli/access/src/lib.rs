//! Access to API servers, as `kubectl` has it: which kubeconfig, which proxy leads to a server, and the connections to it.
//! All commands and the manager build their clients of a management cluster here.
//!
//! ```text
//!  kubeconfig, environment ──▶ Server ──▶ proxy (pure) ──▶ connector ──▶ pool ──▶ kube::Client
//! ```

mod connections;
mod connector;
mod kinds;
mod kubeconfig;
mod no_proxy;
mod proxy;
mod server;
mod trust;

pub use connections::Connections;
pub use kinds::{Kinds, Served, kind_of};
pub use kubeconfig::{ReadError, parse_kubeconfig, read_file, read_usual, usual_files};
pub use proxy::{Environment, Origin, Proxy, ProxyError, proxy_of};
pub use server::{Server, ServerError, config_without_proxy};
