//! What claims leave to their pool: intents that nobody sees through, IPAddresses that are held back, and orphans.

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Resource as _, ResourceExt as _};
use nephele_api::ipam::v1beta2::{IPAddress, IPAddressClaim};
use nephele_ipam::Owner;
use nephele_kit::{Event, Severity, chain};
use tokio::time::Instant;
use tracing::{info, warn};

use super::Keeper;
use crate::address::{Left, Record, let_go, made_for};
use crate::pool::kinds::PoolObject;
use crate::pool::{PoolKey, remaining};

/// Looked at in one turn, so that claims are not kept waiting: each takes a request or three.
const LOOKED_AT_MAX: usize = 64;
/// Between two attempts at what failed.
const RETRY_AFTER: Duration = Duration::from_secs(2);

impl<K: PoolObject> Keeper<K> {
    /// Looks at what was left behind. What fails is tried again later.
    pub(super) async fn leftovers(&mut self) {
        if self.leftovers_retry_at.is_some_and(|at| at > Instant::now()) {
            return;
        }
        self.leftovers_retry_at = None;
        if self.pool.facts().paused {
            return;
        }
        let done = [self.see_through().await, self.let_held_go().await, self.look_for_orphans().await];
        if done.contains(&false) {
            self.leftovers_retry_at = Some(Instant::now() + RETRY_AFTER);
        }
    }

    /// When the next IPAddress is held back no longer.
    pub(super) fn next_hold(&self) -> Option<Instant> {
        if self.pool.facts().paused {
            return None;
        }
        let first = self.pool.ledger.lock().held().next().map(|(since, _)| since)?;
        let left = self.hold_left(first);
        // What is due and still there has failed, and waits for its next attempt.
        (left > Duration::ZERO || self.leftovers_retry_at.is_none()).then(|| Instant::now() + left)
    }

    fn hold_left(&self, since: jiff::Timestamp) -> Duration {
        let facts = self.pool.facts();
        // Whoever deletes the pool does not want to wait for addresses that nobody will get.
        let seconds = if facts.deleting { 0 } else { facts.grace_period_seconds };
        remaining(since, seconds, self.context.now())
    }

    async fn let_held_go(&self) -> bool {
        let due: Vec<(Owner, Record)> = {
            let ledger = self.pool.ledger.lock();
            let due = ledger.held().take_while(|(since, _)| self.hold_left(*since).is_zero());
            due.take(LOOKED_AT_MAX)
                .filter_map(|(_, owner)| Some((owner.clone(), ledger.record(owner)?.clone())))
                .collect()
        };
        self.let_all_go(due).await
    }

    async fn let_all_go(&self, records: Vec<(Owner, Record)>) -> bool {
        let attempts = records.iter().map(|(owner, record)| async move {
            let _turn = self.pool.turn_to_write().await;
            match let_go(&self.context.client, owner, record).await {
                Ok(left) => {
                    if left == Left::Nothing {
                        self.pool.released(owner, &record.uid);
                    }
                    left != Left::Changed
                }
                Err(error) => {
                    warn!(address = %owner, error = %chain(&error), "Failed to let an IPAddress go");
                    false
                }
            }
        });
        join_all(attempts).await.into_iter().all(|done| done)
    }

    /// Sees intents through that their claims are not here to see through: another manager decided on them and may
    /// be gone, or the claim went without a word.
    async fn see_through(&self) -> bool {
        let mut abandoned = self.pool.ledger.lock().take_abandoned();
        let rest = abandoned.split_off(abandoned.len().min(LOOKED_AT_MAX));
        let attempts = abandoned.iter().map(|(owner, uid)| async move {
            let _turn = self.pool.turn_to_write().await;
            let seen = self.see_one_through(owner, uid).await;
            if let Err(error) = &seen {
                warn!(claim = %owner, error = %chain(error), "Failed to see an allocation through");
                self.pool.ledger.lock().put_back_abandoned(owner.clone());
            }
            seen.is_ok()
        });
        let done = join_all(attempts).await.into_iter().all(|done| done);
        let all = done && rest.is_empty();
        let mut ledger = self.pool.ledger.lock();
        for (owner, _) in rest {
            ledger.put_back_abandoned(owner);
        }
        all
    }

