//! The server as its clients see it, without sockets.

mod client;
mod garbage;
mod objects;
mod paths;
mod support;
mod watches;
