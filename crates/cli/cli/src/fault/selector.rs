//! Label selectors as `kubectl --selector` has them, with labels and without sets of values. Pure.

use nephele_apiserver::is_label;
use serde_json::{Value, json};

/// A label selector from a list such as `team=blue,tier!=web,spot,!old`.
pub(super) fn parse(text: &str) -> Result<Value, &'static str> {
    let requirements = text.split(',').map(|part| requirement(part.trim()));
    Ok(json!({ "matchExpressions": requirements.collect::<Result<Vec<_>, _>>()? }))
}

fn requirement(part: &str) -> Result<Value, &'static str> {
    let (key, operator, value) = if let Some((key, value)) = part.split_once("!=") {
        (key, "NotIn", Some(value))
    } else if let Some((key, value)) = part.split_once('=') {
        // kubectl takes two equals signs, too.
        (key, "In", Some(value.strip_prefix('=').unwrap_or(value)))
    } else if let Some(key) = part.strip_prefix('!') {
        (key, "DoesNotExist", None)
    } else {
        (part, "Exists", None)
    };
    let key = key.trim();
    let value = value.map(str::trim);
    if !is_label(key, value.unwrap_or_default()) {
        return Err("must be a list such as key=value,key!=value,key,!key");
    }
    Ok(match value {
        Some(value) => json!({ "key": key, "operator": operator, "values": [value] }),
        None => json!({ "key": key, "operator": operator }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_requirement_is_read() {
        let expected = json!({ "matchExpressions": [
            { "key": "a", "operator": "In", "values": ["x"] },
            { "key": "b", "operator": "In", "values": [""] },
            { "key": "c", "operator": "NotIn", "values": ["y"] },
            { "key": "d/e", "operator": "Exists" },
            { "key": "f", "operator": "DoesNotExist" },
        ] });
        assert_eq!(parse("a=x,b==, c != y,d/e,!f"), Ok(expected));
        for wrong in [
            "", "a=x,", "=x", "!", "a in (x)", "a=b=c", "a==b==c", "a=b c", "a/b/c",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
