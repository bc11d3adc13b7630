use proptest::{collection::vec, option, prelude::*};
use serde_json::json;

use super::*;

const OLD: &str = "ipam.cluster.x-k8s.io/v1alpha1";
const NEW: &str = "ipam.cluster.x-k8s.io/v1alpha2";
const KINDS: [&str; 2] = ["InClusterIPPool", "GlobalInClusterIPPool"];

fn pool(kind: &str, api_version: &str, spec: &Value) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "pool", "uid": "1" }, "spec": spec })
}

fn with_data(mut pool: Value, data: &Value) -> Value {
    pool["metadata"]["annotations"] = json!({ "cluster.x-k8s.io/conversion-data": data.to_string() });
    pool
}

fn data(pool: &Value) -> Option<Value> {
    let text = pool["metadata"]["annotations"]["cluster.x-k8s.io/conversion-data"].as_str()?;
    Some(serde_json::from_str(text).expect("JSON"))
}

fn converted(pool: &Value, version: &str) -> Value {
    convert(pool.clone(), version).expect("convertible")
}

/// The ids are those of the rows in the in-cluster provider's test suite.
#[test]
fn a_range_or_a_subnet_becomes_one_entry_of_the_addresses() {
    let rows = [
        (
            "K1",
            json!({ "gateway": "1.1.1.1", "subnet": "1.1.1.1/28", "start": "1.1.1.1", "end": "1.1.1.10", "prefix": 28 }),
            json!({ "addresses": ["1.1.1.1-1.1.1.10"], "prefix": 28, "gateway": "1.1.1.1" }),
        ),
        (
            "K2",
            json!({ "addresses": ["1.1.1.1-1.1.1.10"], "prefix": 28, "gateway": "1.1.1.1" }),
            json!({ "addresses": ["1.1.1.1-1.1.1.10"], "prefix": 28, "gateway": "1.1.1.1" }),
        ),
        (
            "K3",
            json!({ "subnet": "1.1.1.0/24", "start": "1.1.1.10", "end": "1.1.1.15", "gateway": "1.1.1.1" }),
            json!({ "addresses": ["1.1.1.10-1.1.1.15"], "prefix": 24, "gateway": "1.1.1.1" }),
        ),
        (
            "K4",
            json!({ "subnet": "1.1.1.0/24", "gateway": "1.1.1.1" }),
            json!({ "addresses": ["1.1.1.1-1.1.1.254"], "prefix": 24, "gateway": "1.1.1.1" }),
        ),
        (
            "a subnet of IPv6",
            json!({ "subnet": "fd00::7/120" }),
            json!({ "addresses": ["fd00::1-fd00::fe"], "prefix": 120 }),
        ),
        (
            "a range beside addresses",
            json!({ "addresses": ["1.1.1.1"], "start": "1.1.1.3", "end": "1.1.1.4", "prefix": 24 }),
            json!({ "addresses": ["1.1.1.1", "1.1.1.3-1.1.1.4"], "prefix": 24 }),
        ),
        (
            "half a range",
            json!({ "start": "1.1.1.3", "prefix": 24 }),
            json!({ "addresses": [], "prefix": 24 }),
        ),
        (
            "a subnet too small for a range that could be handed out",
            json!({ "subnet": "1.1.1.0/31" }),
            json!({ "addresses": ["1.1.1.1-1.1.1.0"], "prefix": 31 }),
        ),
    ];
    for kind in KINDS {
        for (row, old, new) in &rows {
            let converted = converted(&pool(kind, OLD, old), NEW);
            assert_eq!(
                (&converted["spec"], &converted["apiVersion"]),
                (new, &json!(NEW)),
                "{row} {kind}"
            );
            assert_eq!(
                (&converted["metadata"]["uid"], &converted["kind"]),
                (&json!("1"), &json!(kind))
            );
        }
    }
}

