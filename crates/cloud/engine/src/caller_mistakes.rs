//! What callers do that shows a mistake of theirs, or that they have to be ready for.
//!
//! Only the callers of clouds that were put are counted: the cloud without a name has no owner, and namespaces come and go
//! without end.

use std::{collections::BTreeMap, iter::Sum};

use nephele_model::ResourceId;
use serde::{Deserialize, Serialize};

/// What a caller did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallerMistakes {
    /// Creations that made another instance of a name that had one already.
    pub double_creates: u64,
    /// Reads that did not show a change that the caller itself had made.
    pub missed_reads: u64,
}

impl Sum for CallerMistakes {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            double_creates: sum.double_creates.saturating_add(one.double_creates),
            missed_reads: sum.missed_reads.saturating_add(one.missed_reads),
        })
    }
}

impl CallerMistakes {
    /// How many callers of a cloud are told apart. There are three; the name of a caller is any text to the engine.
    pub const CALLERS_MAX: usize = 16;
}

/// What the callers of a cloud did, by caller.
pub type MistakesByCaller = BTreeMap<String, CallerMistakes>;

/// What the callers of a cloud did, with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedCallerMistakes {
    pub id: ResourceId,
    pub callers: MistakesByCaller,
}
