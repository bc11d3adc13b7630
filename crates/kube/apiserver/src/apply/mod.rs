//! Server-side apply: who owns which fields of an object, as pure functions of JSON trees.
//!
//! ```text
//!  applied object ─▶ check ─▶ merge ─▶ prune ─▶ compare ─▶ conflicts ─▶ object and managers
//!                               ▲        ▲         ▲           ▲
//!  Schema ──────────────────────┴────────┴─────────┘           │
//!  managedFields ─▶ Managers ──────────┴───────────────────────┘
//! ```
//!
//! A [`FieldSet`](field_set::FieldSet) is a set of paths. The schema of a kind says where a path ends: which maps and
//! lists are one value, and what identifies the elements of the other lists. All functions recurse as deep as their
//! values, which have at most [`DEPTH_MAX`](crate::depth::DEPTH_MAX) levels; those of updates at most the 127 that are
//! parsed, before they are refused.
//!
//! The rules are those of `sigs.k8s.io/structured-merge-diff` and `k8s.io/apimachinery/pkg/util/managedfields`. As the
//! latter once did, an object has managers only once something was applied to it (`skipnonapplied.go`).

mod applied;
mod check;
mod compare;
mod conflict;
mod custom_schema;
mod field_set;
mod last_applied;
mod managers;
mod merge;
mod owned;
mod path_element;
mod remove;
mod schema;
#[cfg(test)]
mod tests;
mod update;
mod versions;
mod view;

pub(crate) use applied::{Application, ApplyError, apply};
pub(crate) use conflict::Conflicts;
pub(crate) use custom_schema::CustomSchema;
pub(crate) use managers::{Managers, are_same_but_for_times, is_reset};
pub(crate) use schema::KindSchema;
pub(crate) use update::{Writer, update};
pub(crate) use versions::Versions;
