//! Deletes everything that a run has created, and waits until it is gone.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use nephele_api::core::Cluster;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    create::variable,
    management::Management,
    names::listed,
    plan::{LABEL, Shape},
    progress::{LINE_EVERY, line},
};
use crate::exit::{Exit, Problem};

/// Deletions in flight.
const PARALLEL: usize = 10;
const POLL: Duration = Duration::from_millis(500);

/// Deletes the clusters, then whatever else was created. Returns how long it took.
pub(super) async fn all(
    management: &Management,
    shape: &Shape,
    time_limit: Duration,
    shutdown: &CancellationToken,
) -> anyhow::Result<Duration> {
    if shutdown.is_cancelled() {
        line("Interrupted: deleting the clusters; press Ctrl-C again to leave them");
    }
    let start = Instant::now();
    let deleted = async {
        clusters(management, shape, start + time_limit).await?;
        others(management, shape).await
    };
    deleted
        .await
        .with_context(|| format!("failed to delete everything; {}", advice(shape)))?;
    Ok(start.elapsed())
}

/// How a user deletes what is left. Cluster API keeps a class that a Cluster uses, and kubectl waits until the Clusters are gone.
pub(super) fn advice(shape: &Shape) -> String {
    let delete = |kinds: &str| {
        format!(
            "kubectl delete {kinds} --namespace {} -l {LABEL}={}",
            shape.namespace, shape.run
        )
    };
    let shared = shape.shared().unwrap_or_default();
    let kinds: BTreeSet<_> = shared
        .iter()
        .filter_map(|object| object["kind"].as_str())
        .map(str::to_lowercase)
        .collect();
    let mut commands = delete("clusters");
    if !kinds.is_empty() {
        let kinds: Vec<_> = kinds.into_iter().collect();
        commands += &format!(" && {}", delete(&kinds.join(",")));
    }
    format!("delete them with `{commands}`")
}

/// Deletes the Clusters with the label of the run, and with it those that a request without an answer has created.
async fn clusters(management: &Management, shape: &Shape, deadline: Instant) -> anyhow::Result<()> {
    let api = Api::<Cluster>::namespaced(management.client.clone(), &shape.namespace);
    let ours = ListParams::default().labels(&format!("{LABEL}={}", shape.run));
    let mut said = Instant::now();
    loop {
        let left = api.list(&ours).await;
        let left = left
            .map_err(|error| Problem::request("list the Clusters", "list clusters", error))?
            .items;
        if left.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = left.iter().map(kube::ResourceExt::name_any).collect();
        if Instant::now() > deadline {
            bail!(Problem::new(Exit::Failed, left_message(&names)));
        }
        // One that does not begin to end is asked again.
        let fresh: Vec<_> = left
            .into_iter()
            .filter(|one| one.metadata.deletion_timestamp.is_none())
            .collect();
        let deletions = fresh.iter().map(|one| delete(&api, one));
        stream::iter(deletions)
            .buffer_unordered(PARALLEL)
            .try_for_each(async |()| Ok(()))
            .await?;
        if said.elapsed() >= LINE_EVERY {
            said = Instant::now();
            line(&format!("{} clusters are being deleted", names.len()));
        }
        sleep(POLL).await;
    }
}

async fn delete(api: &Api<Cluster>, cluster: &Cluster) -> anyhow::Result<()> {
    let name = cluster.name_any();
    match api.delete(&name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        // A webhook that times out under load; the next round asks again.
        Err(kube::Error::Api(status)) if status.code == 429 || status.code >= 500 => Ok(()),
        Err(error) => {
            Err(Problem::request(&format!("delete Cluster {name}"), "delete clusters", error).into())
        }
    }
}

/// Deletes what has no owner that takes it along. Most of it is gone with its Cluster.
async fn others(management: &Management, shape: &Shape) -> anyhow::Result<()> {
    let mut objects = shape.shared()?;
    if shape.flavor.class().is_none() {
        for name in shape.names() {
            objects.extend(shape.objects(&name, &variable)?);
        }
    }
    let deletions = objects
        .iter()
        .map(|object| delete_other(management, shape, object));
    stream::iter(deletions)
        .buffer_unordered(PARALLEL)
        .try_for_each(async |()| Ok(()))
        .await
}

/// Deletes an object if it is there and of this run.
async fn delete_other(management: &Management, shape: &Shape, object: &Value) -> anyhow::Result<()> {
    let api = management.api(object).await?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    let problem = |error| {
        Problem::request(
            &format!("delete {kind} {name}"),
            &format!("get and delete {kind}"),
            error,
        )
    };
    let Some(found) = api.get_opt(name).await.map_err(problem)? else {
        return Ok(());
    };
    if found.labels().get(LABEL) != Some(&shape.run) {
        return Ok(());
    }
    match api.delete(name, &DeleteParams::background()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        result => Ok(result.map(drop).map_err(problem)?),
    }
}

fn left_message(names: &[String]) -> String {
    format!(
        "{} clusters are not gone within the time limit: {}",
        names.len(),
        listed(names)
    )
}
