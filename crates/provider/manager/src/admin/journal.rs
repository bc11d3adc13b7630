//! `/journal`: what happened in the simulated cloud, one line of JSON per record. Whoever may read one namespace gets its records.
//!
//! ```text
//!  request ──▶ reviews: path, or InMemoryClusters of the namespace ──▶ place ──▶ records of the namespace ──▶ lines
//!                └── asked again when the verdict expires ──────────────────────────────────────────────────┘ end
//! ```

use std::{
    convert::Infallible,
    future::pending,
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Extension, Query, State, rejection::QueryRejection},
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::get,
};
use futures::{Stream, stream};
use jiff::Timestamp;
use nephele_cloud::{Cloud, JournalFilter, JournalLine, RecentRecords};
use nephele_listen::Turns;
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};

use super::{
    namespace::Namespace,
    places::{NoPlace, Place, Places, Reader},
    reviews::{Permission, Scope, Watch},
};

/// The least time between two looks of a reader that has read everything. Each takes a thread for some 20 µs, so looks of
/// all readers take less than a thirtieth of a processor, however fast records come.
const GATHERED: Duration = Duration::from_millis(50);

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
    namespace: Option<Namespace>,
    cluster: Option<String>,
    machine: Option<String>,
    operation: Option<String>,
    fault: Option<String>,
    /// Only records of this time and later ones.
    since: Option<Timestamp>,
    /// Only records after this number.
    after: Option<u64>,
    /// Whether to send the records to come, too, until the client or the manager ends, or the caller may not read them any
    /// more.
    follow: bool,
}

#[derive(Clone)]
struct Readers {
    cloud: RunningCloud,
    places: Places,
    /// Turns of reading. All readers have as many lines to write at once.
    turns: Turns,
}

/// `/journal` in lines of JSON. The records that the journal has, which are the last 4,096; with `follow=true` also those
/// to come.
pub(crate) fn router(cloud: RunningCloud) -> Router {
    let readers = Readers {
        cloud,
        places: Places::default(),
        turns: Turns::default(),
    };
    Router::new().route("/journal", get(journal)).with_state(readers)
}

/// The namespace that a request asks for. All that is sent concerns it: the filter of the records has it, too.
pub(crate) fn namespace_of(uri: &Uri) -> Result<Option<Namespace>, String> {
    match Query::<JournalQuery>::try_from_uri(uri) {
        Ok(Query(query)) => Ok(query.namespace),
        Err(rejection) => Err(rejection.body_text()),
    }
}

async fn journal(
    State(Readers { cloud, places, turns }): State<Readers>,
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
    // In `nephele up` the API server has authenticated the caller, by a certificate.
    let permission = permission.map(|Extension(permission)| permission);
    let place = match places.take(reader(permission.as_ref(), query.namespace.as_ref())) {
        Ok(place) => place,
        Err(why) => return refused(why),
    };
    let JournalQuery {
        namespace,
        cluster,
        machine,
        operation,
        fault,
        since,
        after,
        follow,
    } = query;
    let filter = JournalFilter {
        namespace: namespace.map(|namespace| namespace.as_str().to_owned()),
        cluster,
        machine,
        operation,
        fault,
        since,
    };
    let reading = Reading {
        place,
        watch: permission.map(Permission::watch),
        turns,
        follow,
        looks_from: Instant::now(),
    };
    let lines = lines(cloud.recent_records(filter, after), reading);
    (
        [(header::CONTENT_TYPE, "application/jsonl")],
        Body::from_stream(lines),
    )
        .into_response()
}

/// Whose place a request takes.
fn reader(permission: Option<&Permission>, namespace: Option<&Namespace>) -> Reader {
    let allowed = permission.map(|permission| permission.allowed);
    let is_tenant = allowed.is_some_and(|allowed| allowed.scope == Scope::Namespace);
    Reader {
        user: allowed.map(|allowed| allowed.user),
        only: namespace.filter(|_| is_tenant).cloned(),
    }
}

fn refused(why: NoPlace) -> Response {
    let status = match why {
        NoPlace::OfUser | NoPlace::OfNamespace => StatusCode::TOO_MANY_REQUESTS,
        NoPlace::Full => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, [(header::RETRY_AFTER, "1")], format!("{why}\n")).into_response()
}

