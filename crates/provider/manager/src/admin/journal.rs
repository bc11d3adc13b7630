//! `/journal`: what happened in the simulated cloud, one line of JSON per record.

use std::{
    convert::Infallible,
    future::pending,
    sync::{Arc, OnceLock},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Extension, Query, State, rejection::QueryRejection},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use futures::{Stream, StreamExt as _, stream};
use nephele_cloud::{Cloud, JournalFilter, JournalLine, RecentRecords};
use nephele_listen::{Owner, Turns};
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{reviews::Permission, serve::CallerAddress};

/// Readers at a time. Each holds the lines of at most 256 records, some 100 KiB.
const READERS_MAX: usize = 16;

/// The cloud, once the manager runs one: only the leader does.
pub(crate) type RunningCloud = Arc<OnceLock<Cloud>>;

/// Why a manager without a cloud does not answer.
pub(super) const NO_CLOUD: &str =
    "this manager runs no cloud: another replica is the leader, or it is starting\n";

/// The answer of a manager that cannot answer now.
pub(super) fn unavailable(why: &'static str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], why).into_response()
}

/// The parameters of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct JournalQuery {
    namespace: Option<String>,
    cluster: Option<String>,
    machine: Option<String>,
    operation: Option<String>,
    fault: Option<String>,
    /// Only records after this number.
    after: Option<u64>,
    /// Whether to send the records to come, too, until the client or the manager ends, or the caller may not read them any
    /// more.
    follow: bool,
}

#[derive(Clone)]
struct Readers {
    cloud: RunningCloud,
    places: Arc<Semaphore>,
    /// Turns of reading. Sixteen readers have as many lines to write at once.
    turns: Turns,
}

/// `/journal` in lines of JSON. The records that the journal has, which are the last 4,096; with `follow=true` also those
/// to come.
pub(crate) fn router(cloud: RunningCloud) -> Router {
    let readers = Readers {
        cloud,
        places: Arc::new(Semaphore::new(READERS_MAX)),
        turns: Turns::default(),
    };
    Router::new().route("/journal", get(journal)).with_state(readers)
}

async fn journal(
    State(Readers { cloud, places, turns }): State<Readers>,
    caller: Option<Extension<CallerAddress>>,
    permission: Option<Extension<Permission>>,
    query: Result<Query<JournalQuery>, QueryRejection>,
) -> Response {
    let Query(query) = match query {
        Ok(query) => query,
        Err(rejection) => {
            return (StatusCode::BAD_REQUEST, format!("{}\n", rejection.body_text())).into_response();
        }
    };
    let Some(cloud) = cloud.get() else {
        return unavailable(NO_CLOUD);
    };
    let Ok(place) = places.try_acquire_owned() else {
        return unavailable("too many readers of the journal\n");
    };
    let JournalQuery {
        namespace,
        cluster,
        machine,
        operation,
        fault,
        after,
        follow,
    } = query;
    let filter = JournalFilter {
        namespace,
        cluster,
        machine,
        operation,
        fault,
    };
    // In `nephele up` the API server has authenticated the caller, by a certificate.
    let ended = async move {
        match permission {
            Some(Extension(permission)) => permission.ended().await,
            None => pending().await,
        }
    };
    let reader = caller.map_or_else(Owner::unique, |Extension(CallerAddress(address))| {
        Owner::peer(address)
    });
    let records = cloud.recent_records(filter, after);
    let lines = lines(records, follow, place, (turns, reader)).take_until(ended);
    (
        [(header::CONTENT_TYPE, "application/jsonl")],
        Body::from_stream(lines),
    )
        .into_response()
}

/// The lines as JSON, in parts, until the end of the journal or of the cloud.
fn lines(
    records: RecentRecords,
    follow: bool,
    place: OwnedSemaphorePermit,
    (turns, reader): (Turns, Owner),
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(
        (records, place, turns),
        move |(mut records, place, turns)| async move {
            loop {
                let is_over = !follow || records.is_over();
                let read = move || (json(&records.read()), records);
                let text;
                (text, records) = turns.work(reader, usize::MAX, read).await;
                if !text.is_empty() {
                    return Some((Ok(text), (records, place, turns)));
                }
                if is_over {
                    return None;
                }
                records.appended().await;
            }
        },
    )
}

