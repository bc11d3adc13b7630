//! CPU time and memory of the controllers during a run, from their own metrics.
//!
//! ```text
//!  diagnostics of each controller ──▶ samples (pure) ──▶ use of each controller
//! ```

mod samples;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use anyhow::{anyhow, ensure};
use futures::future::join_all;
use http::Request;
use http_body_util::{BodyExt as _, Limited};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::ListParams, client::Body};
use samples::{CONTROLLERS_MAX, History, Sample};
pub(super) use samples::{ControllerUse, UsePoint};
use serde::de::DeserializeOwned;
use tokio::{
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tokio_util::sync::CancellationToken;

use super::plan::LABEL;
use crate::{
    diagnostics::{Account, AccountFor, Diagnostics, Target, targets},
    exit::Exit,
    manager_socket,
    provider::{self, NamespaceArgs},
};

/// The time between two samples of a controller.
const EVERY: Duration = Duration::from_secs(5);
/// How long reading the metrics of a controller may take.
const SCRAPE_MAX: Duration = Duration::from_secs(10);
/// The most bytes of metrics. Cluster API's core controller has about one mebibyte.
const BYTES_MAX: usize = 16 * 1024 * 1024;
/// The path of the metrics.
const METRICS: &str = "/metrics";
/// The labels that clusterctl and we give to the pods of a provider's manager.
const MANAGERS: &str = "cluster.x-k8s.io/provider,control-plane=controller-manager";

/// Samples the controllers until the run is over.
pub(super) struct Sampler {
    clock: Instant,
    stop: CancellationToken,
    account: Option<Account>,
    task: Option<JoinHandle<Histories>>,
}

type Histories = BTreeMap<String, History>;

impl Sampler {
    /// Takes a first sample, and continues in a task. The notes name what could not be measured; the run continues without
    /// it.
    pub(super) async fn start(
        client: &Client,
        socket: Option<&Path>,
        run: &str,
        time_limit: Duration,
    ) -> (Self, Vec<String>) {
        let stop = CancellationToken::new();
        let opened = match socket {
            Some(socket) => Sampling::of_processes(socket).await,
            None => Sampling::open(client, run, time_limit).await,
        };
        match opened {
            Ok((sampling, account, notes)) => {
                let clock = Instant::now();
                let task = tokio::spawn(sampling.until(stop.clone(), clock));
                (
                    Self {
                        clock,
                        stop,
                        account,
                        task: Some(task),
                    },
                    notes,
                )
            }
            Err(reason) => {
                let note = format!("CPU and memory of the controllers are not known: {reason}.");
                (
                    Self {
                        clock: Instant::now(),
                        stop,
                        account: None,
                        task: None,
                    },
                    vec![note],
                )
            }
        }
    }

    /// The start of the run.
    pub(super) fn clock(&self) -> Instant {
        self.clock
    }

    /// Ends the task and removes what it needed.
    pub(super) async fn finish(self) -> (Vec<ControllerUse>, Vec<String>) {
        self.stop.cancel();
        let histories = match self.task {
            Some(task) => task.await.unwrap_or_default(),
            None => Histories::new(),
        };
        let mut notes = Vec::new();
        if let Some(account) = self.account {
            notes.extend(
                account
                    .remove()
                    .await
                    .err()
                    .map(|error| nephele_controller::chain(error.as_ref())),
            );
        }
        (
            histories
                .iter()
                .filter_map(|(name, history)| history.summary(name))
                .collect(),
            notes,
        )
    }
}

/// Samples the controllers for a moment.
#[cfg(test)]
pub(crate) async fn sample(client: &Client) {
    let (sampler, _notes) = Sampler::start(client, None, "load-1", Duration::from_secs(60)).await;
    sampler.finish().await;
}

/// Reads the metrics of all controllers, again and again.
enum Sampling {
    /// Those of pods.
    Pods {
        diagnostics: Diagnostics,
        /// Where the controllers are, from objects that only cluster administrators write.
        namespaces: BTreeSet<String>,
    },
    /// Those of `nephele up --cluster-api`, behind its socket, with API server and etcd.
    Processes(Client),
}

impl Sampling {
    /// Reads the metrics of each process beside a `nephele up` once.
    async fn of_processes(socket: &Path) -> Result<(Self, Option<Account>, Vec<String>), String> {
        let sampling = Self::Processes(manager_socket::client(socket.to_owned()));
        let scraped = sampling.scrape_all().await?;
        let failures: Vec<_> = scraped.iter().filter_map(failure).collect();
        if failures.len() == scraped.len() {
            let first = failures.into_iter().next();
            return Err(first.unwrap_or_else(|| "there are no processes".to_owned()));
        }
        Ok((
            sampling,
            None,
            failures.iter().map(|reason| note(reason)).collect(),
        ))
    }

    /// Reads the metrics of each controller once. The error is the reason why none can be read.
    async fn open(
        client: &Client,
        run: &str,
        time_limit: Duration,
    ) -> Result<(Self, Option<Account>, Vec<String>), String> {
        let ours = provider::namespace(client, &NamespaceArgs::default()).await;
        let ours = match ours {
            Err(error) if error.exit == Exit::NotFound => {
                return Err(
                    "no manager here runs in a pod; those of `nephele up` are processes of its machine"
                        .to_owned(),
                );
            }
            found => found.map_err(|error| nephele_controller::chain(&error))?,
        };
        let mut namespaces = provider::namespaces_of_all(client)
            .await
            .map_err(|error| nephele_controller::chain(&error))?;
        namespaces.insert(ours.clone());
        let found = pods(client, &namespaces).await?;
        if found.is_empty() {
            return Err(format!("there are no pods with the labels {MANAGERS}"));
        }
        let mut diagnostics = Diagnostics::new(client.clone(), String::new())
            .map_err(|error| nephele_controller::chain(error.as_ref()))?;
        let account = match found.iter().any(|target| target.is_tls) {
            true => {
                let name = format!("nephele-load-{run}");
                let wanted = AccountFor {
                    name,
                    label: (LABEL, run),
                    path: METRICS,
                    verbs: &["get"],
                    namespace: None,
                    time_limit,
                };
                Some(
                    Account::create(client, &ours, None, wanted)
                        .await
                        .map_err(|error| nephele_controller::chain(error.as_ref()))?,
                )
            }
            false => None,
        };
        if let Some(account) = &account {
            diagnostics.set_token(account.token.clone());
        }
        let scraped = of_pods(&diagnostics, &found).await;
        let mut failures: Vec<_> = scraped.iter().filter_map(failure).collect();
        if failures.len() == scraped.len() {
            if let Some(account) = account {
                failures.extend(
                    account
                        .remove()
                        .await
                        .err()
                        .map(|error| nephele_controller::chain(error.as_ref())),
                );
            }
            return Err(failures.first().cloned().unwrap_or_default());
        }
        let sampling = Self::Pods {
            diagnostics,
            namespaces,
        };
        Ok((
            sampling,
            account,
            failures.iter().map(|reason| note(reason)).collect(),
        ))
    }

    async fn until(self, stop: CancellationToken, clock: Instant) -> Histories {
        let mut histories = Histories::new();
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_last = tokio::select! {
                _ = ticks.tick() => false,
                () = stop.cancelled() => true,
            };
            // A round that fails is left out.
            for (name, metrics) in self.scrape_all().await.unwrap_or_default() {
                let sample = metrics.ok().and_then(|text| Sample::read(clock.elapsed(), &text));
                if let Some(sample) = sample
                    && (histories.len() < CONTROLLERS_MAX || histories.contains_key(&name))
                {
                    histories.entry(name).or_default().push(sample);
                }
            }
            if is_last {
                return histories;
            }
        }
    }

    /// The metrics of all controllers, or why they cannot be read, by name. The pods are listed each time, because one may have been
    /// replaced.
    async fn scrape_all(&self) -> Result<Vec<(String, Result<String, String>)>, String> {
        match self {
            Self::Pods {
                diagnostics,
                namespaces,
            } => {
                let targets = pods(diagnostics.client(), namespaces).await?;
                Ok(of_pods(diagnostics, &targets).await)
            }
            Self::Processes(client) => {
                let names = within(asked::<Vec<String>>(client, "/processes")).await?;
                let one = async |name: String| {
                    let path = format!("/processes/{name}/metrics");
                    let metrics = within(text(client, &path)).await;
                    (name, metrics)
                };
                Ok(join_all(names.into_iter().take(CONTROLLERS_MAX).map(one)).await)
            }
        }
    }
}

