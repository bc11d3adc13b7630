//! Checks the objects and turns them into values to act on. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use nephele_api::{
    conditions::{self, reasons, types},
    core::{Cluster, NetworkRanges},
    infrastructure::v1beta2::InMemoryCluster,
};
use nephele_cloud::{ClusterObservation, ClusterSpec};
use nephele_controller::{is_externally_managed, paused_message};
use nephele_model::{ClusterId, Endpoint};

use super::fetch::Fetched;
use crate::{
    authorities::Sources,
    claims::Claim,
    resolved_cloud::{Location, ResolvedCloud, cloud_name},
    rests::{why_rests, why_unreadable},
    secret::AuthoritySecret,
};

/// The result of the checks.
#[derive(Debug, PartialEq)]
pub(super) enum Validated {
    /// The InMemoryCluster is externally managed (the annotation `cluster.x-k8s.io/managed-by`).
    ExternallyManaged {
        id: Option<ClusterId>,
        /// The cluster to run for its machines, once the external manager has published the endpoint. The machines work
        /// like those of any other cluster (Cluster API, proposal 20210203, externally managed infrastructure):
        /// simulated API servers listen on the port of the endpoint, and the external manager has to make sure that its
        /// host leads here.
        wanted: Option<Box<Wanted>>,
    },
    /// The InMemoryCluster has no owner yet.
    WithoutOwner,
    /// The Cluster that owns it does not exist (yet).
    WithoutCluster(ClusterId),
    /// The object is paused; the message says why.
    Paused {
        message: String,
        /// The cluster, if it was provisioned before: it keeps running.
        provisioned: Option<Box<Wanted>>,
    },
    /// The cluster should run.
    Wanted(Box<Wanted>),
}

/// A cluster that should run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) spec: ClusterSpec,
    /// The Cluster that owns it.
    pub(super) cluster: Arc<Cluster>,
    /// The Secrets of its authorities, once all of them exist.
    pub(super) authorities: Option<Sources<Arc<AuthoritySecret>>>,
    /// The offer of its SimulatedCloud.
    pub(super) resolved_cloud: Arc<ResolvedCloud>,
    /// The claim of its load balancer's address.
    pub(super) claim: Option<Claim>,
    /// The state of the cluster in the cloud.
    pub(super) observed: Option<ClusterObservation>,
}

pub(super) fn validate(object: &InMemoryCluster, fetched: Fetched) -> Validated {
    let Fetched {
        id,
        owned,
        cluster,
        ca,
        etcd,
        claim,
        cloud,
        observed,
    } = fetched;
    let resolved_cloud = Arc::new(ResolvedCloud::new(object, Location::of(object, cloud)));
    if is_externally_managed(&object.metadata) {
        let paused = cluster.as_ref().is_some_and(|cluster| cluster.is_paused())
            || paused_message("InMemoryCluster", &object.metadata, false).is_some();
        let found = id
            .clone()
            .zip(cluster)
            .filter(|_| owned && (!paused || object.is_provisioned()));
        let wanted = found.map(|(id, cluster)| Wanted {
            spec: spec(object, &cluster, id, &resolved_cloud),
            authorities: sources(&cluster, ca, etcd),
            cluster,
            resolved_cloud,
            claim: None,
            observed,
        });
        let published = |wanted: &Wanted| {
            let endpoint = wanted.spec.endpoint.as_ref();
            endpoint.is_some_and(|endpoint| !endpoint.host.is_empty() && endpoint.port != 0)
        };
        return Validated::ExternallyManaged {
            id,
            wanted: wanted.filter(published).map(Box::new),
        };
    }
    let deleting = object.metadata.deletion_timestamp.is_some();
    let Some(id) = id.filter(|_| owned || deleting) else {
        // One that has lost its owner and is being deleted rests while it is paused, like any other.
        let why = if deleting {
            why_rests("InMemoryCluster", &object.metadata, false)
        } else {
            why_unreadable(&object.metadata)
        };
        return match why {
            Some(message) => Validated::Paused {
                message,
                provisioned: None,
            },
            None => Validated::WithoutOwner,
        };
    };
    let paused = cluster.as_ref().is_some_and(|cluster| cluster.is_paused());
    let paused = why_rests("InMemoryCluster", &object.metadata, paused);
    let wanted = cluster.map(|cluster| {
        Box::new(Wanted {
            spec: spec(object, &cluster, id.clone(), &resolved_cloud),
            authorities: sources(&cluster, ca, etcd),
            cluster,
            resolved_cloud,
            claim,
            observed,
        })
    });
    match (paused, wanted) {
        (Some(message), wanted) => {
            let runs = object.is_provisioned() && (owned || deleting);
            Validated::Paused {
                message,
                provisioned: wanted.filter(|_| runs),
            }
        }
        (None, Some(wanted)) => Validated::Wanted(wanted),
        (None, None) => Validated::WithoutCluster(id),
    }
}

