//! The free numbers, as an ordered map of intervals: taking the lowest, taking and giving back are O(log n) in the
//! number of gaps.

use std::collections::BTreeMap;

use crate::intervals::Intervals;

/// Disjoint intervals, none adjacent to another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FreeIntervals {
    /// First → last number of each interval.
    last: BTreeMap<u128, u128>,
    /// How many numbers there are in all, modulo 2^128.
    count: u128,
}

impl FreeIntervals {
    pub(crate) fn new(set: &Intervals) -> Self {
        Self {
            last: set.as_slice().iter().copied().collect(),
            count: set.count().unwrap_or(0),
        }
    }

    /// How many numbers; `None` for all 2^128 of them, which do not fit a `u128`.
    pub(crate) fn count(&self) -> Option<u128> {
        (self.count > 0 || self.last.is_empty()).then_some(self.count)
    }

    /// The lowest number.
    pub(crate) fn lowest(&self) -> Option<u128> {
        self.last.first_key_value().map(|(first, _)| *first)
    }

    /// Removes and returns the lowest number.
    pub(crate) fn take_lowest(&mut self) -> Option<u128> {
        let (first, last) = self.last.pop_first()?;
        if first < last {
            self.last.insert(first + 1, last);
        }
        self.count = self.count.wrapping_sub(1);
        Some(first)
    }

    /// The interval that contains `number`.
    fn around(&self, number: u128) -> Option<(u128, u128)> {
        self.overlapping(number, number)
    }

    /// The highest interval that has a number of `first..=last`.
    fn overlapping(&self, first: u128, last: u128) -> Option<(u128, u128)> {
        let (&from, &to) = self.last.range(..=last).next_back()?;
        (first <= to).then_some((from, to))
    }

    /// Removes all free numbers of `first..=last`.
    pub(crate) fn take(&mut self, first: u128, last: u128) {
        while let Some((from, to)) = self.overlapping(first, last) {
            self.last.remove(&from);
            self.count = self
                .count
                .wrapping_sub((to.min(last) - from.max(first)).wrapping_add(1));
            if from < first {
                self.last.insert(from, first - 1);
            }
            if last < to {
                self.last.insert(last + 1, to);
            }
        }
    }

    /// Adds `first..=last`, none of which is free, and merges it with its neighbours.
    pub(crate) fn give_back(&mut self, first: u128, last: u128) {
        debug_assert!(
            self.last
                .range(..=last)
                .next_back()
                .is_none_or(|(_, &to)| to < first),
            "only numbers that are not free are given back"
        );
        self.count = self.count.wrapping_add((last - first).wrapping_add(1));
        let before = first.checked_sub(1).and_then(|number| self.around(number));
        let after = last.checked_add(1).and_then(|next| self.last.remove(&next));
        self.last
            .insert(before.map_or(first, |(from, _)| from), after.unwrap_or(last));
    }
}
