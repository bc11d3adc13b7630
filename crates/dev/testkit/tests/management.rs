//! The management API of the testkit behaves like a real one.

use nephele_api::{
    core::{Cluster, Machine},
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine},
};
use nephele_testkit::{ManagementApi, Write, objects};
use serde_json::json;

#[tokio::test]
async fn objects_are_created_with_their_status() {
    let api = ManagementApi::start();
    let mut cluster = objects::cluster("demo");
    cluster.status = Some(objects::provisioned(true));
    let created = api.create(&cluster).await;
    assert_eq!(created.spec, cluster.spec);
    assert_eq!(created.status, cluster.status);
    let object = api.create(&objects::in_memory_cluster(&created)).await;
    assert_eq!(
        object
            .metadata
            .owner_references
            .as_ref()
            .map(|owners| owners[0].uid.clone()),
        created.metadata.uid
    );
    assert_eq!(api.get::<InMemoryCluster>("demo").await, object);
    let writes = api.take_writes();
    let write = |verb, resource: &str, name: &str, code| Write {
        verb,
        resource: resource.into(),
        name: name.into(),
        code,
    };
    assert_eq!(
        writes,
        [
            write("create", "clusters", "", 201),
            write("patch", "clusters/status", "demo", 200),
            write("create", "inmemoryclusters", "", 201),
        ]
    );
}

#[tokio::test]
async fn a_change_is_waited_for() {
    let api = ManagementApi::start();
    let machine = api.create(&objects::worker("demo", "m")).await;
    api.create(&objects::in_memory_machine(&machine)).await;
    let waiting = api.eventually::<InMemoryMachine>("m", "to have an id", |machine| {
        machine.spec.provider_id == "in-memory://m"
    });
    let patch = json!({ "spec": { "providerID": "in-memory://m" } });
    let writing = api.patch::<InMemoryMachine>("m", &patch);
    let (seen, written) = tokio::join!(waiting, writing);
    assert_eq!(seen, written);
}

#[tokio::test]
async fn what_is_owned_goes_with_its_owner() {
    let api = ManagementApi::start();
    let cluster = api.create(&objects::cluster("demo")).await;
    api.create(&objects::in_memory_cluster(&cluster)).await;
    api.create(&objects::worker("demo", "m")).await;
    api.delete::<Cluster>("demo").await;
    api.eventually_gone::<Cluster>("demo").await;
    api.eventually_gone::<InMemoryCluster>("demo").await;
    api.eventually::<Machine>("m", "to stay", |_| true).await;
}
