//! What faults do to the calls of a cluster's etcd members: they are answered late.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use nephele_engine::Seed;
use nephele_model::ClusterId;
use parking_lot::Mutex;

/// How late calls are answered because of one fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lateness {
    pub(crate) base: Duration,
    /// How much may be added at random, in millionths of `base`.
    pub(crate) jitter_per_million: u32,
}

/// How late the calls of a cluster are answered, by the name of the fault.
#[derive(Debug, Default)]
pub(crate) struct Latenesses {
    by_fault: Mutex<BTreeMap<String, Lateness>>,
    /// How many calls there were while there was a fault.
    calls: AtomicU64,
}

impl Latenesses {
    pub(crate) fn set(&self, wanted: BTreeMap<String, Lateness>) {
        *self.by_fault.lock() = wanted;
    }

    /// How long a call waits. Waits add up. Draws are keyed by the cluster, the fault and the number of the call.
    pub(crate) fn delay(&self, cluster: &ClusterId, seed: &Seed) -> Duration {
        let by_fault = self.by_fault.lock();
        if by_fault.is_empty() {
            return Duration::ZERO;
        }
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        by_fault.iter().fold(
            Duration::ZERO,
            |delay,
             (
                fault,
                Lateness {
                    base,
                    jitter_per_million,
                },
            )| {
                let draw = seed.fraction(&["etcd", &cluster.namespace, &cluster.name, fault], number);
                let extra = base.mul_f64(draw * f64::from(*jitter_per_million) / 1e6);
                delay.saturating_add(*base).saturating_add(extra)
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_of_faults_add_up_and_each_call_has_its_own() {
        let cluster = ClusterId {
            namespace: "default".into(),
            name: "demo".into(),
        };
        let seed = Seed::new("amber-otter-lamp");
        let latenesses = Latenesses::default();
        assert_eq!(latenesses.delay(&cluster, &seed), Duration::ZERO);
        let lateness = |seconds, jitter_per_million| Lateness {
            base: Duration::from_secs(seconds),
            jitter_per_million,
        };
        let two = [
            ("a".to_owned(), lateness(1, 0)),
            ("b".to_owned(), lateness(10, 500_000)),
        ];
        latenesses.set(two.into());
        let delays: Vec<_> = (0..20).map(|_| latenesses.delay(&cluster, &seed)).collect();
        assert!(
            delays
                .iter()
                .all(|delay| (11.0..16.0).contains(&delay.as_secs_f64())),
            "{delays:?}"
        );
        assert!(delays.windows(2).any(|pair| pair[0] != pair[1]));
        latenesses.set(BTreeMap::new());
        assert_eq!(latenesses.delay(&cluster, &seed), Duration::ZERO);
    }
}
