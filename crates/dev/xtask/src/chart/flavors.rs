//! The cluster templates of `config/templates` in the chart: a ConfigMap with a key for each flavor, for
//! `clusterctl generate cluster --from-config-map`.

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};
use nephele_components as components;
use serde_json::Value;

use super::object::{id, of_kind, read, text};
use crate::{dashboard, files, paths};

const FOLDER: &str = "config/templates";
/// The key that clusterctl reads when it is given none (`DefaultCustomTemplateConfigMapKey`).
const DEFAULT: &str = "template";
/// Less than the 1 MiB that a ConfigMap may have.
const BYTES_MAX: usize = 1 << 19;

/// Texts by key. Variables are not replaced yet.
pub(super) type Templates = BTreeMap<String, String>;

/// The templates of `config/templates`.
pub(super) fn all() -> anyhow::Result<Templates> {
    let folder = paths::repository().join(FOLDER);
    let mut texts = BTreeMap::new();
    for name in files::names(&folder)? {
        let text = files::read(&folder.join(&name))?;
        texts.insert(name, text);
    }
    joined(&texts)
}

/// Templates by key, from files by name. clusterctl looks for a ClusterClass only in the repositories of providers, so a
/// template of a ConfigMap begins with its class.
fn joined(texts: &BTreeMap<String, String>) -> anyhow::Result<Templates> {
    let mut templates = Templates::new();
    for (name, text) in texts {
        let stem = name
            .strip_suffix(".yaml")
            .with_context(|| format!("{name} is no template"))?;
        let key = match stem.strip_prefix("cluster-template") {
            Some("") => DEFAULT,
            Some(flavor) => flavor.trim_start_matches('-'),
            None if stem.starts_with("clusterclass-") => continue,
            None => bail!("{name} is no template"),
        };
        let objects = objects(text).with_context(|| format!("failed to read {name}"))?;
        let whole = match class(&objects)? {
            "" => text.clone(),
            class => {
                let file = format!("clusterclass-{class}.yaml");
                let class = texts
                    .get(&file)
                    .with_context(|| format!("no {file} for {name}"))?;
                format!("{class}---\n{text}")
            }
        };
        templates.insert(key.to_owned(), whole);
    }
    Ok(templates)
}

/// Checks the rendered ConfigMap that is not the dashboard: it has these templates, unchanged, and is not too large. With
/// nothing but the variables that clusterctl always sets, each template is one cluster, with its class if it needs one.
pub(super) fn check(objects: &[Value], templates: &Templates) -> anyhow::Result<()> {
    for map in of_kind(objects, "ConfigMap") {
        if dashboard::is_rendered(map)? {
            continue;
        }
        let rendered: Templates = serde_json::from_value(map["data"].clone())
            .with_context(|| format!("{} has data that are no texts", id(map)))?;
        ensure!(
            rendered == *templates,
            "{} does not have the templates of {FOLDER}",
            id(map)
        );
        let bytes: usize = rendered.iter().map(|(key, text)| key.len() + text.len()).sum();
        ensure!(bytes < BYTES_MAX, "{} has {bytes} bytes", id(map));
        for (key, text) in &rendered {
            one_cluster(text).with_context(|| format!("{}: {key}", id(map)))?;
        }
    }
    Ok(())
}

fn one_cluster(template: &str) -> anyhow::Result<()> {
    let objects = objects(template)?;
    let class = class(&objects)?;
    let classes: Vec<_> = of_kind(&objects, "ClusterClass")
        .map(|class| text(class, "/metadata/name"))
        .collect();
    let wanted: &[&str] = if class.is_empty() { &[] } else { &[class] };
    ensure!(
        classes == wanted,
        "the class is {class:?}, and there are {classes:?}"
    );
    Ok(())
}

/// The class of the only cluster among the objects; empty for none.
fn class(objects: &[Value]) -> anyhow::Result<&str> {
    let clusters: Vec<_> = of_kind(objects, "Cluster").collect();
    let [cluster] = clusters.as_slice() else {
        bail!("{} clusters", clusters.len())
    };
    ensure!(
        text(cluster, "/metadata/name") == "demo",
        "the cluster does not have the name it is given"
    );
    Ok(text(cluster, "/spec/topology/classRef/name"))
}

/// The objects of a template.
fn objects(template: &str) -> anyhow::Result<Vec<Value>> {
    let variable = |name: &str| match name {
        "CLUSTER_NAME" => Some("demo".to_owned()),
        "NAMESPACE" => Some("default".to_owned()),
        _ => None,
    };
    read(&components::with_variables(template, &variable)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLAIN: &str = "kind: Cluster\nmetadata: {name: \"${CLUSTER_NAME}\"}\n";
    const OF_CLASS: &str =
        "kind: Cluster\nmetadata: {name: \"${CLUSTER_NAME}\"}\nspec: {topology: {classRef: {name: c}}}\n";
    const CLASS: &str = "kind: ClusterClass\nmetadata: {name: c}\n";

    fn texts(files: &[(&str, &str)]) -> BTreeMap<String, String> {
        files
            .iter()
            .map(|&(name, text)| (name.to_owned(), text.to_owned()))
            .collect()
    }

    #[test]
    fn a_template_has_the_name_of_its_flavor_and_begins_with_its_class() {
        let files = [
            ("cluster-template.yaml", PLAIN),
            ("cluster-template-of-class.yaml", OF_CLASS),
            ("clusterclass-c.yaml", CLASS),
        ];
        let expected = [
            ("template", PLAIN.to_owned()),
            ("of-class", format!("{CLASS}---\n{OF_CLASS}")),
        ];
        let expected: Templates = expected
            .into_iter()
            .map(|(key, text)| (key.to_owned(), text))
            .collect();
        assert_eq!(joined(&texts(&files)).expect("joined"), expected);
        let error = joined(&texts(&files[..2])).expect_err("no class").to_string();
        assert_eq!(error, "no clusterclass-c.yaml for cluster-template-of-class.yaml");
        let error = joined(&texts(&[("README.md", "")]))
            .expect_err("a page")
            .to_string();
        assert_eq!(error, "README.md is no template");
    }

    #[test]
    fn every_flavor_is_in_the_chart() {
        let keys: Vec<_> = all().expect("readable").into_keys().collect();
        assert_eq!(
            keys,
            ["autoscaler", "ipam", "machine-pool", "scale", DEFAULT, "topology"]
        );
    }

    #[test]
    fn a_config_map_with_other_templates_is_reported() {
        let said = |data: Value, templates: &[(&str, &str)]| {
            let map = json!({"kind": "ConfigMap", "metadata": {"name": "m"}, "data": data});
            check(&[map], &texts(templates)).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(said(json!({"a": PLAIN}), &[("a", PLAIN)]), Ok(()));
        let other = "ConfigMap/m does not have the templates of config/templates".to_owned();
        assert_eq!(said(json!({"b": PLAIN}), &[("a", PLAIN)]), Err(other));
        let alone = "ConfigMap/m: a: the class is \"c\", and there are []".to_owned();
        assert_eq!(said(json!({"a": OF_CLASS}), &[("a", OF_CLASS)]), Err(alone));
        let unset = PLAIN.replace("NAME}", "CLASS}");
        let error = said(json!({"a": unset}), &[("a", &unset)]);
        assert_eq!(
            error,
            Err("ConfigMap/m: a: CLUSTER_CLASS has neither a value nor a default".to_owned())
        );
        let large = format!("{PLAIN}# {}\n", "x".repeat(BYTES_MAX));
        assert!(said(json!({"a": large}), &[("a", &large)]).is_err());
    }
}
