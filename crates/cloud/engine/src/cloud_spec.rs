//! The instance types and images that instances are made from.

use std::collections::BTreeMap;

use nephele_model::{Capacity, CloudError, Quota, ResourceId, StageName};
use serde::{Deserialize, Serialize};

use crate::{api_limits::ApiLimits, clock::ClockSetting, latency::Latency, seed::Seed};

/// The spec of a cloud: which instance types and images there are, and how much may be made of it. A namespace may have several;
/// an instance is made from one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloudSpec {
    /// Instance types, in the order in which an error lists them. If the list is empty, any type is accepted.
    pub instance_types: Vec<InstanceType>,
    /// Images, in the order in which an error lists them. If the list is empty, any image is accepted.
    pub images: Vec<Image>,
    /// How much may be made of it. A changed limit holds at once for what is created from then on.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// The key of the draws of what is made from it. None for that of the cloud. A changed seed holds for draws from
    /// then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// How long the stages and the deletion of its instances take, unless their specification says so.
    #[serde(default, skip_serializing_if = "Latencies::is_none")]
    pub latencies: Latencies,
    /// How fast time passes for its instances.
    #[serde(default, skip_serializing_if = "ClockSetting::is_default")]
    pub clock: ClockSetting,
    /// How often it may be called, and how soon reads show what was created. Changed limits hold at once.
    #[serde(default, skip_serializing_if = "ApiLimits::is_none")]
    pub api: ApiLimits,
}

/// How long the parts of an instance's life take. Changed latencies hold for what begins from then on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Latencies {
    /// How long each stage takes. A stage that is missing takes no time.
    pub stages: BTreeMap<StageName, Latency>,
    /// How long a deletion takes. None for no time.
    pub deletion: Option<Latency>,
}

impl Latencies {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// How much may be made of a cloud at a time; none means any amount. A resource counts until its deletion ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    pub instances: Option<u32>,
    /// Processors of all instances together.
    pub processors: Option<u32>,
    pub load_balancers: Option<u32>,
    /// How many instances there are of an instance type, in a zone. An instance has to fit into each entry that
    /// covers it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stock: Vec<Stock>,
}

/// How many instances there are of an instance type, in a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stock {
    /// The instance type. None for all instances together.
    pub instance_type: Option<String>,
    /// The zone. None for all zones together.
    pub zone: Option<String>,
    pub count: u32,
}

impl Limits {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn quota(&self, of: Quota) -> Option<u32> {
        match of {
            Quota::Instances => self.instances,
            Quota::Processors => self.processors,
            Quota::LoadBalancers => self.load_balancers,
        }
    }

    /// The rooms that have a limit, in order.
    pub(crate) fn capacities(&self, cloud_spec: &ResourceId) -> impl Iterator<Item = (Capacity, u32)> {
        let quotas = Quota::ALL
            .into_iter()
            .filter_map(|of| Some((of, self.quota(of)?)));
        let quotas = quotas.map(|(of, limit)| {
            (
                Capacity::CloudQuota {
                    cloud_spec: cloud_spec.clone(),
                    of,
                },
                limit,
            )
        });
        let is_first = |index: &usize| {
            let of = |stock: &Stock| (stock.instance_type.clone(), stock.zone.clone());
            self.stock[..*index]
                .iter()
                .all(|earlier| of(earlier) != of(&self.stock[*index]))
        };
        quotas.chain((0..self.stock.len()).filter(is_first).map(|index| {
            let Stock {
                instance_type,
                zone,
                count,
            } = self.stock[index].clone();
            (
                Capacity::Stock {
                    cloud_spec: cloud_spec.clone(),
                    instance_type,
                    zone,
                },
                count,
            )
        }))
    }

    /// How many instances there are. If two entries are about the same, the first one counts.
    pub(crate) fn stock(&self, instance_type: Option<&String>, zone: Option<&String>) -> Option<u32> {
        let is_meant =
            |stock: &&Stock| (stock.instance_type.as_ref(), stock.zone.as_ref()) == (instance_type, zone);
        self.stock.iter().find(is_meant).map(|stock| stock.count)
    }
}

/// The size of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceType {
    /// The name, unique among the types.
    pub name: String,
    /// Processor architecture, such as `amd64`.
    pub architecture: String,
    pub capacity: BTreeMap<String, String>,
    /// What an instance costs. A changed price is for the time after the change.
    #[serde(default, skip_serializing_if = "Price::is_nothing")]
    pub price: Price,
}