/// The metrics of pods, or why they cannot be read, by name.
async fn of_pods(diagnostics: &Diagnostics, targets: &[Target]) -> Vec<(String, Result<String, String>)> {
    let one = async |target: &Target| (target.name.clone(), of_pod(diagnostics, target).await);
    join_all(targets.iter().map(one)).await
}

/// The metrics of a pod.
async fn of_pod(diagnostics: &Diagnostics, target: &Target) -> Result<String, String> {
    within(async {
        let answer = diagnostics.get(target, METRICS).await?;
        ensure!(
            answer.status.is_success(),
            "failed to read its metrics: {}",
            answer.status
        );
        answer.text(BYTES_MAX).await
    })
    .await
}

async fn text(client: &Client, path: &str) -> anyhow::Result<String> {
    let answer = client.send(Request::get(path).body(Body::empty())?).await?;
    let (parts, body) = answer.into_parts();
    ensure!(
        parts.status.is_success(),
        "failed to read {path}: {}",
        parts.status
    );
    let body = Limited::new(body, BYTES_MAX).collect().await;
    let body = body.map_err(|error| anyhow!("failed to read {path}: {error}"))?;
    Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
}

async fn asked<T: DeserializeOwned>(client: &Client, path: &str) -> anyhow::Result<T> {
    Ok(serde_json::from_str(&text(client, path).await?)?)
}

