//! Allocations, releases and counts of pools (`U22` to `U29`, `U39` to `U49`, `E1`, `E3`, `E7`, `E11`, `E19`).

use std::net::{IpAddr, Ipv6Addr};

use nephele_ipam::{
    AddressPool, AddressPoolSpec, Adoption, AllocateAddressError, AllocatePrefixError, Owner, Prefix,
    PrefixPool, PrefixPoolSpec, StatusCounts, Usage,
};

fn texts(entries: &[&str]) -> Vec<String> {
    entries.iter().map(ToString::to_string).collect()
}

fn spec(addresses: &[&str], prefix: i64, gateway: &str) -> AddressPoolSpec {
    let addresses = texts(addresses);
    let gateway = gateway.into();
    AddressPoolSpec {
        addresses,
        prefix,
        gateway,
        ..AddressPoolSpec::default()
    }
}

fn pool(spec: &AddressPoolSpec) -> AddressPool {
    AddressPool::new(spec.validate().expect("the spec is good"))
}

fn prefix_spec(prefixes: &[&str], allocation_prefix_length: i64) -> PrefixPoolSpec {
    PrefixPoolSpec {
        prefixes: texts(prefixes),
        allocation_prefix_length,
        ..PrefixPoolSpec::default()
    }
}

fn prefix_pool(spec: &PrefixPoolSpec) -> PrefixPool {
    PrefixPool::new(spec.validate().expect("the spec is good"))
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn prefix(text: &str) -> Prefix {
    let (base, length) = text.split_once('/').expect("a prefix has a length");
    Prefix::new(
        base.parse().expect("an address"),
        length.parse().expect("a length"),
    )
}

fn owner(name: &str) -> Owner {
    Owner::new("default", name)
}

/// The next addresses of a pool, each for a new owner: `count` of them, or fewer if the pool has no more.
fn next(pool: &mut AddressPool, count: usize) -> Vec<String> {
    (0..count)
        .map_while(|n| pool.allocate(&owner(&format!("next-{n}")), None).ok())
        .map(|a| a.to_string())
        .collect()
}

#[test]
fn the_lowest_free_address_is_next() {
    /// Name, entries, ranges in use, the next address.
    type Row<'a> = (&'a str, &'a [&'a str], &'a [&'a str], Option<&'a str>);
    let twenty = ["10.0.0.10-10.0.0.20"];
    let gap = ["10.0.0.10-10.0.0.15", "10.0.0.20"];
    let rows: [Row<'_>; 8] = [
        ("U22", &twenty, &[], Some("10.0.0.10")),
        ("U23", &twenty, &["10.0.0.10-10.0.0.11"], Some("10.0.0.12")),
        ("U24", &twenty, &["10.0.0.10-10.0.0.19"], Some("10.0.0.20")),
        ("U25", &twenty, &["10.0.0.10-10.0.0.20"], None),
        ("U26", &["10.0.1.10-10.0.1.10"], &[], Some("10.0.1.10")),
        ("U27", &["10.0.1.10-10.0.1.10"], &["10.0.1.10-10.0.1.10"], None),
        ("U28", &gap, &["10.0.0.10-10.0.0.15"], Some("10.0.0.20")),
        ("U29", &gap, &["10.0.0.10-10.0.0.15", "10.0.0.20-10.0.0.20"], None),
    ];
    for (name, addresses, used, expected) in rows {
        let mut pool = pool(&spec(addresses, 24, ""));
        for range in used {
            let (first, last) = range.split_once('-').expect("a range");
            let (IpAddr::V4(first), IpAddr::V4(last)) = (address(first), address(last)) else {
                panic!("the rows are of v4");
            };
            for used in first.to_bits()..=last.to_bits() {
                pool.adopt(owner(&used.to_string()), IpAddr::V4(used.into()));
            }
        }
        let allocated = pool.allocate(&owner("new"), None);
        assert_eq!(
            allocated,
            expected.map(address).ok_or(AllocateAddressError::Exhausted),
            "{name}"
        );
    }
    assert_eq!(
        AllocateAddressError::Exhausted.to_string(),
        "no address available"
    );
}