#[test]
fn addresses_prefix_and_gateway_are_in_both_versions() {
    let spec = json!({ "addresses": ["1.1.1.1-1.1.1.10"], "prefix": 10, "gateway": "1.2.3.5" });
    for kind in KINDS {
        assert_eq!(
            converted(&pool(kind, NEW, &spec), OLD),
            pool(kind, OLD, &spec),
            "K5"
        );
    }
}

#[test]
fn what_was_written_in_the_old_version_is_read_back() {
    let same = |spec: Value| (spec.clone(), spec);
    let rows = [
        (
            "K6",
            same(json!({ "addresses": ["1.1.1.1-1.1.1.10"], "prefix": 16, "gateway": "1.1.1.1" })),
        ),
        (
            "K7",
            same(json!({ "subnet": "1.1.1.1/16", "start": "1.1.1.2", "end": "1.1.1.10", "prefix": 16 })),
        ),
        (
            "K8",
            (
                json!({ "subnet": "1.1.1.1/24" }),
                json!({ "subnet": "1.1.1.1/24", "start": "1.1.1.1", "end": "1.1.1.254", "prefix": 24 }),
            ),
        ),
    ];
    for kind in KINDS {
        for (row, (written, read)) in &rows {
            let stored = converted(&pool(kind, OLD, written), NEW);
            assert_eq!(converted(&stored, OLD), pool(kind, OLD, read), "{row} {kind}");
        }
    }
}

#[test]
fn the_annotation_is_that_of_the_in_cluster_provider() {
    let stored = converted(
        &pool("InClusterIPPool", OLD, &json!({ "subnet": "1.1.1.0/24" })),
        NEW,
    );
    let spec = json!({ "subnet": "1.1.1.0/24", "start": "1.1.1.1", "end": "1.1.1.254", "prefix": 24 });
    assert_eq!(
        data(&stored),
        Some(json!({ "apiVersion": OLD, "kind": "InClusterIPPool", "spec": spec }))
    );
    // As the in-cluster provider writes it: with the status, and without kind and version.
    let theirs = json!({
        "spec": spec, "status": { "ipAddresses": { "total": 254, "free": 254, "used": 0, "outOfRange": 0 } },
    });
    for kind in KINDS {
        let new = json!({ "addresses": ["1.1.1.1-1.1.1.254"], "prefix": 24 });
        let stored = with_data(pool(kind, NEW, &new), &theirs);
        assert_eq!(converted(&stored, OLD), pool(kind, OLD, &spec), "{kind}");
    }
}

#[test]
fn a_change_through_the_new_version_is_seen_through_the_old_one() {
    for kind in KINDS {
        let mut stored = converted(&pool(kind, OLD, &json!({ "subnet": "1.1.1.0/24" })), NEW);
        stored["spec"]["addresses"] = json!(["1.1.1.1-1.1.1.9"]);
        let expected = json!({ "addresses": ["1.1.1.1-1.1.1.9"], "prefix": 24 });
        assert_eq!(converted(&stored, OLD), pool(kind, OLD, &expected), "{kind}");
    }
}

#[test]
fn reading_and_writing_the_old_version_keeps_the_fields_of_the_new_one() {
    let new = json!({
        "addresses": ["10.0.0.0/24"], "prefix": 24, "gateway": "10.0.0.1",
        "allocateReservedIPAddresses": true, "excludedAddresses": ["10.0.0.9"], "addressReuseGracePeriodSeconds": 60,
    });
    for kind in KINDS {
        let mut old = converted(&pool(kind, NEW, &new), OLD);
        assert_eq!(converted(&old, NEW), pool(kind, NEW, &new), "E17 {kind}");
        old["spec"]["gateway"] = json!("10.0.0.254");
        let mut expected = new.clone();
        expected["gateway"] = json!("10.0.0.254");
        assert_eq!(converted(&old, NEW), pool(kind, NEW, &expected), "E17 {kind}");
    }
}

