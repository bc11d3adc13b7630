//! Patches of three types. Most of them can be applied.

use rand::{Rng, RngExt as _, seq::IndexedRandom as _};
use serde_json::{Map, Value, json};

use crate::body::{deep, scalar, text, tree};

/// Paths that most objects have, or similar ones.
const PLACES: [&str; 20] = [
    "",
    "/metadata",
    "/metadata/labels",
    "/metadata/labels/app",
    "/metadata/annotations",
    "/metadata/finalizers",
    "/metadata/finalizers/0",
    "/metadata/name",
    "/metadata/ownerReferences",
    "/spec",
    "/spec/map",
    "/spec/map/a",
    "/spec/map/b",
    "/spec/list",
    "/spec/list/0",
    "/spec/list/-",
    "/spec/replicas",
    "/status",
    "/data",
    "/nope/x",
];

fn place(draws: &mut impl Rng) -> String {
    let place = *PLACES.choose(draws).expect("there are places");
    if draws.random_ratio(1, 6) {
        format!("{place}/{}", text(draws).replace('/', "~1"))
    } else {
        place.to_owned()
    }
}

/// A JSON patch.
pub(crate) fn json(draws: &mut impl Rng) -> Value {
    match draws.random_range(0..60) {
        0 => nest_by_moving(draws),
        1 => nest_by_copying(draws),
        2 => shift(draws),
        3 => tree(draws, 5),
        _ => (0..draws.random_range(0..8)).map(|_| operation(draws)).collect(),
    }
}

fn operation(draws: &mut impl Rng) -> Value {
    let path = place(draws);
    let from = place(draws);
    match draws.random_range(0..16) {
        0..4 => json!({"op": "add", "path": path, "value": tree(draws, 3)}),
        4 => json!({"op": "add", "path": path, "value": deep(draws)}),
        5 | 6 => json!({"op": "remove", "path": path}),
        7 | 8 => json!({"op": "replace", "path": path, "value": scalar(draws)}),
        9..12 => json!({"op": "move", "from": from, "path": path}),
        12 | 13 => json!({"op": "copy", "from": from, "path": path}),
        14 => json!({"op": "test", "path": path, "value": scalar(draws)}),
        _ => json!({"op": text(draws), "path": text(draws), "value": scalar(draws)}),
    }
}

/// A patch that adds a level with each pair of operations.
fn nest_by_moving(draws: &mut impl Rng) -> Value {
    let mut operations = vec![json!({"op": "add", "path": "/spec/map", "value": {"a": {}}})];
    let mut last = "a";
    for _ in 0..draws.random_range(1..5000) {
        let next = if last == "a" { "b" } else { "a" };
        operations.push(json!({"op": "add", "path": format!("/spec/map/{next}"), "value": {}}));
        operations.push(
            json!({"op": "move", "from": format!("/spec/map/{last}"), "path": format!("/spec/map/{next}/x")}),
        );
        last = next;
    }
    Value::Array(operations)
}

/// A patch that doubles the levels or the size with each operation.
fn nest_by_copying(draws: &mut impl Rng) -> Value {
    let mut operations = vec![json!({"op": "add", "path": "/spec/map", "value": {"a": {}}})];
    let deepen = draws.random();
    let mut end = "/spec/map/a".to_owned();
    for round in 0..draws.random_range(1..18_usize) {
        let path = if deepen {
            format!("{end}/a")
        } else {
            format!("/spec/map/a/c{round}")
        };
        operations.push(json!({"op": "copy", "from": "/spec/map/a", "path": path}));
        if deepen {
            end.push_str(&"/a".repeat(1 << round.min(14)));
        }
    }
    Value::Array(operations)
}

/// A patch that inserts at the front of a growing list.
fn shift(draws: &mut impl Rng) -> Value {
    let list: Vec<_> = (0..draws.random_range(0..50_000)).collect();
    let mut operations = vec![json!({"op": "add", "path": "/spec/list", "value": list})];
    let insert = json!({"op": "add", "path": "/spec/list/0", "value": 0});
    operations.extend(vec![insert; draws.random_range(0..10_010)]);
    Value::Array(operations)
}

/// A merge patch.
pub(crate) fn merge(draws: &mut impl Rng) -> Value {
    match draws.random_range(0..12) {
        0 => tree(draws, 6),
        1 => json!({"spec": {"deep": deep(draws)}}),
        2 => json!({"metadata": {"finalizers": null}}),
        3 => json!({"metadata": tree(draws, 3)}),
        4 => json!({"spec": {text(draws): "x".repeat(draws.random_range(0..200_000))}}),
        _ => {
            json!({"metadata": {"labels": {"app": text(draws)}}, "spec": {"replicas": scalar(draws)}, "data": {"k": scalar(draws)}})
        }
    }
}

/// A strategic merge patch with directives, in right and wrong places.
pub(crate) fn strategic(draws: &mut impl Rng) -> Value {
    let mut patch = merge(draws);
    if !patch.is_object() {
        return patch;
    }
    for _ in 0..draws.random_range(0..3) {
        let scalars: Vec<_> = (0..draws.random_range(0..2000))
            .map(|index| json!(format!("x.io/f{index}")))
            .collect();
        match draws.random_range(0..7) {
            0 => patch["$patch"] = text(draws).into(),
            1 => patch["spec"] = json!({"containers": [{"name": "c", "$patch": "delete"}, tree(draws, 2)]}),
            2 => {
                patch["metadata"] =
                    json!({"finalizers": scalars, "$setElementOrder/finalizers": [scalar(draws)]});
            }
            3 => patch["metadata"] = json!({"$deleteFromPrimitiveList/finalizers": scalars}),
            4 => patch["spec"] = json!({"$retainKeys": tree(draws, 1), "replicas": 1}),
            5 => {
                patch["spec"] =
                    json!({"containers": [{"name": scalar(draws)}, {"name": "c", "image": scalar(draws)}]});
            }
            _ => {
                let mut map = Map::new();
                map.insert(format!("$setElementOrder/{}", text(draws)), tree(draws, 2));
                patch["spec"] = Value::Object(map);
            }
        }
    }
    patch
}
