//! Membership, leadership and quorum.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

/// One member. All members vote: there are no learners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The id of the member, not zero.
    pub id: u64,
    /// The name of the member, which is the name of its Node.
    pub name: String,
    /// The URLs for its peers.
    pub peer_urls: Vec<String>,
    /// The URLs for its clients.
    pub client_urls: Vec<String>,
}

/// An alarm of a member (`AlarmType` of etcd's `rpc.proto`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarm {
    /// The member has used up the space for its database.
    NoSpace = 1,
    /// The data of the member is corrupt.
    Corrupt = 2,
}

impl Alarm {
    /// Its name in etcd.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NoSpace => "NOSPACE",
            Self::Corrupt => "CORRUPT",
        }
    }
}

/// Why etcd refuses a call. The texts are etcd's own (`api/v3rpc/rpctypes/error.go`), since clients match on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EtcdError {
    /// The member does not run, or was removed.
    #[error("etcdserver: server stopped")]
    Stopped,
    /// There is no leader, because there is no quorum.
    #[error("etcdserver: no leader")]
    NoLeader,
    /// Only the leader can hand leadership over.
    #[error("etcdserver: not leader")]
    NotLeader,
    /// The new leader is not a member.
    #[error("etcdserver: bad leader transferee")]
    BadTransferee,
    /// The new leader is a member that does not run, so it never takes over.
    #[error("etcdserver: request timed out, leader transfer took too long")]
    TransferTimedOut,
    /// The member is not in the cluster.
    #[error("etcdserver: member not found")]
    MemberNotFound,
    /// Removing the member would leave none.
    #[error("etcdserver: re-configuration failed due to not enough started members")]
    NotEnoughStarted,
    /// Removing the member would break the quorum of running members.
    #[error("etcdserver: unhealthy cluster")]
    Unhealthy,
}

/// The members of one etcd cluster. Owned by the simulation of the cluster.
///
/// ```text
///  set_running, add, forget, remove ─▶ quorum? ─ no ──▶ no leader
///                                         │
///                                        yes ─▶ leader runs? ─ yes ─▶ keeps
///                                                    └─ no ─▶ running member with the least id, next term
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdCluster {
    id: u64,
    members: BTreeMap<u64, State>,
    /// The id of a running member while there is a quorum, else none.
    leader: Option<u64>,
    /// Whether no member is elected, whatever runs.
    cannot_elect: bool,
    term: u64,
    revision: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    member: Member,
    running: bool,
    alarms: BTreeSet<Alarm>,
    /// Whether the lists of members omit it.
    is_hidden: bool,
}

