//! Carries out the decisions about objects, with `kube`.

use std::{collections::BTreeMap, marker::PhantomData, time::Duration};

use futures::{
    StreamExt as _,
    future::{BoxFuture, FutureExt as _},
    stream,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::Value;
use thiserror::Error;
use tokio::time::{Instant, sleep};

use super::{
    kind::ExtensionKind,
    plan::{
        CA_KEY, Finding, InjectError, Mode, SecretRef, Step, Unusable, begin, candidate, conclude, inject,
        next, usable,
    },
};
use crate::{
    client::{
        Candidate, Client, DiscoverError, Labels, NamespaceError, Namespaces, Registration, RegistryError,
        WarmUp, WarmedUp, chain,
    },
    wire,
};

/// Keeps the registry of a [`Client`] in step with the objects of a kind.
///
/// [`Reconciler::reconcile`] is for the loop of any controller: call it with the name of each object that exists,
/// changes or is deleted, and of each object whose Secret changes (see [`injects_from`](super::injects_from)). One task
/// calls [`Reconciler::warm_up`] once, before the loop or beside it.
pub struct Reconciler<K> {
    kube: kube::Client,
    objects: Api<DynamicObject>,
    client: Client,
    mode: Mode,
    /// The objects of the warm-up.
    selected: ListParams,
    kind: PhantomData<fn() -> K>,
}

/// When to reconcile an object again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When the object changes.
    OnChange,
    /// After this time.
    After(Duration),
}

/// Why an object could not be registered.
#[derive(Debug, Error)]
pub enum ReconcilerError {
    /// The object cannot be read.
    #[error("failed to read {name:?}")]
    Read {
        name: String,
        #[source]
        source: Box<kube::Error>,
    },
    /// The object does not have the fields of its kind.
    #[error("failed to decode {name:?}")]
    Understand {
        name: String,
        #[source]
        source: serde_json::Error,
    },
    /// The object cannot be written.
    #[error("failed to patch {name:?}")]
    Patch {
        name: String,
        #[source]
        source: Box<kube::Error>,
    },
    /// A Secret cannot be read.
    #[error("failed to read Secret {}/{}", secret.namespace, secret.name)]
    Secret {
        secret: SecretRef,
        #[source]
        source: Box<kube::Error>,
    },
    /// The CA bundle cannot be injected.
    #[error(transparent)]
    Inject(InjectError),
    /// Discovery failed.
    #[error(transparent)]
    Discover(DiscoverError),
    /// Another process has to discover the extension, and has not done so.
    #[error("failed to use {name:?}, which another process discovers")]
    Unusable {
        name: String,
        #[source]
        source: Unusable,
    },
    /// The registry refuses the extension.
    #[error(transparent)]
    Registry(RegistryError),
}

impl ReconcilerError {
    /// A category from a fixed set, for metrics and logs.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Understand { .. } => "object",
            Self::Patch { .. } => "patch",
            Self::Secret { .. } => "secret",
            Self::Inject(_) => "inject",
            Self::Discover(error) => error.category(),
            Self::Unusable { .. } => "unusable",
            Self::Registry(error) => error.category(),
        }
    }
}

/// Settings of a warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmUpSettings {
    /// What to do when an extension cannot be registered.
    pub mode: WarmUp,
    /// How long to retry extensions that cannot be registered: they may still be starting.
    pub patience: Duration,
    pub interval: Duration,
    /// The number of extensions discovered at a time.
    pub at_once: usize,
}

impl Default for WarmUpSettings {
    fn default() -> Self {
        Self {
            mode: WarmUp::Isolated,
            patience: Duration::from_secs(10),
            interval: Duration::from_secs(2),
            at_once: 10,
        }
    }
}

impl WarmUpSettings {
    /// As in Cluster API: all extensions have to be registered within a minute, or the process has to end.
    #[must_use]
    pub fn all_or_nothing() -> Self {
        Self {
            mode: WarmUp::AllOrNothing,
            patience: Duration::from_secs(60),
            ..Self::default()
        }
    }
}

/// Why the warm-up failed.
#[derive(Debug, Error)]
pub enum WarmUpError {
    /// The objects cannot be listed.
    #[error("failed to list {kind}")]
    List {
        kind: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
    /// The registry refuses the extensions.
    #[error(transparent)]
    Registry(RegistryError),
}

impl<K: ExtensionKind> Reconciler<K> {
    /// A reconciler for the registry of `client`.
    #[must_use]
    pub fn new(kube: kube::Client, client: Client, mode: Mode) -> Self {
        let resource = ApiResource {
            group: K::GROUP.to_owned(),
            version: K::VERSION.to_owned(),
            api_version: format!("{}/{}", K::GROUP, K::VERSION),
            kind: K::KIND.to_owned(),
            plural: K::PLURAL.to_owned(),
        };
        let objects = Api::all_with(kube.clone(), &resource);
        Self {
            objects,
            kube,
            client,
            mode,
            selected: ListParams::default(),
            kind: PhantomData,
        }
    }

    /// Warms up only with the objects that this label selector matches: another process takes care of the others.
    #[must_use]
    pub fn selecting(mut self, labels: &str) -> Self {
        self.selected = ListParams::default().labels(labels);
        self
    }

