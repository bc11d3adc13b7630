//! What is done about an object that registers an extension, decided without doing it.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use thiserror::Error;

use super::{
    PAUSED_ANNOTATION,
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

/// How long an object waits for the registry to be warmed up.
pub const NOT_READY_WAIT: Duration = Duration::from_secs(10);

/// The key of a Secret that its certificate authority is under.
pub const CA_KEY: &str = "ca.crt";

/// The longest message of a condition; a condition has room for 32768 bytes.
const CONDITION_MESSAGE_MAX: usize = 16 << 10;

/// Who finds out what extensions offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// This process, which says so in the objects.
    #[default]
    ReadWrite,
    /// Another one. This one only reads what it said, as control plane providers do with what core said.
    ReadOnly,
}

/// What is done first about an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing, until the registry is warmed up; look again after that long.
    Wait(Duration),
    /// The extension of that name is removed from the registry: its object is gone or about to be. No finalizer is
    /// needed, since nothing outside this process has to be undone.
    Unregister,
    /// Nothing: it is paused, and what is registered stays.
    Keep,
    /// The status is patched so, and nothing else; the change has the object looked at again.
    Report(Value),
    /// The Secret's `ca.crt` is read, see [`inject`], and then the extension is asked what it offers.
    Inject(SecretRef),
    /// The annotation that names a Secret names none; see [`conclude`].
    CannotInject(InjectError),
    /// The extension is asked what it offers, see [`conclude`].
    Discover,
    /// This is registered.
    Register(Box<Registration>),
    /// Nothing can be registered; what is registered stays.
    Refuse(Unusable),
}

/// Why an object cannot be used that another process looks after.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unusable {
    /// There is no bundle.
    #[error("caBundle is not set")]
    NoCaBundle,
    /// Nobody has asked the extension yet.
    #[error("condition Discovered is not set yet")]
    NotYetDiscovered,
    /// Nobody has found out what it offers.
    #[error("condition Discovered must be True, it is {0}")]
    NotDiscovered(String),
    /// What was found out is of a former generation.
    #[error("condition Discovered must be of generation {generation}, it is of {observed}")]
    Outdated {
        /// The object's.
        generation: i64,
        /// The condition's.
        observed: i64,
    },
    /// The hook of a handler is none.
    #[error("the status names a handler of no hook")]
    Handler(#[source] ApiVersionError),
}

/// A Secret, by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl SecretRef {
    /// The Secret that an annotation names.
    ///
    /// # Errors
    /// When the text is not `<namespace>/<name>`, both as Kubernetes allows them: they become part of a path.
    pub fn parse(text: &str) -> Result<Self, InjectError> {
        match text.split_once('/') {
            Some((namespace, name)) if is_dns_label(namespace) && is_dns_subdomain(name) => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err(InjectError::Name(text.to_owned())),
        }
    }

    /// The Secret that an object takes its bundle from.
    #[must_use]
    pub fn of<K: ExtensionKind>(object: &K) -> Option<Result<Self, InjectError>> {
        object.metadata().annotations.get(K::INJECT_ANNOTATION).map(|text| Self::parse(text))
    }
}

/// Why a bundle cannot be taken from a Secret.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InjectError {
    /// The annotation does not name a Secret.
    #[error("failed to inject the CA bundle: {0:?} is not <namespace>/<name> of a Secret")]
    Name(String),
    /// The Secret is not there.
    #[error("failed to inject the CA bundle: there is no Secret {}/{}", .0.namespace, .0.name)]
    NoSecret(SecretRef),
    /// The Secret has no authority.
    #[error("failed to inject the CA bundle: Secret {}/{} has no {CA_KEY}", .0.namespace, .0.name)]
    NoAuthority(SecretRef),
}

/// What is done first about an object; `None` is one that is gone.
#[must_use]
pub fn begin<K: ExtensionKind>(object: Option<&K>, ready: bool, mode: Mode, now: Timestamp) -> Step {
    if !ready {
        return Step::Wait(NOT_READY_WAIT);
    }
    // Also when it is paused: what is deleted must not be called.
    let Some(object) = object.filter(|object| object.metadata().deletion_timestamp.is_none()) else {
        return Step::Unregister;
    };
    match mode {
        Mode::ReadOnly if is_paused(object) => Step::Keep,
        Mode::ReadOnly => {
            usable(object).map_or_else(Step::Refuse, |registration| Step::Register(Box::new(registration)))
        }
        Mode::ReadWrite => begin_read_write(object, now),
    }
}

