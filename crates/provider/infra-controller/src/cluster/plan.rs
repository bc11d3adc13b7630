//! What to do about a cluster. Pure.

use nephele_api::{
    conditions::{self, types},
    finalizers,
    infrastructure::v1beta2::InMemoryCluster,
};
use nephele_controller::Outcome;
use nephele_model::ClusterId;

use super::validate::{Validated, Wanted};
use crate::{
    claims::Unmet,
    finalizer::{Finalizer, is_held},
    resolved_cloud::Location,
};

/// What to do.
#[derive(Debug, PartialEq)]
pub(super) enum Plan {
    /// Nothing.
    Leave(Outcome),
    /// Report that the object is paused, for this reason. A cluster that was provisioned before keeps running.
    Pause {
        message: String,
        kept: Option<Box<Wanted>>,
    },
    /// Report that the object is not paused any more.
    Unpause,
    /// Report that the cluster waits for its load balancer's address, and create the claim if it is missing.
    Wait { unmet: Unmet, wanted: Box<Wanted> },
    /// Report that the cluster waits for the SimulatedCloud of this name, without which its failure domains are not
    /// known.
    WaitForCloud(String),
    /// Create or update the cluster.
    Provide(Box<Wanted>),
    /// Delete the cluster.
    Remove(Option<ClusterId>),
    /// Restore the cluster, which was there before a restart, and delete it.
    ResumeRemoval(Box<Wanted>),
    /// Run the cluster for its machines without writing to the InMemoryCluster, which is externally managed.
    Support(Box<Wanted>),
    /// Delete the cluster that was run for the machines of an externally managed InMemoryCluster.
    Abandon(ClusterId),
}

impl Plan {
    /// What happens to our finalizer.
    pub(super) fn finalizer(&self) -> Finalizer {
        match self {
            // Nothing is written to an object that rests or that another system manages.
            Self::Leave(_) | Self::Pause { .. } | Self::Unpause | Self::Support(_) | Self::Abandon(_) => {
                Finalizer::Kept
            }
            Self::Wait { .. } | Self::WaitForCloud(_) => Finalizer::Added,
            Self::Provide(_) => Finalizer::AddedWithSpec,
            Self::Remove(_) | Self::ResumeRemoval(_) => Finalizer::Released,
        }
    }
}

pub(super) fn plan(object: &InMemoryCluster, validated: Validated) -> Plan {
    let deleting = object.metadata.deletion_timestamp.is_some();
    let held = is_held(&object.metadata, finalizers::CLUSTER);
    match validated {
        Validated::ExternallyManaged { id: Some(id), .. } if deleting => Plan::Abandon(id),
        Validated::ExternallyManaged {
            wanted: Some(wanted), ..
        } => Plan::Support(wanted),
        Validated::ExternallyManaged { .. } => Plan::Leave(Outcome::WaitingOn("external manager")),
        // Nothing was created for this object. A cluster of the same name may belong to another object.
        _ if deleting && !held => Plan::Leave(Outcome::Done),
        // A paused object that is being deleted may be on its way to another management cluster.
        Validated::Paused { message, provisioned } => Plan::Pause {
            message,
            kept: provisioned,
        },
        Validated::WithoutOwner if deleting => Plan::Remove(None),
        Validated::WithoutOwner => Plan::Leave(Outcome::WaitingOn("owner")),
        Validated::WithoutCluster(id) if deleting => Plan::Remove(Some(id)),
        Validated::WithoutCluster(_) => Plan::Leave(Outcome::WaitingOn("cluster")),
        Validated::Wanted(wanted) if deleting && is_to_restore(object, &wanted) => {
            Plan::ResumeRemoval(wanted)
        }
        Validated::Wanted(wanted) if deleting => Plan::Remove(Some(wanted.spec.id)),
        Validated::Wanted(_) if was_paused(object) => Plan::Unpause,
        Validated::Wanted(wanted) => match (&wanted.resolved_cloud.location, Unmet::of(&wanted.claim)) {
            (Location::Missing(name), _) if !object.is_provisioned() => Plan::WaitForCloud(name.clone()),
            (_, Some(unmet)) => Plan::Wait { unmet, wanted },
            (_, None) => Plan::Provide(wanted),
        },
    }
}

/// Whether the cloud does not have the cluster although it had it before a restart. Then nothing may be asked of it before
/// it is restored.
fn is_to_restore(object: &InMemoryCluster, wanted: &Wanted) -> bool {
    wanted.observed.is_none() && object.first_created().is_some()
}

