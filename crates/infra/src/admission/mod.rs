//! Admission of templates: what the API server asks before one is changed; and of clusters that are somebody else's
//! ([`external`]).
//!
//! What machines are made from stays as it is. Machines that are there would otherwise differ from their template without
//! anybody having replaced them, and Cluster API would not see it: it looks at a template's name, and rolls machines
//! over when another one is referred to. Everything else of a template may change, `spec.template.metadata` among it.
//!
//! The topology controller asks by a dry run what would become of a template before it decides to make a new one; its
//! question has to be answered as if the change were allowed (Cluster API, `util/topology/topology.go`,
//! `IsDryRunRequest`). A rule in the schema could not tell the two apart, as it does not see dry runs.
//!
//! Only an update of a spec is asked about (`config/webhook-infrastructure/validating.yaml`). So while no manager is
//! there, templates can be made, labelled, owned and deleted, by `clusterctl move` or from a backup for instance, and a
//! change of a spec, which would be refused anyway, fails.

mod difference;
mod external;

use nephele_api::infrastructure::{GROUP, v1beta2::VERSION};
use nephele_webhook::{AdmissionRequest, Cause, Change, Denial, Webhook};
use serde_json::Value;

use self::difference::changed_fields;
pub use self::external::cluster_path;

/// With a dry run, the mark of the topology controller's question.
const TOPOLOGY_DRY_RUN: &str = "topology.cluster.x-k8s.io/dry-run";
/// What may not change.
const IMMUTABLE: &str = "spec.template.spec";
/// Fields that a denial names; who changes more of them reads enough.
const FIELDS_MAX: usize = 8;

/// A kind of templates.
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

    /// Where the API server sends its questions about the kind.
    #[must_use]
    pub fn path(self) -> String {
        format!("/validate-{}-{VERSION}-{}", GROUP.replace('.', "-"), self.as_str().to_lowercase())
    }
}

/// Adds the handlers of clusters and of all kinds of templates.
///
/// # Panics
/// When the webhook has handlers for their paths already.
#[must_use]
pub fn register(webhook: Webhook) -> Webhook {
    let webhook = webhook.validate::<Value, _, _>(cluster_path(), |request| {
        let decision = external::decide(&request);
        async move { decision.map(|()| Vec::new()) }
    });
    TemplateKind::ALL.into_iter().fold(webhook, |webhook, kind| {
        webhook.validate::<Value, _, _>(kind.path(), move |request| {
            let decision = decide(kind, &request);
            async move { decision.map(|()| Vec::new()) }
        })
    })
}

fn decide(kind: TemplateKind, request: &AdmissionRequest<Value>) -> Result<(), Denial> {
    let Change::Update { old, new } = &request.change else { return Ok(()) };
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
