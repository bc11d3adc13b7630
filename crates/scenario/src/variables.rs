//! Variables in the texts of steps. Pure.

use serde_json::Value;

/// The round in which a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Round<'a> {
    /// From 1.
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
        while let Some(at) = rest.find('$') {
            replaced.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            if let Some(literal) = after.strip_prefix('$') {
                replaced.push('$');
                rest = literal;
                continue;
            }
            let variable = after.strip_prefix('(').and_then(|name| name.split_once(')'));
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

    /// Cases of `third_party/forked/golang/expansion` of Kubernetes among them.
    #[test]
    fn texts_are_expanded_as_kubernetes_does() {
        let round = Round { index: 2, item: Some("north-1a") };
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
        assert_eq!(Round { index: 1, item: None }.replaced("$(item) $(index)"), "$(item) 1");
    }

    #[test]
    fn all_texts_of_a_value_are_replaced_and_no_names() {
        let mut value = json!({ "a": ["$(item)", 1, null], "b": { "$(item)": "$(index)" }, "c": true });
        Round { index: 3, item: Some("x") }.replace_in(&mut value);
        assert_eq!(value, json!({ "a": ["x", 1, null], "b": { "$(item)": "3" }, "c": true }));
    }
}
