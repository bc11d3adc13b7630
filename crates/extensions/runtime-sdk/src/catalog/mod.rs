//! The catalog: the hooks that a caller or an extension knows, and the conversions between their versions.

mod conversion;
mod release;

use std::{any::TypeId, collections::BTreeMap, fmt, sync::Arc};

pub use conversion::{ConversionError, Convert};
pub use release::{Release, ReleaseError};
use schemars::{JsonSchema as _, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use crate::{
    hooks::{self, Hook, HookId, HookMeta},
    wire,
};

/// The hooks that a caller or an extension knows, each by group, version and name. Cheap to clone.
///
/// ```
/// use nephele_runtime_sdk::{catalog::Catalog, hooks::{BeforeClusterCreate, Hook}};
///
/// let catalog = Catalog::cluster_api();
/// assert_eq!(catalog.ids().count(), 17);
/// assert!(catalog.knows(&BeforeClusterCreate::id()));
/// ```
#[derive(Clone, Default)]
pub struct Catalog {
    inner: Arc<Inner>,
}

#[derive(Clone, Default)]
struct Inner {
    hooks: BTreeMap<HookId, Entry>,
    /// From the caller's version to the extension's.
    conversions: BTreeMap<(HookId, HookId), Erased>,
}

/// A hook in a catalog.
#[derive(Clone)]
pub struct Entry {
    /// What the hook is for.
    pub meta: HookMeta,
    /// Whether the path of the hook has no handler name.
    pub singleton: bool,
    marker: TypeId,
    request: fn(&mut SchemaGenerator) -> Schema,
    response: fn(&mut SchemaGenerator) -> Schema,
}

impl Entry {
    /// The schema of the hook's request.
    #[must_use]
    pub fn request_schema(&self, generator: &mut SchemaGenerator) -> Schema {
        (self.request)(generator)
    }

    /// The schema of the hook's response.
    #[must_use]
    pub fn response_schema(&self, generator: &mut SchemaGenerator) -> Schema {
        (self.response)(generator)
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("meta", &self.meta)
            .field("singleton", &self.singleton)
            .finish()
    }
}

type ConvertValue = Arc<dyn Fn(Value) -> Result<Value, ConversionError> + Send + Sync>;

#[derive(Clone)]
struct Erased {
    request: ConvertValue,
    response: ConvertValue,
}

/// Why a hook cannot be added to a catalog, or a message cannot be read or written.
#[derive(Debug, Error)]
pub enum CatalogError {
    /// The group is not a domain name.
    #[error("{0}: the group is not a domain name in lower case")]
    Group(Box<HookId>),
    /// The version is not a DNS label.
    #[error("{0}: the version is not a DNS label")]
    Version(Box<HookId>),
    /// The name is not in upper camel case.
    #[error("{0}: the name is not letters and digits that begin with a capital")]
    Name(Box<HookId>),
    /// Another type already has this hook or its path.
    #[error("{hook} is already taken by {taken}")]
    Taken { hook: Box<HookId>, taken: Box<HookId> },
    /// The hook is not in the catalog.
    #[error("{0} is not in the catalog")]
    Unknown(Box<HookId>),
    /// There is no conversion.
    #[error("there is no conversion between {from} and {to}")]
    NoConversion {
        /// The version to convert from.
        from: Box<HookId>,
        /// The version to convert to.
        to: Box<HookId>,
    },
    /// The conversion failed.
    #[error("failed to convert from {from} to {to}")]
    Conversion {
        /// The version to convert from.
        from: Box<HookId>,
        /// The version to convert to.
        to: Box<HookId>,
        #[source]
        source: ConversionError,
    },
    /// A request could not be written as JSON.
    #[error("failed to write the request of {hook}")]
    Write {
        hook: Box<HookId>,
        #[source]
        source: serde_json::Error,
    },
    /// A response could not be read.
    #[error("failed to read the response of {hook}")]
    Read {
        hook: Box<HookId>,
        #[source]
        source: serde_json::Error,
    },
}

impl CatalogError {
    /// A category from a fixed set, for metrics and logs.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Group(_) | Self::Version(_) | Self::Name(_) | Self::Taken { .. } => "hook",
            Self::Unknown(_) => "unknown",
            Self::NoConversion { .. } | Self::Conversion { .. } => "conversion",
            Self::Write { .. } => "write",
            Self::Read { .. } => "read",
        }
    }
}

impl Catalog {
    /// An empty catalog, for custom hooks.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// The 17 hooks of Cluster API 1.14.
    #[must_use]
    pub fn cluster_api() -> Self {
        Self::cluster_api_at(Release::LATEST)
    }

    /// The hooks of a release of Cluster API.
    #[must_use]
    pub fn cluster_api_at(release: Release) -> Self {
        let mut catalog = Self::default();
        macro_rules! add {
            ($($hook:ident,)+) => {
                $(if release.knows(<hooks::$hook as Hook>::NAME) {
                    catalog.add::<hooks::$hook>().expect("the hooks of Cluster API have names of their own");
                })+
            };
        }
        add! {
            Discovery, BeforeClusterCreate, AfterControlPlaneInitialized, BeforeClusterUpgrade,
            BeforeControlPlaneUpgrade, AfterControlPlaneUpgrade, BeforeWorkersUpgrade, AfterWorkersUpgrade,
            AfterClusterUpgrade, BeforeClusterDelete, GeneratePatches, ValidateTopology, DiscoverVariables,
            CanUpdateMachine, CanUpdateMachineSet, UpdateMachine, GenerateUpgradePlan,
        }
        catalog
    }

