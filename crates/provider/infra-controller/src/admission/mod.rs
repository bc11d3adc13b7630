//! Admission of updates: of templates, of externally managed clusters ([`external`]), and of what leaves out something
//! that the provider has filled in ([`filled_in`]).
//!
//! The spec of a template cannot change. Otherwise existing machines would differ from their template without being
//! replaced, and Cluster API would not notice: it compares the names of templates, and replaces machines when another
//! template is referenced. All other fields of a template may change, also `spec.template.metadata`.
//!
//! The topology controller sends a dry run of a change before it decides whether to create a new template. That dry run
//! has to succeed as if the change were allowed (Cluster API, `util/topology/topology.go`, `IsDryRunRequest`). A rule
//! in the schema could not allow only dry runs, because it does not see them.
//!
//! The API server calls the webhook only for updates of a spec (`config/webhook-infrastructure/validating.yaml`). So
//! while no manager runs, templates can be created, labelled, owned and deleted, for instance by `clusterctl move` or
//! from a backup. A change of a spec fails, but it would be denied anyway.

mod difference;
mod external;
mod filled_in;

use nephele_api::infrastructure::{GROUP, v1beta2::VERSION};
use nephele_webhook::{AdmissionRequest, Cause, Change, Denial, Webhook};
use serde_json::Value;

use self::difference::changed_fields;
pub use self::{external::cluster_path, filled_in::paths as filled_in_paths};

/// The annotation on a dry run of the topology controller.
const TOPOLOGY_DRY_RUN: &str = "topology.cluster.x-k8s.io/dry-run";
/// The field that may not change.
const IMMUTABLE: &str = "spec.template.spec";
/// The maximum number of fields that a denial names: more would not help the user.
const FIELDS_MAX: usize = 8;

/// A kind of template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateKind {
    /// `InMemoryClusterTemplate`.
    Cluster,
    /// `InMemoryMachineTemplate`.
    Machine,
    /// `InMemoryMachinePoolTemplate`.
    MachinePool,
}

impl TemplateKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Cluster, Self::MachinePool, Self::Machine];

    /// The kind's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "InMemoryClusterTemplate",
            Self::Machine => "InMemoryMachineTemplate",
            Self::MachinePool => "InMemoryMachinePoolTemplate",
        }
    }

    /// The URL path to which the API server sends admission requests for the kind.
    #[must_use]
    pub fn path(self) -> String {
        path("validate", self.as_str())
    }
}

/// The URL path to which the API server sends admission requests for a kind; `verb` is `validate` or `mutate`.
fn path(verb: &str, kind: &str) -> String {
    format!(
        "/{verb}-{}-{VERSION}-{}",
        GROUP.replace('.', "-"),
        kind.to_lowercase()
    )
}

/// Adds the handlers for clusters and for all kinds of templates.
///
/// # Panics
/// When the webhook has handlers for their paths already.
#[must_use]
pub fn register(webhook: Webhook) -> Webhook {
    let webhook = webhook.validate::<Value, _, _>(cluster_path(), |request| {
        let decision = external::decide(&request);
        async move { decision.map(|()| Vec::new()) }
    });
    let webhook = filled_in_paths().fold(webhook, |webhook, (path, fields)| {
        webhook.mutate(path, move |old, new| {
            if let Some(old) = old {
                filled_in::keep(fields, old, new);
            }
        })
    });
    TemplateKind::ALL.into_iter().fold(webhook, |webhook, kind| {
        webhook.validate::<Value, _, _>(kind.path(), move |request| {
            let decision = decide(kind, &request);
            async move { decision.map(|()| Vec::new()) }
        })
    })
}

fn decide(kind: TemplateKind, request: &AdmissionRequest<Value>) -> Result<(), Denial> {
    let Change::Update { old, new } = &request.change else {
        return Ok(());
    };
    if request.dry_run && new["metadata"]["annotations"].get(TOPOLOGY_DRY_RUN).is_some() {
        return Ok(());
    }
    let of = |object: &Value| object["spec"]["template"]["spec"].clone();
    let changed = changed_fields(IMMUTABLE, &of(old), &of(new));
    if changed.is_empty() {
        return Ok(());
    }
    let cause = |field| Cause {
        field,
        message: "is immutable: make a template of another name with the change, and refer to that"
            .to_owned(),
    };
    let causes = changed.into_iter().take(FIELDS_MAX).map(cause).collect();
    Err(Denial::invalid(GROUP, kind.as_str(), &request.name, causes))
}

#[cfg(test)]
mod tests;