    async fn see_one_through(&self, owner: &Owner, uid: &str) -> Result<(), kube::Error> {
        let claims = Api::<IPAddressClaim>::namespaced(self.context.client.clone(), owner.namespace());
        let addresses = Api::<IPAddress>::namespaced(self.context.client.clone(), owner.namespace());
        let claim = claims.get_opt(owner.name()).await?.filter(|claim| claim.uid().as_deref() == Some(uid));
        let Some(claim) = claim else {
            // Whoever may still be about to make the IPAddress finds no claim either, and takes it away again. One that
            // is there is told of by the watch.
            let there = addresses.get_opt(owner.name()).await?;
            let its_own = there.as_ref().and_then(Record::of).and_then(|(.., record)| record.claim_uid);
            if its_own.as_deref() != Some(uid) {
                self.pool.ledger.lock().drop_intent(owner, uid);
            }
            return Ok(());
        };
        let Some(grant) = self.pool.ledger.lock().decided(owner, uid) else { return Ok(()) };
        if claim.metadata.deletion_timestamp.is_some() {
            // Its release finds out what there is.
            self.context.woken.wake([owner.clone()]);
            return Ok(());
        }
        let made = made_for(&claim, &self.pool.key, &self.pool.facts().uid, &grant);
        match addresses.create(&PostParams::default(), &made).await {
            Ok(made) => {
                if let Some((_, owner, record)) = Record::of(&made) {
                    self.pool.made(owner.clone(), record);
                    // The claim may have gone between the look and the creation.
                    self.pool.suspect(&owner);
                }
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error),
        }
        self.context.woken.wake([owner.clone()]);
        Ok(())
    }

    /// Looks whether the claims of suspicious IPAddresses are really gone.
    async fn look_for_orphans(&self) -> bool {
        let mut suspects = self.pool.ledger.lock().take_suspects();
        let rest = suspects.split_off(suspects.len().min(LOOKED_AT_MAX));
        let looks = suspects.iter().map(|owner| async move {
            let record = self.pool.ledger.lock().record(owner).cloned();
            let Some(record) = record else { return true };
            match self.is_orphan(owner, &record).await {
                Ok(orphan) => {
                    self.pool.ledger.lock().set_orphan(owner, &record.uid, orphan);
                    if orphan {
                        self.tell_orphan(owner, &record);
                    }
                    true
                }
                Err(error) => {
                    warn!(address = %owner, error = %chain(&error), "Failed to look for a claim");
                    self.pool.ledger.lock().suspect(owner);
                    false
                }
            }
        });
        let done = join_all(looks).await.into_iter().all(|done| done);
        let all = done && rest.is_empty();
        {
            let mut ledger = self.pool.ledger.lock();
            for owner in rest {
                ledger.suspect(&owner);
            }
        }
        all & self.reclaim().await
    }

    /// Whether there is no claim that the IPAddress is for, or could be for.
    async fn is_orphan(&self, owner: &Owner, record: &Record) -> Result<bool, kube::Error> {
        let claims = Api::<IPAddressClaim>::namespaced(self.context.client.clone(), owner.namespace());
        let Some(claim) = claims.get_opt(owner.name()).await? else { return Ok(true) };
        if claim.uid().as_deref() == record.claim_uid.as_deref() {
            return Ok(false);
        }
        // A claim of that name on this pool takes it over, unless somebody else has its address.
        let ledger = self.pool.ledger.lock();
        let free_to_take = !ledger.is_contested(owner) && !ledger.is_unpublished(owner, &record.uid);
        Ok(PoolKey::of_claim(&claim).as_ref() != Some(&self.pool.key) || !free_to_take)
    }

    fn tell_orphan(&self, owner: &Owner, record: &Record) {
        let unpublished = self.pool.ledger.lock().is_unpublished(owner, &record.uid);
        if unpublished || record.deleted_at.is_some() || self.context.reclaim_orphans {
            return;
        }
        warn!(address = %owner, "An IPAddress has no claim any more");
        let meta = ObjectMeta {
            name: Some(owner.name().to_owned()),
            namespace: Some(owner.namespace().to_owned()),
            uid: Some(record.uid.to_string()),
            ..ObjectMeta::default()
        };
        self.context.events.publish(Event {
            regarding: IPAddress { metadata: meta, ..IPAddress::default() }.object_ref(&()),
            severity: Severity::Warning,
            reason: "Orphaned",
            action: "Release",
            note: format!(
                "The claim of IPAddress {owner} is gone; the address stays in use. Delete it to free it."
            ),
        });
    }

    /// Lets orphans go that somebody has deleted and that this process made in vain, or all of them if told to.
    async fn reclaim(&self) -> bool {
        let reclaimed: Vec<(Owner, Record)> = {
            let ledger = self.pool.ledger.lock();
            ledger
                .orphans()
                .filter_map(|owner| Some((owner.clone(), ledger.record(owner)?.clone())))
                .filter(|(owner, record)| {
                    self.context.reclaim_orphans
                        || record.deleted_at.is_some()
                        || ledger.is_unpublished(owner, &record.uid)
                })
                .take(LOOKED_AT_MAX)
                .collect()
        };
        for (owner, _) in &reclaimed {
            info!(address = %owner, "Reclaiming an IPAddress without a claim");
        }
        self.let_all_go(reclaimed).await
    }
}
