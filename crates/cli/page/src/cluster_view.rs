//! A cluster as its row shows it. Pure.

use nephele_api::{conditions, core::Cluster, infrastructure::v1beta2::InMemoryCluster};

use crate::{objects::Key, surroundings::Surroundings};

/// Cluster API's summary of a Cluster.
pub(crate) const AVAILABLE: &str = "Available";
/// The part of it that a load balancer decides; workers that wait do not change it.
const CONTROL_PLANE_AVAILABLE: &str = "ControlPlaneAvailable";

/// A cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterView {
    pub phase: String,
    pub is_available: bool,
    pub is_control_plane_available: bool,
    /// Why it is not available.
    pub message: String,
    /// The Kubernetes versions of its control plane; two during an upgrade.
    pub version: String,
    pub endpoint: String,
    /// How many backends of its load balancer get connections, and how many there are.
    pub in_service: usize,
    pub backends: usize,
    /// The zones that it may use.
    pub zones: Vec<String>,
    pub machines: usize,
    pub running: usize,
    /// The names of the Faults that affect it now.
    pub faults: Vec<String>,
    /// It changes when a detail changes that the row does not show.
    pub revision: String,
}

impl ClusterView {
    pub(crate) fn new(cluster: &Cluster, around: &Surroundings<'_>) -> Self {
        let key = Key::of(&cluster.metadata);
        let behind = infrastructure(cluster, around);
        let status = cluster.status.as_ref();
        let condition = |name| status.and_then(|status| conditions::find(&status.conditions, name));
        let available = condition(AVAILABLE);
        let is_available = available.is_some_and(|available| available.status == conditions::TRUE);
        let control_plane = condition(CONTROL_PLANE_AVAILABLE);
        let endpoint = cluster
            .spec
            .control_plane_endpoint
            .as_ref()
            .filter(|endpoint| endpoint.port != 0);
        let balancer = behind
            .and_then(|behind| behind.status.as_ref())
            .and_then(|status| status.load_balancer.as_ref());
        let others = balancer.map_or(0, |balancer| balancer.other_backends);
        let backends = balancer
            .map(|balancer| balancer.backends.as_slice())
            .unwrap_or_default();
        let zones = behind.and_then(|behind| behind.status.as_ref()).map(|status| {
            status
                .failure_domains
                .iter()
                .map(|zone| zone.name.clone())
                .collect()
        });
        let faults = around.faults(&key.namespace, &key.name, "");
        let version = |version: Option<&String>| version.cloned().unwrap_or_default();
        Self {
            phase: status.map(|status| status.phase.clone()).unwrap_or_default(),
            is_available,
            is_control_plane_available: control_plane.map_or(is_available, |control_plane| {
                control_plane.status == conditions::TRUE
            }),
            message: available
                .filter(|_| !is_available)
                .map(|available| available.message.clone())
                .unwrap_or_default(),
            version: around.versions(&key.namespace, &key.name),
            endpoint: endpoint.map(ToString::to_string).unwrap_or_default(),
            in_service: backends.iter().filter(|backend| backend.in_service).count(),
            backends: backends
                .len()
                .saturating_add(usize::try_from(others).unwrap_or_default()),
            zones: zones.unwrap_or_default(),
            machines: 0,
            running: 0,
            faults: faults
                .iter()
                .filter_map(|fault| fault.metadata.name.clone())
                .collect(),
            revision: format!(
                "{}.{}.{}",
                version(cluster.metadata.resource_version.as_ref()),
                version(behind.and_then(|behind| behind.metadata.resource_version.as_ref())),
                around.last_record(&key.namespace, &key.name, ""),
            ),
        }
    }

    /// What Cluster API says of it, in one word.
    #[must_use]
    pub fn state(&self) -> &str {
        match (self.is_available, self.phase.as_str()) {
            (true, "Provisioned" | "") => AVAILABLE,
            (false, "Provisioned") => "Not available",
            (false, "") => "Pending",
            (_, phase) => phase,
        }
    }
}

/// The infrastructure of a Cluster.
pub(crate) fn infrastructure<'a>(
    cluster: &Cluster,
    around: &Surroundings<'a>,
) -> Option<&'a InMemoryCluster> {
    let reference = cluster.spec.infrastructure_ref.as_ref()?;
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    (reference.kind == "InMemoryCluster")
        .then(|| around.in_memory_cluster(namespace, &reference.name))
        .flatten()
}
