//! The names of objects and of their collections.

/// A kind's collection: API group (empty for the core group) and plural name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// API group, empty for the core group.
    pub group: String,
    pub resource: String,
}

impl GroupResource {
    /// The collection `resource` of `group`.
    #[must_use]
    pub fn new(group: &str, resource: &str) -> Self {
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
        }
    }
}

impl std::fmt::Display for GroupResource {
    /// The name in error messages: `pods`, `deployments.apps`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.resource)?;
        if self.group.is_empty() {
            Ok(())
        } else {
            write!(f, ".{}", self.group)
        }
    }
}

/// The name of an object in a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub resource: GroupResource,
    /// The namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    pub name: String,
}

impl Key {
    /// The key of the object `name` in `namespace` (empty for cluster-scoped kinds).
    #[must_use]
    pub fn new(group: &str, resource: &str, namespace: &str, name: &str) -> Self {
        Self {
            resource: GroupResource::new(group, resource),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}
