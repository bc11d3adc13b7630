//! Answers when a journal keeps the objects, keeps them late or not at all.

use std::{future::Future, pin::Pin, sync::Arc};

use futures::FutureExt as _;
use nephele_apiserver::{ApiServer, Authentication, Journal, Key, Recorded, Store, StoreOptions, Unkept};
use serde_json::json;
use tokio::sync::watch;

use crate::support::{apply, failure, get, managers, now, patch, send, settings};

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
            let settled = *disk
                .wait_for(|disk| *disk != Disk::Slow)
                .await
                .expect("the test holds the sender");
            if settled == Disk::Quick {
                Ok(())
            } else {
                Err(full())
            }
        }
        .boxed()
    }

    fn admits(&self) -> Result<(), Unkept> {
        if *self.0.borrow() == Disk::Full {
            Err(full())
        } else {
            Ok(())
        }
    }
}

fn server() -> (ApiServer, Arc<DiskJournal>) {
    let journal = Arc::new(DiskJournal(watch::Sender::new(Disk::Quick)));
    let store = Store::restored(StoreOptions::default(), now(), Vec::new(), Some(journal.clone())).unwrap();
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
    assert_eq!(
        send(&server, "POST", MAPS, &json!({"metadata": {"name": "a"}}))
            .await
            .0,
        201
    );
    journal.0.send_replace(Disk::Full);
    let path = format!("{MAPS}/a");
    let message = "nothing can be changed for now: the state file cannot be written: no space left on device";
    let expected = (503, "ServiceUnavailable".to_owned(), message.to_owned());
    let calls = [
        ("POST", MAPS),
        ("PUT", path.as_str()),
        ("PATCH", &path),
        ("DELETE", &path),
        ("DELETE", MAPS),
    ];
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
    assert_eq!(
        failure(answer),
        (500, "InternalError".to_owned(), message.to_owned())
    );
}

#[tokio::test]
async fn malformed_managed_fields_of_a_record_are_in_nobodys_way() {
    let deep = (0..110).fold(json!({}), |inner, _| json!({ "f:a": inner }));
    let entry = |fields| json!({"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields});
    for malformed in [
        json!(7),
        json!([7]),
        json!([{"manager": "m"}]),
        json!([entry(deep)]),
    ] {
        let (_, journal) = server();
        let key = Key::new("", "configmaps", "default", "a");
        let metadata = json!({"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7", "managedFields": malformed});
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}});
        let records = vec![(key, object.to_string().into_bytes().into())];
        let store = Store::restored(StoreOptions::default(), now(), records, Some(journal)).unwrap();
        store.create_default_namespaces(now());
        let server = ApiServer::new(store, settings(Authentication::AllowAll));
        let path = format!("{MAPS}/a");
        let (code, updated) = patch(&server, "merge", &path, &json!({"data": {"l": "w"}})).await;
        assert_eq!((code, updated["metadata"].get("managedFields")), (200, None));
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
        let (code, applied) = apply(&server, &path, "one", map).await;
        assert_eq!((code, managers(&applied).len()), (200, 2));
    }
}