/// What an instance costs in an hour of the time of its cloud, in millionths of a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    pub on_demand: u64,
    /// The price of an instance that the cloud may take back.
    pub spot: u64,
}

impl Price {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// The image that an instance boots from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The name, unique among the images.
    pub name: String,
    /// Operating system, such as `linux`.
    pub operating_system: String,
    /// The Kubernetes minor versions in the image, such as `1.36`.
    pub versions: Vec<String>,
}

/// The instance type, image and version that are requested for an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// The instance type. None if the caller does not choose one.
    pub instance_type: Option<String>,
    /// The image. None if the caller does not choose one.
    pub image: Option<String>,
    /// The Kubernetes version that the image must have, such as `v1.36.3`. None if any version will do.
    pub version: Option<String>,
}

/// The hardware and operating system of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hardware {
    /// Processor architecture, such as `amd64`.
    pub architecture: String,
    /// Operating system, such as `linux`.
    pub operating_system: String,
    pub capacity: BTreeMap<String, String>,
}

impl Default for Hardware {
    /// The hardware of an instance without an instance type or image: the minimum that kubeadm requires, with a little
    /// more memory.
    fn default() -> Self {
        let capacity = [
            ("cpu", "2"),
            ("memory", "4Gi"),
            ("ephemeral-storage", "40Gi"),
            ("pods", "110"),
        ];
        Self {
            architecture: "amd64".to_owned(),
            operating_system: "linux".to_owned(),
            capacity: capacity
                .map(|(name, quantity)| (name.to_owned(), quantity.to_owned()))
                .into(),
        }
    }
}

impl Hardware {
    /// The processors. A quantity that is not a whole number counts as none.
    #[must_use]
    pub fn processors(&self) -> u32 {
        self.capacity
            .get("cpu")
            .and_then(|cpu| cpu.parse().ok())
            .unwrap_or(0)
    }
}

impl CloudSpec {
    /// The name of the cloud that every namespace has: the built-in one, unless the namespace has put one of this name.
    /// A namespace that puts it later finds the instances in it that it made before.
    pub const DEFAULT: &str = "default";

    /// The hardware of an instance that is made from a model.
    pub(crate) fn hardware(&self, model: &Model) -> Result<Hardware, CloudError> {
        let Self {
            instance_types,
            images,
            limits: _,
            seed: _,
            latencies: _,
            clock: _,
            api: _,
        } = self;
        let mut hardware = Hardware::default();
        if let Some(wanted) = model
            .instance_type
            .as_ref()
            .filter(|_| !instance_types.is_empty())
        {
            let Some(found) = instance_types.iter().find(|known| known.name == *wanted) else {
                let known = instance_types.iter().map(|known| known.name.clone()).collect();
                return Err(CloudError::UnknownInstanceType {
                    wanted: wanted.clone(),
                    known,
                });
            };
            hardware.capacity.clone_from(&found.capacity);
            hardware.architecture.clone_from(&found.architecture);
        }
        if let Some(wanted) = model.image.as_ref().filter(|_| !images.is_empty()) {
            let Some(found) = images.iter().find(|known| known.name == *wanted) else {
                let known = images.iter().map(|known| known.name.clone()).collect();
                return Err(CloudError::UnknownImage {
                    wanted: wanted.clone(),
                    known,
                });
            };
            if let Some(version) = model.version.as_ref().filter(|version| !found.has(version)) {
                return Err(CloudError::UnsupportedVersion {
                    wanted: version.clone(),
                    image: wanted.clone(),
                    known: found.versions.clone(),
                });
            }
            hardware.operating_system.clone_from(&found.operating_system);
        }
        Ok(hardware)
    }
}

impl Image {
    /// Whether the image has the minor version of a version such as `v1.36.3`.
    fn has(&self, version: &str) -> bool {
        let mut parts = version.trim_start_matches('v').split('.');
        let minor = format!(
            "{}.{}",
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default()
        );
        self.versions.contains(&minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_the_patch_releases_of_its_minor_versions() {
        let versions = vec!["1.35".into(), "1.3".into()];
        let image = Image {
            name: String::new(),
            operating_system: String::new(),
            versions,
        };
        let known =
            ["v1.35.4", "1.35.0", "v1.3.9", "v1.36.3", "v1.30.1", "", "v1"].map(|version| image.has(version));
        assert_eq!(known, [true, true, true, false, false, false, false]);
    }
}
