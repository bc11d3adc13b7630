//! What managers tell about themselves at their diagnostics ports: requests through port-forwards of the API server.
//!
//! ```text
//!  pods ──targets (pure)──▶ request, through port-forward ──▶ answer
//!                             ▲ token of an account for this run, which may read one path and nothing else
//! ```

mod account;
mod manager;
mod request;
mod targets;

pub(crate) use account::{Account, AccountFor};
pub(crate) use manager::{Ask, Manager};
pub(crate) use request::Diagnostics;
pub(crate) use targets::{Target, targets};

/// The labels of the manager's pods, however it was installed.
pub(crate) const MANAGER_PODS: &str =
    "cluster.x-k8s.io/provider=infrastructure-in-memory,control-plane=controller-manager";