/// A cluster in the cloud.
pub(crate) fn spec(
    object: &InMemoryCluster,
    cluster: &Cluster,
    id: ClusterId,
    resolved_cloud: &ResolvedCloud,
) -> ClusterSpec {
    // An endpoint from the user, on either object, comes before one that the cloud chooses; it may have only a host or
    // only a port.
    let own = object.spec.control_plane_endpoint.clone().unwrap_or_default();
    let of_cluster = cluster.spec.control_plane_endpoint.clone().unwrap_or_default();
    let host = if own.host.is_empty() {
        of_cluster.host
    } else {
        own.host
    };
    let port = if own.port == 0 { of_cluster.port } else { own.port };
    // The schema refuses a port that is out of range; if one got past it, it counts as no port.
    let port = u16::try_from(port).unwrap_or(0);
    let network = cluster.spec.cluster_network.clone().unwrap_or_default();
    let blocks = |ranges: Option<NetworkRanges>| ranges.unwrap_or_default().cidr_blocks;
    ClusterSpec {
        id,
        labels: cluster.labels().clone(),
        region: resolved_cloud.load_balancer_region(),
        cloud_spec: cloud_name(object).to_owned(),
        endpoint: (!host.is_empty() || port != 0).then_some(Endpoint { host, port }),
        created_at: first_created(object),
        is_read_refused: is_read_refused(object),
        pod_cidrs: blocks(network.pods),
        service_cidrs: blocks(network.services),
        service_domain: network.service_domain,
    }
}

/// The time when the cluster was created, on this or an earlier management cluster.
pub(super) fn first_created(object: &InMemoryCluster) -> Timestamp {
    let here = || {
        object
            .creation_timestamp()
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0)
    };
    object.first_created().unwrap_or_else(here)
}

/// Whether the status says that the cloud refused the last read. A cluster that was provisioned has a load balancer, and a
/// read that does not show it yet was answered.
fn is_read_refused(object: &InMemoryCluster) -> bool {
    let conditions = object.status.as_ref().map(|status| status.conditions.as_slice());
    let known = conditions::find(conditions.unwrap_or_default(), types::LOAD_BALANCER_AVAILABLE);
    let is_refusal =
        |known: &Condition| known.status == conditions::FALSE && known.reason != reasons::NOT_VISIBLE_YET;
    object.is_provisioned() && known.is_some_and(is_refusal)
}

