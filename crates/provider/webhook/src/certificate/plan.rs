//! Decides what to do about stored certificates.
//!
//! ```text
//!  nothing, or an authority near its end ──▶ NewAuthority   the old one stays trusted until it expires, and what it
//!                                                           issued is served on until everybody has the new one
//!  a leaf near its end, of other names,  ──▶ RenewLeaf
//!  or of an authority before this one
//!  else                                  ──▶ Keep, until one of these
//! ```

use jiff::{SignedDuration, Timestamp};

/// The validity of an authority.
pub const AUTHORITY_VALIDITY: SignedDuration = SignedDuration::from_hours(5 * 365 * 24);
/// How long before its expiry an authority gets a successor. It is longer than the validity of a leaf.
pub const AUTHORITY_MARGIN: SignedDuration = SignedDuration::from_hours(180 * 24);
/// The validity of a leaf.
pub const LEAF_VALIDITY: SignedDuration = SignedDuration::from_hours(90 * 24);
/// How long before its expiry a leaf is renewed.
pub const LEAF_MARGIN: SignedDuration = SignedDuration::from_hours(30 * 24);
/// How far in the past a certificate's validity begins: the clocks of two machines differ.
pub const BACKDATED: SignedDuration = SignedDuration::from_hours(1);
/// The age at which a new authority begins to issue leaves. By then all API servers trust it.
pub const SETTLED_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// The facts about stored certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Start of the newest authority's validity.
    pub authority_not_before: Timestamp,
    pub authority_not_after: Timestamp,
    pub leaf: Option<StoredLeaf>,
}

/// The facts about the served certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredLeaf {
    pub not_after: Timestamp,
    pub dns_names: Vec<String>,
    pub issuer: Issuer,
}

/// The issuer of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Issuer {
    /// The newest authority.
    Newest,
    /// An earlier authority that is still trusted.
    Trusted,
    /// An authority that is not trusted.
    Unknown,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// Do nothing until this time.
    Keep { until: Timestamp },
    /// Let the newest authority issue a leaf.
    RenewLeaf,
    /// Make a new authority. A valid leaf stays.
    NewAuthority,
}

/// Decides what to do about certificates for these names.
#[must_use]
pub fn plan(stored: Option<&Stored>, names: &[String], now: Timestamp) -> Plan {
    let Some(stored) = stored else {
        return Plan::NewAuthority;
    };
    let authority_due = before(stored.authority_not_after, AUTHORITY_MARGIN);
    if now >= authority_due {
        return Plan::NewAuthority;
    }
    let Some(leaf) = stored.leaf.as_ref().filter(|leaf| is_good(leaf, names, now)) else {
        return Plan::RenewLeaf;
    };
    let leaf_due = before(leaf.not_after, LEAF_MARGIN);
    let due = match leaf.issuer {
        Issuer::Newest => leaf_due,
        Issuer::Trusted | Issuer::Unknown => after(stored.authority_not_before, BACKDATED + SETTLED_AFTER),
    };
    if now >= due {
        Plan::RenewLeaf
    } else {
        Plan::Keep {
            until: due.min(authority_due),
        }
    }
}

/// Whether a leaf can be served now.
#[must_use]
pub fn is_good(leaf: &StoredLeaf, names: &[String], now: Timestamp) -> bool {
    let trusted = leaf.issuer != Issuer::Unknown;
    trusted && now < leaf.not_after && names.iter().all(|name| leaf.dns_names.contains(name))
}

fn before(at: Timestamp, margin: SignedDuration) -> Timestamp {
    at.checked_sub(margin).unwrap_or(Timestamp::MIN)
}

fn after(at: Timestamp, margin: SignedDuration) -> Timestamp {
    at.checked_add(margin).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(day: i64) -> Timestamp {
        Timestamp::from_second(day * 86_400).expect("in range")
    }

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    /// An authority from day 0, and a leaf that expires on this day.
    fn stored(leaf_ends: i64, issuer: Issuer) -> Stored {
        Stored {
            authority_not_before: day(0) - BACKDATED,
            authority_not_after: day(0) + AUTHORITY_VALIDITY,
            leaf: Some(StoredLeaf {
                not_after: day(leaf_ends),
                dns_names: names(&["a", "b"]),
                issuer,
            }),
        }
    }

    #[test]
    fn each_state_has_its_plan() {
        let minute = SignedDuration::from_mins(1);
        let authority_ends = 5 * 365;
        let without_leaf = Stored {
            leaf: None,
            ..stored(90, Issuer::Newest)
        };
        let good = stored(90, Issuer::Newest);
        let last = stored(authority_ends, Issuer::Newest);
        let older = stored(90, Issuer::Trusted);
        let stranger = stored(90, Issuer::Unknown);
        let settled = day(0) + SETTLED_AFTER;
        let rows = [
            ("nothing is stored", None, day(0), Plan::NewAuthority),
            (
                "an authority without a leaf",
                Some(&without_leaf),
                day(0),
                Plan::RenewLeaf,
            ),
            ("a fresh leaf", Some(&good), day(0), Plan::Keep { until: day(60) }),
            (
                "a leaf just before its margin",
                Some(&good),
                day(60) - minute,
                Plan::Keep { until: day(60) },
            ),
            ("a leaf at its margin", Some(&good), day(60), Plan::RenewLeaf),
            ("an expired leaf", Some(&good), day(91), Plan::RenewLeaf),
            (
                "an authority just before its margin",
                Some(&last),
                day(authority_ends - 180) - minute,
                Plan::Keep {
                    until: day(authority_ends - 180),
                },
            ),
            (
                "an authority at its margin",
                Some(&last),
                day(authority_ends - 180),
                Plan::NewAuthority,
            ),
            (
                "an expired authority",
                Some(&last),
                day(authority_ends + 1),
                Plan::NewAuthority,
            ),
            (
                "a leaf of the authority before",
                Some(&older),
                day(0),
                Plan::Keep { until: settled },
            ),
            (
                "the same once the new authority has settled",
                Some(&older),
                settled,
                Plan::RenewLeaf,
            ),
            ("a leaf of no authority", Some(&stranger), day(0), Plan::RenewLeaf),
        ];
        for (row, stored, now, expected) in rows {
            assert_eq!(plan(stored, &names(&["b"]), now), expected, "{row}");
        }
    }

    #[test]
    fn a_leaf_has_to_have_every_name() {
        let stored = stored(90, Issuer::Newest);
        assert_eq!(
            plan(Some(&stored), &names(&["a", "b"]), day(0)),
            Plan::Keep { until: day(60) }
        );
        assert_eq!(plan(Some(&stored), &names(&["a", "c"]), day(0)), Plan::RenewLeaf);
    }

    #[test]
    fn what_an_authority_issues_ends_before_it_does() {
        assert!(AUTHORITY_MARGIN > LEAF_VALIDITY + BACKDATED);
        assert!(LEAF_VALIDITY > LEAF_MARGIN);
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        let ends = Stored {
            authority_not_before: Timestamp::MAX,
            authority_not_after: Timestamp::MAX,
            leaf: Some(StoredLeaf {
                not_after: Timestamp::MIN,
                dns_names: Vec::new(),
                issuer: Issuer::Trusted,
            }),
        };
        assert_eq!(plan(Some(&ends), &[], Timestamp::MIN), Plan::RenewLeaf);
        let begins = Stored {
            authority_not_after: Timestamp::MIN,
            ..ends
        };
        assert_eq!(plan(Some(&begins), &[], Timestamp::MAX), Plan::NewAuthority);
    }
}
