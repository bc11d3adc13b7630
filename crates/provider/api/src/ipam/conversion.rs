//! Conversion of IP pools between `v1alpha1` and `v1alpha2`.
//!
//! ```text
//!  v1alpha1: addresses, subnet, start, end, prefix, gateway ──up──▶ v1alpha2: addresses, prefix, gateway,
//!                                                           ◀─down─   excluded, reserved, grace period
//! ```
//!
//! No conversion loses data. Data for which the other version has no field is in the annotation
//! `cluster.x-k8s.io/conversion-data`. The annotation is written only when a plain conversion and back would change the
//! pool. So a pool that uses only fields of both versions has no annotation.
//!
//! On a pool of `v1alpha2` the annotation holds the spec that a user of `v1alpha1` wrote, in the format of the
//! in-cluster IPAM provider. It is used only while it still converts to the pool's addresses, prefix and gateway. On a
//! pool of `v1alpha1` it holds the fields that only `v1alpha2` has: they survive a client that reads and writes the old
//! version.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use thiserror::Error;

use super::{GROUP, PoolKind, annotations::CONVERSION_DATA, v1alpha1, v1alpha2};

/// Why an object cannot be converted to another version.
#[derive(Debug, Error)]
pub enum ConversionError {
    /// The subnet of a pool is invalid.
    #[error("spec.subnet: Invalid value: {value:?}: {reason}")]
    Subnet { value: String, reason: &'static str },
    /// There is no conversion for the object's kind and versions.
    #[error("failed to convert {kind:?} of {api_version:?} to {wanted:?}: no such conversion")]
    Unknown {
        kind: String,
        api_version: String,
        wanted: String,
    },
    /// The object's fields do not have the types of its version.
    #[error("failed to read the pool")]
    Read(#[source] serde_json::Error),
}

impl ConversionError {
    /// A word from a fixed set, for metrics.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Subnet { .. } => "InvalidSubnet",
            Self::Unknown { .. } => "UnknownVersion",
            Self::Read(_) => "Unreadable",
        }
    }
}

/// Converts an IP pool to the version `desired_api_version`, such as `ipam.cluster.x-k8s.io/v1alpha2`.
///
/// # Errors
/// When it is not an IP pool, its kind does not have the version, or it cannot be read.
pub fn convert(object: Value, desired_api_version: &str) -> Result<Value, ConversionError> {
    const GLOBAL: &str = PoolKind::GlobalInClusterIPPool.as_str();
    const LOCAL: &str = PoolKind::InClusterIPPool.as_str();
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let kind = text("kind");
    let api_version = text("apiVersion");
    match (
        kind.as_str(),
        version_of(&api_version),
        version_of(desired_api_version),
    ) {
        (LOCAL | GLOBAL, Some(from), Some(to)) if from == to => Ok(object),
        (LOCAL, Some(Version::V1Alpha1), Some(_)) => {
            try_into::<v1alpha1::InClusterIPPool, v1alpha2::InClusterIPPool>(object)
        }
        (LOCAL, Some(Version::V1Alpha2), Some(_)) => {
            try_into::<v1alpha2::InClusterIPPool, v1alpha1::InClusterIPPool>(object)
        }
        (GLOBAL, Some(Version::V1Alpha1), Some(_)) => {
            try_into::<v1alpha1::GlobalInClusterIPPool, v1alpha2::GlobalInClusterIPPool>(object)
        }
        (GLOBAL, Some(Version::V1Alpha2), Some(_)) => {
            try_into::<v1alpha2::GlobalInClusterIPPool, v1alpha1::GlobalInClusterIPPool>(object)
        }
        _ => Err(ConversionError::Unknown {
            kind,
            api_version,
            wanted: desired_api_version.to_owned(),
        }),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1Alpha1,
    V1Alpha2,
}

fn version_of(api_version: &str) -> Option<Version> {
    match api_version.strip_prefix(GROUP)?.strip_prefix('/')? {
        v1alpha1::VERSION => Some(Version::V1Alpha1),
        v1alpha2::VERSION => Some(Version::V1Alpha2),
        _ => None,
    }
}

fn try_into<From, To>(object: Value) -> Result<Value, ConversionError>
where
    From: DeserializeOwned,
    To: TryFrom<From> + Serialize,
    ConversionError: std::convert::From<To::Error>,
{
    let from: From = serde_json::from_value(object).map_err(ConversionError::Read)?;
    let to = To::try_from(from)?;
    Ok(serde_json::to_value(to).expect("a pool is JSON"))
}

impl From<std::convert::Infallible> for ConversionError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

macro_rules! both_ways {
    ($kind:ident) => {
        impl TryFrom<v1alpha1::$kind> for v1alpha2::$kind {
            type Error = ConversionError;

            fn try_from(old: v1alpha1::$kind) -> Result<Self, ConversionError> {
                let (metadata, spec) = up(old.metadata, old.spec, stringify!($kind))?;
                Ok(Self {
                    metadata,
                    spec,
                    status: old.status,
                })
            }
        }

        impl From<v1alpha2::$kind> for v1alpha1::$kind {
            fn from(pool: v1alpha2::$kind) -> Self {
                let (metadata, spec) = down(pool.metadata, pool.spec, stringify!($kind));
                Self {
                    metadata,
                    spec,
                    status: pool.status,
                }
            }
        }
    };
}

both_ways!(InClusterIPPool);
both_ways!(GlobalInClusterIPPool);

/// The content of the annotation: the needed parts of the object in the other version.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept<Spec> {
    /// The in-cluster IPAM provider may leave it out.
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    spec: Spec,
}

