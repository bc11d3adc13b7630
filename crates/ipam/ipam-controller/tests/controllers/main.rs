//! The controllers with a management API in this process. The test acts as all other clients.

mod chaos;
mod claims;
mod damage;
mod draws;
mod faults;
mod load;
mod pools;
mod prefixes;
mod preview;
mod quiet;
mod requests;
mod takeover;
mod unreadable;
mod world;