/// Whether the condition `Paused` says so.
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
        set_condition(&mut status.conditions, metadata.generation, paused_condition(paused), now);
        return Step::Report(object.status_patch(&status));
    }
    if paused {
        return Step::Keep;
    }
    next(object)
}

/// What is done about an object before its extension is asked what it offers.
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

/// What an object registers that another process looks after, if that process is done with it.
///
/// # Errors
/// When it is not.
pub fn usable<K: ExtensionKind>(object: &K) -> Result<Registration, Unusable> {
    if K::NEEDS_CA_BUNDLE && object.client_config().ca_bundle.is_empty() {
        return Err(Unusable::NoCaBundle);
    }
    let status = object.status();
    let discovered = condition(&status.conditions, DISCOVERED).ok_or(Unusable::NotYetDiscovered)?;
    if !discovered.is_true() {
        return Err(Unusable::NotDiscovered(discovered.status.clone()));
    }
    let (generation, observed) = (object.metadata().generation, discovered.observed_generation);
    if observed != generation {
        return Err(Unusable::Outdated { generation, observed });
    }
    object.known_registration().map_err(Unusable::Handler)
}

/// The bundle that an object is to have, when it has another: that of the Secret's `ca.crt`. The object is to be patched
/// so before its extension is asked, since what is found out is of the generation that comes of it.
///
/// # Errors
/// When the Secret is not there, or has no `ca.crt`.
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

/// What was found out about an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// What it offers.
    Discovered(Discovered),
    /// Why it is not known what it offers, with all causes.
    NotDiscovered(String),
    /// Why it could not be asked: there is no bundle.
    NotInjected(InjectError),
}

/// What is done about an object when its extension was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Conclusion {
    /// The object's status is patched so; nothing when it says so already.
    pub status: Option<Value>,
    /// These are registered, with the version that the object has then. Without, what is registered stays.
    pub handlers: Option<Vec<Handler>>,
}

/// What is done about an object when its extension was asked. One that could not be asked loses neither the handlers in
/// its status nor its registration.
#[must_use]
pub fn conclude<K: ExtensionKind>(object: &K, finding: &Finding, now: Timestamp) -> Conclusion {
    let metadata = object.metadata();
    let before = object.status();
    let mut status = before.clone();
    let mut set = |new| set_condition(&mut status.conditions, metadata.generation, new, now);
    let mut handlers = None;
    // Only its generation can be another: it was set before.
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
            set(Condition::new(DISCOVERED, false, "CABundleNotInjected", &error.to_string()));
        }
        Finding::NotInjected(_) => {}
    }
    let changed = status != before;
    Conclusion { status: changed.then(|| object.status_patch(&status)), handlers }
}

/// What people are told of handlers that were left out.
fn skipped(discovered: &Discovered) -> String {
    if discovered.skipped.is_empty() {
        return String::new();
    }
    let problems: Vec<String> = discovered.skipped.iter().map(ToString::to_string).collect();
    beginning(&format!("Left out: {}", problems.join("; ")), CONDITION_MESSAGE_MAX)
}

/// An extension at warm-up: what to register, or why that is not known and what was known before.
#[must_use]
pub fn candidate<K: ExtensionKind>(object: &K, found: Result<Registration, String>) -> Candidate {
    let known = !object.status().handlers.is_empty();
    let last_known = known.then(|| object.known_registration().ok()).flatten();
    Candidate { name: object.metadata().name.clone(), found, last_known }
}

/// Whether an object's bundle comes from a Secret, so that it has to be looked at when that changes.
#[must_use]
pub fn injects_from<K: ExtensionKind>(object: &K, namespace: &str, name: &str) -> bool {
    let Some(Ok(secret)) = SecretRef::of(object) else { return false };
    secret.namespace == namespace && secret.name == name
}

#[cfg(test)]
mod tests;
