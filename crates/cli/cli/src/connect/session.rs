//! The forwards that are open, and the lines that are printed about them.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::{
    task::JoinHandle,
    time::{Instant, interval},
};

use super::{
    clusters::Clusters,
    files::Destination,
    forward::{Forward, Forwarder},
    kubeconfig::Entry,
    lines::{explanation, line, say, teller},
    plan::{ClusterId, Current, Observed, Opening, Selection, Waiting, plan},
};
use crate::exit::{Exit, Problem};

/// How often a kubeconfig is read that does not exist yet. Also how soon a listener is opened again.
const RETRY: Duration = Duration::from_secs(2);

/// How often a kubeconfig is read again: its certificate is renewed long before it expires, after half a year.
const REFRESH: Duration = Duration::from_secs(300);

/// How many kubeconfigs are read at once.
const READS_MAX: usize = 8;

/// All forwards. Owned by the task that runs [`Session::run`].
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) forwarder: Forwarder,
    pub(super) pods: JoinHandle<()>,
    pub(super) destination: Destination,
    pub(super) selection: Selection,
    pub(super) forwards: BTreeMap<ClusterId, Forwarded>,
    pub(super) waiting: BTreeMap<ClusterId, Waiting>,
}

pub(super) struct Forwarded {
    current: Current,
    forward: Forward,
    /// In the kubeconfig that was written.
    entry: Option<Entry>,
    read_next: Instant,
    /// Why there is no kubeconfig.
    missing: Option<String>,
}

impl Session {
    /// Follows the clusters until something fails that will not pass.
    pub(super) async fn run(&mut self, clusters: &mut Clusters) -> anyhow::Result<()> {
        let mut tick = interval(RETRY);
        let mut lost = false;
        self.check(&clusters.observed())?;
        if clusters.observed().is_empty() {
            say("There are no clusters yet.");
        }
        loop {
            self.reconcile(&clusters.observed()).await?;
            self.write_kubeconfigs().await;
            tokio::select! {
                changed = clusters.changed() => match changed {
                    Ok(()) if std::mem::take(&mut lost) => say("The management cluster answers again."),
                    Ok(()) => {}
                    Err(error) if !std::mem::replace(&mut lost, true) => {
                        eprintln!("The management cluster does not answer, trying again: {}", nephele_controller::chain(&error));
                    }
                    Err(_) => {}
                },
                _ = tick.tick() => {}
                _ = &mut self.pods => anyhow::bail!("stopped to follow the manager's pods"),
            }
        }
    }

    /// Fails when a cluster that was asked for cannot be forwarded. Later, one that is gone may appear again.
    fn check(&self, observed: &BTreeMap<ClusterId, Observed>) -> Result<(), Problem> {
        for (id, waiting) in plan(&self.selection, observed, &BTreeMap::new()).waiting {
            match waiting {
                Waiting::Missing => {
                    let message = format!("there is no cluster {id}; `kubectl get clusters -A` shows all");
                    return Err(Problem::new(Exit::NotFound, message));
                }
                Waiting::NotOurs => {
                    let message =
                        format!("cluster {id} is of another infrastructure provider; reach it directly");
                    return Err(Problem::new(Exit::Failed, message));
                }
                Waiting::Starting => {}
            }
        }
        Ok(())
    }

    async fn reconcile(&mut self, observed: &BTreeMap<ClusterId, Observed>) -> Result<(), Problem> {
        let current = self
            .forwards
            .iter()
            .map(|(id, forwarded)| (id.clone(), forwarded.current.clone()));
        let plan = plan(&self.selection, observed, &current.collect());
        for id in plan.close {
            if let Some(Forwarded { entry, .. }) = self.forwards.remove(&id) {
                say(&format!("{id}: gone"));
                self.remove(&id, entry).await;
            }
        }
        for (id, waiting) in &plan.waiting {
            if self.waiting.get(id) != Some(waiting) {
                say(&format!("{id}: {}", explanation(*waiting)));
            }
        }
        self.waiting = plan.waiting;
        for opening in plan.open {
            self.open(opening).await?;
        }
        Ok(())
    }

