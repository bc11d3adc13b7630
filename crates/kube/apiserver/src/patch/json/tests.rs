use proptest::{prelude::*, sample::Index};
use serde_json::json;

use super::*;

#[test]
fn operations_apply_whole_or_not_at_all() {
    let current = json!({"a": 1});
    let patched = json_patch(&current, br#"[{"op": "add", "path": "/b", "value": 2}]"#).unwrap();
    assert_eq!(patched, json!({"a": 1, "b": 2}));
    let failed = json_patch(
        &current,
        br#"[{"op": "remove", "path": "/a"}, {"op": "remove", "path": "/c"}]"#,
    );
    let PatchError::DoesNotApply(failed) = failed.unwrap_err() else {
        panic!("it is the second that fails")
    };
    assert_eq!(
        failed.to_string(),
        "operation '/1' failed at path '/c': path is invalid"
    );
    assert!(matches!(
        json_patch(&current, b"{"),
        Err(PatchError::Malformed(_))
    ));
}

#[test]
fn replacing_a_missing_field_adds_it_as_in_the_real_server() {
    let replaced = |path: &str| {
        let patch = json!([{"op": "replace", "path": path, "value": 2}]);
        json_patch(&json!({"a": {}, "l": [1]}), patch.to_string().as_bytes()).ok()
    };
    assert_eq!(replaced("/a/b~1c"), Some(json!({"a": {"b/c": 2}, "l": [1]})));
    assert_eq!(replaced("/l/0"), Some(json!({"a": {}, "l": [2]})));
    for missing in ["/l/1", "/l/-", "/x/y", "/l/0/x"] {
        assert_eq!(replaced(missing), None, "{missing}");
    }
}

#[test]
fn value_may_be_as_deep_as_its_place_leaves_it() {
    let nested = |levels: usize| (1..levels).fold(json!(1), |value, _| json!({ "a": value }));
    // The operation puts its value two levels down.
    let apply = |levels: usize| {
        let patch = json!([{"op": "add", "path": "/x/y", "value": nested(levels)}]);
        json_patch(&json!({"x": {}}), patch.to_string().as_bytes())
    };
    assert_eq!(apply(98).unwrap(), json!({"x": {"y": nested(98)}}));
    assert!(matches!(apply(99), Err(PatchError::Beyond { operation: 0, .. })));
}

/// A step of the model, which takes the value apart and puts it together again.
#[derive(Clone, Debug)]
enum Step {
    Add(Index, String, Value),
    Remove(Index),
    Replace(Index, Value),
    Move(Index, Index, String),
    Copy(Index, Index, String),
    Test(Index),
    /// A path that does not exist.
    Astray(Index),
}

/// A path in a value: names and indexes.
type Path = Vec<String>;

fn places(value: &Value, here: &Path, all: &mut Vec<Path>) {
    all.push(here.clone());
    let mut child = |name: String, value: &Value| {
        places(
            value,
            &[here.as_slice(), std::slice::from_ref(&name)].concat(),
            all,
        );
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| child(name.clone(), value)),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .for_each(|(at, value)| child(at.to_string(), value)),
        _ => {}
    }
}

fn read(value: &Value, path: &[String]) -> Option<Value> {
    let Some((first, rest)) = path.split_first() else {
        return Some(value.clone());
    };
    match value {
        Value::Object(map) => read(map.get(first)?, rest),
        Value::Array(list) => read(list.get(first.parse::<usize>().ok()?)?, rest),
        _ => None,
    }
}

fn put(value: Value, path: &[String], new: Value) -> Option<Value> {
    let Some((first, rest)) = path.split_first() else {
        return Some(new);
    };
    match value {
        Value::Object(mut map) => {
            let inner = if rest.is_empty() {
                new
            } else {
                put(map.remove(first)?, rest, new)?
            };
            map.insert(first.clone(), inner);
            Some(Value::Object(map))
        }
        Value::Array(mut list) => {
            let at = if first == "-" {
                list.len()
            } else {
                first.parse().ok()?
            };
            if rest.is_empty() {
                let tail = list.split_off_checked(at)?;
                list.push(new);
                list.extend(tail);
            } else {
                let inner = put(list.get(at)?.clone(), rest, new)?;
                list[at] = inner;
            }
            Some(Value::Array(list))
        }
        _ => None,
    }
}

trait SplitOffChecked: Sized {
    fn split_off_checked(&mut self, at: usize) -> Option<Self>;
}

impl SplitOffChecked for Vec<Value> {
    fn split_off_checked(&mut self, at: usize) -> Option<Self> {
        (at <= self.len()).then(|| self.split_off(at))
    }
}

fn take(value: Value, path: &[String]) -> Option<Value> {
    let (first, rest) = path.split_first()?;
    match value {
        Value::Object(mut map) => {
            let inner = map.remove(first)?;
            if !rest.is_empty() {
                map.insert(first.clone(), take(inner, rest)?);
            }
            Some(Value::Object(map))
        }
        Value::Array(list) => {
            let at: usize = first.parse().ok()?;
            let mut kept = Vec::new();
            for (index, inner) in list.into_iter().enumerate() {
                match (index == at, rest.is_empty()) {
                    (false, _) => kept.push(inner),
                    (true, true) => {}
                    (true, false) => kept.push(take(inner, rest)?),
                }
            }
            Some(Value::Array(kept))
        }
        _ => None,
    }
}

