//! The files of `--file`: YAML documents, each with an object of any kind.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow, bail};
use kube::{
    ResourceExt as _,
    api::DynamicObject,
    core::{GroupVersionKind, TypeMeta},
};
use serde_json::Value;

use crate::manifests::{Place, objects};

/// An object, and where it is written.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) place: Place,
    pub(super) kind: GroupVersionKind,
    pub(super) object: DynamicObject,
}

impl fmt::Display for Document {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, kind, object } = self;
        let namespace = object
            .namespace()
            .map(|namespace| format!("{namespace}/"))
            .unwrap_or_default();
        write!(
            formatter,
            "{} {namespace}{} ({place})",
            kind.kind,
            object.name_any()
        )
    }
}

/// Reads the documents of all files, in order.
pub(super) fn read_all(files: &[PathBuf]) -> anyhow::Result<Vec<Document>> {
    let mut documents = Vec::new();
    for file in files {
        if file == Path::new("-") {
            bail!("--file - is not possible, because the process ends with its standard input; name a file");
        }
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("failed to read {} (--file)", file.display()))?;
        documents.extend(parse(file, &text)?);
    }
    Ok(documents)
}

fn parse(file: &Path, text: &str) -> anyhow::Result<Vec<Document>> {
    objects(file, text)?
        .into_iter()
        .map(|(place, value)| object(place, value))
        .collect()
}

fn object(place: Place, value: Value) -> anyhow::Result<Document> {
    let object: DynamicObject = serde_json::from_value(value).with_context(|| {
        format!("failed to read {place} as an object; it needs apiVersion, kind and metadata.name")
    })?;
    let types: TypeMeta = object
        .types
        .clone()
        .ok_or_else(|| anyhow!("{place} has no apiVersion or no kind; add it"))?;
    let kind = GroupVersionKind::try_from(types)
        .with_context(|| format!("failed to read the apiVersion of {place}; it is GROUP/VERSION"))?;
    let names = [&object.metadata.name, &object.metadata.generate_name];
    if names.iter().all(|name| name.as_deref().is_none_or(str::is_empty)) {
        bail!("the {} in {place} has no metadata.name; add it", kind.kind);
    }
    Ok(Document { place, kind, object })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "# A comment.\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n---\n---\n\
        apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: a, namespace: team}\nspec: {any: [1]}\n";

    #[test]
    fn documents_keep_their_order_number_and_content() {
        let documents = parse(Path::new("f.yaml"), TWO).expect("readable");
        let named: Vec<_> = documents.iter().map(ToString::to_string).collect();
        assert_eq!(
            named,
            [
                "Namespace team (document 1 of f.yaml)",
                "Cluster team/a (document 3 of f.yaml)"
            ]
        );
        assert_eq!(documents[1].object.data["spec"]["any"][0], 1);
        assert_eq!(documents[1].kind.api_version(), "cluster.x-k8s.io/v1beta2");
    }

    #[test]
    fn a_list_and_a_name_that_the_api_server_makes_are_read() {
        let text =
            "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: A, metadata: {generateName: ci-}}]\n";
        let documents = parse(Path::new("f"), text).expect("readable");
        let named: Vec<_> = documents.iter().map(ToString::to_string).collect();
        assert_eq!(named, ["A ci- (item 1 of document 1 of f)"]);
    }

    #[test]
    fn error_names_the_file_the_document_and_what_to_do() {
        for (text, expected) in [
            (
                "apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\na: [",
                "failed to read document 2 of f.yaml as YAML",
            ),
            ("just text", "failed to read document 1 of f.yaml as an object"),
            (
                "metadata: {name: a}",
                "document 1 of f.yaml has no apiVersion or no kind; add it",
            ),
            (
                "apiVersion: v1\nmetadata: {name: a}",
                "document 1 of f.yaml has no apiVersion or no kind; add it",
            ),
            (
                "apiVersion: v1\nkind: A\nmetadata: {}",
                "the A in document 1 of f.yaml has no metadata.name; add it",
            ),
        ] {
            let error = parse(Path::new("f.yaml"), text).expect_err(expected);
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }

    #[test]
    fn standard_input_is_not_a_file() {
        let error = read_all(&[PathBuf::from("-")]).expect_err("refused");
        assert!(error.to_string().contains("name a file"), "{error}");
    }
}
