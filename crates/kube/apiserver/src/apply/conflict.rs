//! Conflicts of an apply, in a real server's words (`apimachinery/pkg/util/managedfields/internal/conflict.go`).

use std::fmt;

use super::{
    field_set::FieldSet,
    managers::{Managed, ManagerId, Managers, Operation},
};

/// How many conflicts are listed, and how many bytes of each path and of a manager's name. Paths share their
/// beginnings, so all of them could be much longer than the object.
const LISTED_MAX: usize = 64;
const PATH_MAX: usize = 1024;
const NAME_MAX: usize = 256;

/// The fields that an apply would change although others own them, by manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflicts(Vec<(ManagerName, FieldSet)>);

/// A manager as messages name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ManagerName(String);

impl ManagerName {
    fn of(id: &ManagerId, managed: &Managed) -> Self {
        let mut name = format!("{:?}", cut(&id.name));
        if !id.subresource.is_empty() {
            name.push_str(&format!(" with subresource {:?}", cut(&id.subresource)));
        }
        if id.operation == Operation::Update {
            name.push_str(&format!(" using {}", cut(&managed.api_version)));
        }
        Self(name)
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(NAME_MAX)]
}

impl Conflicts {
    /// The conflicts of a manager that changes these fields.
    pub(super) fn with(managers: &Managers, changed: &FieldSet) -> Self {
        let conflict = |(id, managed): (&ManagerId, &Managed)| {
            let fields = managed.fields.intersection(changed);
            (!fields.is_empty()).then(|| (ManagerName::of(id, managed), fields))
        };
        let mut conflicts: Vec<_> = managers.0.iter().filter_map(conflict).collect();
        conflicts.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self(conflicts)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The conflicts in other fields.
    pub(super) fn without(mut self, fields: &FieldSet) -> Self {
        for (_, owned) in &mut self.0 {
            *owned = owned.difference(fields);
        }
        self.0.retain(|(_, owned)| !owned.is_empty());
        self
    }

    /// The number of conflicts.
    fn len(&self) -> usize {
        self.0.iter().map(|(_, fields)| fields.len()).sum()
    }

    /// The managers and paths of the first conflicts.
    pub(crate) fn listed(&self) -> Vec<(&str, Vec<String>)> {
        let mut left = LISTED_MAX;
        let mut listed = Vec::new();
        for (manager, fields) in &self.0 {
            let paths = fields.shown(left, PATH_MAX);
            left -= paths.len();
            if !paths.is_empty() {
                listed.push((manager.0.as_str(), paths));
            }
        }
        listed
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.len();
        let listed = self.listed();
        if let (1, [(manager, paths)]) = (count, &listed[..]) {
            return write!(
                f,
                "Apply failed with 1 conflict: conflict with {manager}: {}",
                paths.concat()
            );
        }
        write!(f, "Apply failed with {count} conflicts: ")?;
        for (index, (manager, paths)) in listed.iter().enumerate() {
            write!(
                f,
                "{}conflicts with {manager}:",
                if index > 0 { "\n" } else { "" }
            )?;
            for path in paths {
                write!(f, "\n- {path}")?;
            }
        }
        Ok(())
    }
}
