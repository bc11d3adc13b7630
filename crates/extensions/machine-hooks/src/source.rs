//! Keeps the registry in step with `CloudExtensionConfig`s. The Runtime SDK reconciles each object; this module
//! decides when.

use std::{num::NonZeroU16, sync::Arc};

use futures::{FutureExt as _, StreamExt as _, future, stream::BoxStream};
use kube::{
    Api, ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};
use nephele_api::cloud::v1alpha1::CloudExtensionConfig;
use nephele_controller::{
    Clock, Gone, Listed, Outcome, ReconcileError, Retry, RunError, Runner, Services, WatchFilter, chain,
    kube_category, kube_retry,
};
use nephele_runtime_sdk::{
    client::{
        Client, Metrics, Registry, WarmUp, WarmedUp,
        extension_config::{
            KubeNamespaces, Mode, Next, Reconciler, ReconcilerError, WarmUpError, WarmUpSettings,
        },
        extension_of,
    },
    hooks::Hook as _,
};
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    call::CloudHooks,
    hooks::{AfterMachineDelete, BeforeMachineCreate, catalog},
    kind::Registered,
};

/// Extensions reconciled at a time. Each may take the ten seconds of a discovery timeout.
const CONCURRENCY: NonZeroU16 = NonZeroU16::new(10).expect("ten");