/// The lines as JSON, in parts.
fn lines(records: RecentRecords, reading: Reading) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(Some((records, reading)), async |reading| {
        let (records, reading) = reading?;
        let (text, rest) = reading.next(records).await?;
        Some((Ok(text), rest))
    })
}

/// An answer that is under way.
struct Reading {
    place: Place,
    /// None where callers need no permission.
    watch: Option<Watch>,
    turns: Turns,
    follow: bool,
    /// No look before this time.
    looks_from: Instant,
}

impl Reading {
    /// The next part, and what is left to read. None at the end of the journal or of the cloud. A caller who may not read
    /// any more gets a last line that says so.
    async fn next(mut self, mut records: RecentRecords) -> Option<(Bytes, Option<(RecentRecords, Self)>)> {
        loop {
            let is_over = !self.follow || records.is_over();
            sleep_until(self.looks_from).await;
            let text;
            let read = move || (json(&records.read()), records);
            (text, records) = self.turns.work(self.place.turns, usize::MAX, read).await;
            if self.watch.as_ref().is_some_and(Watch::has_ended) {
                return Some((json(&[records.access_ended()]), None));
            }
            if self.follow && records.is_current() {
                self.looks_from = Instant::now() + GATHERED;
            }
            if !text.is_empty() {
                return Some((text, Some((records, self))));
            }
            if is_over {
                return None;
            }
            tokio::select! {
                () = records.appended() => {}
                () = ended(self.watch.as_ref()) => {}
            }
        }
    }
}