    /// Adds a hook. Adding it again changes nothing.
    ///
    /// # Errors
    /// When the hook's group, version or name is invalid, or another type has the same hook.
    pub fn add<H: Hook>(&mut self) -> Result<&mut Self, CatalogError> {
        let id = H::id();
        if !wire::is_dns_subdomain(&id.group) {
            return Err(CatalogError::Group(id.into()));
        }
        if !wire::is_dns_label(&id.version) {
            return Err(CatalogError::Version(id.into()));
        }
        let named = id.hook.starts_with(|first: char| first.is_ascii_uppercase())
            && id.hook.chars().all(|character| character.is_ascii_alphanumeric());
        if !named {
            return Err(CatalogError::Name(id.into()));
        }
        let marker = TypeId::of::<H>();
        let path = id.path(None);
        if let Some((taken, entry)) = self
            .inner
            .hooks
            .iter()
            .find(|(taken, _)| taken.path(None) == path)
        {
            return if entry.marker == marker {
                Ok(self)
            } else {
                Err(CatalogError::Taken {
                    hook: id.into(),
                    taken: taken.clone().into(),
                })
            };
        }
        let entry = Entry {
            meta: H::META,
            singleton: H::SINGLETON,
            marker,
            request: H::Request::json_schema,
            response: H::Response::json_schema,
        };
        Arc::make_mut(&mut self.inner).hooks.insert(id, entry);
        Ok(self)
    }

    /// Adds a conversion, so that callers with `Caller` can call extensions with `Extension`.
    ///
    /// # Errors
    /// When one of the two hooks is not in the catalog.
    pub fn add_conversion<Caller, Extension>(&mut self) -> Result<&mut Self, CatalogError>
    where
        Caller: Convert<Extension>,
        Extension: Hook,
    {
        let from = self.known(Caller::id())?;
        let to = self.known(Extension::id())?;
        let erased = Erased {
            request: Arc::new(conversion::value(Caller::request)),
            response: Arc::new(conversion::value(Caller::response)),
        };
        Arc::make_mut(&mut self.inner)
            .conversions
            .insert((from, to), erased);
        Ok(self)
    }

    /// The ids of all hooks, sorted.
    pub fn ids(&self) -> impl Iterator<Item = &HookId> {
        self.inner.hooks.keys()
    }

    /// All hooks, sorted.
    pub fn entries(&self) -> impl Iterator<Item = (&HookId, &Entry)> {
        self.inner.hooks.iter()
    }

    /// A hook.
    #[must_use]
    pub fn get(&self, id: &HookId) -> Option<&Entry> {
        self.inner.hooks.get(id)
    }

    /// Whether the catalog has a hook in the id's version.
    #[must_use]
    pub fn knows(&self, id: &HookId) -> bool {
        self.inner.hooks.contains_key(id)
    }

    /// Writes a request, with `apiVersion` and `kind`, for an extension that has the hook in the version `to`. The
    /// request is converted if its own version is another one.
    ///
    /// # Errors
    /// When a version is unknown, or the conversion is missing or fails.
    pub fn write_request<H: Hook>(&self, request: &H::Request, to: &HookId) -> Result<Vec<u8>, CatalogError> {
        let from = self.known(H::id())?;
        let to = self.known(to.clone())?;
        let kind = format!("{}Request", to.hook);
        let api_version = to.api_version();
        let written = if from == to {
            serde_json::to_vec(&Typed {
                api_version,
                kind,
                message: request,
            })
        } else {
            let conversion = self.conversion(&from, &to)?;
            let value = serde_json::to_value(request).map_err(|source| CatalogError::Write {
                hook: from.clone().into(),
                source,
            })?;
            let value = (conversion.request)(value).map_err(|source| CatalogError::Conversion {
                from: from.into(),
                to: to.clone().into(),
                source,
            })?;
            serde_json::to_vec(&Typed {
                api_version,
                kind,
                message: &value,
            })
        };
        written.map_err(|source| CatalogError::Write {
            hook: to.into(),
            source,
        })
    }

    /// Reads a response of an extension that has the hook in the version `from`, as Cluster API does: with
    /// [`wire::from_prefix`].
    ///
    /// # Errors
    /// When a version is unknown, the bytes are not a response, or the conversion is missing or fails.
    pub fn read_response<H: Hook>(&self, bytes: &[u8], from: &HookId) -> Result<H::Response, CatalogError> {
        let to = self.known(H::id())?;
        let from = self.known(from.clone())?;
        let read = |source| CatalogError::Read {
            hook: from.clone().into(),
            source,
        };
        if from == to {
            return wire::from_prefix(bytes).map_err(read);
        }
        let conversion = self.conversion(&to, &from)?;
        let value = wire::from_prefix(bytes).map_err(read)?;
        let value = (conversion.response)(value).map_err(|source| CatalogError::Conversion {
            from: from.clone().into(),
            to: to.clone().into(),
            source,
        })?;
        wire::from_value(value).map_err(|source| CatalogError::Read {
            hook: to.into(),
            source,
        })
    }

    fn known(&self, id: HookId) -> Result<HookId, CatalogError> {
        if self.knows(&id) {
            Ok(id)
        } else {
            Err(CatalogError::Unknown(id.into()))
        }
    }

    fn conversion(&self, caller: &HookId, extension: &HookId) -> Result<&Erased, CatalogError> {
        self.inner
            .conversions
            .get(&(caller.clone(), extension.clone()))
            .ok_or_else(|| CatalogError::NoConversion {
                from: caller.clone().into(),
                to: extension.clone().into(),
            })
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.ids().map(ToString::to_string))
            .finish()
    }
}

/// A message with its `apiVersion` and `kind`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Typed<'a, M> {
    kind: String,
    api_version: String,
    #[serde(flatten)]
    message: &'a M,
}

#[cfg(test)]
mod tests;
