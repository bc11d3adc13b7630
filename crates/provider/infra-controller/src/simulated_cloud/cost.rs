//! The cost in the status of a SimulatedCloud. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use nephele_api::cloud::v1alpha1::{CLUSTER_COSTS_MAX, CloudCost, ClusterCost};
use nephele_cloud::{CostObservation, Spent};
use nephele_model::Amount;

/// The microseconds of an hour.
const HOUR: u128 = 3_600_000_000;
/// By how many millionths two totals may differ and still be the same: each leaves out a part of a millionth.
const ROUNDED: u64 = 2;

/// What an earlier manager had counted, according to the status.
pub(crate) fn history(status: &CloudCost) -> Option<CostObservation> {
    let CloudCost {
        total,
        per_hour,
        time,
        clusters,
    } = status;
    let spent = |total: &Amount, per_hour: &Amount| Spent {
        total: total.millionths(),
        per_hour: per_hour.millionths(),
    };
    let of_cluster = |listed: &ClusterCost| (listed.name.clone(), spent(&listed.total, &listed.per_hour));
    Some(CostObservation {
        time: time.as_ref()?.0,
        all: spent(total, per_hour),
        clusters: clusters.iter().map(of_cluster).collect(),
    })
}

/// The cost as the status shows it. Keep the published cost while it still predicts the current one; otherwise the
/// status would change on every look.
pub(crate) fn status(known: Option<&CloudCost>, observed: Option<CostObservation>) -> Option<CloudCost> {
    let observed = observed?;
    let shown = shown(&observed);
    let still = known.filter(|known| follows(known, &shown, observed.time));
    Some(still.cloned().unwrap_or(shown))
}

fn shown(observed: &CostObservation) -> CloudCost {
    let CostObservation { time, all, clusters } = observed;
    let mut dearest: Vec<_> = clusters.iter().collect();
    dearest.sort_by(|(a, one), (b, other)| (other.total, a).cmp(&(one.total, b)));
    let cluster = |(name, spent): (&String, &Spent)| ClusterCost {
        name: name.clone(),
        total: Amount::of(spent.total),
        per_hour: Amount::of(spent.per_hour),
    };
    CloudCost {
        total: Amount::of(all.total),
        per_hour: Amount::of(all.per_hour),
        time: Some(MicroTime(*time)),
        clusters: dearest.into_iter().map(cluster).take(CLUSTER_COSTS_MAX).collect(),
    }
}

/// Whether what is shown now follows from what is known: the same clusters cost the same in an hour, and have cost that.
fn follows(known: &CloudCost, shown: &CloudCost, now: Timestamp) -> bool {
    let (Some(known), Some(shown)) = (history(known), history(shown)) else {
        return false;
    };
    let passed = u128::try_from(now.as_microsecond() - known.time.as_microsecond());
    let Ok(passed) = passed else { return false };
    let grown = |Spent { total, per_hour }: Spent| {
        u128::from(total).saturating_add(u128::from(per_hour).saturating_mul(passed) / HOUR)
    };
    let is_same = |known: Spent, shown: Spent| {
        known.per_hour == shown.per_hour
            && grown(known).abs_diff(u128::from(shown.total)) <= u128::from(ROUNDED)
    };
    let pairs = |all: &BTreeMap<String, Spent>, other: &BTreeMap<String, Spent>| {
        all.iter()
            .all(|(name, spent)| other.get(name).is_some_and(|other| is_same(*spent, *other)))
    };
    is_same(known.all, shown.all)
        && known.clusters.len() == shown.clusters.len()
        && pairs(&known.clusters, &shown.clusters)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn observed(second: i64, spent: &[(&str, u64, u64)]) -> CostObservation {
        let sum = |part: fn(&(&str, u64, u64)) -> u64| spent.iter().map(part).sum();
        let one = |&(name, total, per_hour): &(&str, u64, u64)| (name.to_owned(), Spent { total, per_hour });
        CostObservation {
            time: at(second),
            all: Spent {
                total: sum(|one| one.1),
                per_hour: sum(|one| one.2),
            },
            clusters: spent.iter().map(one).collect(),
        }
    }

    #[test]
    fn the_dearest_clusters_come_first_and_a_status_reads_back() {
        let names: Vec<_> = (0..25).map(|number| format!("c{number:02}")).collect();
        let spent: Vec<_> = names
            .iter()
            .zip(0..)
            .map(|(name, total)| (name.as_str(), total, 5))
            .collect();
        let shown = status(None, Some(observed(7, &spent))).expect("a cost");
        assert_eq!(
            (shown.total.as_str(), shown.per_hour.as_str()),
            ("0.0003", "0.000125")
        );
        assert_eq!(
            (shown.clusters.len(), shown.clusters[0].name.as_str()),
            (CLUSTER_COSTS_MAX, "c24")
        );
        let few = observed(7, &[("a", 1_250_000, 192_000), ("b", 3, 0)]);
        let shown = status(None, Some(few.clone())).expect("a cost");
        assert_eq!(history(&shown), Some(few));
        assert_eq!(status(Some(&shown), None), None);
    }

    #[test]
    fn a_status_is_written_again_when_it_no_longer_says_what_is_spent() {
        let first = status(None, Some(observed(0, &[("a", 100, 3_600_000)]))).expect("a cost");
        let later = |spent: &[(&str, u64, u64)]| status(Some(&first), Some(observed(10, spent)));
        assert_eq!(later(&[("a", 10_100, 3_600_000)]), Some(first.clone()));
        assert_eq!(
            later(&[("a", 10_101, 3_600_000)]),
            Some(first.clone()),
            "rounded otherwise"
        );
        for other in [
            &[("a", 10_200, 3_600_000)][..],
            &[("a", 10_100, 7_200_000)],
            &[("a", 10_100, 3_600_000), ("b", 5, 0)],
        ] {
            assert_eq!(later(other).and_then(|shown| shown.time), Some(MicroTime(at(10))));
        }
    }
}
