//! The ports of the workload API servers.
//!
//! A published endpoint never changes, so a port belongs to the cluster that was published with it, whether or not the
//! cluster runs. No other cluster gets the port until the object of the cluster is gone. Clusters that were published
//! with the same port, which a move from another management cluster can cause, wait in a line for it.
//!
//! The port of a cluster that is gone waits a while for one of the same name, while others are free: a cluster that is made
//! again, or restored from a checkpoint, has the endpoint that it had.
//!
//! A namespace has a share: so many of its clusters can have ports at a time, taken, reserved or leaked. Else whoever may
//! write objects in one namespace could take the ports of all. A port outside of the range is served only if it is one of
//! those from which clusters move.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    ops::RangeInclusive,
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use nephele_model::ClusterId;
use parking_lot::Mutex;

/// Whether another port may be free where this one cannot be opened: another process has it, or it is one of those that
/// only some users may open. Open files, for example, would fail with each port.
pub(crate) fn is_of_port(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied
    )
}

/// How long the port of a cluster that is gone waits for one of the same name.
const WAITS: SignedDuration = SignedDuration::from_secs(60);

/// Which ports are taken, and for which clusters ports are reserved.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    range: RangeInclusive<u16>,
    /// Further ports, which only clusters get that were published with them.
    moved: Vec<RangeInclusive<u16>>,
    /// The most clusters of a namespace that have a port.
    share: usize,
    taken: BTreeSet<u16>,
    /// The clusters that a port is reserved for, in the order of the line. No line is empty.
    reserved: BTreeMap<u16, VecDeque<ClusterId>>,
    /// The reserved port of each cluster.
    port_of: BTreeMap<ClusterId, u16>,
    /// Ports of clusters that are gone, with the time until which they wait for one of the same name. One for each port at most.
    waiting: BTreeMap<u16, (ClusterId, Timestamp)>,
}

/// How many ports there are for new clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortCounts {
    pub(crate) all: usize,
    pub(crate) free: usize,
}

/// Why a cluster cannot take its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The listener on it is not closed yet.
    Taken,
    /// The port belongs to this cluster.
    Reserved(ClusterId),
    /// This manager does not serve it.
    Outside,
    /// The namespace of the cluster has as many ports as it may have.
    ShareUsed(usize),
}

impl Ports {
    /// The ports of `range` for new clusters, and those of `moved` for clusters that were published with them. `share` is
    /// the most clusters of a namespace with a port.
    pub(crate) fn new(
        range: RangeInclusive<u16>,
        moved: Vec<RangeInclusive<u16>>,
        share: Option<u32>,
    ) -> Self {
        let share = share
            .and_then(|share| usize::try_from(share).ok())
            .unwrap_or(usize::MAX);
        let taken = BTreeSet::new();
        let reserved = BTreeMap::new();
        let port_of = BTreeMap::new();
        Self {
            range,
            moved,
            share,
            taken,
            reserved,
            port_of,
            waiting: BTreeMap::new(),
        }
    }

    /// Whether this port can be served.
    fn serves(&self, port: u16) -> bool {
        self.range.contains(&port) || self.moved.iter().any(|range| range.contains(&port))
    }

    /// Whether a cluster may have a port, with so many leaked ones of its namespace: it has one, or its namespace has fewer
    /// than its share.
    pub(crate) fn check_share(&self, cluster: &ClusterId, leaked: usize) -> Result<(), Refused> {
        // The clusters of a namespace follow each other in the order of ids.
        let first = ClusterId {
            namespace: cluster.namespace.clone(),
            name: String::new(),
        };
        let of_namespace = self
            .port_of
            .range(first..)
            .take_while(|(id, _)| id.namespace == cluster.namespace);
        if self.port_of.contains_key(cluster) || of_namespace.count().saturating_add(leaked) < self.share {
            return Ok(());
        }
        Err(Refused::ShareUsed(self.share))
    }

