//! The SimulatedCloud and the failure domains of a cluster, and the conversion of a SimulatedCloud into the spec of a cloud. The
//! cloud itself decides what machines can be made from. Everything is pure but [`ResolvedClouds`], from which the other
//! reconcilers read the SimulatedCloud of their cluster.

use std::{collections::BTreeMap, sync::Arc};

use nephele_api::{
    cloud::{
        DEFAULT_NAME,
        v1alpha1::{SimulatedCloud, SimulatedCloudSpec},
    },
    infrastructure::v1beta2::{FailureDomain, InMemoryCluster},
};
use nephele_cloud::{CloudSpec, Model, Seed};
use nephele_model::{CloudError, ClusterId};
use parking_lot::Mutex;

use crate::simulated_cloud::{api_limits, clock, latency::latencies};

/// The attribute of a failure domain that names its region.
const REGION_ATTRIBUTE: &str = "region";

/// The SimulatedCloud of a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) enum Location {
    /// The cluster has no SimulatedCloud: it uses the built-in cloud.
    #[default]
    BuiltIn,
    /// This SimulatedCloud.
    Cloud(Arc<SimulatedCloud>),
    /// The cluster names this SimulatedCloud, which does not exist.
    Missing(String),
}

impl PartialEq for Location {
    /// Ignores the status of a SimulatedCloud, and whatever takes effect without its machines: the cloud tells
    /// those that wait for room, and draws itself.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::BuiltIn, Self::BuiltIn) => true,
            (Self::Cloud(one), Self::Cloud(other)) => offered(&one.spec) == offered(&other.spec),
            (Self::Missing(one), Self::Missing(other)) => one == other,
            (Self::BuiltIn | Self::Cloud(_) | Self::Missing(_), _) => false,
        }
    }
}

/// The part of a SimulatedCloud that decides what a machine is made from, and until when a machine was told to wait.
fn offered(spec: &SimulatedCloudSpec) -> impl PartialEq {
    let SimulatedCloudSpec {
        regions,
        instance_types,
        images,
        quotas: _,
        capacity: _,
        seed: _,
        latency: _,
        clock: _,
        api,
        leaked_instances: _,
    } = spec;
    (regions, instance_types, images, api)
}

impl Location {
    /// The location of a cluster; `found` is the SimulatedCloud of the name that [`cloud_name`] gives, if it exists.
    pub(crate) fn of(object: &InMemoryCluster, found: Option<Arc<SimulatedCloud>>) -> Self {
        match (found, &object.spec.cloud_ref) {
            (Some(cloud), _) => Self::Cloud(cloud),
            (None, Some(reference)) => Self::Missing(reference.name.clone()),
            (None, None) => Self::BuiltIn,
        }
    }
}

/// The name of the SimulatedCloud of a cluster. A SimulatedCloud of that name need not exist.
pub(crate) fn cloud_name(object: &InMemoryCluster) -> &str {
    object
        .spec
        .cloud_ref
        .as_ref()
        .map_or(DEFAULT_NAME, |reference| &reference.name)
}

/// What a cluster gets from its SimulatedCloud.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ResolvedCloud {
    pub(crate) location: Location,
    /// The failure domains of the cluster, sorted by name; empty when machines can be placed anywhere.
    pub(crate) failure_domains: Vec<FailureDomain>,
}

/// The message for a SimulatedCloud that does not exist.
pub(crate) fn missing_message(name: &str) -> String {
    format!("SimulatedCloud {name} does not exist")
}

/// The message for users when there is no such instance type, image or cloud.
pub(crate) fn message(error: &CloudError) -> String {
    if let CloudError::UnknownCloud(name) = error {
        return missing_message(name);
    }
    let text = error.to_string();
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}

/// The model of a machine; an empty string means no particular value.
pub(crate) fn model(instance_type: &str, image: &str, version: &str) -> Model {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Model {
        instance_type: text(instance_type),
        image: text(image),
        version: text(version),
    }
}

/// The spec for clusters without a SimulatedCloud.
#[must_use]
pub fn built_in_cloud() -> CloudSpec {
    cloud_spec(&SimulatedCloudSpec::default())
}

