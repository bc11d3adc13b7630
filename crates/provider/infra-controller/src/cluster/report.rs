//! The status of a cluster.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use nephele_api::{
    conditions::{self, condition, reasons, types},
    infrastructure::v1beta2::{ClusterNetworkStatus, InMemoryCluster, InMemoryClusterStatus, Initialization},
};
use nephele_cloud::ClusterError;

use super::{acted::Applied, backends};
pub(super) use crate::report::{deleting, resting, unpaused, write};
use crate::{
    authorities::AuthoritiesState,
    messages,
    report::Report,
    resolved_cloud::{Location, missing_message},
};

/// The status of a cluster whose load balancer has no address yet. Pure.
pub(super) fn waiting(
    object: &InMemoryCluster,
    reason: &str,
    message: String,
    now: Timestamp,
) -> InMemoryClusterStatus {
    let mut report = Report::on(object, now).not_paused();
    let balancer = condition(types::LOAD_BALANCER_AVAILABLE, conditions::FALSE, reason, message);
    let ready = condition(
        types::READY,
        conditions::FALSE,
        reasons::NOT_READY,
        summary(&balancer),
    );
    report.set(balancer);
    report.set(ready);
    report.status
}

/// The status of a new cluster whose SimulatedCloud does not exist. Pure.
pub(super) fn without_cloud(object: &InMemoryCluster, cloud: &str, now: Timestamp) -> InMemoryClusterStatus {
    let mut report = Report::on(object, now).not_paused();
    let missing = missing_cloud(cloud);
    let ready = condition(
        types::READY,
        conditions::FALSE,
        reasons::NOT_READY,
        summary(&missing),
    );
    report.set(missing);
    report.set(ready);
    report.status
}

/// The status that follows from what was applied. Pure.
pub(super) fn provided(object: &InMemoryCluster, applied: &Applied, now: Timestamp) -> InMemoryClusterStatus {
    let mut report = Report::on(object, now).not_paused();
    let cloud = cloud(object, &applied.resolved_cloud.location);
    let balancer = load_balancer(object, applied);
    let authorities = authorities(&applied.authorities);
    let faults = [cloud.as_ref(), Some(&balancer), authorities.as_ref()]
        .into_iter()
        .flatten();
    let fault = faults
        .filter(|condition| condition.status == conditions::FALSE)
        .map(summary)
        .next();
    match cloud {
        Some(cloud) => report.set(cloud),
        None => report
            .status
            .conditions
            .retain(|known| known.type_ != types::CLOUD_AVAILABLE),
    }
    report.set(balancer);
    if let Some(authorities) = authorities {
        report.set(authorities);
    }
    report.set(match fault {
        None => condition(types::READY, conditions::TRUE, reasons::READY, ""),
        Some(message) => condition(types::READY, conditions::FALSE, reasons::NOT_READY, message),
    });
    let mut status = report.status;
    if let Some(address) = &applied.claimed {
        status.network = Some(ClusterNetworkStatus {
            control_plane_address: Some(address.clone()),
        });
    }
    if let Some(seen) = &applied.backends {
        status.load_balancer = backends::listed(status.load_balancer.as_ref(), seen, &applied.expected);
    }
    if applied.endpoint.is_ok() {
        status.initialization = Some(Initialization {
            provisioned: Some(true),
        });
        status
            .failure_domains
            .clone_from(&applied.resolved_cloud.failure_domains);
    }
    status
}

/// The condition CloudAvailable; none for a cluster that names no SimulatedCloud.
fn cloud(object: &InMemoryCluster, location: &Location) -> Option<Condition> {
    object.spec.cloud_ref.as_ref()?;
    Some(match location {
        Location::Missing(name) => missing_cloud(name),
        Location::BuiltIn | Location::Cloud(_) => {
            condition(types::CLOUD_AVAILABLE, conditions::TRUE, reasons::AVAILABLE, "")
        }
    })
}

fn missing_cloud(name: &str) -> Condition {
    let kind = types::CLOUD_AVAILABLE;
    let reason = reasons::CLOUD_NOT_FOUND;
    condition(kind, conditions::FALSE, reason, missing_message(name))
}