    /// Takes the port that waits for a cluster of this name, if it is still free.
    pub(crate) fn take_former(
        &mut self,
        cluster: &ClusterId,
        now: Timestamp,
        is_leaked: impl Fn(u16) -> bool,
    ) -> Option<u16> {
        let waits =
            |(_, (former, until)): &(&u16, &(ClusterId, Timestamp))| former == cluster && now < *until;
        // The one that it had last.
        let (&port, _) = self
            .waiting
            .iter()
            .filter(waits)
            .max_by_key(|(_, (_, until))| *until)?;
        if !self.range.contains(&port) || !self.is_free(port) || is_leaked(port) {
            return None;
        }
        self.taken.insert(port);
        Some(port)
    }

    /// Takes the lowest port from `from` on that is neither taken nor reserved nor leaked: of those that wait for a cluster now, or
    /// of the others. None if there is none.
    pub(crate) fn take_lowest(
        &mut self,
        from: u16,
        waiting: bool,
        now: Timestamp,
        is_leaked: impl Fn(u16) -> bool,
    ) -> Option<u16> {
        let waits = |port: &u16| self.waiting.get(port).is_some_and(|(_, until)| now < *until);
        let may_be_taken = |port: &u16| self.is_free(*port) && waits(port) == waiting && !is_leaked(*port);
        let port = (from.max(*self.range.start())..=*self.range.end()).find(may_be_taken)?;
        self.taken.insert(port);
        Some(port)
    }

    /// How many ports there are for new clusters, and how many of these are free: without a listener, not reserved, and not one of
    /// `leaked`, which has each port once.
    pub(crate) fn count(&self, leaked: impl Iterator<Item = u16>) -> PortCounts {
        let taken = self.taken.range(self.range.clone()).count();
        let reserved = self.reserved.range(self.range.clone());
        let reserved = reserved.filter(|(port, _)| !self.taken.contains(port)).count();
        let leaked = leaked.filter(|port| self.range.contains(port) && self.is_free(*port));
        let all = self.range.len();
        PortCounts {
            all,
            free: all.saturating_sub(taken + reserved + leaked.count()),
        }
    }

    fn is_free(&self, port: u16) -> bool {
        !self.taken.contains(&port) && !self.reserved.contains_key(&port)
    }

    /// Takes this port for a cluster that was published with it. From then on it is reserved for the cluster.
    pub(crate) fn take(&mut self, port: u16, cluster: &ClusterId) -> Result<(), Refused> {
        self.reserve(cluster, port)?;
        match self.reserved.get(&port).and_then(VecDeque::front) {
            Some(first) if first != cluster => Err(Refused::Reserved(first.clone())),
            _ if self.taken.insert(port) => Ok(()),
            _ => Err(Refused::Taken),
        }
    }

    /// Releases a port without a listener.
    pub(crate) fn release(&mut self, port: u16) {
        self.taken.remove(&port);
    }

    /// Reserves a port for a cluster that was published with it, at the end of the line.
    pub(crate) fn reserve(&mut self, cluster: &ClusterId, port: u16) -> Result<(), Refused> {
        if self.port_of.get(cluster) == Some(&port) {
            return Ok(());
        }
        if !self.serves(port) {
            return Err(Refused::Outside);
        }
        self.check_share(cluster, 0)?;
        self.leave(cluster);
        // It has a port now, and needs no former one.
        self.waiting.retain(|_, (former, _)| former != cluster);
        self.port_of.insert(cluster.clone(), port);
        self.reserved.entry(port).or_default().push_back(cluster.clone());
        Ok(())
    }

    /// The clusters with a reserved port.
    pub(crate) fn clusters(&self) -> impl Iterator<Item = &ClusterId> {
        self.port_of.keys()
    }

    /// Removes a cluster that is gone. Its port goes to the next cluster in the line, or is free once its listener is
    /// closed.
    pub(crate) fn forget(&mut self, cluster: &ClusterId, now: Timestamp) {
        self.waiting.retain(|_, (_, until)| now < *until);
        let port = self.port_of.get(cluster);
        let had_it = port.is_some_and(|port| {
            let first = self.reserved.get(port).and_then(VecDeque::front);
            self.taken.contains(port) && first == Some(cluster)
        });
        if let Some(port) = self.leave(cluster)
            && had_it
            && !self.reserved.contains_key(&port)
            && let Ok(until) = now.checked_add(WAITS)
        {
            self.waiting.insert(port, (cluster.clone(), until));
        }
    }