/// The spec of a SimulatedCloud.
pub(crate) fn cloud_spec(cloud: &SimulatedCloudSpec) -> CloudSpec {
    CloudSpec {
        instance_types: cloud.instance_types().into_owned(),
        images: cloud.images.clone(),
        quotas: cloud.quotas,
        stock: cloud.capacity.clone(),
        latencies: latencies(&cloud.latency),
        clock: clock::setting(&cloud.clock),
        api: api_limits::limits(&cloud.api).0,
        seed: Some(&cloud.seed).filter(|seed| !seed.is_empty()).map(Seed::new),
    }
}

impl ResolvedCloud {
    /// The offer to a cluster at this location.
    pub(crate) fn new(object: &InMemoryCluster, location: Location) -> Self {
        let own = &object.spec.failure_domains;
        let mut failure_domains = match &location {
            _ if !own.is_empty() => own.clone(),
            Location::BuiltIn => Vec::new(),
            Location::Cloud(cloud) => zones(cloud),
            // The last known failure domains hold until the SimulatedCloud is back.
            Location::Missing(_) => object
                .status
                .as_ref()
                .map(|status| status.failure_domains.clone())
                .unwrap_or_default(),
        };
        failure_domains.sort_by(|one, other| one.name.cmp(&other.name));
        // The API server refuses a list that has a name twice.
        failure_domains.dedup_by(|next, one| next.name == one.name);
        Self {
            location,
            failure_domains,
        }
    }

    /// The region of a zone, if the failure domain names one.
    pub(crate) fn region(&self, zone: &str) -> Option<String> {
        let domain = self.failure_domains.iter().find(|domain| domain.name == zone)?;
        domain
            .attributes
            .get(REGION_ATTRIBUTE)
            .filter(|region| !region.is_empty())
            .cloned()
    }

    /// The region of the cluster's load balancer: that of all failure domains for control planes, if they are in one region.
    pub(crate) fn load_balancer_region(&self) -> Option<String> {
        let for_control_planes = self
            .failure_domains
            .iter()
            .filter(|domain| domain.control_plane == Some(true));
        let mut regions = for_control_planes.map(|domain| self.region(&domain.name));
        let first = regions.next()?;
        regions.all(|region| region == first).then_some(first).flatten()
    }

    /// The name of the cloud for the cluster's machines. Every namespace has the default one: a SimulatedCloud of
    /// that name, or else the built-in one. So machines that were made before the SimulatedCloud count for its quotas.
    pub(crate) fn cloud_spec(&self) -> &str {
        match &self.location {
            Location::BuiltIn => DEFAULT_NAME,
            Location::Cloud(cloud) => cloud.metadata.name.as_deref().unwrap_or_default(),
            Location::Missing(name) => name,
        }
    }
}

/// The zones of a SimulatedCloud as failure domains, each with its region.
fn zones(cloud: &SimulatedCloud) -> Vec<FailureDomain> {
    let zones = cloud.spec.zones().map(|(region, zone)| FailureDomain {
        name: zone.name.clone(),
        control_plane: Some(zone.control_plane.unwrap_or(true)),
        attributes: BTreeMap::from([(REGION_ATTRIBUTE.to_owned(), region.name.clone())]),
    });
    zones.collect()
}

/// The offer to each cluster. Only the cluster reconciler writes it. It has no more entries than there are clusters.
#[derive(Default)]
pub(crate) struct ResolvedClouds(Mutex<BTreeMap<ClusterId, Arc<ResolvedCloud>>>);

impl ResolvedClouds {
    /// The offer to a cluster; none before the cluster was reconciled.
    pub(crate) fn of(&self, id: &ClusterId) -> Option<Arc<ResolvedCloud>> {
        self.0.lock().get(id).cloned()
    }

    /// Stores the offer to a cluster; returns whether it changed.
    pub(crate) fn note(&self, id: &ClusterId, resolved_cloud: &Arc<ResolvedCloud>) -> bool {
        let mut resolved_clouds = self.0.lock();
        let known = resolved_clouds.insert(id.clone(), Arc::clone(resolved_cloud));
        known.is_none_or(|known| known != *resolved_cloud)
    }

    /// Removes the offer to a cluster that is gone.
    pub(crate) fn forget(&self, id: &ClusterId) {
        self.0.lock().remove(id);
    }
}

#[cfg(test)]
mod tests;
