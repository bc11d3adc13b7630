//! The manager's pods and the holders of their leases, as they change.

use std::{collections::BTreeMap, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, Client,
    api::ListParams,
    runtime::{
        WatchStreamExt as _, reflector, watcher as watch,
        watcher::{self, Event},
    },
};
use tokio::{sync::watch as latest, task::JoinHandle, time::interval};

use crate::{
    exit::{Exit, Problem},
    provider::{LeaseId, MANAGER_PODS, ManagerPod, Managers, no_pod},
};

/// How often leases are read for which several pods compete. A manager renews its lease as often.
const LEASES_EVERY: Duration = Duration::from_secs(2);

/// Follows the manager's pods in its namespace until the task is aborted.
pub(super) async fn follow(
    client: &Client,
    namespace: &str,
) -> anyhow::Result<(latest::Receiver<Managers>, JoinHandle<()>)> {
    let api = Api::<Pod>::namespaced(client.clone(), namespace);
    let permission = format!("list pods in namespace {namespace}");
    let listed = api.list(&ListParams::default().labels(MANAGER_PODS)).await;
    let listed = listed.map_err(|error| Problem::request("find the manager's pod", &permission, error))?;
    if listed.items.is_empty() {
        return Err(Problem::new(Exit::NotFound, no_pod(namespace)).into());
    }
    let pods = listed.items.iter().map(ManagerPod::of).collect();
    let managers = Managers {
        pods,
        holders: BTreeMap::new(),
    };
    let (sender, receiver) = latest::channel(with_holders(client, managers).await);
    Ok((receiver, tokio::spawn(publish(client.clone(), api, sender))))
}

async fn publish(client: Client, api: Api<Pod>, sender: latest::Sender<Managers>) {
    let (store, writer) = reflector::store();
    let config = watcher::Config::default().labels(MANAGER_PODS);
    let mut events = reflector(writer, watch(api, config)).default_backoff().boxed();
    let mut leases = interval(LEASES_EVERY);
    let mut listed = false;
    loop {
        tokio::select! {
            event = events.next() => listed |= matches!(event, Some(Ok(Event::InitDone))),
            _ = leases.tick() => {}
        }
        if !listed {
            continue;
        }
        let mut pods: Vec<_> = store.state().iter().map(|pod| ManagerPod::of(pod)).collect();
        pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        let holders = sender.borrow().holders.clone();
        let managers = with_holders(&client, Managers { pods, holders }).await;
        sender.send_if_modified(|before| {
            let changed = *before != managers;
            *before = managers;
            changed
        });
    }
}

/// Reads the contested leases. A lease that cannot be read keeps its last holder.
async fn with_holders(client: &Client, mut managers: Managers) -> Managers {
    let contested = managers.contested();
    managers.holders.retain(|lease, _| contested.contains(lease));
    for lease in contested {
        if let Some(holder) = holder(client, &lease).await {
            managers.holders.insert(lease, holder);
        }
    }
    managers
}

async fn holder(client: &Client, LeaseId { namespace, name }: &LeaseId) -> Option<String> {
    Api::<Lease>::namespaced(client.clone(), namespace)
        .get(name)
        .await
        .ok()?
        .spec?
        .holder_identity
}
