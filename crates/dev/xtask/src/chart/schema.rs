//! The descriptions in `values.schema.json`, from the comments of `values.yaml`. The rest of the schema is written by
//! hand.

use anyhow::{Context, bail};
use serde_yaml_ng::{Mapping, Value};

use super::table::Described;

/// Helm puts values of a parent chart there, so `values.yaml` does not have it.
const GLOBAL: &str = "global";
const DESCRIPTION: &str = "description";

/// The schema with these descriptions. Fails when the schema and the values do not have the same paths.
pub(super) fn described(schema: &str, values: &[Described]) -> anyhow::Result<String> {
    // As YAML, of which JSON is a part, it keeps the order of its keys.
    let mut schema: Value = serde_yaml_ng::from_str(schema).context("failed to read values.schema.json")?;
    let mut left: Vec<&Described> = values.iter().collect();
    describe(&mut schema, "", &mut left)?;
    if let Some(Described { path, .. }) = left.first() {
        bail!("values.schema.json does not have {path}");
    }
    let mut text = serde_json::to_string_pretty(&schema).context("failed to write values.schema.json")?;
    text.push('\n');
    Ok(text)
}

/// Describes the values below a path, and removes them from those that are left.
fn describe(schema: &mut Value, above: &str, left: &mut Vec<&Described>) -> anyhow::Result<()> {
    let properties = schema.get_mut("properties").and_then(Value::as_mapping_mut);
    for (name, schema) in properties.with_context(|| format!("values.yaml does not have {above}"))? {
        let name = name.as_str().context("a name that is not a text")?;
        let path = if above.is_empty() {
            name.to_owned()
        } else {
            format!("{above}.{name}")
        };
        if let Some(at) = left.iter().position(|value| value.path == path) {
            let description = left.remove(at).description.clone();
            let rest = schema
                .as_mapping_mut()
                .with_context(|| format!("{path} is not described by rules"))?;
            let rest = std::mem::take(rest)
                .into_iter()
                .filter(|(key, _)| key != DESCRIPTION);
            let first = (Value::from(DESCRIPTION), Value::from(description));
            *schema = Value::Mapping(std::iter::once(first).chain(rest).collect::<Mapping>());
        } else if path != GLOBAL {
            describe(schema, &path, left)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::table;

    fn said(schema: &str, values: &str) -> Result<String, String> {
        let values = table::described(values).expect("described");
        described(schema, &values).map_err(|error| error.to_string())
    }

    #[test]
    fn descriptions_come_first_and_replace_those_before() {
        let schema = r#"{"type": "object", "properties": {"global": {}, "b": {"type": "string", "description": "Old."},
            "a": {"properties": {"c": {"$ref": "x"}}}}}"#;
        let fresh = said(schema, "a:\n  # One.\n  c: 1\n# Often changed. Two.\nb: x\n").expect("written");
        let expected = "{\n  \"type\": \"object\",\n  \"properties\": {\n    \"global\": {},\n    \"b\": {\n      \
                        \"description\": \"Two.\",\n      \"type\": \"string\"\n    },\n    \"a\": {\n      \
                        \"properties\": {\n        \"c\": {\n          \"description\": \"One.\",\n          \
                        \"$ref\": \"x\"\n        }\n      }\n    }\n  }\n}\n";
        assert_eq!(fresh, expected);
        assert_eq!(said(&fresh, "a:\n  # One.\n  c: 1\n# Two.\nb: x\n"), Ok(fresh));
    }

    #[test]
    fn a_value_that_only_one_of_the_files_has_is_reported() {
        let schema = r#"{"properties": {"a": {"type": "string"}}}"#;
        let message = said(schema, "# One.\na: x\n# Two.\nb: x\n");
        assert_eq!(message, Err("values.schema.json does not have b".to_owned()));
        let schema = r#"{"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}"#;
        assert_eq!(
            said(schema, "# One.\na: x\n"),
            Err("values.yaml does not have b".to_owned())
        );
    }
}