/// What is asked for, or why it is not known in time.
async fn within<T>(asked: impl Future<Output = anyhow::Result<T>>) -> Result<T, String> {
    match timeout(SCRAPE_MAX, asked).await {
        Ok(result) => result.map_err(|error| nephele_controller::chain(error.as_ref())),
        Err(_) => Err(format!("its metrics did not come within {SCRAPE_MAX:?}")),
    }
}

fn note(reason: &str) -> String {
    format!("CPU and memory of a controller are not known: {reason}.")
}

fn failure((name, metrics): &(String, Result<String, String>)) -> Option<String> {
    match metrics {
        Ok(text) if Sample::read(Duration::ZERO, text).is_some() => None,
        Ok(_) => Some(format!("{name} has no metrics of its process")),
        Err(error) => Some(format!("{name}: {error}")),
    }
}

async fn pods(client: &Client, namespaces: &BTreeSet<String>) -> Result<Vec<Target>, String> {
    let mut pods = Vec::new();
    for namespace in namespaces {
        let api = Api::<Pod>::namespaced(client.clone(), namespace);
        let listed = api.list(&ListParams::default().labels(MANAGERS)).await;
        let listed = listed
            .map_err(|error| format!("failed to list their pods: {}", nephele_controller::chain(&error)))?;
        pods.extend(listed.items);
    }
    Ok(targets(&pods, CONTROLLERS_MAX))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::up::usage;

    #[tokio::test]
    async fn processes_of_an_up_are_measured_by_its_socket_whatever_has_become_of_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = manager_socket::listen(folder.path()).expect("it listens");
        let socket = folder.path().join("manager.sock");
        let ids = [("gone", u32::MAX), ("own", std::process::id())];
        let routes = usage::routes(ids.map(|(name, id)| (name.to_owned(), id)).into());
        let stop = CancellationToken::new();
        let serving = tokio::spawn(manager_socket::serve(listener, routes, stop.clone()));
        let (sampling, account, notes) = Sampling::of_processes(&socket).await.expect("one is known");
        let [note] = &notes[..] else { panic!("{notes:?}") };
        assert!(account.is_none() && note.contains("gone: "), "{note}");
        let scraped = sampling.scrape_all().await.expect("it answers");
        let known: Vec<_> = scraped
            .iter()
            .map(|one| (one.0.as_str(), failure(one).is_none()))
            .collect();
        assert_eq!(known, [("gone", false), ("own", true)]);
        stop.cancel();
        serving.await.expect("no panic").expect("it ends");
    }
}
