//! Runs the controller.

use std::{
    num::NonZeroU16,
    sync::{Arc, Once},
};

use futures::{FutureExt as _, StreamExt as _, channel::mpsc, future, future::BoxFuture};
use kube::{Client, runtime::watcher};
use nephele_api::cloud::v1alpha1::{Fault, Scenario};
use nephele_controller::{Cache, Gone, RunError, Runner, Services, WatchFilter, scoped};
use tokio_util::sync::CancellationToken;

use crate::{
    reconcile::{Context, is_over_and_let_go, reconcile, scenario_of},
    runs::Runs,
};

/// Scenarios that are read at a time where all are listed. Each has 1.5 MiB at most, as any object, so these take some
/// milliseconds and megabytes.
const PAGE: u32 = 2;

/// Which scenarios run, and how many are looked at at a time.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace to watch; none means all namespaces.
    pub watch_namespace: Option<String>,
    /// The value of the label `cluster.x-k8s.io/watch-filter` that a scenario must have; none means all scenarios.
    pub watch_filter: Option<String>,
    /// How many scenarios are looked at at a time. All of them run at the same time.
    pub concurrency: NonZeroU16,
    /// Whether a stand-in plays Cluster API. Scenarios that need Cluster API itself fail at once then.
    pub has_stand_in: bool,
}

/// Runs the controller until `shutdown`. `client` is for the Scenarios themselves, `steps` for what their steps read and
/// change, which their users choose.
///
/// The future is boxed so that this crate generates its code, once, and not every crate that awaits it.
///
/// # Errors
/// When the controller ends before `shutdown`.
pub fn run(
    client: Client,
    steps: Client,
    services: Services,
    settings: Settings,
    shutdown: CancellationToken,
) -> BoxFuture<'static, Result<(), RunError>> {
    Box::pin(async move {
        let Settings {
            watch_namespace,
            watch_filter,
            concurrency,
            has_stand_in,
        } = settings;
        let filter = WatchFilter::new(watch_filter.as_deref());
        let runner: Runner<Scenario> = Runner::of_large(
            "scenario",
            &services,
            scoped(client.clone(), watch_namespace.as_deref()),
            &filter,
            concurrency,
            PAGE,
        );
        // A request to create a Fault may arrive after its sender has given it up, and after its Scenario is over.
        let of_namespaces = scoped(client.clone(), watch_namespace.as_deref());
        let (faults, follow) = Cache::<Fault>::start(
            &services,
            of_namespaces,
            watcher::Config::default(),
            shutdown.clone(),
        );
        let known = runner.store();
        let runner = runner.watches(&faults, move |fault: &Fault| {
            let owner = scenario_of(fault)?;
            known
                .get(&owner)
                .filter(|object| is_over_and_let_go(object))
                .map(|_| owner)
        });
        let (woken, wake) = mpsc::unbounded();
        let runner = runner.reconcile_on(wake);
        let context = Arc::new(Context {
            client,
            steps,
            events: services.events.clone(),
            clock: services.clock.clone(),
            faults,
            scenarios: runner.store(),
            runs: Runs::default(),
            woken,
            has_stand_in,
        });
        let gone = runner.gone();
        let for_gone = Arc::clone(&context);
        let end_gone = gone.for_each(move |gone| {
            match gone {
                Gone::Object(object) => for_gone.end(&object),
                Gone::Any => for_gone.runs.end_gone(&for_gone.scenarios),
            }
            future::ready(())
        });
        let end_gone = shutdown.clone().run_until_cancelled_owned(end_gone).map(|_| ());
        let adopted = Once::new();
        let reconcile = move |object| {
            // By now the store has the whole first list.
            adopted.call_once(|| context.runs.adopt(&context.scenarios));
            reconcile(object, Arc::clone(&context))
        };
        let run = runner.run(reconcile, shutdown);
        future::join3(run, follow, end_gone)
            .map(|(result, (), ())| result)
            .await
    })
}
