//! Admission of pools: the checks before a pool is created, changed or deleted.
//!
//! ```text
//!  AdmissionRequest ──▶ spec: rules of the fields ──▶ in_use: IPAddresses of the pool, if needed ──▶ response
//! ```
//!
//! Paths, decisions and texts are those of the in-cluster IPAM provider, with three differences, each of which
//! allows more. A spec that does not change is not checked again, so an invalid pool can still be annotated and
//! lose its finalizer. An address that is already out of range does not prevent other changes. A pool that
//! `clusterctl move` deletes may still have addresses.

mod in_use;
mod spec;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Client, Resource,
    core::{ApiResource, object::HasSpec},
};
use nephele_api::{
    core::DELETE_FOR_MOVE_ANNOTATION,
    ipam::{
        GROUP, PoolKind, annotations, conversion,
        v1alpha2::{
            ALLOCATION_PREFIX_LENGTH_DEFAULT, GlobalInClusterIPPool, GlobalInClusterPrefixPool,
            InClusterIPPool, InClusterPrefixPool,
        },
    },
    names::{is_dns_label, is_dns_subdomain, shown},
};
use nephele_ipam::FieldError;
use nephele_webhook::{AdmissionRequest, Cause, Change, Denial, Webhook};
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::{
    in_use::{InUse, LookError},
    spec::PoolRules,
};

/// The message for a client that deletes a pool in use.
const IN_USE: &str =
    "Pool has IPAddresses allocated. Cannot delete Pool until all IPAddresses have been removed.";

/// Adds the handlers of all kinds of pools, and their conversion.
///
/// # Panics
/// When the webhook already has handlers for their paths, or a conversion.
#[must_use]
pub fn register(webhook: Webhook, client: &Client) -> Webhook {
    let webhook = validated::<InClusterIPPool>(webhook, client, PoolKind::InClusterIPPool);
    let webhook = validated::<GlobalInClusterIPPool>(webhook, client, PoolKind::GlobalInClusterIPPool);
    let webhook = validated::<InClusterPrefixPool>(webhook, client, PoolKind::InClusterPrefixPool);
    let webhook =
        validated::<GlobalInClusterPrefixPool>(webhook, client, PoolKind::GlobalInClusterPrefixPool);
    let webhook = PoolKind::ALL.into_iter().fold(webhook, |webhook, kind| {
        webhook.mutate(path("mutate", kind), move |_, pool| {
            if kind.has_prefixes() {
                fill_in_length(pool);
            }
        })
    });
    webhook.convert(GROUP, conversion::convert)
}

/// The path of the webhook for a kind; `verb` is `validate` or `mutate`.
#[must_use]
pub fn path(verb: &str, kind: PoolKind) -> String {
    format!(
        "/{verb}-ipam-cluster-x-k8s-io-v1alpha2-{}",
        kind.as_str().to_lowercase()
    )
}

fn validated<K>(webhook: Webhook, client: &Client, kind: PoolKind) -> Webhook
where
    K: Resource<DynamicType = ()> + HasSpec + DeserializeOwned + Send + Sync + 'static,
    K::Spec: PoolRules,
{
    let client = client.clone();
    webhook.validate::<K, _, _>(path("validate", kind), move |request| {
        let in_use = in_use(&client, kind, &request);
        async move {
            check_names(kind, &in_use.name, request.namespace.as_deref())?;
            decide(kind, request, &in_use).await
        }
    })
}

/// The pool of a review, with its addresses. A review of a deletion of many objects has the name only in the object.
fn in_use<K>(client: &Client, kind: PoolKind, request: &AdmissionRequest<K>) -> InUse
where
    K: Resource<DynamicType = ()>,
{
    let name = match &request.change {
        Change::Create(_) => None,
        Change::Update { old: pool, .. } | Change::Delete(pool) => pool.meta().name.clone(),
    };
    InUse {
        client: client.clone(),
        kind,
        resource: ApiResource::erase::<K>(&()),
        namespace: request.namespace.clone().filter(|_| kind.is_namespaced()),
        name: name.unwrap_or_else(|| request.name.clone()),
    }
}

