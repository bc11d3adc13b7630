//! The kinds that a server serves.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use serde_json::Value;

use crate::{conversion::Conversion, store::GroupResource};

/// One served kind.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceType {
    /// API group, empty for the core group.
    pub group: String,
    pub versions: Vec<String>,
    pub kind: String,
    /// Kind of its list, as in `PodList`.
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    /// Categories for `kubectl get all`.
    pub categories: Vec<String>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether status can only be written through its subresource.
    pub status: bool,
    /// Whether `metadata.generation` counts changes of the desired state.
    pub generation: bool,
    /// Whether an update without `metadata.resourceVersion` replaces whatever is stored.
    pub unconditional_update: bool,
    /// Whether an update of an object that does not exist creates it.
    pub create_on_update: bool,
    /// What can be done with its objects.
    pub verbs: &'static [&'static str],
    pub subresources: Vec<&'static str>,
    /// Extra printer columns, for kinds of a CustomResourceDefinition.
    pub columns: Vec<PrinterColumn>,
    /// Fields that selectors may name, for kinds of a CustomResourceDefinition: the version, and the path.
    pub selectable_fields: Vec<(String, String)>,
    /// Whether a CustomResourceDefinition added it.
    pub custom: bool,
    /// How its objects are converted between its versions. None for a kind whose versions differ by name only, and for
    /// built-in kinds.
    pub conversion: Option<Conversion>,
}

/// A printer column of a CustomResourceDefinition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrinterColumn {
    pub name: String,
    pub kind: String,
    /// JSONPath of the cell's value.
    pub json_path: String,
    /// Zero for the standard view, more for the wide one.
    pub priority: i64,
    pub description: String,
}

impl ResourceType {
    /// The collection.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.plural)
    }

    /// Whether its objects define kinds.
    pub(crate) fn is_definition(&self) -> bool {
        self.group == "apiextensions.k8s.io" && self.kind == "CustomResourceDefinition"
    }

    /// The verbs of a kind whose objects are stored.
    pub(crate) fn stored_verbs() -> &'static [&'static str] {
        VERBS
    }

    /// An object in the version of an `apiVersion`.
    ///
    /// # Errors
    /// When it cannot be converted.
    pub(crate) fn converted(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        match self.conversion {
            Some(conversion) => conversion.to(object, api_version),
            None => Ok(object.clone()),
        }
    }

    /// `apiVersion` under each of its versions.
    pub(crate) fn api_versions(&self) -> Vec<String> {
        self.versions
            .iter()
            .map(|version| self.api_version(version))
            .collect()
    }

    /// `apiVersion` under one of its versions.
    #[must_use]
    pub fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() {
            version.to_owned()
        } else {
            format!("{}/{version}", self.group)
        }
    }
}

/// The built-in kinds of a server. Cloning shares them: all servers of a process have one table.
#[derive(Clone, Debug)]
pub struct Registry {
    types: Arc<BTreeMap<GroupResource, Arc<ResourceType>>>,
}

static KUBERNETES: LazyLock<Registry> = LazyLock::new(|| {
    let types = read(include_str!("kinds.txt"));
    Registry {
        types: Arc::new(types.expect("a test reads the table")),
    }
});

/// The verbs of stored kinds.
const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
/// A namespace is deleted with everything in it, one at a time.
const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];

impl Registry {
    /// The built-in kinds of a plain cluster.
    #[must_use]
    pub fn kubernetes() -> Self {
        KUBERNETES.clone()
    }

    /// Whether its kinds are those of a plain cluster.
    pub(crate) fn is_kubernetes(&self) -> bool {
        Arc::ptr_eq(&self.types, &KUBERNETES.types)
    }

    pub(crate) fn get(&self, resource: &GroupResource) -> Option<&Arc<ResourceType>> {
        self.types.get(resource)
    }

    /// The kind of that name in a group, found without a look at other groups.
    pub(crate) fn named(&self, group: &str, kind: &str) -> Option<&Arc<ResourceType>> {
        let of_group = self
            .types
            .range(GroupResource::new(group, "")..)
            .map(|(_, found)| found);
        of_group
            .take_while(|found| found.group == group)
            .find(|found| found.kind == kind)
    }

    pub(crate) fn types(&self) -> impl Iterator<Item = &Arc<ResourceType>> {
        self.types.values()
    }
}

/// The table of the built-in kinds: 10 KB, read once in a process.
fn read(table: &'static str) -> Result<BTreeMap<GroupResource, Arc<ResourceType>>, &'static str> {
    let lines = table
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let kind = row(line).ok_or(line)?;
            Ok((kind.group_resource(), Arc::new(kind)))
        })
        .collect()
}

fn row(line: &'static str) -> Option<ResourceType> {
    let mut words = line.split(' ');
    let group = words.next()?;
    let versions = words.next()?;
    let plural = words.next()?;
    let kind = words.next()?;
    let scope = words.next()?;
    let short_names = words.next()?;
    let traits = words.next()?;
    let list = |word: &str| match word {
        "-" => Vec::new(),
        names => names.split(',').map(str::to_owned).collect(),
    };
    let mut categories = list(traits);
    let mut take = |name: &str| {
        let before = categories.len();
        categories.retain(|known| known != name);
        categories.len() < before
    };
    let generation = take("generation");
    let unconditional_update = take("unconditional");
    let create_on_update = take("creates");
    let verbs: &[&str] = match (take("answered"), plural) {
        (true, "bindings") => &["create"],
        (true, _) => &["get", "list"],
        (false, "namespaces") => NAMESPACE_VERBS,
        (false, _) => VERBS,
    };
    if !categories
        .iter()
        .all(|category| matches!(category.as_str(), "all" | "api-extensions"))
    {
        return None;
    }
    let mut subresources: Vec<&'static str> = words.collect();
    let others = subresources.len();
    subresources.retain(|name| *name != "status");
    Some(ResourceType {
        group: if group == "core" {
            String::new()
        } else {
            group.to_owned()
        },
        versions: list(versions),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        short_names: list(short_names),
        categories,
        namespaced: match scope {
            "namespaced" => true,
            "cluster" => false,
            _ => return None,
        },
        status: subresources.len() < others,
        generation,
        unconditional_update,
        create_on_update,
        verbs,
        subresources,
        columns: Vec::new(),
        selectable_fields: Vec::new(),
        custom: false,
        conversion: None,
    })
}
