//! `/checkpoint`: the objects of workload clusters, one line of JSON per cluster. GET reads them; PUT keeps them for
//! clusters that are created later; DELETE forgets what PUT kept.

use std::{convert::Infallible, sync::Arc};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Query, State, rejection::QueryRejection},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use futures::{Stream, stream};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use nephele_cloud::{Cloud, ClusterObjects, PutBackError};
use nephele_listen::{Owner, Turns};
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::journal::{NO_CLOUD, RunningCloud, unavailable};

/// The longest body of a PUT: the objects of a thousand clusters. It is in memory once as text and once as objects.
const BODY_MAX: usize = 256 * 1024 * 1024;

/// The parameters of a GET.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct CheckpointQuery {
    namespace: Option<String>,
    /// Whether to answer with the clusters' names only.
    names: bool,
}

#[derive(Clone)]
struct Checkpoints {
    cloud: RunningCloud,
    /// One request at a time, because each may need much memory.
    place: Arc<Semaphore>,
    /// For the lines of clusters, whose clients choose how long they are.
    turns: Turns,
}

/// `/checkpoint` in lines of JSON.
pub(crate) fn router(cloud: RunningCloud) -> Router {
    let checkpoints = Checkpoints {
        cloud,
        place: Arc::new(Semaphore::new(1)),
        turns: Turns::default(),
    };
    Router::new()
        .route("/checkpoint", get(read).put(put_back).delete(forget))
        .with_state(checkpoints)
}

impl Checkpoints {
    /// The cloud, and the place of a request, or why there is none.
    fn enter(&self) -> Result<(Cloud, OwnedSemaphorePermit), &'static str> {
        let cloud = self.cloud.get().ok_or(NO_CLOUD)?;
        let place = Arc::clone(&self.place).try_acquire_owned();
        Ok((
            cloud.clone(),
            place.map_err(|_| "another checkpoint is being read or put back\n")?,
        ))
    }
}

async fn read(
    State(checkpoints): State<Checkpoints>,
    query: Result<Query<CheckpointQuery>, QueryRejection>,
) -> Response {
    let query = match query {
        Ok(Query(query)) => query,
        Err(rejection) => return refused(StatusCode::BAD_REQUEST, &rejection.body_text()),
    };
    match checkpoints.enter() {
        Ok((cloud, place)) => {
            let lines = lines(cloud, query, place, checkpoints.turns);
            ([(CONTENT_TYPE, "application/jsonl")], Body::from_stream(lines)).into_response()
        }
        Err(why) => unavailable(why),
    }
}

/// A line for each running cluster, made when it is sent.
fn lines(
    cloud: Cloud,
    query: CheckpointQuery,
    place: OwnedSemaphorePermit,
    turns: Turns,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let CheckpointQuery { namespace, names } = query;
    let mut clusters = cloud.clusters();
    clusters.retain(|id| {
        namespace
            .as_ref()
            .is_none_or(|namespace| *namespace == id.namespace)
    });
    let state = (cloud, clusters.into_iter(), place, turns);
    stream::unfold(state, move |(cloud, mut clusters, place, turns)| async move {
        loop {
            let id = clusters.next()?;
            let line = if names {
                cloud.observe_cluster(&id).map(|_| {
                    json(&Name {
                        namespace: id.namespace,
                        name: id.name,
                    })
                })
            } else {
                let cloud = cloud.clone();
                let line = move || cloud.cluster_objects(&id).map(Bytes::from);
                turns.work(Owner::unique(), usize::MAX, line).await
            };
            if let Some(line) = line {
                return Some((Ok(line), (cloud, clusters, place, turns)));
            }
        }
    })
}

/// A line without the objects.
#[derive(Serialize)]
struct Name {
    namespace: String,
    name: String,
}

fn json(value: &impl Serialize) -> Bytes {
    let mut line = serde_json::to_vec(value).expect("JSON can be written");
    line.push(b'\n');
    line.into()
}

async fn put_back(State(checkpoints): State<Checkpoints>, body: Body) -> Response {
    let (cloud, _place) = match checkpoints.enter() {
        Ok(entered) => entered,
        Err(why) => return unavailable(why),
    };
    let body = match Limited::new(body, BODY_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return refused(
                StatusCode::PAYLOAD_TOO_LARGE,
                &format!("the checkpoint has more than {BODY_MAX} bytes"),
            );
        }
        Err(error) => {
            return refused(
                StatusCode::BAD_REQUEST,
                &format!("failed to read the request: {error}"),
            );
        }
    };
    let work = move || parse(&body).map(|clusters| cloud.put_back(clusters));
    match checkpoints.turns.work(Owner::unique(), usize::MAX, work).await {
        Err(wrong) => refused(StatusCode::BAD_REQUEST, &wrong),
        Ok(Ok(())) => StatusCode::NO_CONTENT.into_response(),
        Ok(Err(error)) => {
            let status = match error {
                PutBackError::Exists(_) => StatusCode::CONFLICT,
                PutBackError::Objects { .. } => StatusCode::BAD_REQUEST,
                PutBackError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            };
            refused(status, &nephele_controller::chain(&error).to_string())
        }
    }
}