    /// Reconciles one object.
    ///
    /// # Errors
    /// When the reconcile fails. An earlier registration stays, unless the object is gone.
    pub async fn reconcile(&self, name: &str, now: impl Fn() -> Timestamp) -> Result<Next, ReconcilerError> {
        let registry = self.client.registry();
        let ready = registry.is_ready();
        let object = if ready { self.read(name).await? } else { None };
        match begin(object.as_ref(), ready, self.mode, now()) {
            Step::Wait(wait) => return Ok(Next::After(wait)),
            Step::Keep => {}
            Step::Unregister => registry.remove(name).map_err(ReconcilerError::Registry)?,
            Step::Register(registration) => {
                registry.add(*registration).map_err(ReconcilerError::Registry)?;
            }
            Step::Refuse(source) => {
                return Err(ReconcilerError::Unusable {
                    name: name.to_owned(),
                    source,
                });
            }
            Step::Report(status) => {
                if let Some(object) = &object {
                    self.patch_status(object, status).await?;
                }
            }
            Step::Inject(_) | Step::CannotInject(_) | Step::Discover => {
                if let Some(object) = object {
                    let registration = self.find_out(object, &now).await?;
                    registry.add(registration).map_err(ReconcilerError::Registry)?;
                }
            }
        }
        Ok(Next::OnChange)
    }

    /// Registers the extensions of all objects, and makes the registry ready. Objects do not depend on each other: the
    /// status of an object is written even when other extensions cannot be registered. As in Cluster API, paused
    /// objects are included, and objects that are being deleted are not.
    ///
    /// # Errors
    /// When the objects cannot be listed; when all extensions have to be registered and one cannot be; or when the
    /// registry is ready already.
    pub async fn warm_up(
        &self,
        settings: WarmUpSettings,
        now: impl Fn() -> Timestamp,
    ) -> Result<WarmedUp, WarmUpError> {
        let end = Instant::now() + settings.patience;
        let mut found = BTreeMap::new();
        loop {
            let candidates = self.candidates(&mut found, settings.at_once, &now).await;
            let over = Instant::now() + settings.interval > end;
            match candidates {
                Ok(candidates) if over || candidates.iter().all(|candidate| candidate.found.is_ok()) => {
                    let registry = self.client.registry();
                    return registry
                        .warm_up(candidates, settings.mode)
                        .map_err(WarmUpError::Registry);
                }
                Err(source) if over => {
                    return Err(WarmUpError::List {
                        kind: K::PLURAL,
                        source: Box::new(source),
                    });
                }
                Ok(candidates) => {
                    for Candidate { name, found, .. } in candidates {
                        if let Err(error) = found {
                            tracing::warn!(extension = name, error, "Extension is not registered yet");
                        }
                    }
                }
                Err(error) => tracing::warn!(error = chain(&error), "Extensions cannot be listed yet"),
            }
            sleep(settings.interval).await;
        }
    }

    /// Reads all objects, and discovers their extensions. Unchanged objects that were discovered before are skipped.
    async fn candidates(
        &self,
        found: &mut BTreeMap<String, Registration>,
        at_once: usize,
        now: &impl Fn() -> Timestamp,
    ) -> Result<Vec<Candidate>, kube::Error> {
        let objects = self.objects.list(&self.selected).await?;
        let before = std::mem::take(found);
        let before = &before;
        let mut candidates: Vec<Candidate> = stream::iter(objects)
            .map(|object| async move {
                let name = object.metadata.name.clone().unwrap_or_default();
                match understood::<K>(object) {
                    Ok(object) if object.metadata().deletion_timestamp.is_some() => None,
                    Ok(object) => Some(self.candidate(object, before, now).await),
                    Err(error) => Some(Candidate {
                        name,
                        found: Err(chain(&error)),
                        last_known: None,
                    }),
                }
            })
            .buffer_unordered(at_once.max(1))
            .filter_map(|candidate| async move { candidate })
            .collect()
            .await;
        candidates.sort_by(|a, b| a.name.cmp(&b.name));
        for candidate in &candidates {
            if let Ok(registration) = &candidate.found {
                found.insert(candidate.name.clone(), registration.clone());
            }
        }
        Ok(candidates)
    }

    async fn candidate(
        &self,
        object: K,
        before: &BTreeMap<String, Registration>,
        now: &impl Fn() -> Timestamp,
    ) -> Candidate {
        let metadata = object.metadata();
        if let Some(same) = before.get(&metadata.name)
            && same.resource_version == metadata.resource_version
        {
            return candidate(&object, Ok(same.clone()));
        }
        let found = match self.mode {
            Mode::ReadOnly => usable(&object).map_err(|error| chain(&error)),
            Mode::ReadWrite => self
                .find_out(object.clone(), now)
                .await
                .map_err(|error| chain(&error)),
        };
        candidate(&object, found)
    }

