//! The server as its clients see it, without sockets.

#![allow(
    clippy::unwrap_used,
    reason = "Clippy knows `#[test]` functions as tests, not what they call"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "`json!` values read best when passed as they are"
)]

mod apply;
mod apply_lists;
mod bounds;
mod client;
mod defaults;
mod definitions;
mod differences;
mod garbage;
mod kept;
mod kinds;
mod objects;
mod openapi;
mod paths;
mod support;
mod versions;
mod watches;
