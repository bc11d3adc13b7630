//! Bodies of requests: objects with mistakes, random trees, and random bytes.

use rand::{Rng, RngExt as _, seq::IndexedRandom as _};
use serde_json::{Map, Value, json};

/// The names of fields that the server reads.
const FIELDS: [&str; 44] = [
    "kind",
    "apiVersion",
    "metadata",
    "name",
    "namespace",
    "generateName",
    "labels",
    "annotations",
    "uid",
    "resourceVersion",
    "generation",
    "finalizers",
    "ownerReferences",
    "deletionTimestamp",
    "creationTimestamp",
    "spec",
    "status",
    "data",
    "stringData",
    "replicas",
    "nodeName",
    "selector",
    "matchLabels",
    "names",
    "plural",
    "group",
    "versions",
    "scope",
    "conditions",
    "containers",
    "target",
    "deleteOptions",
    "preconditions",
    "propagationPolicy",
    "minAvailable",
    "maxUnavailable",
    "taints",
    "addresses",
    "type",
    "template",
    "ports",
    "$patch",
    "items",
    "involvedObject",
];

/// A string: a known word, a string that looks like one, or random characters.
pub(crate) fn text(draws: &mut impl Rng) -> String {
    let words = [
        "",
        "default",
        "a",
        "n1",
        "..",
        "A_b",
        "x.io",
        "é",
        "2026-01-02T03:04:05Z",
        "-1",
        "100%",
        "\u{0}",
        "a/b",
        "*",
    ];
    match draws.random_range(0..10) {
        0..7 => (*words.choose(draws).expect("there are words")).to_owned(),
        7 | 8 => (0..draws.random_range(0..12))
            .map(|_| char::from(draws.random_range(0x20..0x7f_u8)))
            .collect(),
        _ => "x".repeat(draws.random_range(0..400)),
    }
}

/// A value that is not a list or object.
pub(crate) fn scalar(draws: &mut impl Rng) -> Value {
    match draws.random_range(0..6) {
        0 => Value::Null,
        1 => draws.random::<bool>().into(),
        2 => draws.random::<i64>().into(),
        3 => draws.random_range(-3..10).into(),
        4 => f64::from_bits(draws.random()).into(),
        _ => text(draws).into(),
    }
}

/// A tree of at most `levels` levels.
pub(crate) fn tree(draws: &mut impl Rng, levels: usize) -> Value {
    if levels == 0 {
        return scalar(draws);
    }
    match draws.random_range(0..10) {
        0..2 => scalar(draws),
        2..4 => (0..draws.random_range(0..4))
            .map(|_| tree(draws, levels - 1))
            .collect(),
        _ => {
            let mut map = Map::new();
            for _ in 0..draws.random_range(0..5) {
                let field = *FIELDS.choose(draws).expect("there are fields");
                map.insert(field.to_owned(), tree(draws, levels - 1));
            }
            Value::Object(map)
        }
    }
}

/// A value with one path of many levels, as deep as a parser accepts, or deeper.
pub(crate) fn deep(draws: &mut impl Rng) -> Value {
    let levels = *[3, 50, 95, 99, 100, 101, 120]
        .choose(draws)
        .expect("there are depths");
    let list = draws.random();
    (0..levels).fold(scalar(draws), |inner, _| {
        if list {
            json!([inner])
        } else {
            json!({ "a": inner })
        }
    })
}

fn owner(draws: &mut impl Rng) -> Value {
    let kinds = [
        ("v1", "ConfigMap"),
        ("v1", "Node"),
        ("apps/v1", "Deployment"),
        ("x.io/v1", "Thing"),
        ("none/v1", "None"),
    ];
    let (api_version, kind) = *kinds.choose(draws).expect("there are kinds");
    let name = format!("n{}", draws.random_range(0..12));
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": text(draws),
           "controller": draws.random::<bool>(), "blockOwnerDeletion": draws.random::<bool>()})
}

