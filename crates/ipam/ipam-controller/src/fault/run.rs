//! Runs the controllers of Faults of addresses, and wakes the claims and pools that have new answers.

use std::{mem, num::NonZeroU16, sync::Arc, time::Duration};

use futures::{Stream, future, stream};
use kube::{
    Api, Client, Resource,
    runtime::{reflector::ObjectRef, watcher},
};
use nephele_api::{
    cloud::{
        GROUP,
        v1alpha1::{self, ClusterFault, Fault},
    },
    ipam::v1beta2::IPAddressClaim,
};
use nephele_controller::{Cache, Listing, RunError, Runner, Services, chain, own_task, scoped};
use nephele_fault::{FaultController, Target as _, cluster, reference_to};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use super::{subject::Subject, target::Addresses};
use crate::context::Context;

/// How long to wait before checking again whether the kind is installed.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// How long to wait before checking again when there was no answer: claims wait for it.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The Faults whose status has to change.
fn listen(context: Arc<Context>) -> impl Stream<Item = ObjectRef<Fault>> + Send + 'static {
    stream::unfold(context, |context| async move {
        loop {
            let shared = Arc::clone(&context);
            let changed = shared.faults.changed.notified();
            let next = context.faults.address_faults.lock().take_changed();
            if let Some(id) = next {
                return Some((reference_to(&id), context));
            }
            changed.await;
        }
    })
}

impl Context {
    /// A claim, as Faults see it.
    pub(crate) fn subject(&self, claim: &IPAddressClaim) -> Subject {
        Subject::new(claim, self.cluster_of(claim))
    }

    /// Wakes claims and pools of the namespaces whose Faults have changed, until `shutdown`. A ClusterFault changes those of
    /// thousands of namespaces at a time, and one walk over the claims serves all that have changed meanwhile.
    async fn wake_due(&self, shutdown: &CancellationToken) {
        while shutdown
            .run_until_cancelled(self.faults.has_due.notified())
            .await
            .is_some()
        {
            let due = mem::take(&mut *self.faults.due.lock());
            self.wake_claims(|claim| {
                let waits = claim.address_name().is_none() || claim.metadata.deletion_timestamp.is_some();
                waits
                    && claim
                        .metadata
                        .namespace
                        .as_ref()
                        .is_some_and(|namespace| due.contains(namespace))
            });
            self.pools
                .used_from(&due)
                .iter()
                .for_each(|pool| pool.look_again());
        }
    }
}

/// Follows the Faults of a namespace, or of all, until `shutdown`. Tells the readers of `first_list` when claims can be
/// served: when all Faults are known, or when the management API does not have the kind. Then it waits for the kind.
pub(crate) async fn follow(
    context: Arc<Context>,
    services: Services,
    concurrency: NonZeroU16,
    first_list: Listing,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    let told = || {
        if !first_list.finished() {
            info!("No Faults of addresses are carried out until their kind is installed");
        }
    };
    if !await_kind::<Fault>(&context.client, told, &shutdown).await {
        return Ok(());
    }
    let run_cluster_faults = run_cluster_faults(
        Arc::clone(&context),
        services.clone(),
        concurrency,
        shutdown.clone(),
    );
    let api = scoped(context.client.clone(), context.watch_namespace.as_deref());
    let runner = Runner::<Fault>::new("addressfault", &services, api, &context.filter, concurrency);
    let store = runner.store();
    let listed = runner.listed();
    let gone = runner.gone();
    let target = Addresses::new(Arc::clone(&context));
    let controller = Arc::new(FaultController::new(
        target,
        context.client.clone(),
        context.clock.clone(),
        context.events.clone(),
    ));
    let put_all = async {
        if listed.wait().await {
            controller.put_all(store.state().iter().map(|object| &**object));
            first_list.finished();
        }
    };
    let forget = controller.forget(store.clone(), gone);
    let due = {
        let context = Arc::clone(&context);
        let shutdown = shutdown.clone();
        async move { context.wake_due(&shutdown).await }
    };
    let wake = own_task("claims of Faults", due);
    let rest = shutdown.run_until_cancelled(future::join3(put_all, forget, wake));
    let for_faults = Arc::clone(&controller);
    let run = runner.reconcile_on(listen(Arc::clone(&context))).run(
        move |object| {
            let controller = Arc::clone(&for_faults);
            async move { controller.reconcile(&object).await }
        },
        shutdown.clone(),
    );
    let run = future::try_join(run, own_task("ClusterFaults of addresses", run_cluster_faults));
    future::join(run, rest).await.0.map(drop)
}

/// Makes the Faults of ClusterFaults of addresses, once the kind is installed. Not in a manager of one namespace, which sees no
/// others.
async fn run_cluster_faults(
    context: Arc<Context>,
    services: Services,
    concurrency: NonZeroU16,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    if context.watch_namespace.is_some()
        || !await_kind::<ClusterFault>(&context.client, || {}, &shutdown).await
    {
        return Ok(());
    }
    // A ClusterFault has to see who has the name of its Fault.
    let everything = watcher::Config::default();
    let api = Api::all(context.client.clone());
    let (faults, follow_faults) = Cache::<Fault>::start(&services, api, everything, shutdown.clone());
    let settings = cluster::Settings {
        name: "addressclusterfault",
        watch_filter: context.filter.clone(),
        carries_out: Addresses::is_for,
        concurrency,
    };
    let run = cluster::run(context.client.clone(), &services, &faults, settings, shutdown);
    future::join(run, follow_faults).await.0
}

/// Waits until the management API serves a kind of Faults; false on `shutdown`. Calls `told` whenever it does not.
async fn await_kind<K: Resource<DynamicType = ()>>(
    client: &Client,
    told: impl Fn(),
    shutdown: &CancellationToken,
) -> bool {
    let group = format!("{GROUP}/{}", v1alpha1::VERSION);
    let plural = K::plural(&());
    loop {
        let Some(answer) = shutdown
            .run_until_cancelled(client.list_api_group_resources(&group))
            .await
        else {
            return false;
        };
        let is_missing = match &answer {
            Ok(list) => !list.resources.iter().any(|resource| resource.name == plural),
            Err(kube::Error::Api(status)) => matches!(status.code, 403 | 404),
            Err(_) => false,
        };
        let wait = match answer {
            Ok(_) if !is_missing => return true,
            Err(error) if !is_missing => {
                debug!(error = %chain(&error), "Failed to check for Faults");
                ASK_AGAIN
            }
            Ok(_) | Err(_) => {
                told();
                LOOK_AGAIN
            }
        };
        if shutdown.run_until_cancelled(sleep(wait)).await.is_none() {
            return false;
        }
    }
}
