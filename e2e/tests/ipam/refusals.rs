//! Invalid pools are refused, with the field, the value and the reason.

use nephele_e2e::{
    Management, Scope,
    ipam::{Counts, pool},
    management::{Kind, kinds},
};
use serde_json::{Value, json};

const NOT_AN_ENTRY: &str = "provided address is not a valid IP, range, nor CIDR";
const SUBNET: &str = "provided address belongs to a different subnet than others";

/// A refusal: the invalid spec, the field, the value in the message, and the reason.
type Case = (Value, &'static str, &'static str, &'static str);

fn wrong_addresses() -> Vec<Case> {
    let four = |addresses: Value| json!({"addresses": addresses, "prefix": 24});
    let with = |field: &str, value: Value| {
        let mut spec = four(json!(["10.0.0.25", "10.0.0.26"]));
        spec[field] = value;
        spec
    };
    let entry = |entry: &str| four(json!(["10.0.0.25", entry]));
    vec![
        (four(json!([])), "spec.addresses", "[]", "addresses is required"),
        (
            with("gateway", json!("invalid")),
            "spec.gateway",
            r#""invalid""#,
            r#"ParseAddr("invalid"): unable to parse IP"#,
        ),
        (
            with("gateway", json!("fd00::1")),
            "spec.gateway",
            r#""fd00::1""#,
            "provided gateway and addresses are of mixed IP families",
        ),
        (
            json!({"addresses": ["fd00::1", "fd00::100-fd00::200"], "prefix": 24, "gateway": "10.0.0.1"}),
            "spec.gateway",
            r#""10.0.0.1""#,
            "provided gateway and addresses are of mixed IP families",
        ),
        (entry("garbage"), "spec.addresses", r#""garbage""#, NOT_AN_ENTRY),
        (entry(""), "spec.addresses", r#""""#, NOT_AN_ENTRY),
        (entry(" 10.0.0.26"), "spec.addresses", r#"" 10.0.0.26""#, NOT_AN_ENTRY),
        (entry("10.0.0.026"), "spec.addresses", r#""10.0.0.026""#, NOT_AN_ENTRY),
        (entry("10.0.0.10-10.0.0.5"), "spec.addresses", r#""10.0.0.10-10.0.0.5""#, NOT_AN_ENTRY),
        (entry("10.0.0.10-fd00::1"), "spec.addresses", r#""10.0.0.10-fd00::1""#, NOT_AN_ENTRY),
        (
            entry("10.0.0.4-10.0.0.5-10.0.0.6"),
            "spec.addresses",
            r#""10.0.0.4-10.0.0.5-10.0.0.6""#,
            NOT_AN_ENTRY,
        ),
        (entry("10.0.0.10/33"), "spec.addresses", r#""10.0.0.10/33""#, NOT_AN_ENTRY),
        (
            entry("fd00::1"),
            "spec.addresses",
            r#"["10.0.0.25","fd00::1"]"#,
            "provided addresses are of mixed IP families",
        ),
        (four(json!(["10.0.0.25", "10.0.1.27"])), "spec.addresses", r#""10.0.1.27""#, SUBNET),
        (four(json!(["10.0.1.0", "10.0.0.10-10.0.0.20"])), "spec.addresses", r#""10.0.1.0""#, SUBNET),
        (
            four(json!(["10.0.1.0", "10.0.2.10-10.0.2.20"])),
            "spec.addresses",
            r#""10.0.2.10-10.0.2.20""#,
            SUBNET,
        ),
        (
            four(json!(["10.0.1.0", "10.0.1.20-10.0.2.20"])),
            "spec.addresses",
            r#""10.0.1.20-10.0.2.20""#,
            SUBNET,
        ),
        (four(json!(["10.0.1.0", "10.0.1.0/23"])), "spec.addresses", r#""10.0.1.0/23""#, SUBNET),
        (with("prefix", json!(33)), "spec.prefix", "33", "provided prefix is not valid"),
        (with("prefix", json!(-1)), "spec.prefix", "-1", "should be greater than or equal to 0"),
        (with("prefix", json!(129)), "spec.prefix", "129", "should be less than or equal to 128"),
        (
            with("excludedAddresses", json!(["10.0.0.4", "10.0.0.x"])),
            "spec.excludedAddresses",
            r#""10.0.0.x""#,
            NOT_AN_ENTRY,
        ),
        (
            with("excludedAddresses", json!(["fd00::1", "10.0.0.4"])),
            "spec.excludedAddresses",
            r#"["fd00::1","10.0.0.4"]"#,
            "provided addresses are of mixed IP families",
        ),
        (
            with("excludedAddresses", json!(["fd00::1"])),
            "spec.excludedAddresses",
            r#"["fd00::1"]"#,
            "addresses and excluded addresses are of mixed IP families",
        ),
        (
            with("addressReuseGracePeriodSeconds", json!(-1)),
            "spec.addressReuseGracePeriodSeconds",
            "-1",
            "should be greater than or equal to 0",
        ),
        (json!({"addresses": ["10.0.0.1"]}), "spec.prefix", "", "Required value"),
    ]
}

fn wrong_prefixes() -> Vec<Case> {
    let one = |prefix: &str| json!({"prefixes": [prefix]});
    let with = |field: &str, value: Value| {
        let mut spec = one("fd00::/64");
        spec[field] = value;
        spec
    };
    vec![
        (json!({"prefixes": []}), "spec.prefixes", "[]", "prefixes is required"),
        (one("fd00::1"), "spec.prefixes", r#""fd00::1""#, "provided entry is not a valid IPv6 CIDR"),
        (one("fd00::1/64"), "spec.prefixes", r#""fd00::1/64""#, "CIDR must be network-aligned"),
        (
            one("fd00::/65"),
            "spec.prefixes",
            r#""fd00::/65""#,
            "CIDR prefix length must be <= allocationPrefixLength (64)",
        ),
        (one("10.0.0.0/24"), "spec.prefixes", r#""10.0.0.0/24""#, "only IPv6 prefixes are supported"),
        (
            with("gateway", json!("10.0.0.1")),
            "spec.gateway",
            r#""10.0.0.1""#,
            "provided gateway must be IPv6",
        ),
        (
            with("excludedPrefixes", json!(["10.0.0.1"])),
            "spec.excludedPrefixes",
            r#""10.0.0.1""#,
            "only IPv6 excluded prefixes are supported",
        ),
        (
            with("excludedPrefixes", json!(["fd00::2-fd00::1"])),
            "spec.excludedPrefixes",
            r#""fd00::2-fd00::1""#,
            "provided entry is not a valid IP, range, nor CIDR",
        ),
        (
            with("allocationPrefixLength", json!(129)),
            "spec.allocationPrefixLength",
            "129",
            "should be less than or equal to 128",
        ),
    ]
}

#[tokio::test]
async fn wrong_pools_are_refused_with_field_value_and_reason() -> anyhow::Result<()> {
    let scope = Scope::new("wrong").await?;
    let kinds = [
        (kinds::IP_POOL, wrong_addresses()),
        (kinds::GLOBAL_IP_POOL, wrong_addresses()),
        (kinds::PREFIX_POOL, wrong_prefixes()),
        (kinds::GLOBAL_PREFIX_POOL, wrong_prefixes()),
    ];
    let mut wrong = Vec::new();
    for (kind, cases) in kinds {
        for (spec, field, value, reason) in cases {
            let refusal = scope.management.refusal(&scope.namespace, &pool(kind, "pool", &spec)).await?;
            let told = refusal.as_deref().is_some_and(|message| {
                [field, value, reason].iter().all(|expected| message.contains(expected))
            });
            if !told {
                wrong.push(format!("{} {spec}: {refusal:?}, not {field} {value} {reason}", kind.2));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    scope.finish().await
}

#[tokio::test]
async fn pools_that_look_odd_and_are_not_wrong_are_taken() -> anyhow::Result<()> {
    let scope = Scope::new("odd").await?;
    let addresses = [
        json!({"addresses": ["10.0.0.25", "10.0.0.26"], "prefix": 28, "gateway": "10.0.0.24"}),
        // Excluded addresses may be outside of the pool, and the gateway outside of the subnet.
        json!({"addresses": ["10.0.0.25"], "prefix": 28, "excludedAddresses": ["10.0.0.23", "10.1.0.0/16"]}),
        json!({"addresses": ["10.0.0.25"], "prefix": 28, "gateway": "10.9.9.9"}),
        json!({"addresses": ["fe01::2", "fe01::3-fe01::5", "fe01::1:1/126"], "prefix": 28, "gateway": "fe01::1"}),
        json!({"addresses": ["10.0.0.10-10.0.0.20"], "prefix": 0, "gateway": "10.0.0.1"}),
        json!({"addresses": ["192.168.1.1/24"], "prefix": 24}),
        json!({"addresses": ["10.0.0.25"], "prefix": 28, "addressReuseGracePeriodSeconds": 60}),
    ];
    let prefixes = [
        json!({"prefixes": ["fd00::/64", "fd01::/64"]}),
        json!({"prefixes": ["fd00::/48"], "allocationPrefixLength": 128, "gateway": "fd51::1"}),
    ];
    for kind in [kinds::IP_POOL, kinds::GLOBAL_IP_POOL] {
        all_are_taken(&scope, kind, &addresses).await?;
    }
    for kind in [kinds::PREFIX_POOL, kinds::GLOBAL_PREFIX_POOL] {
        all_are_taken(&scope, kind, &prefixes).await?;
    }
    scope.finish().await
}

async fn all_are_taken(scope: &Scope, kind: Kind, specs: &[Value]) -> anyhow::Result<()> {
    for spec in specs {
        let refusal = scope.management.refusal(&scope.namespace, &pool(kind, "pool", spec)).await?;
        assert_eq!(refusal, None, "{} {spec}", kind.2);
    }
    Ok(())
}

#[tokio::test]
async fn pools_are_not_changed_under_their_addresses() -> anyhow::Result<()> {
    let scope = Scope::new("change").await?;
    let spec = json!({"addresses": ["10.21.0.10-10.21.0.20"], "prefix": 24, "gateway": "10.21.0.1"});
    scope.pool(kinds::IP_POOL, "pool", spec).await?;
    scope.claim_in_turn(&["claim"], kinds::IP_POOL, "pool").await?;
    let taken = "pool addresses do not contain allocated addresses: [10.21.0.10-10.21.0.10]";
    let changes = [
        json!({"addresses": ["10.21.0.15-10.21.0.20"]}),
        json!({"excludedAddresses": ["10.21.0.10"]}),
        json!({"gateway": "10.21.0.10"}),
    ];
    for change in changes {
        refused(&scope, kinds::IP_POOL, "pool", &change, taken).await?;
    }
    // Unused addresses may be removed.
    let change =
        json!({"spec": {"addresses": ["10.21.0.10-10.21.0.15"], "excludedAddresses": ["10.21.0.11"]}});
    scope.patch(kinds::IP_POOL, "pool", &change).await?;
    scope.counts(kinds::IP_POOL, "pool", Counts::of(5, 1)).await?;

    scope.pool(kinds::PREFIX_POOL, "pool", json!({"prefixes": ["fd21::/62"]})).await?;
    scope.claim_in_turn(&["prefix"], kinds::PREFIX_POOL, "pool").await?;
    let lost = "existing allocations become non-allocatable: [fd21::]";
    let change = json!({"prefixes": ["fd21:0:0:1::/64"]});
    refused(&scope, kinds::PREFIX_POOL, "pool", &change, lost).await?;
    refused(&scope, kinds::PREFIX_POOL, "pool", &json!({"excludedPrefixes": ["fd21::/64"]}), lost).await?;
    let immutable = "spec.allocationPrefixLength is immutable";
    refused(&scope, kinds::PREFIX_POOL, "pool", &json!({"allocationPrefixLength": 65}), immutable).await?;
    scope.finish().await
}

async fn refused(scope: &Scope, kind: Kind, name: &str, spec: &Value, expected: &str) -> anyhow::Result<()> {
    let Scope { management, namespace }: &Scope = scope;
    let management: &Management = management;
    let Err(error) = management.patch(kind, namespace, name, &json!({"spec": spec})).await else {
        anyhow::bail!("{spec} was taken");
    };
    let message = format!("{error:#}");
    assert!(message.contains(expected), "{spec}: {message}");
    Ok(())
}