fn load_balancer(object: &InMemoryCluster, applied: &Applied) -> Condition {
    let kind = types::LOAD_BALANCER_AVAILABLE;
    match &applied.endpoint {
        Ok(endpoint) => {
            let host = &endpoint.host;
            let advertised = &applied.advertised_host;
            // The user chose the host, or a manager with another configuration did: a published endpoint never changes.
            let message = if host == advertised {
                String::new()
            } else {
                format!(
                    "Published under {host}, which cannot change and has to lead to the manager; the manager \
                     advertises {advertised}"
                )
            };
            condition(kind, conditions::TRUE, reasons::AVAILABLE, message)
        }
        Err(error) => {
            let reason = match error {
                ClusterError::Call(error) => error.category(),
                ClusterError::PortInUse { .. }
                | ClusterError::PortReserved { .. }
                | ClusterError::PortLeaked { .. }
                | ClusterError::PortOutside { .. }
                | ClusterError::ClustersMax { .. }
                | ClusterError::Listen { .. }
                | ClusterError::PortsUnknown
                | ClusterError::PortsExhausted { .. } => reasons::PORT_UNAVAILABLE,
                ClusterError::Unknown(_)
                | ClusterError::Issue(_)
                | ClusterError::State(_)
                | ClusterError::Restore(_)
                | ClusterError::Record(_) => reasons::INTERNAL_ERROR,
            };
            let message = messages::message(error);
            let message = match advice(object, error) {
                Some(advice) => format!("{message}; {advice}"),
                None => message,
            };
            condition(kind, conditions::FALSE, reason, message)
        }
    }
}

/// What users can do about a port that they have asked for. What was published before belongs to a cluster that is used.
fn advice(object: &InMemoryCluster, error: &ClusterError) -> Option<&'static str> {
    let is_asked = match error {
        ClusterError::PortInUse { .. }
        | ClusterError::PortReserved { .. }
        | ClusterError::PortLeaked { .. }
        | ClusterError::PortOutside { .. } => object.first_created().is_none(),
        _ => false,
    };
    let own = object
        .spec
        .control_plane_endpoint
        .as_ref()
        .is_some_and(|endpoint| endpoint.port != 0);
    is_asked.then_some(if own {
        "spec.controlPlaneEndpoint.port of the InMemoryCluster asks for it and cannot change: make the cluster again \
         with another port, or without one"
    } else {
        "spec.controlPlaneEndpoint.port of the Cluster asks for it: choose another port, or leave it out"
    })
}

/// The condition CertificateAuthoritiesAvailable; none while the authorities do not exist.
fn authorities(state: &AuthoritiesState) -> Option<Condition> {
    let kind = types::CERTIFICATE_AUTHORITIES_AVAILABLE;
    match state {
        AuthoritiesState::Missing => None,
        AuthoritiesState::InUse => Some(condition(kind, conditions::TRUE, reasons::AVAILABLE, "")),
        AuthoritiesState::Invalid(message) => Some(condition(
            kind,
            conditions::FALSE,
            reasons::INVALID_CERTIFICATE_AUTHORITY,
            message,
        )),
    }
}

