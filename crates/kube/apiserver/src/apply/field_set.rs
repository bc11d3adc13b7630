//! A set of fields of an object (`structured-merge-diff/fieldpath/set.go`).
//!
//! A set contains paths. A path and its parts are independent: a set may have `.data.a` without `.data`. All functions
//! recurse as deep as the paths, which come from values of at most [`DEPTH_MAX`](crate::depth::DEPTH_MAX) levels or
//! from `FieldsV1` that is held to the same bound.

use std::collections::BTreeMap;

use super::path_element::PathElement;

mod fields_v1;
#[cfg(test)]
pub(super) mod tests;

pub(crate) use fields_v1::FieldsError;

/// A set of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet(BTreeMap<PathElement, Node>);

/// What a set has of one path and of the paths below it. Never nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    /// Whether the set contains the path itself.
    contained: bool,
    below: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.contained && self.below.is_empty()
    }
}

impl FieldSet {
    /// The set of these paths.
    #[cfg(test)]
    pub(crate) fn of<'a>(paths: impl IntoIterator<Item = &'a [PathElement]>) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(path);
        }
        set
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a path. The empty path is no field and changes nothing.
    pub(crate) fn insert(&mut self, path: &[PathElement]) {
        if let Some((first, rest)) = path.split_first() {
            let node = self.0.entry(first.clone()).or_default();
            node.contained |= rest.is_empty();
            node.below.insert(rest);
        }
    }

    /// Adds the path of one step if `contained`, and the paths of `below` under that step.
    pub(super) fn attach(&mut self, step: PathElement, contained: bool, below: FieldSet) {
        let added = Node { contained, below };
        if !added.is_empty() {
            let node = self.0.entry(step).or_default();
            node.contained |= added.contained;
            if node.below.is_empty() {
                node.below = added.below;
            } else {
                node.below.add(&added.below);
            }
        }
    }

    /// Whether the set contains the path of one step.
    pub(super) fn contains(&self, step: &PathElement) -> bool {
        self.0.get(step).is_some_and(|node| node.contained)
    }

    /// The paths below a step. None if there are none.
    pub(super) fn below(&self, step: &PathElement) -> Option<&FieldSet> {
        self.0
            .get(step)
            .map(|node| &node.below)
            .filter(|below| !below.is_empty())
    }

    /// The first steps of the paths, whether the set contains the step itself, and the paths below.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (&PathElement, bool, &FieldSet)> {
        self.0
            .iter()
            .map(|(step, node)| (step, node.contained, &node.below))
    }

    /// Adds all paths of `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        for (step, theirs) in &other.0 {
            let ours = self.0.entry(step.clone()).or_default();
            ours.contained |= theirs.contained;
            ours.below.add(&theirs.below);
        }
    }

    /// The paths of both sets.
    pub(crate) fn union(mut self, other: &Self) -> Self {
        self.add(other);
        self
    }

    /// The paths that are in both sets.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let common = |(step, ours): (&PathElement, &Node)| {
            let theirs = other.0.get(step)?;
            let node = Node {
                contained: ours.contained && theirs.contained,
                below: ours.below.intersection(&theirs.below),
            };
            (!node.is_empty()).then(|| (step.clone(), node))
        };
        Self(self.0.iter().filter_map(common).collect())
    }

    /// The paths that are not in `other`.
    pub(crate) fn difference(&self, other: &Self) -> Self {
        let left = |(step, ours): (&PathElement, &Node)| {
            let node = match other.0.get(step) {
                None => ours.clone(),
                Some(theirs) => Node {
                    contained: ours.contained && !theirs.contained,
                    below: ours.below.difference(&theirs.below),
                },
            };
            (!node.is_empty()).then(|| (step.clone(), node))
        };
        Self(self.0.iter().filter_map(left).collect())
    }

    /// The number of paths.
    pub(crate) fn len(&self) -> usize {
        self.0
            .values()
            .map(|node| usize::from(node.contained) + node.below.len())
            .sum()
    }

    /// The first `limit` paths as messages show them, each cut to `length` bytes: first the paths of one step, then
    /// those of more, as a real server lists them.
    pub(crate) fn shown(&self, limit: usize, length: usize) -> Vec<String> {
        let mut paths = Vec::new();
        self.show(
            &Shown {
                text: String::new(),
                left: length,
            },
            limit,
            &mut paths,
        );
        paths
    }

    fn show(&self, prefix: &Shown, limit: usize, paths: &mut Vec<String>) {
        for (step, _) in self.0.iter().filter(|(_, node)| node.contained) {
            if paths.len() >= limit {
                return;
            }
            paths.push(prefix.and(step).text);
        }
        for (step, node) in self.0.iter().filter(|(_, node)| !node.below.is_empty()) {
            if paths.len() >= limit {
                return;
            }
            node.below.show(&prefix.and(step), limit, paths);
        }
    }
}

/// The beginning of a path in a message.
struct Shown {
    text: String,
    /// How many more bytes there is room for; none after the first cut.
    left: usize,
}

impl Shown {
    fn and(&self, step: &PathElement) -> Self {
        if self.left == 0 {
            return Self {
                text: self.text.clone(),
                left: 0,
            };
        }
        let step = step.to_string();
        let kept = &step[..step.floor_char_boundary(self.left)];
        let left = if kept.len() == step.len() {
            self.left - kept.len()
        } else {
            0
        };
        Self {
            text: format!("{}{kept}", self.text),
            left,
        }
    }
}
