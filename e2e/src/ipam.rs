//! Pools, claims and addresses, as users write and read them.

use std::time::Duration;

use anyhow::Context;
use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::{
    Look, Management, Scope,
    management::{Kind, kinds},
    state,
    wait::until,
};

/// The API group of these kinds.
pub const GROUP: &str = "ipam.cluster.x-k8s.io";

/// How long a claim may take on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The kinds of pools.
pub const POOLS: [Kind; 4] = [
    kinds::IP_POOL,
    kinds::GLOBAL_IP_POOL,
    kinds::PREFIX_POOL,
    kinds::GLOBAL_PREFIX_POOL,
];

/// The label of a test's cluster-scoped pools.
const SCOPE_LABEL: &str = "e2e.nephele.dev/scope";

/// The address counts in a pool's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// How many addresses the pool can allocate.
    pub total: i64,
    /// How many of them are free.
    pub free: i64,
    /// How many addresses are in use.
    pub used: i64,
    /// How many of the addresses in use the pool could not allocate any more.
    pub out_of_range: i64,
}

impl Counts {
    /// Counts of a pool without addresses out of range.
    #[must_use]
    pub fn of(total: i64, used: i64) -> Self {
        Self {
            total,
            free: total - used,
            used,
            out_of_range: 0,
        }
    }

    fn read(pool: &Value) -> Option<Self> {
        let count = |field: &str| pool["status"]["ipAddresses"][field].as_i64();
        Some(Self {
            total: count("total")?,
            free: count("free")?,
            used: count("used")?,
            out_of_range: count("outOfRange")?,
        })
    }
}

