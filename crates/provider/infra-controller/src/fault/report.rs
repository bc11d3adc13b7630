//! The status of a Fault. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use kube::ResourceExt as _;
use nephele_api::cloud::{
    DEFAULT_NAME,
    v1alpha1::{self, AFFECTED_MAX, Fault, FaultStatus},
};
use nephele_cloud::{Affected, FaultHistory, FaultHit, FaultObservation};
use nephele_fault::{Progress, number};
use nephele_model::ClusterId;

use crate::leaked;

/// What the status says that the fault has done, for a cloud that does not know it. None for a new fault.
pub(super) fn history(object: &Fault) -> Option<FaultHistory> {
    let FaultStatus {
        start_time,
        matched,
        hits,
        windows,
        affected,
        skipped,
        leaked_instances,
        leaked_load_balancers,
        ..
    } = object.status.as_ref()?;
    let namespace = object.namespace().unwrap_or_default();
    let known = |v1alpha1::Affected {
                     cluster,
                     machine,
                     until,
                 }: &v1alpha1::Affected| {
        let cluster = ClusterId {
            namespace: namespace.clone(),
            name: cluster.clone(),
        };
        let machine = Some(machine.clone()).filter(|name| !name.is_empty());
        Affected {
            cluster,
            machine,
            until: until.as_ref().map(|until| until.0),
        }
    };
    Some(FaultHistory {
        began: start_time.as_ref()?.0,
        matched: number(*matched),
        hits: number(*hits),
        windows: number(*windows),
        is_cut: affected.len() >= AFFECTED_MAX,
        affected: affected.iter().map(known).collect(),
        skipped: skipped.iter().map(known).collect(),
        leaked: leaked::of_status(leaked_instances, leaked_load_balancers, &namespace, DEFAULT_NAME),
    })
}

/// The status of a Fault, or the mistake for which it has no effect.
pub(super) fn status(
    object: &Fault,
    seen: Result<Option<&FaultObservation>, String>,
    now: Timestamp,
) -> FaultStatus {
    let seen = match seen {
        Ok(seen) => seen,
        Err(mistake) => {
            let mut status = nephele_fault::status(object, Err(mistake), now);
            // The cloud does not have such a Fault, and what leaked because of it is deleted with it.
            status.leaked_instances = Vec::new();
            status.leaked_load_balancers = Vec::new();
            return status;
        }
    };
    let mut status = nephele_fault::status(object, Ok(seen.map(progress)), now);
    if let Some(FaultObservation {
        affected,
        skipped,
        leaked,
        ..
    }) = seen
    {
        status.affected = affected.iter().map(named).take(AFFECTED_MAX).collect();
        status.skipped = skipped.iter().map(named).take(AFFECTED_MAX).collect();
        (status.leaked_instances, status.leaked_load_balancers) = leaked::to_api(leaked, DEFAULT_NAME);
        // It may have been about addresses before.
        status.claims = Vec::new();
    }
    status
}

fn progress(seen: &FaultObservation) -> Progress {
    let &FaultObservation {
        phase,
        began,
        matched,
        hits,
        windows,
        ref last_hits,
        ..
    } = seen;
    Progress {
        phase,
        began,
        matched,
        hits,
        windows,
        last_hits: last_hits.iter().cloned().map(hit).collect(),
    }
}

fn named(
    Affected {
        cluster,
        machine,
        until,
    }: &Affected,
) -> v1alpha1::Affected {
    v1alpha1::Affected {
        cluster: cluster.name.clone(),
        machine: machine.clone().unwrap_or_default(),
        until: until.map(MicroTime),
    }
}