/// The operation for a step on the current value, and the model's result.
fn model(value: &Value, step: &Step) -> (Value, Option<Value>) {
    let mut all = Vec::new();
    places(value, &Path::new(), &mut all);
    let pick = |index: &Index| index.get(&all).clone();
    let within = |index: &Index, name: &str| {
        let mut path = pick(index);
        match read(value, &path) {
            Some(Value::Array(list)) => {
                path.push(if name.len() > 1 {
                    "-".to_owned()
                } else {
                    list.len().to_string()
                });
            }
            Some(Value::Object(_)) => path.push(name.to_owned()),
            _ => {}
        }
        path
    };
    let pointer = |path: &Path| {
        path.iter()
            .map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1")))
            .collect::<String>()
    };
    match step {
        Step::Add(index, name, new) => {
            let path = within(index, name);
            let operation = json!({"op": "add", "path": pointer(&path), "value": new});
            (operation, put(value.clone(), &path, new.clone()))
        }
        Step::Remove(index) => {
            let path = pick(index);
            (
                json!({"op": "remove", "path": pointer(&path)}),
                take(value.clone(), &path),
            )
        }
        Step::Replace(index, new) => {
            let path = pick(index);
            let operation = json!({"op": "replace", "path": pointer(&path), "value": new});
            let without = if path.is_empty() {
                Some(Value::Null)
            } else {
                take(value.clone(), &path)
            };
            (
                operation,
                without.and_then(|without| put(without, &path, new.clone())),
            )
        }
        Step::Move(from, index, name) => {
            let from = pick(from);
            let path = within(index, name);
            let operation = json!({"op": "move", "from": pointer(&from), "path": pointer(&path)});
            let inside = path.starts_with(&from) && path.len() > from.len();
            let moved = read(value, &from).filter(|_| !inside && !from.is_empty());
            let result = moved.and_then(|moved| put(take(value.clone(), &from)?, &path, moved));
            (operation, result)
        }
        Step::Copy(from, index, name) => {
            let from = pick(from);
            let path = within(index, name);
            let operation = json!({"op": "copy", "from": pointer(&from), "path": pointer(&path)});
            (
                operation,
                read(value, &from).and_then(|copied| put(value.clone(), &path, copied)),
            )
        }
        Step::Test(index) => {
            let path = pick(index);
            let operation = json!({"op": "test", "path": pointer(&path), "value": read(value, &path)});
            (operation, Some(value.clone()))
        }
        Step::Astray(index) => {
            let path = [pick(index), vec!["no".to_owned(), "where".to_owned()]].concat();
            (json!({"op": "remove", "path": pointer(&path)}), None)
        }
    }
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (0..3).prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[ab~/]{1,2}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<Index>;
    let name = || "[ab~/]{1,2}";
    prop_oneof![
        8 => (index(), name(), tree()).prop_map(|(index, name, value)| Step::Add(index, name, value)),
        4 => index().prop_map(Step::Remove),
        4 => (index(), tree()).prop_map(|(index, value)| Step::Replace(index, value)),
        8 => (index(), index(), name()).prop_map(|(from, index, name)| Step::Move(from, index, name)),
        4 => (index(), index(), name()).prop_map(|(from, index, name)| Step::Copy(from, index, name)),
        2 => index().prop_map(Step::Test),
        1 => index().prop_map(Step::Astray),
    ]
}

proptest! {
    /// Sequences of operations that fit the value they are applied to: most succeed, and build on each other.
    #[test]
    fn patches_do_what_the_model_does(start in tree(), steps in prop::collection::vec(step(), 1..40)) {
        let mut expected = Some(start.clone());
        let mut operations = Vec::new();
        let mut done = start.clone();
        for step in &steps {
            let (operation, next) = model(&done, step);
            operations.push(operation);
            expected = next;
            match &expected {
                // The server must refuse what the model would not build.
                Some(next) if fits(next, DEPTH_MAX) && next.to_string().len() < 10_000 => done = next.clone(),
                Some(_) => { operations.pop(); expected = Some(done.clone()); }
                None => break,
            }
        }
        let patch = Value::Array(operations).to_string();
        let seen = json_patch(&start, patch.as_bytes()).ok();
        prop_assert_eq!(seen, expected, "{} on {}", patch, start);
    }

    /// The same operations one by one: each leaves a value within the bounds, or the value before it.
    #[test]
    fn nothing_deep_is_ever_built(steps in prop::collection::vec(step(), 1..60)) {
        let mut value = json!({"a": {}, "b": []});
        for step in &steps {
            let (operation, _) = model(&value, step);
            if let Ok(next) = json_patch(&value, Value::Array(vec![operation]).to_string().as_bytes()) {
                prop_assert!(fits(&next, DEPTH_MAX));
                value = next;
            }
            if value.to_string().len() > 20_000 {
                break;
            }
        }
    }
}
