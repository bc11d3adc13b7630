//! Leftovers of claims: decisions that no claim completes, IPAddresses that are held back, and orphans.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Resource as _, ResourceExt as _};
use nephele_api::ipam::v1beta2::{IPAddress, IPAddressClaim};
use nephele_controller::{Event, Severity, chain};
use nephele_ipam::Owner;
use tokio::time::Instant;
use tracing::{info, warn};

use super::PoolTask;
use crate::{
    address::{Record, ReleaseResult, address_of_claim, create, is_answered, release_address},
    pool::{Block, PoolKey, allocations::Allocations, kinds::PoolObject, remaining},
};

/// Until when Faults hold addresses back, by the names of the claims that had them.
type Late = BTreeMap<Owner, (Option<Block>, jiff::Timestamp)>;

/// The leftovers that are handled in one step, so that claims do not wait long: each takes up to three requests.
const LOOKED_AT_MAX: usize = 64;
/// The time between two attempts.
const RETRY_AFTER: Duration = Duration::from_secs(2);

impl<K: PoolObject> PoolTask<K> {
    /// Handles leftovers. Those that fail are tried again later.
    pub(super) async fn leftovers(&mut self) {
        if self.leftovers_retry_at.is_some_and(|at| at > Instant::now()) {
            return;
        }
        self.leftovers_retry_at = None;
        if self.pool.facts().paused {
            return;
        }
        let done = [
            self.complete_abandoned().await,
            self.release_held().await,
            self.look_for_orphans().await,
        ];
        if done.contains(&false) {
            self.leftovers_retry_at = Some(Instant::now() + RETRY_AFTER);
        }
    }

    /// When the grace period of the next IPAddress ends.
    pub(super) fn next_hold(&self) -> Option<Instant> {
        if self.pool.facts().paused {
            return None;
        }
        let late = self.late();
        let allocations = self.pool.allocations.lock();
        let left = if late.is_empty() {
            allocations
                .held()
                .next()
                .map(|(since, _)| self.hold_left(since))?
        } else {
            let left = |(since, owner)| {
                self.hold_left(since)
                    .max(self.late_left(&late, owner, &allocations))
            };
            allocations.held().map(left).min()?
        };
        // An IPAddress that is due and still exists could not be released, and waits for the next attempt.
        (left > Duration::ZERO || self.leftovers_retry_at.is_none()).then(|| Instant::now() + left)
    }

    fn hold_left(&self, since: jiff::Timestamp) -> Duration {
        let facts = self.pool.facts();
        // No claim will get the addresses of a pool that is being deleted, so nothing is held back.
        let seconds = if facts.deleting {
            0
        } else {
            facts.grace_period_seconds
        };
        remaining(since, seconds, self.context.now())
    }

    /// Until when Faults hold addresses of this pool back.
    fn late(&self) -> Late {
        if self.pool.facts().deleting {
            return Late::new();
        }
        self.context.faults.late(&self.pool.key, self.context.now())
    }

    fn late_left(&self, late: &Late, owner: &Owner, allocations: &Allocations) -> Duration {
        let its = late
            .get(owner)
            .filter(|(block, _)| *block == allocations.record(owner).and_then(|record| record.block));
        its.map_or(Duration::ZERO, |(_, until)| {
            remaining(*until, 0, self.context.now())
        })
    }

    async fn release_held(&self) -> bool {
        let late = self.late();
        let due: Vec<(Owner, Record)> = {
            let allocations = self.pool.allocations.lock();
            let due = allocations
                .held()
                .take_while(|(since, _)| self.hold_left(*since).is_zero());
            let due = due
                .filter(|(_, owner)| late.is_empty() || self.late_left(&late, owner, &allocations).is_zero());
            due.take(LOOKED_AT_MAX)
                .filter_map(|(_, owner)| Some((owner.clone(), allocations.record(owner)?.clone())))
                .collect()
        };
        self.release_all(due).await
    }

    async fn release_all(&self, records: Vec<(Owner, Record)>) -> bool {
        let attempts = records.iter().map(|(owner, record)| async move {
            let _permit = self.pool.write_permit().await;
            match release_address(&self.context.client, owner, record).await {
                Ok(left) => {
                    if left == ReleaseResult::Nothing {
                        self.pool.released(owner, &record.uid);
                    }
                    left != ReleaseResult::Changed
                }
                Err(error) => {
                    warn!(address = %owner, error = %chain(&error), "Failed to release an IPAddress");
                    false
                }
            }
        });
        join_all(attempts).await.into_iter().all(|done| done)
    }

    /// Completes decisions that no claim of this process completes, because another manager decided and may be gone, or
    /// because the claim was removed by force.
    async fn complete_abandoned(&self) -> bool {
        let abandoned = self.pool.allocations.lock().take_abandoned(LOOKED_AT_MAX);
        let attempts = abandoned.iter().map(|(owner, uid)| async move {
            let _permit = self.pool.write_permit().await;
            let seen = self.complete(owner, uid).await;
            if let Err(error) = &seen {
                warn!(claim = %owner, error = %chain(error), "Failed to complete an allocation");
                self.pool.allocations.lock().abandon(owner);
            }
            seen.is_ok()
        });
        let done = join_all(attempts).await.into_iter().all(|done| done);
        done && !self.pool.allocations.lock().has_abandoned()
    }

