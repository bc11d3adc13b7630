//! Patterns of the names in a cloud.

/// A name that is the value of a label of Nodes, and of a failure domain.
pub const PLACE_PATTERN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// A name that is the value of a label of Nodes.
pub const NAME_PATTERN: &str = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";
/// A minor version of Kubernetes, such as `1.36`.
pub const MINOR_PATTERN: &str = r"^1\.(0|[1-9][0-9]{0,2})$";
