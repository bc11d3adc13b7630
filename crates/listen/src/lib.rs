//! The connections of an HTTP server, with a bound on everything a client can hold.
//!
//! ```text
//!  accept ──TcpStream, Grant──▶ handshake ──TlsStream──▶ Http::serve ──Request<RequestBody>──▶ service
//!    │                                                      │
//!    └── Budget: places for connections                     └── idle, body and drain deadlines
//!
//!  serve: all of these together, for a server that needs nothing in between
//! ```
//!
//! | What a client holds | What bounds it |
//! |---|---|
//! | a connection | [`Limits::connections_max`]; before it has authenticated, [`Limits::unauthenticated_max`] |
//! | a handshake | [`Limits::handshake`] |
//! | a connection without a request, or with half the head of one | [`Limits::idle`] |
//! | the body of a request | [`Limits::body`] for its arrival; its size is the service's to bound. One that the service does not read is read on to keep the connection, up to 256 KiB; where there is more, the answer says that the connection closes |
//! | an answer that it does not read | [`Limits::stall`] |
//! | streams of an HTTP/2 connection | [`Limits::streams_max`] |
//!
//! A server cannot know who connects before the handshake is over. So when all places for unauthenticated
//! connections are taken, a newcomer is not refused: the least recently used of these connections makes room for
//! it. A client that opens connections and leaves them idle only closes its own.
//!
//! The crate knows no kind of object, reads no argument, and depends on nothing else of Nephele.

mod accept;
mod body;
mod budget;
mod handshake;
mod http;
mod limits;
mod serve;

pub use accept::accept;
pub use body::{BodyError, RequestBody};
pub use budget::{Budget, Grant};
pub use handshake::{HandshakeError, handshake};
pub use http::{Http, Protocol};
pub use limits::Limits;
pub use serve::{Peer, Session, serve, session_of};
