//! Decides what to do about an object that registers an extension, without doing it.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use thiserror::Error;

use super::{
    annotations::PAUSED_ANNOTATION,
    condition::{Condition, DISCOVERED, PAUSED, condition, set_condition},
    kind::{ExtensionKind, HandlerStatus},
};
use crate::{
    client::{
        discovery::Discovered,
        handler::Handler,
        message::beginning,
        registry::{Candidate, Registration},
    },
    hooks::ApiVersionError,
    wire::{Bytes, is_dns_label, is_dns_subdomain},
};

/// The time between two checks whether the registry is warmed up.
pub const NOT_READY_WAIT: Duration = Duration::from_secs(10);

/// The key of the certificate authority in a Secret.
pub const CA_KEY: &str = "ca.crt";

/// The longest message of a condition; a condition has room for 32768 bytes.
const CONDITION_MESSAGE_MAX: usize = 16 << 10;

/// Which process discovers the extensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// This process. It writes the results to the objects.
    #[default]
    ReadWrite,
    /// Another process. This process only reads its results, as control plane providers read the results of Cluster
    /// API's core manager.
    ReadOnly,
}

/// The first step for an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Do nothing until the registry is warmed up; check again after this time.
    Wait(Duration),
    /// Remove the extension from the registry: its object is gone or being deleted. No finalizer is needed, because
    /// nothing outside this process has to be cleaned up.
    Unregister,
    /// Do nothing: the object is paused. An earlier registration stays.
    Keep,
    /// Patch the status, and nothing else. The change triggers another reconcile.
    Report(Value),
    /// Read the Secret's `ca.crt`, see [`inject`], and then discover the extension.
    Inject(SecretRef),
    /// The annotation does not name a Secret. Pass the error to [`conclude`].
    CannotInject(InjectError),
    /// Discover the extension, and pass the result to [`conclude`].
    Discover,
    /// Register this extension.
    Register(Box<Registration>),
    /// Register nothing. An earlier registration stays.
    Refuse(Unusable),
}

/// Why a read-only process cannot use an object.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unusable {
    /// There is no CA bundle.
    #[error("caBundle is not set")]
    NoCaBundle,
    /// The extension was not discovered yet.
    #[error("condition Discovered is not set yet")]
    NotYetDiscovered,
    /// Discovery failed.
    #[error("condition Discovered must be True, it is {0}")]
    NotDiscovered(String),
    /// Discovery was for an earlier generation.
    #[error("condition Discovered must be of generation {generation}, it is of {observed}")]
    Outdated { generation: i64, observed: i64 },
    /// The hook of a handler is malformed.
    #[error("the status has a handler with a malformed hook")]
    Handler(#[source] ApiVersionError),
}

/// A Secret, by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretRef {
    pub namespace: String,
    pub name: String,
}

impl SecretRef {
    /// Parses the Secret in an annotation.
    ///
    /// # Errors
    /// When the text is not `<namespace>/<name>` with valid names of Kubernetes. They become part of a request path.
    pub fn parse(text: &str) -> Result<Self, InjectError> {
        match text.split_once('/') {
            Some((namespace, name)) if is_dns_label(namespace) && is_dns_subdomain(name) => Ok(Self {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err(InjectError::Name(text.to_owned())),
        }
    }

    /// The Secret in an object's annotation; `None` without the annotation.
    #[must_use]
    pub fn of<K: ExtensionKind>(object: &K) -> Option<Result<Self, InjectError>> {
        object
            .metadata()
            .annotations
            .get(K::INJECT_ANNOTATION)
            .map(|text| Self::parse(text))
    }
}

/// Why a CA bundle cannot be read from a Secret.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InjectError {
    /// The annotation does not name a Secret.
    #[error("failed to inject the CA bundle: {0:?} is not <namespace>/<name> of a Secret")]
    Name(String),
    /// The Secret does not exist.
    #[error("failed to inject the CA bundle: there is no Secret {}/{}", .0.namespace, .0.name)]
    NoSecret(SecretRef),
    /// The Secret has no `ca.crt`.
    #[error("failed to inject the CA bundle: Secret {}/{} has no {CA_KEY}", .0.namespace, .0.name)]
    NoAuthority(SecretRef),
}

/// The first step for an object. `None` means that the object is gone.
#[must_use]
pub fn begin<K: ExtensionKind>(object: Option<&K>, ready: bool, mode: Mode, now: Timestamp) -> Step {
    if !ready {
        return Step::Wait(NOT_READY_WAIT);
    }
    // Also for a paused object: a deleted extension must not be called.
    let Some(object) = object.filter(|object| object.metadata().deletion_timestamp.is_none()) else {
        return Step::Unregister;
    };
    match mode {
        Mode::ReadOnly if is_paused(object) => Step::Keep,
        Mode::ReadOnly => usable(object).map_or_else(Step::Refuse, |registration| {
            Step::Register(Box::new(registration))
        }),
        Mode::ReadWrite => begin_read_write(object, now),
    }
}

/// Whether the condition `Paused` is up to date.
fn is_paused<K: ExtensionKind>(object: &K) -> bool {
    condition(&object.status().conditions, PAUSED).is_some_and(Condition::is_true)
}

fn begin_read_write<K: ExtensionKind>(object: &K, now: Timestamp) -> Step {
    let metadata = object.metadata();
    let paused = metadata.annotations.contains_key(PAUSED_ANNOTATION);
    let before = object.status();
    let said = condition(&before.conditions, PAUSED);
    if said.is_none_or(|said| said.is_true() != paused) {
        let mut status = before;
        set_condition(
            &mut status.conditions,
            metadata.generation,
            paused_condition(paused),
            now,
        );
        return Step::Report(object.status_patch(&status));
    }
    if paused {
        return Step::Keep;
    }
    next(object)
}

/// The step for an object before its extension is discovered.
#[must_use]
pub fn next<K: ExtensionKind>(object: &K) -> Step {
    match SecretRef::of(object) {
        None => Step::Discover,
        Some(Ok(secret)) => Step::Inject(secret),
        Some(Err(error)) => Step::CannotInject(error),
    }
}

fn paused_condition(paused: bool) -> Condition {
    if paused {
        let message = format!("The object has the annotation {PAUSED_ANNOTATION}");
        Condition::new(PAUSED, true, "Paused", &message)
    } else {
        Condition::new(PAUSED, false, "NotPaused", "")
    }
}

/// The registration of an object that another process has discovered.
///
/// # Errors
/// When the other process has not discovered this generation of the object.
pub fn usable<K: ExtensionKind>(object: &K) -> Result<Registration, Unusable> {
    if K::NEEDS_CA_BUNDLE && object.client_config().ca_bundle.is_empty() {
        return Err(Unusable::NoCaBundle);
    }
    let status = object.status();
    let discovered = condition(&status.conditions, DISCOVERED).ok_or(Unusable::NotYetDiscovered)?;
    if !discovered.is_true() {
        return Err(Unusable::NotDiscovered(discovered.status.clone()));
    }
    let generation = object.metadata().generation;
    let observed = discovered.observed_generation;
    if observed != generation {
        return Err(Unusable::Outdated { generation, observed });
    }
    object.known_registration().map_err(Unusable::Handler)
}

/// The CA bundle of an object, from the Secret's `ca.crt`; `None` when the object already has it. Patch the object
/// before discovery, because the results are for the generation after the patch.
///
/// # Errors
/// When the Secret does not exist, or has no `ca.crt`.
pub fn inject<K: ExtensionKind>(
    object: &K,
    secret: &SecretRef,
    authority: Option<Option<&[u8]>>,
) -> Result<Option<Bytes>, InjectError> {
    let authority = authority.ok_or_else(|| InjectError::NoSecret(secret.clone()))?;
    let authority = authority.ok_or_else(|| InjectError::NoAuthority(secret.clone()))?;
    let changed = object.client_config().ca_bundle.as_ref() != authority;
    Ok(changed.then(|| Bytes(authority.to_vec())))
}

/// The result of discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The handlers of the extension.
    Discovered(Discovered),
    /// Why discovery failed, with all causes.
    NotDiscovered(String),
    /// Why the extension was not called: the CA bundle could not be injected.
    NotInjected(InjectError),
}

