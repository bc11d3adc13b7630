//! The manager is replaced, killed or suspended while many claims are created and deleted.

use std::{collections::BTreeSet, time::Duration};

use nephele_e2e::{
    Bare, Scope,
    ipam::Counts,
    load::{Load, Tally},
    management::kinds,
    manager::{self, Provider::Ipam},
    state,
};
use serde_json::json;

/// The number of claims that are released, and of claims that are bound meanwhile.
const CLAIMS: usize = 500;
/// Fewer addresses than claims, so that most new claims get an address that an old one releases.
const ADDRESSES: usize = 600;
const LIMIT: Duration = Duration::from_secs(300);

/// This is one test, because each disturbance leaves addresses reserved for 90 s, and both wait for that together.
#[tokio::test]
async fn no_address_is_doubled_leaked_or_lost_when_managers_are_killed_replaced_or_suspended()
-> anyhow::Result<()> {
    let bare = Bare::up("leaders", None).await?;
    let taken_over = with_replicas(&bare, &["second", "third"], "taken-over", taken_over).await?;
    let suspended = with_replicas(&bare, &["second"], "suspended", suspended).await?;
    for scope in [taken_over, suspended] {
        nothing_stays_reserved(scope).await?;
    }
    bare.down().await
}

/// The leader is stopped and hands over. The next leader is killed.
async fn taken_over(bare: &Bare, load: &Load) -> anyhow::Result<()> {
    progress(load, CLAIMS / 5).await?;
    let leader = bare.leader(Ipam).await?;
    manager::end(leader.id)?;
    manager::another_leads(&bare.management, Ipam, &leader).await?;
    in_the_middle(load)?;
    progress(load, CLAIMS / 2).await?;
    manager::kill(bare.leader(Ipam).await?.id)?;
    in_the_middle(load)
}

/// The leader is suspended, and resumes after another manager leads.
async fn suspended(bare: &Bare, load: &Load) -> anyhow::Result<()> {
    progress(load, CLAIMS / 5).await?;
    let leader = bare.leader(Ipam).await?;
    manager::stall(leader.id)?;
    let taken_over = async {
        manager::another_leads(&bare.management, Ipam, &leader).await?;
        // Only until the other manager writes, so that claims still wait when the old leader resumes.
        let bound = load.claims(|tally| tally.bound("new"));
        progress(load, bound + 1).await
    };
    let result = taken_over.await;
    // The old leader resumes in the middle of a write.
    manager::resume(leader.id).and(result)?;
    in_the_middle(load)
}

/// Binds claims, then releases them while as many others are bound and `disturb` interferes. Then releases the others.
async fn turnover(
    bare: &Bare,
    test: &str,
    disturb: impl AsyncFnOnce(&Bare, &Load) -> anyhow::Result<()>,
) -> anyhow::Result<Scope> {
    let scope = Scope::on(bare.management.clone(), test).await?;
    let spec = json!({"addresses": [format!("10.30.0.1-10.30.{}.{}", ADDRESSES / 256, ADDRESSES % 256)], "prefix": 16});
    scope.pool(kinds::IP_POOL, "pool", spec).await?;
    let total = i64::try_from(ADDRESSES)?;
    scope.counts(kinds::IP_POOL, "pool", Counts::of(total, 0)).await?;
    let load = Load::start(&scope.management, &scope.namespace).await?;
    let names = |prefix: &str| {
        (0..CLAIMS)
            .map(|index| format!("{prefix}-{index:04}"))
            .collect::<Vec<_>>()
    };
    let old = names("old");
    let new = names("new");
    let on_pool = |names: &[String]| {
        names
            .iter()
            .map(|name| (name.clone(), "pool".to_owned()))
            .collect::<Vec<_>>()
    };
    load.create(on_pool(&old), kinds::IP_POOL).await?;
    load.until("the first claims to be bound", LIMIT, |tally| {
        tally.bound("old") == CLAIMS
    })
    .await?;

    let (released, created, disturbed) = tokio::join!(
        load.delete(old.clone()),
        load.create(on_pool(&new), kinds::IP_POOL),
        disturb(bare, &load),
    );
    released.and(created).and(disturbed)?;
    load.until("the first claims to be gone", LIMIT, |tally| {
        tally.gone("old") == CLAIMS
    })
    .await?;
    load.until("the other claims to be bound", LIMIT, |tally| {
        tally.bound("new") == CLAIMS
    })
    .await?;
    load.until_addresses("no more addresses than claims to be there", LIMIT, |witness| {
        witness.held().len() == CLAIMS
    })
    .await?;
    load.addresses(|witness| {
        assert_eq!(witness.duplicates(), [""; 0]);
        assert!(
            witness
                .held()
                .map(|(name, _)| name)
                .eq(new.iter().map(String::as_str))
        );
        let distinct: BTreeSet<_> = witness.held().map(|(_, address)| address).collect();
        assert_eq!(distinct.len(), CLAIMS);
    });
    scope
        .counts(kinds::IP_POOL, "pool", Counts::of(total, i64::try_from(CLAIMS)?))
        .await?;
    every_claim_has_its_own(&scope, &new).await?;

    load.delete(new).await?;
    load.until("all claims to be gone", LIMIT, Tally::is_empty)
        .await?;
    load.until_addresses("all addresses to be gone", LIMIT, |witness| {
        witness.held().len() == 0
    })
    .await?;
    load.addresses(|witness| assert_eq!(witness.duplicates(), [""; 0]));
    Ok(scope)
}

