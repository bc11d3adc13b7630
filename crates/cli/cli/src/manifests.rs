//! Files with objects, read as `kubectl` reads them: several documents, lists of objects, anchors and merge keys.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow, bail};
use nephele_yaml::{Bounds, Dialect, YamlError};
use serde_json::Value;

/// The files are those of the person who runs this. The largest that people have are dumps of whole clusters; definitions
/// nest some forty levels deep.
pub(crate) const BOUNDS: Bounds = Bounds {
    text: 256 << 20,
    memory: 2 << 30,
    depth: 128,
    dialect: Dialect::Go,
};

/// Where an object is written.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    file: PathBuf,
    /// The number of the document, from one.
    document: usize,
    /// The numbers of the items of lists, from one.
    items: Vec<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for item in self.items.iter().rev() {
            write!(formatter, "item {item} of ")?;
        }
        write!(formatter, "document {} of {}", self.document, self.file.display())
    }
}

/// The objects of a text, in order. Empty documents count, but hold none. A list is replaced by its items, which have its
/// version and kind where they have none of their own, as in `kubectl get --output yaml`.
///
/// # Errors
/// When the text is not YAML.
pub(crate) fn objects(file: &Path, text: &str) -> anyhow::Result<Vec<(Place, Value)>> {
    let documents = nephele_yaml::read_all(text, &BOUNDS).map_err(|error| match error {
        YamlError::Document { number, message } => {
            let place = Place {
                file: file.to_owned(),
                document: number,
                items: Vec::new(),
            };
            anyhow!(message).context(format!("failed to read {place} as YAML; correct it there"))
        }
        other => anyhow!(other).context(format!("failed to read {}", file.display())),
    })?;
    let mut found = Vec::new();
    for (document, value) in documents {
        flatten(
            Place {
                file: file.to_owned(),
                document,
                items: Vec::new(),
            },
            value,
            &mut found,
        );
    }
    Ok(found)
}

/// The only object of a file.
///
/// # Errors
/// When the file cannot be read, is not YAML, or has another number of objects.
pub(crate) fn only_object(file: &Path) -> anyhow::Result<(Place, Value)> {
    let text = std::fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))?;
    let mut objects = objects(file, &text)?;
    match (objects.pop(), objects.len()) {
        (Some(only), 0) => Ok(only),
        (None, _) => bail!("{} has no object", file.display()),
        (Some(_), more) => bail!("{} has {} objects; give one", file.display(), more + 1),
    }
}

/// Lists nest no deeper than the text, which is bounded.
fn flatten(place: Place, mut value: Value, found: &mut Vec<(Place, Value)>) {
    let kind = value["kind"].as_str().unwrap_or_default().to_owned();
    if value.is_null() {
        return;
    }
    if !kind.ends_with("List") || !value["items"].is_array() {
        return found.push((place, value));
    }
    let items = value["items"]
        .as_array_mut()
        .map(std::mem::take)
        .unwrap_or_default();
    let version = value["apiVersion"].take();
    let item_kind = kind.strip_suffix("List").unwrap_or_default();
    for (index, mut item) in items.into_iter().enumerate() {
        if let Some(fields) = item.as_object_mut()
            && !fields.contains_key("apiVersion")
            && !fields.contains_key("kind")
            && !item_kind.is_empty()
        {
            fields.insert("apiVersion".to_owned(), version.clone());
            fields.insert("kind".to_owned(), item_kind.into());
        }
        let mut place = place.clone();
        place.items.push(index + 1);
        flatten(place, item, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, Value)> {
        let found = objects(Path::new("f.yaml"), text).expect("readable");
        found
            .into_iter()
            .map(|(place, value)| (place.to_string(), value))
            .collect()
    }

    fn object(kind: &str, name: &str) -> Value {
        serde_json::json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}})
    }

    #[test]
    fn items_of_lists_are_objects_with_a_place_of_their_own() {
        let text = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A, metadata: {name: a}}\n\
            - apiVersion: v1\n  kind: List\n  items: [{apiVersion: v1, kind: B, metadata: {name: b}}]\n\
            ---\napiVersion: v1\nkind: ConfigMapList\nmetadata: {}\nitems: [{metadata: {name: c}}]\n\
            ---\napiVersion: v1\nkind: List\nitems: []\n---\napiVersion: v1\nkind: D\nmetadata: {name: d}\n";
        assert_eq!(
            read(text),
            [
                ("item 1 of document 1 of f.yaml".to_owned(), object("A", "a")),
                (
                    "item 1 of item 2 of document 1 of f.yaml".to_owned(),
                    object("B", "b")
                ),
                (
                    "item 1 of document 2 of f.yaml".to_owned(),
                    object("ConfigMap", "c")
                ),
                ("document 4 of f.yaml".to_owned(), object("D", "d")),
            ]
        );
    }

    #[test]
    fn merge_keys_anchors_and_truth_values_are_those_of_kubectl() {
        let text = "base: &base {replicas: 3, class: worker, labels: {a: b}}\nlist:\n- {<<: *base, name: a}\n\
            - {<<: [*base, {zone: z}], replicas: 1}\nplain: *base\nis: yes\ntext: \"no\"\n";
        let expected = serde_json::json!({
            "base": {"replicas": 3, "class": "worker", "labels": {"a": "b"}},
            "list": [
                {"replicas": 3, "class": "worker", "labels": {"a": "b"}, "name": "a"},
                {"replicas": 1, "class": "worker", "labels": {"a": "b"}, "zone": "z"},
            ],
            "plain": {"replicas": 3, "class": "worker", "labels": {"a": "b"}},
            "is": true,
            "text": "no",
        });
        assert_eq!(read(text), [("document 1 of f.yaml".to_owned(), expected)]);
    }

    /// Charts and concatenated files have many of these.
    #[test]
    fn documents_without_an_object_and_line_ends_of_windows_are_passed_over() {
        let text = "# Source: a.yaml\n---\n---\n\n---\n# Source: b.yaml\napiVersion: v1\nkind: A\nmetadata: {name: a}\n\
            --- # c\nnull\n---\n   \n--- {apiVersion: v1, kind: B, metadata: {name: b}}\n...\n---\n# The end.\n";
        for text in [
            text.to_owned(),
            text.replace('\n', "\r\n"),
            format!("\u{feff}{text}"),
        ] {
            let found: Vec<_> = read(&text).into_iter().map(|(_, object)| object).collect();
            assert_eq!(found, [object("A", "a"), object("B", "b")], "{text:?}");
        }
        for text in ["", "---\n", "# Source: a.yaml\n---\n", "\u{feff}"] {
            assert_eq!(read(text), [], "{text:?}");
        }
    }

    #[test]
    fn a_file_of_one_object_has_no_other_number() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("f.yaml");
        let only = |text: &str| {
            std::fs::write(&file, text).expect("written");
            only_object(&file).map(|(_, value)| value["kind"].clone())
        };
        assert_eq!(only("---\n---\nkind: A\n").expect("one"), "A");
        assert_eq!(
            only("kind: List\nitems: [{kind: B, apiVersion: v1}]\n").expect("one"),
            "B"
        );
        for (text, expected) in [
            ("# none\n", "has no object"),
            ("kind: A\n---\nkind: B\n", "has 2 objects"),
        ] {
            let error = only(text).expect_err(expected);
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
