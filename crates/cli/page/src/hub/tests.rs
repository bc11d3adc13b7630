use std::convert::Infallible;

use axum::{Router, body::Body};
use http::{Request, Response, StatusCode};
use jiff::Timestamp;
use kube::Client;
use tokio::time::Instant;

use super::*;
use crate::allowance::Allowance;

/// Namespaces that are viewed at a time.
const FEEDS: usize = 64;

/// A hub on a management API that knows no kinds, on paused time.
fn hub() -> Hub {
    hub_on(StatusCode::NOT_FOUND)
}

/// A hub on a management API that answers all requests so, on paused time.
fn hub_on(status: StatusCode) -> Hub {
    let answer = move |_: Request<kube::client::Body>| async move {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        Ok::<_, Infallible>(response)
    };
    let source = Source {
        namespace: None,
        client: Client::new(tower::service_fn(answer), "default"),
        journal: Router::new(),
        allowance: Allowance::unlimited(),
    };
    let started = Instant::now();
    let clock: Clock = Arc::new(move || {
        let passed = SignedDuration::try_from(started.elapsed()).expect("short");
        Timestamp::UNIX_EPOCH + passed
    });
    Hub::new(source, FEEDS, clock, CancellationToken::new())
}

#[tokio::test(start_paused = true)]
async fn without_viewers_there_is_no_task() {
    let hub = hub();
    assert_eq!(hub.tasks(), 0);
    let all = hub.feed(None).expect("a place");
    let one = hub.feed(Some("team")).expect("a place");
    assert!(Arc::ptr_eq(&all, &hub.feed(None).expect("a place")));
    assert_eq!(hub.tasks(), 3);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(hub.tasks(), 3);
    drop(one);
    sleep(Duration::from_secs(20)).await;
    assert_eq!(hub.tasks(), 2);
    drop(all);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(hub.tasks(), 2, "a browser that loads again is back before");
    sleep(Duration::from_secs(20)).await;
    assert_eq!(hub.tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_page_shows_what_is_known_when_a_kind_is_never_listed() {
    let hub = hub_on(StatusCode::SERVICE_UNAVAILABLE);
    let feed = hub.feed(None).expect("a place");
    sleep(Duration::from_secs(4)).await;
    assert!(feed.now().is_none());
    sleep(Duration::from_secs(2)).await;
    assert!(feed.now().is_some());
    // Also for a page that comes later.
    let later = hub.feed(Some("team")).expect("a place");
    sleep(Duration::from_secs(1)).await;
    assert!(later.now().is_some());
}

#[tokio::test(start_paused = true)]
async fn too_many_namespaces_are_refused() {
    let hub = hub();
    let names: Vec<String> = (0..=FEEDS).map(|number| format!("team-{number}")).collect();
    let places = names.iter().filter(|name| hub.feed(Some(name)).is_ok());
    assert_eq!(places.count(), FEEDS);
}
