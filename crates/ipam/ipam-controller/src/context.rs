//! State that the reconcilers of claims and the tasks of pools share.

use std::{
    collections::HashMap,
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use jiff::Timestamp;
use kube::{
    Client, ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};
use nephele_api::{core::Cluster, ipam::v1beta2::IPAddressClaim, labels};
use nephele_controller::{Cache, Clock, Events, WatchFilter, paused, paused_message};
use nephele_ipam::Owner;
use parking_lot::Mutex;

use crate::{
    address::{Lister, version},
    claim_queue::ClaimQueue,
    fault::Faults,
    metrics::Metrics,
    overlap::Overlaps,
    owner::owner,
    pool::{Block, PoolKey, Pools, Request},
};

/// State that the reconcilers of claims and the tasks of pools share.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) events: Events,
    pub(crate) metrics: Metrics,
    pub(crate) pools: Arc<Pools>,
    pub(crate) queue: ClaimQueue,
    pub(crate) lister: Lister,
    pub(crate) claims: Store<IPAddressClaim>,
    /// Whether `claims` has had its first list.
    pub(crate) claims_listed: AtomicBool,
    pub(crate) clusters: Cache<Cluster>,
    pub(crate) filter: WatchFilter,
    /// The namespace of the claims that are watched; none for all.
    pub(crate) watch_namespace: Option<String>,
    /// The identity of this process in the status of pools. Each start has a new one.
    pub(crate) holder: String,
    pub(crate) reclaim_orphans: bool,
    pub(crate) overlaps: Overlaps,
    pub(crate) ahead: Ahead,
    pub(crate) faults: Faults,
}

/// Claims whose last write by this process the watch has not shown yet, and claims that this process has released. A
/// write that is based on an older version would only lead to a conflict.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// By the uids of the claims, because names are reused.
    versions: Mutex<Generations>,
}

/// Two generations of versions, by uid.
#[derive(Debug, Default)]
struct Generations {
    young: HashMap<Box<str>, u64>,
    old: HashMap<Box<str>, u64>,
}

/// Claims in a generation: at some 100 bytes each, both generations are 3 MiB. A released claim stays until its
/// generation is forgotten, which has to be after the watch has shown the deletion: at 300 claims a second, 16,384 are
/// released in 54 s. A claim that is forgotten too early costs a write that is refused.
const GENERATION: usize = 16_384;

/// Newer than any version that the watch may show.
const GONE: u64 = u64::MAX;

impl Ahead {
    /// Records the version of a claim that this process has written.
    pub(crate) fn wrote(&self, claim: &IPAddressClaim) {
        self.note(claim, version(claim.metadata.resource_version.as_deref()));
    }

    /// Records that the claim is gone, as the response to a write showed. The watch may show the claim for a while.
    pub(crate) fn deleted(&self, claim: &IPAddressClaim) {
        self.note(claim, GONE);
    }

    /// Whether this version is older than the one that this process wrote, or the claim is gone.
    pub(crate) fn is_behind(&self, claim: &IPAddressClaim) -> bool {
        let Some(uid) = claim.metadata.uid.as_deref() else {
            return false;
        };
        let mut versions = self.versions.lock();
        let Generations { young, old } = &mut *versions;
        let Some(written) = young.get(uid).or_else(|| old.get(uid)) else {
            return false;
        };
        let behind = version(claim.metadata.resource_version.as_deref()) < *written;
        if !behind {
            young.remove(uid);
            old.remove(uid);
        }
        behind
    }

    fn note(&self, claim: &IPAddressClaim, version: u64) {
        let Some(uid) = claim.metadata.uid.as_deref() else {
            return;
        };
        let mut versions = self.versions.lock();
        if versions.young.len() >= GENERATION {
            versions.old = mem::take(&mut versions.young);
        }
        versions.young.insert(uid.into(), version);
    }
}

impl Context {
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// The claim of this name, in the version that the watch last showed.
    pub(crate) fn claim(&self, owner: &Owner) -> Option<Arc<IPAddressClaim>> {
        self.claims
            .get(&ObjectRef::new(owner.name()).within(owner.namespace()))
    }