/// A condition as part of the summary in Ready.
fn summary(condition: &Condition) -> String {
    format!("{}: {}", condition.type_, condition.message)
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        sync::Arc,
    };

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use nephele_api::{
        cloud::v1alpha1::SimulatedCloud,
        infrastructure::v1beta2::{ClaimedAddress, CloudReference, ControlPlaneEndpoint, FailureDomain},
    };
    use nephele_cloud::Backend;
    use nephele_model::Endpoint;
    use nephele_testkit::objects;

    use super::*;
    use crate::resolved_cloud::ResolvedCloud;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn object() -> InMemoryCluster {
        let mut object = objects::in_memory_cluster(&objects::cluster("demo"));
        object.metadata.generation = Some(2);
        object
    }

    fn since(second: i64, kind: &str, status: &str, reason: &str, message: &str) -> Condition {
        Condition {
            last_transition_time: Time(at(second)),
            observed_generation: Some(2),
            ..condition(kind, status, reason, message)
        }
    }

    fn applied(authorities: AuthoritiesState) -> Applied {
        let endpoint = Ok(Endpoint {
            host: "127.0.0.1".into(),
            port: 20_000,
        });
        let advertised_host = "127.0.0.1".into();
        Applied {
            object: None,
            endpoint,
            backends: Some(BTreeMap::new()),
            expected: BTreeSet::new(),
            is_early: false,
            advertised_host,
            authorities,
            resolved_cloud: Arc::default(),
            claimed: None,
        }
    }

    #[test]
    fn the_backends_stay_when_the_cloud_says_nothing_about_them() {
        let mut object = object();
        let up = Backend {
            address: "10.0.0.7".into(),
            out_of_service: None,
        };
        let seen = |backends| Applied {
            backends,
            ..applied(AuthoritiesState::InUse)
        };
        let status = provided(&object, &seen(Some([("cp".to_owned(), up)].into())), at(5));
        let names = |status: &InMemoryClusterStatus| {
            let listed = status
                .load_balancer
                .iter()
                .flat_map(|balancer| &balancer.backends);
            listed
                .map(|backend| (backend.name.clone(), backend.in_service))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&status), [("cp".to_owned(), true)]);
        object.status = Some(status.clone());
        assert_eq!(provided(&object, &seen(None), at(9)), status);
        assert_eq!(names(&provided(&object, &seen(Some(BTreeMap::new())), at(9))), []);
    }

    #[test]
    fn a_new_cluster_is_ready_before_anyone_made_its_authorities() {
        let mut object = object();
        let domain = |name: &str| FailureDomain {
            name: name.into(),
            ..FailureDomain::default()
        };
        object.spec.failure_domains = vec![domain("b"), domain("a")];
        let expected = InMemoryClusterStatus {
            initialization: Some(Initialization {
                provisioned: Some(true),
            }),
            network: None,
            load_balancer: None,
            failure_domains: vec![domain("a"), domain("b")],
            conditions: vec![
                since(5, "Paused", "False", "NotPaused", ""),
                since(5, "LoadBalancerAvailable", "True", "Available", ""),
                since(5, "Ready", "True", "Ready", ""),
            ],
        };
        let resolved_cloud = Arc::new(ResolvedCloud::new(&object, Location::BuiltIn));
        let applied = Applied {
            resolved_cloud,
            ..applied(AuthoritiesState::Missing)
        };
        let status = provided(&object, &applied, at(5));
        assert_eq!(status, expected);
        object.status = Some(status);
        assert_eq!(provided(&object, &applied, at(9)), expected);
    }

    #[test]
    fn a_cluster_says_whether_the_cloud_it_names_is_there() {
        let mut object = object();
        object.spec.cloud_ref = Some(CloudReference { name: "north".into() });
        let message = "SimulatedCloud north does not exist";
        let missing = |second| since(second, "CloudAvailable", "False", "CloudNotFound", message);
        let not_ready = |second| {
            since(
                second,
                "Ready",
                "False",
                "NotReady",
                &format!("CloudAvailable: {message}"),
            )
        };
        let status = without_cloud(&object, "north", at(5));
        assert_eq!(
            status,
            InMemoryClusterStatus {
                conditions: vec![
                    since(5, "Paused", "False", "NotPaused", ""),
                    missing(5),
                    not_ready(5)
                ],
                ..InMemoryClusterStatus::default()
            }
        );
        object.status = Some(status);
        let at_location = |location| {
            let resolved_cloud = Arc::new(ResolvedCloud {
                location,
                ..ResolvedCloud::default()
            });
            Applied {
                resolved_cloud,
                ..applied(AuthoritiesState::Missing)
            }
        };
        let found = at_location(Location::Cloud(Arc::new(SimulatedCloud::default())));
        let status = provided(&object, &found, at(9));
        assert_eq!(
            status.conditions[1],
            since(9, "CloudAvailable", "True", "Available", "")
        );
        object.status = Some(status);
        let status = provided(&object, &at_location(Location::Missing("north".into())), at(12));
        assert_eq!(
            (&status.conditions[1], &status.conditions[2]),
            (&missing(12), &not_ready(12))
        );
        assert_eq!(
            status.initialization,
            Some(Initialization {
                provisioned: Some(true)
            })
        );
        // A cluster that no longer names a SimulatedCloud has no condition about it.
        object.status = Some(status);
        object.spec.cloud_ref = None;
        let status = provided(&object, &applied(AuthoritiesState::Missing), at(15));
        let kinds: Vec<_> = status
            .conditions
            .iter()
            .map(|known| known.type_.as_str())
            .collect();
        assert_eq!(kinds, ["Paused", "Ready", "LoadBalancerAvailable"]);
    }

    #[test]
    fn a_broken_authority_takes_readiness_but_not_the_provisioned_flag() {
        let mut object = object();
        object.status = Some(provided(&object, &applied(AuthoritiesState::InUse), at(5)));
        let status = provided(
            &object,
            &applied(AuthoritiesState::Invalid("Secret demo-ca has no tls.key".into())),
            at(9),
        );
        let message = "Secret demo-ca has no tls.key";
        let expected = InMemoryClusterStatus {
            initialization: Some(Initialization {
                provisioned: Some(true),
            }),
            network: None,
            load_balancer: None,
            failure_domains: vec![],
            conditions: vec![
                since(5, "Paused", "False", "NotPaused", ""),
                since(5, "LoadBalancerAvailable", "True", "Available", ""),
                since(
                    9,
                    "CertificateAuthoritiesAvailable",
                    "False",
                    "InvalidCertificateAuthority",
                    message,
                ),
                since(
                    9,
                    "Ready",
                    "False",
                    "NotReady",
                    &format!("CertificateAuthoritiesAvailable: {message}"),
                ),
            ],
        };
        assert_eq!(status, expected);
    }

    #[test]
    fn a_load_balancers_address_is_waited_for_and_then_shown() {
        let mut object = object();
        let message = "Waiting for IPAddressClaim demo-load-balancer of Pool v4: PoolExhausted";
        let status = waiting(&object, "PoolExhausted", message.into(), at(5));
        let expected = [
            since(5, "Paused", "False", "NotPaused", ""),
            since(5, "LoadBalancerAvailable", "False", "PoolExhausted", message),
            since(
                5,
                "Ready",
                "False",
                "NotReady",
                &format!("LoadBalancerAvailable: {message}"),
            ),
        ];
        assert_eq!(status.conditions, expected);
        object.status = Some(status);
        let address = ClaimedAddress {
            address: "10.0.0.7".into(),
            prefix: Some(24),
            gateway: String::new(),
        };
        let applied = Applied {
            claimed: Some(address.clone()),
            ..applied(AuthoritiesState::Missing)
        };
        let status = provided(&object, &applied, at(9));
        assert_eq!(
            status.network,
            Some(ClusterNetworkStatus {
                control_plane_address: Some(address)
            })
        );
        assert_eq!(
            status.conditions[1],
            since(9, "LoadBalancerAvailable", "True", "Available", "")
        );
        object.status = Some(status.clone());
        assert_eq!(
            provided(
                &object,
                &Applied {
                    claimed: None,
                    ..applied
                },
                at(99)
            ),
            status
        );
    }

    #[test]
    fn an_endpoint_under_another_host_than_the_advertised_is_told() {
        let applied = Applied {
            advertised_host: "10.0.0.9".into(),
            ..applied(AuthoritiesState::Missing)
        };
        let status = provided(&object(), &applied, at(5));
        let message = "Published under 127.0.0.1, which cannot change and has to lead to the manager; the manager \
                       advertises 10.0.0.9";
        assert_eq!(
            status.conditions[1],
            since(5, "LoadBalancerAvailable", "True", "Available", message)
        );
        assert_eq!(status.conditions[2], since(5, "Ready", "True", "Ready", ""));
    }

    #[test]
    fn a_cluster_without_a_port_is_not_provisioned_and_names_the_field_that_asks_for_it() {
        let told = |object: &InMemoryCluster, error| {
            let applied = Applied {
                endpoint: Err(error),
                ..applied(AuthoritiesState::Missing)
            };
            provided(object, &applied, at(5))
        };
        let in_use = || ClusterError::PortInUse {
            port: 6443,
            source: None,
        };
        let expected = |message: &str| InMemoryClusterStatus {
            initialization: None,
            network: None,
            load_balancer: None,
            failure_domains: vec![],
            conditions: vec![
                since(5, "Paused", "False", "NotPaused", ""),
                since(5, "LoadBalancerAvailable", "False", "PortUnavailable", message),
                since(
                    5,
                    "Ready",
                    "False",
                    "NotReady",
                    &format!("LoadBalancerAvailable: {message}"),
                ),
            ],
        };
        let mut own = object();
        own.spec.control_plane_endpoint = Some(ControlPlaneEndpoint {
            host: "a".into(),
            port: 6443,
        });
        let mut published = own.clone();
        published.set_first_created(at(1));
        let asked = "spec.controlPlaneEndpoint.port of the";
        for (object, error, message) in [
            (&published, in_use(), "failed to listen on port 6443".to_owned()),
            (
                &own,
                in_use(),
                format!(
                    "failed to listen on port 6443; {asked} InMemoryCluster asks for it and cannot change: make the cluster \
                     again with another port, or without one"
                ),
            ),
            (
                &object(),
                // The cluster that has it is in another namespace.
                ClusterError::PortReserved {
                    port: 6443,
                    owner: None,
                },
                format!(
                    "failed to listen on port 6443: it belongs to a cluster of another namespace; {asked} Cluster asks for \
                     it: choose another port, or leave it out"
                ),
            ),
            (
                &object(),
                ClusterError::PortOutside { port: 6443 },
                format!(
                    "failed to listen on port 6443: this manager does not serve it (--workload-ports, --moved-ports); \
                     {asked} Cluster asks for it: choose another port, or leave it out"
                ),
            ),
        ] {
            assert_eq!(told(object, error), expected(&message));
        }
    }

    #[test]
    fn a_pause_changes_nothing_but_its_condition() {
        let mut object = object();
        let before = provided(&object, &applied(AuthoritiesState::InUse), at(5));
        object.status = Some(before.clone());
        let mut expected = before;
        expected.conditions[0] = since(9, "Paused", "True", "Paused", "p");
        assert_eq!(resting(&object, "p", at(9)), expected);
        object.status = Some(expected.clone());
        expected.conditions[0] = since(12, "Paused", "False", "NotPaused", "");
        assert_eq!(unpaused(&object, at(12)), expected);
    }
}
