//! Answers when a journal keeps the objects, keeps them late or not at all.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures::FutureExt as _;
use nephele_apiserver::{ApiServer, Authentication, Journal, Recorded, Store, StoreOptions, Unkept};
use serde_json::json;
use tokio::sync::watch;

use crate::support::{failure, get, now, send, settings};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The state of the disk.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Disk {
    Quick,
    Slow,
    /// The disk has just refused a write; the next attempt may succeed.
    Refuses,
    Full,
}

struct DiskJournal(watch::Sender<Disk>);

fn full() -> Unkept {
    Unkept("the state file cannot be written: no space left on device".to_owned())
}

impl Journal for DiskJournal {
    fn record(&self, _resource_version: u64, _changes: Vec<Recorded>) {}

    fn kept(&self) -> Pin<Box<dyn Future<Output = Result<(), Unkept>> + Send>> {
        let mut disk = self.0.subscribe();
        async move {
            let settled =
                *disk.wait_for(|disk| *disk != Disk::Slow).await.expect("the test holds the sender");
            if settled == Disk::Quick { Ok(()) } else { Err(full()) }
        }
        .boxed()
    }

    fn admits(&self) -> Result<(), Unkept> {
        if *self.0.borrow() == Disk::Full { Err(full()) } else { Ok(()) }
    }
}

fn server() -> (ApiServer, Arc<DiskJournal>) {
    let journal = Arc::new(DiskJournal(watch::Sender::new(Disk::Quick)));
    let store = Store::restored(StoreOptions::default(), now(), Vec::new(), journal.clone()).unwrap();
    store.create_default_namespaces(now());
    (ApiServer::new(store, settings(Authentication::AllowAll)), journal)
}

#[tokio::test]
async fn write_is_answered_when_it_is_kept_and_a_read_at_once() {
    let (server, journal) = server();
    journal.0.send_replace(Disk::Slow);
    let writer = server.clone();
    let body = json!({"metadata": {"name": "a"}});
    let mut write = Box::pin(async move { send(&writer, "POST", MAPS, &body).await.0 });
    assert_eq!(write.as_mut().now_or_never(), None);
    assert_eq!(get(&server, &format!("{MAPS}/a")).await.0, 200);
    journal.0.send_replace(Disk::Quick);
    assert_eq!(write.await, 201);
}

#[tokio::test]
async fn nothing_is_changed_on_a_full_disk_and_everything_can_be_read() {
    let (server, journal) = server();
    assert_eq!(send(&server, "POST", MAPS, &json!({"metadata": {"name": "a"}})).await.0, 201);
    journal.0.send_replace(Disk::Full);
    let path = format!("{MAPS}/a");
    let message = "nothing can be changed for now: the state file cannot be written: no space left on device";
    let expected = (503, "ServiceUnavailable".to_owned(), message.to_owned());
    let calls =
        [("POST", MAPS), ("PUT", path.as_str()), ("PATCH", &path), ("DELETE", &path), ("DELETE", MAPS)];
    for (method, path) in calls {
        let answer = send(&server, method, path, &json!({"metadata": {"name": "b"}})).await;
        assert_eq!(answer.1["details"]["retryAfterSeconds"], 1, "{method}");
        assert_eq!(failure(answer), expected, "{method} {path}");
    }
    assert_eq!(get(&server, &path).await.0, 200);
    // A review changes nothing, although it is sent by POST.
    let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(send(&server, "POST", review, &json!({"spec": {}})).await.0, 201);
    journal.0.send_replace(Disk::Quick);
    assert_eq!(send(&server, "DELETE", &path, &json!({})).await.0, 200);
}

#[tokio::test]
async fn client_is_told_when_its_change_may_be_lost() {
    let (server, journal) = server();
    journal.0.send_replace(Disk::Refuses);
    let answer = send(&server, "POST", MAPS, &json!({"metadata": {"name": "a"}})).await;
    let message = "the change may be lost: the state file cannot be written: no space left on device";
    assert_eq!(failure(answer), (500, "InternalError".to_owned(), message.to_owned()));
}