/// Waits until the caller may not read any more.
async fn ended(watch: Option<&Watch>) {
    match watch {
        Some(watch) => watch.ended().await,
        None => pending().await,
    }
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
    use axum::body::to_bytes;
    use futures::StreamExt as _;
    use http::{Request, header::AUTHORIZATION};
    use jiff::Timestamp;
    use nephele_cloud::{CloudConfig, CloudRecord, CloudSpec, InProcess, Network};
    use prometheus::Registry;
    use serde_json::{Value, json};
    use tower::ServiceExt as _;

    use super::*;
    use crate::admin::{
        diagnostics::{Gate, of_cloud},
        places::{OF_USER_MAX, READERS_MAX},
        reviews::{Reviews, tests::reviewer},
    };

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
        for (since, expected) in [
            ("00:00:00", line(1, "north") + &line(2, "south")),
            ("00:00:01", String::new()),
        ] {
            let asked = ask(&router, &format!("/journal?since=1970-01-01T{since}Z")).await;
            assert_eq!(text(asked).await, (StatusCode::OK, expected));
        }
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

    /// An API server that knows each token but `unknown` as that of a user of this name, and lets them do what `may` says.
    pub(crate) fn reviewing(may: impl Fn(&str, &Value) -> bool + Clone + Send + 'static) -> Reviews {
        Reviews::new(reviewer(move |spec| match spec["token"].as_str() {
            Some("unknown") => json!({ "authenticated": false }),
            Some(token) => json!({
                "authenticated": true, "audiences": spec["audiences"], "user": { "username": token },
            }),
            None => json!({ "allowed": may(spec["user"].as_str().expect("a user"), spec) }),
        }))
    }

    /// The administrator may use every path, and each other user may get the InMemoryClusters of the namespace of this name.
    pub(crate) fn usual(user: &str, spec: &Value) -> bool {
        let path = |path: &str| json!({ "path": path, "verb": "get" });
        let clusters = json!({
            "namespace": user, "group": "infrastructure.cluster.x-k8s.io", "resource": "inmemoryclusters",
            "verb": "get",
        });
        let wanted = &spec["nonResourceAttributes"];
        let is_administrator = user == "administrator";
        is_administrator && [path("/journal"), path("/checkpoint")].contains(wanted)
            || wanted.is_null() && spec["resourceAttributes"] == clusters
    }

    fn gated(cloud: &Cloud, reviews: Reviews) -> Router {
        let gate = Gate {
            reviews,
            audience: Some("ours"),
            namespace_of: None,
        };
        let cloud = running(cloud);
        of_cloud(router(cloud.clone()), cloud, gate)
    }

    async fn ask_as(router: &Router, token: &str, path: &str) -> Response {
        let request = Request::get(path).header(AUTHORIZATION, format!("Bearer {token}"));
        let request = request.body(Body::empty()).expect("a request");
        router.clone().oneshot(request).await.expect("infallible")
    }

    /// A cloud with a SimulatedCloud in each of two namespaces.
    pub(crate) fn of_two_tenants() -> Cloud {
        let cloud = cloud();
        for (namespace, name) in [("amber", "north"), ("birch", "south")] {
            cloud
                .put_cloud(namespace, name, CloudSpec::default(), CloudRecord::default())
                .expect("it is taken");
        }
        cloud
    }

    /// The names of the objects in an answer.
    async fn names(response: Response) -> Vec<String> {
        let (_, text) = text(response).await;
        let line = |line: &str| serde_json::from_str::<JournalLine>(line).map(|line| line.name);
        text.lines().flat_map(line).collect()
    }

    #[tokio::test]
    async fn whoever_may_get_the_clusters_of_a_namespace_reads_its_records_and_no_others() {
        let cloud = of_two_tenants();
        let router = gated(&cloud, reviewing(usual));
        let mut answers = Vec::new();
        for token in ["administrator", "amber", "unknown"] {
            for path in [
                "/journal",
                "/journal?namespace=amber",
                "/journal?namespace=birch",
                "/journal?namespace=amber&namespace=birch",
                "/checkpoint?namespace=amber",
            ] {
                let response = ask_as(&router, token, path).await;
                let status = response.status().as_u16();
                answers.push((token, path, status, names(response).await.join(" ")));
            }
        }
        let expected = [
            ("administrator", "/journal", 200, "north south"),
            ("administrator", "/journal?namespace=amber", 200, "north"),
            ("administrator", "/journal?namespace=birch", 200, "south"),
            (
                "administrator",
                "/journal?namespace=amber&namespace=birch",
                400,
                "",
            ),
            ("administrator", "/checkpoint?namespace=amber", 200, ""),
            ("amber", "/journal", 403, ""),
            ("amber", "/journal?namespace=amber", 200, "north"),
            ("amber", "/journal?namespace=birch", 403, ""),
            ("amber", "/journal?namespace=amber&namespace=birch", 400, ""),
            ("amber", "/checkpoint?namespace=amber", 403, ""),
            ("unknown", "/journal", 401, ""),
            ("unknown", "/journal?namespace=amber", 401, ""),
            ("unknown", "/journal?namespace=birch", 401, ""),
            ("unknown", "/journal?namespace=amber&namespace=birch", 400, ""),
            ("unknown", "/checkpoint?namespace=amber", 401, ""),
        ];
        let expected = expected.map(|(token, path, status, names)| (token, path, status, names.to_owned()));
        assert_eq!(answers, expected);
        cloud.shutdown().await;
    }

    #[tokio::test]
    async fn what_is_not_the_name_of_a_namespace_causes_no_review() {
        let cloud = cloud();
        let router = gated(&cloud, reviewing(|_, spec| panic!("it was asked: {spec}")));
        for (namespace, shown) in [
            ("", ""),
            ("Amber", "Amber"),
            ("a%2Fb", "a/b"),
            ("..", ".."),
            ("a.b", "a.b"),
        ] {
            let path = format!("/journal?namespace={namespace}");
            let why = format!(
                "Failed to deserialize query string: namespace: failed to read {shown:?} as the name of a namespace: it is \
                 not a DNS label\n"
            );
            let answer = text(ask_as(&router, "amber", &path).await).await;
            assert_eq!(answer, (StatusCode::BAD_REQUEST, why));
        }
        cloud.shutdown().await;
    }

    #[tokio::test]
    async fn a_person_reads_eight_times_and_others_still_read() {
        let cloud = of_two_tenants();
        let router = gated(&cloud, reviewing(usual));
        let path = "/journal?namespace=amber&follow=true";
        let mut followed = Vec::new();
        for _ in 0..OF_USER_MAX {
            followed.push(ask_as(&router, "amber", path).await);
        }
        let why = "you are reading the journal 8 times already; end one of these first\n".to_owned();
        assert_eq!(
            text(ask_as(&router, "amber", path).await).await,
            (StatusCode::TOO_MANY_REQUESTS, why)
        );
        assert_eq!(
            names(ask_as(&router, "birch", "/journal?namespace=birch").await).await,
            ["south"]
        );
        followed.pop();
        assert_eq!(ask_as(&router, "amber", path).await.status(), StatusCode::OK);
        cloud.shutdown().await;
    }

    /// The right is taken away after a minute and a half. The verdict of the second minute is the last one that says yes.
    #[tokio::test(start_paused = true)]
    async fn a_follower_whose_right_is_taken_away_is_cut_off_when_the_verdict_expires() {
        let since = Instant::now();
        let may = move |user: &str, spec: &Value| usual(user, spec) && since.elapsed().as_secs() < 90;
        let cloud = of_two_tenants();
        let router = gated(&cloud, reviewing(may));
        let answer = ask_as(&router, "amber", "/journal?namespace=amber&follow=true").await;
        let mut parts = answer.into_body().into_data_stream();
        let mut lines = Vec::new();
        while let Some(part) = parts.next().await {
            let part = part.expect("no error");
            let part = part.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            for line in part {
                let line: JournalLine = serde_json::from_slice(line).expect("a line");
                lines.push((
                    since.elapsed().as_secs(),
                    line.sequence,
                    line.name,
                    line.event,
                    line.message,
                ));
            }
        }
        let why = "The permission to read the journal was taken away, or could not be checked again";
        let line = |second, sequence, name: &str, event: &str, message: &str| {
            (
                second,
                sequence,
                name.to_owned(),
                event.to_owned(),
                message.to_owned(),
            )
        };
        assert_eq!(
            lines,
            [line(0, 1, "north", "", ""), line(120, 2, "", "AccessEnded", why)]
        );
        cloud.shutdown().await;
    }

    /// A client that reads nothing for an hour has the first part in its buffers, and gets no record of later.
    #[tokio::test(start_paused = true)]
    async fn a_follower_that_does_not_read_is_cut_off_as_well() {
        let since = Instant::now();
        let may = move |user: &str, spec: &Value| usual(user, spec) && since.elapsed().as_secs() < 90;
        let cloud = of_two_tenants();
        let router = gated(&cloud, reviewing(may));
        let answer = ask_as(&router, "amber", "/journal?namespace=amber&follow=true").await;
        tokio::time::sleep(Duration::from_hours(1)).await;
        cloud
            .put_cloud("amber", "west", CloudSpec::default(), CloudRecord::default())
            .expect("it is taken");
        let (_, text) = text(answer).await;
        let line: JournalLine = serde_json::from_str(&text).expect("one line");
        assert_eq!(line.event, JournalLine::ACCESS_ENDED);
        cloud.shutdown().await;
    }

    /// Records come every 10 ms for a second. The first one is sent at once.
    #[tokio::test(start_paused = true)]
    async fn a_follower_looks_twenty_times_a_second_however_fast_records_come() {
        let cloud = cloud();
        let router = router(running(&cloud));
        let answer = ask(&router, "/journal?follow=true").await;
        let mut parts = answer.into_body().into_data_stream();
        let follower = tokio::spawn(async move {
            let since = Instant::now();
            let mut times = Vec::new();
            let mut lines = 0;
            while lines < 100 {
                let part = parts.next().await.expect("no end").expect("no error");
                lines += part.iter().filter(|byte| **byte == b'\n').count();
                times.push(since.elapsed().as_millis());
            }
            times
        });
        for number in 0..100 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            cloud
                .put_cloud(
                    "amber",
                    &number.to_string(),
                    CloudSpec::default(),
                    CloudRecord::default(),
                )
                .expect("it is taken");
        }
        let times = follower.await.expect("no panic");
        let is_soon = times[0] <= 60;
        assert!(is_soon && (19..=22).contains(&times.len()), "{times:?}");
        cloud.shutdown().await;
    }

    #[tokio::test]
    async fn a_manager_without_a_cloud_says_so() {
        let (status, message) = text(ask(&router(RunningCloud::default()), "/journal").await).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(message.contains("another replica is the leader"), "{message}");
    }
}
