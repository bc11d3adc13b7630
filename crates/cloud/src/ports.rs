//! The ports of the workload API servers.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;

/// Which ports of a range are taken.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    range: RangeInclusive<u16>,
    taken: BTreeSet<u16>,
}

impl Ports {
    pub(crate) fn new(range: RangeInclusive<u16>) -> Self {
        Self { range, taken: BTreeSet::new() }
    }

    /// Takes the lowest free port from `from` on, or none when all are taken.
    pub(crate) fn take_lowest(&mut self, from: u16) -> Option<u16> {
        let port =
            (from.max(*self.range.start())..=*self.range.end()).find(|port| !self.taken.contains(port))?;
        self.taken.insert(port);
        Some(port)
    }

    /// Takes this port, which may lie outside of the range; false when it is taken.
    pub(crate) fn take(&mut self, port: u16) -> bool {
        self.taken.insert(port)
    }

    pub(crate) fn release(&mut self, port: u16) {
        self.taken.remove(&port);
    }
}

/// A port that is taken for as long as this lives: whoever closes the listener lets go of it.
pub(crate) struct PortLease {
    ports: Arc<Mutex<Ports>>,
    pub(crate) port: u16,
}

impl PortLease {
    /// Takes this port; none when it is taken.
    pub(crate) fn take(ports: &Arc<Mutex<Ports>>, port: u16) -> Option<Self> {
        ports.lock().take(port).then(|| Self { ports: ports.clone(), port })
    }

    /// Takes the lowest free port from `from` on; none when all are taken.
    pub(crate) fn take_lowest(ports: &Arc<Mutex<Ports>>, from: u16) -> Option<Self> {
        let port = ports.lock().take_lowest(from)?;
        Some(Self { ports: ports.clone(), port })
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

    #[test]
    fn released_port_is_used_again_and_a_full_range_says_so() {
        let mut ports = Ports::new(20_000..=20_002);
        let all: Vec<_> = std::iter::from_fn(|| ports.take_lowest(0)).collect();
        assert_eq!(all, [20_000, 20_001, 20_002]);
        ports.release(20_001);
        assert!(!ports.take(20_002));
        assert_eq!((ports.take_lowest(0), ports.take_lowest(0)), (Some(20_001), None));
    }

    proptest! {
        #[test]
        fn no_port_is_taken_twice(steps in proptest::collection::vec((0u8..3, 0u16..12), 0..80)) {
            let mut ports = Ports::new(3..=9);
            let mut model = BTreeSet::new();
            for (step, port) in steps {
                match step {
                    0 => if let Some(port) = ports.take_lowest(port) {
                        prop_assert!((3..=9).contains(&port));
                        prop_assert!(model.insert(port));
                    },
                    1 => prop_assert_eq!(ports.take(port), model.insert(port)),
                    _ => { ports.release(port); model.remove(&port); }
                }
            }
        }
    }
}
