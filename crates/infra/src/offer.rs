//! What the cloud of a cluster offers to it and its machines. Pure but for the ledger, by which machines learn of it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use nephele_api::cloud::DEFAULT_NAME;
use nephele_api::cloud::v1alpha1::{SimulatedCloud, SimulatedCloudSpec, built_in_instance_types};
use nephele_api::conditions::reasons;
use nephele_api::infrastructure::v1beta2::{FailureDomain, InMemoryCluster};
use nephele_cloud::{ClusterId, Hardware};
use parking_lot::Mutex;

/// Names in a message, before the rest is counted: a cloud has up to a hundred of a sort.
const NAMES_MAX: usize = 12;
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

/// What a machine is to be made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model<'a> {
    /// Empty for none in particular.
    pub(crate) instance_type: &'a str,
    /// Empty for none in particular.
    pub(crate) image: &'a str,
    /// The Kubernetes version that the image has to have, such as `v1.36.3`; none for any.
    pub(crate) version: Option<&'a str>,
}

/// What a machine wants and its cloud does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// The cloud itself.
    Cloud(String),
    InstanceType {
        wanted: String,
        known: Vec<String>,
    },
    Image {
        wanted: String,
        known: Vec<String>,
    },
    /// The image is there, without this version.
    Version {
        wanted: String,
        image: String,
        known: Vec<String>,
    },
}

impl Unknown {
    /// The reason of the condition.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Cloud(_) => reasons::CLOUD_NOT_FOUND,
            Self::InstanceType { .. } => reasons::UNKNOWN_INSTANCE_TYPE,
            Self::Image { .. } => reasons::UNKNOWN_IMAGE,
            Self::Version { .. } => reasons::UNSUPPORTED_KUBERNETES_VERSION,
        }
    }

    /// The message of the condition.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Cloud(name) => missing_message(name),
            Self::InstanceType { wanted, known } => {
                format!("The cloud has no instance type {wanted}; it has {}", listed(known))
            }
            Self::Image { wanted, known } => {
                format!("The cloud has no image {wanted}; it has {}", listed(known))
            }
            Self::Version { wanted, image, known } => {
                format!("The image {image} has no Kubernetes {wanted}; it has {}", listed(known))
            }
        }
    }
}

/// Says that a cloud is not there.
pub(crate) fn missing_message(name: &str) -> String {
    format!("The SimulatedCloud {name} is not there")
}

fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let shown = names[..names.len() - more].join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
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

    /// What a machine consists of that is made from `model`.
    pub(crate) fn hardware(&self, model: Model<'_>) -> Result<Hardware, Unknown> {
        let cloud = match &self.place {
            Place::Missing(name) => return Err(Unknown::Cloud(name.clone())),
            Place::BuiltIn => None,
            Place::Cloud(cloud) => Some(&cloud.spec),
        };
        let mut hardware = Hardware::default();
        if !model.instance_type.is_empty() {
            let types = cloud
                .map_or_else(|| Cow::Owned(built_in_instance_types()), SimulatedCloudSpec::instance_types);
            let Some(found) = types.iter().find(|known| known.name == model.instance_type) else {
                let known = types.iter().map(|known| known.name.clone()).collect();
                return Err(Unknown::InstanceType { wanted: model.instance_type.to_owned(), known });
            };
            hardware.capacity = found.capacity();
            found.architecture().clone_into(&mut hardware.architecture);
        }
        let images = cloud.map(|cloud| cloud.images.as_slice()).unwrap_or_default();
        if !model.image.is_empty() && !images.is_empty() {
            let Some(found) = images.iter().find(|known| known.name == model.image) else {
                let known = images.iter().map(|known| known.name.clone()).collect();
                return Err(Unknown::Image { wanted: model.image.to_owned(), known });
            };
            if let Some(version) = model.version
                && !found.has(version)
            {
                let (wanted, image) = (version.to_owned(), found.name.clone());
                return Err(Unknown::Version { wanted, image, known: found.kubernetes.clone() });
            }
            found.operating_system().clone_into(&mut hardware.operating_system);
        }
        Ok(hardware)
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