fn hit(hit: FaultHit) -> v1alpha1::FaultHit {
    let FaultHit {
        at,
        operation,
        cluster,
        machine,
    } = hit;
    let seconds = Timestamp::from_second(at.as_second()).unwrap_or(at);
    v1alpha1::FaultHit {
        time: Some(Time(seconds)),
        operation: operation.unwrap_or_default().to_owned(),
        cluster: cluster.name,
        machine: machine.unwrap_or_default(),
        claim: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use nephele_api::cloud::v1alpha1::FaultSchedule;
    use nephele_model::{FaultPhase, GoDuration};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn seen(second: i64) -> FaultHit {
        let cluster = ClusterId {
            namespace: "default".into(),
            name: "demo".into(),
        };
        FaultHit {
            at: at(second),
            operation: Some("CreateInstance"),
            cluster,
            machine: Some("m".into()),
        }
    }

    fn affected() -> Vec<Affected> {
        let cluster = || ClusterId {
            namespace: "default".into(),
            name: "demo".into(),
        };
        [(Some("m".into()), Some(at(99))), (None, None)]
            .map(|(machine, until)| Affected {
                cluster: cluster(),
                machine,
                until,
            })
            .into()
    }

    fn observed(hits: u64, last_hits: Vec<FaultHit>) -> Option<FaultObservation> {
        let phase = FaultPhase::Active;
        let began = at(1);
        let matched = hits + 2;
        let affected = affected();
        let leaked = vec![];
        let windows = 0;
        let skipped = vec![];
        Some(FaultObservation {
            phase,
            began,
            matched,
            hits,
            windows,
            last_hits,
            affected,
            skipped,
            leaked,
        })
    }

    #[test]
    fn what_a_fault_has_done_outlives_a_restart() {
        let mut object = Fault::default();
        object.metadata.namespace = Some("default".into());
        assert_eq!(history(&object), None);
        let first = status(&object, Ok(observed(2, vec![seen(4), seen(3)]).as_ref()), at(5));
        assert_eq!(
            (first.phase.as_str(), first.matched, first.hits),
            ("Active", Some(4), Some(2))
        );
        assert_eq!(first.last_hits, [hit(seen(4)), hit(seen(3))]);
        object.status = Some(first);
        let affected = affected();
        assert_eq!(
            history(&object),
            Some(FaultHistory {
                began: at(1),
                matched: 4,
                hits: 2,
                windows: 0,
                affected,
                is_cut: false,
                skipped: vec![],
                leaked: vec![],
            })
        );
        // The cloud of a new process has the numbers of the status, but not the hits.
        let second = status(&object, Ok(observed(3, vec![seen(9)]).as_ref()), at(10));
        assert_eq!(second.last_hits, [hit(seen(9)), hit(seen(4)), hit(seen(3))]);
    }

    #[test]
    fn the_newest_ten_hits_are_listed() {
        let mut object = Fault::default();
        let ten = |from: i64| (from..from + 10).rev().map(seen).collect();
        object.status = Some(status(&object, Ok(observed(10, ten(0)).as_ref()), at(20)));
        let listed = status(&object, Ok(observed(14, ten(4)).as_ref()), at(20)).last_hits;
        assert_eq!(
            listed,
            (4..14).rev().map(|second| hit(seen(second))).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_fault_that_matches_nothing_says_so() {
        let mut object = Fault::default();
        let nothing = observed(0, vec![]).map(|observed| FaultObservation {
            matched: 0,
            ..observed
        });
        let first = status(&object, Ok(nothing.as_ref()), at(5));
        assert_eq!(first.conditions[0].message, "Nothing has matched it so far");
        object.status = Some(first.clone());
        let second = status(&object, Ok(observed(0, vec![]).as_ref()), at(6));
        assert_eq!(second.conditions[0].message, "");
    }

    #[test]
    fn a_scheduled_fault_says_that_it_waits_and_which_window_it_was_in() {
        let mut object = Fault::default();
        let time = |text| GoDuration::parse(text).expect("a duration");
        let schedule = FaultSchedule {
            every: time("2m"),
            lasts: time("1m"),
            offset: None,
        };
        object.spec.budget.schedule = Some(schedule);
        let waiting = observed(2, vec![]).map(|observed| FaultObservation {
            phase: FaultPhase::Waiting,
            windows: 3,
            ..observed
        });
        let status = status(&object, Ok(waiting.as_ref()), at(5));
        assert_eq!((status.phase.as_str(), status.windows), ("Waiting", Some(3)));
        object.status = Some(status);
        assert_eq!(history(&object).map(|history| history.windows), Some(3));
    }

    #[test]
    fn a_mistake_is_told_and_what_was_done_stays_but_for_what_leaked() {
        let mut object = Fault::default();
        let before = status(&object, Ok(observed(2, vec![seen(3)]).as_ref()), at(5));
        let leaked = v1alpha1::LeakedLoadBalancer {
            port: Some(20_000),
            ..Default::default()
        };
        object.status = Some(FaultStatus {
            leaked_load_balancers: vec![leaked],
            ..before
        });
        let invalid = status(
            &object,
            Err("spec.budget.for: \"x\" is not a duration".into()),
            at(6),
        );
        // The cloud has deleted what leaked, and gives its port to others.
        assert_eq!(invalid.leaked_load_balancers, []);
        assert_eq!((invalid.phase.as_str(), invalid.hits), ("Invalid", Some(2)));
        let told = &invalid.conditions[0];
        assert_eq!(
            (
                told.type_.as_str(),
                told.status.as_str(),
                told.reason.as_str(),
                told.message.as_str()
            ),
            (
                "Ready",
                "False",
                "InvalidConfiguration",
                "spec.budget.for: \"x\" is not a duration"
            )
        );
    }
}
