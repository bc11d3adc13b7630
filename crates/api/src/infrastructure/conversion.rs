//! Conversion of the kinds between `v1beta1` and `v1beta2`.
//!
//! ```text
//!  v1beta1                                             v1beta2
//!  controlPlaneEndpoint {host: "", port: 0}   ◀──────▶ no controlPlaneEndpoint, no host, no port
//!  failureDomains, a map                      ◀──────▶ failureDomains, a list
//!  status.ready                               ◀──────▶ status.initialization.provisioned
//!  status.v1beta2.conditions ┬                ◀──────▶ status.conditions
//!        status.conditions ──┘ the old form of the same
//!  status.failureReason, status.failureMessage
//! ```
//!
//! Nothing is lost either way. What the other version would read back differently goes along in the annotation
//! `cluster.x-k8s.io/conversion-data`, and only then: an object whose plain way back leads to what was there carries
//! none. The annotation holds the whole spec or status of the other version, and counts part by part: a part of it is
//! used while it leads to what the object has there now. So a change through either version is seen through the other,
//! and what was not changed comes back as it was written.
//!
//! `failureReason` and `failureMessage` of the old version have no place in the new one, and are in the annotation as
//! long as the object has a status.

mod object;
mod parts;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use thiserror::Error;

use super::{GROUP, v1beta1, v1beta2};

/// Why an object cannot be had in another version.
#[derive(Debug, Error)]
pub enum ConversionError {
    /// The object says of itself that it is something else.
    #[error("failed to convert {kind:?} of {api_version:?} to {wanted:?}: no such conversion")]
    Unknown {
        /// Its kind.
        kind: String,
        /// Its version.
        api_version: String,
        /// The version that it was wanted in.
        wanted: String,
    },
    /// The object's fields are not of the types that the version has.
    #[error("failed to read the object")]
    Read(#[source] serde_json::Error),
}

impl ConversionError {
    /// A word from a fixed set, for metrics.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "UnknownVersion",
            Self::Read(_) => "Unreadable",
        }
    }
}

/// An object of the simulated infrastructure in the version `desired_api_version`, such as
/// `infrastructure.cluster.x-k8s.io/v1beta1`.
///
/// # Errors
/// When it is of no kind of ours, the version is none of its, or it cannot be read.
pub fn convert(object: Value, desired_api_version: &str) -> Result<Value, ConversionError> {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    let unknown = || ConversionError::Unknown {
        kind: kind.clone(),
        api_version: api_version.clone(),
        wanted: desired_api_version.to_owned(),
    };
    let from = version_of(&api_version).ok_or_else(unknown)?;
    let to = version_of(desired_api_version).ok_or_else(unknown)?;
    let convert = match kind.as_str() {
        "InMemoryCluster" => one::<v1beta1::InMemoryCluster, v1beta2::InMemoryCluster>,
        "InMemoryClusterTemplate" => {
            one::<v1beta1::InMemoryClusterTemplate, v1beta2::InMemoryClusterTemplate>
        }
        "InMemoryMachine" => one::<v1beta1::InMemoryMachine, v1beta2::InMemoryMachine>,
        "InMemoryMachineTemplate" => {
            one::<v1beta1::InMemoryMachineTemplate, v1beta2::InMemoryMachineTemplate>
        }
        "InMemoryMachinePool" => one::<v1beta1::InMemoryMachinePool, v1beta2::InMemoryMachinePool>,
        "InMemoryMachinePoolTemplate" => {
            one::<v1beta1::InMemoryMachinePoolTemplate, v1beta2::InMemoryMachinePoolTemplate>
        }
        _ => return Err(unknown()),
    };
    if from == to { Ok(object) } else { convert(object, to) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1Beta1,
    V1Beta2,
}

fn version_of(api_version: &str) -> Option<Version> {
    match api_version.strip_prefix(GROUP)?.strip_prefix('/')? {
        v1beta1::VERSION => Some(Version::V1Beta1),
        v1beta2::VERSION => Some(Version::V1Beta2),
        _ => None,
    }
}

/// An object of a kind that is `Old` in `v1beta1` and `New` in `v1beta2`, in the other of the two.
fn one<Old, New>(object: Value, to: Version) -> Result<Value, ConversionError>
where
    Old: From<New> + Serialize + DeserializeOwned,
    New: From<Old> + Serialize + DeserializeOwned,
{
    fn read<T: DeserializeOwned>(object: Value) -> Result<T, ConversionError> {
        serde_json::from_value(object).map_err(ConversionError::Read)
    }
    let converted = match to {
        Version::V1Beta1 => serde_json::to_value(Old::from(read::<New>(object)?)),
        Version::V1Beta2 => serde_json::to_value(New::from(read::<Old>(object)?)),
    };
    Ok(converted.expect("an object of the API is JSON"))
}

/// Both ways, for a kind.
macro_rules! both_ways {
    ($kind:ident) => {
        both_ways!($kind, v1beta1, v1beta2);
        both_ways!($kind, v1beta2, v1beta1);
    };
    ($kind:ident, $from:ident, $to:ident) => {
        impl From<$from::$kind> for $to::$kind {
            fn from(object: $from::$kind) -> Self {
                let $from::$kind { metadata, spec, status } = object;
                let (metadata, spec, status) = object::converted(
                    metadata,
                    spec,
                    status,
                    stringify!($kind),
                    [$from::VERSION, $to::VERSION],
                );
                Self { metadata, spec, status }
            }
        }
    };
}

both_ways!(InMemoryCluster);
both_ways!(InMemoryMachine);
both_ways!(InMemoryMachinePool);

/// The same for a kind without a status.
macro_rules! both_ways_without_status {
    ($kind:ident) => {
        both_ways_without_status!($kind, v1beta1, v1beta2);
        both_ways_without_status!($kind, v1beta2, v1beta1);
    };
    ($kind:ident, $from:ident, $to:ident) => {
        impl From<$from::$kind> for $to::$kind {
            fn from(object: $from::$kind) -> Self {
                let $from::$kind { metadata, spec } = object;
                let versions = [$from::VERSION, $to::VERSION];
                let (metadata, spec, _) =
                    object::converted(metadata, spec, None::<()>, stringify!($kind), versions);
                Self { metadata, spec }
            }
        }
    };
}

both_ways_without_status!(InMemoryClusterTemplate);

/// Templates of machines and of pools are the same in both versions.
macro_rules! renamed {
    ($kind:ident, $spec:ident, $resource:ident) => {
        renamed!($kind, $spec, $resource, v1beta1, v1beta2);
        renamed!($kind, $spec, $resource, v1beta2, v1beta1);
    };
    ($kind:ident, $spec:ident, $resource:ident, $from:ident, $to:ident) => {
        impl From<$from::$kind> for $to::$kind {
            fn from(object: $from::$kind) -> Self {
                let $from::$kind { metadata, spec, status } = object;
                let $from::$resource { metadata: labels, spec } = spec.template;
                let template = $to::$resource { metadata: labels, spec: parts::Part::plainly(&spec) };
                Self { metadata, spec: $to::$spec { template }, status }
            }
        }
    };
}

renamed!(InMemoryMachineTemplate, InMemoryMachineTemplateSpec, InMemoryMachineTemplateResource);
renamed!(InMemoryMachinePoolTemplate, InMemoryMachinePoolTemplateSpec, InMemoryMachinePoolTemplateResource);

#[cfg(test)]
mod tests;
