//! IPAddresses: the records that pools keep of them, and how they are created, released and watched.

mod content;
mod create;
mod follow;
mod list;
mod record;
mod release;

pub(crate) use content::{address_of_claim, adopted, same};
pub(crate) use create::{create, is_answered};
pub(crate) use follow::follow;
pub(crate) use list::{Listed, Lister, lister};
pub(crate) use record::{Finalizers, Record, version};
pub(crate) use release::{ReleaseResult, hold_back, release_address};
