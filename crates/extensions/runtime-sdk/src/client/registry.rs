//! The registered extensions and their handlers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use nephele_error_chain::chain;
use parking_lot::{Mutex, RwLock};
use thiserror::Error;

use super::{
    circuit::Circuit,
    endpoint::{ClientConfig, Endpoint, EndpointError},
    handler::Handler,
    message::aggregate,
    selector::{LabelSelector, Selector, SelectorError},
};
use crate::{
    hooks::{HookId, Settings},
    wire,
};

/// The registration of an extension, from any source: an `ExtensionConfig`, an object of a custom kind, a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registration {
    /// The name of the extension, a DNS label. The full names of its handlers are `<handler>.<name>`.
    pub name: String,
    /// A text that changes whenever the registration changes, such as the `resourceVersion` of its object.
    pub resource_version: String,
    /// How the extension is reached.
    pub client_config: ClientConfig,
    /// The namespaces that the extension is called for: none without a selector, all when the selector is empty.
    pub namespace_selector: Option<LabelSelector>,
    /// The settings that are sent with each call.
    pub settings: Settings,
    /// The handlers of the extension.
    pub handlers: Vec<Handler>,
}

/// Why an extension cannot be registered.
#[derive(Debug, Error)]
pub enum RegistrationError {
    /// The name is not a DNS label, so names of handlers would be ambiguous.
    #[error("{0:?} is not a DNS label")]
    Name(String),
    /// The name of a handler is not a DNS label.
    #[error("the name of handler {0:?} is not a DNS label")]
    Handler(String),
    /// Two handlers have the same name.
    #[error("there is more than one handler {0:?}")]
    Duplicate(String),
    /// There is no valid address.
    #[error("failed to compute the URL")]
    Endpoint(#[source] EndpointError),
    /// The selector is malformed.
    #[error("failed to read the namespace selector")]
    Selector(#[source] SelectorError),
}

/// Why a registry refuses an operation.
#[derive(Debug, Error)]
pub enum RegistryError {
    /// The registry is not warmed up: no hook is called before all extensions are known.
    #[error("the registry is not warmed up")]
    NotReady,
    /// The registry is warmed up already.
    #[error("the registry is warmed up already")]
    Ready,
    /// There is no such handler.
    #[error("there is no extension handler {0:?}")]
    Unknown(String),
    /// The handler's extension is known, but could not be registered.
    #[error("extension {extension:?} is not available: {cause}")]
    Unavailable {
        extension: String,
        /// Why it could not be registered.
        cause: String,
    },
    /// The registration is invalid.
    #[error("failed to register extension {extension:?}")]
    Registration {
        extension: String,
        #[source]
        source: RegistrationError,
    },
    /// Not all extensions could be registered, but all have to be.
    #[error("failed to warm up the registry: {}", aggregate(.0))]
    WarmUp(Vec<String>),
}

impl RegistryError {
    /// A category from a fixed set, for metrics and logs.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::NotReady | Self::Ready => "readiness",
            Self::Unknown(_) => "unknown_handler",
            Self::Unavailable { .. } => "unavailable",
            Self::Registration { .. } => "registration",
            Self::WarmUp(_) => "warm_up",
        }
    }
}

/// An extension at warm-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub name: String,
    /// Its registration, or why there is none.
    pub found: Result<Registration, String>,
    /// The last known registration, for use when there is no current one.
    pub last_known: Option<Registration>,
}

impl From<Registration> for Candidate {
    fn from(registration: Registration) -> Self {
        Self {
            name: registration.name.clone(),
            found: Ok(registration),
            last_known: None,
        }
    }
}

/// What to do at warm-up when an extension cannot be registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WarmUp {
    /// Register the other extensions. For this extension, use its last known registration, so that hooks are not
    /// answered without it. If there is none, its handlers are [unavailable](RegistryError::Unavailable).
    #[default]
    Isolated,
    /// Fail and register nothing, as Cluster API does, whose manager then ends.
    AllOrNothing,
}

/// The result of a warm-up: the extensions by name, with their errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarmedUp {
    /// Extensions that are registered with their current registration.
    pub registered: BTreeSet<String>,
    /// Extensions that are registered with their last known registration.
    pub last_known: BTreeMap<String, String>,
    /// Extensions that are not registered.
    pub unavailable: BTreeMap<String, String>,
}

