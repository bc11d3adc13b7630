//! What managers tell about themselves at their diagnostics ports: requests through port-forwards of the API server.
//!
//! ```text
//!  pods ──targets (pure)──▶ request, through port-forward ──▶ answer
//!                             ▲ token of an account for this run, which may use one path and nothing else
//! ```

mod account;
mod manager;
mod request;
mod targets;

#[cfg(test)]
mod tests;

pub(crate) use account::{Account, AccountFor, request_token};
pub(crate) use manager::{Ask, Manager, TokenArgs};
pub(crate) use request::Diagnostics;
pub(crate) use targets::{Target, targets};