    /// Takes a cluster out of the line for its port, and returns the port.
    fn leave(&mut self, cluster: &ClusterId) -> Option<u16> {
        let port = self.port_of.remove(cluster)?;
        let line = self.reserved.get_mut(&port)?;
        line.retain(|waiting| waiting != cluster);
        if line.is_empty() {
            self.reserved.remove(&port);
        }
        Some(port)
    }
}

/// A port that is taken while this value lives. The owner of the listener drops it after closing the listener.
pub(crate) struct PortLease {
    ports: Arc<Mutex<Ports>>,
    pub(crate) port: u16,
}

impl PortLease {
    /// Takes this port for a cluster.
    pub(crate) fn take(ports: &Arc<Mutex<Ports>>, port: u16, cluster: &ClusterId) -> Result<Self, Refused> {
        ports.lock().take(port, cluster)?;
        Ok(Self::of(ports, port))
    }

    fn of(ports: &Arc<Mutex<Ports>>, port: u16) -> Self {
        Self {
            ports: ports.clone(),
            port,
        }
    }

    /// As [`Ports::take_former`].
    pub(crate) fn take_former(
        ports: &Arc<Mutex<Ports>>,
        cluster: &ClusterId,
        now: Timestamp,
        is_leaked: impl Fn(u16) -> bool,
    ) -> Option<Self> {
        let port = ports.lock().take_former(cluster, now, is_leaked)?;
        Some(Self::of(ports, port))
    }

    /// As [`Ports::take_lowest`].
    pub(crate) fn take_lowest(
        ports: &Arc<Mutex<Ports>>,
        from: u16,
        waiting: bool,
        now: Timestamp,
        is_leaked: impl Fn(u16) -> bool,
    ) -> Option<Self> {
        let port = ports.lock().take_lowest(from, waiting, now, is_leaked)?;
        Some(Self::of(ports, port))
    }
}