fn json(lines: &[JournalLine]) -> Bytes {
    let mut text = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut text, line).expect("text, numbers and lists can be written");
        text.push(b'\n');
    }
    text.into()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use axum::body::to_bytes;
    use http::Request;
    use jiff::Timestamp;
    use nephele_cloud::{CloudConfig, CloudRecord, CloudSpec, InProcess, Network};
    use prometheus::Registry;
    use tokio::time::Instant;
    use tower::ServiceExt as _;

    use super::*;
    use crate::admin::reviews::{AccessRequest, Reviews};

    const PATIENCE: Duration = Duration::from_secs(60);

    pub(crate) fn cloud() -> Cloud {
        let config = CloudConfig {
            advertise_host: "127.0.0.1".into(),
            bind_address: std::net::Ipv4Addr::LOCALHOST.into(),
            ports: 20_000..=20_009,
            seed: "seed".into(),
            connection_hold: Duration::ZERO,
            state_directory: None,
            moved_ports: Vec::new(),
            clusters_max: None,
            machines_max: None,
            cloud_spec: CloudSpec::default(),
            clock: Arc::new(|| Timestamp::UNIX_EPOCH),
        };
        let network = Network::InProcess(InProcess::default());
        let (cloud, drive) = Cloud::start_on(network, config, &Registry::new()).expect("it starts");
        tokio::spawn(drive);
        cloud
    }

    pub(crate) fn running(cloud: &Cloud) -> RunningCloud {
        let running = RunningCloud::default();
        running.get_or_init(|| cloud.clone());
        running
    }

    async fn ask(router: &Router, path: &str) -> Response {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        router.clone().oneshot(request).await.expect("infallible")
    }

    async fn text(response: Response) -> (StatusCode, String) {
        let status = response.status();
        let body = to_bytes(response.into_body(), usize::MAX)
            .await
            .expect("in memory");
        (status, String::from_utf8(body.to_vec()).expect("text"))
    }

    #[tokio::test]
    async fn the_journal_is_read_with_filters_and_a_wrong_parameter_is_named() {
        let cloud = cloud();
        for name in ["north", "south"] {
            cloud
                .put_cloud("default", name, CloudSpec::default(), CloudRecord::default())
                .expect("it is taken");
        }
        let router = router(running(&cloud));
        let line = |sequence: u64, name: &str| {
            format!(
                "{{\"sequence\":{sequence},\"time\":\"1970-01-01T00:00:00Z\",\"namespace\":\"default\",\
                 \"kind\":\"SimulatedCloud\",\"name\":\"{name}\",\"operation\":\"PutCatalog\",\
                 \"caller\":\"infra\",\"outcome\":\"Accepted\"}}\n"
            )
        };
        let both = line(1, "north") + &line(2, "south");
        assert_eq!(text(ask(&router, "/journal").await).await, (StatusCode::OK, both));
        assert_eq!(
            text(ask(&router, "/journal?after=1").await).await,
            (StatusCode::OK, line(2, "south"))
        );
        let nothing = ask(&router, "/journal?namespace=other&operation=PutCatalog").await;
        assert_eq!(text(nothing).await, (StatusCode::OK, String::new()));
        let (status, message) = text(ask(&router, "/journal?clustr=demo").await).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(message.contains("clustr"), "{message}");
        cloud.shutdown().await;
    }

    #[tokio::test]
    async fn followers_get_what_comes_until_the_cloud_ends_and_have_a_bound() {
        let cloud = cloud();
        let router = router(running(&cloud));
        let mut followed = Vec::new();
        for _ in 0..READERS_MAX {
            followed.push(ask(&router, "/journal?follow=true").await);
        }
        assert_eq!(
            ask(&router, "/journal").await.status(),
            StatusCode::SERVICE_UNAVAILABLE
        );
        let first = followed.pop().expect("there are some");
        drop(followed);
        let mut parts = first.into_body().into_data_stream();
        cloud
            .put_cloud("default", "north", CloudSpec::default(), CloudRecord::default())
            .expect("it is taken");
        let part = tokio::time::timeout(PATIENCE, parts.next())
            .await
            .expect("a line")
            .expect("no end");
        assert!(part.expect("no error").starts_with(b"{\"sequence\":1,"));
        assert_eq!(ask(&router, "/journal").await.status(), StatusCode::OK);
        cloud.shutdown().await;
        assert!(
            tokio::time::timeout(PATIENCE, parts.next())
                .await
                .expect("an end")
                .is_none()
        );
    }

    #[tokio::test]
    async fn a_follower_that_may_not_read_any_more_is_cut_off() {
        let refusing = tower::service_fn(|_: Request<kube::client::Body>| async {
            let review = r#"{"spec": {}, "status": {"authenticated": false}}"#;
            Ok::<_, Infallible>(http::Response::new(Body::from(review)))
        });
        let access = AccessRequest {
            token: "gone".to_owned(),
            audience: None,
            path: "/journal".to_owned(),
            verb: "get".to_owned(),
        };
        let reviews = Reviews::new(kube::Client::new(refusing, "default"));
        let permission = Permission {
            reviews,
            access,
            caller: None,
            until: Instant::now(),
        };
        let cloud = cloud();
        let router = router(running(&cloud)).layer(Extension(permission));
        let mut parts = ask(&router, "/journal?follow=true")
            .await
            .into_body()
            .into_data_stream();
        assert!(
            tokio::time::timeout(PATIENCE, parts.next())
                .await
                .expect("an end")
                .is_none()
        );
        cloud.shutdown().await;
    }

    #[tokio::test]
    async fn a_manager_without_a_cloud_says_so() {
        let (status, message) = text(ask(&router(RunningCloud::default()), "/journal").await).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(message.contains("another replica is the leader"), "{message}");
    }
}
