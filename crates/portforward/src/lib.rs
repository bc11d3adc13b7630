//! Kubernetes port-forward, server side: SPDY/3.1 and its WebSocket tunnel.
//!
//! ```text
//!  POST, Upgrade: SPDY/3.1 ───────────────┐
//!                                         ├─▶ session: frames ⇄ streams ⇄ Target::connect(port)
//!  GET, WebSocket SPDY/3.1+portforward ───┘
//! ```
//!
//! A client opens two SPDY streams per connection, `error` and `data`, tied by a request id (client-go
//! `tools/portforward`); the bytes of the data stream are those of the connection. What is behind a port is the
//! target's business: usually something in the same process. The crate dials nothing and knows no Kubernetes object.

mod accept;
mod dictionary;
mod frame;
mod header_block;
mod pair;
mod session;
mod websocket;

pub use accept::{Answer, Session, accept};
pub use pair::{ConnectError, Duplex, Target};
pub use session::SessionError;