/// Why extensions are no longer registered.
#[derive(Debug, Error)]
pub enum Error {
    /// The controller ended.
    #[error("the controller of extensions failed")]
    Controller(#[source] RunError),
}

/// Returns the caller of extensions, and a future that keeps the registered extensions up to date until `shutdown`.
/// Until they are known, machines wait: `warm_up` limits for how long. Without extensions nothing is called, and only one
/// watch is open. Only extensions that `filter` selects are registered: other managers write the status of the others.
pub fn start(
    kube: kube::Client,
    services: &Services,
    filter: &WatchFilter,
    metrics: Metrics,
    warm_up: WarmUpSettings,
    shutdown: CancellationToken,
) -> (CloudHooks, impl Future<Output = Result<(), Error>> + Send + use<>) {
    let client = Client::builder(catalog())
        .registry(Registry::new())
        .namespaces(KubeNamespaces::new(kube.clone()))
        .metrics(metrics)
        .build();
    let hooks = CloudHooks::new(client.clone());
    let runner = Runner::<CloudExtensionConfig>::new(
        "cloudextensionconfig",
        services,
        Api::all(kube.clone()),
        filter,
        CONCURRENCY,
    );
    let reconciler = Reconciler::<Registered>::new(kube, client, Mode::ReadWrite);
    let reconciler = Arc::new(match filter.selector() {
        Some(selector) => reconciler.selecting(&selector),
        None => reconciler,
    });
    let prepare = prepare(
        Arc::clone(&reconciler),
        hooks.clone(),
        runner.store(),
        runner.listed(),
        runner.gone().boxed(),
        warm_up,
        Arc::clone(&services.clock),
    );
    let prepare = shutdown
        .clone()
        .run_until_cancelled_owned(prepare)
        .map(|_| Ok(()));
    let told = hooks.clone();
    let clock = Arc::clone(&services.clock);
    let store = runner.store();
    let run = runner.run(
        move |object| {
            reconcile(
                object,
                Arc::clone(&reconciler),
                told.clone(),
                store.clone(),
                Arc::clone(&clock),
            )
        },
        shutdown,
    );
    let run = run.map(|result| result.map_err(Error::Controller));
    (
        hooks,
        future::try_join(run, prepare).map(|result| result.map(drop)),
    )
}

/// Why an extension could not be registered.
#[derive(Debug, Error)]
#[error(transparent)]
struct Unregistered(#[from] ReconcilerError);

impl ReconcileError for Unregistered {
    fn category(&self) -> &'static str {
        match &self.0 {
            ReconcilerError::Read { source, .. }
            | ReconcilerError::Patch { source, .. }
            | ReconcilerError::Secret { source, .. } => kube_category(source),
            other => other.category(),
        }
    }

    fn retry(&self) -> Retry {
        match &self.0 {
            ReconcilerError::Read { source, .. }
            | ReconcilerError::Patch { source, .. }
            | ReconcilerError::Secret { source, .. } => kube_retry(source),
            ReconcilerError::Understand { .. } => Retry::WaitForChange,
            ReconcilerError::Inject(_)
            | ReconcilerError::Discover(_)
            | ReconcilerError::Unusable { .. }
            | ReconcilerError::Registry(_) => Retry::BackOff,
        }
    }
}

async fn reconcile(
    object: Arc<CloudExtensionConfig>,
    reconciler: Arc<Reconciler<Registered>>,
    hooks: CloudHooks,
    store: Store<CloudExtensionConfig>,
    clock: Clock,
) -> Result<Outcome, Unregistered> {
    let next = reconciler.reconcile(&object.name_any(), || clock()).await?;
    // If the object was deleted during discovery, its removal was handled before it was registered here.
    forget_gone([object.name_any()], hooks.client().registry(), &store);
    Ok(match next {
        // The registry is not warmed up yet.
        Next::After(wait) => Outcome::After(wait),
        Next::OnChange => {
            hooks.changed();
            Outcome::Done
        }
    })
}

/// Registers the existing extensions at the start, and from then on removes those whose objects are deleted.
async fn prepare(
    reconciler: Arc<Reconciler<Registered>>,
    hooks: CloudHooks,
    store: Store<CloudExtensionConfig>,
    listed: Listed,
    mut gone: BoxStream<'static, Gone<CloudExtensionConfig>>,
    settings: WarmUpSettings,
    clock: Clock,
) {
    if !listed.wait().await {
        // The controller has ended.
        return;
    }
    let registry = hooks.client().registry().clone();
    let now = || clock();
    loop {
        let warmed_up = if store.state().is_empty() {
            registry
                .warm_up([], WarmUp::Isolated)
                .map_err(WarmUpError::Registry)
        } else {
            // The warm-up waits between its attempts, and some time passes before the next warm-up.
            reconciler.warm_up(settings, now).await
        };
        match warmed_up {
            Ok(warmed_up) => {
                tell(&warmed_up);
                break;
            }
            Err(error) => warn!(error = chain(&error), "Extensions are not known yet"),
        }
    }
    hooks.changed();
    while let Some(gone) = gone.next().await {
        let names = match gone {
            Gone::Object(object) => vec![object.name_any()],
            Gone::Any => registered(&registry),
        };
        forget_gone(names, &registry, &store);
        hooks.changed();
    }
}

/// Removes extensions whose objects no longer exist.
fn forget_gone(
    names: impl IntoIterator<Item = String>,
    registry: &Registry,
    store: &Store<CloudExtensionConfig>,
) {
    for name in names
        .into_iter()
        .filter(|name| store.get(&ObjectRef::new(name)).is_none())
    {
        if registry.remove(&name).is_ok() {
            info!(
                extension = name,
                "Removed an extension whose CloudExtensionConfig is gone"
            );
        }
    }
}

fn tell(warmed_up: &WarmedUp) {
    let WarmedUp {
        registered,
        last_known,
        unavailable,
    } = warmed_up;
    if !registered.is_empty() {
        info!(extensions = ?registered, "Registered extensions for the hooks of machines");
    }
    for (extension, error) in last_known {
        warn!(
            extension,
            error, "Extension does not answer; keeping its known handlers"
        );
    }
    for (extension, error) in unavailable {
        warn!(
            extension,
            error, "Extension does not answer; creating machines without it"
        );
    }
}

/// The extensions that have a handler for one of our hooks.
fn registered(registry: &Registry) -> Vec<String> {
    let hooks = [BeforeMachineCreate::id(), AfterMachineDelete::id()];
    let handlers = hooks
        .iter()
        .flat_map(|hook| registry.handlers(hook).unwrap_or_default());
    let mut names: Vec<String> = handlers
        .filter_map(|handler| extension_of(&handler).ok().map(str::to_owned))
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{ByteString, api::core::v1::Secret};
    use kube::{
        api::PostParams,
        runtime::{reflector, watcher::Event},
    };
    use nephele_api::cloud::v1alpha1::{CloudExtensionConfigSpec, ExtensionClientConfig};
    use nephele_runtime_sdk::client::{ClientConfig, Registration, extension_config::INJECT_CA_ANNOTATION};
    use nephele_testkit::ManagementApi;

    use super::*;

    /// As with an ExtensionConfig, an annotation names the Secret with the authority of the extension's
    /// certificate.
    #[tokio::test]
    async fn the_authority_in_a_secret_becomes_the_bundle_of_the_object_that_names_it() {
        let api = ManagementApi::start();
        let mut secret = Secret::default();
        secret.metadata.name = Some("serving".into());
        secret.metadata.namespace = Some("default".into());
        secret.data = Some([("ca.crt".to_owned(), ByteString(b"authority".to_vec()))].into());
        api.create(&secret).await;
        let client_config = ExtensionClientConfig {
            url: "https://localhost:1".into(),
            ..ExtensionClientConfig::default()
        };
        let spec = CloudExtensionConfigSpec {
            client_config,
            ..CloudExtensionConfigSpec::default()
        };
        let mut object = CloudExtensionConfig::new("quota", spec);
        object.metadata.annotations =
            Some([(INJECT_CA_ANNOTATION.to_owned(), "default/serving".to_owned())].into());
        let objects: Api<CloudExtensionConfig> = Api::all(api.client());
        objects
            .create(&PostParams::default(), &object)
            .await
            .expect("a valid object");

        let registry = Registry::of([]).expect("an empty registry");
        let client = Client::builder(catalog()).registry(registry).build();
        let reconciler = Reconciler::<Registered>::new(api.client(), client, Mode::ReadWrite);
        let said = reconciler.reconcile("quota", jiff::Timestamp::now).await;
        assert!(
            matches!(said, Ok(Next::OnChange)),
            "it says first that it is not paused: {said:?}"
        );
        let _ = api.take_writes();
        // Nothing listens at this address.
        let discovered = reconciler.reconcile("quota", jiff::Timestamp::now).await;
        assert!(
            matches!(discovered, Err(ReconcilerError::Discover(_))),
            "{discovered:?}"
        );
        let found = objects.get("quota").await.expect("the object");
        let bundle = found.spec.client_config.ca_bundle.expect("a bundle");
        assert_eq!(serde_json::to_value(&bundle).expect("JSON"), "YXV0aG9yaXR5");
        let written: Vec<_> = api
            .take_writes()
            .into_iter()
            .map(|write| format!("{} {}", write.verb, write.resource))
            .collect();
        // The ClusterRole has to allow these writes.
        assert_eq!(
            written,
            [
                "patch cloudextensionconfigs",
                "patch cloudextensionconfigs/status"
            ]
        );
        let role = include_str!("../../../../config/rbac/role.yaml");
        assert!(role.contains("resources: [cloudextensionconfigs]\n    verbs: [get, list, watch, patch]\n"));
    }

    #[test]
    fn an_extension_whose_object_is_gone_is_forgotten() {
        let (store, mut writer) = reflector::store::<CloudExtensionConfig>();
        let here = CloudExtensionConfig::new("here", Default::default());
        for event in [Event::Init, Event::InitApply(here), Event::InitDone] {
            writer.apply_watcher_event(&event);
        }
        let registration = |name: &str| Registration {
            name: name.to_owned(),
            client_config: ClientConfig {
                url: "https://extension.example".into(),
                ..ClientConfig::default()
            },
            ..Registration::default()
        };
        let registry = Registry::of(["here", "gone"].map(registration)).expect("registrations");
        forget_gone(["here", "gone", "never"].map(str::to_owned), &registry, &store);
        assert_eq!(
            ["here", "gone"].map(|name| registry.circuit(name).is_some()),
            [true, false]
        );
    }
}
