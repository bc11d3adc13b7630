//! What faults do to the calls of a cluster's etcd members: they are answered late.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use nephele_engine::Seed;
use nephele_model::ClusterId;
use tokio::{sync::watch, time::timeout};

/// How late calls or requests are answered because of one fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lateness {
    pub(crate) base: Duration,
    /// How much may be added at random, in millionths of `base`.
    pub(crate) jitter_per_million: u32,
}

impl Lateness {
    /// How late one with this draw is, in [0, 1).
    pub(crate) fn after(self, draw: f64) -> Duration {
        let extra = self.base.mul_f64(draw * f64::from(self.jitter_per_million) / 1e6);
        self.base.saturating_add(extra)
    }
}

/// How late the calls of a cluster are answered, by the name of the fault.
#[derive(Debug, Default)]
pub(crate) struct Latenesses {
    by_fault: watch::Sender<BTreeMap<String, Lateness>>,
    /// How many calls there were while there was a fault.
    calls: AtomicU64,
}

impl Latenesses {
    pub(crate) fn set(&self, wanted: BTreeMap<String, Lateness>) {
        self.by_fault.send_if_modified(|by_fault| {
            let is_new = *by_fault != wanted;
            *by_fault = wanted;
            is_new
        });
    }

    /// What a call waits for, if it has to: one time after the other, each at most until its fault goes or changes. Draws are
    /// keyed by the cluster, the fault and the number of the call.
    pub(crate) fn delay(&self, cluster: &ClusterId, seed: &Seed) -> Option<impl Future<Output = ()> + use<>> {
        let mut by_fault = self.by_fault.subscribe();
        let before = by_fault.borrow_and_update().clone();
        if before.is_empty() {
            return None;
        }
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let time = |fault: &str, lateness: Lateness| {
            let draw = seed.fraction(&["etcd", &cluster.namespace, &cluster.name, fault], number);
            lateness.after(draw)
        };
        let waits: Vec<_> = before
            .into_iter()
            .map(|(fault, lateness)| (time(&fault, lateness), fault, lateness))
            .collect();
        Some(async move {
            for (time, fault, lateness) in waits {
                let is_healed =
                    |now: &BTreeMap<String, Lateness>| now.get(&fault).is_none_or(|now| *now != lateness);
                // Either end is one to continue at.
                drop(timeout(time, by_fault.wait_for(is_healed)).await);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn demo() -> (ClusterId, Seed) {
        let cluster = ClusterId {
            namespace: "default".into(),
            name: "demo".into(),
        };
        (cluster, Seed::new("amber-otter-lamp"))
    }

    /// How long a call waits, in seconds.
    async fn waited(delay: Option<impl Future<Output = ()>>) -> f64 {
        let began = Instant::now();
        if let Some(delay) = delay {
            delay.await;
        }
        began.elapsed().as_secs_f64()
    }

    fn lateness(seconds: u64, jitter_per_million: u32) -> Lateness {
        Lateness {
            base: Duration::from_secs(seconds),
            jitter_per_million,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn delays_add_up_and_differ_from_call_to_call() {
        let (cluster, seed) = demo();
        let latenesses = Latenesses::default();
        assert!(latenesses.delay(&cluster, &seed).is_none());
        let two = [
            ("a".to_owned(), lateness(1, 0)),
            ("b".to_owned(), lateness(10, 500_000)),
        ];
        latenesses.set(two.into());
        let mut delays = Vec::new();
        for _ in 0..20 {
            delays.push(waited(latenesses.delay(&cluster, &seed)).await);
        }
        assert!(
            delays.iter().all(|delay| (11.0..16.0).contains(delay)),
            "{delays:?}"
        );
        assert!(delays.windows(2).any(|pair| pair[0] != pair[1]));
        latenesses.set(BTreeMap::new());
        assert!(latenesses.delay(&cluster, &seed).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_for_no_fault_that_is_gone() {
        let (cluster, seed) = demo();
        let latenesses = Latenesses::default();
        latenesses.set(
            [
                ("a".to_owned(), lateness(7200, 0)),
                ("b".to_owned(), lateness(3600, 0)),
            ]
            .into(),
        );
        let waits = tokio::spawn(waited(latenesses.delay(&cluster, &seed)));
        tokio::time::sleep(Duration::from_secs(5)).await;
        latenesses.set([("b".to_owned(), lateness(3600, 0))].into());
        tokio::time::sleep(Duration::from_secs(10)).await;
        latenesses.set([("b".to_owned(), lateness(1, 0))].into());
        assert_eq!(waits.await.unwrap().round(), 15.0);
    }
}