    /// Injects the CA bundle, discovers the extension, and writes the result to the object.
    async fn find_out(
        &self,
        mut object: K,
        now: &impl Fn() -> Timestamp,
    ) -> Result<Registration, ReconcilerError> {
        match next(&object) {
            Step::Inject(secret) => match self.injected(&object, &secret).await? {
                Ok(None) => {}
                Ok(Some(ca_bundle)) => {
                    let patch = object.ca_bundle_patch(&ca_bundle);
                    object = self.patch(&object, patch).await?;
                }
                Err(error) => return self.not_injected(&object, error, now()).await,
            },
            Step::CannotInject(error) => return self.not_injected(&object, error, now()).await,
            _ => {}
        }
        let name = object.metadata().name.clone();
        let discovered = self
            .client
            .discover(&name, &object.client_config(), K::UNKNOWN_HOOKS)
            .await;
        let finding = match &discovered {
            Ok(discovered) => Finding::Discovered(discovered.clone()),
            Err(error) => Finding::NotDiscovered(chain(error)),
        };
        let conclusion = conclude(&object, &finding, now());
        let reported = match conclusion.status {
            Some(status) => self.patch_status(&object, status).await,
            None => Ok(object),
        };
        let discovered = discovered.map_err(ReconcilerError::Discover)?;
        Ok(reported?.registration(discovered.handlers))
    }

    async fn injected(
        &self,
        object: &K,
        secret: &SecretRef,
    ) -> Result<Result<Option<wire::Bytes>, InjectError>, ReconcilerError> {
        let secrets: Api<Secret> = Api::namespaced(self.kube.clone(), &secret.namespace);
        let read = secrets
            .get_opt(&secret.name)
            .await
            .map_err(|source| ReconcilerError::Secret {
                secret: secret.clone(),
                source: Box::new(source),
            })?;
        let data = read.map(|secret| secret.data.unwrap_or_default());
        let authority = data
            .as_ref()
            .map(|data| data.get(CA_KEY).map(|bytes| bytes.0.as_slice()));
        Ok(inject(object, secret, authority))
    }

    async fn not_injected(
        &self,
        object: &K,
        error: InjectError,
        now: Timestamp,
    ) -> Result<Registration, ReconcilerError> {
        if let Some(status) = conclude(object, &Finding::NotInjected(error.clone()), now).status {
            self.patch_status(object, status).await?;
        }
        Err(ReconcilerError::Inject(error))
    }

    async fn read(&self, name: &str) -> Result<Option<K>, ReconcilerError> {
        let object = self
            .objects
            .get_opt(name)
            .await
            .map_err(|source| ReconcilerError::Read {
                name: name.to_owned(),
                source: Box::new(source),
            })?;
        object.map(understood).transpose()
    }

    async fn patch(&self, object: &K, patch: Value) -> Result<K, ReconcilerError> {
        let name = &object.metadata().name;
        let patched = self
            .objects
            .patch(
                name,
                &PatchParams::default(),
                &Patch::Merge(of_version(object, patch)),
            )
            .await;
        understood(patched.map_err(|source| patch_error(name, source))?)
    }

    async fn patch_status(&self, object: &K, patch: Value) -> Result<K, ReconcilerError> {
        let name = &object.metadata().name;
        let patch = Patch::Merge(of_version(object, patch));
        let patched = self
            .objects
            .patch_status(name, &PatchParams::default(), &patch)
            .await;
        understood(patched.map_err(|source| patch_error(name, source))?)
    }
}

/// A patch with the `resourceVersion` of the object that was read: lists are replaced as a whole, and changes by other
/// writers must not be lost.
fn of_version<K: ExtensionKind>(object: &K, mut patch: Value) -> Value {
    if let Some(fields) = patch.as_object_mut() {
        let version = serde_json::json!({ "resourceVersion": object.metadata().resource_version });
        fields.insert("metadata".to_owned(), version);
    }
    patch
}

fn patch_error(name: &str, source: kube::Error) -> ReconcilerError {
    ReconcilerError::Patch {
        name: name.to_owned(),
        source: Box::new(source),
    }
}

fn understood<K: ExtensionKind>(object: DynamicObject) -> Result<K, ReconcilerError> {
    let name = object.metadata.name.clone().unwrap_or_default();
    serde_json::to_value(object)
        .and_then(wire::from_value)
        .map_err(|source| ReconcilerError::Understand { name, source })
}

/// Reads the labels of a namespace from the API server on each call.
#[derive(Clone)]
pub struct KubeNamespaces {
    namespaces: Api<Namespace>,
}

impl KubeNamespaces {
    /// A source that uses this client. The client needs permission to get namespaces.
    #[must_use]
    pub fn new(kube: kube::Client) -> Self {
        Self {
            namespaces: Api::all(kube),
        }
    }
}

impl Namespaces for KubeNamespaces {
    fn labels<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Labels, NamespaceError>> {
        async move {
            match self.namespaces.get_metadata_opt(namespace).await {
                Ok(Some(found)) => Ok(found.metadata.labels.unwrap_or_default()),
                Ok(None) => Err(NamespaceError::Absent(namespace.to_owned())),
                Err(error) => Err(NamespaceError::Read {
                    namespace: namespace.to_owned(),
                    source: Box::new(error),
                }),
            }
        }
        .boxed()
    }
}