#[test]
fn an_annotation_that_makes_no_sense_is_dropped() {
    let spec = json!({ "addresses": ["10.0.0.1"], "prefix": 24 });
    for version in [OLD, NEW] {
        let other = if version == OLD { NEW } else { OLD };
        for text in [
            "",
            "{",
            "null",
            "[]",
            r#"{"spec":7}"#,
            r#"{"spec":{"subnet":"x"}}"#,
            r#"{"apiVersion":"v1","spec":{}}"#,
        ] {
            let mut annotated = pool("InClusterIPPool", version, &spec);
            annotated["metadata"]["annotations"] =
                json!({ "cluster.x-k8s.io/conversion-data": text, "other": "kept" });
            let mut expected = pool("InClusterIPPool", other, &spec);
            expected["metadata"]["annotations"] = json!({ "other": "kept" });
            assert_eq!(converted(&annotated, other), expected, "{version} {text}");
        }
    }
}

#[test]
fn what_is_no_subnet_is_refused() {
    for text in [
        "10.0.0.0",
        "10.0.0.0/33",
        "fd00::/129",
        "10.0.0.0/08",
        "10.0.0.0/+8",
        "10.0.0.0/",
        "x/8",
        "fe80::1%eth0/64",
    ] {
        let error = convert(pool("InClusterIPPool", OLD, &json!({ "subnet": text })), NEW).expect_err(text);
        let expected = format!("spec.subnet: Invalid value: {text:?}: must be a subnet in CIDR notation");
        assert_eq!(error.to_string(), expected);
    }
    for text in ["255.255.255.255/32", "0.0.0.0/32"] {
        let error = convert(pool("InClusterIPPool", OLD, &json!({ "subnet": text })), NEW).expect_err(text);
        assert_eq!(error.category(), "InvalidSubnet", "{text}");
    }
}

#[test]
fn only_ip_pools_and_their_versions_are_converted() {
    let spec = json!({ "addresses": [], "prefix": 24 });
    for (kind, from, to) in [
        ("InClusterPrefixPool", NEW, OLD),
        ("InClusterIPPool", "ipam.cluster.x-k8s.io/v1", NEW),
        ("InClusterIPPool", NEW, "v1alpha1"),
        ("InClusterIPPool", OLD, "ipam.cluster.x-k8s.io/v1beta2"),
        ("GlobalInClusterIPPool", "", OLD),
    ] {
        let error = convert(pool(kind, from, &spec), to).expect_err(kind);
        assert_eq!(
            error.to_string(),
            format!("failed to convert {kind:?} of {from:?} to {to:?}: no such conversion")
        );
    }
    let same = pool("InClusterIPPool", NEW, &json!({ "unknown": true }));
    assert_eq!(converted(&same, NEW), same);
}

fn entry() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<std::net::IpAddr>().prop_map(|address| address.to_string()),
        (any::<std::net::Ipv4Addr>(), 0..33).prop_map(|(address, length)| format!("{address}/{length}")),
        "[0-9a-f.:/-]{0,12}",
    ]
}

fn sometimes<T: Default + Clone + std::fmt::Debug>(
    strategy: impl Strategy<Value = T>,
) -> impl Strategy<Value = T> {
    option::of(strategy).prop_map(Option::unwrap_or_default)
}

prop_compose! {
    fn new_spec()(
        addresses in vec(entry(), 0..4),
        prefix in 0..=128,
        gateway in sometimes(entry()),
        reserved in any::<bool>(),
        excluded_addresses in vec(entry(), 0..3),
        grace in option::of(0..i32::MAX),
    ) -> v1alpha2::InClusterIPPoolSpec {
        v1alpha2::InClusterIPPoolSpec {
            addresses,
            prefix,
            gateway,
            allocate_reserved_ip_addresses: reserved,
            excluded_addresses,
            address_reuse_grace_period_seconds: grace,
        }
    }
}