/// The id of the member on `node` of `cluster`: the same after each restart, and never zero.
#[must_use]
pub fn member_id(cluster: &str, node: &str) -> u64 {
    // FNV-1a: ids have to differ, but do not have to be secret.
    let bytes = cluster.bytes().chain([0]).chain(node.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash.max(1)
}

impl EtcdCluster {
    /// A cluster without members.
    #[must_use]
    pub fn new(id: u64) -> Self {
        Self {
            id,
            members: BTreeMap::new(),
            leader: None,
            cannot_elect: false,
            term: 1,
            revision: 1,
        }
    }

    /// The cluster's id.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Adds a running member. An existing member of that id gets the new name and URLs, and runs.
    pub fn add_member(&mut self, member: Member) {
        self.members.insert(
            member.id,
            State {
                member,
                running: true,
                alarms: BTreeSet::new(),
                is_hidden: false,
            },
        );
        self.changed();
    }

    /// Removes a member whose machine is gone, without a check of the quorum.
    pub fn forget_member(&mut self, id: u64) {
        if self.members.remove(&id).is_some() {
            self.changed();
        }
    }

    /// Removes a member on request, as etcd does with its strict check
    /// (`server/etcdserver/server.go`, `mayRemoveMember`).
    ///
    /// # Errors
    /// When there is no leader, the member does not exist or is the last one, or too few of the others run.
    pub fn remove_member(&mut self, id: u64) -> Result<(), EtcdError> {
        self.leader.ok_or(EtcdError::NoLeader)?;
        let removed = self.members.get(&id).ok_or(EtcdError::MemberNotFound)?;
        let left = self.members.len() - 1;
        if left == 0 {
            return Err(EtcdError::NotEnoughStarted);
        }
        // A member that does not run is not part of the running quorum, so it may always be removed. etcd computes the
        // required quorum from the members before the removal, which is less strict than a majority of the members
        // after it.
        if removed.running && self.running() - 1 < 1 + left / 2 {
            return Err(EtcdError::Unhealthy);
        }
        self.members.remove(&id);
        self.changed();
        Ok(())
    }

    /// Moves leadership from `from`, the member that was called, to `to`.
    ///
    /// # Errors
    /// When `from` is not the leader, or `to` cannot lead.
    pub fn move_leader(&mut self, from: u64, to: u64) -> Result<(), EtcdError> {
        if self.leader != Some(from) {
            return Err(EtcdError::NotLeader);
        }
        let state = self.members.get(&to).ok_or(EtcdError::BadTransferee)?;
        if !state.running {
            return Err(EtcdError::TransferTimedOut);
        }
        if from != to {
            self.leader = Some(to);
            self.term += 1;
        }
        Ok(())
    }

    /// Sets whether a member's process runs.
    pub fn set_running(&mut self, id: u64, running: bool) {
        if let Some(state) = self.members.get_mut(&id)
            && state.running != running
        {
            state.running = running;
            self.changed();
        }
    }

    /// Sets the alarms of a member.
    pub fn set_alarms(&mut self, id: u64, alarms: BTreeSet<Alarm>) {
        if let Some(state) = self.members.get_mut(&id) {
            state.alarms = alarms;
        }
    }

    /// Sets whether the lists of members omit a member. It works all the same.
    pub fn set_hidden(&mut self, id: u64, is_hidden: bool) {
        if let Some(state) = self.members.get_mut(&id) {
            state.is_hidden = is_hidden;
        }
    }

    /// The members that lists of members show, by id.
    pub(crate) fn listed(&self) -> impl Iterator<Item = &Member> {
        self.members
            .values()
            .filter(|state| !state.is_hidden)
            .map(|state| &state.member)
    }

    /// The alarms of all members, by id.
    pub fn alarms(&self) -> impl Iterator<Item = (u64, Alarm)> {
        self.members
            .iter()
            .flat_map(|(id, state)| state.alarms.iter().map(move |alarm| (*id, *alarm)))
    }

    /// Sets whether members can elect a leader. If they cannot, there is none, as while their network is broken.
    pub fn set_can_elect(&mut self, can_elect: bool) {
        if self.cannot_elect == can_elect {
            self.cannot_elect = !can_elect;
            self.changed();
        }
    }

    /// Whether a member is in the cluster and runs.
    #[must_use]
    pub fn is_running(&self, id: u64) -> bool {
        self.members.get(&id).is_some_and(|state| state.running)
    }

    /// The members, by id.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values().map(|state| &state.member)
    }

    /// The leader; none without a quorum.
    #[must_use]
    pub fn leader(&self) -> Option<u64> {
        self.leader
    }

    /// Whether a majority of the members runs.
    #[must_use]
    pub fn has_quorum(&self) -> bool {
        !self.members.is_empty() && self.running() > self.members.len() / 2
    }

    /// The raft term, which grows with each new leader.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.term
    }

    /// The revision, which counts changes of the members and of their running state.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.revision
    }

    fn running(&self) -> usize {
        self.members.values().filter(|state| state.running).count()
    }

    /// Keeps the leader while it can lead. Otherwise elects the running member with the lowest id, so the result is
    /// always the same.
    fn changed(&mut self) {
        self.revision += 1;
        let running = || {
            self.members
                .values()
                .filter(|state| state.running)
                .map(|state| state.member.id)
        };
        let next = if self.has_quorum() && !self.cannot_elect {
            self.leader
                .filter(|&leader| self.is_running(leader))
                .or_else(|| running().next())
        } else {
            None
        };
        if next != self.leader {
            self.leader = next;
            self.term += u64::from(next.is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn member(id: u64) -> Member {
        Member {
            id,
            name: format!("m{id}"),
            peer_urls: vec![],
            client_urls: vec![],
        }
    }

    fn cluster(ids: &[u64]) -> EtcdCluster {
        let mut cluster = EtcdCluster::new(1);
        for &id in ids {
            cluster.add_member(member(id));
        }
        cluster
    }

    #[test]
    fn first_member_leads_and_joining_moves_nothing() {
        assert_eq!(cluster(&[5]).leader(), Some(5));
        assert_eq!(cluster(&[5, 2, 9]).leader(), Some(5));
        assert_eq!(cluster(&[5, 2, 9]).term(), 2);
    }

    #[test]
    fn running_member_with_the_least_id_follows_a_leader_that_stops() {
        let mut cluster = cluster(&[5, 2, 9, 1, 7]);
        cluster.set_running(1, false);
        cluster.set_running(5, false);
        assert_eq!((cluster.leader(), cluster.term()), (Some(2), 3));
        cluster.set_running(5, true);
        assert_eq!(
            (cluster.leader(), cluster.term()),
            (Some(2), 3),
            "who returns follows"
        );
    }

    #[test]
    fn leader_is_lost_with_the_quorum_and_chosen_again_with_it() {
        let mut cluster = cluster(&[1, 2]);
        cluster.set_running(2, false);
        assert_eq!(
            (cluster.has_quorum(), cluster.leader(), cluster.term()),
            (false, None, 2)
        );
        cluster.set_running(2, true);
        assert_eq!(
            (cluster.has_quorum(), cluster.leader(), cluster.term()),
            (true, Some(1), 3)
        );
    }

    #[test]
    fn leadership_moves_from_the_leader_to_a_running_member_only() {
        let mut cluster = cluster(&[1, 2, 3]);
        assert_eq!(cluster.move_leader(2, 3), Err(EtcdError::NotLeader));
        assert_eq!(cluster.move_leader(1, 9), Err(EtcdError::BadTransferee));
        cluster.set_running(3, false);
        assert_eq!(cluster.move_leader(1, 3), Err(EtcdError::TransferTimedOut));
        let term = cluster.term();
        assert_eq!(cluster.move_leader(1, 1), Ok(()));
        assert_eq!((cluster.leader(), cluster.term()), (Some(1), term));
        assert_eq!(cluster.move_leader(1, 2), Ok(()));
        assert_eq!((cluster.leader(), cluster.term()), (Some(2), term + 1));
        cluster.set_running(1, false);
        assert_eq!(
            cluster.move_leader(2, 1),
            Err(EtcdError::NotLeader),
            "there is none"
        );
    }

    #[test]
    fn removal_needs_a_quorum_before_and_after() {
        let mut three = cluster(&[1, 2, 3]);
        assert_eq!(three.remove_member(9), Err(EtcdError::MemberNotFound));
        three.set_running(3, false);
        assert_eq!(three.remove_member(2), Err(EtcdError::Unhealthy));
        assert_eq!(three.remove_member(3), Ok(()));
        three.set_running(2, false);
        assert_eq!(three.leader(), None);
        assert_eq!(three.remove_member(2), Err(EtcdError::NoLeader));
        three.set_running(2, true);
        assert_eq!(three.remove_member(1), Ok(()));
        assert_eq!(three.leader(), Some(2));
        assert_eq!(three.remove_member(2), Err(EtcdError::NotEnoughStarted));
    }

    #[test]
    fn ids_differ_and_stay() {
        assert_ne!(member_id("a", "bc"), member_id("ab", "c"));
        // The ids are published: clients would treat a different id as a different member.
        assert_eq!(member_id("default/demo", "demo-kcp-x7k2p"), 0xd02c_8449_1346_eb79);
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Add(u64),
        Forget(u64),
        Remove(u64),
        Move { from: u64, to: u64 },
        Run { id: u64, running: bool },
        Elect(bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        let id = || 1u64..8;
        prop_oneof![
            3 => id().prop_map(Step::Add),
            1 => id().prop_map(Step::Forget),
            2 => id().prop_map(Step::Remove),
            2 => (id(), id()).prop_map(|(from, to)| Step::Move { from, to }),
            3 => (id(), any::<bool>()).prop_map(|(id, running)| Step::Run { id, running }),
            1 => any::<bool>().prop_map(Step::Elect),
        ]
    }

    proptest! {
        #[test]
        fn whatever_happens_the_cluster_keeps_its_word(steps in proptest::collection::vec(step(), 0..60)) {
            let mut cluster = EtcdCluster::new(1);
            for step in steps {
                let before = cluster.clone();
                match step {
                    Step::Add(id) => cluster.add_member(member(id)),
                    Step::Forget(id) => cluster.forget_member(id),
                    Step::Remove(id) => match cluster.remove_member(id) {
                        Ok(()) => {
                            prop_assert!(cluster.leader().is_some(), "no removal takes the quorum away");
                            prop_assert!(!cluster.is_running(id));
                            prop_assert_eq!(cluster.members().count(), before.members().count() - 1);
                        }
                        Err(_) => prop_assert_eq!(&cluster, &before),
                    },
                    Step::Move { from, to } => match cluster.move_leader(from, to) {
                        Ok(()) => prop_assert_eq!(cluster.leader(), Some(to)),
                        Err(_) => prop_assert_eq!(&cluster, &before),
                    },
                    Step::Run { id, running } => cluster.set_running(id, running),
                    Step::Elect(can_elect) => cluster.set_can_elect(can_elect),
                }
                prop_assert_eq!(cluster.leader().is_some(), cluster.has_quorum() && !cluster.cannot_elect);
                prop_assert!(cluster.leader().is_none_or(|leader| cluster.is_running(leader)));
                // One leader per term.
                prop_assert!(cluster.term() >= before.term() && cluster.revision() >= before.revision());
                if cluster.leader().is_some() && before.leader() != cluster.leader() {
                    prop_assert!(cluster.term() > before.term());
                }
                // A leader that can keep leading stays the leader.
                if let Step::Add(_) | Step::Run { .. } | Step::Forget(_) | Step::Remove(_) = step
                    && let (Some(old), Some(new)) = (before.leader(), cluster.leader())
                    && cluster.is_running(old)
                {
                    prop_assert_eq!(old, new);
                }
            }
        }
    }
}
