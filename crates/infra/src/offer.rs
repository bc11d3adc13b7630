//! Where a cluster lies, and what a SimulatedCloud says in the words of the cloud. What there is to make machines from, the
//! cloud decides. Pure but for the ledger, by which machines learn where their cluster lies.

use std::collections::BTreeMap;
use std::sync::Arc;

use nephele_api::cloud::DEFAULT_NAME;
use nephele_api::cloud::v1alpha1::{self, SimulatedCloud, SimulatedCloudSpec};
use nephele_api::infrastructure::v1beta2::{FailureDomain, InMemoryCluster};
use nephele_cloud::{Catalog, CloudError, ClusterId, Image, InstanceType, Model};
use parking_lot::Mutex;

/// On a failure domain: the region that it is in.
const REGION_ATTRIBUTE: &str = "region";

/// The cloud that a cluster lies in.
#[derive(Clone, Debug, Default)]
pub(crate) enum Place {
    /// It has none: there is what is built in.
    #[default]
    BuiltIn,
    /// This one.
    Cloud(Arc<SimulatedCloud>),
    /// The one of this name, which is not there.
    Missing(String),
}

impl PartialEq for Place {
    /// A status makes no other cloud of it.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::BuiltIn, Self::BuiltIn) => true,
            (Self::Cloud(one), Self::Cloud(other)) => one.spec == other.spec,
            (Self::Missing(one), Self::Missing(other)) => one == other,
            (Self::BuiltIn | Self::Cloud(_) | Self::Missing(_), _) => false,
        }
    }
}

impl Place {
    /// Where a cluster lies, as far as it says so: in the cloud `found` of the name that [`cloud_name`] gives.
    pub(crate) fn of(object: &InMemoryCluster, found: Option<Arc<SimulatedCloud>>) -> Self {
        match (found, &object.spec.cloud_ref) {
            (Some(cloud), _) => Self::Cloud(cloud),
            (None, Some(reference)) => Self::Missing(reference.name.clone()),
            (None, None) => Self::BuiltIn,
        }
    }
}

/// The name of the SimulatedCloud that a cluster lies in, if there is one of that name.
pub(crate) fn cloud_name(object: &InMemoryCluster) -> &str {
    object.spec.cloud_ref.as_ref().map_or(DEFAULT_NAME, |reference| &reference.name)
}

/// What there is for a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Offer {
    pub(crate) place: Place,
    /// Where its machines can be placed, in the order of their names; anywhere when there is none.
    pub(crate) failure_domains: Vec<FailureDomain>,
}

/// Says that a cloud is not there.
pub(crate) fn missing_message(name: &str) -> String {
    format!("The SimulatedCloud {name} is not there")
}

/// What a user reads of what the cloud does not have.
pub(crate) fn message(error: &CloudError) -> String {
    if let CloudError::UnknownCatalog(name) = error {
        return missing_message(name);
    }
    let text = error.to_string();
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// What a machine is to be made from; what is empty is nothing in particular.
pub(crate) fn model(instance_type: &str, image: &str, version: &str) -> Model {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Model { instance_type: text(instance_type), image: text(image), version: text(version) }
}

/// What machines can be made from in clusters that lie in no SimulatedCloud.
#[must_use]
pub fn built_in_catalog() -> Catalog {
    catalog(&SimulatedCloudSpec::default())
}

/// What machines can be made from in a cloud.
pub(crate) fn catalog(cloud: &SimulatedCloudSpec) -> Catalog {
    let instance_type = |known: &v1alpha1::InstanceType| InstanceType {
        name: known.name.clone(),
        architecture: known.architecture().to_owned(),
        capacity: known.capacity(),
    };
    let image = |known: &v1alpha1::Image| Image {
        name: known.name.clone(),
        operating_system: known.operating_system().to_owned(),
        versions: known.kubernetes.clone(),
    };
    Catalog {
        instance_types: cloud.instance_types().iter().map(instance_type).collect(),
        images: cloud.images.iter().map(image).collect(),
    }
}

impl Offer {
    /// What there is for a cluster at this place.
    pub(crate) fn new(object: &InMemoryCluster, place: Place) -> Self {
        let own = &object.spec.failure_domains;
        let mut failure_domains = match &place {
            _ if !own.is_empty() => own.clone(),
            Place::BuiltIn => Vec::new(),
            Place::Cloud(cloud) => zones(cloud),
            // Nobody knows better until it is back.
            Place::Missing(_) => {
                object.status.as_ref().map(|status| status.failure_domains.clone()).unwrap_or_default()
            }
        };
        failure_domains.sort_by(|one, other| one.name.cmp(&other.name));
        // A list with a name in it twice would be refused.
        failure_domains.dedup_by(|next, one| next.name == one.name);
        Self { place, failure_domains }
    }

    /// The region of a zone, as far as anybody says so.
    pub(crate) fn region(&self, zone: &str) -> Option<String> {
        let domain = self.failure_domains.iter().find(|domain| domain.name == zone)?;
        domain.attributes.get(REGION_ATTRIBUTE).filter(|region| !region.is_empty()).cloned()
    }

    /// The catalog that machines of the cluster are made from. What is built in has no name.
    pub(crate) fn catalog(&self) -> &str {
        match &self.place {
            Place::BuiltIn => "",
            Place::Cloud(cloud) => cloud.metadata.name.as_deref().unwrap_or_default(),
            Place::Missing(name) => name,
        }
    }
}

/// The zones of a cloud as failure domains, each with its region.
fn zones(cloud: &SimulatedCloud) -> Vec<FailureDomain> {
    let zones = cloud.spec.zones().map(|(region, zone)| FailureDomain {
        name: zone.name.clone(),
        control_plane: Some(zone.control_plane.unwrap_or(true)),
        attributes: BTreeMap::from([(REGION_ATTRIBUTE.to_owned(), region.name.clone())]),
    });
    zones.collect()
}

/// What there is for each cluster. Written by the cluster reconciler alone, and no longer than the clusters that are
/// there.
#[derive(Default)]
pub(crate) struct Offers(Mutex<BTreeMap<ClusterId, Arc<Offer>>>);

impl Offers {
    /// What there is for a cluster; none before its reconciler has said so.
    pub(crate) fn of(&self, id: &ClusterId) -> Option<Arc<Offer>> {
        self.0.lock().get(id).cloned()
    }

    /// Takes note of what there is for a cluster, and tells whether that is news.
    pub(crate) fn note(&self, id: &ClusterId, offer: &Arc<Offer>) -> bool {
        let mut offers = self.0.lock();
        let known = offers.insert(id.clone(), Arc::clone(offer));
        known.is_none_or(|known| known != *offer)
    }

    /// The cluster is gone.
    pub(crate) fn forget(&self, id: &ClusterId) {
        self.0.lock().remove(id);
    }
}

#[cfg(test)]
mod tests;
