//! Hooks that are still owed a call, written into the object that they are called for.
//!
//! A hook that is called after something is marked when that something begins, so that it is called though the caller
//! was restarted in between (Cluster API, `internal/hooks`).

use std::collections::{BTreeMap, BTreeSet};

use crate::hooks::Hook;

/// Names the hooks that are still owed a call, in order and with commas between.
pub const PENDING_HOOKS_ANNOTATION: &str = "runtime.cluster.x-k8s.io/pending-hooks";
/// Is there, with an empty value, when no extension has the deletion of the object wait any more.
pub const OK_TO_DELETE_ANNOTATION: &str = "runtime.cluster.x-k8s.io/ok-to-delete";

/// Annotations of an object.
pub type Annotations = BTreeMap<String, String>;

fn read(annotations: &Annotations) -> BTreeSet<&str> {
    let value = annotations.get(PENDING_HOOKS_ANNOTATION).map(String::as_str).unwrap_or_default();
    value.split(',').filter(|name| !name.is_empty()).collect()
}

/// Whether a hook is still owed a call.
#[must_use]
pub fn is_pending<H: Hook>(annotations: &Annotations) -> bool {
    read(annotations).contains(H::NAME)
}

/// Marks a hook as owed a call. Whether the annotations have changed by it.
pub fn mark_pending<H: Hook>(annotations: &mut Annotations) -> bool {
    let mut names = read(annotations);
    names.insert(H::NAME);
    write(annotations, &join(&names))
}

/// Marks a hook as called. Whether the annotations have changed by it.
pub fn mark_done<H: Hook>(annotations: &mut Annotations) -> bool {
    let mut names = read(annotations);
    if !names.remove(H::NAME) {
        return false;
    }
    let value = join(&names);
    write(annotations, &value)
}

/// Whether no extension has the deletion wait any more.
#[must_use]
pub fn is_ok_to_delete(annotations: &Annotations) -> bool {
    annotations.contains_key(OK_TO_DELETE_ANNOTATION)
}

/// Says that no extension has the deletion wait any more. Whether the annotations have changed by it.
pub fn mark_ok_to_delete(annotations: &mut Annotations) -> bool {
    if is_ok_to_delete(annotations) {
        return false;
    }
    annotations.insert(OK_TO_DELETE_ANNOTATION.to_owned(), String::new());
    true
}

fn join(names: &BTreeSet<&str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(",")
}

fn write(annotations: &mut Annotations, value: &str) -> bool {
    if value.is_empty() {
        return annotations.remove(PENDING_HOOKS_ANNOTATION).is_some();
    }
    let before = annotations.insert(PENDING_HOOKS_ANNOTATION.to_owned(), value.to_owned());
    before.as_deref() != Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::{AfterClusterUpgrade, AfterControlPlaneUpgrade};

    fn annotations(value: Option<&str>) -> Annotations {
        let value = value.map(|value| (PENDING_HOOKS_ANNOTATION.to_owned(), value.to_owned()));
        [("other".to_owned(), "kept".to_owned())].into_iter().chain(value).collect()
    }

    /// PEND-1.
    #[test]
    fn a_hook_is_marked_once_and_in_order() {
        for (before, expected, changes) in [
            (None, "AfterClusterUpgrade", true),
            (Some("AfterClusterUpgrade"), "AfterClusterUpgrade", false),
            (Some("AfterControlPlaneUpgrade"), "AfterClusterUpgrade,AfterControlPlaneUpgrade", true),
            (Some("B,A"), "A,AfterClusterUpgrade,B", true),
            (Some(",AfterClusterUpgrade"), "AfterClusterUpgrade", true),
            (Some(""), "AfterClusterUpgrade", true),
        ] {
            let mut marked = annotations(before);
            assert_eq!(mark_pending::<AfterClusterUpgrade>(&mut marked), changes, "{before:?}");
            assert_eq!(marked, annotations(Some(expected)));
            assert!(is_pending::<AfterClusterUpgrade>(&marked));
        }
    }

    /// PEND-2.
    #[test]
    fn a_hook_that_is_done_is_taken_out_and_the_last_one_takes_the_annotation_along() {
        for (before, expected, changes) in [
            (None, None, false),
            (Some("AfterClusterUpgrade"), None, true),
            (Some("AfterClusterUpgrade,AfterControlPlaneUpgrade"), Some("AfterControlPlaneUpgrade"), true),
            (Some("AfterControlPlaneUpgrade"), Some("AfterControlPlaneUpgrade"), false),
            (Some(",,AfterClusterUpgrade,"), None, true),
        ] {
            let mut done = annotations(before);
            assert_eq!(mark_done::<AfterClusterUpgrade>(&mut done), changes, "{before:?}");
            assert_eq!(done, annotations(expected));
            assert!(!is_pending::<AfterClusterUpgrade>(&done));
        }
        assert!(is_pending::<AfterControlPlaneUpgrade>(&annotations(Some("AfterControlPlaneUpgrade"))));
    }

    /// PEND-3.
    #[test]
    fn deletion_is_said_to_be_ok_once() {
        let mut deleted = annotations(None);
        assert!(!is_ok_to_delete(&deleted));
        assert!(mark_ok_to_delete(&mut deleted) && !mark_ok_to_delete(&mut deleted));
        assert_eq!(deleted[OK_TO_DELETE_ANNOTATION], "");
        assert!(is_ok_to_delete(&deleted));
    }
}
