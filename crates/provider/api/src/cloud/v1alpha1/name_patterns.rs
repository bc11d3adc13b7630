//! Patterns of the names in a cloud.

/// A name that is the value of a label of Nodes, and of a failure domain.
pub(super) const PLACE_PATTERN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// A name that is the value of a label of Nodes.
pub(super) const NAME_PATTERN: &str = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";