    async fn complete(&self, owner: &Owner, uid: &str) -> Result<(), kube::Error> {
        let claims = Api::<IPAddressClaim>::namespaced(self.context.client.clone(), owner.namespace());
        let claim = claims
            .get_opt(owner.name())
            .await?
            .filter(|claim| claim.uid().as_deref() == Some(uid));
        let grant = self.pool.allocations.lock().decided(owner, uid);
        let (Some(claim), Some(grant)) = (&claim, grant) else {
            // A process that is about to create the IPAddress finds no claim either, and deletes it again.
            let exists = self.look_for_address(owner, uid).await?;
            if !exists && claim.is_none() {
                let mut allocations = self.pool.allocations.lock();
                allocations.drop_decision(owner, uid);
                allocations.forget_expired(owner, uid);
            }
            return Ok(());
        };
        if claim.metadata.deletion_timestamp.is_some() {
            // The release of the claim looks for the IPAddress.
            self.context.queue.wake([owner.clone()]);
            return Ok(());
        }
        let made = address_of_claim(claim, &self.pool.key, &self.pool.facts().uid, &grant);
        let until = self.pool.sending(owner, uid);
        let created = create(&self.context.client, &made).await;
        if is_answered(&created) {
            self.pool.answered(owner, uid, until);
        }
        match created {
            Ok(created) => {
                if let Some((_, owner, record)) = Record::of(&created) {
                    self.pool.created(&owner, record);
                    // The claim may have been deleted after it was read.
                    self.pool.suspect(&owner);
                    self.pool.allocations.lock().forget_expired(&owner, uid);
                }
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {
                self.look_for_address(owner, uid).await?;
            }
            Err(error) => return Err(error),
        }
        self.context.queue.wake([owner.clone()]);
        Ok(())
    }

    /// Reads whether the claim of this uid has an IPAddress of this pool. After that nothing is unknown of lost
    /// requests.
    async fn look_for_address(&self, owner: &Owner, uid: &str) -> Result<bool, kube::Error> {
        let addresses = Api::<IPAddress>::namespaced(self.context.client.clone(), owner.namespace());
        let existing = addresses.get_opt(owner.name()).await?;
        let of_pool = existing.as_ref().and_then(Record::of);
        let its = of_pool
            .filter(|(key, _, record)| *key == self.pool.key && record.claim_uid.as_deref() == Some(uid));
        let exists = its.is_some();
        if let Some((_, owner, record)) = its {
            self.pool.applied(&owner, record);
        }
        self.pool.allocations.lock().forget_expired(owner, uid);
        Ok(exists)
    }

    /// Reads from the management API whether the claims of suspect IPAddresses are gone.
    async fn look_for_orphans(&self) -> bool {
        let suspects = self.pool.allocations.lock().take_suspects(LOOKED_AT_MAX);
        let looks = suspects.iter().map(|owner| async move {
            let record = self.pool.allocations.lock().record(owner).cloned();
            let Some(record) = record else { return true };
            match self.is_orphan(owner, &record).await {
                Ok(orphan) => {
                    self.pool.allocations.lock().set_orphan(owner, &record.uid, orphan);
                    if orphan {
                        self.tell_orphan(owner, &record);
                    }
                    true
                }
                Err(error) => {
                    warn!(address = %owner, error = %chain(&error), "Failed to read the claim of an IPAddress");
                    self.pool.allocations.lock().suspect(owner);
                    false
                }
            }
        });
        let done = join_all(looks).await.into_iter().all(|done| done);
        let all = done && !self.pool.allocations.lock().has_suspects();
        all & self.reclaim().await
    }

    /// Whether no claim has the IPAddress or could take it over.
    async fn is_orphan(&self, owner: &Owner, record: &Record) -> Result<bool, kube::Error> {
        let claims = Api::<IPAddressClaim>::namespaced(self.context.client.clone(), owner.namespace());
        let Some(claim) = claims.get_opt(owner.name()).await? else {
            return Ok(true);
        };
        if claim.uid().as_deref() == record.claim_uid.as_deref() {
            return Ok(false);
        }
        // A claim of that name on this pool takes over the IPAddress, unless another IPAddress has the same address.
        let allocations = self.pool.allocations.lock();
        let free_to_take =
            !allocations.is_contested(owner) && !allocations.is_unpublished(owner, &record.uid);
        Ok(PoolKey::of_claim(&claim).as_ref() != Some(&self.pool.key) || !free_to_take)
    }

    fn tell_orphan(&self, owner: &Owner, record: &Record) {
        let unpublished = self.pool.allocations.lock().is_unpublished(owner, &record.uid);
        if unpublished || record.deleted_at.is_some() || self.context.reclaim_orphans {
            return;
        }
        warn!(address = %owner, "The claim of an IPAddress is gone");
        let meta = ObjectMeta {
            name: Some(owner.name().to_owned()),
            namespace: Some(owner.namespace().to_owned()),
            uid: Some(record.uid.to_string()),
            ..ObjectMeta::default()
        };
        self.context.events.publish(Event {
            regarding: IPAddress {
                metadata: meta,
                ..IPAddress::default()
            }
            .object_ref(&()),
            severity: Severity::Warning,
            reason: "Orphaned",
            action: "Release",
            note: format!(
                "The claim of IPAddress {owner} is gone; the address stays in use. Delete it to free it."
            ),
        });
    }

    /// Releases orphans that were deleted, and orphans that this process created for a claim that was gone.
    /// With `reclaim_orphans`, releases all orphans.
    async fn reclaim(&self) -> bool {
        let reclaimed: Vec<(Owner, Record)> = {
            let allocations = self.pool.allocations.lock();
            allocations
                .orphans()
                .filter_map(|owner| Some((owner.clone(), allocations.record(owner)?.clone())))
                .filter(|(owner, record)| {
                    self.context.reclaim_orphans
                        || record.deleted_at.is_some()
                        || allocations.is_unpublished(owner, &record.uid)
                })
                .take(LOOKED_AT_MAX)
                .collect()
        };
        for (owner, _) in &reclaimed {
            info!(address = %owner, "Reclaiming an IPAddress without a claim");
        }
        self.release_all(reclaimed).await
    }
}
