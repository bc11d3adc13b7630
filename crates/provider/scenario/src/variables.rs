//! Variables in the texts of steps. Pure.

use serde_json::Value;

/// The round in which a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Round<'a> {
    pub(crate) index: usize,
    /// The value of forEach; none in a round of repeat.
    pub(crate) item: Option<&'a str>,
}

impl Round<'_> {
    fn value(self, variable: &str) -> Option<String> {
        match variable {
            "index" => Some(self.index.to_string()),
            "item" => self.item.map(str::to_owned),
            _ => None,
        }
    }

    /// Replaces the variables in all texts of a value. Names of fields have no variables.
    pub(crate) fn replace_in(self, value: &mut Value) {
        match value {
            Value::String(text) if text.contains('$') => *text = self.replaced(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace_in(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.replace_in(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// The text with its variables replaced, as Kubernetes does it in the arguments of containers: `$$` stands for `$`, and
    /// what is not a known variable stays.
    fn replaced(self, text: &str) -> String {
        let mut replaced = String::with_capacity(text.len());
        let mut rest = text;
        // Where no variable ends, none is looked for again: otherwise each `$(` would go through the rest of the text.
        let mut may_end = true;
        while let Some((before, after)) = rest.split_once('$') {
            replaced.push_str(before);
            if let Some(literal) = after.strip_prefix('$') {
                replaced.push('$');
                rest = literal;
                continue;
            }
            let begun = after.strip_prefix('(').filter(|_| may_end);
            let variable = begun.and_then(|name| name.split_once(')'));
            if begun.is_some() {
                may_end = variable.is_some();
            }
            if let Some((name, end)) = variable {
                let value = self.value(name);
                replaced.push_str(&value.unwrap_or_else(|| format!("$({name})")));
                rest = end;
                continue;
            }
            replaced.push('$');
            rest = after;
        }
        replaced.push_str(rest);
        replaced
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_pattern_takes_longer_than_its_length_allows() {
        nephele_growth::assert_linear("variables", 64 * 1024, &[""], |text| {
            let _ = Round {
                index: 2,
                item: Some("a"),
            }
            .replaced(text);
        });
    }

    /// Cases of `third_party/forked/golang/expansion` of Kubernetes among them.
    #[test]
    fn texts_are_expanded_as_kubernetes_does() {
        let round = Round {
            index: 2,
            item: Some("north-1a"),
        };
        for (text, expected) in [
            ("", ""),
            ("zone", "zone"),
            ("$(item)", "north-1a"),
            ("zone-$(item)-$(index)!", "zone-north-1a-2!"),
            ("$(item)$(item)", "north-1anorth-1a"),
            ("$$(item)", "$(item)"),
            ("$$$(item)", "$north-1a"),
            ("$$$$(item)", "$$(item)"),
            ("$(other) $()", "$(other) $()"),
            ("$(item", "$(item"),
            ("$item ${item} 5$", "$item ${item} 5$"),
            ("$", "$"),
            ("ä$(index)ö", "ä2ö"),
        ] {
            assert_eq!(round.replaced(text), expected, "{text}");
        }
        assert_eq!(
            Round { index: 1, item: None }.replaced("$(item) $(index)"),
            "$(item) 1"
        );
    }

    #[test]
    fn all_texts_of_a_value_are_replaced_and_no_names() {
        let mut value = json!({ "a": ["$(item)", 1, null], "b": { "$(item)": "$(index)" }, "c": true });
        Round {
            index: 3,
            item: Some("x"),
        }
        .replace_in(&mut value);
        assert_eq!(
            value,
            json!({ "a": ["x", 1, null], "b": { "$(item)": "3" }, "c": true })
        );
    }
}
