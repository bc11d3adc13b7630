//! The variables of classes of simulated clusters, and their patches, for classes that leave patching to the extension.
//! The patches are the same as the inline patches of the released class
//! (`config/templates/clusterclass-in-memory.yaml`).

mod patches;
mod templates;
mod variables;
mod verdict;

pub use patches::patches;
pub use variables::variables;
pub use verdict::verdict;
