//! Output formats.

use clap::ValueEnum;
use serde_json::{Value, json};

use super::{found::Found, listing::Listing};
use crate::columns::columns;

/// How objects are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Table,
    /// A table with more columns.
    Wide,
    Json,
    Yaml,
    /// Only names, as kubectl takes them.
    Name,
}

/// The objects as text. `one` says that a single object was asked for, and not a list.
pub(super) fn render(
    format: Format,
    found: &Found,
    listing: &Listing,
    with_namespace: bool,
    one: bool,
) -> anyhow::Result<String> {
    Ok(match format {
        Format::Table => columns(&table(listing, with_namespace, false)),
        Format::Wide => columns(&table(listing, with_namespace, true)),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(&document(found, one))?),
        Format::Yaml => serde_yaml_ng::to_string(&document(found, one))?,
        Format::Name => found.objects.iter().map(name).collect(),
    })
}

fn table(listing: &Listing, with_namespace: bool, wide: bool) -> Vec<Vec<String>> {
    if listing.rows.is_empty() {
        return Vec::new();
    }
    let shown = |cells: &[String]| {
        let columns = cells.iter().zip(&listing.columns);
        let columns = columns.filter(|(_, column)| wide || !column.wide);
        columns.map(|(cell, _)| cell.clone()).collect::<Vec<_>>()
    };
    let headers: Vec<_> = listing
        .columns
        .iter()
        .map(|column| column.name.to_owned())
        .collect();
    let rows = listing
        .rows
        .iter()
        .map(|row| (row.namespace.as_str(), row.cells.as_slice()));
    let rows = std::iter::once(("NAMESPACE", headers.as_slice())).chain(rows);
    rows.map(|(namespace, cells)| {
        let namespace = with_namespace.then(|| namespace.to_owned());
        namespace.into_iter().chain(shown(cells)).collect()
    })
    .collect()
}

fn document(found: &Found, one: bool) -> Value {
    match found.objects.as_slice() {
        [object] if one => object.clone(),
        objects => json!({"apiVersion": "v1", "kind": "List", "items": objects}),
    }
}

/// `kind.group/name`.
fn name(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let group = version
        .split_once('/')
        .map(|(group, _)| format!(".{group}"))
        .unwrap_or_default();
    format!(
        "{}{group}/{}\n",
        text(&object["kind"]).to_lowercase(),
        text(&object["metadata"]["name"])
    )
}