/// The Secrets of the authorities. The kubeadm control plane provider writes both Secrets, one after the other, and
/// certificates are issued once both exist. Clusters of other control plane providers may have no etcd authority.
fn sources(
    cluster: &Cluster,
    ca: Option<Arc<AuthoritySecret>>,
    etcd: Option<Arc<AuthoritySecret>>,
) -> Option<Sources<Arc<AuthoritySecret>>> {
    let control_plane = cluster.spec.control_plane_ref.as_ref();
    let needs_etcd = control_plane.is_some_and(|reference| reference.kind == "KubeadmControlPlane");
    if needs_etcd && etcd.is_none() {
        return None;
    }
    Some(Sources { cluster: ca?, etcd })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use nephele_api::{
        core::ObjectReference,
        infrastructure::v1beta2::{ControlPlaneEndpoint, InMemoryClusterStatus, Initialization},
    };
    use nephele_testkit::objects;
    use serde_json::json;

    use super::*;

    fn id() -> ClusterId {
        ClusterId {
            namespace: "default".into(),
            name: "demo".into(),
        }
    }

    fn found(cluster: Cluster) -> Fetched {
        Fetched {
            id: Some(id()),
            owned: true,
            cluster: Some(Arc::new(cluster)),
            ..Fetched::default()
        }
    }

    fn secret(name: &str) -> Arc<AuthoritySecret> {
        serde_json::from_value(json!({ "metadata": { "name": name } }))
            .map(Arc::new)
            .expect("a Secret")
    }

    fn provisioned() -> InMemoryClusterStatus {
        let initialization = Some(Initialization {
            provisioned: Some(true),
        });
        InMemoryClusterStatus {
            initialization,
            ..InMemoryClusterStatus::default()
        }
    }

    #[test]
    fn a_paused_cluster_runs_on_if_it_was_provisioned_also_while_it_is_deleted() {
        let mut cluster = objects::cluster("demo");
        cluster.spec.paused = Some(true);
        let mut object = objects::in_memory_cluster(&cluster);
        let continues = |object: &InMemoryCluster| match validate(object, found(cluster.clone())) {
            Validated::Paused { provisioned, .. } => provisioned.is_some(),
            other => panic!("{other:?}"),
        };
        assert!(!continues(&object));
        object.status = Some(provisioned());
        assert!(continues(&object));
        object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert!(continues(&object));
    }

    fn wanted_spec() -> ClusterSpec {
        ClusterSpec {
            id: id(),
            labels: [].into(),
            region: None,
            cloud_spec: "default".into(),
            endpoint: None,
            created_at: Timestamp::UNIX_EPOCH,
            is_read_refused: false,
            pod_cidrs: vec!["192.168.0.0/16".into()],
            service_cidrs: vec!["10.128.0.0/12".into()],
            service_domain: "cluster.local".into(),
        }
    }

    #[test]
    fn a_plain_cluster_leaves_the_endpoint_to_the_cloud() {
        let cluster = objects::cluster("demo");
        let object = objects::in_memory_cluster(&cluster);
        let expected = Wanted {
            spec: wanted_spec(),
            cluster: Arc::new(cluster.clone()),
            authorities: None,
            resolved_cloud: Arc::default(),
            claim: None,
            observed: None,
        };
        assert_eq!(
            validate(&object, found(cluster)),
            Validated::Wanted(Box::new(expected))
        );
    }

    #[test]
    fn an_endpoint_of_the_user_is_taken_part_by_part() {
        let mut cluster = objects::cluster("demo");
        let mut object = objects::in_memory_cluster(&cluster);
        let of_cluster = |host: &str, port| {
            Some(nephele_api::core::Endpoint {
                host: host.into(),
                port,
            })
        };
        let own = |host: &str, port| {
            Some(ControlPlaneEndpoint {
                host: host.into(),
                port,
            })
        };
        for (own, of_cluster, expected) in [
            (None, of_cluster("lb.example", 6443), Some(("lb.example", 6443))),
            (
                own("own.example", 0),
                of_cluster("lb.example", 6443),
                Some(("own.example", 6443)),
            ),
            (
                own("", 6444),
                of_cluster("lb.example", 6443),
                Some(("lb.example", 6444)),
            ),
            (own("own.example", 6444), None, Some(("own.example", 6444))),
            (own("own.example", 70_000), None, Some(("own.example", 0))),
            (None, of_cluster("", 0), None),
        ] {
            object.spec.control_plane_endpoint = own;
            cluster.spec.control_plane_endpoint = of_cluster;
            let expected = expected.map(|(host, port)| Endpoint {
                host: host.to_owned(),
                port,
            });
            assert_eq!(
                spec(&object, &cluster, id(), &ResolvedCloud::default()).endpoint,
                expected
            );
        }
    }

    #[test]
    fn the_status_says_whether_a_read_was_refused() {
        let cluster = objects::cluster("demo");
        let mut object = objects::in_memory_cluster(&cluster);
        let is_read_refused = |object: &InMemoryCluster| {
            spec(object, &cluster, id(), &ResolvedCloud::default()).is_read_refused
        };
        let refused = |reason: &str, mut status: InMemoryClusterStatus| {
            let kind = types::LOAD_BALANCER_AVAILABLE;
            status
                .conditions
                .push(conditions::condition(kind, conditions::FALSE, reason, ""));
            Some(status)
        };
        object.status = refused("Throttled", InMemoryClusterStatus::default());
        assert!(!is_read_refused(&object), "its creation was refused");
        object.status = Some(provisioned());
        assert!(!is_read_refused(&object));
        object.status = refused(reasons::NOT_VISIBLE_YET, provisioned());
        assert!(!is_read_refused(&object));
        object.status = refused("Throttled", provisioned());
        assert!(is_read_refused(&object));
    }

    #[test]
    fn what_forbids_work_comes_in_order() {
        let mut cluster = objects::cluster("demo");
        let mut object = objects::in_memory_cluster(&cluster);
        assert_eq!(validate(&object, Fetched::default()), Validated::WithoutOwner);
        let labelled = Fetched {
            owned: false,
            ..found(cluster.clone())
        };
        assert_eq!(validate(&object, labelled), Validated::WithoutOwner);
        let lost = Fetched {
            cluster: None,
            ..found(cluster.clone())
        };
        assert_eq!(validate(&object, lost), Validated::WithoutCluster(id()));
        cluster.spec.paused = Some(true);
        let message = "Cluster spec.paused is set to true".to_owned();
        let paused = |provisioned| Validated::Paused {
            message: message.clone(),
            provisioned,
        };
        assert_eq!(validate(&object, found(cluster.clone())), paused(None));
        objects::annotate(&mut object, nephele_controller::MANAGED_BY_ANNOTATION, "");
        let left_alone = Validated::ExternallyManaged {
            id: Some(id()),
            wanted: None,
        };
        assert_eq!(validate(&object, found(cluster)), left_alone);
    }

    #[test]
    fn a_paused_cluster_rests_also_if_it_has_lost_its_owner_and_is_being_deleted() {
        let mut object = objects::in_memory_cluster(&objects::cluster("demo"));
        object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert_eq!(validate(&object, Fetched::default()), Validated::WithoutOwner);
        objects::annotate(&mut object, nephele_controller::PAUSED_ANNOTATION, "");
        let message = "InMemoryCluster has the cluster.x-k8s.io/paused annotation".to_owned();
        let paused = Validated::Paused {
            message,
            provisioned: None,
        };
        assert_eq!(validate(&object, Fetched::default()), paused);
    }

    #[test]
    fn the_cluster_of_another_manager_is_wanted_for_its_machines_once_its_endpoint_is_published_whole() {
        let mut cluster = objects::cluster("demo");
        let mut object = objects::in_memory_cluster(&cluster);
        objects::annotate(&mut object, nephele_controller::MANAGED_BY_ANNOTATION, "");
        let support =
            |object: &InMemoryCluster, cluster: &Cluster| match validate(object, found(cluster.clone())) {
                Validated::ExternallyManaged { wanted, .. } => wanted.and_then(|wanted| wanted.spec.endpoint),
                other => panic!("{other:?}"),
            };
        assert_eq!(support(&object, &cluster), None);
        object.spec.control_plane_endpoint = Some(ControlPlaneEndpoint {
            host: "lb.example".into(),
            port: 0,
        });
        assert_eq!(support(&object, &cluster), None);
        object.spec.control_plane_endpoint = Some(ControlPlaneEndpoint {
            host: "lb.example".into(),
            port: 6443,
        });
        let published = Some(Endpoint {
            host: "lb.example".into(),
            port: 6443,
        });
        assert_eq!(support(&object, &cluster), published.clone());
        cluster.spec.paused = Some(true);
        assert_eq!(support(&object, &cluster), None);
        // A cluster that was provisioned before keeps running.
        object.status = Some(provisioned());
        assert_eq!(support(&object, &cluster), published);
    }

    #[test]
    fn kubeadm_control_planes_have_two_authorities() {
        let mut cluster = objects::cluster("demo");
        let both = || (Some(secret("demo-ca")), Some(secret("demo-etcd")));
        let read = |cluster: &Cluster, (ca, etcd)| sources(cluster, ca, etcd);
        let sources = |etcd: Option<&str>| {
            Some(Sources {
                cluster: secret("demo-ca"),
                etcd: etcd.map(secret),
            })
        };
        assert_eq!(read(&cluster, (Some(secret("demo-ca")), None)), sources(None));
        assert_eq!(read(&cluster, both()), sources(Some("demo-etcd")));
        let kind = "KubeadmControlPlane".to_owned();
        cluster.spec.control_plane_ref = Some(ObjectReference {
            kind,
            ..ObjectReference::default()
        });
        assert_eq!(read(&cluster, (Some(secret("demo-ca")), None)), None);
        assert_eq!(read(&cluster, (None, Some(secret("demo-etcd")))), None);
        assert_eq!(read(&cluster, both()), sources(Some("demo-etcd")));
    }
}
