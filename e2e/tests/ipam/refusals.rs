//! Invalid pools are refused, with the field, the value and the reason. `crates/ipam/ipam/tests/validation.rs` has every mistake.

use nephele_e2e::{
    Management, Scope,
    ipam::{Counts, pool},
    management::{Kind, kinds},
};
use serde_json::{Value, json};

/// A refusal: the invalid spec, the field, the value in the message, and the reason.
type Case = (Value, &'static str, &'static str, &'static str);

/// One that the provider refuses, and one that the schema refuses.
fn wrong_addresses() -> [Case; 2] {
    [
        (
            json!({"addresses": ["10.0.0.25", "fd00::1"], "prefix": 24}),
            "spec.addresses",
            r#"["10.0.0.25","fd00::1"]"#,
            "provided addresses are of mixed IP families",
        ),
        (
            json!({"addresses": ["10.0.0.25"], "prefix": 129}),
            "spec.prefix",
            "129",
            "should be less than or equal to 128",
        ),
    ]
}

/// As for addresses.
fn wrong_prefixes() -> [Case; 2] {
    [
        (
            json!({"prefixes": ["fd00::1/64"]}),
            "spec.prefixes",
            r#""fd00::1/64""#,
            "CIDR must be network-aligned",
        ),
        (
            json!({"prefixes": ["fd00::/64"], "allocationPrefixLength": 129}),
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
            let refusal = scope
                .management
                .refusal(&scope.namespace, &pool(kind, "pool", &spec))
                .await?;
            let told = refusal.as_deref().is_some_and(|message| {
                [field, value, reason]
                    .iter()
                    .all(|expected| message.contains(expected))
            });
            if !told {
                wrong.push(format!(
                    "{} {spec}: {refusal:?}, not {field} {value} {reason}",
                    kind.2
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    scope.finish().await
}

#[tokio::test]
async fn pools_that_look_odd_and_are_not_wrong_are_taken() -> anyhow::Result<()> {
    let scope = Scope::new("odd").await?;
    // Excluded addresses may be outside of the pool, and the gateway outside of the subnet.
    let addresses = json!({
        "addresses": ["10.0.0.25"], "prefix": 28, "gateway": "10.9.9.9", "excludedAddresses": ["10.0.0.23", "10.1.0.0/16"],
    });
    let prefixes = json!({"prefixes": ["fd00::/48"], "allocationPrefixLength": 128, "gateway": "fd51::1"});
    for (kind, spec) in [
        (kinds::IP_POOL, &addresses),
        (kinds::GLOBAL_IP_POOL, &addresses),
        (kinds::PREFIX_POOL, &prefixes),
        (kinds::GLOBAL_PREFIX_POOL, &prefixes),
    ] {
        let refusal = scope
            .management
            .refusal(&scope.namespace, &pool(kind, "pool", spec))
            .await?;
        assert_eq!(refusal, None, "{} {spec}", kind.2);
    }
    scope.finish().await
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

    scope
        .pool(kinds::PREFIX_POOL, "pool", json!({"prefixes": ["fd21::/62"]}))
        .await?;
    scope
        .claim_in_turn(&["prefix"], kinds::PREFIX_POOL, "pool")
        .await?;
    let lost = "existing allocations become non-allocatable: [fd21::]";
    let change = json!({"prefixes": ["fd21:0:0:1::/64"]});
    refused(&scope, kinds::PREFIX_POOL, "pool", &change, lost).await?;
    refused(
        &scope,
        kinds::PREFIX_POOL,
        "pool",
        &json!({"excludedPrefixes": ["fd21::/64"]}),
        lost,
    )
    .await?;
    let immutable = "spec.allocationPrefixLength is immutable";
    refused(
        &scope,
        kinds::PREFIX_POOL,
        "pool",
        &json!({"allocationPrefixLength": 65}),
        immutable,
    )
    .await?;
    scope.finish().await
}

async fn refused(scope: &Scope, kind: Kind, name: &str, spec: &Value, expected: &str) -> anyhow::Result<()> {
    let Scope {
        management,
        namespace,
    }: &Scope = scope;
    let management: &Management = management;
    let Err(error) = management
        .patch(kind, namespace, name, &json!({"spec": spec}))
        .await
    else {
        anyhow::bail!("{spec} was taken");
    };
    let message = format!("{error:#}");
    assert!(message.contains(expected), "{spec}: {message}");
    Ok(())
}