    /// The name of the Cluster that a claim belongs to, if any, and the Cluster if it exists.
    pub(crate) fn cluster_of(&self, claim: &IPAddressClaim) -> Option<(String, Option<Arc<Cluster>>)> {
        let name = cluster_name(claim)?.to_owned();
        let cluster = self.clusters.get(&claim.namespace().unwrap_or_default(), &name);
        Some((name, cluster))
    }

    /// Whether the claim of a waiting request still wants an address.
    pub(crate) fn wants(&self, pool: &PoolKey, request: &Request) -> bool {
        let Some(claim) = self.claim(&request.owner) else {
            return false;
        };
        let cluster = self.cluster_of(&claim).and_then(|(_, cluster)| cluster);
        claim.uid().as_deref() == Some(&*request.uid)
            && claim.metadata.deletion_timestamp.is_none()
            && PoolKey::of_claim(&claim).as_ref() == Some(pool)
            && why_paused(&claim, cluster.as_deref()).is_none()
    }

    /// Whether no Fault keeps this address from the claim of a waiting request. If one does, the claim has to ask again.
    pub(crate) fn lets_pass(&self, pool: &PoolKey, request: &Request, next: Block) -> bool {
        if request.published {
            return true;
        }
        let Some(claim) = self.claim(&request.owner) else {
            return true;
        };
        self.faults
            .lets_pass(&self.subject(&claim), pool, next, self.now())
    }

    /// Whether claims have been listed. Before that it is unknown which claims are gone.
    pub(crate) fn has_listed_claims(&self) -> bool {
        self.claims_listed.load(Ordering::Acquire)
    }

    /// Whether the claim of this uid is among those that this process reconciles.
    pub(crate) fn is_here(&self, owner: &Owner, uid: &str) -> bool {
        self.claim(owner)
            .is_some_and(|claim| claim.metadata.uid.as_deref() == Some(uid))
    }

    /// Whether the claim of this uid exists, as far as this process can see. Claims that other managers reconcile
    /// count as existing.
    pub(crate) fn is_known(&self, owner: &Owner, uid: &str) -> bool {
        !self.sees_all_of(owner.namespace()) || self.is_here(owner, uid)
    }

    /// Whether another manager reconciles the claim of this uid, if it exists.
    pub(crate) fn is_theirs(&self, owner: &Owner, uid: &str) -> bool {
        self.has_listed_claims() && !self.sees_all_of(owner.namespace()) && !self.is_here(owner, uid)
    }

    /// Whether this process reconciles every claim of a namespace.
    fn sees_all_of(&self, namespace: &str) -> bool {
        self.filter == WatchFilter::default()
            && self
                .watch_namespace
                .as_deref()
                .is_none_or(|watched| watched == namespace)
    }

    /// Requests a reconcile of every claim on a pool: the pool was created, was deleted, or serves claims again.
    pub(crate) fn wake_claims_of(&self, pool: &PoolKey) {
        self.wake_claims(|claim| PoolKey::of_claim(claim).as_ref() == Some(pool));
    }

    /// Requests a reconcile of all claims for which `wanted` is true.
    pub(crate) fn wake_claims(&self, wanted: impl Fn(&IPAddressClaim) -> bool) {
        let claims = self.claims.state();
        let woken = claims.iter().filter(|claim| wanted(claim));
        self.queue.wake(woken.map(|claim| owner(&claim.metadata)));
    }
}

/// The Cluster that a claim belongs to: by its spec, else by its label.
pub(crate) fn cluster_name(claim: &IPAddressClaim) -> Option<&str> {
    let named = Some(claim.spec.cluster_name.as_str()).filter(|name| !name.is_empty());
    named.or_else(|| labels::value(&claim.metadata, labels::CLUSTER_NAME))
}

/// Why a claim is paused, by itself or through its Cluster; none if it is not paused.
pub(crate) fn why_paused(claim: &IPAddressClaim, cluster: Option<&Cluster>) -> Option<String> {
    let annotated = cluster.and_then(|cluster| paused_message("Cluster", &cluster.metadata, false));
    let mut reasons: Vec<String> = paused(claim, cluster).into_iter().chain(annotated).collect();
    reasons.sort();
    (!reasons.is_empty()).then(|| reasons.join(", "))
}
