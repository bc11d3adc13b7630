//! Applies an object (`structured-merge-diff/merge/update.go`, `Apply`).

use jiff::Timestamp;
use serde_json::{Value, json};
use thiserror::Error;

use super::{
    check::{ListError, check},
    compare::compare,
    conflict::Conflicts,
    field_set::FieldSet,
    last_applied,
    managers::{Managed, Managers, Operation},
    merge::merge,
    owned::{fields_of, with_named},
    remove::{Emptied, remove},
    schema::Schema,
    update::{Writer, update, without_server_owned},
};

/// The manager of the fields that an object had before something was applied to it for the first time.
const BEFORE: &str = "before-first-apply";

/// The only manager for whom the annotation of client-side apply counts.
const KUBECTL: &str = "kubectl";

/// An object after something was applied to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Applied {
    pub(crate) object: Value,
    pub(crate) managers: Managers,
}

/// Why an object cannot be applied.
#[derive(Debug, Error)]
pub(crate) enum ApplyError {
    /// Others own fields that it would change.
    #[error("{0}")]
    Conflicts(Conflicts),
    /// A list in it cannot be merged.
    #[error("failed to create typed patch object")]
    List(#[source] ListError),
}

/// What is applied, and by whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Application<'a> {
    pub(crate) config: &'a Value,
    pub(crate) writer: Writer<'a>,
    /// Whether the applier gets the fields that others own.
    pub(crate) force: bool,
}

/// Applies to `live`, an object without `managedFields`; for a new object, an empty one.
///
/// # Errors
/// When a list cannot be merged, or without `force` when others own fields that would change.
pub(crate) fn apply(
    schema: Schema<'_>,
    live: &Value,
    mut managers: Managers,
    application: Application<'_>,
    now: Timestamp,
) -> Result<Applied, ApplyError> {
    check(schema, application.config).map_err(ApplyError::List)?;
    if managers.is_empty() {
        let before = Writer {
            manager: BEFORE,
            ..application.writer
        };
        managers = update(schema, &json!({}), live, managers, &before, now);
    }
    if application.writer.manager != KUBECTL {
        return apply_tracked(schema, live, managers, application, now).map_err(ApplyError::Conflicts);
    }
    let mut outcome = apply_tracked(schema, live, managers.clone(), application, now);
    if let Err(conflicts) = outcome {
        let settled = last_applied::fields(schema, live, application.writer.api_version);
        let left = conflicts.without(&settled);
        let forced = Application {
            force: true,
            ..application
        };
        outcome = if left.is_empty() {
            apply_tracked(schema, live, managers, forced, now)
        } else {
            Err(left)
        };
    }
    let mut applied = outcome.map_err(ApplyError::Conflicts)?;
    last_applied::renew(&mut applied.object, application.config);
    Ok(applied)
}

fn apply_tracked(
    schema: Schema<'_>,
    live: &Value,
    mut managers: Managers,
    application: Application<'_>,
    now: Timestamp,
) -> Result<Applied, Conflicts> {
    let Application {
        config,
        writer,
        force,
    } = application;
    let id = writer.id(Operation::Apply);
    let api_version = writer.api_version.to_owned();
    let last = managers.0.remove(&id);
    let fields = fields_of(schema, config);
    let merged = merge(schema, Some(live), config);
    let object = match &last {
        None => merged,
        Some(last) => prune(schema, &merged, &last.fields, &managers, &fields),
    };
    let changes = compare(schema, live, &object);
    let changed = changes.modified.union(&changes.added);
    if !force {
        let conflicts = Conflicts::with(&managers, &changed);
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
    }
    managers.take(&changed);
    managers.take(&changes.removed);
    let fields = without_server_owned(&fields);
    if !fields.is_empty() {
        // The time is that of the last change.
        let time = last
            .filter(|last| object == *live && last.fields == fields && last.api_version == api_version)
            .map_or(Some(now), |last| last.time);
        managers.0.insert(
            id,
            Managed {
                api_version,
                time,
                fields,
            },
        );
    }
    Ok(Applied { object, managers })
}

/// Removes what the applier applied the last time, does not apply now, and no other manager owns. Named fields are removed
/// with the last of their parts, unless others have parts in them.
fn prune(schema: Schema<'_>, merged: &Value, last: &FieldSet, others: &Managers, fields: &FieldSet) -> Value {
    let last = with_named(schema, last);
    let managed = others
        .0
        .values()
        .fold(fields.clone(), |all, managed| all.union(&managed.fields));
    let all = with_named(schema, &fields_of(schema, merged));
    let left = |value: &Value| with_named(schema, &fields_of(schema, value));
    // Without everything that the applier owned, but with what is still owned.
    let without = |fields: &FieldSet| left(&remove(schema, merged, fields, Emptied::Null));
    let kept = without(&last).union(&with_named(schema, &managed));
    let pruned = without(&all.difference(&kept));
    // What had no owner stays. A real server makes null of an emptied map or list that another manager owns, and drops
    // nulls when it stores the object; here its owner keeps it.
    remove(
        schema,
        merged,
        &all.difference(&pruned).intersection(&last),
        Emptied::Empty,
    )
}
