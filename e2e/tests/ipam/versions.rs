//! Clients of both versions of a pool.

use nephele_e2e::{
    Scope,
    ipam::{Counts, GROUP, claim, pool},
    management::{Kind, kinds},
    state,
};
use serde_json::{Value, json};

const BOTH: [(Kind, Kind); 2] = [
    (kinds::OLD_IP_POOL, kinds::IP_POOL),
    (kinds::OLD_GLOBAL_IP_POOL, kinds::GLOBAL_IP_POOL),
];

#[tokio::test]
async fn pool_of_an_older_client_is_like_any_other() -> anyhow::Result<()> {
    let scope = Scope::new("older").await?;
    let name = scope.namespace.clone();
    for (old, new) in BOTH {
        let spec = json!({"subnet": "10.18.0.0/24", "gateway": "10.18.0.1"});
        scope.pool(old, &name, spec.clone()).await?;
        let seen = scope.get(new, &name).await?["spec"].take();
        let expected = json!({"addresses": ["10.18.0.1-10.18.0.254"], "prefix": 24, "gateway": "10.18.0.1"});
        assert_eq!(seen, expected);
        // Read in the version in which it was written, the pool has the written fields.
        let seen = scope.get(old, &name).await?["spec"].take();
        for (field, value) in spec.as_object().into_iter().flatten() {
            assert_eq!(seen[field], *value, "{seen}");
        }
        assert_eq!(
            (&seen["start"], &seen["end"]),
            (&json!("10.18.0.1"), &json!("10.18.0.254"))
        );

        assert_eq!(scope.claim_in_turn(&["claim"], new, &name).await?, ["10.18.0.2"]);
        scope.counts(old, &name, Counts::of(253, 1)).await?;
        scope.counts(new, &name, Counts::of(253, 1)).await?;
        scope.release(&["claim"]).await?;
    }
    scope.finish().await
}

#[tokio::test]
async fn what_an_older_client_does_not_know_survives_its_changes() -> anyhow::Result<()> {
    let scope = Scope::new("newer").await?;
    let name = scope.namespace.clone();
    for (old, new) in BOTH {
        let spec = json!({
            "addresses": ["10.19.0.0-10.19.0.20"], "prefix": 24, "gateway": "10.19.0.1",
            "excludedAddresses": ["10.19.0.2-10.19.0.9"], "allocateReservedIPAddresses": true,
            "addressReuseGracePeriodSeconds": 0,
        });
        scope.pool(new, &name, spec.clone()).await?;
        let mut read = scope.get(old, &name).await?;
        let shown = json!({"addresses": ["10.19.0.0-10.19.0.20"], "prefix": 24, "gateway": "10.19.0.1"});
        assert_eq!(read["spec"], shown);

        // The client reads, changes the fields it knows, and writes everything back.
        read["spec"]["addresses"] = json!(["10.19.0.0-10.19.0.30"]);
        scope.management.replace(&scope.namespace, &read).await?;
        let mut expected = spec;
        expected["addresses"] = json!(["10.19.0.0-10.19.0.30"]);
        assert_eq!(scope.get(new, &name).await?["spec"], expected);
        // 31 addresses minus the gateway and eight excluded addresses.
        scope.counts(new, &name, Counts::of(22, 0)).await?;
        assert_eq!(
            scope.claim_in_turn(&["a", "b"], new, &name).await?,
            ["10.19.0.0", "10.19.0.10"]
        );

        // In the other direction, a change in the new version is seen in the old one.
        let change = json!({"spec": {"gateway": "10.19.0.5", "excludedAddresses": null}});
        scope.patch(new, &name, &change).await?;
        assert_eq!(scope.get(old, &name).await?["spec"]["gateway"], "10.19.0.5");
        scope.counts(old, &name, Counts::of(30, 2)).await?;
        scope.release(&["a", "b"]).await?;
    }
    scope.finish().await
}

#[tokio::test]
async fn older_clients_are_told_what_is_wrong_too() -> anyhow::Result<()> {
    let scope = Scope::new("older-wrong").await?;
    let name = scope.namespace.clone();
    let cases: [(Value, &str); 3] = [
        (
            json!({"subnet": "10.20.0.0/33"}),
            r#"spec.subnet: Invalid value: "10.20.0.0/33""#,
        ),
        (json!({"prefix": 24}), "addresses is required"),
        (
            json!({"addresses": ["10.20.0.1", "10.20.1.1"], "prefix": 24}),
            r#"spec.addresses: Invalid value: "10.20.1.1": provided address belongs to a different subnet than others"#,
        ),
    ];
    for (old, _) in BOTH {
        for (spec, expected) in &cases {
            let refusal = scope
                .management
                .refusal(&scope.namespace, &pool(old, &name, spec))
                .await?;
            let told = refusal
                .as_deref()
                .is_some_and(|message| message.contains(expected));
            assert!(told, "{spec}: {refusal:?}, not {expected}");
        }
    }
    scope.finish().await
}

#[tokio::test]
async fn claim_of_an_older_client_may_leave_out_the_group_of_its_pool() -> anyhow::Result<()> {
    let scope = Scope::new("groupless").await?;
    scope
        .pool(
            kinds::IP_POOL,
            "pool",
            json!({"addresses": ["10.21.0.10-10.21.0.11"], "prefix": 24}),
        )
        .await?;
    let claims = ["with", "without"].map(|name| {
        let mut claim = claim(name, kinds::IP_POOL, "pool");
        claim["apiVersion"] = json!(format!("{GROUP}/v1beta1"));
        if name == "without" {
            claim["spec"]["poolRef"] = json!({"kind": kinds::IP_POOL.2, "name": "pool"});
        }
        claim
    });
    for (claim, address) in claims.iter().zip(["10.21.0.10", "10.21.0.11"]) {
        scope
            .management
            .apply(&scope.namespace, std::slice::from_ref(claim))
            .await?;
        assert_eq!(scope.bound(state::name(claim)).await?, address);
    }
    let mut address = scope.address("without").await?;
    assert!(
        address["spec"]["poolRef"]["apiGroup"]
            .take()
            .as_str()
            .is_none_or(str::is_empty),
        "{address}"
    );
    assert_eq!(
        address["metadata"]["finalizers"],
        json!(["ipam.cluster.x-k8s.io/ProtectAddress"])
    );
    scope.counts(kinds::IP_POOL, "pool", Counts::of(2, 2)).await?;
    // All writes are stored in the newer version, which requires a group.
    scope.release(&["with", "without"]).await?;
    scope.counts(kinds::IP_POOL, "pool", Counts::of(2, 0)).await?;
    scope.finish().await
}