prop_compose! {
    fn old_spec()(
        addresses in vec(entry(), 0..4),
        subnet in sometimes((any::<std::net::IpAddr>(), 1..32).prop_map(|(address, length)| format!("{address}/{length}"))),
        start in sometimes(entry()),
        end in sometimes(entry()),
        prefix in -2..=128,
        gateway in sometimes(entry()),
    ) -> v1alpha1::InClusterIPPoolSpec {
        v1alpha1::InClusterIPPoolSpec { addresses, subnet, start, end, prefix, gateway }
    }
}

fn metadata() -> impl Strategy<Value = ObjectMeta> {
    let annotations = proptest::collection::btree_map("[a-z]{1,3}", "[a-z]{0,3}", 1..3);
    option::of(annotations).prop_map(|annotations| ObjectMeta {
        name: Some("pool".to_owned()),
        annotations,
        ..ObjectMeta::default()
    })
}

fn status() -> impl Strategy<Value = Option<v1alpha2::PoolStatus>> {
    option::of(any::<i64>()).prop_map(|observed_generation| {
        observed_generation.map(|generation| v1alpha2::PoolStatus {
            observed_generation: Some(generation),
            ..v1alpha2::PoolStatus::default()
        })
    })
}

/// Both conversions for a kind.
macro_rules! round_trips {
    ($module:ident, $kind:ident) => {
        mod $module {
            use super::*;

            proptest! {
                #[test]
                fn down_and_up_changes_nothing(metadata in metadata(), spec in new_spec(), status in status()) {
                    let pool = v1alpha2::$kind { metadata, spec, status };
                    let old = v1alpha1::$kind::from(pool.clone());
                    prop_assert_eq!(v1alpha2::$kind::try_from(old).expect("no subnet"), pool);
                }

                #[test]
                fn up_and_down_only_fills_in_what_the_subnet_says(
                    metadata in metadata(), spec in old_spec(), status in status(),
                ) {
                    let written = v1alpha1::$kind { metadata, spec, status };
                    let stored = v1alpha2::$kind::try_from(written.clone()).expect("a good subnet");
                    let read = v1alpha1::$kind::from(stored.clone());
                    let mut expected = written;
                    fill_in(&mut expected.spec).expect("a good subnet");
                    prop_assert_eq!(&read, &expected);
                    prop_assert_eq!(v1alpha2::$kind::try_from(read).expect("a good subnet"), stored);
                }

                #[test]
                fn hidden_fields_survive_any_change_through_the_old_version(
                    metadata in metadata(), spec in new_spec(), change in old_spec(),
                ) {
                    let pool = v1alpha2::$kind { metadata, spec, status: None };
                    let mut old = v1alpha1::$kind::from(pool.clone());
                    old.spec = change;
                    let changed = v1alpha2::$kind::try_from(old.clone()).expect("a good subnet");
                    let mut expected = pool.spec;
                    fill_in(&mut old.spec).expect("a good subnet");
                    let shared = plainly_up(&old.spec);
                    (expected.addresses, expected.prefix, expected.gateway) =
                        (shared.addresses, shared.prefix, shared.gateway);
                    prop_assert_eq!(&changed.spec, &expected);
                    // And a user of the old version reads the same spec that the user wrote.
                    prop_assert_eq!(v1alpha1::$kind::from(changed).spec, old.spec);
                }
            }
        }
    };
}

round_trips!(namespaced, InClusterIPPool);
round_trips!(global, GlobalInClusterIPPool);

proptest! {
    #[test]
    fn nothing_that_is_sent_panics(subnet in "[0-9a-f.:/%]{0,20}", annotation in ".{0,40}") {
        let mut sent = pool("InClusterIPPool", OLD, &json!({ "subnet": subnet }));
        sent["metadata"]["annotations"] = json!({ "cluster.x-k8s.io/conversion-data": annotation });
        let _ = convert(sent, NEW);
    }
}