/// What to do about an object after discovery.
#[derive(Clone, Debug, PartialEq)]
pub struct Conclusion {
    /// Patch the object's status with this; `None` when the status is up to date.
    pub status: Option<Value>,
    /// Register these handlers, with the object's version after the patch. With `None`, an earlier registration stays.
    pub handlers: Option<Vec<Handler>>,
}

/// Decides what to do about an object after discovery. A failure removes neither the handlers in the object's status
/// nor its registration.
#[must_use]
pub fn conclude<K: ExtensionKind>(object: &K, finding: &Finding, now: Timestamp) -> Conclusion {
    let metadata = object.metadata();
    let before = object.status();
    let mut status = before.clone();
    let mut set = |new| set_condition(&mut status.conditions, metadata.generation, new, now);
    let mut handlers = None;
    // Only the generation can change here: the status and the reason were set before discovery.
    if let Some(paused) = condition(&before.conditions, PAUSED) {
        set(paused.clone());
    }
    match finding {
        Finding::Discovered(discovered) => {
            let message = skipped(discovered);
            set(Condition::new(DISCOVERED, true, "Discovered", &message));
            status.handlers = discovered
                .handlers
                .iter()
                .map(|handler| HandlerStatus::new(handler, &metadata.name))
                .collect();
            handlers = Some(discovered.handlers.clone());
        }
        Finding::NotDiscovered(cause) => {
            let message = beginning(&format!("Error in discovery: {cause}"), CONDITION_MESSAGE_MAX);
            set(Condition::new(DISCOVERED, false, "NotDiscovered", &message));
        }
        Finding::NotInjected(error) if K::REPORTS_INJECTION => {
            set(Condition::new(
                DISCOVERED,
                false,
                "CABundleNotInjected",
                &error.to_string(),
            ));
        }
        Finding::NotInjected(_) => {}
    }
    let changed = status != before;
    Conclusion {
        status: changed.then(|| object.status_patch(&status)),
        handlers,
    }
}

/// The message about skipped handlers.
fn skipped(discovered: &Discovered) -> String {
    if discovered.skipped.is_empty() {
        return String::new();
    }
    let problems: Vec<String> = discovered.skipped.iter().map(ToString::to_string).collect();
    beginning(
        &format!("Left out: {}", problems.join("; ")),
        CONDITION_MESSAGE_MAX,
    )
}

/// An extension at warm-up: its registration, or the error and the last known registration.
#[must_use]
pub fn candidate<K: ExtensionKind>(object: &K, found: Result<Registration, String>) -> Candidate {
    let known = !object.status().handlers.is_empty();
    let last_known = known.then(|| object.known_registration().ok()).flatten();
    Candidate {
        name: object.metadata().name.clone(),
        found,
        last_known,
    }
}

/// Whether an object's CA bundle comes from this Secret, so that it has to be reconciled when the Secret changes.
#[must_use]
pub fn injects_from<K: ExtensionKind>(object: &K, namespace: &str, name: &str) -> bool {
    let Some(Ok(secret)) = SecretRef::of(object) else {
        return false;
    };
    secret.namespace == namespace && secret.name == name
}

#[cfg(test)]
mod tests;
