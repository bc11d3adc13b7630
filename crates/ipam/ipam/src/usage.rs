//! How much of a pool is in use.

use crate::{free::FreeIntervals, intervals::Intervals};

/// Counts of a pool, in addresses or, for a prefix pool, in prefixes of its length.
///
/// Counts that do not fit a `u128` (2^128) are reported as `u128::MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// How many the spec allows.
    pub total: u128,
    /// How many of `total` can be allocated now.
    pub free: u128,
    /// How many of `total` cannot be allocated now: in use, or part of a prefix in use that has another length.
    pub taken: u128,
    /// How many are allocated: IPAddress objects, inside and outside of the spec. Two objects with the same address
    /// count twice.
    pub used: u128,
    /// Different addresses in use that the spec does not allow.
    pub out_of_range: u128,
}

/// Counts in the form of a pool's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusCounts {
    /// How many the spec allows.
    pub total: i64,
    /// How many can be allocated now; never negative.
    pub free: i64,
    pub used: i64,
    /// How many are in use and not allowed by the spec.
    pub out_of_range: i64,
}

impl Usage {
    pub(crate) fn new(
        allocatable: &Intervals,
        free: &FreeIntervals,
        used: usize,
        out_of_range: usize,
    ) -> Self {
        let total = allocatable.count();
        let left = free.count();
        // Modulo 2^128, so that both full counts are 0.
        let taken = match (total, left) {
            (None, Some(0)) => u128::MAX,
            _ => total.unwrap_or(0).wrapping_sub(left.unwrap_or(0)),
        };
        Self {
            total: total.unwrap_or(u128::MAX),
            free: left.unwrap_or(u128::MAX),
            taken,
            used: used as u128,
            out_of_range: out_of_range as u128,
        }
    }

    /// The counts as 64-bit integers. Larger counts become `i64::MAX`; `free` is then counted down from that total, so
    /// that it still falls with every allocation.
    #[must_use]
    pub fn status_counts(&self) -> StatusCounts {
        let saturated = |count: u128| i64::try_from(count).unwrap_or(i64::MAX);
        let total = saturated(self.total);
        StatusCounts {
            total,
            free: saturated(self.free).min(total.saturating_sub(saturated(self.taken))),
            used: saturated(self.used),
            out_of_range: saturated(self.out_of_range),
        }
    }
}
