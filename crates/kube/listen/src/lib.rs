//! The connections of an HTTP server, with a bound on everything that a client can hold.
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
//! | a connection | [`Limits::connections_max`]; before it has authenticated, [`Limits::unauthenticated_max`]. Beyond that, [`REFUSALS_MAX`] at a time hear within [`REFUSAL_TIME`] that there are too many; a further one takes the turn of the oldest |
//! | a handshake | [`Limits::handshake`]; of one address, one is worked on at a time |
//! | a connection without a request, or with half the head of one | [`Limits::idle`] |
//! | the body of a request | [`Limits::body`] for its arrival; the service has to bound its size. To keep the connection, up to 256 KiB of a body that the service does not read are read; if it is longer, the response says that the connection closes |
//! | a response that the client does not read | [`Limits::stall`] at least, and that twice and [`Limits::idle`] at most; of all together, [`Limits::responses_bytes_max`], with those of a known length counted as a whole |
//! | streams of an HTTP/2 connection | [`Limits::streams_max`] |
//!
//! A server cannot authenticate a client before the handshake is over. So if all places for unauthenticated
//! connections are taken, a new connection is not refused: of the address that has most of them, the least recently used
//! connection is closed to make room. A client that opens connections only loses its own.
//!
//! The crate knows no kind of object, reads no argument, and depends on no other crate of Nephele but `nephele-budget` and
//! `nephele-poll-time`.

mod accept;
mod bind;
mod body;
mod handshake;
mod http;
mod in_turn;
mod limits;
mod open_files;
mod paced;
mod refuse;
mod response;
mod serve;
mod turns;

pub use accept::{REFUSAL_TIME, REFUSALS_MAX, accept};
pub use bind::bind;
pub use body::{BodyError, RequestBody};
pub use handshake::{HandshakeError, handshake};
pub use http::{Http, Protocol};
pub use limits::Limits;
pub use nephele_budget::{Budget, Grant, Held, Owner, Parse, ReadError, largest_parsed_size, parsed_size};
pub use open_files::{TooManyOpenFiles, explained};
pub use refuse::refuse;
pub use serve::{Peer, PeerAddress, Session, serve, session_of};
pub use turns::{LARGE_BYTES, Turns};