async fn forget(State(checkpoints): State<Checkpoints>) -> Response {
    match checkpoints.enter() {
        Ok((cloud, _place)) => {
            cloud.forget_put_back();
            StatusCode::NO_CONTENT.into_response()
        }
        Err(why) => unavailable(why),
    }
}

fn parse(body: &[u8]) -> Result<Vec<ClusterObjects>, String> {
    let lines = body
        .split(|byte| *byte == b'\n')
        .zip(1..)
        .filter(|(line, _)| !line.is_empty());
    let cluster = |(line, number): (&[u8], usize)| {
        serde_json::from_slice(line).map_err(|error| format!("line {number} is not a cluster: {error}"))
    };
    lines.map(cluster).collect()
}

fn refused(status: StatusCode, why: &str) -> Response {
    (status, format!("{why}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::to_bytes;
    use http::Request;
    use nephele_cloud::ClusterSpec;
    use nephele_model::ClusterId;
    use serde_json::json;
    use tower::ServiceExt as _;

    use super::*;
    use crate::admin::journal::tests::{cloud, running};

    async fn ask(router: &Router, request: Request<Body>) -> (StatusCode, String) {
        let response = router.clone().oneshot(request).await.expect("infallible");
        let status = response.status();
        let body = to_bytes(response.into_body(), usize::MAX)
            .await
            .expect("in memory");
        (status, String::from_utf8(body.to_vec()).expect("text"))
    }

    fn get(path: &str) -> Request<Body> {
        Request::get(path).body(Body::empty()).expect("a request")
    }

    fn put(body: impl Into<Body>) -> Request<Body> {
        Request::put("/checkpoint").body(body.into()).expect("a request")
    }

    fn spec(namespace: &str) -> ClusterSpec {
        ClusterSpec {
            id: ClusterId {
                namespace: namespace.into(),
                name: "demo".into(),
            },
            labels: [].into(),
            region: None,
            cloud_spec: String::new(),
            endpoint: None,
            created_at: jiff::Timestamp::UNIX_EPOCH,
            is_read_refused: false,
            pod_cidrs: Vec::new(),
            service_cidrs: Vec::new(),
            service_domain: String::new(),
        }
    }

    fn with_cluster(namespace: &str) -> Cloud {
        let cloud = cloud();
        cloud.reserve_endpoints([]);
        cloud.ensure_cluster(spec(namespace)).expect("a port is free");
        cloud
    }

    #[tokio::test]
    async fn what_was_read_is_put_back_into_the_next_cluster_of_this_name() {
        let cloud = with_cluster("one");
        let router = router(running(&cloud));
        let (status, line) = ask(&router, get("/checkpoint?namespace=one")).await;
        assert_eq!(status, StatusCode::OK);
        let mut objects: ClusterObjects = serde_json::from_str(&line).expect("one line");
        let name = "{\"namespace\":\"one\",\"name\":\"demo\"}\n".to_owned();
        assert_eq!(
            ask(&router, get("/checkpoint?names=true")).await,
            (StatusCode::OK, name)
        );
        let note = objects
            .objects
            .iter()
            .find(|record| record.resource == "namespaces")
            .expect("there are some");
        let mut note = note.clone();
        note.name = "noted".to_owned();
        note.object.as_mut().expect("it is there")["metadata"]["name"] = json!("noted");
        objects.objects.push(note.clone());
        let changed = serde_json::to_string(&objects).expect("JSON");

        let (status, why) = ask(&router, put(changed.clone())).await;
        assert_eq!(
            (status, why.as_str()),
            (StatusCode::CONFLICT, "cluster one/demo exists; delete it first\n")
        );
        cloud.delete_cluster(&spec("one").id);
        assert_eq!(ask(&router, put(changed)).await.0, StatusCode::NO_CONTENT);
        assert_eq!(
            ask(&router, get("/checkpoint")).await,
            (StatusCode::OK, String::new())
        );
        let mut noted = Vec::new();
        for is_forgotten in [false, false, true] {
            if is_forgotten {
                let forget = Request::delete("/checkpoint")
                    .body(Body::empty())
                    .expect("a request");
                assert_eq!(ask(&router, forget).await.0, StatusCode::NO_CONTENT);
            }
            cloud.ensure_cluster(spec("one")).expect("a port is free");
            let (_, line) = ask(&router, get("/checkpoint")).await;
            let again: ClusterObjects = serde_json::from_str(&line).expect("one line");
            noted.push(again.objects.into_iter().find(|record| record.name == "noted"));
            cloud.delete_cluster(&spec("one").id);
        }
        assert_eq!(noted, [Some(note.clone()), Some(note), None]);
        cloud.shutdown().await;
    }

    /// Clients of a cluster choose how many objects it has. They do not choose for how long a thread of tasks is busy.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn objects_are_written_by_a_thread_of_their_own() {
        let cloud = with_cluster("one");
        let line = String::from_utf8(cloud.cluster_objects(&spec("one").id).expect("it runs")).expect("text");
        let mut objects: ClusterObjects = serde_json::from_str(&line).expect("one line");
        let pattern = objects
            .objects
            .iter()
            .find(|record| record.resource == "namespaces")
            .expect("some")
            .clone();
        for number in 0..20_000 {
            let mut record = pattern.clone();
            record.name = format!("n{number}");
            record.object.as_mut().expect("it is there")["metadata"]["name"] = json!(record.name);
            objects.objects.push(record);
        }
        cloud.delete_cluster(&spec("one").id);
        cloud.put_back(vec![objects]).expect("it is taken");
        cloud.ensure_cluster(spec("one")).expect("a port is free");

        nephele_poll_time::measure_with(|| {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            Duration::try_from(time).expect("a time of a thread")
        });
        let router = router(running(&cloud));
        let reading =
            nephele_poll_time::timed("reader", async move { ask(&router, get("/checkpoint")).await });
        let (status, text) = tokio::spawn(reading).await.expect("no panic");
        assert!(
            status == StatusCode::OK && text.len() > 4_000_000,
            "{status}, {} bytes",
            text.len()
        );
        let longest = nephele_poll_time::take_longest();
        let (_, reader) = longest
            .iter()
            .find(|(task, _)| *task == "reader")
            .expect("it was polled");
        assert!(*reader < Duration::from_millis(50), "{reader:?}");
        cloud.shutdown().await;
    }

    #[tokio::test]
    async fn only_clusters_of_the_namespace_are_read() {
        let cloud = with_cluster("one");
        let router = router(running(&cloud));
        assert_eq!(
            ask(&router, get("/checkpoint?namespace=two")).await,
            (StatusCode::OK, String::new())
        );
        let (status, why) = ask(&router, get("/checkpoint?nmspace=two")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(why.contains("nmspace"), "{why}");
        cloud.shutdown().await;
    }

    #[tokio::test]
    async fn what_cannot_be_put_back_is_refused_with_a_reason() {
        let cloud = cloud();
        let router = router(running(&cloud));
        let line = |object: serde_json::Value| {
            json!({"namespace": "one", "name": "demo", "createdAt": "1970-01-01T00:00:00Z", "objects": [
                {"group": "", "resource": "pods", "namespace": "a", "name": "b", "object": object},
            ]})
            .to_string()
        };
        for (body, reason) in [
            (
                "{}".to_owned(),
                "line 1 is not a cluster: missing field `namespace` at line 1 column 2\n",
            ),
            (
                line(json!({"metadata": {"namespace": "a", "name": "other", "resourceVersion": "1"}})),
                "failed to read the objects of cluster one/demo: failed to restore pods \"a\" \"b\": its record holds \
                 another object\n",
            ),
            (
                line(
                    json!({"metadata": {"namespace": "a", "name": "b", "resourceVersion": "1"}, "spec": "none"}),
                ),
                "failed to read the objects of cluster one/demo: failed to restore pods \"a\" \"b\": Pod in version \
                 \"v1\" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field Pod.spec of type \
                 object\n",
            ),
            (
                line(
                    json!({"metadata": {"namespace": "a", "name": "b", "resourceVersion": u64::MAX.to_string()}}),
                ),
                "failed to read the objects of cluster one/demo: failed to restore pods \"a\" \"b\": its resource \
                 version is too large\n",
            ),
        ] {
            assert_eq!(
                ask(&router, put(body)).await,
                (StatusCode::BAD_REQUEST, reason.to_owned())
            );
        }
        let (status, _) = ask(&super::router(RunningCloud::default()), get("/checkpoint")).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        cloud.shutdown().await;
    }
}