#[test]
fn the_smallest_subnets_are_reserved_whole() {
    // E1
    let rows = [
        ("10.0.0.0/31", 31, 0),
        ("10.0.0.0/32", 32, 0),
        ("10.0.0.0/30", 30, 2),
        ("fd00::/127", 127, 1),
        ("fd00::/128", 128, 0),
    ];
    for (cidr, prefix, total) in rows {
        let spec = spec(&[cidr], prefix, "");
        assert_eq!(pool(&spec).usage().total, total, "{cidr}");
        let all = AddressPoolSpec {
            allocate_reserved_ip_addresses: true,
            ..spec
        };
        let host_bits = if cidr.contains(':') {
            128 - prefix
        } else {
            32 - prefix
        };
        assert_eq!(pool(&all).usage().total, 1 << host_bits, "{cidr}");
    }
}

#[test]
fn a_pool_excluded_whole_is_exhausted() {
    // E3
    let excluded_addresses = texts(&["10.0.0.0/8"]);
    let mut pool = pool(&AddressPoolSpec {
        excluded_addresses,
        ..spec(&["10.0.0.0/24"], 24, "10.0.0.1")
    });
    assert_eq!(
        pool.allocate(&owner("a"), None),
        Err(AllocateAddressError::Exhausted)
    );
    assert_eq!(
        pool.usage().status_counts(),
        StatusCounts {
            total: 0,
            free: 0,
            used: 0,
            out_of_range: 0
        }
    );
}

#[test]
fn the_order_of_entries_does_not_matter() {
    // C5, C6, C10
    let excluded_addresses = texts(&["10.1.1.2-10.1.1.5", "10.1.1.7"]);
    let mut excluding = pool(&AddressPoolSpec {
        excluded_addresses,
        ..spec(&["10.1.1.0/24"], 24, "10.1.1.1")
    });
    assert_eq!(next(&mut excluding, 3), ["10.1.1.6", "10.1.1.8", "10.1.1.9"]);
    let mut reversed = pool(&spec(&["10.0.1.3", "10.0.1.2"], 24, "10.0.1.1"));
    assert_eq!(next(&mut reversed, 3), ["10.0.1.2", "10.0.1.3"]);
}

#[test]
fn network_gateway_and_broadcast_are_not_given_out() {
    // C4
    let mut pool = pool(&spec(
        &["10.0.1.0", "10.0.1.1", "10.0.1.2", "10.0.1.255"],
        24,
        "10.0.1.1",
    ));
    assert_eq!(next(&mut pool, 4), ["10.0.1.2"]);
}

#[test]
fn the_same_owner_gets_the_same_answer() {
    let mut pool = pool(&spec(&["10.0.0.10-10.0.0.20"], 24, ""));
    assert_eq!(pool.allocate(&owner("a"), None), Ok(address("10.0.0.10")));
    let before = pool.clone();
    assert_eq!(pool.allocate(&owner("a"), None), Ok(address("10.0.0.10")));
    assert_eq!(
        pool.allocate(&owner("a"), Some(address("10.0.0.15"))),
        Ok(address("10.0.0.10"))
    );
    assert_eq!(pool, before);
    let elsewhere = Owner::new("other", "a");
    assert_eq!(pool.allocate(&elsewhere, None), Ok(address("10.0.0.11")));
    assert_eq!(
        (elsewhere.namespace(), elsewhere.name(), elsewhere.to_string()),
        ("other", "a", "other/a".into())
    );
}

#[test]
fn a_wanted_address_is_given_or_the_reason_against_it() {
    let mut pool = pool(&spec(&["10.0.0.10-10.0.0.20"], 24, "10.0.0.12"));
    assert_eq!(
        pool.allocate(&owner("a"), Some(address("10.0.0.15"))),
        Ok(address("10.0.0.15"))
    );
    let before = pool.clone();
    let mut refused = |wanted: &str| {
        let error = pool
            .allocate(&owner("b"), Some(address(wanted)))
            .expect_err("it is not free");
        (error.category(), error.to_string())
    };
    assert_eq!(
        refused("10.0.0.15"),
        ("in_use", "address 10.0.0.15 is in use by default/a".into())
    );
    for outside in ["10.0.0.12", "10.0.0.21", "fd00::1", "::ffff:10.0.0.10"] {
        let text = format!("address {outside} cannot be allocated from the pool");
        assert_eq!(refused(outside), ("not_allocatable", text));
    }
    assert_eq!(pool, before);
    assert_eq!(next(&mut pool, 8).len(), 8);
}

