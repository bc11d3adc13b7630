//! Cluster API itself on this machine: etcd and kube-apiserver, as envtest has them, and the managers of providers,
//! unmodified, as processes. No container, no node.
//!
//! ```text
//!  components of providers ─▶ objects ──────────▶ kube-apiserver ─▶ etcd
//!                          └▶ Deployments ─▶ processes ◀─ webhooks, by URL
//!                                  └▶ images ─┘
//! ```
//!
//! What the kubelet, cert-manager and Services do on a cluster is done here: each Deployment becomes a process, each
//! Certificate a file, and each webhook a URL on the loopback interface. Every process ends with the one that started it,
//! however that ends.

mod binaries;
mod control_plane;
mod install;
mod launch;
mod manager;
mod manifests;
mod ports;
mod pull;
mod run;
mod serving;

pub use binaries::{Binaries, Given, find};
pub use launch::{Launcher, Process, become_program};
pub use manifests::{Components, read};
pub use ports::{ADDRESS, free_ports};
pub use pull::{FILES_TO_BRING, PullError, Puller, RELEASES, Registry, Version};
pub use run::{ApiServer, ClusterApi, Managed, Wanted, start};
pub use serving::WebhookAuthority;