/// Refuses a review with names that no API server sends. Anybody who reaches the port can send one, and the names become a
/// part of paths. The name is empty while it is to be generated.
fn check_names(kind: PoolKind, name: &str, namespace: Option<&str>) -> Result<(), Denial> {
    if !name.is_empty() && !is_dns_subdomain(name) {
        return Err(Denial::bad_request(format!(
            "the name {:?} is not a DNS subdomain",
            shown(name)
        )));
    }
    match namespace {
        Some(namespace) if !is_dns_label(namespace) => Err(Denial::bad_request(format!(
            "the namespace {:?} is not a DNS label",
            shown(namespace)
        ))),
        None if kind.is_namespaced() => Err(Denial::bad_request(format!("a {kind} must have a namespace"))),
        _ => Ok(()),
    }
}

/// Fills in the default length if it is missing or zero: zero means the default, but the schema does not accept it.
fn fill_in_length(pool: &mut Value) {
    let Some(spec) = pool["spec"].as_object_mut() else {
        return;
    };
    if spec
        .get("allocationPrefixLength")
        .is_none_or(|length| *length == 0)
    {
        spec.insert(
            "allocationPrefixLength".to_owned(),
            ALLOCATION_PREFIX_LENGTH_DEFAULT.into(),
        );
    }
}

async fn decide<K>(
    kind: PoolKind,
    request: AdmissionRequest<K>,
    in_use: &InUse,
) -> Result<Vec<String>, Denial>
where
    K: Resource<DynamicType = ()> + HasSpec,
    K::Spec: PoolRules,
{
    match &request.change {
        Change::Create(pool) => checked(kind, &request.name, pool.spec()),
        Change::Update { old, new } => {
            let uid = old.meta().uid.as_deref();
            let old = old.spec();
            let new = new.spec();
            if old == new {
                return Ok(new.warnings());
            }
            let warnings = checked(kind, &request.name, new)?;
            old.check_update(new, &[]).map_err(refused)?;
            if old.allows_more_than(new) {
                let addresses = in_use.list(uid).await.map_err(failed)?;
                old.check_update(new, &addresses).map_err(refused)?;
            }
            Ok(warnings)
        }
        Change::Delete(pool) if may_go_in_use(pool.meta()) => Ok(Vec::new()),
        Change::Delete(pool) => match in_use.any(pool.meta().uid.as_deref()).await {
            Ok(true) => Err(Denial::bad_request(IN_USE)),
            // It may have gone since the API server read it: one that is being deleted goes with its finalizer.
            Ok(false) | Err(LookError::OtherPool) => Ok(Vec::new()),
            Err(error) => Err(failed(error)),
        },
    }
}

fn checked<S: PoolRules>(kind: PoolKind, name: &str, spec: &S) -> Result<Vec<String>, Denial> {
    spec.check().map_err(|faults| {
        Denial::invalid(
            GROUP,
            kind.as_str(),
            name,
            faults.into_iter().map(cause).collect(),
        )
    })?;
    Ok(spec.warnings())
}

/// Whether the pool may be deleted although it has addresses in use.
fn may_go_in_use(meta: &ObjectMeta) -> bool {
    let annotations = meta.annotations.as_ref();
    [annotations::SKIP_DELETE_VALIDATION, DELETE_FOR_MOVE_ANNOTATION]
        .iter()
        .any(|name| annotations.is_some_and(|annotations| annotations.contains_key(*name)))
}

fn cause(fault: FieldError) -> Cause {
    let FieldError {
        field,
        value,
        message,
    } = fault;
    Cause {
        field: field.to_owned(),
        message: format!("Invalid value: {value}: {message}"),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn refused(error: nephele_ipam::UpdateError) -> Denial {
    Denial::bad_request(error.to_string())
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: LookError) -> Denial {
    let message = nephele_controller::chain(&error);
    match error {
        LookError::OtherPool => Denial::bad_request(message),
        LookError::Api(_) | LookError::TooMany => Denial::internal(message),
    }
}

#[cfg(test)]
mod tests;