impl Drop for PortLease {
    fn drop(&mut self) {
        self.ports.lock().release(self.port);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cluster(name: &str) -> ClusterId {
        ClusterId {
            namespace: "default".into(),
            name: name.into(),
        }
    }

    /// Takes a port as a new cluster does.
    fn lowest(ports: &mut Ports, from: u16, is_leaked: impl Fn(u16) -> bool) -> Option<u16> {
        let now = Timestamp::UNIX_EPOCH;
        let other = ports.take_lowest(from, false, now, &is_leaked);
        other.or_else(|| ports.take_lowest(from, true, now, &is_leaked))
    }

    /// All ports can be moved to, and a namespace may have any number.
    fn unlimited(range: RangeInclusive<u16>) -> Ports {
        Ports::new(range, vec![0..=u16::MAX], None)
    }

    #[test]
    fn released_port_is_used_again_and_a_full_range_says_so() {
        let mut ports = unlimited(20_000..=20_002);
        let all: Vec<_> = std::iter::from_fn(|| lowest(&mut ports, 0, |_| false)).collect();
        assert_eq!(all, [20_000, 20_001, 20_002]);
        ports.release(20_001);
        assert_eq!(ports.take(20_002, &cluster("a")), Err(Refused::Taken));
        ports.forget(&cluster("a"), Timestamp::UNIX_EPOCH);
        assert_eq!(
            (lowest(&mut ports, 0, |_| false), lowest(&mut ports, 0, |_| false)),
            (Some(20_001), None)
        );
    }

    #[test]
    fn a_port_is_not_free_while_it_is_taken_reserved_or_leaked_and_counts_once() {
        let mut ports = unlimited(20_000..=20_004);
        let free = |ports: &Ports, leaked: &[u16]| ports.count(leaked.iter().copied());
        let of = |free| PortCounts { all: 5, free };
        assert_eq!(free(&ports, &[]), of(5));
        assert_eq!(lowest(&mut ports, 0, |_| false), Some(20_000));
        ports.reserve(&cluster("a"), 20_000).unwrap();
        ports.reserve(&cluster("b"), 20_001).unwrap();
        assert_eq!(free(&ports, &[]), of(3));
        // One leaked that is reserved, too, another one, and one of an earlier range.
        assert_eq!(free(&ports, &[20_001, 20_002, 30_000]), of(2));
    }

    #[test]
    fn the_port_of_a_cluster_that_is_gone_waits_a_minute_for_one_of_its_name_while_others_are_free() {
        let at = |seconds| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
        let none = |_| false;
        let gone = |name: &str| {
            let mut ports = unlimited(20_000..=20_002);
            assert_eq!(ports.take(20_000, &cluster(name)), Ok(()));
            ports.forget(&cluster(name), at(0));
            ports.release(20_000);
            ports
        };
        let mut ports = gone("a");
        assert_eq!(ports.take_former(&cluster("b"), at(59), none), None);
        assert_eq!(ports.take_lowest(0, false, at(59), none), Some(20_001));
        assert_eq!(ports.take_former(&cluster("a"), at(59), none), Some(20_000));
        assert_eq!(
            ports.take_former(&cluster("a"), at(59), none),
            None,
            "it is taken"
        );
        let mut late = gone("a");
        assert_eq!(late.take_former(&cluster("a"), at(60), none), None);
        assert_eq!(late.take_lowest(0, false, at(60), none), Some(20_000));
        let mut full = gone("a");
        let all = [false, false, false, true, true].map(|waiting| full.take_lowest(0, waiting, at(1), none));
        assert_eq!(all, [Some(20_001), Some(20_002), None, Some(20_000), None]);
        assert_eq!(
            gone("a").take_former(&cluster("a"), at(0), |port| port == 20_000),
            None
        );
    }

    #[test]
    fn a_reserved_port_is_for_those_in_line_in_their_order() {
        let a = cluster("a");
        let b = cluster("b");
        let mut ports = unlimited(20_000..=20_001);
        assert_eq!(
            (ports.reserve(&a, 20_000), ports.reserve(&b, 20_000)),
            (Ok(()), Ok(()))
        );
        assert_eq!(
            (lowest(&mut ports, 0, |_| false), lowest(&mut ports, 0, |_| false)),
            (Some(20_001), None)
        );
        assert_eq!(ports.take(20_000, &b), Err(Refused::Reserved(a.clone())));
        assert_eq!(ports.take(20_000, &a), Ok(()));
        ports.forget(&a, Timestamp::UNIX_EPOCH);
        assert_eq!(ports.take(20_000, &b), Err(Refused::Taken));
        ports.release(20_000);
        assert_eq!(lowest(&mut ports, 0, |_| false), None);
        assert_eq!(ports.take(20_000, &b), Ok(()));
        ports.release(20_000);
        ports.forget(&b, Timestamp::UNIX_EPOCH);
        assert_eq!(lowest(&mut ports, 0, |_| false), Some(20_000));
    }

    #[test]
    fn a_port_outside_of_the_range_is_served_only_where_clusters_come_from() {
        let mut ports = Ports::new(20_000..=20_001, vec![30_000..=30_001, 443..=443], None);
        for (port, expected) in [
            (20_000, Ok(())),
            (30_001, Ok(())),
            (443, Ok(())),
            (8443, Err(Refused::Outside)),
            (30_002, Err(Refused::Outside)),
        ] {
            let id = cluster(&port.to_string());
            assert_eq!(
                (ports.reserve(&id, port), ports.take(port, &id)),
                (expected.clone(), expected),
                "{port}"
            );
        }
        assert_eq!(
            (lowest(&mut ports, 0, |_| false), lowest(&mut ports, 0, |_| false)),
            (Some(20_001), None)
        );
    }

    proptest! {
        #[test]
        fn no_port_is_given_twice_or_to_others_than_those_it_is_reserved_for(
            steps in proptest::collection::vec((0u8..5, 0u16..12, 0usize..4), 0..120), leaked in 0u16..12,
        ) {
            let mut ports = unlimited(3..=9);
            let mut taken = BTreeSet::new();
            let mut published = BTreeMap::<ClusterId, u16>::new();
            for (step, port, index) in steps {
                let id = cluster(&format!("c{index}"));
                let others = |published: &BTreeMap<ClusterId, u16>, port: u16| {
                    published.iter().any(|(other, theirs)| *other != id && *theirs == port)
                };
                match step {
                    0 => if let Some(port) = lowest(&mut ports, port, |port| port == leaked) {
                        prop_assert!(port != leaked);
                        prop_assert!((3..=9).contains(&port));
                        prop_assert!(!published.values().any(|reserved| *reserved == port));
                        prop_assert!(taken.insert(port));
                    },
                    1 => {
                        let alone = !others(&published, port);
                        match ports.take(port, &id) {
                            Ok(()) => prop_assert!(taken.insert(port)),
                            Err(Refused::Taken) => prop_assert!(taken.contains(&port)),
                            Err(Refused::Reserved(other)) => {
                                prop_assert!(!alone);
                                prop_assert_eq!(published.get(&other), Some(&port));
                            }
                            Err(other @ (Refused::Outside | Refused::ShareUsed(_))) => prop_assert!(false, "{:?}", other),
                        }
                        published.insert(id, port);
                    }
                    2 => { prop_assert_eq!(ports.reserve(&id, port), Ok(())); published.insert(id, port); }
                    3 => { ports.forget(&id, Timestamp::UNIX_EPOCH); published.remove(&id); }
                    _ => { ports.release(port); taken.remove(&port); }
                }
            }
        }

        /// Two hostile namespaces reserve and take what they like, also ports that clusters of others have. The range is as
        /// large as the shares of all three.
        #[test]
        fn a_cluster_gets_a_port_and_keeps_it_while_its_namespace_is_below_its_share(
            steps in proptest::collection::vec((0u8..6, 0u16..16, 0usize..9, 0usize..3), 0..200),
        ) {
            const SHARE: usize = 3;
            let mut ports = Ports::new(3..=11, vec![13..=14], Some(3));
            let mut held = BTreeMap::<ClusterId, u16>::new();
            // What hostile clusters listen on.
            let mut theirs = BTreeMap::<ClusterId, u16>::new();
            for (step, port, index, namespace) in steps {
                let hostile = ClusterId { namespace: format!("hostile-{}", namespace % 2), name: format!("c{index}") };
                let own = ClusterId { namespace: "own".into(), name: format!("c{index}") };
                // A cluster that runs keeps its port, whatever its object says.
                let runs = theirs.contains_key(&hostile);
                match step {
                    0 if !runs => drop(ports.reserve(&hostile, port)),
                    1 if !runs => {
                        let taken = ports.take(port, &hostile);
                        if taken.is_ok() {
                            theirs.insert(hostile, port);
                        }
                    }
                    2 if !runs => if ports.check_share(&hostile, 0).is_ok()
                        && let Some(port) = lowest(&mut ports, port, |_| false)
                    {
                        prop_assert_eq!(ports.reserve(&hostile, port), Ok(()));
                        theirs.insert(hostile, port);
                    },
                    3 => {
                        ports.forget(&hostile, Timestamp::UNIX_EPOCH);
                        if let Some(port) = theirs.remove(&hostile) {
                            ports.release(port);
                        }
                    }
                    4 if !held.contains_key(&own) => {
                        let may = ports.check_share(&own, 0);
                        prop_assert_eq!(may.is_ok(), held.len() < SHARE);
                        if may.is_ok() {
                            let port = lowest(&mut ports, 0, |_| false);
                            prop_assert!(port.is_some(), "{:?}", ports);
                            let port = port.unwrap_or_default();
                            prop_assert_eq!(ports.reserve(&own, port), Ok(()));
                            held.insert(own, port);
                        }
                    }
                    5 => if let Some(port) = held.remove(&own) {
                        ports.forget(&own, Timestamp::UNIX_EPOCH);
                        ports.release(port);
                    },
                    _ => {}
                }
                for (id, port) in &held {
                    prop_assert_eq!(ports.reserved.get(port).and_then(VecDeque::front), Some(id));
                }
            }
        }
    }
}
