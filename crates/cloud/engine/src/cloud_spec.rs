//! The instance types and images that instances are made from.

use std::collections::BTreeMap;

use nephele_model::{Capacity, CloudError, Image, InstanceType, Quota, Quotas, ResourceId, StageName, Stock};
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
    /// How much may be made of it at a time; a resource counts until its deletion ends. A changed limit holds at once
    /// for what is created from then on.
    #[serde(default)]
    pub quotas: Quotas,
    /// How many instances there are of an instance type, in a zone. An instance has to fit into each entry that covers
    /// it. If two entries cover the same, the first one counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stock: Vec<Stock>,
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
            quotas: _,
            stock: _,
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
            hardware.capacity = found.capacity();
            found.architecture().clone_into(&mut hardware.architecture);
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
                    known: found.kubernetes.clone(),
                });
            }
            found
                .operating_system()
                .clone_into(&mut hardware.operating_system);
        }
        Ok(hardware)
    }

    /// How many instances there are of an instance type, in a zone. None for any number.
    pub(crate) fn stock(&self, instance_type: Option<&str>, zone: Option<&str>) -> Option<u32> {
        let found = self
            .stock
            .iter()
            .find(|entry| entry.of() == (instance_type, zone));
        found.map(|entry| entry.count)
    }

    /// The rooms that have a limit, in order, in a cloud of this id.
    pub(crate) fn capacities(&self, id: &ResourceId) -> impl Iterator<Item = (Capacity, u32)> {
        let quotas = Quota::ALL.into_iter().filter_map(|of| {
            let cloud_spec = id.clone();
            Some((Capacity::CloudQuota { cloud_spec, of }, self.quotas.limit(of)?))
        });
        let is_first = |(index, entry): &(usize, &Stock)| {
            self.stock[..*index]
                .iter()
                .all(|earlier| earlier.of() != entry.of())
        };
        let stock = self.stock.iter().enumerate().filter(is_first).map(|(_, entry)| {
            let (instance_type, zone) = entry.of();
            let capacity = Capacity::Stock {
                cloud_spec: id.clone(),
                instance_type: instance_type.map(str::to_owned),
                zone: zone.map(str::to_owned),
            };
            (capacity, entry.count)
        });
        quotas.chain(stock)
    }
}
