//! Strategic merge patch: a merge patch that knows which lists are sets (`apimachinery/pkg/util/strategicpatch`).
//!
//! The table of messages of the built-in kinds defines which lists are merged, and by which key.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::PatchError;
use crate::protobuf::{Field, Message, Strategy, message};

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// The fields of a map. None for a map with free keys.
type Fields = Option<&'static Message>;

/// Applies `patch` to an object of a built-in kind.
///
/// # Errors
/// When the kind is not built in, the patch is not an object, a directive is malformed, or an element of a merged
/// list lacks its key.
pub(crate) fn strategic_merge(
    current: &Value,
    patch: &Value,
    group: &str,
    kind: &str,
) -> Result<Value, PatchError> {
    let Some(message) = message(group, kind) else {
        return Err(PatchError::Unsupported(kind.to_owned()));
    };
    let Value::Object(patch) = patch else {
        return Err(PatchError::Malformed(
            "a strategic merge patch must be an object".to_owned(),
        ));
    };
    let current = current.as_object().cloned().unwrap_or_default();
    merge_map(Some(message), current, patch).map(Value::Object)
}

fn merge_map(
    fields: Fields,
    mut current: Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<Map<String, Value>, PatchError> {
    match directive(patch)? {
        Some(Directive::Delete) => return Ok(Map::new()),
        Some(Directive::Replace) => return Ok(plain(patch)),
        Some(Directive::Merge) | None => {}
    }
    if let Some(retain) = patch.get(RETAIN) {
        let kept = strings(retain, RETAIN)?;
        let stray = patch.iter().find(|(field, change)| {
            !change.is_null() && !field.starts_with('$') && !kept.contains(&field.as_str())
        });
        if let Some((field, _)) = stray {
            return Err(PatchError::Directive(format!(
                "{field} is changed but missing from {RETAIN}"
            )));
        }
        current.retain(|field, _| kept.contains(&field.as_str()));
    }
    for (field, change) in patch {
        if let Some(list) = field.strip_prefix(DELETE_FROM) {
            let gone = change
                .as_array()
                .ok_or_else(|| PatchError::Directive(format!("{field} must be a list")))?;
            if let Some(Value::Array(items)) = current.get_mut(list) {
                let gone: HashSet<_> = gone.iter().collect();
                items.retain(|item| !gone.contains(item));
            }
        }
    }
    for (field, change) in patch.iter().filter(|(field, _)| !is_directive(field)) {
        let order = match patch.get(&format!("{ORDER}{field}")) {
            None => None,
            Some(order) => Some(list_of(order, field)?),
        };
        let merged = merge_field(fields, field, current.remove(field), change, order)?;
        current.extend(merged.map(|merged| (field.clone(), merged)));
    }
    // A patch may set the order of a list without any other change.
    for (field, order) in patch
        .iter()
        .filter_map(|(field, order)| Some((field.strip_prefix(ORDER)?, order)))
    {
        let order = list_of(order, field)?;
        if let (false, Some(Value::Array(items))) = (patch.contains_key(field), current.get_mut(field)) {
            let before = items.clone();
            *items = in_order(key_of(fields, field), std::mem::take(items), order, &before);
        }
    }
    Ok(current)
}

/// Merges one field. None if the field is removed.
fn merge_field(
    fields: Fields,
    name: &str,
    current: Option<Value>,
    change: &Value,
    order: Option<&[Value]>,
) -> Result<Option<Value>, PatchError> {
    let field = fields.and_then(|message| message.named(name));
    let strategy = field.map_or(Strategy::Default, |field| field.strategy);
    let inner = field.and_then(Field::message);
    match (current, change) {
        (_, Value::Null) => Ok(None),
        (Some(Value::Object(_)), Value::Object(change)) if strategy == Strategy::Replace => {
            Ok(Some(Value::Object(plain(change))))
        }
        (Some(Value::Object(current)), Value::Object(change)) => {
            merge_map(inner, current, change).map(|merged| Some(Value::Object(merged)))
        }
        (Some(Value::Array(current)), Value::Array(change)) => {
            merge_list(strategy, inner, name, current, change, order).map(|merged| Some(Value::Array(merged)))
        }
        (_, change) => {
            let Some(mut fresh) = without_directives(change) else {
                return Ok(None);
            };
            if let (Value::Array(items), Some(order)) = (&mut fresh, order) {
                *items = in_order(key_of(fields, name), std::mem::take(items), order, &[]);
            }
            Ok(Some(fresh))
        }
    }
}

fn merge_list(
    strategy: Strategy,
    inner: Fields,
    name: &str,
    current: Vec<Value>,
    patch: &[Value],
    order: Option<&[Value]>,
) -> Result<Vec<Value>, PatchError> {
    let before = current.clone();
    let key = match strategy {
        Strategy::MergeBy(key) => Some(key),
        Strategy::MergeScalars => None,
        Strategy::Default | Strategy::Replace => {
            return Ok(patch.iter().filter_map(without_directives).collect());
        }
    };
    let merged = match key {
        Some(key) => merge_elements(key, inner, name, current, patch)?,
        None => merge_scalars(name, current, patch)?,
    };
    Ok(in_order(key, merged, order.unwrap_or(patch), &before))
}

fn merge_scalars(name: &str, mut current: Vec<Value>, patch: &[Value]) -> Result<Vec<Value>, PatchError> {
    let mut there: HashSet<_> = current.iter().cloned().collect();
    for item in patch {
        if item.is_object() || item.is_array() {
            return Err(PatchError::Malformed(format!(
                "the elements of {name} must be scalars"
            )));
        }
        if there.insert(item.clone()) {
            current.push(item.clone());
        }
    }
    Ok(current)
}

fn merge_elements(
    key: &str,
    inner: Fields,
    name: &str,
    mut current: Vec<Value>,
    patch: &[Value],
) -> Result<Vec<Value>, PatchError> {
    let no_key = || PatchError::Malformed(format!("an element of {name} has no {key}"));
    let mut changes = Vec::new();
    let mut gone = HashSet::new();
    let mut replace = false;
    for item in patch {
        let Value::Object(item) = item else {
            return Err(PatchError::Malformed(format!(
                "the elements of {name} must be objects"
            )));
        };
        match directive(item)? {
            Some(Directive::Delete) => {
                gone.insert(item.get(key).ok_or_else(no_key)?);
            }
            // It replaces the whole list, whatever its position in the list.
            Some(Directive::Replace) => replace = true,
            Some(Directive::Merge) => {
                return Err(PatchError::Directive(
                    "the directive merge is not allowed in a list".to_owned(),
                ));
            }
            None => changes.push(item),
        }
    }
    if replace {
        return Ok(changes
            .into_iter()
            .map(|item| Value::Object(plain(item)))
            .collect());
    }
    current.retain(|other| other.get(key).is_none_or(|name| !gone.contains(name)));
    let mut places = HashMap::new();
    for (index, name) in current
        .iter()
        .enumerate()
        .filter_map(|(index, item)| Some((index, item.get(key)?)))
    {
        places.entry(name.clone()).or_insert(index);
    }
    for change in changes {
        let name = change.get(key).ok_or_else(no_key)?;
        match places.get(name).map(|&index| &mut current[index]) {
            Some(Value::Object(element)) => {
                *element = merge_map(inner, std::mem::take(element), change)?;
            }
            _ => {
                places.entry(name.clone()).or_insert(current.len());
                current.push(Value::Object(plain(change)));
            }
        }
    }
    Ok(current)
}

/// Sorts a merged list: elements of `wanted` in its order, the others in the order of `before`. Where both leave
/// the order of two neighbours open, the wanted one comes first (`normalizeElementOrder` and `mergeSortedSlice`).
fn in_order(key: Option<&str>, merged: Vec<Value>, wanted: &[Value], before: &[Value]) -> Vec<Value> {
    let identity = |item: &Value| match key {
        Some(key) => item.get(key).cloned(),
        None => Some(item.clone()),
    };
    // The first index of each element in a list.
    let places = |list: &[Value]| {
        let mut places = HashMap::with_capacity(list.len());
        for (index, item) in list.iter().enumerate() {
            identity(item).map(|item| *places.entry(item).or_insert(index));
        }
        places
    };
    let wanted = places(wanted);
    let before = places(before);
    let index = |places: &HashMap<Value, usize>, item: &Value| places.get(&identity(item)?).copied();
    let (mut named, mut others): (Vec<_>, Vec<_>) = merged
        .into_iter()
        .partition(|item| index(&wanted, item).is_some());
    named.sort_by_cached_key(|item| index(&wanted, item));
    others.sort_by_cached_key(|item| index(&before, item));
    let mut ordered = Vec::with_capacity(named.len() + others.len());
    let mut named = named.into_iter().peekable();
    let mut others = others.into_iter().peekable();
    loop {
        let other_first = match (others.peek(), named.peek()) {
            (None, None) => return ordered,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(named)) => match (index(&before, other), index(&before, named)) {
                (Some(other), Some(named)) => other < named,
                _ => false,
            },
        };
        ordered.extend(if other_first { others.next() } else { named.next() });
    }
}

