//! Every kind of invalid value for every node of a schema.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::input::{
    normal,
    sample::{placed, sample},
    schema::{Kind, Node, Step, nodes, text},
    table::{self, Entry},
};

/// An invalid value, in the spec or the status of an otherwise valid object.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub(crate) kind: &'a Kind,
    path: String,
    /// The mistake.
    why: String,
    /// The field that the answer has to name.
    pub(crate) named: String,
    /// The whole spec or status.
    pub(crate) value: Value,
}

impl Case<'_> {
    pub(crate) fn id(&self) -> String {
        format!("{} {} {} {}", self.kind, self.path, self.why, self.named)
    }

    pub(crate) fn is_named_in(&self, message: &str) -> bool {
        normal(message).contains(&normal(&self.named))
    }
}

/// Cases of a kind's spec.
pub(crate) fn of_spec(kind: &Kind) -> anyhow::Result<Vec<Case<'_>>> {
    cases(kind, "spec", kind.spec(), &table::right(kind))
}

/// Cases of a kind's status.
pub(crate) fn of_status(kind: &Kind) -> anyhow::Result<Vec<Case<'_>>> {
    let schema = kind.status().context("a kind with a status")?;
    cases(kind, "status", schema, &sample(schema)?)
}

fn cases<'a>(kind: &'a Kind, top: &str, schema: &'a Value, right: &Value) -> anyhow::Result<Vec<Case<'a>>> {
    let mut cases = Vec::new();
    let mut unknown = Vec::new();
    for node in nodes(schema) {
        let path = text(top, &node.path);
        let wrong = match Wrong::of(kind, &path, &node) {
            Ok(wrong) => wrong,
            Err(error) => {
                unknown.push(format!("{path}: {error:#}"));
                continue;
            }
        };
        for Wrong { why, value, named } in wrong {
            let value = placed(schema, right.clone(), &node.path, value)?;
            let named = match named {
                Named::Below(below) => format!("{path}{below}"),
                Named::Last(name) => name,
                Named::Other(other) => other.to_owned(),
            };
            cases.push(Case {
                kind,
                path: path.clone(),
                why,
                named,
                value,
            });
        }
        // An unknown field is only refused with strict validation, which kubectl requests.
        if top == "spec" && node.schema["properties"].is_object() {
            let mut steps = node.path.clone();
            steps.push(Step::Field("nonsense".to_owned()));
            let value = placed(schema, right.clone(), &steps, json!(1))?;
            let named = format!("{path}.nonsense");
            cases.push(Case {
                kind,
                path,
                why: "unknown".to_owned(),
                named,
                value,
            });
        }
    }
    ensure!(
        unknown.is_empty(),
        "{kind} has fields without a case:\n{}",
        unknown.join("\n")
    );
    Ok(cases)
}

/// A wrong value for a place.
struct Wrong {
    why: String,
    value: Value,
    named: Named,
}

