//! The backends of a load balancer in the status of a cluster. Pure.

use std::collections::{BTreeMap, BTreeSet};

use nephele_api::infrastructure::v1beta2::{
    self as api, BACKENDS_MAX, InMemoryClusterStatus, LoadBalancerStatus,
};
use nephele_cloud::{Backend, OutOfService};

/// The backends that the cloud has, in order. A known one that the cloud expects back stays as it is, so that a restart
/// does not show; of those beyond the list, only the number is known, which may be lower until they are back.
pub(super) fn listed(
    known: Option<&LoadBalancerStatus>,
    backends: &BTreeMap<String, Backend>,
    expected: &BTreeSet<String>,
) -> Option<LoadBalancerStatus> {
    let known = known.into_iter().flat_map(|known| &known.backends);
    let kept = known.filter(|known| expected.contains(&known.name));
    let mut all: BTreeMap<_, _> = kept.map(|known| (known.name.clone(), known.clone())).collect();
    all.extend(
        backends
            .iter()
            .map(|(name, backend)| (name.clone(), of_cloud(name, backend))),
    );
    let other_backends = i64::try_from(all.len().saturating_sub(BACKENDS_MAX)).unwrap_or(i64::MAX);
    let backends: Vec<_> = all.into_values().take(BACKENDS_MAX).collect();
    (!backends.is_empty()).then_some(LoadBalancerStatus {
        backends,
        other_backends,
    })
}

fn of_cloud(name: &str, backend: &Backend) -> api::Backend {
    let Backend {
        address,
        out_of_service,
    } = backend.clone();
    let in_service = out_of_service.is_none();
    let why = out_of_service.map(|OutOfService { reason, message }| (reason.as_str().to_owned(), message));
    let (reason, message) = why.unwrap_or_default();
    api::Backend {
        name: name.to_owned(),
        address,
        in_service,
        reason,
        message,
    }
}

/// Whether a status differs from the one before in its backends, and in nothing else.
pub(super) fn are_all_that_differs(
    before: Option<&InMemoryClusterStatus>,
    status: &InMemoryClusterStatus,
) -> bool {
    let Some(before) = before else { return false };
    let with_backends = InMemoryClusterStatus {
        load_balancer: status.load_balancer.clone(),
        ..before.clone()
    };
    before != status && with_backends == *status
}

#[cfg(test)]
mod tests {
    use nephele_cloud::OutOfServiceReason;

    use super::*;

    fn up(address: &str) -> Backend {
        Backend {
            address: address.into(),
            out_of_service: None,
        }
    }

    fn down(reason: OutOfServiceReason, message: &str) -> Backend {
        Backend {
            address: "10.0.0.9".into(),
            out_of_service: Some(OutOfService {
                reason,
                message: message.into(),
            }),
        }
    }

    fn shown(name: &str, address: &str, why: Option<(&str, &str)>) -> api::Backend {
        let (reason, message) = why.unwrap_or_default();
        api::Backend {
            name: name.into(),
            address: address.into(),
            in_service: why.is_none(),
            reason: reason.into(),
            message: message.into(),
        }
    }

    fn named(backends: impl IntoIterator<Item = (&'static str, Backend)>) -> BTreeMap<String, Backend> {
        backends
            .into_iter()
            .map(|(name, backend)| (name.to_owned(), backend))
            .collect()
    }

    #[test]
    fn each_backend_says_whether_it_is_in_service_and_why_not() {
        let frozen = "Nothing on the machine answers (Fault f)";
        let seen = named([
            ("b", down(OutOfServiceReason::HealthCheckFailed, frozen)),
            ("a", up("10.0.0.1")),
            ("c", down(OutOfServiceReason::Starting, "")),
        ]);
        let backends = vec![
            shown("a", "10.0.0.1", None),
            shown("b", "10.0.0.9", Some(("HealthCheckFailed", frozen))),
            shown("c", "10.0.0.9", Some(("Starting", ""))),
        ];
        let expected = LoadBalancerStatus {
            backends,
            other_backends: 0,
        };
        assert_eq!(listed(None, &seen, &BTreeSet::new()), Some(expected));
        assert_eq!(listed(None, &BTreeMap::new(), &BTreeSet::new()), None);
    }

    #[test]
    fn a_backend_that_is_expected_back_stays_as_it_was_until_the_cloud_has_it() {
        let down = down(OutOfServiceReason::Starting, "");
        let known = listed(
            None,
            &named([("a", up("1")), ("b", down.clone()), ("c", up("3"))]),
            &BTreeSet::new(),
        );
        let expected = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let after = |seen: &BTreeMap<_, _>, names: &[&str]| listed(known.as_ref(), seen, &expected(names));
        assert_eq!(after(&named([]), &["a", "b", "c"]), known);
        assert_eq!(after(&named([("a", up("1"))]), &["b", "c"]), known);
        // One returned with other news, and one was deleted meanwhile.
        let back = named([("a", up("1")), ("b", up("2"))]);
        assert_eq!(after(&back, &[]), listed(None, &back, &BTreeSet::new()));
    }

    #[test]
    fn the_first_sixty_four_are_listed_and_the_others_counted() {
        let seen: BTreeMap<_, _> = (0..70).map(|number| (format!("m{number:02}"), up("1"))).collect();
        let status = listed(None, &seen, &BTreeSet::new()).expect("a list");
        let names: Vec<_> = status
            .backends
            .iter()
            .map(|backend| backend.name.clone())
            .collect();
        assert_eq!(
            (names, status.other_backends),
            (seen.keys().take(64).cloned().collect(), 6)
        );
    }

    #[test]
    fn a_status_differs_in_its_backends_only_if_nothing_else_does() {
        let none = InMemoryClusterStatus::default();
        let load_balancer = listed(None, &named([("a", up("1"))]), &BTreeSet::new());
        let one = InMemoryClusterStatus {
            load_balancer,
            ..none.clone()
        };
        assert!(are_all_that_differs(Some(&none), &one));
        assert!(!are_all_that_differs(Some(&one), &one));
        assert!(!are_all_that_differs(None, &one));
        let initialization = Some(api::Initialization {
            provisioned: Some(true),
        });
        assert!(!are_all_that_differs(
            Some(&none),
            &InMemoryClusterStatus {
                initialization,
                ..one
            }
        ));
    }

    /// The schema of the status refuses other reasons.
    #[test]
    fn the_definition_has_every_reason() {
        assert_eq!(
            OutOfServiceReason::ALL.map(OutOfServiceReason::as_str),
            api::BACKEND_REASONS
        );
    }
}