    async fn open(&mut self, Opening { id, backend, label }: Opening) -> Result<(), Problem> {
        // The first shows whether we may forward at all.
        if self.forwards.is_empty() {
            self.forwarder.probe(&backend).await?;
        }
        let forward = match self.forwarder.open(backend.clone(), teller(id.clone())).await {
            Ok(forward) => forward,
            Err(error) => {
                eprintln!("{id}: failed to listen, trying again: {error}");
                return Ok(());
            }
        };
        let current = Current { backend, label };
        let forwarded = Forwarded {
            current,
            forward,
            entry: None,
            read_next: Instant::now(),
            missing: None,
        };
        self.forwards.insert(id, forwarded);
        Ok(())
    }

    /// Writes the kubeconfigs that are missing or may be out of date.
    async fn write_kubeconfigs(&mut self) {
        let now = Instant::now();
        let due = self
            .forwards
            .iter()
            .filter(|(_, forwarded)| forwarded.read_next <= now);
        let due: Vec<_> = due.map(|(id, _)| id.clone()).collect();
        let client = self.client.clone();
        let read = stream::iter(due).map(|id| {
            let client = client.clone();
            async move { (read(&client, &id).await, id) }
        });
        let mut read = read.buffer_unordered(READS_MAX);
        while let Some((text, id)) = read.next().await {
            let Some(forwarded) = self.forwards.get_mut(&id) else {
                continue;
            };
            match write(&self.destination, forwarded, text).await {
                Ok(None) => forwarded.read_next = now + REFRESH,
                Ok(Some(arguments)) => {
                    forwarded.read_next = now + REFRESH;
                    say(&line(&id, forwarded.forward.address, &arguments));
                }
                Err(reason) => {
                    forwarded.read_next = now + RETRY;
                    if forwarded.missing.as_ref() != Some(&reason) {
                        eprintln!(
                            "{id}: on https://{}, without kubeconfig: {reason}",
                            forwarded.forward.address
                        );
                        forwarded.missing = Some(reason);
                    }
                }
            }
        }
    }

    async fn remove(&self, id: &ClusterId, entry: Option<Entry>) {
        let Some(entry) = entry else { return };
        if let Err(error) = self.destination.remove(&[entry]).await {
            eprintln!("{id}: {}", nephele_controller::chain(error.as_ref()));
        }
    }

    /// Closes all ports and removes all kubeconfigs.
    pub(super) async fn close(self) -> anyhow::Result<()> {
        self.pods.abort();
        let entries: Vec<_> = self
            .forwards
            .into_values()
            .filter_map(|forwarded| forwarded.entry)
            .collect();
        self.destination.close(&entries).await
    }
}

/// The kubeconfig that Cluster API publishes, or why there is none.
async fn read(client: &Client, id: &ClusterId) -> Result<String, String> {
    let secrets = Api::<Secret>::namespaced(client.clone(), &id.namespace);
    let name = format!("{}-kubeconfig", id.name);
    let secret = match secrets.get_opt(&name).await {
        Ok(secret) => secret.ok_or_else(|| format!("waiting for Secret {name}"))?,
        Err(kube::Error::Api(status)) if status.code == 403 => {
            return Err(format!(
                "you need the permission to get secrets in namespace {}",
                id.namespace
            ));
        }
        Err(kube::Error::Api(status)) => return Err(status.message.clone()),
        Err(error) => return Err(nephele_controller::chain(&error)),
    };
    let value = secret.data.and_then(|mut data| data.remove("value"));
    let value = value.ok_or_else(|| format!("Secret {name} has no kubeconfig"))?;
    String::from_utf8(value.0).map_err(|_| format!("the kubeconfig in Secret {name} is not text"))
}

/// Writes a kubeconfig if it changed. Returns kubectl's arguments if it did.
async fn write(
    destination: &Destination,
    forwarded: &mut Forwarded,
    text: Result<String, String>,
) -> Result<Option<Vec<String>>, String> {
    let entry = Entry::new(&text?, &forwarded.current.label, forwarded.forward.address);
    let entry = entry.map_err(|error| nephele_controller::chain(&error))?;
    if forwarded.entry.as_ref() == Some(&entry) {
        return Ok(None);
    }
    let arguments = destination
        .put(&entry)
        .await
        .map_err(|error| nephele_controller::chain(error.as_ref()))?;
    forwarded.entry = Some(entry);
    forwarded.missing = None;
    Ok(Some(arguments))
}