/// The field that the answer has to name.
enum Named {
    /// The place, or a place in it.
    Below(String),
    /// The place, by the last part of its path.
    Last(String),
    /// Another field, which the API server names instead.
    Other(&'static str),
}

impl Wrong {
    fn of(kind: &Kind, path: &str, node: &Node<'_>) -> anyhow::Result<Vec<Self>> {
        let schema = node.schema;
        let mut all = vec![Self::here("another type", another_type(schema)?)];
        let bound = |name: &str| schema[name].as_f64().map(|bound| bound as i64);
        if bound("minLength").is_some_and(|least| least > 0) {
            all.push(Self::here("too short", json!("")));
        }
        if let Some(most) = bound("maxLength") {
            all.push(Self::here("too long", json!("a".repeat(most as usize + 1))));
        }
        if schema["pattern"].is_string() {
            all.push(Self::here("another form", json!("!")));
        }
        if schema["enum"].is_array() {
            all.push(Self::here("none of them", json!("no-such")));
        }
        if schema["format"] == "date-time" {
            all.push(Self::here("no time", json!("yesterday")));
        }
        if let Some(least) = bound("minimum") {
            // Zero may mean a default.
            let value = if least == 1 { -1 } else { least - 1 };
            all.push(Self::here("too small", json!(value)));
        }
        if let Some(most) = bound("maximum") {
            all.push(Self::here("too large", json!(most + 1)));
        } else if schema["format"] == "int32" {
            // The error is reported for the parent of the field, with the field's own name.
            let named = Named::Last(path.rsplit('.').next().unwrap_or_default().to_owned());
            let wrong = Self::here("too large for its format", json!(i64::from(i32::MAX) + 1));
            all.push(Self { named, ..wrong });
        }
        all.extend(Self::of_lists(schema)?);
        if bound("minProperties").is_some_and(|least| least > 0) {
            all.push(Self::here("empty", json!({})));
        }
        for required in schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            let mut value = sample(schema)?;
            value
                .as_object_mut()
                .context("what has fields is an object")?
                .remove(required);
            let wrong = Self::here("missing", value);
            // A default replaces a missing value.
            if schema["properties"][required].get("default").is_none() {
                all.push(Self {
                    named: Named::Below(format!(".{required}")),
                    ..wrong
                });
            }
        }
        for rule in schema["x-kubernetes-validations"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let text = rule["rule"].as_str().unwrap_or("");
            let message = rule["message"].as_str().unwrap_or("");
            if !text.contains("oldSelf") {
                let value =
                    table::breaking(message).with_context(|| format!("no value breaks {message:?}"))?;
                let below = rule["fieldPath"].as_str().unwrap_or("").to_owned();
                all.push(Self {
                    why: message.to_owned(),
                    value,
                    named: Named::Below(below),
                });
            }
        }
        match (is_unrestricted(schema), table::entry(kind, path)) {
            (false, None) | (true, Some(Entry::Anything)) => {}
            (_, Some(Entry::Wrong { value, named })) => {
                all.push(Self {
                    named: Named::Other(named),
                    ..Self::here("nonsense", json!(value))
                });
            }
            (true, None) => anyhow::bail!("no wrong value is known: add one, or `Entry::Anything`"),
            (false, Some(Entry::Anything)) => anyhow::bail!("the schema does not accept every value"),
        }
        Ok(all)
    }

    fn of_lists(schema: &Value) -> anyhow::Result<Vec<Self>> {
        let mut all = Vec::new();
        let Some(items) = schema.get("items") else {
            return Ok(all);
        };
        let bound = |name: &str| schema[name].as_u64();
        if bound("minItems").is_some_and(|least| least > 0) {
            all.push(Self::here("too few", json!([])));
        }
        let one = sample(items)?;
        if let Some(most) = bound("maxItems") {
            all.push(Self::here(
                "too many",
                Value::Array(vec![one.clone(); most as usize + 1]),
            ));
        }
        if ["map", "set"]
            .iter()
            .any(|kind| schema["x-kubernetes-list-type"] == **kind)
        {
            let wrong = Self::here("twice", json!([one, one]));
            all.push(Self {
                named: Named::Below("[1]".to_owned()),
                ..wrong
            });
        }
        Ok(all)
    }

    fn here(why: &str, value: Value) -> Self {
        Self {
            why: why.to_owned(),
            value,
            named: Named::Below(String::new()),
        }
    }
}

fn another_type(schema: &Value) -> anyhow::Result<Value> {
    Ok(match schema["type"].as_str() {
        Some("string") => json!(7),
        Some("object" | "array" | "integer" | "number" | "boolean") => json!("x"),
        None if schema["x-kubernetes-int-or-string"] == true => json!(true),
        other => anyhow::bail!("type {other:?}"),
    })
}

/// Whether the schema accepts every string or every number.
fn is_unrestricted(schema: &Value) -> bool {
    let restrictions = ["minLength", "maxLength", "pattern", "enum", "minimum", "maximum"];
    let is_leaf = matches!(schema["type"].as_str(), Some("string" | "integer" | "number"))
        || schema["x-kubernetes-int-or-string"] == true;
    is_leaf
        && schema["format"] != "date-time"
        && !restrictions.iter().any(|name| schema.get(name).is_some())
        && schema["x-kubernetes-validations"].is_null()
}
