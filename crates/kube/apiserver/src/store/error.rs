//! Errors of the store.

use thiserror::Error;

use super::key::GroupResource;

/// Why the store refuses a request. Each variant has a reason of a Kubernetes `Status`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// No such object.
    #[error("{resource} {name:?} not found")]
    NotFound {
        /// The collection of the object.
        resource: GroupResource,
        name: String,
    },
    /// An object of that name exists.
    #[error("{resource} {name:?} already exists")]
    AlreadyExists {
        /// The collection of the object.
        resource: GroupResource,
        name: String,
    },
    /// The object has changed since the writer read it.
    #[error("Operation cannot be fulfilled on {resource} {name:?}: {message}")]
    Conflict {
        /// The collection of the object.
        resource: GroupResource,
        name: String,
        message: String,
    },
    /// The object is not valid.
    #[error(
        "{} {name:?} is invalid: {}",
        GroupResource::new(group, kind),
        faults_text(faults)
    )]
    Invalid {
        kind: String,
        group: String,
        name: String,
        /// What is wrong with it, field by field.
        faults: Vec<Fault>,
    },
    /// The operation is not allowed.
    #[error("{resource} {name:?} is forbidden: {message}")]
    Forbidden {
        /// The collection of the object.
        resource: GroupResource,
        name: String,
        message: String,
    },
    /// The object is larger than etcd would accept.
    #[error("Request entity too large: limit is {limit}")]
    TooLarge {
        /// The maximum size of an object in bytes.
        limit: usize,
    },
    /// The clients of the cluster have stored as much as they may. In the words of etcd
    /// (`api/v3rpc/rpctypes/error.go`, `ErrGRPCNoSpace`).
    #[error("etcdserver: mvcc: database space exceeded")]
    NoSpace,
    /// The collection is not served.
    #[error("the server could not find the requested resource")]
    UnknownResource,
    /// The namespace is being deleted and takes no new objects.
    #[error(
        "{resource} {name:?} is forbidden: unable to create new content in namespace {namespace} because it is being terminated"
    )]
    NamespaceTerminating {
        /// The collection of the new object.
        resource: GroupResource,
        name: String,
        namespace: String,
    },
}

/// A fault of one field, in the wording of `apimachinery/pkg/util/validation/field`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub field: String,
    /// `FieldValueRequired`, `FieldValueInvalid`, `FieldValueForbidden` or `FieldValueNotSupported`.
    pub reason: &'static str,
    /// `Required value: …`, `Invalid value: …`, …
    pub message: String,
}

/// How many bytes of an invalid value a fault shows.
const SHOWN_MAX: usize = 256;

impl Fault {
    pub(crate) fn invalid(field: impl Into<String>, value: &serde_json::Value, detail: &str) -> Self {
        let message = format!("Invalid value: {}: {detail}", shown(value));
        Self {
            field: field.into(),
            reason: "FieldValueInvalid",
            message,
        }
    }

    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        let colon = if detail.is_empty() { "" } else { ": " };
        let message = format!("Required value{colon}{detail}");
        Self {
            field: field.into(),
            reason: "FieldValueRequired",
            message,
        }
    }

    pub(crate) fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueForbidden",
            message: format!("Forbidden: {detail}"),
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// A value as a fault shows it, shortened if it is long.
pub(crate) fn shown(value: &serde_json::Value) -> String {
    let mut shown = value.to_string();
    if shown.len() > SHOWN_MAX {
        shown.truncate(shown.floor_char_boundary(SHOWN_MAX));
        shown.push('…');
    }
    shown
}

/// How many faults an error reports. Each has a few hundred bytes, so 40 KB at most.
const FAULTS_MAX: usize = 64;

/// The faults of one object, up to a bound.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    /// Adds a fault, unless the bound is reached.
    pub(crate) fn push(&mut self, fault: Fault) {
        if !self.are_enough() {
            self.0.push(fault);
        }
    }

    /// Whether the bound is reached, so that checking can stop.
    pub(crate) fn are_enough(&self) -> bool {
        self.0.len() >= FAULTS_MAX
    }

    pub(crate) fn into_vec(self) -> Vec<Fault> {
        self.0
    }
}

fn faults_text(faults: &[Fault]) -> String {
    match faults {
        [one] => one.to_string(),
        all => format!(
            "[{}]",
            all.iter().map(Fault::to_string).collect::<Vec<_>>().join(", ")
        ),
    }
}

/// The requested resource version is older than the event log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("too old resource version: {requested} ({oldest})")]
pub struct Expired {
    pub requested: u64,
    /// The oldest version that a watch can continue from.
    pub oldest: u64,
}