#[test]
fn the_lowest_released_address_is_given_first() {
    // E7
    let mut pool = pool(&spec(&["10.0.0.10-10.0.0.20"], 24, ""));
    next(&mut pool, 6);
    for name in ["next-4", "next-1", "next-3"] {
        pool.release(&owner(name));
    }
    let again: Vec<_> = ["a", "b", "c", "d"]
        .iter()
        .map(|name| pool.allocate(&owner(name), None))
        .collect();
    assert_eq!(
        again,
        ["10.0.0.11", "10.0.0.13", "10.0.0.14", "10.0.0.16"].map(|a| Ok(address(a)))
    );
}

#[test]
fn releasing_all_leaves_the_pool_as_it_was() {
    let mut pool = pool(&spec(&["10.0.0.10-10.0.0.12"], 24, ""));
    let fresh = pool.clone();
    let lowest = pool.allocate(&owner("a"), None).expect("it is free");
    pool.adopt(owner("b"), lowest);
    pool.adopt(owner("b"), address("10.0.0.99"));
    assert!(!pool.release_address(&owner("c"), lowest));
    assert!(pool.release_address(&owner("a"), lowest) && !pool.release_address(&owner("a"), lowest));
    assert_eq!(
        pool.usage(),
        Usage {
            total: 3,
            free: 2,
            taken: 1,
            used: 2,
            out_of_range: 1
        }
    );
    assert!(
        pool.release_address(&owner("b"), lowest) && pool.release_address(&owner("b"), address("10.0.0.99"))
    );
    assert_eq!(pool, fresh);
}

#[test]
fn addresses_out_of_range_are_counted_and_free_is_never_negative() {
    // S9, E11
    let mut pool = pool(&spec(&["10.0.0.10-10.0.0.20"], 24, "10.0.0.1"));
    next(&mut pool, 5);
    let layout = |addresses: &[&str]| {
        spec(addresses, 24, "10.0.0.1")
            .validate()
            .expect("the spec is good")
    };
    pool.replace_layout(layout(&["10.0.0.13-10.0.0.20"]));
    assert_eq!(
        pool.usage(),
        Usage {
            total: 8,
            free: 6,
            taken: 2,
            used: 5,
            out_of_range: 3
        }
    );
    assert_eq!(
        pool.usage().status_counts(),
        StatusCounts {
            total: 8,
            free: 6,
            used: 5,
            out_of_range: 3
        }
    );
    pool.replace_layout(layout(&["10.0.0.40"]));
    assert_eq!(
        pool.usage().status_counts(),
        StatusCounts {
            total: 1,
            free: 1,
            used: 5,
            out_of_range: 5
        }
    );
    // The owner keeps its address; a released address is not allocated again.
    assert_eq!(pool.allocate(&owner("next-0"), None), Ok(address("10.0.0.10")));
    assert_eq!(pool.release(&owner("next-0")), [address("10.0.0.10")]);
    assert_eq!(
        pool.usage().status_counts(),
        StatusCounts {
            total: 1,
            free: 1,
            used: 4,
            out_of_range: 4
        }
    );
    assert_eq!(pool.allocate(&owner("new"), None), Ok(address("10.0.0.40")));
    pool.replace_layout(layout(&["10.0.0.10-10.0.0.20"]));
    assert_eq!(
        pool.usage().status_counts(),
        StatusCounts {
            total: 11,
            free: 7,
            used: 5,
            out_of_range: 1
        }
    );
    assert_eq!(pool.allocate(&owner("newer"), None), Ok(address("10.0.0.10")));
}

#[test]
fn an_address_two_have_is_reported_and_in_use_until_both_release_it() {
    let mut pool = pool(&spec(&["10.0.0.10-10.0.0.11"], 24, ""));
    let shared = address("10.0.0.10");
    assert_eq!(
        pool.adopt(owner("b"), shared),
        Adoption {
            in_range: true,
            also_held_by: vec![]
        }
    );
    assert_eq!(
        pool.adopt(owner("b"), shared),
        Adoption {
            in_range: true,
            also_held_by: vec![]
        }
    );
    assert_eq!(
        pool.adopt(owner("c"), shared),
        Adoption {
            in_range: true,
            also_held_by: vec![owner("b")]
        }
    );
    assert_eq!(
        pool.adopt(owner("a"), shared),
        Adoption {
            in_range: true,
            also_held_by: vec![owner("b"), owner("c")]
        }
    );
    assert_eq!(
        pool.owners_of(shared).cloned().collect::<Vec<_>>(),
        ["a", "b", "c"].map(owner)
    );
    assert_eq!(
        pool.usage(),
        Usage {
            total: 2,
            free: 1,
            taken: 1,
            used: 3,
            out_of_range: 0
        }
    );
    for name in ["a", "b"] {
        assert_eq!(pool.release(&owner(name)), [shared]);
        assert_eq!(pool.usage().free, 1);
    }
    assert_eq!(pool.release(&owner("c")), [shared]);
    assert_eq!(pool.release(&owner("c")), Vec::<IpAddr>::new());
    assert_eq!(
        pool.usage(),
        Usage {
            total: 2,
            free: 2,
            taken: 0,
            used: 0,
            out_of_range: 0
        }
    );
}

