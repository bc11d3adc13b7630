//! Membership, leadership and quorum.

use std::collections::BTreeMap;

use thiserror::Error;

/// One member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its id, not zero.
    pub id: u64,
    /// Its name; to a control plane's manager, the name of the Node it runs on.
    pub name: String,
    /// Where its peers reach it.
    pub peer_urls: Vec<String>,
    /// Where its clients reach it.
    pub client_urls: Vec<String>,
}

/// Why etcd refuses. The texts are etcd's own (`api/v3rpc/rpctypes/error.go`); clients match on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EtcdError {
    /// The member asked does not run, or was removed.
    #[error("etcdserver: server stopped")]
    Stopped,
    /// There is no leader, for want of a quorum.
    #[error("etcdserver: no leader")]
    NoLeader,
    /// Only the leader can hand leadership over.
    #[error("etcdserver: not leader")]
    NotLeader,
    /// The new leader is no running member.
    #[error("etcdserver: bad leader transferee")]
    BadTransferee,
    /// The member is not in the cluster.
    #[error("etcdserver: member not found")]
    MemberNotFound,
    /// Removing the member would leave no quorum of running ones.
    #[error("etcdserver: re-configuration failed due to not enough started members")]
    Unhealthy,
}

/// The members of one etcd cluster. Owned by whoever simulates the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdCluster {
    id: u64,
    members: BTreeMap<u64, State>,
    leader: Option<u64>,
    term: u64,
    revision: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    member: Member,
    running: bool,
}

/// The id of the member `name` of the cluster `cluster`: the same after every restart, never zero.
#[must_use]
pub fn member_id(cluster: &str, name: &str) -> u64 {
    // FNV-1a: ids need to differ, not to be secret.
    let bytes = cluster.bytes().chain([0]).chain(name.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash.max(1)
}

impl EtcdCluster {
    /// A cluster without members.
    #[must_use]
    pub fn new(id: u64) -> Self {
        Self { id, members: BTreeMap::new(), leader: None, term: 1, revision: 1 }
    }

    /// The cluster's id.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Adds a running member; a member of that id that is there already runs again.
    pub fn add_member(&mut self, member: Member) {
        self.members.insert(member.id, State { member, running: true });
        self.changed();
    }

    /// Takes a member away that no longer exists, whatever the quorum: its machine is gone.
    pub fn forget_member(&mut self, id: u64) {
        if self.members.remove(&id).is_some() {
            self.changed();
        }
    }

    /// Removes a member on request, as etcd does with its strict check.
    ///
    /// # Errors
    /// When it is not there, or too few running members would be left.
    pub fn remove_member(&mut self, id: u64) -> Result<(), EtcdError> {
        self.leader.ok_or(EtcdError::NoLeader)?;
        let removed = self.members.get(&id).ok_or(EtcdError::MemberNotFound)?;
        let running = self.running() - usize::from(removed.running);
        let left = self.members.len() - 1;
        if running < left / 2 + 1 {
            return Err(EtcdError::Unhealthy);
        }
        self.members.remove(&id);
        self.changed();
        Ok(())
    }

    /// Hands leadership from `from`, the member asked, to `to`.
    ///
    /// # Errors
    /// When `from` does not lead or `to` cannot.
    pub fn move_leader(&mut self, from: u64, to: u64) -> Result<(), EtcdError> {
        if self.leader.ok_or(EtcdError::NoLeader)? != from {
            return Err(EtcdError::NotLeader);
        }
        if !self.members.get(&to).is_some_and(|state| state.running) {
            return Err(EtcdError::BadTransferee);
        }
        if from != to {
            self.leader = Some(to);
            self.term += 1;
        }
        Ok(())
    }

    /// Says whether a member's process runs.
    pub fn set_running(&mut self, id: u64, running: bool) {
        if let Some(state) = self.members.get_mut(&id)
            && state.running != running
        {
            state.running = running;
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

    /// How often a leader was elected.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Counts changes.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.revision
    }

    fn running(&self) -> usize {
        self.members.values().filter(|state| state.running).count()
    }

    /// Keeps the leader while it can lead, else elects the running member with the least id: an election that comes
    /// out the same every time.
    fn changed(&mut self) {
        self.revision += 1;
        let keeps = self.leader.filter(|&id| self.has_quorum() && self.is_running(id));
        let next = keeps.or_else(|| {
            let first = self.members.values().find(|state| state.running).map(|state| state.member.id);
            first.filter(|_| self.has_quorum())
        });
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
        Member { id, name: format!("m{id}"), peer_urls: vec![], client_urls: vec![] }
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
    }

    #[test]
    fn leadership_moves_from_the_leader_to_a_running_member_only() {
        let mut cluster = cluster(&[1, 2, 3]);
        assert_eq!(cluster.move_leader(2, 3), Err(EtcdError::NotLeader));
        assert_eq!(cluster.move_leader(1, 9), Err(EtcdError::BadTransferee));
        cluster.set_running(3, false);
        assert_eq!(cluster.move_leader(1, 3), Err(EtcdError::BadTransferee));
        let term = cluster.term();
        assert_eq!(cluster.move_leader(1, 2), Ok(()));
        assert_eq!((cluster.leader(), cluster.term()), (Some(2), term + 1));
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
    }

    #[test]
    fn ids_differ_and_are_never_zero() {
        assert_ne!(member_id("a", "bc"), member_id("ab", "c"));
        assert_eq!(member_id("a", "b"), member_id("a", "b"));
    }

    proptest! {
        #[test]
        fn leader_is_a_running_member_of_a_quorum_or_none(
            steps in proptest::collection::vec((0u8..5, 1u64..6, 1u64..6), 0..60),
        ) {
            let mut cluster = EtcdCluster::new(1);
            for (step, id, other) in steps {
                let term = cluster.term();
                match step {
                    0 => cluster.add_member(member(id)),
                    1 => cluster.forget_member(id),
                    2 => drop(cluster.remove_member(id)),
                    3 => drop(cluster.move_leader(id, other)),
                    _ => cluster.set_running(id, other % 2 == 0),
                }
                prop_assert!(cluster.term() >= term);
                prop_assert_eq!(cluster.leader().is_some(), cluster.has_quorum());
                prop_assert!(cluster.leader().is_none_or(|leader| cluster.is_running(leader)));
            }
        }
    }
}
