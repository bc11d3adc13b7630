//! Sets of addresses of both families.

use std::{fmt, net::IpAddr};

use crate::{
    address_range::{AddressRange, ParseRangeError},
    family::{Family, number},
    intervals::Intervals,
};

/// A set of addresses, kept as disjoint ranges: a /8 costs as much as a /28.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressSet {
    v4: Intervals,
    v6: Intervals,
}

impl AddressSet {
    /// The union of all `entries`, each an address, a range or a CIDR.
    ///
    /// # Errors
    /// The first entry that cannot be read.
    pub fn parse<S: AsRef<str>>(entries: impl IntoIterator<Item = S>) -> Result<Self, ParseRangeError> {
        entries
            .into_iter()
            .map(|entry| entry.as_ref().parse::<AddressRange>())
            .collect()
    }

    pub(crate) fn of(family: Family, intervals: Intervals) -> Self {
        match family {
            Family::V4 => Self {
                v4: intervals,
                v6: Intervals::default(),
            },
            Family::V6 => Self {
                v4: Intervals::default(),
                v6: intervals,
            },
        }
    }

    pub(crate) fn intervals(&self, family: Family) -> &Intervals {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    /// The addresses that are in at least one of the two sets.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self {
            v4: self.v4.union(&other.v4),
            v6: self.v6.union(&other.v6),
        }
    }

    /// The addresses that are not in `other`.
    #[must_use]
    pub fn subtract(&self, other: &Self) -> Self {
        Self {
            v4: self.v4.subtract(&other.v4),
            v6: self.v6.subtract(&other.v6),
        }
    }

    /// The addresses that are in both sets: for two pools, the addresses that both may allocate.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        Self {
            v4: self.v4.intersect(&other.v4),
            v6: self.v6.intersect(&other.v6),
        }
    }

    /// Whether `address` is in the set.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.intervals(Family::of(address)).contains(number(address))
    }

    /// Whether every address of `range` is in the set.
    #[must_use]
    pub fn contains_range(&self, range: AddressRange) -> bool {
        let (first, last) = range.numbers();
        self.intervals(range.family()).contains_interval(first, last)
    }

    /// Whether the set has no address.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// How many addresses; 2^128, which is all of v6, is reported as `u128::MAX`.
    #[must_use]
    pub fn count(&self) -> u128 {
        let count = |intervals: &Intervals| intervals.count().unwrap_or(u128::MAX);
        count(&self.v4).saturating_add(count(&self.v6))
    }

    /// The lowest address; v4 is below v6.
    #[must_use]
    pub fn lowest(&self) -> Option<IpAddr> {
        self.ranges().next().map(AddressRange::first)
    }

    /// The ranges, ascending, v4 first, as few as possible.
    pub fn ranges(&self) -> impl Iterator<Item = AddressRange> {
        let of = |family| {
            let ranges = self.intervals(family).as_slice().iter();
            ranges.map(move |&numbers| AddressRange::from_numbers(family, numbers))
        };
        of(Family::V4).chain(of(Family::V6))
    }
}

impl FromIterator<AddressRange> for AddressSet {
    fn from_iter<I: IntoIterator<Item = AddressRange>>(ranges: I) -> Self {
        let (v4, v6): (Vec<_>, Vec<_>) = ranges
            .into_iter()
            .partition(|range: &AddressRange| range.family() == Family::V4);
        let intervals =
            |ranges: Vec<AddressRange>| Intervals::new(ranges.into_iter().map(AddressRange::numbers));
        Self {
            v4: intervals(v4),
            v6: intervals(v6),
        }
    }
}

impl FromIterator<IpAddr> for AddressSet {
    fn from_iter<I: IntoIterator<Item = IpAddr>>(addresses: I) -> Self {
        addresses.into_iter().map(AddressRange::single).collect()
    }
}

impl fmt::Display for AddressSet {
    /// The ranges, separated by spaces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges().enumerate() {
            write!(f, "{}{range}", if index == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}
