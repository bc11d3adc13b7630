//! Kubernetes port-forward, server side: SPDY/3.1, plain or tunnelled through a WebSocket.
//!
//! ```text
//!  POST, Upgrade: SPDY/3.1 ──────────────┐ accept                       ┌─▶ Target::connect(port)
//!                                        ├───────▶ session ── streams ──┤
//!  GET, WebSocket SPDY/3.1+portforward ──┘   │  (async)   (pure)        └─▶ Target::connect(port)
//!        websocket: messages to bytes        │
//!                                            └── frame, header_block: bytes to frames (pure)
//! ```
//!
//! A client opens two SPDY streams per forwarded connection, `error` and `data`, paired by a request id (client-go
//! `tools/portforward`). The data stream carries the bytes of the connection, the error stream an error as text.
//! One session carries any number of connections, to any ports.
//!
//! ```text
//!  client                                      server
//!  SYN_STREAM 1 {error, port 2379, id 0} ──▶
//!                                          ◀── SYN_REPLY 1
//!  DATA 1 FIN ──▶
//!  SYN_STREAM 3 {data, port 2379, id 0} ──▶
//!                                          ◀── SYN_REPLY 3       only now the target is connected
//!  DATA 3 … ──▶                            ◀── DATA 3 …
//!  DATA 3 FIN ──▶                                                the target sees an end of input
//!                                          ◀── DATA 1 FIN, DATA 3 FIN
//! ```
//!
//! The [`Target`] connects to the backend of a port, which is usually in the same process. The crate opens no
//! connection itself, spawns no task, and uses neither Kubernetes objects nor TLS.

mod accept;
mod dictionary;
mod frame;
mod header_block;
mod session;
mod streams;
mod target;
mod websocket;

pub use accept::{Answer, Session, accept};
pub use frame::FrameError;
pub use header_block::HeaderError;
pub use session::SessionError;
pub use target::{ConnectError, Duplex, Target};
