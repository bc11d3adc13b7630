//! Values that a schema allows, and objects with a single invalid value.

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

use crate::input::{schema::Step, table};

/// The smallest value that a schema allows.
pub(crate) fn sample(schema: &Value) -> anyhow::Result<Value> {
    let bound = |name: &str| schema[name].as_f64().map(|bound| bound as i64);
    Ok(match schema["type"].as_str() {
        Some("object") => {
            let mut object = Map::new();
            let required: Vec<&str> = schema["required"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let properties = schema["properties"].as_object();
            let least = bound("minProperties").unwrap_or(0).max(0) as usize;
            for (name, property) in properties.into_iter().flatten() {
                if required.contains(&name.as_str()) || (required.is_empty() && object.len() < least) {
                    object.insert(name.clone(), sample(property)?);
                }
            }
            if object.len() < least && schema["additionalProperties"].is_object() {
                object.insert("key".to_owned(), sample(&schema["additionalProperties"])?);
            }
            Value::Object(object)
        }
        Some("array") => {
            let least = bound("minItems").unwrap_or(0);
            Value::Array(
                (0..least)
                    .map(|_| sample(&schema["items"]))
                    .collect::<Result<_, _>>()?,
            )
        }
        Some("string") => text(schema)?.into(),
        Some("integer") => bound("minimum").unwrap_or(1).max(1).into(),
        Some("number") => 1.into(),
        Some("boolean") => true.into(),
        None if schema["x-kubernetes-int-or-string"] == true => json!("1"),
        other => bail!("no sample of type {other:?}: {schema}"),
    })
}

fn text(schema: &Value) -> anyhow::Result<String> {
    if let Some(first) = schema["enum"].get(0).and_then(Value::as_str) {
        return Ok(first.to_owned());
    }
    if schema["format"] == "date-time" {
        return Ok("2026-01-01T00:00:00Z".to_owned());
    }
    match schema["pattern"].as_str() {
        Some(pattern) => table::matching(pattern)
            .map(str::to_owned)
            .with_context(|| format!("no sample of {pattern}")),
        None => Ok("a".repeat(schema["minLength"].as_u64().unwrap_or(1).max(1) as usize)),
    }
}

/// `current` with `value` at a path. Adds the required fields on the path and beside it.
pub(crate) fn placed(schema: &Value, current: Value, path: &[Step], value: Value) -> anyhow::Result<Value> {
    let Some((step, rest)) = path.split_first() else {
        return Ok(value);
    };
    Ok(match step {
        Step::Field(name) => {
            let mut object = if current.is_object() {
                current
            } else {
                sample(schema)?
            };
            let below = object[name].take();
            object[name] = placed(&schema["properties"][name], below, rest, value)?;
            object
        }
        Step::Item => {
            let items = &schema["items"];
            let mut list = match current {
                Value::Array(list) if !list.is_empty() => list,
                _ => vec![sample(items)?],
            };
            list[0] = placed(items, list[0].take(), rest, value)?;
            Value::Array(list)
        }
        Step::Entry => {
            let entries = &schema["additionalProperties"];
            json!({"key": placed(entries, sample(entries)?, rest, value)?})
        }
    })
}
