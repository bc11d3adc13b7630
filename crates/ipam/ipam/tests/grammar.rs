//! The grammar of entries against arbitrary text, and sets of ranges against sets of numbers.

use std::{collections::BTreeSet, net::IpAddr};

use nephele_ipam::{AddressPoolSpec, AddressRange, AddressSet, PrefixPoolSpec, parse_address};
use proptest::prelude::*;

/// Texts that are entries or a few characters away from one.
fn nearly_entries() -> impl Strategy<Value = String> {
    let address = prop_oneof![
        any::<std::net::Ipv4Addr>().prop_map(|address| address.to_string()),
        any::<std::net::Ipv6Addr>().prop_map(|address| address.to_string()),
        prop::collection::vec(prop_oneof![Just(0_u16), Just(0), any::<u16>()], 8).prop_map(|groups| {
            let groups: [u16; 8] = groups.try_into().expect("there are eight");
            std::net::Ipv6Addr::from(groups).to_string()
        }),
        any::<u32>().prop_map(|bits| format!("::ffff:{}", std::net::Ipv4Addr::from_bits(bits))),
    ];
    let zone = prop_oneof![4 => Just(String::new()), 1 => "%[a-z0-9/%-]{0,3}"];
    let zoned = (address, zone).prop_map(|(address, zone)| format!("{address}{zone}"));
    let entry = prop_oneof![
        zoned.clone(),
        (zoned.clone(), "[0-9+-]{0,4}").prop_map(|(address, length)| format!("{address}/{length}")),
        (zoned.clone(), zoned).prop_map(|(first, last)| format!("{first}-{last}")),
    ];
    (
        entry,
        prop::collection::vec(
            (
                any::<prop::sample::Index>(),
                "[0-9a-fA-F:./% -]{0,2}",
                any::<bool>(),
            ),
            0..4,
        ),
    )
        .prop_map(|(mut entry, changes)| {
            for (index, text, remove) in changes {
                let at = index.index(entry.len() + 1);
                let end = (at + usize::from(remove)).min(entry.len());
                entry.replace_range(at..end, &text);
            }
            entry
        })
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        ".*",
        "[0-9a-f:./%-]{0,45}",
        "[0-9.]{0,16}",
        "[0-9a-f:]{0,41}",
        // Any number of groups: too few, too many, an ellipsis, an embedded v4 address at any place.
        "(::)?([0-9a-f]{1,4}:){0,9}(:?[0-9a-f]{0,4}|1\\.2\\.3\\.4)",
        nearly_entries(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn an_entry_that_was_read_is_read_the_same_from_what_it_is_shown_as(text in texts()) {
        if let Ok(range) = text.parse::<AddressRange>() {
            prop_assert_eq!(range.to_string().parse::<AddressRange>(), Ok(range));
            prop_assert!(range.first() <= range.last());
            prop_assert!(range.contains(range.first()) && range.contains(range.last()));
        }
    }

    #[test]
    fn addresses_are_those_of_std_but_for_zones(text in texts()) {
        let (address, zone) = text.split_once('%').map_or((&*text, None), |(address, zone)| (address, Some(zone)));
        let expected = address.parse::<IpAddr>().ok().filter(|address| match zone {
            None => true,
            Some(zone) => address.is_ipv6() && !zone.is_empty(),
        });
        prop_assert_eq!(parse_address(&text).ok(), expected, "{}", text);
    }

    #[test]
    fn entries_are_ranges_then_prefixes_then_addresses(text in texts()) {
        let expected = if let Some((first, last)) = text.split_once('-') {
            let ends = parse_address(first).ok().zip(parse_address(last).ok());
            ends.filter(|(first, last)| !text.contains('/') && first.is_ipv4() == last.is_ipv4() && first <= last)
        } else if let Some((address, length)) = text.rsplit_once('/') {
            let good = (0..=128_u8).find(|good| good.to_string() == length);
            let address = address.parse::<IpAddr>().ok();
            address.zip(good).and_then(|(address, length)| masked(address, length))
        } else {
            parse_address(&text).ok().map(|address| (address, address))
        };
        let read = text.parse::<AddressRange>().ok().map(|range| (range.first(), range.last()));
        prop_assert_eq!(read, expected, "{}", text);
    }

    #[test]
    fn no_spec_makes_it_panic(
        entries in prop::collection::vec(texts(), 0..4),
        excluded in prop::collection::vec(texts(), 0..4),
        gateway in texts(),
        numbers in (any::<i64>(), -1..140_i64, any::<bool>()),
    ) {
        let (any_number, small, flag) = numbers;
        for prefix in [any_number, small] {
            let spec = AddressPoolSpec {
                addresses: entries.clone(),
                prefix,
                gateway: gateway.clone(),
                allocate_reserved_ip_addresses: flag,
                excluded_addresses: excluded.clone(),
                address_reuse_grace_period_seconds: Some(prefix),
            };
            let allocatable = spec.allocatable();
            match spec.validate() {
                Ok(layout) => prop_assert_eq!(layout.allocatable(), &allocatable),
                Err(errors) => prop_assert!(!errors.is_empty() && errors.iter().all(|e| e.to_string().contains("spec."))),
            }
            let spec = PrefixPoolSpec {
                prefixes: entries.clone(),
                allocation_prefix_length: prefix,
                gateway: gateway.clone(),
                excluded_prefixes: excluded.clone(),
            };
            let readable = spec.readable_layout();
            prop_assert!(spec.warnings().len() <= 2);
            match spec.validate() {
                Ok(layout) => prop_assert_eq!(Some(layout), readable),
                Err(errors) => prop_assert!(!errors.is_empty()),
            }
        }
    }
}

/// First and last address, bit by bit.
fn masked(address: IpAddr, length: u8) -> Option<(IpAddr, IpAddr)> {
    let ends = |octets: &[u8]| -> Option<(Vec<u8>, Vec<u8>)> {
        let bits = octets.len() * 8;
        let host = |bit: usize| bit >= usize::from(length);
        let mut ends = (octets.to_vec(), octets.to_vec());
        for bit in (0..bits).filter(|bit| host(*bit)) {
            ends.0[bit / 8] &= !(0x80 >> (bit % 8));
            ends.1[bit / 8] |= 0x80 >> (bit % 8);
        }
        (usize::from(length) <= bits).then_some(ends)
    };
    match address {
        IpAddr::V4(address) => ends(&address.octets()).map(|(first, last)| {
            let v4 = |octets: Vec<u8>| IpAddr::from(<[u8; 4]>::try_from(octets).expect("four"));
            (v4(first), v4(last))
        }),
        IpAddr::V6(address) => ends(&address.octets()).map(|(first, last)| {
            let v6 = |octets: Vec<u8>| IpAddr::from(<[u8; 16]>::try_from(octets).expect("sixteen"));
            (v6(first), v6(last))
        }),
    }
}

/// Windows of 32 addresses, at both ends of both families and in the middle.
const WINDOWS: [&str; 5] = [
    "0.0.0.0",
    "10.0.0.64",
    "255.255.255.224",
    "::",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffe0",
];
const WINDOW: u128 = 32;

fn in_window(window: usize, offset: u128) -> IpAddr {
    match WINDOWS[window].parse().expect("an address") {
        IpAddr::V4(base) => IpAddr::V4((base.to_bits() + u32::try_from(offset).expect("it is small")).into()),
        IpAddr::V6(base) => IpAddr::V6((base.to_bits() + offset).into()),
    }
}

/// Ranges by window, first and last offset.
fn ranges() -> impl Strategy<Value = Vec<(usize, u128, u128)>> {
    let range = (0..WINDOWS.len(), 0..WINDOW, 0..WINDOW);
    prop::collection::vec(
        range.prop_map(|(window, a, b)| (window, a.min(b), a.max(b))),
        0..12,
    )
}

fn set(ranges: &[(usize, u128, u128)]) -> AddressSet {
    let range = |&(window, first, last): &(usize, u128, u128)| {
        AddressRange::new(in_window(window, first), in_window(window, last)).expect("offsets are in order")
    };
    ranges.iter().map(range).collect()
}

fn listed(ranges: &[(usize, u128, u128)]) -> BTreeSet<IpAddr> {
    ranges
        .iter()
        .flat_map(|&(window, first, last)| (first..=last).map(move |at| in_window(window, at)))
        .collect()
}

fn same(set: &AddressSet, listed: &BTreeSet<IpAddr>) -> Result<(), TestCaseError> {
    prop_assert_eq!(
        set,
        &listed.iter().copied().collect::<AddressSet>(),
        "one set has one form"
    );
    prop_assert_eq!(set.count(), listed.len() as u128);
    prop_assert_eq!(set.is_empty(), listed.is_empty());
    prop_assert_eq!(set.lowest(), listed.first().copied());
    prop_assert_eq!(set.ranges().map(AddressRange::count).sum::<u128>(), set.count());
    for window in 0..WINDOWS.len() {
        for at in 0..WINDOW {
            let address = in_window(window, at);
            prop_assert_eq!(set.contains(address), listed.contains(&address), "{}", address);
        }
    }
    let ranges: Vec<_> = set.ranges().collect();
    prop_assert!(ranges.is_sorted());
    for pair in ranges.windows(2) {
        let gap = AddressRange::new(pair[0].last(), pair[1].first()).map_or(3, AddressRange::count);
        prop_assert!(gap > 2, "{} and {} could be one", pair[0], pair[1]);
    }
    let parsed = AddressSet::parse(set.to_string().split_whitespace());
    prop_assert_eq!(parsed.as_ref(), Ok(set));
    Ok(())
}

proptest! {
    /// The parts of a range are one behind the other, from its first address to its last, whatever their size.
    #[test]
    fn parts_of_a_range_are_the_range(first: u128, more: u128, parts in 1..40_u128) {
        let last = first.saturating_add(more);
        let range = AddressRange::new(std::net::Ipv6Addr::from(first).into(), std::net::Ipv6Addr::from(last).into())
            .expect("in order");
        let size = range.count().div_ceil(parts);
        let mut next = 0;
        let mut seen = Vec::new();
        while let Some(part) = range.part(next, size) {
            prop_assert_eq!(range.offset_of(part.first()), Some(next));
            next += part.count();
            seen.push(part);
        }
        prop_assert!(seen.len() as u128 <= parts);
        prop_assert_eq!(seen.iter().copied().collect::<AddressSet>(), [range].into_iter().collect());
        prop_assert_eq!(next, range.count());
        prop_assert_eq!(seen[0].offset_of(seen[0].last()), Some(seen[0].count() - 1));
    }
}

proptest! {
    #[test]
    fn sets_of_ranges_are_sets(a in ranges(), b in ranges(), probe in (0..WINDOWS.len(), 0..WINDOW, 0..WINDOW)) {
        let left = listed(&a);
        let right = listed(&b);
        same(&set(&a), &left)?;
        same(&set(&a).union(&set(&b)), &left.union(&right).copied().collect())?;
        same(&set(&a).subtract(&set(&b)), &left.difference(&right).copied().collect())?;
        same(&set(&a).intersect(&set(&b)), &left.intersection(&right).copied().collect())?;
        let window = probe.0;
        let first = probe.1.min(probe.2);
        let last = probe.1.max(probe.2);
        let range = AddressRange::new(in_window(window, first), in_window(window, last)).expect("in order");
        let all = (first..=last).all(|at| left.contains(&in_window(window, at)));
        prop_assert_eq!(set(&a).contains_range(range), all);
    }
}

#[test]
fn no_pattern_takes_longer_than_its_length_allows() {
    nephele_growth::assert_linear("address", 16 * 1024, &["", "10.0.0.", "fd00::"], |text| {
        let _ = parse_address(text);
        let _ = text.parse::<AddressRange>();
    });
    let beginnings = ["10.0.0.1-", "10.0.0.0/"];
    nephele_growth::assert_linear("entries of a pool", 16 * 1024, &beginnings, |text| {
        let addresses = vec![text.to_owned()];
        let _ = AddressPoolSpec {
            addresses,
            prefix: 24,
            ..AddressPoolSpec::default()
        }
        .validate();
    });
}
