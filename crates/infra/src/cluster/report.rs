//! Says how a cluster is: one patch of its status, skipped when nothing changed.

use jiff::Timestamp;
use kube::{Api, ResourceExt as _};
use nephele_api::conditions::{self, condition, reasons, types};
use nephele_api::infrastructure::v1beta2::{InMemoryCluster, InMemoryClusterStatus, Initialization};
use nephele_kit::{PatchError, Precondition, patch};

use super::act::{Applied, Certificates};
use crate::context::Context;

pub(super) async fn provided(
    object: &InMemoryCluster,
    context: &Context,
    applied: &Applied,
    now: Timestamp,
) -> Result<(), PatchError> {
    write(object, context, status(object, applied, now)).await
}

pub(super) async fn paused(
    object: &InMemoryCluster,
    context: &Context,
    message: &str,
    now: Timestamp,
) -> Result<(), PatchError> {
    let mut status = object.status.clone().unwrap_or_default();
    let paused = condition(types::PAUSED, conditions::TRUE, reasons::PAUSED, message);
    conditions::set(&mut status.conditions, paused, now);
    write(object, context, status).await
}

async fn write(
    object: &InMemoryCluster,
    context: &Context,
    status: InMemoryClusterStatus,
) -> Result<(), PatchError> {
    let api: Api<InMemoryCluster> =
        Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default());
    let mut reported = object.clone();
    reported.status = Some(status);
    patch::status(&api, object, &reported, Precondition::None).await.map(drop)
}

/// The status that follows from what was applied. Pure.
fn status(object: &InMemoryCluster, applied: &Applied, now: Timestamp) -> InMemoryClusterStatus {
    let mut status = object.status.clone().unwrap_or_default();
    let mut set = |condition| {
        conditions::set(&mut status.conditions, condition, now);
    };
    set(condition(types::PAUSED, conditions::FALSE, reasons::NOT_PAUSED, ""));
    let balancer = match &applied.endpoint {
        Ok(_) => condition(types::LOAD_BALANCER_AVAILABLE, conditions::TRUE, reasons::AVAILABLE, ""),
        Err(error) => condition(
            types::LOAD_BALANCER_AVAILABLE,
            conditions::FALSE,
            error.category(),
            nephele_kit::chain(error),
        ),
    };
    let fault = (balancer.status == "False").then(|| balancer.message.clone());
    set(balancer);
    let fault = match &applied.certificates {
        Certificates::Missing => fault,
        Certificates::InUse => {
            set(condition(
                types::CERTIFICATE_AUTHORITIES_AVAILABLE,
                conditions::TRUE,
                reasons::AVAILABLE,
                "",
            ));
            fault
        }
        Certificates::Invalid(message) => {
            set(condition(
                types::CERTIFICATE_AUTHORITIES_AVAILABLE,
                conditions::FALSE,
                reasons::INVALID_CERTIFICATE_AUTHORITY,
                message,
            ));
            fault.or_else(|| Some(message.clone()))
        }
    };
    set(match fault {
        None => condition(types::READY, conditions::TRUE, reasons::READY, ""),
        Some(message) => condition(types::READY, conditions::FALSE, reasons::NOT_READY, message),
    });
    if applied.endpoint.is_ok() {
        status.initialization = Some(Initialization { provisioned: Some(true) });
        status.failure_domains.clone_from(&object.spec.failure_domains);
        status.failure_domains.sort_by(|a, b| a.name.cmp(&b.name));
    }
    status
}
