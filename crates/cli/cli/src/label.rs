//! The names of kubeconfigs.

/// `namespace-name`, the name of a cluster's kubeconfig and context. Two clusters can have the same (`a-b`/`c` and
/// `a`/`b-c`): the later one gets a `_`, which is in no namespace and in no name.
pub(crate) fn label(namespace: &str, name: &str, is_taken: impl FnOnce(&str) -> bool) -> String {
    let label = format!("{namespace}-{name}");
    if is_taken(&label) {
        format!("{namespace}_{name}")
    } else {
        label
    }
}
