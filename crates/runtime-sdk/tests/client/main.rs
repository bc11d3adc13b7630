//! The calling side against extensions: scripted ones without a network, and ones of real TLS on loopback.

mod call_all;
mod call_one;
mod discovery;
mod policies;
mod script;
mod tls;
mod tls_server;
