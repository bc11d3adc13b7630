//! The controllers against a management API in this process. The test plays everybody else.

mod chaos;
mod claims;
mod load;
mod pools;
mod prefixes;
mod requests;
mod takeover;
mod world;
