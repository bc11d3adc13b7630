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
//! A spec that is the same in both versions is not read: a text in it that got past its schema stays as it is.
//!
//! `failureReason` and `failureMessage` of the old version do not exist in the new one, and are in the annotation
//! while the object has a status.

mod object;
mod parts;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use thiserror::Error;

use self::parts::Part;
use super::{GROUP, v1beta1, v1beta2};

/// Why an object cannot be converted to another version.
#[derive(Debug, Error)]
pub enum ConversionError {
    /// There is no conversion for the object's kind and versions.
    #[error("failed to convert {kind:?} of {api_version:?} to {wanted:?}: no such conversion")]
    Unknown {
        kind: String,
        api_version: String,
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
    let kind = text("kind");
    let api_version = text("apiVersion");
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
        "InMemoryMachine" => {
            with_spec_as_it_is::<v1beta1::InMemoryMachineStatus, v1beta2::InMemoryMachineStatus>
        }
        "InMemoryMachinePool" => {
            with_spec_as_it_is::<v1beta1::InMemoryMachinePoolStatus, v1beta2::InMemoryMachinePoolStatus>
        }
        // Nothing differs in these kinds.
        "InMemoryMachineTemplate" | "InMemoryMachinePoolTemplate" => renamed,
        _ => return Err(unknown()),
    };
    if from == to {
        Ok(object)
    } else {
        convert(object, to)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1Beta1,
    V1Beta2,
}

impl Version {
    fn name(self) -> &'static str {
        match self {
            Self::V1Beta1 => v1beta1::VERSION,
            Self::V1Beta2 => v1beta2::VERSION,
        }
    }
}

fn version_of(api_version: &str) -> Option<Version> {
    match api_version.strip_prefix(GROUP)?.strip_prefix('/')? {
        v1beta1::VERSION => Some(Version::V1Beta1),
        v1beta2::VERSION => Some(Version::V1Beta2),
        _ => None,
    }
}

fn read<T: DeserializeOwned>(object: Value) -> Result<T, ConversionError> {
    serde_json::from_value(object).map_err(ConversionError::Read)
}

/// Converts an object of a kind that is `Old` in `v1beta1` and `New` in `v1beta2` to the other version.
fn one<Old, New>(object: Value, to: Version) -> Result<Value, ConversionError>
where
    Old: From<New> + Serialize + DeserializeOwned,
    New: From<Old> + Serialize + DeserializeOwned,
{
    Ok(match to {
        Version::V1Beta1 => json(Old::from(read::<New>(object)?)),
        Version::V1Beta2 => json(New::from(read::<Old>(object)?)),
    })
}

fn json(value: impl Serialize) -> Value {
    serde_json::to_value(value).expect("a part of an object of the API is JSON")
}

/// Converts an object of a kind whose spec is the same in both versions, and whose status is `Old` in `v1beta1` and `New` in
/// `v1beta2`.
fn with_spec_as_it_is<Old, New>(object: Value, to: Version) -> Result<Value, ConversionError>
where
    Old: Part<Other = New> + Serialize + DeserializeOwned,
    New: Part<Other = Old> + Serialize + DeserializeOwned,
{
    fn with_status<Status>(mut object: Value, from: Version, to: Version) -> Result<Value, ConversionError>
    where
        Status: Part<Other: Serialize + DeserializeOwned> + Serialize + DeserializeOwned,
    {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let metadata = read(object["metadata"].take())?;
        let status: Option<Status> = read(object["status"].take())?;
        let (metadata, (), status) = object::converted(metadata, (), status, &kind, [from.name(), to.name()]);
        object["metadata"] = json(metadata);
        object["status"] = json(status);
        renamed(object, to)
    }
    match to {
        Version::V1Beta1 => with_status::<New>(object, Version::V1Beta2, to),
        Version::V1Beta2 => with_status::<Old>(object, Version::V1Beta1, to),
    }
}

/// The object in another version from which it does not differ.
fn renamed(mut object: Value, to: Version) -> Result<Value, ConversionError> {
    object["apiVersion"] = format!("{GROUP}/{}", to.name()).into();
    if let Some(members) = object.as_object_mut() {
        members.retain(|name, value| name != "status" || !value.is_null());
    }
    Ok(object)
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
                let $from::$kind {
                    metadata,
                    spec,
                    status,
                } = object;
                let (metadata, spec, status) = object::converted(
                    metadata,
                    spec,
                    status,
                    stringify!($kind),
                    [$from::VERSION, $to::VERSION],
                );
                Self {
                    metadata,
                    spec,
                    status,
                }
            }
        }
    };
}

both_ways!(InMemoryCluster);

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

#[cfg(test)]
mod tests;
