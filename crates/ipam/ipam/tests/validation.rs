//! Rules of specs (`V1` to `V12`, `P1` to `P8`, the rows `W4` to `W33` and `X1` to `X12`) and of their updates.

use std::net::IpAddr;

use nephele_ipam::{
    AddressPoolSpec, FieldError, FieldValue, Prefix, PrefixPoolSpec, UpdateError, check_address_pool_update,
    check_prefix_pool_update,
};

const NOT_AN_ENTRY: &str = "provided address is not a valid IP, range, nor CIDR";
const MIXED: &str = "provided addresses are of mixed IP families";
const GATEWAY_MIXED: &str = "provided gateway and addresses are of mixed IP families";
const OTHER_SUBNET: &str = "provided address belongs to a different subnet than others";

fn texts(entries: &[&str]) -> Vec<String> {
    entries.iter().map(ToString::to_string).collect()
}

fn addresses(addresses: &[&str], prefix: i64, gateway: &str) -> AddressPoolSpec {
    let addresses = texts(addresses);
    let gateway = gateway.into();
    AddressPoolSpec {
        addresses,
        prefix,
        gateway,
        ..AddressPoolSpec::default()
    }
}

fn excluding(excluded: &[&str], spec: AddressPoolSpec) -> AddressPoolSpec {
    AddressPoolSpec {
        excluded_addresses: texts(excluded),
        ..spec
    }
}

fn with_grace_period(seconds: i64, spec: AddressPoolSpec) -> AddressPoolSpec {
    AddressPoolSpec {
        address_reuse_grace_period_seconds: Some(seconds),
        ..spec
    }
}

fn prefixes(prefixes: &[&str], allocation_prefix_length: i64) -> PrefixPoolSpec {
    PrefixPoolSpec {
        prefixes: texts(prefixes),
        allocation_prefix_length,
        ..PrefixPoolSpec::default()
    }
}

fn with_gateway(gateway: &str, spec: PrefixPoolSpec) -> PrefixPoolSpec {
    PrefixPoolSpec {
        gateway: gateway.into(),
        ..spec
    }
}

fn without(excluded: &[&str], spec: PrefixPoolSpec) -> PrefixPoolSpec {
    PrefixPoolSpec {
        excluded_prefixes: texts(excluded),
        ..spec
    }
}

fn text(value: &str) -> FieldValue {
    FieldValue::Text(value.into())
}

fn list(values: &[&str]) -> FieldValue {
    FieldValue::List(texts(values))
}

fn error(field: &'static str, value: FieldValue, message: &str) -> FieldError {
    FieldError {
        field,
        value,
        message: message.into(),
    }
}

#[test]
fn good_specs_of_addresses_are_accepted() {
    let v6 = ["fe01::2", "fe01::3-fe01::5", "fe01::1:1/126"];
    let rows = [
        (
            "W4",
            addresses(&["10.0.0.25", "10.0.0.26", "10.0.0.27"], 28, "10.0.0.24"),
        ),
        ("W5", addresses(&["10.0.0.25", "10.0.0.26", "10.0.0.27"], 28, "")),
        (
            "W6",
            excluding(
                &["10.0.0.23", "10.0.0.24"],
                addresses(&["10.0.0.25", "10.0.0.26", "10.0.0.27"], 28, ""),
            ),
        ),
        ("W7", addresses(&v6, 28, "fe01::1")),
        ("W8", addresses(&v6, 28, "")),
        (
            "W9",
            excluding(
                &["fe01::4", "fe01::6-fe01::8", "fe01::1:10/126"],
                addresses(&v6, 28, ""),
            ),
        ),
        (
            "W10",
            with_grace_period(60, addresses(&["10.0.0.25", "10.0.0.26"], 28, "10.0.0.24")),
        ),
        ("W33", addresses(&["10.0.0.10-10.0.0.20"], 0, "10.0.0.1")),
        ("E2", addresses(&["10.0.0.10-10.0.0.20"], 24, "192.168.7.1")),
        (
            "E3",
            excluding(&["10.0.0.0/8"], addresses(&["10.0.0.10-10.0.0.20"], 24, "")),
        ),
        (
            "gateway with a zone",
            addresses(&["fe80::10-fe80::20"], 64, "fe80::1%eth0"),
        ),
    ];
    for (name, spec) in rows {
        assert!(spec.validate().is_ok(), "{name}: {:?}", spec.validate());
        assert_eq!(check_address_pool_update(&spec, &spec, []), Ok(()), "{name}");
    }
}

