//! `meta.k8s.io/v1` `Table`: what `kubectl get` prints, as the real server's printers make it
//! (`kubernetes/pkg/printers/internalversion/printers.go`).

mod age;
mod cells;
mod json_path;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::registry::ResourceType;

/// How much of each object a row carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    Metadata,
    Object,
}

impl IncludeObject {
    pub(crate) fn parse(text: Option<&str>) -> Self {
        match text {
            Some("None") => Self::None,
            Some("Object") => Self::Object,
            _ => Self::Metadata,
        }
    }
}

/// A column of a table.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: &'static str,
    pub(crate) priority: i64,
}

impl Column {
    fn new(name: &str, kind: &str, priority: i64) -> Self {
        let format = if name == "Name" { "name" } else { "" };
        Self { name: name.to_owned(), kind: kind.to_owned(), format, priority }
    }
}

/// A table of objects of one kind.
pub(crate) fn render(
    kind: &ResourceType,
    objects: &[Value],
    metadata: &Value,
    include: IncludeObject,
    now: Timestamp,
) -> Value {
    let columns: Vec<_> = cells::columns(kind)
        .into_iter()
        .map(|column| {
            json!({"name": column.name, "type": column.kind, "format": column.format, "description": "",
                   "priority": column.priority})
        })
        .collect();
    let rows: Vec<_> = objects
        .iter()
        .map(|object| {
            let mut row = json!({"cells": cells::cells(kind, object, now)});
            match include {
                IncludeObject::None => {}
                IncludeObject::Object => row["object"] = object.clone(),
                IncludeObject::Metadata => {
                    row["object"] = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                                           "metadata": object["metadata"]});
                }
            }
            row
        })
        .collect();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns,
           "rows": rows})
}