/// A registered extension, shared by its handlers.
#[derive(Debug)]
pub(crate) struct Extension {
    pub(crate) name: String,
    pub(crate) resource_version: String,
    pub(crate) endpoint: Endpoint,
    pub(crate) ca_bundle: Arc<[u8]>,
    pub(crate) selector: Selector,
    pub(crate) settings: Settings,
    /// Belongs to the registration: a changed registration starts with a closed circuit.
    pub(crate) circuit: Mutex<Circuit>,
    handlers: Vec<Handler>,
}

/// A handler of a registered extension.
#[derive(Clone, Debug)]
pub(crate) struct Registered {
    pub(crate) name: String,
    pub(crate) extension: Arc<Extension>,
    pub(crate) handler: Handler,
}

impl Extension {
    fn new(registration: Registration) -> Result<Self, RegistrationError> {
        let Registration {
            name,
            resource_version,
            client_config,
            namespace_selector,
            settings,
            handlers,
        } = registration;
        if !wire::is_dns_label(&name) {
            return Err(RegistrationError::Name(name));
        }
        let mut names = BTreeSet::new();
        for handler in &handlers {
            if !wire::is_dns_label(&handler.name) {
                return Err(RegistrationError::Handler(handler.name.clone()));
            }
            if !names.insert(&handler.name) {
                return Err(RegistrationError::Duplicate(handler.name.clone()));
            }
        }
        let endpoint = Endpoint::new(&client_config).map_err(RegistrationError::Endpoint)?;
        let selector = Selector::new(namespace_selector.as_ref()).map_err(RegistrationError::Selector)?;
        Ok(Self {
            name,
            resource_version,
            endpoint,
            ca_bundle: client_config.ca_bundle.0.into(),
            selector,
            settings,
            circuit: Mutex::default(),
            handlers,
        })
    }
}

/// The registered extensions. The registry starts empty and not ready, and is warmed up once with all known
/// extensions: a hook must not be answered without an extension that was merely not read yet. Cheap to clone; all
/// clones share one registry.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    state: Arc<RwLock<State>>,
}

#[derive(Debug, Default)]
struct State {
    ready: bool,
    /// By name of the extension.
    extensions: BTreeMap<String, Arc<Extension>>,
    /// The handlers of `extensions`, by full name.
    handlers: BTreeMap<String, Arc<Registered>>,
    /// Why known extensions are not registered, by name.
    unavailable: BTreeMap<String, String>,
}

impl State {
    fn add(&mut self, extension: Extension) {
        let name = extension.name.clone();
        let unchanged = self.remove(&name).filter(|before| {
            before.resource_version == extension.resource_version && before.endpoint == extension.endpoint
        });
        if let Some(before) = unchanged {
            *extension.circuit.lock() = before.circuit.lock().clone();
        }
        let extension = Arc::new(extension);
        for handler in &extension.handlers {
            let name = handler.full_name(&extension.name);
            let registered = Registered {
                name: name.clone(),
                extension: extension.clone(),
                handler: handler.clone(),
            };
            self.handlers.insert(name, Arc::new(registered));
        }
        self.extensions.insert(name, extension);
    }

    fn remove(&mut self, name: &str) -> Option<Arc<Extension>> {
        self.unavailable.remove(name);
        let removed = self.extensions.remove(name)?;
        for handler in &removed.handlers {
            self.handlers.remove(&handler.full_name(name));
        }
        Some(removed)
    }
}

impl Registry {
    /// An empty registry that is not ready.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A registry with these extensions. It is ready at once: for tests, and for extensions that are known in advance.
    ///
    /// # Errors
    /// When a registration is invalid.
    pub fn of(registrations: impl IntoIterator<Item = Registration>) -> Result<Self, RegistryError> {
        let registry = Self::default();
        registry.warm_up(
            registrations.into_iter().map(Candidate::from),
            WarmUp::AllOrNothing,
        )?;
        Ok(registry)
    }