impl<Spec: Serialize + DeserializeOwned> Kept<Spec> {
    /// Removes the annotation and parses it. Content that cannot be parsed is dropped.
    fn take(metadata: &mut ObjectMeta) -> Option<Self> {
        let annotations = metadata.annotations.as_mut()?;
        let text = annotations.remove(CONVERSION_DATA)?;
        if annotations.is_empty() {
            metadata.annotations = None;
        }
        serde_json::from_str(&text).ok()
    }

    fn put(version: &str, kind: &str, spec: Spec, metadata: &mut ObjectMeta) {
        let kept = Self {
            api_version: Some(format!("{GROUP}/{version}")),
            kind: Some(kind.to_owned()),
            spec,
        };
        let text = serde_json::to_string(&kept).expect("a spec is JSON");
        metadata
            .annotations
            .get_or_insert_default()
            .insert(CONVERSION_DATA.to_owned(), text);
    }

    fn is_of(&self, version: &str) -> bool {
        self.api_version
            .as_ref()
            .is_some_and(|known| known == &format!("{GROUP}/{version}"))
    }
}

/// The fields that only `v1alpha2` has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct HiddenSpec {
    #[serde(
        rename = "allocateReservedIPAddresses",
        skip_serializing_if = "std::ops::Not::not"
    )]
    allocate_reserved_ip_addresses: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    excluded_addresses: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address_reuse_grace_period_seconds: Option<i32>,
}

fn up(
    mut metadata: ObjectMeta,
    mut old: v1alpha1::InClusterIPPoolSpec,
    kind: &str,
) -> Result<(ObjectMeta, v1alpha2::InClusterIPPoolSpec), ConversionError> {
    let hidden = Kept::<HiddenSpec>::take(&mut metadata).filter(|kept| kept.is_of(v1alpha2::VERSION));
    fill_in(&mut old)?;
    let mut spec = plainly_up(&old);
    if let Some(Kept { spec: hidden, .. }) = hidden {
        spec.allocate_reserved_ip_addresses = hidden.allocate_reserved_ip_addresses;
        spec.excluded_addresses = hidden.excluded_addresses;
        spec.address_reuse_grace_period_seconds = hidden.address_reuse_grace_period_seconds;
    }
    if plainly_down(&spec) != old {
        Kept::put(v1alpha1::VERSION, kind, old, &mut metadata);
    }
    Ok((metadata, spec))
}

