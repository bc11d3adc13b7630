use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;

const BOUNDS: Bounds = Bounds {
    text: 64 * 1024,
    memory: 4 * 1024 * 1024,
    depth: 64,
    dialect: Dialect::Strict,
};

fn read(text: &str) -> Result<Value, YamlError> {
    read_one(text, &BOUNDS)
}

/// A parser that looks through its stack for each token, such as that of `serde_yaml_ng`, fails at `[?`: 15 times as
/// long for four times the text.
#[test]
fn no_pattern_takes_longer_than_its_length_allows() {
    nephele_growth::assert_linear("YAML", 32 * 1024, &["", "a: "], |text| {
        let _ = read_all(text, &BOUNDS);
    });
}

#[test]
fn values_are_those_that_json_has() {
    for (text, expected) in [
        ("", json!(null)),
        ("# nothing\n", json!(null)),
        (
            "a: {b: [1, -2, 0.5, true, t, '1', null, ~]}\n",
            json!({"a": {"b": [1, -2, 0.5, true, "t", "1", null, null]}}),
        ),
        (
            "1: yes\ntrue: 'yes'\ny: on\n",
            json!({"1": "yes", "true": "yes", "y": "on"}),
        ),
        (
            "a: &x {k: v}\nb: *x\nc:\n  <<: *x\n  l: w\n",
            json!({"a": {"k": "v"}, "b": {"k": "v"}, "c": {"k": "v", "l": "w"}}),
        ),
        ("a: |\n  one\n  two\n", json!({"a": "one\ntwo\n"})),
        ("a: 18446744073709551615\n", json!({"a": u64::MAX})),
    ] {
        assert_eq!(read(text), Ok(expected), "{text}");
    }
}

#[test]
fn a_message_names_the_document_that_is_wrong() {
    for (text, message) in [
        ("a: [", "document 1 must be YAML: "),
        ("a: 1\na: 2\n", "document 1 must be YAML: "),
        ("1: a\n'1': b\n", "document 1 must be YAML: "),
        ("a: .nan\n", "document 1 must be YAML: "),
        ("? [a]\n: b\n", "document 1 must be YAML: "),
        ("a: *b\n", "document 1 must be YAML: "),
        ("a: 1\n---\nb: 2\n", "must be one document, not 2"),
    ] {
        let error = read(text).expect_err(text).to_string();
        assert!(error.starts_with(message) && error.len() < 600, "{text}: {error}");
    }
    let error = read_all("a: 1\n---\n# none\n---\nb: [\n", &BOUNDS).expect_err("no end");
    assert!(
        error.to_string().starts_with("document 3 must be YAML: "),
        "{error}"
    );
    let long = "a".repeat(BOUNDS.text + 1);
    assert_eq!(
        read(&long),
        Err(YamlError::Long {
            max: 65536,
            found: 65537
        })
    );
    let go = Bounds {
        dialect: Dialect::Go,
        ..BOUNDS
    };
    assert_eq!(
        read_one("a: 1\na: 2\nb: on\n", &go),
        Ok(json!({"a": 2, "b": true}))
    );
}

#[test]
fn nesting_is_bounded() {
    for (open, close) in [("[", "]"), ("{a: ", "}"), ("- ", "")] {
        for (levels, is_read) in [(60, true), (70, false), (10_000, false)] {
            let text = format!("{}1{}", open.repeat(levels), close.repeat(levels));
            let read = read(&text);
            assert_eq!(read.is_ok(), is_read, "{open} {levels}: {read:?}");
        }
    }
}

/// Nine levels of ten aliases are a thousand million values.
#[test]
fn anchors_do_not_explode() {
    let mut text = "a0: &a0 [x]\n".to_owned();
    for level in 1..10 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    let message = read(&text).expect_err("too large").to_string();
    assert!(message.contains("too large"), "{message}");
    // Few aliases of a long text.
    let long = format!(
        "a: &a {}\nb: [{}]\n",
        "x".repeat(50_000),
        vec!["*a"; 1000].join(", ")
    );
    let message = read(&long).expect_err("too large").to_string();
    assert!(message.contains("too large"), "{message}");
    // Each anchor has all that come after it.
    let nested = format!("{}x{}", "&a [".repeat(60), ",x]".repeat(60));
    read(&nested).expect("it is small");
}

/// What the values of a JSON text take at least, by the sizes of the standard library's types.
fn memory(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.capacity(),
        Value::Array(items) => {
            items.capacity() * size_of::<Value>() + items.iter().map(memory).sum::<usize>()
        }
        Value::Object(members) => {
            let leaf = 11 * (size_of::<String>() + size_of::<Value>());
            let leaves = members.len().div_ceil(5).max(usize::from(!members.is_empty()));
            leaves * leaf
                + members
                    .iter()
                    .map(|(name, value)| name.capacity() + memory(value))
                    .sum::<usize>()
        }
    }
}

#[test]
fn small_values_are_counted_as_large_as_they_are() {
    for item in [
        "[],",
        "{},",
        "{a: 0},",
        "[[]],",
        "{\"\": 0},",
        "'',",
        "0,",
        "{a: {a: {}}},",
    ] {
        let text = format!("[{}]", item.repeat((BOUNDS.text - 2) / item.len()));
        let bounds = Bounds {
            memory: usize::MAX,
            ..BOUNDS
        };
        let value = read_one(&text, &bounds).expect(item);
        let needed = memory(&value);
        let tight = Bounds {
            memory: needed - 1,
            ..BOUNDS
        };
        read_one(&text, &tight).expect_err("it takes more than that");
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(vec![u64::MAX, u64::MAX - 1, 1 << 63]).prop_map(Value::from),
        "\\PC{0,20}|[ \\n\\t:#'\"-]{0,6}|yes|no|on|~|null|0x10|0o7|1e3|1_000|12:30|2001-01-01|---|\\.inf"
            .prop_map(Value::from),
        "[a-zA-Z0-9+/]{100,200}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec(("\\PC{0,8}", inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_it_was(value in value()) {
        let text = write(&value);
        for dialect in [Dialect::Strict, Dialect::Go] {
            let read = read_one(&text, &Bounds { dialect, ..BOUNDS });
            prop_assert_eq!(read.as_ref(), Ok(&value), "{}", text);
        }
    }

    #[test]
    fn no_text_panics(text in "[-a1:,&*<>!|?%'\"#~@{}\\[\\] \\n\\t.]{0,80}") {
        let _ = read_all(&text, &BOUNDS);
    }
}
