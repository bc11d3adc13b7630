//! Sets of numbers as sorted, disjoint, non-adjacent, inclusive intervals. The cost of a set depends on the number of
//! its intervals, not on their lengths.

/// An immutable set. Sets with the same numbers are equal, whatever intervals they were made from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Intervals(Vec<(u128, u128)>);

impl Intervals {
    /// A set of any intervals, in any order, with any overlap.
    pub(crate) fn new(intervals: impl IntoIterator<Item = (u128, u128)>) -> Self {
        let mut sorted: Vec<_> = intervals.into_iter().collect();
        sorted.sort_unstable();
        Self::merged(sorted)
    }

    /// A set of intervals that are sorted by their first number.
    fn merged(sorted: impl IntoIterator<Item = (u128, u128)>) -> Self {
        let mut merged: Vec<(u128, u128)> = Vec::new();
        for (first, last) in sorted {
            debug_assert!(first <= last, "an interval is not empty");
            match merged.last_mut() {
                // Saturation is right: nothing lies beyond the highest number.
                Some(previous) if first <= previous.1.saturating_add(1) => previous.1 = previous.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    pub(crate) fn as_slice(&self) -> &[(u128, u128)] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many numbers; `None` for all 2^128 of them, which do not fit a `u128`.
    pub(crate) fn count(&self) -> Option<u128> {
        // Disjoint intervals that leave out a number have less than 2^128 numbers.
        self.0.iter().try_fold(0_u128, |sum, (first, last)| {
            Some(sum + (last - first).checked_add(1)?)
        })
    }

    pub(crate) fn contains(&self, number: u128) -> bool {
        self.contains_interval(number, number)
    }

    pub(crate) fn contains_interval(&self, first: u128, last: u128) -> bool {
        let after = self.0.partition_point(|interval| interval.0 <= first);
        after.checked_sub(1).is_some_and(|at| last <= self.0[at].1)
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        Self::new(self.0.iter().chain(&other.0).copied())
    }

    pub(crate) fn subtract(&self, other: &Self) -> Self {
        let mut left = Vec::with_capacity(self.0.len());
        let mut holes = other.0.iter().peekable();
        for &(mut first, last) in &self.0 {
            // Holes that end before this interval end before all later ones.
            while holes.next_if(|hole| hole.1 < first).is_some() {}
            let mut rest = true;
            while let Some(&&(hole_first, hole_last)) = holes.peek() {
                if hole_first > last {
                    break;
                }
                if hole_first > first {
                    left.push((first, hole_first - 1));
                }
                if hole_last >= last {
                    // The hole may reach into the next interval, so keep it.
                    rest = false;
                    break;
                }
                first = hole_last + 1;
                holes.next();
            }
            if rest {
                left.push((first, last));
            }
        }
        Self(left)
    }

    pub(crate) fn intersect(&self, other: &Self) -> Self {
        let mut left = self.0.iter().peekable();
        let mut right = other.0.iter().peekable();
        let mut both = Vec::new();
        while let (Some(&&a), Some(&&b)) = (left.peek(), right.peek()) {
            let first = a.0.max(b.0);
            let last = a.1.min(b.1);
            if first <= last {
                both.push((first, last));
            }
            if a.1 <= b.1 {
                left.next();
            } else {
                right.next();
            }
        }
        Self(both)
    }
}
