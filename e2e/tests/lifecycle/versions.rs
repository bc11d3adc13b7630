//! Clients of Cluster API's contract v1beta1, such as its core up to 1.10.

use nephele_e2e::{
    Cluster, Look, Scope, Shape,
    management::{Kind, kinds},
    state, until,
    wait::LIMIT,
};
use serde_json::{Value, json};

const GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// The annotation with the fields of the other version.
const CONVERSION_DATA: &str = "cluster.x-k8s.io/conversion-data";

/// The requested failure domains, not sorted by name, and the same in the form of the old contract.
fn domains() -> (Value, Value) {
    let list = json!([
        {"name": "zone-b", "controlPlane": true, "attributes": {"region": "north"}},
        {"name": "zone-a", "controlPlane": true},
    ]);
    let map = json!({
        "zone-a": {"controlPlane": true},
        "zone-b": {"controlPlane": true, "attributes": {"region": "north"}},
    });
    (list, map)
}

async fn of(cluster: &Cluster, kind: Kind) -> anyhow::Result<Value> {
    cluster.object(kind, &cluster.name).await
}

#[tokio::test]
async fn cluster_and_machines_are_read_as_the_old_contract_has_them() -> anyhow::Result<()> {
    let scope = Scope::new("old-read").await?;
    let (list, map) = domains();
    let cluster = scope
        .plain_with("cluster", Shape::new(1, 1), |object| {
            if object["kind"] == "InMemoryCluster" {
                object["spec"] = json!({"failureDomains": list});
            }
        })
        .await?;
    cluster.settled(1, 1).await?;

    let new = of(&cluster, kinds::IN_MEMORY_CLUSTER).await?;
    let old = of(&cluster, kinds::OLD_IN_MEMORY_CLUSTER).await?;
    assert_eq!(
        old["spec"]["controlPlaneEndpoint"],
        new["spec"]["controlPlaneEndpoint"]
    );
    assert_eq!(
        (&old["spec"]["failureDomains"], &old["status"]["failureDomains"]),
        (&map, &map)
    );
    assert_eq!(old["status"]["ready"], true);
    assert_eq!(old["status"]["initialization"], Value::Null);

    let mut machines = cluster.of_kind(kinds::OLD_IN_MEMORY_MACHINE).await?;
    assert_eq!(machines.len(), 2);
    machines.push(old);
    for object in machines {
        let name = state::name(&object);
        assert_eq!(object["status"]["ready"], true, "{name}");
        let kinds_of = |conditions: &Value| -> Vec<String> {
            let conditions = conditions.as_array().into_iter().flatten();
            conditions
                .filter_map(|condition| condition["type"].as_str().map(str::to_owned))
                .collect()
        };
        // Good conditions are in both forms, others only in the new form.
        let in_old = kinds_of(&object["status"]["conditions"]);
        let in_new = kinds_of(&object["status"]["v1beta2"]["conditions"]);
        let good: Vec<_> = in_new.iter().filter(|kind| *kind != "Paused").cloned().collect();
        assert_eq!(in_old, good, "{name}");
        assert!(
            in_old.contains(&"Ready".to_owned()) && in_new.contains(&"Paused".to_owned()),
            "{name}"
        );
        assert!(state::is(&object, "Ready", "True"), "{name}");
        assert_eq!(object["spec"]["failureDomain"], Value::Null, "{name}");
    }
    scope.finish().await
}

#[tokio::test]
async fn cluster_of_manifests_of_the_old_contract_becomes_available() -> anyhow::Result<()> {
    let scope = Scope::new("old-written").await?;
    let (_, map) = domains();
    let cluster = scope
        .plain_with("cluster", Shape::new(1, 1), |object| {
            if object["apiVersion"]
                .as_str()
                .is_some_and(|version| version.starts_with(GROUP))
            {
                object["apiVersion"] = json!(format!("{GROUP}/v1beta1"));
            }
            if object["kind"] == "InMemoryCluster" {
                // An unknown endpoint, as Cluster API's own types of that contract write it.
                object["spec"] =
                    json!({"controlPlaneEndpoint": {"host": "", "port": 0}, "failureDomains": map});
            }
        })
        .await?;
    cluster.settled(1, 1).await?;
    let new = of(&cluster, kinds::IN_MEMORY_CLUSTER).await?;
    let names: Vec<_> = new["status"]["failureDomains"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|domain| &domain["name"])
        .collect();
    assert_eq!(names, ["zone-a", "zone-b"]);
    scope.finish().await
}

#[tokio::test]
async fn what_a_client_of_either_contract_changes_the_other_one_sees() -> anyhow::Result<()> {
    let scope = Scope::new("old-changes").await?;
    let (list, _) = domains();
    let cluster = scope
        .plain_with("cluster", Shape::new(1, 0), |object| {
            if object["kind"] == "InMemoryCluster" {
                object["spec"] = json!({"failureDomains": list});
            }
        })
        .await?;
    cluster.settled(1, 0).await?;

    // An object that is written back unchanged stays the same, including the order that only the new version has.
    let before = of(&cluster, kinds::IN_MEMORY_CLUSTER).await?;
    let mut read = of(&cluster, kinds::OLD_IN_MEMORY_CLUSTER).await?;
    scope.management.replace(&scope.namespace, &read).await?;
    assert_eq!(of(&cluster, kinds::IN_MEMORY_CLUSTER).await?, before);
    assert_eq!(before["spec"]["failureDomains"], list);
    assert_eq!(before["metadata"]["annotations"][CONVERSION_DATA], Value::Null);

    read["spec"]["failureDomains"]["zone-c"] = json!({"controlPlane": false});
    scope.management.replace(&scope.namespace, &read).await?;
    until(
        "the new failure domain to be reported in both shapes",
        LIMIT,
        async || {
            let new = of(&cluster, kinds::IN_MEMORY_CLUSTER).await?;
            let old = of(&cluster, kinds::OLD_IN_MEMORY_CLUSTER).await?;
            let listed = new["status"]["failureDomains"].as_array().is_some_and(|list| {
                list.iter()
                    .any(|domain| *domain == json!({"name": "zone-c", "controlPlane": false}))
            });
            let mapped = old["status"]["failureDomains"]["zone-c"] == json!({"controlPlane": false});
            Ok(Look::when(listed && mapped, || {
                format!("{} {}", new["status"], old["status"])
            }))
        },
    )
    .await?;

    // Immutable fields cannot be changed through the old version either.
    let mut moved = of(&cluster, kinds::OLD_IN_MEMORY_CLUSTER).await?;
    moved["spec"]["controlPlaneEndpoint"]["port"] = json!(1);
    let refused = scope.management.replace(&scope.namespace, &moved).await;
    let told = refused
        .err()
        .map(|error| format!("{error:#}"))
        .unwrap_or_default();
    assert!(
        told.contains("spec.controlPlaneEndpoint.port is immutable once set"),
        "{told}"
    );
    scope.finish().await
}
