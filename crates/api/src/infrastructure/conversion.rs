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
//! No conversion loses data. When a plain conversion and back would change the object, the annotation
//! `cluster.x-k8s.io/conversion-data` holds the whole spec or status of the other version; other objects have no
//! annotation. Each part of the annotation is used only while it converts to the part that the object has now. So a
//! change in one version is visible in the other, and unchanged parts stay as they were written.
//!
//! `failureReason` and `failureMessage` of the old version do not exist in the new one, and are in the annotation
//! while the object has a status.

mod object;
mod parts;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use thiserror::Error;

use super::{GROUP, v1beta1, v1beta2};

/// Why an object cannot be converted to another version.
#[derive(Debug, Error)]
pub enum ConversionError {
    /// There is no conversion for the object's kind and versions.
    #[error("failed to convert {kind:?} of {api_version:?} to {wanted:?}: no such conversion")]
    Unknown {
        /// Its kind.
        kind: String,
        /// Its version.
        api_version: String,
        /// The wanted version.
        wanted: String,
    },
    /// The object's fields do not have the types of its version.
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

/// Converts an object of the simulated infrastructure to the version `desired_api_version`, such as
/// `infrastructure.cluster.x-k8s.io/v1beta1`.
///
/// # Errors
/// When it is not of one of our kinds, its kind does not have the version, or it cannot be read.
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

/// Converts an object of a kind that is `Old` in `v1beta1` and `New` in `v1beta2` to the other version.
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

/// Both conversions for a kind.
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