#[test]
fn an_owner_of_two_addresses_answers_with_the_lowest_and_may_release_one() {
    let mut pool = pool(&spec(&["10.0.0.10-10.0.0.11"], 24, ""));
    pool.adopt(owner("a"), address("10.0.0.11"));
    pool.adopt(owner("a"), address("10.0.0.10"));
    assert_eq!(pool.address_of(&owner("a")), Some(address("10.0.0.10")));
    assert!(!pool.release_address(&owner("a"), address("10.0.0.12")));
    assert!(pool.release_address(&owner("a"), address("10.0.0.10")));
    assert_eq!(pool.address_of(&owner("a")), Some(address("10.0.0.11")));
    assert_eq!(pool.release(&owner("a")), [address("10.0.0.11")]);
}

#[test]
fn counts_beyond_64_bits_are_cut_and_still_go_down() {
    // E19
    let mut pool = pool(&spec(&["fd00::/64"], 64, ""));
    let max = i64::MAX;
    assert_eq!(pool.usage().total, (1 << 64) - 1);
    assert_eq!(
        pool.usage().status_counts(),
        StatusCounts {
            total: max,
            free: max,
            used: 0,
            out_of_range: 0
        }
    );
    next(&mut pool, 3);
    pool.adopt(owner("out"), address("fd01::1"));
    assert_eq!(pool.usage().free, (1 << 64) - 4);
    assert_eq!(
        pool.usage().status_counts(),
        StatusCounts {
            total: max,
            free: max - 3,
            used: 4,
            out_of_range: 1
        }
    );
}

#[test]
fn all_addresses_there_are_make_a_pool() {
    let all = AddressPoolSpec {
        allocate_reserved_ip_addresses: true,
        ..spec(&["::/0"], 0, "")
    };
    let mut pool = pool(&all);
    let whole = Usage {
        total: u128::MAX,
        free: u128::MAX,
        taken: 0,
        used: 0,
        out_of_range: 0,
    };
    assert_eq!(pool.usage(), whole);
    assert_eq!(pool.allocate(&owner("first"), None), Ok(address("::")));
    let last = Ipv6Addr::from_bits(u128::MAX).into();
    assert_eq!(pool.allocate(&owner("last"), Some(last)), Ok(last));
    assert_eq!(
        pool.usage(),
        Usage {
            free: u128::MAX - 1,
            taken: 2,
            used: 2,
            ..whole
        }
    );
    pool.release(&owner("first"));
    pool.release(&owner("last"));
    assert_eq!(pool.usage(), whole);
    let mut blocks = prefix_pool(&prefix_spec(&["::/0"], 128));
    assert_eq!(blocks.usage(), whole);
    blocks.adopt(owner("everything"), prefix("::/0"));
    assert_eq!(
        blocks.usage(),
        Usage {
            free: 0,
            taken: u128::MAX,
            used: 1,
            out_of_range: 1,
            ..whole
        }
    );
    assert_eq!(
        blocks.allocate(&owner("a"), None),
        Err(AllocatePrefixError::Exhausted)
    );
    blocks.release(&owner("everything"));
    assert_eq!(blocks.usage(), whole);
}

#[test]
fn a_large_pool_costs_what_a_small_one_does() {
    // The length of the `Debug` text shows how much is stored: a list or a bitmap would make it long.
    let stored = |addresses: &str, prefix| {
        let mut pool = pool(&spec(&[addresses], prefix, ""));
        next(&mut pool, 10);
        format!("{pool:?}").len()
    };
    let small = stored("10.0.0.0/28", 28);
    assert!(stored("10.0.0.0/8", 8) <= small + 20);
    // The numbers are longer, but not more.
    assert!(stored("fd00::/64", 64) <= stored("fd00::/124", 124) + 200);
}

