//! IPAddresses: what pools keep of them, how they are made and let go, and how they are followed.

mod content;
mod create;
mod follow;
mod list;
mod record;
mod release;

pub(crate) use content::{adopted, made_for, same};
pub(crate) use create::{create, is_answered};
pub(crate) use follow::follow;
pub(crate) use list::{Listed, Lister, lister};
pub(crate) use record::{Finalizers, Record, version};
pub(crate) use release::{Left, hold_back, let_go};
