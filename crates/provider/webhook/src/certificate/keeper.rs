//! Keeps our own certificates in a Secret, renews them in time, and makes API servers trust them.

use std::{error::Error, fmt::Debug, future, sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::Secret,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt as _, watcher::watch_object},
};
use rustls_pki_types::PrivateKeyDer;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use thiserror::Error;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    ServedCertificate,
    injection::{Targets, into_configuration, into_definition},
    material::{Current, MaterialError, bring_up_to_date},
    secret,
};
use crate::metrics::Metrics;

/// The most attempts to write the Secret while other replicas change it at the same time.
const ATTEMPTS_MAX: usize = 5;
/// The pause after a failed turn. It doubles with each further failure, up to the longest pause.
const RETRY_AFTER: Duration = Duration::from_secs(5);
const RETRY_AFTER_MAX: Duration = Duration::from_mins(1);
/// How often everything is checked again without an event of a watch.
const RESYNC: Duration = Duration::from_hours(1);
/// Events within this time lead to one turn.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// The certificates to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keeping {
    pub namespace: String,
    pub secret: String,
    /// The DNS names under which the webhooks are called.
    pub dns_names: Vec<String>,
    /// The objects that need the CA bundle.
    pub targets: Targets,
}

impl Keeping {
    /// The names by which an API server calls a Service.
    #[must_use]
    pub fn names_of_service(name: &str, namespace: &str) -> Vec<String> {
        vec![
            format!("{name}.{namespace}.svc"),
            format!("{name}.{namespace}"),
            name.to_owned(),
        ]
    }
}

