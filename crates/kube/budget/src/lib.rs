//! What clients may hold: a bounded amount with a share for each client, and what a parse of JSON takes.
//!
//! ```text
//!  Budget::new ──share(owner, max)──▶ Budget ──take──▶ Grant ──grow, shrink, pin──▶ drop
//!    all clients                        one client       one connection, one body
//! ```
//!
//! A client that holds much cannot take from one that holds less: when room is short, the grant that was used least
//! recently is revoked of the client that holds most.
//!
//! The crate knows no socket, no kind of object and no other crate of Nephele.

mod body;
mod budget;
mod json;

pub use body::{Held, ReadError};
pub use budget::{Budget, Grant, Owner};
pub use json::{Parse, largest_parsed_size, parsed_size};
