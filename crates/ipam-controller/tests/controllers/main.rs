//! The controllers against a management API in this process. The test plays everybody else.

mod claims;
mod pools;
mod prefixes;
mod world;