/// Why a turn failed.
#[derive(Debug, Error)]
pub enum KeepError {
    /// The Secret could not be read.
    #[error("failed to read the Secret of the webhooks' certificates")]
    Read(#[source] kube::Error),
    /// The Secret could not be written.
    #[error("failed to write the Secret of the webhooks' certificates")]
    Write(#[source] kube::Error),
    /// The Secret changed before each attempt to write it.
    #[error("failed to write the Secret of the webhooks' certificates: it changed before each attempt")]
    Contended,
    /// A Secret of that name exists, but does not belong to Nephele.
    #[error("failed to keep certificates in the Secret {0:?}: it does not have the label of Nephele")]
    Foreign(String),
    /// A certificate could not be made.
    #[error("failed to make certificates for the webhooks")]
    Material(#[source] MaterialError),
    /// TLS refused the certificate.
    #[error("failed to serve the certificate")]
    Serve(#[source] rustls::Error),
    /// The bundle could not be set.
    #[error("failed to set the CA bundle of {kind} {name}")]
    Inject {
        /// The kind of the object.
        kind: &'static str,
        name: String,
        #[source]
        source: kube::Error,
    },
}

/// Keeps certificates until `shutdown`: renews and serves them, and injects the CA bundle into the targets. Every
/// replica does so. Because of the precondition on the Secret, all replicas have the same authority.
pub async fn keep(
    client: Client,
    keeping: Keeping,
    certificate: ServedCertificate,
    metrics: Metrics,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    shutdown: CancellationToken,
) {
    let mut changes = Box::pin(changes(&client, &keeping));
    let mut pause = RETRY_AFTER;
    loop {
        let turn = turn(&client, &keeping, &certificate, &metrics, clock());
        let Some(result) = shutdown.run_until_cancelled(turn).await else {
            return;
        };
        let wait = match result {
            Ok(until) => {
                pause = RETRY_AFTER;
                let left = Duration::try_from(until.duration_since(clock())).unwrap_or_default();
                left.clamp(DEBOUNCE, RESYNC)
            }
            Err(error) => {
                warn!(
                    error = &error as &(dyn Error + 'static),
                    "Failed to keep the webhooks' certificates"
                );
                let now = pause;
                pause = (pause * 2).min(RETRY_AFTER_MAX);
                now
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = sleep(wait) => {}
            Some(()) = changes.next() => sleep(DEBOUNCE).await,
        }
    }
}

/// One turn: renews the stored certificates if needed, injects the CA bundle, and serves the certificate. Returns the
/// time of the next turn.
///
/// # Errors
/// When a step failed. A valid certificate is served in any case.
pub async fn turn(
    client: &Client,
    keeping: &Keeping,
    certificate: &ServedCertificate,
    metrics: &Metrics,
    now: Timestamp,
) -> Result<Timestamp, KeepError> {
    let stored = stored(client, keeping, now).await;
    metrics.read_certificate(
        stored
            .as_ref()
            .is_ok_and(|current| current.material.leaf().is_some()),
    );
    let Current { material, until, .. } = stored?;
    // The bundle is injected before the certificate is served, so that API servers trust it.
    let trusted = inject(client, &keeping.targets, &material.bundle(now)).await;
    if let Some(leaf) = material.leaf() {
        let key = PrivateKeyDer::Pkcs8(leaf.key.clone().into());
        if certificate
            .set(vec![leaf.certificate.clone()], key)
            .map_err(KeepError::Serve)?
        {
            info!(names = ?keeping.dns_names, "Serving a changed certificate");
        }
        metrics.expires(material.leaf_not_after().map_or(0, Timestamp::as_second));
    }
    trusted.map(|()| until)
}

/// Reads the Secret, and updates it if needed.
async fn stored(client: &Client, keeping: &Keeping, now: Timestamp) -> Result<Current, KeepError> {
    let Keeping {
        namespace,
        secret,
        dns_names,
        ..
    } = keeping;
    for _ in 0..ATTEMPTS_MAX {
        let mut seen = secret::read(client, namespace, secret)
            .await
            .map_err(KeepError::Read)?;
        if seen.is_foreign() {
            return Err(KeepError::Foreign(secret.clone()));
        }
        let current = bring_up_to_date(seen.material.take(), dns_names, now).map_err(KeepError::Material)?;
        if !current.changed {
            return Ok(current);
        }
        let written = secret::write(client, namespace, secret, seen, &current.material).await;
        if written.map_err(KeepError::Write)? {
            info!(secret, "Wrote certificates for the webhooks");
            return Ok(current);
        }
    }
    Err(KeepError::Contended)
}

/// Sets the bundle in all targets; returns the first failure after trying all.
async fn inject(client: &Client, targets: &Targets, bundle: &str) -> Result<(), KeepError> {
    let Targets {
        definitions,
        validating,
        mutating,
    } = targets;
    let mut result = Ok(());
    for name in definitions {
        let done = patch::<CustomResourceDefinition>(client, "CustomResourceDefinition", name, |object| {
            into_definition(object, bundle).map(Patch::Merge)
        });
        result = result.and(done.await);
    }
    let configuration = |object: &Value| {
        let operations = into_configuration(object, bundle)?;
        Some(Patch::Json(
            serde_json::from_value(operations).expect("operations of a JSON patch"),
        ))
    };
    for name in validating {
        let kind = "ValidatingWebhookConfiguration";
        result = result.and(patch::<ValidatingWebhookConfiguration>(client, kind, name, configuration).await);
    }
    for name in mutating {
        let kind = "MutatingWebhookConfiguration";
        result = result.and(patch::<MutatingWebhookConfiguration>(client, kind, name, configuration).await);
    }
    result
}

async fn patch<K>(
    client: &Client,
    kind: &'static str,
    name: &str,
    needed: impl Fn(&Value) -> Option<Patch<Value>>,
) -> Result<(), KeepError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let failed = |source| KeepError::Inject {
        kind,
        name: name.to_owned(),
        source,
    };
    let api: Api<K> = Api::all(client.clone());
    let Some(object) = api.get_opt(name).await.map_err(failed)? else {
        debug!(kind, name, "Did not find the object that needs the CA bundle");
        return Ok(());
    };
    let object = serde_json::to_value(object).expect("an object of the API is JSON");
    let Some(patch) = needed(&object) else {
        return Ok(());
    };
    api.patch(name, &PatchParams::default(), &patch)
        .await
        .map_err(failed)?;
    info!(kind, name, "Set the CA bundle");
    Ok(())
}

/// An item for each change of the Secret or a target.
fn changes(client: &Client, keeping: &Keeping) -> impl Stream<Item = ()> + Send + use<> {
    let Targets {
        definitions,
        validating,
        mutating,
    } = &keeping.targets;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &keeping.namespace);
    let mut all = vec![watched(secrets, &keeping.secret)];
    for name in definitions {
        all.push(watched(
            Api::<CustomResourceDefinition>::all(client.clone()),
            name,
        ));
    }
    for name in validating {
        all.push(watched(
            Api::<ValidatingWebhookConfiguration>::all(client.clone()),
            name,
        ));
    }
    for name in mutating {
        all.push(watched(
            Api::<MutatingWebhookConfiguration>::all(client.clone()),
            name,
        ));
    }
    stream::select_all(all)
}

fn watched<K>(api: Api<K>, name: &str) -> stream::BoxStream<'static, ()>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    // A turn reads the current state itself. A failed watch is retried and only delays the turn.
    watch_object(api, name)
        .default_backoff()
        .filter_map(|event| future::ready(event.ok().map(|_| ())))
        .boxed()
}