fn key_of(fields: Fields, field: &str) -> Option<&'static str> {
    match fields?.named(field)?.strategy {
        Strategy::MergeBy(key) => Some(key),
        Strategy::Default | Strategy::Replace | Strategy::MergeScalars => None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Directive {
    Delete,
    Replace,
    Merge,
}

fn directive(patch: &Map<String, Value>) -> Result<Option<Directive>, PatchError> {
    let Some(word) = patch.get(DIRECTIVE) else {
        return Ok(None);
    };
    match word.as_str() {
        Some("delete") => Ok(Some(Directive::Delete)),
        Some("replace") => Ok(Some(Directive::Replace)),
        Some("merge") => Ok(Some(Directive::Merge)),
        _ => Err(PatchError::Directive(format!("unknown patch type {word}"))),
    }
}

fn is_directive(field: &str) -> bool {
    field == DIRECTIVE || field == RETAIN || field.starts_with(DELETE_FROM) || field.starts_with(ORDER)
}

/// The value that a patch sets where there was none. None for a map with a directive.
fn without_directives(value: &Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(Value::Object(plain(map))),
        Value::Array(list) => Some(Value::Array(list.iter().filter_map(without_directives).collect())),
        scalar => Some(scalar.clone()),
    }
}

/// A map without its directives and nulls.
fn plain(map: &Map<String, Value>) -> Map<String, Value> {
    map.iter()
        .filter(|(field, value)| !is_directive(field) && !value.is_null())
        .filter_map(|(field, value)| Some((field.clone(), without_directives(value)?)))
        .collect()
}

fn list_of<'a>(value: &'a Value, field: &str) -> Result<&'a [Value], PatchError> {
    let list = value.as_array().map(Vec::as_slice);
    list.ok_or_else(|| PatchError::Directive(format!("{ORDER}{field} must be a list")))
}

fn strings<'a>(value: &'a Value, field: &str) -> Result<Vec<&'a str>, PatchError> {
    let list = value
        .as_array()
        .map(|list| list.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
    list.flatten()
        .ok_or_else(|| PatchError::Directive(format!("{field} must be a list of strings")))
}

#[cfg(test)]
mod tests;
