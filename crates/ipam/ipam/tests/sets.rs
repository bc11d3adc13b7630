//! The allocatable addresses of a pool's spec, and their number (`U1` to `U38`).

use nephele_ipam::{AddressPoolSpec, AddressRange, AddressSet};

fn spec(addresses: &[&str], prefix: i64, gateway: &str) -> AddressPoolSpec {
    AddressPoolSpec {
        addresses: addresses.iter().map(ToString::to_string).collect(),
        prefix,
        gateway: gateway.into(),
        ..AddressPoolSpec::default()
    }
}

fn excluding(excluded: &[&str], spec: AddressPoolSpec) -> AddressPoolSpec {
    AddressPoolSpec {
        excluded_addresses: excluded.iter().map(ToString::to_string).collect(),
        ..spec
    }
}

fn with_reserved(spec: AddressPoolSpec) -> AddressPoolSpec {
    AddressPoolSpec {
        allocate_reserved_ip_addresses: true,
        ..spec
    }
}

fn set(entries: &[&str]) -> AddressSet {
    AddressSet::parse(entries).expect("entries are good")
}

/// Name, spec, and exactly the allocatable addresses.
type Row = (&'static str, AddressPoolSpec, &'static [&'static str]);

fn rows() -> Vec<Row> {
    let v4_small = ["192.168.0.3-192.168.0.4", "192.168.0.6/31"];
    let v6_small = ["fd01::3-fd01::4", "fd01::6/127"];
    let with = |first: &[&'static str], rest: &[&'static str]| [first, rest].concat();
    let v4 = |first: &[&'static str]| with(first, &v4_small);
    let v6 = |first: &[&'static str]| with(first, &v6_small);
    vec![
        (
            "U1",
            spec(&["192.168.0.3-192.168.0.10"], 0, "192.168.0.1"),
            &["192.168.0.3-192.168.0.10"],
        ),
        (
            "U2",
            spec(&v4(&["192.168.0.2"]), 24, "192.168.0.1"),
            &["192.168.0.2-192.168.0.4", "192.168.0.6-192.168.0.7"],
        ),
        (
            "U3",
            spec(&v4(&["192.168.0.0"]), 24, "192.168.0.1"),
            &["192.168.0.3-192.168.0.4", "192.168.0.6-192.168.0.7"],
        ),
        (
            "U4",
            spec(
                &v4(&["192.168.1.0", "192.168.0.255", "192.168.255.255"]),
                16,
                "192.168.0.1",
            ),
            &[
                "192.168.0.3-192.168.0.4",
                "192.168.0.6-192.168.0.7",
                "192.168.0.255-192.168.1.0",
            ],
        ),
        (
            "U5",
            spec(&v4(&["192.168.0.1"]), 24, "192.168.0.1"),
            &["192.168.0.3-192.168.0.4", "192.168.0.6-192.168.0.7"],
        ),
        (
            "U6, U7",
            with_reserved(spec(
                &v4(&["192.168.0.0", "192.168.0.1", "192.168.0.255"]),
                24,
                "192.168.0.1",
            )),
            &[
                "192.168.0.0",
                "192.168.0.3-192.168.0.4",
                "192.168.0.6-192.168.0.7",
                "192.168.0.255",
            ],
        ),
        (
            "U8",
            excluding(
                &["192.168.0.5", "192.168.0.6", "192.168.0.7"],
                spec(&["192.168.0.0-192.168.0.10"], 24, "192.168.0.1"),
            ),
            &["192.168.0.2-192.168.0.4", "192.168.0.8-192.168.0.10"],
        ),
        (
            "U9",
            excluding(
                &["192.168.0.128/25"],
                spec(&["192.168.0.0/24"], 24, "192.168.0.1"),
            ),
            &["192.168.0.2-192.168.0.127"],
        ),
        (
            "U10",
            excluding(
                &["192.168.0.2-192.168.0.20"],
                spec(&["192.168.0.0/24"], 24, "192.168.0.1"),
            ),
            &["192.168.0.21-192.168.0.254"],
        ),
        (
            "U11",
            spec(&v6(&["fd01::2"]), 120, "fd01::1"),
            &["fd01::2-fd01::4", "fd01::6-fd01::7"],
        ),
        (
            "U12",
            spec(&v6(&["fd01::0"]), 120, "fd01::1"),
            &["fd01::3-fd01::4", "fd01::6-fd01::7"],
        ),
        (
            "U13",
            spec(
                &v6(&["fd01::ffff", "fd01::1:0", "fd01::ffff:ffff"]),
                112,
                "fd01::1",
            ),
            &[
                "fd01::3-fd01::4",
                "fd01::6-fd01::7",
                "fd01::ffff-fd01::1:0",
                "fd01::ffff:ffff",
            ],
        ),
        (
            "U14",
            spec(&v6(&["fd01::1"]), 120, "fd01::1"),
            &["fd01::3-fd01::4", "fd01::6-fd01::7"],
        ),
        (
            "U15, U16",
            with_reserved(spec(
                &v6(&["fd01::0", "fd01::1", "fd01::ffff:ffff"]),
                120,
                "fd01::1",
            )),
            &["fd01::", "fd01::3-fd01::4", "fd01::6-fd01::7", "fd01::ffff:ffff"],
        ),
    ]
}

#[test]
fn exclusions_reserved_addresses_and_the_gateway_are_not_allocatable() {
    for (name, spec, expected) in rows() {
        assert_eq!(spec.allocatable(), set(expected), "{name}");
    }
}

#[test]
fn what_is_allocatable_is_counted() {
    let counts = [8, 5, 4, 6, 4, 6, 6, 126, 234, 5, 4, 7, 4, 6];
    let counted: Vec<_> = rows()
        .iter()
        .map(|(_, spec, _)| spec.allocatable().count())
        .collect();
    assert_eq!(counted, counts);
}

#[test]
fn the_subnet_is_that_of_the_lowest_address_even_if_excluded() {
    let spec = excluding(
        &["10.0.0.5"],
        spec(&["10.0.0.5", "10.0.1.0", "10.0.1.255"], 24, ""),
    );
    assert_eq!(spec.allocatable(), set(&["10.0.1.0", "10.0.1.255"]));
}

#[test]
fn entries_of_any_kind_make_one_set() {
    // U17
    let v4 = set(&["192.168.1.25", "192.168.1.26-192.168.1.28", "192.168.2.16/30"]);
    assert_eq!(
        v4.to_string(),
        "192.168.1.25-192.168.1.28 192.168.2.16-192.168.2.19"
    );
    // U18
    let v6 = set(&["fe80::10/127", "fe80::13-fe80::14", "fe80::16"]);
    assert_eq!(v6.to_string(), "fe80::10-fe80::11 fe80::13-fe80::14 fe80::16");
    let contained = (9..=0x17_u16)
        .filter(|last| v6.contains(std::net::Ipv6Addr::from([0xfe80, 0, 0, 0, 0, 0, 0, *last]).into()));
    assert_eq!(contained.collect::<Vec<_>>(), [0x10, 0x11, 0x13, 0x14, 0x16]);
}

#[test]
fn one_bad_entry_spoils_the_list() {
    // U19
    let lists: [&[&str]; 6] = [
        &["192.168.1.25", "192.168.1.2612"],
        &["192.168.1.2-192.168.1.4-"],
        &["192.168.1.2-192.168.1.4-192.168.1.9"],
        &["192.168.1.4-192.168.1.2"],
        &["192.168.1.4/21-192.168.1.2"],
        &["192.168.1.4/-192.168.1.2"],
    ];
    for list in lists {
        assert!(AddressSet::parse(list).is_err(), "{list:?}");
    }
}

#[test]
fn entries_are_read_as_the_grammar_says() {
    // U20, E4
    let good = [
        ("192.168.1.2", "192.168.1.2"),
        ("192.168.1.2-192.168.1.4", "192.168.1.2-192.168.1.4"),
        ("192.168.1.2-192.168.1.2", "192.168.1.2"),
        ("192.168.1.2/24", "192.168.1.0-192.168.1.255"),
        ("0.0.0.0/0", "0.0.0.0-255.255.255.255"),
        ("192.168.1.2/32", "192.168.1.2"),
        ("fe80::1", "fe80::1"),
        ("fe80::1-fe80::3", "fe80::1-fe80::3"),
        ("fe80::1/64", "fe80::-fe80::ffff:ffff:ffff:ffff"),
        ("FE80:0::0001", "fe80::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("fe80::1%a-fe80::2%b", "fe80::1-fe80::2"),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.1"),
        ("::ffff:192.0.2.1/120", "::ffff:192.0.2.0-::ffff:192.0.2.255"),
        ("::/0", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ];
    for (entry, shown) in good {
        assert_eq!(
            entry.parse::<AddressRange>().map(|range| range.to_string()),
            Ok(shown.to_owned()),
            "{entry}"
        );
    }
    // U21, E5
    let bad = [
        "192.168.1.2.4",
        "192.168.1.4-192.168.1.1",
        "192.168.1.2/33",
        "fe80::zzzz",
        "fe80::3-fe80::1",
        "fe80::1/129",
        "",
        " ",
        " 192.168.1.2",
        "192.168.1.2 ",
        "192.168.1.2 - 192.168.1.4",
        "192.168.01.2",
        "192.168.1.256",
        "192.168.1",
        "192.168.1.2/024",
        "192.168.1.2/+24",
        "192.168.1.2/-24",
        "192.168.1.2/",
        "192.168.1.2/99999999999999999999",
        "192.168.1.2/24/24",
        "192.168.1.2-fe80::1",
        "192.168.1.2-::ffff:192.168.1.3",
        "-",
        "/",
        "%",
        "%eth0",
        "fe80::1%",
        "fe80::1%eth0/64",
        "192.168.1.2%eth0",
        "fe80::1%a/b-fe80::2",
        "fe80::1%my-eth",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1:2:3:4:5:6:7::8",
        "1::2::3",
        ":1",
        "12345::",
        "१.१.१.१",
    ];
    for entry in bad {
        assert!(entry.parse::<AddressRange>().is_err(), "{entry:?}");
    }
}

#[test]
fn sets_are_counted_without_being_listed() {
    // U30 to U38; from U36 on the counts do not fit 64 bits.
    let rows: [(&[&str], u128); 12] = [
        (&[], 0),
        (&["192.168.1.1"], 1),
        (&["192.168.1.1", "192.168.1.2"], 2),
        (&["192.168.1.1-192.168.1.10", "192.168.1.20-192.168.1.25"], 16),
        (&["192.168.1.1-192.168.1.10", "192.168.1.5-192.168.1.15"], 15),
        (&["192.168.1.1/24", "192.168.2.1/31"], 258),
        (&["fe80::1/20"], 1 << 108),
        (&["fe80::1/65"], 1 << 63),
        (&["fe80::1/126"], 4),
        (&["::/0"], u128::MAX),
        (&["::/1", "8000::/1", "10.0.0.1"], u128::MAX),
        (&["::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"], u128::MAX),
    ];
    for (entries, count) in rows {
        assert_eq!(set(entries).count(), count, "{entries:?}");
    }
}
