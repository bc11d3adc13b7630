//! The ledger made anew: from what is there and what was decided on, and whenever the pool is another one.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use jiff::Timestamp;
use nephele_api::ipam::conditions as reasons;
use nephele_api::ipam::v1alpha2::PendingAllocation;
use nephele_ipam::Owner;
use tokio::time::Instant;

use super::{Answer, Intent, Ledger, Request};
use crate::address::Record;
use crate::pool::PoolKey;
use crate::pool::kinds::PoolSpec;
use crate::pool::space::{Place, Space};

impl Ledger {
    /// Starts to gather what happens while IPAddresses are listed.
    pub(crate) fn begin_rebuild(&mut self) {
        self.meanwhile = Some(BTreeMap::new());
        self.stale = false;
    }

    /// The list failed.
    pub(crate) fn abandon_rebuild(&mut self) {
        self.meanwhile = None;
        self.stale = true;
        self.answer_all(&Answer::Failed);
    }

    /// Takes a list of the pool's IPAddresses as the truth, and with it what the pool's status says is pending.
    /// Decisions that are in neither are undone. What somebody else decided on is only told when this process has
    /// written the pool itself: `ours` says whether it was the last to do so.
    pub(crate) fn rebuild(
        &mut self,
        listed: Vec<(Owner, Record)>,
        version: u64,
        pending: &[PendingAllocation],
        pool: &PoolKey,
        ours: bool,
        now: Instant,
    ) {
        let meanwhile = self.meanwhile.take().unwrap_or_default();
        let before = mem::take(&mut self.intents);
        let overtaken = mem::take(&mut self.overtaken);
        let known = |owner: &Owner, uid: &str, place: Place| {
            let overtaken = overtaken.get(owner).into_iter().flatten();
            overtaken.chain(before.get(owner)).find(|intent| intent.is(uid, place))
        };
        let pending: Vec<_> = pending
            .iter()
            .filter_map(|pending| {
                let namespace = pending.namespace.as_deref().unwrap_or(&pool.namespace);
                let owner = Owner::new(namespace, &pending.name);
                let place = Place::read(pool.kind, &pending.address, pending.prefix)?;
                let known = known(&owner, &pending.uid, place);
                // Of what this process wrote itself it knows best what has been seen through since.
                let open =
                    !(ours && self.built) || known.is_some_and(|known| known.persisted || known.elsewhere);
                let elsewhere = !ours || known.is_some_and(|known| known.elsewhere);
                open.then_some((owner, pending.uid.as_str(), place, elsewhere))
            })
            .collect();
        for (_, intent) in before {
            self.requeue(intent);
        }
        self.space = None;
        self.records.clear();
        self.held.clear();
        self.malformed.clear();
        self.contested.clear();
        self.suspects.clear();
        self.orphans.clear();
        self.abandoned.clear();
        self.floor = version;
        for (owner, record) in listed {
            if !self.gone.contains(&record.uid) {
                self.insert(owner, record);
            }
        }
        for (owner, record) in meanwhile {
            self.applied(owner, record);
        }
        for (owner, uid, place, elsewhere) in pending {
            let record = self.records.get(&owner);
            if record
                .is_some_and(|record| record.claim_uid.as_deref() == Some(uid) && record.place == Some(place))
            {
                continue;
            }
            let free = record.is_none() && !self.intents.contains_key(&owner);
            // The claim may have asked before; then it is answered once all is known.
            let waits = free && self.line.uid_of(&owner) == Some(uid);
            let (request, first_asked, reply) = match self.line.take_if(&owner, waits) {
                Some(known) => (known.request, known.first_asked, known.reply),
                None => {
                    let request = Request {
                        owner: owner.clone(),
                        uid: uid.into(),
                        created: Timestamp::UNIX_EPOCH,
                        wanted: None,
                        published: false,
                    };
                    (request, now, None)
                }
            };
            let intent =
                Intent { request, place, first_asked, reply, persisted: ours, elsewhere, adopts: false };
            if free {
                self.intents.insert(owner, intent);
            } else {
                self.overtake(owner, intent);
            }
        }
        self.built = true;
    }

    /// Looks for what was left behind, in memory only: records whose claim is not `known`, and intents whose claim is
    /// not `here` to see them through.
    pub(crate) fn sweep(
        &mut self,
        is_known: impl Fn(&Owner, &str) -> bool,
        is_here: impl Fn(&Owner, &str) -> bool,
    ) {
        for (owner, record) in &self.records {
            let known = record.claim_uid.as_deref().is_some_and(|uid| is_known(owner, uid));
            if record.is_managed() && record.deleted_at.is_none() && !known {
                self.suspects.insert(owner.clone());
            }
        }
        let overtaken =
            self.overtaken.iter().flat_map(|(owner, intents)| intents.iter().map(move |i| (owner, i)));
        for (owner, intent) in self.intents.iter().chain(overtaken) {
            if intent.persisted && !is_here(owner, &intent.request.uid) {
                self.abandoned.insert(owner.clone());
            }
        }
    }

    /// Takes the intents that somebody other than their claims has to see through, with the claims' uids.
    pub(crate) fn take_abandoned(&mut self) -> Vec<(Owner, Box<str>)> {
        let owners = mem::take(&mut self.abandoned);
        let uids = |owner: &Owner| -> BTreeSet<Box<str>> {
            let overtaken = self.overtaken.get(owner).into_iter().flatten();
            overtaken.chain(self.intents.get(owner)).map(|intent| intent.request.uid.clone()).collect()
        };
        owners
            .into_iter()
            .flat_map(|owner| uids(&owner).into_iter().map(move |uid| (owner.clone(), uid)))
            .collect()
    }

    /// To be tried again.
    pub(crate) fn put_back_abandoned(&mut self, owner: Owner) {
        self.abandoned.insert(owner);
    }

    /// Goes by this spec from now on.
    pub(crate) fn specify(&mut self, spec: &PoolSpec) {
        let outcome = match &mut self.space {
            Some(space) => space.respecify(spec),
            None => Space::new(spec).map(|space| self.fill(space)),
        };
        self.fault = match outcome {
            Ok(()) => String::new(),
            Err(errors) => {
                self.space = None;
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                errors.join("; ")
            }
        };
        if self.space.is_none() {
            let message = self.fault.clone();
            self.answer_all(&Answer::Unavailable { reason: reasons::POOL_NOT_READY, message });
        }
        self.line.unblock_all();
    }

    pub(super) fn fill(&mut self, mut space: Space) {
        for (owner, record) in &self.records {
            if let Some(place) = record.place
                && !space.adopt(owner, place)
            {
                self.contested.insert(owner.clone());
            }
        }
        for (owner, intent) in &self.intents {
            space.adopt(owner, intent.place);
        }
        for (owner, intent) in
            self.overtaken.iter().flat_map(|(owner, of)| of.iter().map(move |i| (owner, i)))
        {
            space.adopt(owner, intent.place);
        }
        self.space = Some(space);
    }

    /// Serves nobody from now on, for this reason; or again.
    pub(crate) fn close(&mut self, closed: Option<(&'static str, String)>) {
        if let Some((reason, message)) = &closed {
            self.answer_all(&Answer::Unavailable { reason, message: message.clone() });
        }
        self.closed = closed;
    }
}
