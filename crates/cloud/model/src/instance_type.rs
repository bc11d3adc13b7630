//! Instance types: the sizes of machines, and their prices.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::{market::Market, name_patterns::NAME_PATTERN, written::Amount};

/// A decimal number from 0 to less than a million.
const PRICE_PATTERN: &str = r"^(0|[1-9][0-9]{0,5})(\.[0-9]{1,6})?$";
/// The first price that is too high, in millionths.
const PRICE_END: u64 = 1_000_000 * 1_000_000;
/// A quantity of bytes greater than zero.
const BYTES_PATTERN: &str = "^[1-9][0-9]{0,11}(Ki|Mi|Gi|Ti|k|M|G|T)?$";

/// The size of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["name", "cpu", "memory"]))]
pub struct InstanceType {
    /// Its name: the label node.kubernetes.io/instance-type of Nodes.
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME_PATTERN))]
    pub name: String,
    /// Processors.
    #[schemars(with = "i32", range(min = 1, max = 4096))]
    pub cpu: u32,
    /// Memory in bytes, such as 8Gi.
    #[schemars(length(min = 1, max = 16), regex(pattern = BYTES_PATTERN))]
    pub memory: String,
    /// Space for images, logs and scratch data in bytes; by default 40Gi.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 16), regex(pattern = BYTES_PATTERN))]
    pub ephemeral_storage: String,
    /// How many pods fit; by default 110.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i32>", range(min = 1, max = 1024))]
    pub pods: Option<u32>,
    /// Processor architecture; by default amd64.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["amd64", "arm64", "s390x", "ppc64le"]))]
    pub architecture: String,
    /// Graphics processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Gpu>,
    /// What a machine costs in an hour of the cloud's time, such as 0.096, in any currency; by default nothing. A changed
    /// price is for the time after the change.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "price")]
    #[schemars(with = "String", length(min = 1, max = 13), regex(pattern = PRICE_PATTERN))]
    pub price: Option<Amount>,
    /// What a machine of the market Spot costs; by default nothing.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "price")]
    #[schemars(with = "String", length(min = 1, max = 13), regex(pattern = PRICE_PATTERN))]
    pub spot_price: Option<Amount>,
}

/// A price, which is below a million.
fn price<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Amount>, D::Error> {
    let price = Option::<Amount>::deserialize(deserializer)?;
    match &price {
        Some(high) if high.millionths() >= PRICE_END => Err(de::Error::custom(format_args!(
            "{:?} is not below 1000000",
            high.as_str()
        ))),
        _ => Ok(price),
    }
}

/// Graphics processors of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["count"]))]
pub struct Gpu {
    /// How many.
    #[schemars(with = "i32", range(min = 1, max = 64))]
    pub count: u32,
    /// The name of the resource that pods request; by default nvidia.com/gpu.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(
        length(min = 3, max = 128),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
    )]
    pub resource: String,
}

impl InstanceType {
    /// The capacity for pods of a machine of this type, as quantities by resource name.
    #[must_use]
    pub fn capacity(&self) -> BTreeMap<String, String> {
        let Self {
            cpu,
            memory,
            ephemeral_storage,
            pods,
            gpu,
            ..
        } = self;
        let storage = if ephemeral_storage.is_empty() {
            "40Gi"
        } else {
            ephemeral_storage
        };
        let mut capacity = BTreeMap::from([
            ("cpu".to_owned(), cpu.to_string()),
            ("memory".to_owned(), memory.clone()),
            ("ephemeral-storage".to_owned(), storage.to_owned()),
            ("pods".to_owned(), pods.unwrap_or(110).to_string()),
        ]);
        if let Some(Gpu { count, resource }) = gpu {
            let resource = if resource.is_empty() {
                "nvidia.com/gpu"
            } else {
                resource
            };
            capacity.insert(resource.to_owned(), count.to_string());
        }
        capacity
    }

    /// Its processor architecture.
    #[must_use]
    pub fn architecture(&self) -> &str {
        if self.architecture.is_empty() {
            "amd64"
        } else {
            &self.architecture
        }
    }

    /// What a machine of a market costs in an hour of the cloud's time, in millionths.
    #[must_use]
    pub fn price(&self, market: Market) -> u64 {
        let price = match market {
            Market::OnDemand => &self.price,
            Market::Spot => &self.spot_price,
        };
        price.as_ref().map(Amount::millionths).unwrap_or_default()
    }
}