fn down(
    mut metadata: ObjectMeta,
    spec: v1alpha2::InClusterIPPoolSpec,
    kind: &str,
) -> (ObjectMeta, v1alpha1::InClusterIPPoolSpec) {
    let kept = Kept::<v1alpha1::InClusterIPPoolSpec>::take(&mut metadata);
    // If the spec converts to something else now, the pool was changed since, through the newer version.
    let written = kept
        .filter(|kept| kept.api_version.is_none() || kept.is_of(v1alpha1::VERSION))
        .and_then(|kept| {
            let mut old = kept.spec;
            fill_in(&mut old).ok()?;
            let same = plainly_down(&plainly_up(&old)) == plainly_down(&spec);
            same.then_some(old)
        });
    let old = written.unwrap_or_else(|| plainly_down(&spec));
    let hidden = HiddenSpec {
        allocate_reserved_ip_addresses: spec.allocate_reserved_ip_addresses,
        excluded_addresses: spec.excluded_addresses,
        address_reuse_grace_period_seconds: spec.address_reuse_grace_period_seconds,
    };
    if hidden != HiddenSpec::default() {
        Kept::put(v1alpha2::VERSION, kind, hidden, &mut metadata);
    }
    (metadata, old)
}

/// The values that follow from a subnet for fields that were left out.
fn fill_in(old: &mut v1alpha1::InClusterIPPoolSpec) -> Result<(), ConversionError> {
    if old.subnet.is_empty() {
        return Ok(());
    }
    let invalid = |reason| ConversionError::Subnet {
        value: old.subnet.clone(),
        reason,
    };
    let (first, last, length) =
        subnet(&old.subnet).ok_or_else(|| invalid("must be a subnet in CIDR notation"))?;
    if old.start.is_empty() {
        let second = beside(first, 1).ok_or_else(|| invalid("has no address after its first one"))?;
        old.start = second.to_string();
    }
    if old.end.is_empty() {
        let last_but_one = beside(last, -1).ok_or_else(|| invalid("has no address before its last one"))?;
        old.end = last_but_one.to_string();
    }
    if old.prefix == 0 {
        old.prefix = length;
    }
    Ok(())
}

/// A pool without the fields that are only in the annotation.
fn plainly_up(old: &v1alpha1::InClusterIPPoolSpec) -> v1alpha2::InClusterIPPoolSpec {
    let mut addresses = old.addresses.clone();
    if !old.start.is_empty() && !old.end.is_empty() {
        addresses.push(format!("{}-{}", old.start, old.end));
    }
    v1alpha2::InClusterIPPoolSpec {
        addresses,
        prefix: old.prefix,
        gateway: old.gateway.clone(),
        ..v1alpha2::InClusterIPPoolSpec::default()
    }
}

/// The fields that both versions have.
fn plainly_down(spec: &v1alpha2::InClusterIPPoolSpec) -> v1alpha1::InClusterIPPoolSpec {
    v1alpha1::InClusterIPPoolSpec {
        addresses: spec.addresses.clone(),
        prefix: spec.prefix,
        gateway: spec.gateway.clone(),
        ..v1alpha1::InClusterIPPoolSpec::default()
    }
}

/// The first and last address of a subnet, and the length of its prefix.
fn subnet(text: &str) -> Option<(IpAddr, IpAddr, i32)> {
    let (address, length) = text.split_once('/')?;
    let plain =
        length == "0" || (!length.starts_with('0') && length.bytes().all(|byte| byte.is_ascii_digit()));
    let length: u32 = length.parse().ok().filter(|_| plain)?;
    let (first, last): (IpAddr, IpAddr) = match address.parse().ok()? {
        IpAddr::V4(address) => {
            let hosts = u32::MAX.checked_shr(length).unwrap_or(0);
            let bits = u32::from(address);
            (length <= 32).then(|| {
                (
                    Ipv4Addr::from(bits & !hosts).into(),
                    Ipv4Addr::from(bits | hosts).into(),
                )
            })?
        }
        IpAddr::V6(address) => {
            let hosts = u128::MAX.checked_shr(length).unwrap_or(0);
            let bits = u128::from(address);
            (length <= 128).then(|| {
                (
                    Ipv6Addr::from(bits & !hosts).into(),
                    Ipv6Addr::from(bits | hosts).into(),
                )
            })?
        }
    };
    Some((first, last, i32::try_from(length).ok()?))
}

/// The address plus an offset.
fn beside(address: IpAddr, step: i8) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => u32::from(address)
            .checked_add_signed(step.into())
            .map(|bits| Ipv4Addr::from(bits).into()),
        IpAddr::V6(address) => u128::from(address)
            .checked_add_signed(step.into())
            .map(|bits| Ipv6Addr::from(bits).into()),
    }
}

#[cfg(test)]
mod tests;
