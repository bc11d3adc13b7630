//! JSON patch (RFC 6902), with bounds on what one patch may build and on how long it may take.

use std::borrow::Cow;

use json_patch::{AddOperation, Patch, PatchOperation, jsonptr::Pointer};
use serde_json::Value;

use super::PatchError;
use crate::depth::{DEPTH_MAX, fits};

/// The maximum number of operations in one patch, as in the real server (`apiserver/pkg/endpoints/handlers/patch.go`).
const OPERATIONS_MAX: usize = 10_000;

/// How many bytes the `copy` operations of one patch may copy in total, as in the real server. Without this bound, each
/// copy could double the object.
const COPIED_MAX: usize = 3 * 1024 * 1024;

/// How many list elements the operations of one patch may shift, at 32 bytes each: 64 MiB, which takes ten milliseconds.
/// Without a bound, 10,000 insertions at the front of a long list would take minutes.
const SHIFTED_MAX: usize = 2 * 1024 * 1024;

/// Applies the operations of `patch` to a copy of `current`, one by one. If one fails, the copy is dropped and
/// nothing has to be undone.
///
/// # Errors
/// When the patch is not a JSON patch, an operation does not fit, or an operation would exceed a bound.
pub(crate) fn json_patch(current: &Value, patch: &[u8]) -> Result<Value, PatchError> {
    let patch: Patch =
        serde_json::from_slice(patch).map_err(|error| PatchError::Malformed(error.to_string()))?;
    if patch.len() > OPERATIONS_MAX {
        return Err(PatchError::TooManyOperations {
            maximum: OPERATIONS_MAX,
            given: patch.len(),
        });
    }
    let mut patched = current.clone();
    let mut spent = Spent::default();
    for (index, operation) in patch.iter().enumerate() {
        spent
            .add(&patched, operation)
            .map_err(|reason| PatchError::Beyond {
                operation: index,
                reason,
            })?;
        let operation = or_add(&patched, operation);
        // "Unsafe" means that a failure does not undo the operations before it. They changed only the copy.
        json_patch::patch_unsafe(&mut patched, std::slice::from_ref(&*operation)).map_err(|mut error| {
            error.operation = index;
            PatchError::DoesNotApply(error)
        })?;
    }
    Ok(patched)
}

/// The operation, or one that adds the field that it would replace. RFC 6902 refuses to replace what is missing; the real
/// server does so in lists only (`evanphx/json-patch` v4, `partialDoc.get`), and clients rely on it.
fn or_add<'a>(value: &Value, operation: &'a PatchOperation) -> Cow<'a, PatchOperation> {
    let PatchOperation::Replace(replace) = operation else {
        return Cow::Borrowed(operation);
    };
    let misses = replace.path.split_back().is_some_and(|(object, field)| {
        let object = at(value, object).and_then(Value::as_object);
        object.is_some_and(|object| !object.contains_key(&*field.decoded()))
    });
    if !misses {
        return Cow::Borrowed(operation);
    }
    Cow::Owned(PatchOperation::Add(AddOperation {
        path: replace.path.clone(),
        value: replace.value.clone(),
    }))
}

/// The cost of a patch's operations so far.
#[derive(Default)]
struct Spent {
    copied: usize,
    shifted: usize,
}

impl Spent {
    /// Counts what an operation will cost; the error names the bound that it would exceed. An operation that does
    /// not apply costs nothing: applying it reports the error.
    fn add(&mut self, value: &Value, operation: &PatchOperation) -> Result<(), String> {
        let (placed, from) = match operation {
            PatchOperation::Add(add) => (Some(&add.value), None),
            PatchOperation::Replace(replace) => (Some(&replace.value), None),
            PatchOperation::Copy(copy) => (at(value, &copy.from), None),
            PatchOperation::Move(mov) => (at(value, &mov.from), Some(&mov.from)),
            PatchOperation::Remove(_) | PatchOperation::Test(_) => (None, None),
        };
        let path = operation.path();
        if let Some(placed) = placed
            && !fits(placed, DEPTH_MAX.saturating_sub(path.count()))
        {
            return Err(format!("nests deeper than {DEPTH_MAX} levels"));
        }
        if let (PatchOperation::Copy(_), Some(source)) = (operation, placed) {
            self.copied += source.to_string().len();
        }
        if self.copied > COPIED_MAX {
            return Err(format!("copies more than {COPIED_MAX} bytes in total"));
        }
        if !matches!(operation, PatchOperation::Replace(_) | PatchOperation::Test(_)) {
            self.shifted += shifted(value, path) + from.map_or(0, |from| shifted(value, from));
        }
        if self.shifted > SHIFTED_MAX {
            return Err(format!("moves more than {SHIFTED_MAX} list elements in total"));
        }
        Ok(())
    }
}

fn at<'a>(value: &'a Value, pointer: &Pointer) -> Option<&'a Value> {
    value.pointer(pointer.as_str())
}

/// How many elements shift, at most, when an element is added or removed at the pointer.
fn shifted(value: &Value, pointer: &Pointer) -> usize {
    match pointer.split_back() {
        Some((list, last)) if last.encoded() != "-" => {
            at(value, list).and_then(Value::as_array).map_or(0, Vec::len)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
