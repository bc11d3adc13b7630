//! Policies of admission.

use serde_json::Value;

use super::{
    column::{Column, Row},
    format::{length, selector, text, text_or},
};

pub(super) const VALIDATING_POLICY: &[Column] = &[
    Column::NAME,
    Column::integer("Validations", |row| length(row.spec("validations")).into()),
    PARAM_KIND,
    Column::AGE,
];

pub(super) const MUTATING_POLICY: &[Column] = &[
    Column::NAME,
    Column::integer("Mutations", |row| length(row.spec("mutations")).into()),
    PARAM_KIND,
    Column::AGE,
];

pub(super) const POLICY_BINDING: &[Column] = &[
    Column::NAME,
    Column::text("PolicyName", |row| text_or(row.spec("policyName"), "")),
    Column::text("ParamRef", param_ref),
    Column::AGE,
];

const PARAM_KIND: Column = Column::text("ParamKind", |row| match row.spec("paramKind") {
    Value::Null => "<unset>".into(),
    kind => format!("{}/{}", text(&kind["apiVersion"]), text(&kind["kind"])).into(),
});

fn param_ref(row: Row<'_>) -> Value {
    let reference = row.spec("paramRef");
    match (
        text(&reference["name"]),
        text(&reference["namespace"]),
        &reference["selector"],
    ) {
        ("", _, Value::Null) => "<unset>".into(),
        ("", _, labels) => selector(labels, ""),
        (name, "", _) => format!("*/{name}").into(),
        (name, namespace, _) => format!("{namespace}/{name}").into(),
    }
}
