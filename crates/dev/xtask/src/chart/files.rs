//! The generated parts of the chart: roles, webhooks and cluster templates from `config/`; the table of values and the
//! descriptions in the schema from `values.yaml`. The definitions are links to those of `config/`, which Helm follows.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_yaml_ng::{Deserializer, Value};

use super::{flavors, schema, table};
use crate::paths;

/// The folders with the manager's permissions and webhooks, for every way to install it.
const SOURCES: [&str; 4] = [
    "config/rbac",
    "config/ipam",
    "config/webhook",
    "config/webhook-infrastructure",
];
/// Folders of the chart that contain only generated files.
pub(crate) const FOLDERS: [&str; 3] = [
    "charts/nephele/files/roles",
    "charts/nephele/files/webhooks",
    "charts/nephele/files/templates",
];
/// Roles that all providers in the process share. The roles of the first provider are used, and those of the others
/// have to be equal.
pub(super) const SHARED: [&str; 3] = ["leader-election", "metrics-reader", "verbosity-writer"];
/// Labels of the providers, with their names in the chart's value `roles`.
const PROVIDERS: [(&str, &str); 2] = [
    ("infrastructure-in-memory", "infrastructure"),
    ("ipam-in-cluster", "ipam"),
];

/// Paths within the repository and their content. `header` opens each file, but not templates, which users read.
pub(crate) fn generated(header: &str) -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let [role_folder, webhook_folder, template_folder] = FOLDERS.map(Path::new);
    let mut files = BTreeMap::new();
    for object in sources()? {
        let kind = text(&object, "/kind")?;
        let folder = match kind {
            "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding" => role_folder,
            "Service" | "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => webhook_folder,
            _ => continue,
        };
        let path = folder.join(format!(
            "{}.{}.{}.yaml",
            owner(&object)?,
            kind.to_lowercase(),
            text(&object, "/metadata/name")?
        ));
        if is_shared(&object)? && owner_label(&object)? != PROVIDERS[0].0 {
            continue;
        }
        let written = serde_yaml_ng::to_string(&object)
            .with_context(|| format!("failed to write {}", path.display()))?;
        if files.insert(path.clone(), format!("{header}{written}")).is_some() {
            bail!("two objects would be {}", path.display());
        }
    }
    for (key, text) in flavors::all()? {
        files.insert(template_folder.join(format!("{key}.yaml")), text);
    }
    let values = table::described(&read(&Path::new(paths::CHART).join("values.yaml"))?)?;
    let [readme, schema] = ["README.md", "values.schema.json"].map(|name| Path::new(paths::CHART).join(name));
    files.insert(readme.clone(), table::inserted(&read(&readme)?, &values)?);
    files.insert(schema.clone(), schema::described(&read(&schema)?, &values)?);
    Ok(files)
}

/// All objects of `config/` that may be permissions or webhooks.
fn sources() -> anyhow::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for folder in SOURCES {
        let place = paths::repository().join(folder);
        if !place.is_dir() {
            continue;
        }
        let entries = fs::read_dir(&place).with_context(|| format!("failed to list {folder}"))?;
        let mut names = entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<std::io::Result<Vec<_>>>()
            .with_context(|| format!("failed to list {folder}"))?;
        names.sort();
        for name in names
            .iter()
            .filter(|name| name.ends_with(".yaml") && *name != "kustomization.yaml")
        {
            let path = Path::new(folder).join(name);
            for document in Deserializer::from_str(&read(&path)?) {
                let object = Value::deserialize(document)
                    .with_context(|| format!("failed to read {}", path.display()))?;
                objects.push(object);
            }
        }
    }
    Ok(objects)
}

/// The prefix of an object's file: the provider that needs it.
fn owner(object: &Value) -> anyhow::Result<&'static str> {
    if is_shared(object)? {
        return Ok("shared");
    }
    let label = owner_label(object)?;
    let known = PROVIDERS.into_iter().find(|(provider, _)| *provider == label);
    known
        .map(|(_, role)| role)
        .with_context(|| format!("unknown provider {label}"))
}

fn owner_label(object: &Value) -> anyhow::Result<&str> {
    text(object, "/metadata/labels/cluster.x-k8s.io~1provider")
}

fn is_shared(object: &Value) -> anyhow::Result<bool> {
    let name = text(object, "/metadata/name")?;
    Ok(SHARED.iter().any(|shared| name.ends_with(shared)))
}

/// The string at a JSON pointer.
fn text<'a>(object: &'a Value, pointer: &str) -> anyhow::Result<&'a str> {
    let keys = pointer.split('/').skip(1).map(|key| key.replace("~1", "/"));
    let found = keys
        .into_iter()
        .try_fold(object, |value, key| value.get(key))
        .and_then(Value::as_str);
    found.with_context(|| format!("no {pointer} in {:?}", object.get("metadata")))
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(paths::repository().join(path))
        .with_context(|| format!("failed to read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_providers_share_is_the_same_with_each() {
        let mut rules: BTreeMap<(String, &str), Value> = BTreeMap::new();
        for object in sources().expect("readable") {
            let kind = text(&object, "/kind").expect("a kind").to_owned();
            let name = text(&object, "/metadata/name").expect("a name");
            let Some(shared) = SHARED.into_iter().find(|shared| name.ends_with(shared)) else {
                continue;
            };
            if let Some(wanted) = object.get("rules") {
                let first = rules.entry((kind, shared)).or_insert_with(|| wanted.clone());
                assert_eq!(wanted, first, "{name}");
            }
        }
        assert_eq!(rules.len(), SHARED.len());
    }

    /// Helm reads through the links of a checkout, and packs the files instead of the links.
    #[test]
    fn definitions_of_the_chart_are_those_of_config() {
        let root = paths::repository();
        let links = root.join("charts/nephele/files/definitions");
        let target = |path: PathBuf| fs::canonicalize(path).expect("it exists");
        let names = crate::files::names(&links).expect("readable");
        let found: Vec<_> = names
            .iter()
            .map(|name| (name.as_str(), target(links.join(name))))
            .collect();
        let wanted = [
            ("infrastructure", "config/crd/bases"),
            ("ipam", "config/crd/ipam/bases"),
        ];
        assert_eq!(
            found,
            wanted.map(|(name, folder)| (name, target(root.join(folder))))
        );
    }

    #[test]
    fn every_permission_of_config_is_in_the_chart() {
        let files = generated("").expect("generated");
        for object in sources().expect("readable") {
            let kind = text(&object, "/kind").expect("a kind");
            if kind.ends_with("Role") && owner_label(&object).expect("labelled") == PROVIDERS[0].0 {
                let written = serde_yaml_ng::to_string(&object).expect("writable");
                assert!(
                    files.values().any(|file| *file == written),
                    "{kind} {:?}",
                    object["metadata"]["name"]
                );
            }
        }
    }
}