fn was_paused(object: &InMemoryCluster) -> bool {
    object
        .status
        .as_ref()
        .is_some_and(|status| conditions::is_true(&status.conditions, types::PAUSED))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use nephele_api::{
        conditions::{condition, reasons},
        infrastructure::v1beta2::{ClaimedAddress, InMemoryClusterStatus, Initialization, PoolReference},
    };
    use nephele_cloud::{ClusterObservation, ClusterSpec};
    use nephele_model::Endpoint;
    use nephele_testkit::objects;

    use super::*;
    use crate::{
        claims::{self, Claim, ClaimState},
        resolved_cloud::ResolvedCloud,
    };

    fn id() -> ClusterId {
        ClusterId {
            namespace: "default".into(),
            name: "demo".into(),
        }
    }

    fn wanted() -> Box<Wanted> {
        let spec = ClusterSpec {
            id: id(),
            labels: [].into(),
            region: None,
            cloud_spec: "default".into(),
            endpoint: None,
            created_at: Timestamp::UNIX_EPOCH,
            is_read_refused: false,
            pod_cidrs: vec![],
            service_cidrs: vec![],
            service_domain: String::new(),
        };
        let cluster = Arc::new(objects::cluster("demo"));
        Box::new(Wanted {
            spec,
            cluster,
            authorities: None,
            resolved_cloud: Arc::default(),
            claim: None,
            observed: None,
        })
    }

    fn all() -> [Validated; 6] {
        [
            Validated::ExternallyManaged {
                id: Some(id()),
                wanted: None,
            },
            Validated::ExternallyManaged {
                id: Some(id()),
                wanted: Some(wanted()),
            },
            Validated::WithoutOwner,
            Validated::WithoutCluster(id()),
            Validated::Paused {
                message: "p".into(),
                provisioned: None,
            },
            Validated::Wanted(wanted()),
        ]
    }

    #[test]
    fn a_living_object_is_provided_once_nothing_is_missing() {
        let object = objects::in_memory_cluster(&objects::cluster("demo"));
        let expected = [
            Plan::Leave(Outcome::WaitingOn("external manager")),
            Plan::Support(wanted()),
            Plan::Leave(Outcome::WaitingOn("owner")),
            Plan::Leave(Outcome::WaitingOn("cluster")),
            Plan::Pause {
                message: "p".into(),
                kept: None,
            },
            Plan::Provide(wanted()),
        ];
        assert_eq!(all().map(|validated| plan(&object, validated)), expected);
    }

    #[test]
    fn a_load_balancer_waits_for_its_address() {
        let object = objects::in_memory_cluster(&objects::cluster("demo"));
        let claimed = |state| {
            let name = "demo-load-balancer".to_owned();
            let wanted_claim = claims::Wanted {
                name,
                pool: PoolReference::default(),
            };
            Box::new(Wanted {
                claim: Some(Claim {
                    wanted: wanted_claim,
                    state,
                }),
                ..*wanted()
            })
        };
        let missing = claimed(ClaimState::Missing);
        let unmet = Unmet::of(&missing.claim).expect("it is not bound");
        let expected = Plan::Wait {
            unmet,
            wanted: missing.clone(),
        };
        assert_eq!(plan(&object, Validated::Wanted(missing)), expected);
        let bound = claimed(ClaimState::Bound(ClaimedAddress::default()));
        assert_eq!(
            plan(&object, Validated::Wanted(bound.clone())),
            Plan::Provide(bound)
        );
    }

    #[test]
    fn a_new_cluster_waits_for_its_cloud_and_one_that_is_there_continues_without() {
        let mut object = objects::in_memory_cluster(&objects::cluster("demo"));
        let location = Location::Missing("north".into());
        let resolved_cloud = Arc::new(ResolvedCloud {
            location,
            ..ResolvedCloud::default()
        });
        let lost = Box::new(Wanted {
            resolved_cloud,
            ..*wanted()
        });
        let waiting = Plan::WaitForCloud("north".into());
        assert_eq!(plan(&object, Validated::Wanted(lost.clone())), waiting);
        object.status = Some(InMemoryClusterStatus {
            initialization: Some(Initialization {
                provisioned: Some(true),
            }),
            ..InMemoryClusterStatus::default()
        });
        assert_eq!(
            plan(&object, Validated::Wanted(lost.clone())),
            Plan::Provide(lost)
        );
    }

    #[test]
    fn deletion_waits_for_nothing_but_a_pause() {
        let mut object = objects::in_memory_cluster(&objects::cluster("demo"));
        object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        object.metadata.finalizers = Some(vec![finalizers::CLUSTER.into()]);
        let expected = [
            Plan::Abandon(id()),
            Plan::Abandon(id()),
            Plan::Remove(None),
            Plan::Remove(Some(id())),
            Plan::Pause {
                message: "p".into(),
                kept: None,
            },
            Plan::Remove(Some(id())),
        ];
        assert_eq!(all().map(|validated| plan(&object, validated)), expected);
    }

    fn observed() -> ClusterObservation {
        let endpoint = Endpoint {
            host: "cloud".into(),
            port: 20_000,
        };
        ClusterObservation {
            endpoint,
            authorities_set: true,
            backends: 0,
            machines: 0,
            etcd_members: vec![],
        }
    }

    #[test]
    fn a_cluster_from_before_a_restart_is_restored_before_it_is_deleted() {
        let mut object = objects::in_memory_cluster(&objects::cluster("demo"));
        object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        object.metadata.finalizers = Some(vec![finalizers::CLUSTER.into()]);
        object.set_first_created(Timestamp::UNIX_EPOCH);
        assert_eq!(
            plan(&object, Validated::Wanted(wanted())),
            Plan::ResumeRemoval(wanted())
        );
        let there = Box::new(Wanted {
            observed: Some(observed()),
            ..*wanted()
        });
        assert_eq!(plan(&object, Validated::Wanted(there)), Plan::Remove(Some(id())));
    }

    #[test]
    fn an_object_we_do_not_hold_is_let_go_without_touching_the_cloud() {
        let mut object = objects::in_memory_cluster(&objects::cluster("demo"));
        object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert_eq!(
            plan(&object, Validated::Wanted(wanted())),
            Plan::Leave(Outcome::Done)
        );
    }

    #[test]
    fn the_condition_shows_the_end_of_a_pause_before_work_begins() {
        let mut object = objects::in_memory_cluster(&objects::cluster("demo"));
        object.status = Some(InMemoryClusterStatus {
            conditions: vec![condition(types::PAUSED, conditions::TRUE, reasons::PAUSED, "p")],
            ..InMemoryClusterStatus::default()
        });
        assert_eq!(plan(&object, Validated::Wanted(wanted())), Plan::Unpause);
    }

    mod finalizer;
}