/// All addresses of the pool are free again.
async fn nothing_stays_reserved(scope: Scope) -> anyhow::Result<()> {
    // The decisions of a killed manager stay reserved for 90 s, as its requests may take effect until then.
    scope
        .counts_within(
            LIMIT,
            kinds::IP_POOL,
            "pool",
            Counts::of(i64::try_from(ADDRESSES)?, 0),
        )
        .await?;
    let pool = scope.get(kinds::IP_POOL, "pool").await?;
    assert_eq!(pool["status"]["pending"], json!(null), "intents are left");
    scope.finish().await
}

/// Reads the objects again. Each claim refers to the IPAddress of its name, which refers to the claim's uid.
async fn every_claim_has_its_own(scope: &Scope, names: &[String]) -> anyhow::Result<()> {
    let claims = scope.management.list(kinds::CLAIM, &scope.namespace, "").await?;
    let addresses = scope
        .management
        .list(kinds::ADDRESS, &scope.namespace, "")
        .await?;
    assert!(
        claims
            .iter()
            .map(state::name)
            .eq(names.iter().map(String::as_str))
    );
    for (claim, address) in claims.iter().zip(&addresses) {
        let controller = &address["metadata"]["ownerReferences"][0];
        assert!(
            claim["status"]["addressRef"]["name"] == address["metadata"]["name"]
                && claim["metadata"]["name"] == address["metadata"]["name"]
                && controller["uid"] == claim["metadata"]["uid"]
                && address["metadata"]["deletionTimestamp"].is_null(),
            "{claim}\n{address}"
        );
    }
    Ok(())
}

/// Waits until this number of the new claims is bound.
async fn progress(load: &Load, bound: usize) -> anyhow::Result<()> {
    let what = format!("{bound} of the new claims to be bound");
    load.until(&what, LIMIT, |tally| tally.bound("new") >= bound)
        .await
}

/// Claims were still waiting during the disturbance. Otherwise the test would show nothing.
fn in_the_middle(load: &Load) -> anyhow::Result<()> {
    let (bound, gone) = load.claims(|tally| (tally.bound("new"), tally.gone("old")));
    anyhow::ensure!(
        bound < CLAIMS,
        "{bound} of the new claims are bound, {gone} of the old ones gone"
    );
    Ok(())
}

/// A turnover with more managers than the one of the Deployment, which is alone again afterwards.
async fn with_replicas(
    bare: &Bare,
    pods: &[&str],
    test: &str,
    disturb: impl AsyncFnOnce(&Bare, &Load) -> anyhow::Result<()>,
) -> anyhow::Result<Scope> {
    let mut replicas = Vec::new();
    for pod in pods {
        replicas.push(bare.replica(Ipam, pod).await?);
    }
    bare.leader(Ipam).await?;
    let scope = turnover(bare, test, disturb).await?;
    // The manager of the Deployment may be one of those that ended.
    bare.follow_deployments().await?;
    for replica in replicas {
        replica.end().await?;
    }
    Ok(scope)
}
