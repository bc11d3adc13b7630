//! Creates the objects, a bounded number of clusters at a time.

use std::time::Duration;

use anyhow::Context as _;
use futures::{Stream, StreamExt as _, stream};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    management::Management,
    plan::Shape,
    record::{Observation, Seen},
};
use crate::exit::Problem;

/// A busy management cluster answers some requests with an error that passes: its webhooks time out.
const ATTEMPTS_MAX: u32 = 5;
const RETRY: Duration = Duration::from_secs(1);
/// Cluster API refuses to work with a class that it has not looked at yet, and tries again later. Without Cluster API,
/// as with `nephele up`, no controller looks at it.
const CLASS_SEEN_WITHIN: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(100);

/// A variable of the templates, as clusterctl reads it.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Creates what all clusters share.
pub(super) async fn shared(management: &Management, shape: &Shape) -> anyhow::Result<()> {
    let objects = shape.shared()?;
    for object in &objects {
        create(management, object).await?;
    }
    let deadline = Instant::now() + CLASS_SEEN_WITHIN;
    for class in objects.iter().filter(|object| object["kind"] == "ClusterClass") {
        let api = management.api(class).await?;
        while Instant::now() < deadline {
            let current = api
                .get(name(class))
                .await
                .context("failed to read the ClusterClass")?;
            let seen = current
                .data
                .pointer("/status/observedGeneration")
                .and_then(Value::as_i64);
            if seen.is_some() && seen == current.metadata.generation {
                break;
            }
            sleep(POLL).await;
        }
    }
    Ok(())
}

/// Creates the clusters. Yields for each when its first request was sent. After the token is cancelled, no further
/// cluster begins, and those that began are created in full, so that all of them can be deleted.
pub(super) fn clusters<'a>(
    management: &'a Management,
    shape: &'a Shape,
    parallel: usize,
    start: Instant,
    stop: CancellationToken,
) -> impl Stream<Item = anyhow::Result<Observation>> + 'a {
    let create_one = move |cluster: String| async move {
        let objects = shape.objects(&cluster, &variable)?;
        let at = start.elapsed();
        for object in &objects {
            create(management, object).await?;
        }
        Ok(Observation {
            at,
            what: Seen::Sent { cluster },
        })
    };
    stream::iter(shape.names())
        .take_until(stop.cancelled_owned())
        .map(create_one)
        .buffer_unordered(parallel)
}

async fn create(management: &Management, object: &Value) -> anyhow::Result<()> {
    let mut attempt = 1;
    loop {
        let error = match management.create(object).await? {
            Ok(()) => return Ok(()),
            // An earlier attempt without an answer was carried out.
            Err(kube::Error::Api(status)) if status.code == 409 && attempt > 1 => return Ok(()),
            Err(error) => error,
        };
        if attempt == ATTEMPTS_MAX || !may_pass(&error) {
            let kind = object["kind"].as_str().unwrap_or_default();
            let what = format!("create {kind} {}", name(object));
            return Err(Problem::request(&what, &format!("create objects of kind {kind}"), error).into());
        }
        attempt += 1;
        sleep(RETRY).await;
    }
}

fn may_pass(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        kube::Error::Service(_) | kube::Error::HyperError(_) => true,
        _ => false,
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
