//! What a parse takes.

/// An entry of a map: its share of the nodes of a B-tree whose leaves hold 5 to 11 entries of 56 bytes.
const ENTRY: usize = 160;
/// A map: the first leaf of its tree, which an empty map has not. A struct of the largest kind that is in lists.
const MAP: usize = 640;
/// A list: its first allocation, which has room for four values.
const LIST: usize = 128;
/// An element: a value of 32 bytes, twice as much room because a list doubles, and half of it once more while it moves.
const ELEMENT: usize = 96;
/// A text: the smallest allocation. Its bytes count as well.
const TEXT: usize = 24;

/// What a parse makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parse {
    /// A tree of values.
    Values,
    /// Structs, in which an empty map takes as much as a full one.
    Types,
}

/// An upper bound for the bytes that a parse of this JSON allocates, also when it is no JSON. Looks at each byte once and
/// allocates nothing.
///
/// Measured with `serde_json::Value` on 64 bits: `{"":0},` of 7 bytes becomes 664 bytes. Each kind of byte counts as the
/// most that it can begin.
#[must_use]
pub fn parsed_size(json: &[u8], parse: Parse) -> usize {
    largest_parsed_size(json, parse, 0)
}

/// As [`parsed_size`], of the largest value that is inside so many maps and lists, for a parse that keeps one of these at
/// a time and skips the rest.
#[must_use]
pub fn largest_parsed_size(json: &[u8], parse: Parse, levels: usize) -> usize {
    let mut largest = 0_usize;
    let mut size = 0_usize;
    let mut depth = 0_usize;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        size = size.saturating_add(1);
        match byte {
            b'"' => {
                size = size.saturating_add(TEXT);
                while let Some(byte) = bytes.next() {
                    size = size.saturating_add(1);
                    match byte {
                        b'"' => break,
                        b'\\' => {
                            bytes.next();
                            size = size.saturating_add(1);
                        }
                        _ => {}
                    }
                }
            }
            b'{' => {
                depth += 1;
                let next = bytes.as_slice().iter().find(|byte| !byte.is_ascii_whitespace());
                if parse == Parse::Types || next != Some(&b'}') {
                    size = size.saturating_add(MAP);
                }
            }
            b'[' => {
                depth += 1;
                size = size.saturating_add(LIST + ELEMENT);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b':' => size = size.saturating_add(ENTRY),
            b',' if depth <= levels && levels > 0 => {
                largest = largest.max(size);
                size = 0;
            }
            b',' => size = size.saturating_add(ELEMENT),
            _ => {}
        }
    }
    largest.max(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_text_begins_nothing() {
        assert_eq!(parsed_size(br#""{[:,\"{[""#, Parse::Values), 10 + TEXT);
        assert_eq!(parsed_size(b"[{ },{}]", Parse::Values), 8 + LIST + 2 * ELEMENT);
        assert_eq!(
            parsed_size(b"[{ },{}]", Parse::Types),
            8 + LIST + 2 * ELEMENT + 2 * MAP
        );
        assert_eq!(
            parsed_size(br#"{"a":[0,"b"]}"#, Parse::Values),
            13 + MAP + ENTRY + LIST + 2 * ELEMENT + 2 * TEXT
        );
    }

    #[test]
    fn the_largest_value_of_a_list_counts_where_one_is_kept_at_a_time() {
        let list = |objects: &str| format!("{{\"request\":{{\"objects\":[{objects}]}}}}");
        let one = largest_parsed_size(list("[0,0,0]").as_bytes(), Parse::Values, 3);
        let many = largest_parsed_size(list(&"[0,0,0],".repeat(100)).as_bytes(), Parse::Values, 3);
        assert!(many <= one, "{many} and {one}");
        assert!(
            largest_parsed_size(
                list(&format!("[0],[{}0]", "0,".repeat(200))).as_bytes(),
                Parse::Values,
                3
            ) > one
        );
        assert!(parsed_size(list(&"[0,0,0],".repeat(100)).as_bytes(), Parse::Values) > 10 * one);
    }

    #[test]
    fn what_is_no_json_has_a_size_too() {
        for bytes in [&b""[..], b"\"", b"\"\\", b"\xff\xfe", b"]]}},"] {
            assert!(parsed_size(bytes, Parse::Types) >= bytes.len(), "{bytes:?}");
        }
    }
}