#[test]
fn a_good_spec_is_read_once_and_for_all() {
    let spec = with_grace_period(60, addresses(&["10.0.0.7/28"], 28, "10.0.0.1"));
    let layout = spec.validate().expect("the spec is good");
    assert_eq!(layout.family().to_string(), "IPv4");
    assert_eq!(
        (layout.prefix(), layout.gateway()),
        (28, Some(IpAddr::from([10, 0, 0, 1])))
    );
    assert_eq!(layout.allocatable(), &spec.allocatable());
    assert_eq!(layout.allocatable().to_string(), "10.0.0.2-10.0.0.14");
}

#[test]
fn bad_specs_of_addresses_are_refused_with_the_field_the_value_and_the_reason() {
    let in_subnet = |entry: &'static str| addresses(&["10.0.1.0", entry], 24, "10.0.0.1");
    let other_subnet = |entry: &'static str| vec![error("spec.addresses", text(entry), OTHER_SUBNET)];
    let two = ["10.0.0.25", "10.0.0.26"];
    let rows = [
        (
            "W11",
            addresses(&[], 24, "10.0.0.1"),
            vec![error("spec.addresses", list(&[]), "addresses is required")],
        ),
        (
            "W12",
            addresses(&["10.0.0.25", "10.0.0.26", "10.0.0.27"], 24, "invalid"),
            vec![error(
                "spec.gateway",
                text("invalid"),
                r#"ParseAddr("invalid"): unable to parse IP"#,
            )],
        ),
        (
            "W13",
            addresses(&["10.0.0.25", "10.0.0.26", "10.0.1.27"], 24, "10.0.0.1"),
            other_subnet("10.0.1.27"),
        ),
        (
            "W14",
            addresses(&["10.0.0.25", "10.0.0.26", "garbage"], 24, ""),
            vec![error("spec.addresses", text("garbage"), NOT_AN_ENTRY)],
        ),
        (
            "W15",
            addresses(&two, -1, ""),
            vec![error(
                "spec.prefix",
                FieldValue::Number(-1),
                "a valid prefix is required",
            )],
        ),
        (
            "W16",
            addresses(&two, 9999, ""),
            vec![error(
                "spec.prefix",
                FieldValue::Number(9999),
                "provided prefix is not valid",
            )],
        ),
        (
            "a prefix of the other family",
            addresses(&two, 33, ""),
            vec![error(
                "spec.prefix",
                FieldValue::Number(33),
                "provided prefix is not valid",
            )],
        ),
        (
            "W17",
            addresses(&["10.0.0.10-10.0.0.5"], 24, ""),
            vec![error("spec.addresses", text("10.0.0.10-10.0.0.5"), NOT_AN_ENTRY)],
        ),
        (
            "W18",
            addresses(&["10.0.0.10/33"], 24, ""),
            vec![error("spec.addresses", text("10.0.0.10/33"), NOT_AN_ENTRY)],
        ),
        // The lowest address determines the subnet, wherever it is in the list.
        ("W19", in_subnet("10.0.0.10-10.0.0.20"), other_subnet("10.0.1.0")),
        (
            "W20",
            in_subnet("10.0.2.10-10.0.2.20"),
            other_subnet("10.0.2.10-10.0.2.20"),
        ),
        (
            "W21",
            in_subnet("10.0.0.20-10.0.1.20"),
            [other_subnet("10.0.1.0"), other_subnet("10.0.0.20-10.0.1.20")].concat(),
        ),
        (
            "W22",
            in_subnet("10.0.1.20-10.0.2.20"),
            other_subnet("10.0.1.20-10.0.2.20"),
        ),
        ("W23", in_subnet("10.0.0.1/24"), other_subnet("10.0.1.0")),
        ("W24", in_subnet("10.0.2.1/24"), other_subnet("10.0.2.1/24")),
        (
            "W25",
            in_subnet("10.0.0.0/23"),
            [other_subnet("10.0.1.0"), other_subnet("10.0.0.0/23")].concat(),
        ),
        (
            "W26",
            in_subnet("10.0.1.0/23"),
            [other_subnet("10.0.1.0"), other_subnet("10.0.1.0/23")].concat(),
        ),
        (
            "W27",
            addresses(&["10.0.1.0", "10.0.0.2-10.0.0.250"], 24, "fd00::1"),
            vec![error("spec.gateway", text("fd00::1"), GATEWAY_MIXED)],
        ),
        (
            "W28",
            addresses(&["fd00::1", "fd00::100-fd00::200"], 24, "10.0.0.1"),
            vec![error("spec.gateway", text("10.0.0.1"), GATEWAY_MIXED)],
        ),
        (
            "W29",
            addresses(&["fd00::1", "10.0.0.1-10.0.0.9"], 24, "10.0.0.1"),
            vec![
                error("spec.addresses", list(&["fd00::1", "10.0.0.1-10.0.0.9"]), MIXED),
                error("spec.gateway", text("10.0.0.1"), GATEWAY_MIXED),
            ],
        ),
        (
            "W30",
            excluding(&["fd00::1", "10.0.0.4"], addresses(&two, 24, "")),
            vec![
                error("spec.excludedAddresses", list(&["fd00::1", "10.0.0.4"]), MIXED),
                error(
                    "spec.excludedAddresses",
                    list(&["fd00::1", "10.0.0.4"]),
                    "addresses and excluded addresses are of mixed IP families",
                ),
            ],
        ),
        (
            "W31",
            excluding(&["fd00::1"], addresses(&two, 24, "")),
            vec![error(
                "spec.excludedAddresses",
                list(&["fd00::1"]),
                "addresses and excluded addresses are of mixed IP families",
            )],
        ),
        (
            "W32",
            with_grace_period(-1, addresses(&["10.0.0.10-10.0.0.20"], 24, "")),
            vec![error(
                "spec.addressReuseGracePeriodSeconds",
                FieldValue::Number(-1),
                "addressReuseGracePeriodSeconds must not be negative",
            )],
        ),
        (
            "V7",
            excluding(&["10.0.0.5-"], addresses(&two, 24, "")),
            vec![error("spec.excludedAddresses", text("10.0.0.5-"), NOT_AN_ENTRY)],
        ),
        (
            "all at once",
            with_grace_period(
                -1,
                excluding(&["x"], addresses(&["y", "10.0.1.1", "10.0.0.1"], -2, "z")),
            ),
            vec![
                error(
                    "spec.prefix",
                    FieldValue::Number(-2),
                    "a valid prefix is required",
                ),
                error("spec.addresses", text("y"), NOT_AN_ENTRY),
                error("spec.gateway", text("z"), r#"ParseAddr("z"): unable to parse IP"#),
                error("spec.excludedAddresses", text("x"), NOT_AN_ENTRY),
                error(
                    "spec.addressReuseGracePeriodSeconds",
                    FieldValue::Number(-1),
                    "addressReuseGracePeriodSeconds must not be negative",
                ),
            ],
        ),
    ];
    for (name, spec, errors) in rows {
        assert_eq!(spec.validate(), Err(errors), "{name}");
    }
}

#[test]
fn errors_read_as_the_api_machinery_writes_them() {
    let shown = |spec: AddressPoolSpec| {
        let errors = spec.validate().expect_err("the spec is bad");
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        shown(addresses(&["10.0.0.25", "fd00::1"], -1, "invalid")),
        [
            "spec.prefix: Invalid value: -1: a valid prefix is required",
            r#"spec.addresses: Invalid value: ["10.0.0.25","fd00::1"]: provided addresses are of mixed IP families"#,
            r#"spec.gateway: Invalid value: "invalid": ParseAddr("invalid"): unable to parse IP"#,
        ]
    );
}

#[test]
fn a_bad_gateway_is_explained_in_the_words_of_go() {
    let rows = [
        ("1.2.3", r#"ParseAddr("1.2.3"): IPv4 address too short"#),
        ("1.2.3.4.5", r#"ParseAddr("1.2.3.4.5"): IPv4 address too long"#),
        (
            "1.2.3.256",
            r#"ParseAddr("1.2.3.256"): IPv4 field has value >255"#,
        ),
        (
            "1.2.3.04",
            r#"ParseAddr("1.2.3.04"): IPv4 field has octet with leading zero"#,
        ),
        (
            "1..3.4",
            r#"ParseAddr("1..3.4"): IPv4 field must have at least one digit (at ".3.4")"#,
        ),
        (
            "1.2.3.4 ",
            r#"ParseAddr("1.2.3.4 "): unexpected character (at " ")"#,
        ),
        (
            "1.2.3.4%a",
            r#"ParseAddr("1.2.3.4%a"): unexpected character (at "%a")"#,
        ),
        ("%a", r#"ParseAddr("%a"): missing IPv6 address"#),
        (
            "fe80::1%",
            r#"ParseAddr("fe80::1%"): zone must be a non-empty string"#,
        ),
        (
            "fe80::g",
            r#"ParseAddr("fe80::g"): each colon-separated field must have at least one digit (at "g")"#,
        ),
        (
            "12345::",
            r#"ParseAddr("12345::"): each group must have 4 or less digits (at "12345::")"#,
        ),
        ("1:2", r#"ParseAddr("1:2"): address string too short"#),
        (
            "1:",
            r#"ParseAddr("1:"): colon must be followed by more characters (at ":")"#,
        ),
        (
            "1::2::3",
            r#"ParseAddr("1::2::3"): multiple :: in address (at ":3")"#,
        ),
        (
            "1:2:3:4:5:6:7:8:9",
            r#"ParseAddr("1:2:3:4:5:6:7:8:9"): trailing garbage after address (at "9")"#,
        ),
        (
            "1:2:3:4::5:6:7:8",
            r#"ParseAddr("1:2:3:4::5:6:7:8"): the :: must expand to at least one field of zeros"#,
        ),
        (
            "::1x",
            r#"ParseAddr("::1x"): unexpected character, want colon (at "x")"#,
        ),
        (
            "1:1.2.3.4",
            r#"ParseAddr("1:1.2.3.4"): embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")"#,
        ),
        (
            "::1:2:3:4:5:6:7:1.2.3.4",
            r#"ParseAddr("::1:2:3:4:5:6:7:1.2.3.4"): too many hex fields to fit an embedded IPv4 at the end of the address (at "1.2.3.4")"#,
        ),
        ("é\"\n\u{1}", "ParseAddr(\"é\\\"\\n\\x01\"): unable to parse IP"),
    ];
    for (gateway, message) in rows {
        let spec = addresses(&["10.0.0.1"], 24, gateway);
        assert_eq!(
            spec.validate(),
            Err(vec![error("spec.gateway", text(gateway), message)]),
            "{gateway}"
        );
    }
}

#[test]
fn good_specs_of_prefixes_are_accepted() {
    let rows = [
        ("X8", prefixes(&["fd00::/64", "fd01::/64"], 0)),
        ("X9", prefixes(&["fd00::/48"], 56)),
        ("X10", prefixes(&["fd00::/48"], 96)),
        ("X11", prefixes(&["fd00::/48"], 128)),
        ("X12", prefixes(&["fd00::/48"], 64)),
        (
            "everything",
            without(&["::1", "fd00::1-fd00::9", "fd00::7/120"], prefixes(&["::/0"], 1)),
        ),
    ];
    for (name, spec) in rows {
        assert!(spec.validate().is_ok(), "{name}: {:?}", spec.validate());
    }
}

#[test]
fn bad_specs_of_prefixes_are_refused_with_the_field_the_value_and_the_reason() {
    let bad_prefix = |entry: &str, message: &str| vec![error("spec.prefixes", text(entry), message)];
    let length = |length| {
        vec![error(
            "spec.allocationPrefixLength",
            FieldValue::Number(length),
            "allocationPrefixLength must be between 1 and 128",
        )]
    };
    let rows = [
        (
            "X1",
            PrefixPoolSpec::default(),
            vec![error("spec.prefixes", list(&[]), "prefixes is required")],
        ),
        ("P2, too short", prefixes(&["garbage"], -1), length(-1)),
        ("P2, too long", prefixes(&["garbage"], 129), length(129)),
        (
            "X2",
            prefixes(&["fd00::1"], 0),
            bad_prefix("fd00::1", "provided entry is not a valid IPv6 CIDR"),
        ),
        (
            "a range",
            prefixes(&["fd00::-fd00::1"], 0),
            bad_prefix("fd00::-fd00::1", "provided entry is not a valid IPv6 CIDR"),
        ),
        (
            "X3",
            prefixes(&["fd00::1/64"], 0),
            bad_prefix("fd00::1/64", "CIDR must be network-aligned"),
        ),
        (
            "X4",
            prefixes(&["fd00::/65"], 0),
            bad_prefix(
                "fd00::/65",
                "CIDR prefix length must be <= allocationPrefixLength (64)",
            ),
        ),
        (
            "not aligned and too long",
            prefixes(&["fd00::1/65"], 60),
            [
                bad_prefix("fd00::1/65", "CIDR must be network-aligned"),
                bad_prefix(
                    "fd00::1/65",
                    "CIDR prefix length must be <= allocationPrefixLength (60)",
                ),
            ]
            .concat(),
        ),
        (
            "X5",
            prefixes(&["10.0.0.0/24"], 0),
            bad_prefix("10.0.0.0/24", "only IPv6 prefixes are supported"),
        ),
        (
            "X6",
            with_gateway("10.0.0.1", prefixes(&["fd00::/64"], 0)),
            vec![error(
                "spec.gateway",
                text("10.0.0.1"),
                "provided gateway must be IPv6",
            )],
        ),
        (
            "P7",
            with_gateway("invalid", prefixes(&["fd00::/64"], 0)),
            vec![error(
                "spec.gateway",
                text("invalid"),
                r#"ParseAddr("invalid"): unable to parse IP"#,
            )],
        ),
        (
            "X7",
            without(&["10.0.0.1"], prefixes(&["fd00::/64"], 0)),
            vec![error(
                "spec.excludedPrefixes",
                text("10.0.0.1"),
                "only IPv6 excluded prefixes are supported",
            )],
        ),
        (
            "P8",
            without(&["fd00::9-fd00::1"], prefixes(&["fd00::/64"], 0)),
            vec![error(
                "spec.excludedPrefixes",
                text("fd00::9-fd00::1"),
                "provided entry is not a valid IP, range, nor CIDR",
            )],
        ),
    ];
    for (name, spec, errors) in rows {
        assert_eq!(spec.validate(), Err(errors), "{name}");
    }
}

#[test]
fn single_addresses_as_prefixes_are_warned_about() {
    let like_hosts = "spec.allocationPrefixLength=128 behaves like host-address allocation; consider \
                      InClusterIPPool for single-address semantics";
    let gateway_free = "spec.gateway is within spec.prefixes and is not reserved; with /128 \
                        allocationPrefixLength it may also be allocated to claims";
    let rows = [
        (
            "X20, X21",
            with_gateway("fd40::1", prefixes(&["fd40::/64"], 128)),
            vec![like_hosts, gateway_free],
        ),
        (
            "X22, X23",
            with_gateway("fd51::1", prefixes(&["fd50::/64"], 0)),
            vec![],
        ),
        ("X24", prefixes(&["fd60::/64"], 128), vec![like_hosts]),
        (
            "gateway outside",
            with_gateway("fd61::1", prefixes(&["fd60::/64"], 128)),
            vec![like_hosts],
        ),
    ];
    for (name, spec, warnings) in rows {
        assert_eq!(spec.warnings(), warnings, "{name}");
    }
}

fn in_use(addresses: &[&str]) -> Vec<IpAddr> {
    addresses
        .iter()
        .map(|address| address.parse().expect("an address"))
        .collect()
}

#[test]
fn an_update_may_not_put_addresses_in_use_out_of_range() {
    let old = addresses(&["10.0.0.10-10.0.0.20"], 24, "10.0.0.1");
    let used = in_use(&["10.0.0.10", "10.0.0.11", "10.0.0.14"]);
    let refused = |new: &AddressPoolSpec| {
        check_address_pool_update(&old, new, used.iter().copied()).map_err(|error| error.to_string())
    };
    let text = |ranges: &str| {
        Err(format!(
            "pool addresses do not contain allocated addresses: [{ranges}]"
        ))
    };
    // W2
    let shrunk = addresses(&["10.0.0.15-10.0.0.20"], 24, "10.0.0.1");
    assert_eq!(refused(&shrunk), text("10.0.0.10-10.0.0.11 10.0.0.14-10.0.0.14"));
    assert_eq!(
        refused(&excluding(&["10.0.0.14"], old.clone())),
        text("10.0.0.14-10.0.0.14")
    );
    assert_eq!(
        refused(&addresses(&["10.0.0.10-10.0.0.20"], 24, "10.0.0.11")),
        text("10.0.0.11-10.0.0.11")
    );
    assert_eq!(
        refused(&addresses(&["fd00::/64"], 64, "")),
        text("10.0.0.10-10.0.0.11 10.0.0.14-10.0.0.14")
    );
    // Then the whole subnet is reserved.
    assert_eq!(
        refused(&addresses(&["10.0.0.10-10.0.0.20"], 31, "")),
        text("10.0.0.10-10.0.0.11")
    );
    assert_eq!(
        refused(&addresses(&["10.0.0.10-10.0.0.14", "10.0.0.40"], 24, "10.0.0.2")),
        Ok(())
    );
}

#[test]
fn reserved_addresses_in_use_keep_the_flag_on() {
    let new = addresses(&["10.0.0.0/24"], 24, "10.0.0.1");
    let old = AddressPoolSpec {
        allocate_reserved_ip_addresses: true,
        ..new.clone()
    };
    assert_eq!(
        check_address_pool_update(&old, &new, in_use(&["10.0.0.0", "10.0.0.255"])),
        Err(UpdateError::AddressesInUse(
            in_use(&["10.0.0.0", "10.0.0.255"]).into_iter().collect()
        ))
    );
    assert_eq!(
        check_address_pool_update(&old, &new, in_use(&["10.0.0.2"])),
        Ok(())
    );
}

#[test]
fn addresses_out_of_range_already_forbid_nothing() {
    // E9
    let spec = addresses(&["10.0.0.15-10.0.0.20"], 24, "10.0.0.1");
    let used = in_use(&["10.0.0.10", "10.0.0.16", "fd00::1"]);
    assert_eq!(
        check_address_pool_update(&spec, &spec, used.iter().copied()),
        Ok(())
    );
    let larger = addresses(&["10.0.0.15-10.0.0.30"], 24, "10.0.0.1");
    assert_eq!(
        check_address_pool_update(&spec, &larger, used.iter().copied()),
        Ok(())
    );
    let smaller = addresses(&["10.0.0.17-10.0.0.20"], 24, "10.0.0.1");
    assert_eq!(
        check_address_pool_update(&spec, &smaller, used),
        Err(UpdateError::AddressesInUse(
            in_use(&["10.0.0.16"]).into_iter().collect()
        ))
    );
}

#[test]
fn a_bad_spec_that_is_stored_counts_as_far_as_it_can_be_read() {
    let stored = addresses(&["10.0.0.10-10.0.0.20", "garbage"], 24, "not a gateway");
    let repaired = addresses(&["10.0.0.10-10.0.0.20"], 24, "");
    let shrunk = addresses(&["10.0.0.15-10.0.0.20"], 24, "");
    let used = in_use(&["10.0.0.10"]);
    assert_eq!(
        check_address_pool_update(&stored, &repaired, used.iter().copied()),
        Ok(())
    );
    assert!(check_address_pool_update(&stored, &shrunk, used).is_err());

    let stored = prefixes(&["fd00::/62", "10.0.0.0/8", "fd00::/80"], 0);
    let used = [Prefix::new("fd00::".parse().expect("an address"), 64)];
    assert_eq!(
        check_prefix_pool_update(&stored, &prefixes(&["fd00::/62"], 64), used),
        Ok(())
    );
    assert!(check_prefix_pool_update(&stored, &prefixes(&["fd00:0:0:2::/63"], 64), used).is_err());
    let without_length = prefixes(&["fd00::/62"], 1000);
    assert_eq!(
        check_prefix_pool_update(&without_length, &without_length, used),
        Ok(())
    );
}

#[test]
fn an_update_may_not_make_prefixes_in_use_non_allocatable() {
    let prefix = |base: &str| Prefix::new(base.parse().expect("an address"), 64);
    let rows = [
        (
            "X15",
            prefixes(&["fd00::/62"], 0),
            prefixes(&["fd00:0:0:1::/64"], 0),
            prefix("fd00::"),
            Err("existing allocations become non-allocatable: [fd00::]"),
        ),
        (
            "X16",
            prefixes(&["fd10::/62"], 0),
            prefixes(&["fd10:0:0:1::/64"], 0),
            prefix("fd10::"),
            Err("existing allocations become non-allocatable: [fd10::]"),
        ),
        (
            "X17",
            prefixes(&["fd20::/62"], 0),
            with_gateway(
                "fd20:0:0:1::1",
                without(&["fd20:0:0:2::/64"], prefixes(&["fd20::/62"], 0)),
            ),
            prefix("fd20::"),
            Ok(()),
        ),
        (
            "X18",
            prefixes(&["fd00::/48"], 56),
            prefixes(&["fd00::/48"], 64),
            prefix("fd00::"),
            Err("spec.allocationPrefixLength is immutable"),
        ),
        (
            "the default written out",
            prefixes(&["fd00::/48"], 0),
            prefixes(&["fd00::/48"], 64),
            prefix("fd00::"),
            Ok(()),
        ),
        (
            "X19",
            prefixes(&["fd30::/62"], 0),
            without(&["fd30::/64"], prefixes(&["fd30::/62"], 0)),
            prefix("fd30::"),
            Err("existing allocations become non-allocatable: [fd30::]"),
        ),
        (
            "out of range already",
            prefixes(&["fd30::/62"], 0),
            prefixes(&["fd30::/63"], 0),
            prefix("fd40::"),
            Ok(()),
        ),
    ];
    for (name, old, new, used, expected) in rows {
        let checked = check_prefix_pool_update(&old, &new, [used]).map_err(|error| error.to_string());
        assert_eq!(checked, expected.map_err(str::to_owned), "{name}");
    }
    let several = ["fd00:0:0:2::", "fd00::", "fd00:0:0:1::"].map(prefix);
    assert_eq!(
        check_prefix_pool_update(
            &prefixes(&["fd00::/62"], 0),
            &prefixes(&["fd01::/62"], 0),
            several
        ),
        Err(UpdateError::PrefixesInUse(texts(&[
            "fd00:0:0:1::",
            "fd00:0:0:2::",
            "fd00::"
        ])))
    );
}