/// Used, spec, next.
fn prefix_row(used: &[&str], spec: &PrefixPoolSpec) -> Result<String, String> {
    let mut pool = prefix_pool(spec);
    for (index, text) in used.iter().enumerate() {
        pool.adopt(owner(&index.to_string()), prefix(text));
    }
    pool.allocate(&owner("new"), None)
        .map(|p| p.to_string())
        .map_err(|error| error.to_string())
}

#[test]
fn the_lowest_free_prefix_is_next() {
    let three = prefix_spec(&["fd00::/63", "fd00::/62", "fd00:0:0:8::/62"], 64);
    let with_gateway = PrefixPoolSpec {
        gateway: "fd00::1".into(),
        excluded_prefixes: texts(&["fd00:0:0:1::/64"]),
        ..prefix_spec(&["fd00::/62"], 64)
    };
    let first_four = [
        "fd00::/64",
        "fd00:0:0:1::/64",
        "fd00:0:0:2::/64",
        "fd00:0:0:3::/64",
    ];
    let rows: [(&str, &[&str], PrefixPoolSpec, &str); 10] = [
        ("U39", &[], three.clone(), "fd00::/64"),
        ("U39, four used", &first_four, three, "fd00:0:0:8::/64"),
        (
            "U40",
            &["fd00::/64"],
            prefix_spec(&["fd00::/62"], 64),
            "fd00:0:0:1::/64",
        ),
        ("U41", &[], with_gateway.clone(), "fd00::/64"),
        ("U41, one used", &["fd00::/64"], with_gateway, "fd00:0:0:2::/64"),
        ("U43", &[], prefix_spec(&["fd00::/63"], 64), "fd00::/64"),
        ("U46", &[], prefix_spec(&["fd00::/48"], 56), "fd00::/56"),
        (
            "D3",
            &["fd06::/56"],
            prefix_spec(&["fd06::/48"], 56),
            "fd06:0:0:100::/56",
        ),
        (
            "D4",
            &["fd00:0:0:1::/64"],
            prefix_spec(&["fd00:0:0:1::/64", "fd10::/48"], 64),
            "fd10::/64",
        ),
        ("U48", &[], prefix_spec(&["fd00::/62"], 64), "fd00::/64"),
    ];
    for (name, used, spec, expected) in rows {
        assert_eq!(prefix_row(used, &spec), Ok(expected.to_owned()), "{name}");
    }
    let exhausted = prefix_row(&["fd00::/64"], &prefix_spec(&["fd00::/64"], 64));
    assert_eq!(exhausted, Err("no prefix available".to_owned()), "U42");
}

#[test]
fn prefixes_are_counted_without_being_listed() {
    let excluding = |excluded: &[&str], spec: PrefixPoolSpec| PrefixPoolSpec {
        excluded_prefixes: texts(excluded),
        ..spec
    };
    let rows = [
        (
            "U39",
            prefix_spec(&["fd00::/63", "fd00::/62", "fd00:0:0:8::/62"], 64),
            8,
        ),
        ("U45, U48", prefix_spec(&["fd00::/62"], 64), 4),
        ("U46", prefix_spec(&["fd00::/48"], 56), 256),
        (
            "U49",
            excluding(&["fd00:0:0:3::/64"], prefix_spec(&["fd00::/62"], 64)),
            3,
        ),
        (
            "one excluded address",
            excluding(&["fd00:0:0:3::7"], prefix_spec(&["fd00::/62"], 64)),
            3,
        ),
        (
            "an excluded range over a boundary",
            excluding(
                &["fd00:0:0:1:ffff::-fd00:0:0:2::"],
                prefix_spec(&["fd00::/62"], 64),
            ),
            2,
        ),
        (
            "everything excluded",
            excluding(&["::/0"], prefix_spec(&["fd00::/62"], 64)),
            0,
        ),
        ("as many as can be", prefix_spec(&["::/0"], 127), 1 << 127),
        ("halves of everything", prefix_spec(&["::/0"], 1), 2),
    ];
    for (name, spec, total) in rows {
        assert_eq!(prefix_pool(&spec).usage().total, total, "{name}");
    }
    // U47
    assert!(prefix_spec(&["not-a-cidr"], 64).validate().is_err());
    assert!(prefix_spec(&["fd00::/62"], -1).validate().is_err());
}

