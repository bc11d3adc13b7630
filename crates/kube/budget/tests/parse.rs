//! What a parse really allocates.

use nephele_budget::{Parse, parsed_size};
use serde_json::Value;
use tikv_jemalloc_ctl::{epoch, stats};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The smallest values, and ones that nest or repeat.
const PIECES: [&str; 14] = [
    "{}",
    "[]",
    r#"{"":0}"#,
    "[[]]",
    r#""""#,
    "0",
    "[0]",
    r#"[{"":{}}]"#,
    r#"{"":[0]}"#,
    r#"{"a":1,"b":2}"#,
    "null",
    "[0,0,0,0,0]",
    r#""0123456789abcdef0123456789abcdef0""#,
    "1.5e300",
];

/// The bytes of each generated text.
const LENGTH: usize = 2 << 20;

fn allocated() -> usize {
    epoch::advance()
        .and_then(|_| stats::allocated::read())
        .expect("the allocator counts")
}

/// One test, because it counts what the whole process allocates.
#[test]
fn no_parse_allocates_more_than_its_size() {
    for piece in PIECES {
        let list = format!(
            "[{piece}{}]",
            format!(",{piece}").repeat(LENGTH / (piece.len() + 1))
        );
        let map: String = (0..LENGTH / (piece.len() + 10))
            .map(|index| format!(",\"{index:06x}\":{piece}"))
            .collect();
        let map = format!("{{{}}}", &map[1..]);
        for text in [list, map] {
            let before = allocated();
            let value: Value = serde_json::from_str(&text).expect("it is JSON");
            let taken = allocated().saturating_sub(before);
            let size = parsed_size(text.as_bytes(), Parse::Values);
            assert!(
                taken <= size,
                "{}… takes {taken} bytes and counts as {size}",
                &text[..40]
            );
            // A bound that is far too high would refuse what people have.
            assert!(
                size <= 8 * taken.max(text.len()),
                "{}… takes {taken} and counts as {size}",
                &text[..40]
            );
            drop(value);
        }
    }
}
