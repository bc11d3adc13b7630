//! How much user data is read.

use nephele_yaml::{Bounds, Dialect};

/// The longest user data that are read. No Secret has more.
pub(super) const MAX: usize = 1024 * 1024;

/// The bounds of all YAML here, and the memory of JSON.
pub(super) const BOUNDS: Bounds = Bounds {
    text: MAX,
    memory: 8 * MAX,
    depth: 64,
    dialect: Dialect::Go,
};