/// A pool.
#[must_use]
pub fn pool(kind: Kind, name: &str, spec: &Value) -> Value {
    let (group, version, kind) = kind;
    let api_version = format!("{group}/{version}");
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// A claim on a pool.
#[must_use]
pub fn claim(name: &str, kind: Kind, pool: &str) -> Value {
    let (group, version, claim) = kinds::CLAIM;
    json!({
        "apiVersion": format!("{group}/{version}"), "kind": claim, "metadata": {"name": name},
        "spec": {"poolRef": {"apiGroup": GROUP, "kind": kind.2, "name": pool}},
    })
}

/// An IPAddress that is created by hand, before there is a claim of the same name.
#[must_use]
pub fn address(name: &str, kind: Kind, pool: &str, address: &str, prefix: u8) -> Value {
    let (group, version, address_kind) = kinds::ADDRESS;
    json!({
        "apiVersion": format!("{group}/{version}"), "kind": address_kind, "metadata": {"name": name},
        "spec": {
            "poolRef": {"apiGroup": GROUP, "kind": kind.2, "name": pool}, "claimRef": {"name": name},
            "address": address, "prefix": prefix,
        },
    })
}

/// The name of a claim's IPAddress, if the claim has one.
#[must_use]
pub fn address_name(claim: &Value) -> Option<&str> {
    claim["status"]["addressRef"]["name"].as_str()
}

impl Scope {
    /// Creates a pool and waits until its status has counts.
    ///
    /// # Errors
    ///
    /// When the pool is refused, or its status has no counts.
    pub async fn pool(&self, kind: Kind, name: &str, spec: Value) -> anyhow::Result<()> {
        self.apply_pool(kind, name, spec).await?;
        until(
            &format!("{} {name} to count its addresses", kind.2),
            LIMIT,
            async || {
                let pool = self.get(kind, name).await?;
                Ok(Look::when(Counts::read(&pool).is_some(), || state::line(&pool)))
            },
        )
        .await
    }

    /// Creates or changes a pool.
    ///
    /// # Errors
    ///
    /// When the request is refused.
    pub async fn apply_pool(&self, kind: Kind, name: &str, spec: Value) -> anyhow::Result<()> {
        let mut object = pool(kind, name, &spec);
        object["metadata"]["labels"] = json!({SCOPE_LABEL: self.namespace});
        self.management.apply(&self.namespace, &[object]).await
    }

    /// Creates a claim on a pool.
    ///
    /// # Errors
    ///
    /// When the request is refused.
    pub async fn claim(&self, name: &str, kind: Kind, pool: &str) -> anyhow::Result<()> {
        self.management
            .apply(&self.namespace, &[claim(name, kind, pool)])
            .await
    }

    /// Creates claims on a pool one after the other, and waits for the address of each.
    ///
    /// # Errors
    ///
    /// When a claim gets no address.
    pub async fn claim_in_turn(&self, names: &[&str], kind: Kind, pool: &str) -> anyhow::Result<Vec<String>> {
        let mut addresses = Vec::new();
        for name in names {
            self.claim(name, kind, pool).await?;
            addresses.push(self.bound(name).await?);
        }
        Ok(addresses)
    }

    /// Waits until a claim has an address, and returns it.
    ///
    /// # Errors
    ///
    /// When the claim gets no address.
    pub async fn bound(&self, claim: &str) -> anyhow::Result<String> {
        let address = self.address(claim).await?;
        let text = address["spec"]["address"].as_str();
        text.map(str::to_owned)
            .with_context(|| format!("the IPAddress of {claim} has no address"))
    }

    /// Waits until a claim has an IPAddress.
    ///
    /// # Errors
    ///
    /// When the claim gets no address, with its conditions.
    pub async fn address(&self, claim: &str) -> anyhow::Result<Value> {
        until(&format!("{claim} to have an address"), LIMIT, async || {
            let object = self.get(kinds::CLAIM, claim).await?;
            let ready = state::is(&object, "Ready", "True");
            Ok(match address_name(&object).filter(|_| ready) {
                Some(name) => Look::Done(self.get(kinds::ADDRESS, name).await?),
                None => Look::NotYet(state::line(&object)),
            })
        })
        .await
    }

    /// Waits until a claim reports this reason for having no address, and returns the message.
    ///
    /// # Errors
    ///
    /// When it does not in time.
    pub async fn waits(&self, claim: &str, reason: &str) -> anyhow::Result<String> {
        until(
            &format!("{claim} to wait because of {reason}"),
            LIMIT,
            async || {
                let object = self.get(kinds::CLAIM, claim).await?;
                let ready = state::condition(&object, "Ready").filter(|ready| {
                    ready["status"] == "False" && ready["reason"] == reason && address_name(&object).is_none()
                });
                Ok(match ready {
                    Some(ready) => Look::Done(ready["message"].as_str().unwrap_or_default().to_owned()),
                    None => Look::NotYet(state::line(&object)),
                })
            },
        )
        .await
    }

    /// Waits until a pool has these counts.
    ///
    /// # Errors
    ///
    /// When it does not in time.
    pub async fn counts(&self, kind: Kind, pool: &str, counts: Counts) -> anyhow::Result<()> {
        self.counts_within(LIMIT, kind, pool, counts).await
    }

    /// Waits at most this long until a pool has these counts.
    ///
    /// # Errors
    ///
    /// When it does not in time.
    pub async fn counts_within(
        &self,
        limit: Duration,
        kind: Kind,
        pool: &str,
        counts: Counts,
    ) -> anyhow::Result<()> {
        until(&format!("{pool} to have {counts:?}"), limit, async || {
            let object = self.get(kind, pool).await?;
            let found = Counts::read(&object);
            Ok(Look::when(found == Some(counts), || {
                format!("{found:?}; {}", state::line(&object))
            }))
        })
        .await
    }

    /// Waits until a pool's condition `Ready` has this status and reason, and returns the message.
    ///
    /// # Errors
    ///
    /// When it does not in time.
    pub async fn pool_says(
        &self,
        kind: Kind,
        pool: &str,
        status: &str,
        reason: &str,
    ) -> anyhow::Result<String> {
        until(
            &format!("{pool} to be Ready={status} {reason}"),
            LIMIT,
            async || {
                let object = self.get(kind, pool).await?;
                let ready = state::condition(&object, "Ready")
                    .filter(|ready| ready["status"] == status && ready["reason"] == reason);
                Ok(match ready {
                    Some(ready) => Look::Done(ready["message"].as_str().unwrap_or_default().to_owned()),
                    None => Look::NotYet(object["status"].to_string()),
                })
            },
        )
        .await
    }

    /// Deletes claims all at once, and waits until they and their addresses are gone.
    ///
    /// # Errors
    ///
    /// When a claim or an address stays.
    pub async fn release(&self, claims: &[&str]) -> anyhow::Result<()> {
        let delete = |name| self.management.delete(kinds::CLAIM, &self.namespace, name);
        try_join_all(claims.iter().map(|name| delete(name))).await?;
        for claim in claims {
            self.gone(kinds::CLAIM, claim).await?;
            self.gone(kinds::ADDRESS, claim).await?;
        }
        Ok(())
    }

    /// Waits until an object is gone.
    ///
    /// # Errors
    ///
    /// When the object stays.
    pub async fn gone(&self, kind: Kind, name: &str) -> anyhow::Result<()> {
        until(&format!("{} {name} to be gone", kind.2), LIMIT, async || {
            let object = self.management.find(kind, &self.namespace, name).await?;
            Ok(object.map_or(Look::Done(()), |object| {
                Look::NotYet(format!(
                    "{}; {}",
                    state::line(&object),
                    object["metadata"]["finalizers"]
                ))
            }))
        })
        .await
    }

    /// An object of the scope that has to exist.
    ///
    /// # Errors
    ///
    /// When it does not exist.
    pub async fn get(&self, kind: Kind, name: &str) -> anyhow::Result<Value> {
        self.management.get(kind, &self.namespace, name).await
    }

    /// Applies a merge patch to an object of the scope.
    ///
    /// # Errors
    ///
    /// When the request is refused.
    pub async fn patch(&self, kind: Kind, name: &str, patch: &Value) -> anyhow::Result<()> {
        self.management.patch(kind, &self.namespace, name, patch).await
    }

    /// Deletes all claims and pools of the scope, and waits until they and all addresses are gone.
    pub(crate) async fn release_all(&self) -> anyhow::Result<()> {
        let Self {
            management,
            namespace,
        } = self;
        for name in management.names(kinds::CLAIM, namespace).await? {
            management.delete(kinds::CLAIM, namespace, &name).await?;
        }
        for kind in [kinds::CLAIM, kinds::ADDRESS] {
            none_is_left(management, kind, namespace, "").await?;
        }
        let selector = format!("{SCOPE_LABEL}={namespace}");
        for kind in POOLS {
            for name in management.names_with(kind, namespace, &selector).await? {
                management.delete(kind, namespace, &name).await?;
            }
            none_is_left(management, kind, namespace, &selector).await?;
        }
        Ok(())
    }
}

async fn none_is_left(
    management: &Management,
    kind: Kind,
    namespace: &str,
    selector: &str,
) -> anyhow::Result<()> {
    until(
        &format!("every {} of {namespace} to be gone", kind.2),
        LIMIT,
        async || {
            let left = management.names_with(kind, namespace, selector).await?;
            Ok(Look::when(left.is_empty(), || left.join(", ")))
        },
    )
    .await
}
