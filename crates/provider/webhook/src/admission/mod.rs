//! Admission requests, and the refusals of handlers.

pub(crate) mod review;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};

/// A request to create, update or delete an object, before the API server executes it.
#[derive(Debug, Clone, PartialEq)]
pub struct AdmissionRequest<K> {
    /// The object's name; empty if it will be generated.
    pub name: String,
    /// The object's namespace; `None` for cluster-scoped objects.
    pub namespace: Option<String>,
    /// The user who sent it.
    pub user: String,
    /// Whether it is a dry run.
    pub dry_run: bool,
    pub change: Change<K>,
}

/// A change of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<K> {
    /// The object is created.
    Create(K),
    /// The object is updated.
    Update { old: K, new: K },
    /// The object is deleted.
    Delete(K),
}

/// The refusal of a request, as the client of the API server sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    // Boxed, because most answers are not refusals.
    refusal: Box<Refusal>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    code: i32,
    reason: &'static str,
    message: String,
    subject: Option<Subject>,
    causes: Vec<Cause>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Subject {
    group: String,
    kind: String,
    name: String,
}

/// One error in an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    pub field: String,
    /// The error, with the value: `Invalid value: "x": must be a number`.
    pub message: String,
}

impl Denial {
    /// Invalid fields (422), with the texts of the API machinery (`apimachinery/pkg/api/errors`, `NewInvalid`).
    #[must_use]
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let lines: Vec<_> = causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        let text = match lines.as_slice() {
            [line] => line.clone(),
            lines => format!("[{}]", lines.join(", ")),
        };
        let message = format!("{kind}.{group} {name:?} is invalid: {text}");
        let subject = Subject {
            group: group.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
        };
        let refusal = Refusal {
            code: 422,
            reason: "Invalid",
            message,
            subject: Some(subject),
            causes,
        };
        Self {
            refusal: Box::new(refusal),
        }
    }

    /// A request that cannot be granted now (400).
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::plain(400, "BadRequest", message.into())
    }

    /// The webhook itself failed (500).
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::plain(500, "InternalError", message.into())
    }

    fn plain(code: i32, reason: &'static str, message: String) -> Self {
        Self {
            refusal: Box::new(Refusal {
                code,
                reason,
                message,
                subject: None,
                causes: Vec::new(),
            }),
        }
    }

    /// HTTP status.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.refusal.code
    }

    /// The text for the client.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.refusal.message
    }

    fn status(self) -> Status {
        let Refusal {
            code,
            reason,
            message,
            subject,
            causes,
        } = *self.refusal;
        let details = subject.map(|subject| StatusDetails {
            group: Some(subject.group),
            kind: Some(subject.kind),
            name: Some(subject.name),
            causes: Some(causes.into_iter().map(invalid_field).collect()),
            ..StatusDetails::default()
        });
        Status {
            status: Some("Failure".to_owned()),
            code: Some(code),
            reason: Some(reason.to_owned()),
            message: Some(message),
            details,
            ..Status::default()
        }
    }
}

fn invalid_field(cause: Cause) -> StatusCause {
    StatusCause {
        reason: Some("FieldValueInvalid".to_owned()),
        message: Some(cause.message),
        field: Some(cause.field),
    }
}
