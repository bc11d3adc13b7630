//! Releases of Cluster API with contract v1beta2.

use nephele_e2e::{Scope, Shape, management::kinds};
use serde_json::json;

#[tokio::test]
async fn clusters_with_and_without_class_work_with_cluster_api_of_contract_v1beta2() -> anyhow::Result<()> {
    let bare = super::management("v1beta2").await?;
    let scope = Scope::on(bare.management.clone(), "release").await?;
    let of_class = scope
        .of_class_with("of-class", Shape::new(3, 1), |object| {
            let zones = ["a", "b", "c"].map(|zone| json!({"name": zone}));
            let topology = &mut object["spec"]["topology"];
            topology["variables"] = json!([{"name": "zones", "value": zones}]);
            topology["workers"]["machinePools"] =
                json!([{"class": "default-worker", "name": "pool", "replicas": 1}]);
        })
        .await?;
    let plain = scope.plain("plain", Shape::new(1, 1)).await?;
    tokio::try_join!(of_class.settled(3, 2), plain.settled(1, 1))?;
    assert_eq!(of_class.workload().await?.nodes().await?.len(), 5);

    let taller = json!({"spec": {"topology": {"controlPlane": {"replicas": 1}}}});
    of_class.patch(kinds::CLUSTER, &of_class.name, &taller).await?;
    plain.scale_workers(3).await?;
    tokio::try_join!(of_class.settled(1, 2), plain.settled(1, 3))?;
    scope.finish().await?;
    bare.down().await
}