#[test]
fn a_prefix_is_that_of_its_length_around_an_address() {
    // U44
    assert_eq!(prefix("fd00:0:0:5::1234/64").to_string(), "fd00:0:0:5::/64");
    assert_eq!(prefix("fd00:0:0:5::1234/0").to_string(), "::/0");
    assert_eq!(prefix("fd00:0:0:5::1234/128").to_string(), "fd00:0:0:5::1234/128");
}

#[test]
fn only_whole_prefixes_of_the_length_are_allocatable() {
    // U49
    let excluded_prefixes = texts(&["fd00:0:0:3::/64"]);
    let spec = PrefixPoolSpec {
        excluded_prefixes,
        ..prefix_spec(&["fd00::/62"], 64)
    };
    let layout = spec.validate().expect("the spec is good");
    for (text, expected) in [
        ("fd00:0:0:2::/64", true),
        ("fd00:0:0:3::/64", false),
        ("fd00::/63", false),
        ("fd00::/65", false),
        ("fd00:0:0:4::/64", false),
    ] {
        assert_eq!(layout.is_allocatable(prefix(text)), expected, "{text}");
    }
    assert_eq!(
        layout.allocatable().to_string(),
        "fd00::-fd00::2:ffff:ffff:ffff:ffff"
    );
}

#[test]
fn prefixes_of_other_lengths_block_what_they_overlap() {
    let mut pool = prefix_pool(&prefix_spec(&["fd00::/62"], 64));
    let short = Adoption {
        in_range: false,
        also_held_by: vec![],
    };
    assert_eq!(pool.adopt(owner("short"), prefix("fd00::/63")), short);
    assert_eq!(
        pool.adopt(owner("host"), prefix("fd00:0:0:1::5/128"))
            .also_held_by,
        [owner("short")]
    );
    assert_eq!(
        pool.adopt(owner("other-host"), prefix("fd00:0:0:1::6/128"))
            .also_held_by,
        [owner("short")]
    );
    assert_eq!(
        pool.usage(),
        Usage {
            total: 4,
            free: 2,
            taken: 2,
            used: 3,
            out_of_range: 3
        }
    );
    assert_eq!(
        pool.allocate(&owner("new"), Some(prefix("fd00::/64")))
            .map_err(|error| error.to_string()),
        Err("prefix fd00::/64 is in use by default/short".into())
    );
    assert_eq!(
        pool.allocate(&owner("new"), Some(prefix("fd00::/63"))),
        Err(AllocatePrefixError::NotAllocatable(prefix("fd00::/63")))
    );
    assert_eq!(pool.release(&owner("short")), [prefix("fd00::/63")]);
    assert_eq!(
        pool.usage(),
        Usage {
            total: 4,
            free: 3,
            taken: 1,
            used: 2,
            out_of_range: 2
        }
    );
    assert_eq!(pool.allocate(&owner("a"), None), Ok(prefix("fd00::/64")));
    assert_eq!(pool.allocate(&owner("b"), None), Ok(prefix("fd00:0:0:2::/64")));
    pool.release(&owner("host"));
    assert_eq!(pool.usage().free, 1);
    pool.release(&owner("other-host"));
    assert_eq!(pool.allocate(&owner("c"), None), Ok(prefix("fd00:0:0:1::/64")));
}

#[test]
fn a_pool_of_prefixes_may_be_shrunk_over_what_is_in_use() {
    // S16, S17
    let mut pool = prefix_pool(&prefix_spec(&["fd01::/62"], 64));
    assert_eq!(pool.allocate(&owner("a"), None), Ok(prefix("fd01::/64")));
    assert_eq!(
        pool.allocate(&owner("a"), Some(prefix("fd01:0:0:3::/64"))),
        Ok(prefix("fd01::/64"))
    );
    pool.replace_layout(
        prefix_spec(&["fd01:0:0:1::/64"], 64)
            .validate()
            .expect("the spec is good"),
    );
    assert_eq!(
        pool.usage().status_counts(),
        StatusCounts {
            total: 1,
            free: 1,
            used: 1,
            out_of_range: 1
        }
    );
    assert_eq!(pool.prefix_of(&owner("a")), Some(prefix("fd01::/64")));
    pool.release(&owner("a"));
    assert_eq!(
        pool.usage().status_counts(),
        StatusCounts {
            total: 1,
            free: 1,
            used: 0,
            out_of_range: 0
        }
    );
}
