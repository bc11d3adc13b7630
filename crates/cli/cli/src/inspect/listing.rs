//! A table of objects, and what its cells have in common. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use nephele_api::conditions;

use super::text::line;

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
}

/// A column, which may be for the wide format only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) wide: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) namespace: String,
    pub(super) cells: Vec<String>,
}

/// Columns of every format, and those of the wide one.
pub(super) fn columns(narrow: &[&'static str], wide: &[&'static str]) -> Vec<Column> {
    let of = |names: &[&'static str], wide| {
        names
            .iter()
            .map(move |name| Column { name, wide })
            .collect::<Vec<_>>()
    };
    [of(narrow, false), of(wide, true)].concat()
}

pub(super) fn row(metadata: &ObjectMeta, cells: Vec<String>) -> Row {
    Row {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        cells,
    }
}

/// The status of a condition, as one word.
pub(super) fn status(list: &[Condition], kind: &str) -> String {
    conditions::find(list, kind).map_or_else(|| "-".to_owned(), |condition| condition.status.clone())
}

/// Why a condition is not true, in one line.
pub(super) fn message(list: &[Condition], kind: &str) -> String {
    let condition = conditions::find(list, kind).filter(|condition| condition.status != conditions::TRUE);
    condition
        .map(|condition| line(&condition.message))
        .unwrap_or_default()
}