    /// Registers all known extensions. It can succeed once; then the registry is ready.
    ///
    /// # Errors
    /// When the registry is ready already. Or when all extensions have to be registered and one cannot be; then the
    /// registry stays not ready.
    pub fn warm_up(
        &self,
        candidates: impl IntoIterator<Item = Candidate>,
        mode: WarmUp,
    ) -> Result<WarmedUp, RegistryError> {
        let mut report = WarmedUp::default();
        let mut warm = State {
            ready: true,
            ..State::default()
        };
        for Candidate {
            name,
            found,
            last_known,
        } in candidates
        {
            let found = found.and_then(|registration| {
                Extension::new(registration).map_err(|error| chain(&registration_error(&name, error)))
            });
            let cause = match found {
                Ok(extension) => {
                    warm.add(extension);
                    report.registered.insert(name);
                    continue;
                }
                Err(cause) => cause,
            };
            if let Some(Ok(extension)) = last_known.map(Extension::new) {
                warm.add(extension);
                report.last_known.insert(name, cause);
            } else {
                warm.unavailable.insert(name.clone(), cause.clone());
                report.unavailable.insert(name, cause);
            }
        }
        let failed: Vec<String> = report
            .last_known
            .values()
            .chain(report.unavailable.values())
            .cloned()
            .collect();
        if mode == WarmUp::AllOrNothing && !failed.is_empty() {
            return Err(RegistryError::WarmUp(failed));
        }
        let mut state = self.state.write();
        if state.ready {
            return Err(RegistryError::Ready);
        }
        *state = warm;
        Ok(report)
    }

    /// Whether the registry is warmed up.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.state.read().ready
    }

    /// Registers an extension, or replaces its registration. An invalid registration does not replace the existing one.
    ///
    /// # Errors
    /// When the registry is not ready, or the registration is invalid.
    pub fn add(&self, registration: Registration) -> Result<(), RegistryError> {
        let name = registration.name.clone();
        let extension = Extension::new(registration).map_err(|source| registration_error(&name, source));
        let mut state = self.state.write();
        if !state.ready {
            return Err(RegistryError::NotReady);
        }
        state.add(extension?);
        Ok(())
    }

    /// Removes an extension. Does nothing when no extension has that name.
    ///
    /// # Errors
    /// When the registry is not ready.
    pub fn remove(&self, extension: &str) -> Result<(), RegistryError> {
        let mut state = self.state.write();
        if !state.ready {
            return Err(RegistryError::NotReady);
        }
        state.remove(extension);
        Ok(())
    }

    /// The full names of the handlers of a hook, in any version, sorted.
    ///
    /// # Errors
    /// When the registry is not ready.
    pub fn handlers(&self, hook: &HookId) -> Result<Vec<String>, RegistryError> {
        Ok(self
            .list(hook)?
            .into_iter()
            .map(|registered| registered.name.clone())
            .collect())
    }

    /// The handler with a full name.
    ///
    /// # Errors
    /// When the registry is not ready, there is no such handler, or its extension is unavailable.
    pub fn handler(&self, name: &str) -> Result<Handler, RegistryError> {
        Ok(self.get(name)?.handler.clone())
    }

    /// Whether calls of an extension are suspended now, and why; `None` when it is not registered.
    #[must_use]
    pub fn circuit(&self, extension: &str) -> Option<Circuit> {
        let state = self.state.read();
        let circuit = state.extensions.get(extension)?.circuit.lock().clone();
        Some(circuit)
    }

    /// Closes the circuit of an extension, because it has answered discovery.
    pub(crate) fn answered(&self, extension: &str) {
        if let Some(extension) = self.state.read().extensions.get(extension) {
            extension.circuit.lock().succeeded();
        }
    }

    /// The number of extensions whose circuit is open.
    pub(crate) fn open(&self) -> usize {
        self.state
            .read()
            .extensions
            .values()
            .filter(|extension| extension.circuit.lock().is_open())
            .count()
    }

    pub(crate) fn list(&self, hook: &HookId) -> Result<Vec<Arc<Registered>>, RegistryError> {
        let state = self.state.read();
        if !state.ready {
            return Err(RegistryError::NotReady);
        }
        let of_hook = state
            .handlers
            .values()
            .filter(|registered| registered.handler.hook.same_hook(hook));
        Ok(of_hook.cloned().collect())
    }

    pub(crate) fn get(&self, name: &str) -> Result<Arc<Registered>, RegistryError> {
        let state = self.state.read();
        if !state.ready {
            return Err(RegistryError::NotReady);
        }
        if let Some(registered) = state.handlers.get(name) {
            return Ok(registered.clone());
        }
        let extension = name.split_once('.').map_or("", |(_, extension)| extension);
        match state.unavailable.get(extension) {
            Some(cause) => Err(RegistryError::Unavailable {
                extension: extension.to_owned(),
                cause: cause.clone(),
            }),
            None => Err(RegistryError::Unknown(name.to_owned())),
        }
    }
}

fn registration_error(extension: &str, source: RegistrationError) -> RegistryError {
    RegistryError::Registration {
        extension: extension.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests;
