//! The namespaces that have refused a Fault lately: a quota or an admission webhook would refuse it again, and nothing tells
//! when that changes.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use nephele_api::cloud::v1alpha1::RefusedNamespace;
use parking_lot::Mutex;

/// How long a refusal counts.
pub(super) const COUNTS_FOR: Duration = Duration::from_secs(30);

/// Refusals by the names of ClusterFaults. There are as many as selected namespaces, at most.
#[derive(Default)]
pub(super) struct Refusals(Mutex<BTreeMap<String, OfClusterFault>>);

#[derive(Default)]
struct OfClusterFault {
    /// The generation of the spec that was refused. Another spec may be taken.
    generation: Option<i64>,
    by_namespace: BTreeMap<String, (Timestamp, String)>,
}

impl Refusals {
    /// The messages of all refusals that still count, by namespace.
    pub(super) fn of(&self, name: &str, generation: Option<i64>, now: Timestamp) -> BTreeMap<String, String> {
        let mut all = self.0.lock();
        let Some(known) = all.get_mut(name) else {
            return BTreeMap::new();
        };
        if known.generation != generation {
            all.remove(name);
            return BTreeMap::new();
        }
        known.by_namespace.retain(|_, (until, _)| now < *until);
        known
            .by_namespace
            .iter()
            .map(|(namespace, (_, said))| (namespace.clone(), said.clone()))
            .collect()
    }

    /// Notes that namespaces have refused the Fault now.
    pub(super) fn note(
        &self,
        name: &str,
        generation: Option<i64>,
        refused: &[RefusedNamespace],
        now: Timestamp,
    ) {
        if refused.is_empty() {
            return;
        }
        let mut all = self.0.lock();
        let known = all.entry(name.to_owned()).or_default();
        known.generation = generation;
        let until = now.checked_add(COUNTS_FOR).unwrap_or(now);
        for RefusedNamespace { namespace, message } in refused {
            known
                .by_namespace
                .insert(namespace.clone(), (until, message.clone()));
        }
    }

    /// How long the refusals of a ClusterFault count still, the first of them. None if there are none.
    pub(super) fn count_for(&self, name: &str, now: Timestamp) -> Option<Duration> {
        let all = self.0.lock();
        let first = all
            .get(name)?
            .by_namespace
            .values()
            .map(|(until, _)| *until)
            .min()?;
        Some(Duration::try_from(first.duration_since(now)).unwrap_or_default())
    }

    /// Forgets all ClusterFaults but those to keep.
    pub(super) fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.0.lock().retain(|name, _| keep(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn refused(namespace: &str) -> RefusedNamespace {
        RefusedNamespace {
            namespace: namespace.into(),
            message: format!("{namespace} is full"),
        }
    }

    #[test]
    fn a_refusal_counts_for_a_while_and_for_its_spec() {
        let refusals = Refusals::default();
        let of = |generation, second| {
            refusals
                .of("c", Some(generation), at(second))
                .into_keys()
                .collect::<Vec<_>>()
        };
        assert_eq!(refusals.count_for("c", at(0)), None);
        refusals.note("c", Some(1), &[refused("a")], at(0));
        refusals.note("c", Some(1), &[refused("b")], at(10));
        refusals.note("c", Some(1), &[], at(20));
        assert_eq!(
            refusals.of("c", Some(1), at(0)).get("a").map(String::as_str),
            Some("a is full")
        );
        assert_eq!(refusals.count_for("c", at(10)), Some(Duration::from_secs(20)));
        assert_eq!(
            (of(1, 29), of(1, 30), of(1, 40)),
            (vec!["a".into(), "b".into()], vec!["b".into()], vec![])
        );
        assert_eq!(refusals.count_for("c", at(40)), None);

        refusals.note("c", Some(1), &[refused("a")], at(50));
        assert_eq!((of(2, 50), of(1, 50)), (vec![], vec![]));
        refusals.note("c", Some(2), &[refused("a")], at(50));
        refusals.retain(|name| name != "c");
        assert_eq!(of(2, 50), [""; 0]);
    }
}
