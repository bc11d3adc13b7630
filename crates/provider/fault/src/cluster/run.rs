//! Runs the controller.

use std::{num::NonZeroU16, sync::Arc};

use futures::{FutureExt as _, Stream, StreamExt as _, future, future::BoxFuture};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt as _,
    runtime::{
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use nephele_api::cloud::v1alpha1::{ClusterFault, Fault, FaultSpec};
use nephele_controller::{Cache, Gone, RunError, Runner, Services, StatusThrottle, WatchFilter};
use tokio_util::sync::CancellationToken;

use super::{
    plan::{cluster_fault_of, fault_name},
    reconcile::{Context, reconcile},
    refusals::Refusals,
    selection::namespaces_of,
};

/// Which ClusterFaults a provider takes care of, and how many at a time.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the controller, for metrics and its readiness gate.
    pub name: &'static str,
    /// Which ClusterFaults belong to this manager.
    pub watch_filter: WatchFilter,
    /// Whether the provider carries out Faults of a spec.
    pub carries_out: fn(&FaultSpec) -> bool,
    /// How many ClusterFaults are looked at at a time.
    pub concurrency: NonZeroU16,
}

/// Runs the controller until `shutdown`. Only for managers of all namespaces: it watches Namespaces. `faults` has the Faults
/// of all namespaces.
///
/// The future is boxed so that this crate generates its code, once, and not every crate that awaits it.
///
/// # Errors
/// When the controller ends before `shutdown`.
pub fn run(
    client: Client,
    services: &Services,
    faults: &Cache<Fault>,
    settings: Settings,
    shutdown: CancellationToken,
) -> BoxFuture<'static, Result<(), RunError>> {
    let Settings {
        name,
        watch_filter,
        carries_out,
        concurrency,
    } = settings;
    let everything = watcher::Config::default();
    let (namespaces, follow) =
        Cache::<Namespace>::start(services, Api::all(client.clone()), everything, shutdown.clone());
    let runner: Runner<ClusterFault> = Runner::new(
        name,
        services,
        Api::all(client.clone()),
        &watch_filter,
        concurrency,
    );
    let context = Arc::new(Context {
        client,
        clock: services.clock.clone(),
        namespaces: namespaces.clone(),
        faults: faults.clone(),
        carries_out,
        status_throttle: StatusThrottle::default(),
        refusals: Refusals::default(),
    });
    let forget = forget(Arc::clone(&context), runner.store(), runner.gone());
    let forget = shutdown.clone().run_until_cancelled_owned(forget);
    let of_namespace = runner.store();
    let of_fault = runner.store();
    let known = faults.clone();
    let runner = runner
        .watches(&namespaces, move |namespace: &Namespace| {
            let objects = of_namespace.state();
            let concerned = objects
                .iter()
                .filter(|object| concerns(object, namespace, &known));
            concerned
                .map(|object| ObjectRef::new(&object.name_any()))
                .collect::<Vec<_>>()
        })
        .watches(faults, move |fault: &Fault| {
            let reference = ObjectRef::new(cluster_fault_of(&fault.name_any())?);
            of_fault.get(&reference).map(|_| reference)
        });
    let run = async move {
        let run = runner.run(move |object| reconcile(object, Arc::clone(&context)), shutdown);
        future::join3(run, follow, forget)
            .map(|(result, (), _)| result)
            .await
    };
    run.boxed()
}

/// Whether a change of a namespace can change what a ClusterFault does there.
fn concerns(object: &ClusterFault, namespace: &Namespace, faults: &Cache<Fault>) -> bool {
    let is_selected = namespaces_of(&object.spec).fits(namespace.labels());
    is_selected
        || faults
            .get(&namespace.name_any(), &fault_name(&object.name_any()))
            .is_some()
}

/// Forgets ClusterFaults that are gone.
async fn forget(
    context: Arc<Context>,
    store: Store<ClusterFault>,
    gone: impl Stream<Item = Gone<ClusterFault>>,
) {
    let mut gone = std::pin::pin!(gone);
    while let Some(gone) = gone.next().await {
        let replaced = match &gone {
            // Another ClusterFault may have its name by now.
            Gone::Object(object) => object.name_any(),
            Gone::Any => String::new(),
        };
        let is_there = |name: &str| name != replaced && store.get(&ObjectRef::new(name)).is_some();
        context.status_throttle.retain(|name| is_there(name));
        context.refusals.retain(is_there);
    }
}
