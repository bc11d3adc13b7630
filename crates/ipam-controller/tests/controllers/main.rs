//! The controllers against a management API in this process. The test plays all other clients.

mod chaos;
mod claims;
mod draws;
mod load;
mod pools;
mod prefixes;
mod quiet;
mod requests;
mod takeover;
mod world;
