//! The calling side against extensions: scripted ones without a network, and real ones with TLS on loopback.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

#[cfg(feature = "kube")]
mod api_server;
#[cfg(feature = "server")]
mod both_halves;
mod call_all;
mod call_one;
mod discovery;
mod policies;
#[cfg(feature = "kube")]
mod reconciler;
mod script;
mod tls;
mod tls_server;