/// An object that is mostly well formed.
pub(crate) fn object(
    draws: &mut impl Rng,
    api_version: &str,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Value {
    let mut metadata = json!({"name": name});
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    for _ in 0..draws.random_range(0..3) {
        match draws.random_range(0..8) {
            0 => metadata["labels"] = json!({"app": text(draws), "n": "1"}),
            1 => metadata["finalizers"] = json!(["x.io/held"]),
            2 => metadata["ownerReferences"] = (0..draws.random_range(1..4)).map(|_| owner(draws)).collect(),
            3 => {
                metadata = json!({"generateName": text(draws), "namespace": namespace});
            }
            4 => metadata["annotations"] = json!({"a": "x".repeat(draws.random_range(0..2000))}),
            5 => metadata["finalizers"] = (0..draws.random_range(0..3000)).map(Value::from).collect(),
            6 => metadata["resourceVersion"] = draws.random_range(0..2000_u32).to_string().into(),
            _ => {
                let field = *FIELDS.choose(draws).expect("there are fields");
                metadata[field] = tree(draws, 3);
            }
        }
    }
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    match kind {
        "CustomResourceDefinition" => object["spec"] = definition(draws, name),
        "ConfigMap" | "Secret" => {
            object["data"] = json!({"k": "dg==", "list": "x".repeat(draws.random_range(0..3000))});
        }
        "PodDisruptionBudget" => {
            object["spec"] = json!({"selector": {"matchLabels": {"app": text(draws)}}, "minAvailable": scalar(draws),
                                    "maxUnavailable": scalar(draws)});
        }
        _ => {
            object["spec"] = json!({"replicas": scalar(draws), "list": [1, 2, 3], "map": {},
                                    "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 1}]}],
                                    "taints": [{"key": "a", "effect": "NoSchedule"}]});
            object["status"] =
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        }
    }
    match draws.random_range(0..12) {
        0 => object["spec"] = tree(draws, 8),
        1 => object["status"] = tree(draws, 8),
        2 => object["spec"] = json!({"deep": deep(draws)}),
        _ => {}
    }
    object
}

fn definition(draws: &mut impl Rng, name: &str) -> Value {
    let (plural, group) = name.split_once('.').unwrap_or((name, "x.io"));
    let paths = [
        ".spec.size",
        ".a.b[?(@.c==\"d\")].e",
        "[[",
        ".".repeat(5000).as_str(),
        "['a']",
        ".*[*]..",
        &text(draws),
    ]
    .map(str::to_owned);
    let columns: Vec<_> = (0..draws.random_range(0..4))
        .map(|_| {
            let path = paths.choose(draws).expect("there are paths");
            let kind = *["string", "integer", "date", "number", "boolean", ""]
                .choose(draws)
                .expect("there are types");
            json!({"name": text(draws), "type": kind, "jsonPath": path, "priority": scalar(draws)})
        })
        .collect();
    let versions: Vec<_> = (0..draws.random_range(1..3))
        .map(|index| {
            json!({"name": format!("v{}", index + 1), "served": draws.random_ratio(5, 6), "storage": index == 0,
                   "additionalPrinterColumns": columns, "subresources": {"status": {}, "scale": scalar(draws)},
                   "schema": deep(draws)})
        })
        .collect();
    json!({"group": group, "scope": if draws.random_ratio(3, 4) { "Namespaced" } else { "Cluster" },
           "names": {"plural": plural, "kind": "Thing", "shortNames": [text(draws)]}, "versions": versions})
}

/// Options of a deletion.
pub(crate) fn options(draws: &mut impl Rng) -> Value {
    json!({"propagationPolicy": text(draws), "orphanDependents": scalar(draws), "gracePeriodSeconds": scalar(draws),
           "preconditions": {"uid": scalar(draws), "resourceVersion": scalar(draws)}, "dryRun": scalar(draws)})
}

/// Bytes that may look like the beginning of a body.
pub(crate) fn bytes(draws: &mut impl Rng) -> Vec<u8> {
    let starts: [&[u8]; 5] = [b"", b"{\"a\":", b"[[[[", b"k8s\0", b"\"\\ud800"];
    let mut bytes = starts.choose(draws).expect("there are starts").to_vec();
    if draws.random_ratio(1, 10) {
        // Deeper than any parser accepts.
        return b"[".repeat(draws.random_range(1..200_000));
    }
    bytes.extend((0..draws.random_range(0..300)).map(|_| draws.random::<u8>()));
    bytes
}

/// A protobuf body of a kind, with random fields. Some of them are messages with such fields.
pub(crate) fn protobuf(draws: &mut impl Rng, api_version: &str, kind: &str) -> Vec<u8> {
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    let mut raw = message(draws, 6);
    if draws.random_ratio(1, 10) {
        // Messages nested in messages, deeper than those of any kind.
        for _ in 0..draws.random_range(0..2000) {
            raw = field(draws.random_range(1..12), &raw);
        }
    }
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, &raw)].concat()
}

fn message(draws: &mut impl Rng, levels: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..draws.random_range(0..6) {
        let number = draws.random_range(1..40);
        match draws.random_range(0..4) {
            0 => {
                out.extend(varint(number << 3));
                out.extend(varint(draws.random()));
            }
            1 => out.extend(field(number, text(draws).as_bytes())),
            2 => out.extend(field(number, &bytes(draws)[..])),
            _ if levels > 0 => out.extend(field(number, &message(draws, levels - 1))),
            _ => {}
        }
    }
    out
}

fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    [
        varint(number << 3 | 2),
        varint(bytes.len() as u64),
        bytes.to_vec(),
    ]
    .concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}
