//! Tables of custom kinds, with the columns of their definition.

use serde_json::{Number, Value, json};

use super::{age::age, column::Row, json_path};
use crate::registry::PrinterColumn;

/// The one column of a definition without columns: the age.
fn age_column() -> PrinterColumn {
    PrinterColumn {
        name: "Age".to_owned(),
        kind: "date".to_owned(),
        json_path: ".metadata.creationTimestamp".to_owned(),
        ..PrinterColumn::default()
    }
}

pub(super) fn definitions(columns: &[PrinterColumn]) -> Vec<Value> {
    let mut definitions =
        vec![json!({"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0})];
    let define = |column: &PrinterColumn| {
        json!({"name": column.name, "type": column.kind, "format": "", "description": column.description,
               "priority": column.priority})
    };
    if columns.is_empty() {
        definitions.push(define(&age_column()));
    }
    definitions.extend(columns.iter().map(define));
    definitions
}

pub(super) fn cells(columns: &[PrinterColumn], row: Row<'_>) -> Vec<Value> {
    let mut cells = vec![row.metadata("name").clone()];
    if columns.is_empty() {
        cells.push(cell(&age_column(), row));
    }
    cells.extend(columns.iter().map(|column| cell(column, row)));
    cells
}

/// A value that does not fit its column's type is shown as null.
fn cell(column: &PrinterColumn, row: Row<'_>) -> Value {
    let Some(value) = json_path::find(row.object, &column.json_path) else {
        return Value::Null;
    };
    match (column.kind.as_str(), value) {
        ("date", Value::String(since)) => age(Some(since), row.now).into(),
        ("string", Value::String(text)) => text.as_str().into(),
        ("string", Value::Null) => "null".into(),
        ("string", other) => other.to_string().into(),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a real server cuts fractions off likewise"
        )]
        ("integer", Value::Number(number)) => number
            .as_i64()
            .or_else(|| number.as_f64().map(|number| number as i64))
            .into(),
        ("number", Value::Number(number)) => number
            .as_f64()
            .and_then(Number::from_f64)
            .map_or(Value::Null, Value::Number),
        ("boolean", Value::Bool(truth)) => (*truth).into(),
        _ => Value::Null,
    }
}
