//! The cluster that each scenario of `config/scenarios` needs.

use anyhow::bail;
use nephele_e2e::{Cluster, Scope, Shape};
use serde_json::{Value, json};

use crate::lifecycle::{
    scenarios::CLUSTER,
    zones::{ZONES, cloud, in_the_cloud},
};

/// The version before that to which scenarios upgrade.
const OLD: &str = "v1.35.4";

/// Creates the cluster that a scenario needs. Returns it with the number of control plane machines and workers that it has
/// after the scenario.
pub(super) async fn cluster_for(scenario: &str, scope: &Scope) -> anyhow::Result<(Cluster, (usize, usize))> {
    let small = Shape::new(1, 1);
    let old = |shape| Shape {
        version: OLD,
        ..shape
    };
    let of_class = async |shape| scope.of_class(CLUSTER, shape).await;
    let plain = async |shape, change: fn(&mut Value)| scope.plain_with(CLUSTER, shape, change).await;
    Ok(match scenario {
        "address-exhaustion" => (
            scope.pooled_with(CLUSTER, small, with_four_addresses).await?,
            (1, 4),
        ),
        "api-server-errors" => (of_class(small).await?, (1, 1)),
        "api-server-flapping" => (of_class(small).await?, (1, 6)),
        "blocked-upgrade" => (of_class(old(small)).await?, (1, 1)),
        "bootstrap-failure" => (of_class(small).await?, (1, 4)),
        "etcd-alarm" => (of_class(small).await?, (1, 1)),
        "expired-certificates" => (plain(small, with_early_renewal).await?, (1, 1)),
        "health-check-storm" => (of_class(small).await?, (1, 3)),
        "leak" => (plain(Shape::new(1, 2), |_| ()).await?, (1, 1)),
        "load-balancer-outage" => (of_class(small).await?, (1, 1)),
        "quota" => (of_class(small).await?, (1, 3)),
        "silent-machine" => (of_class(small).await?, (1, 1)),
        "slow-cloud" => (of_class(small).await?, (1, 5)),
        "spot-reclaim" => (plain(Shape::new(1, 6), with_spot_machines).await?, (1, 6)),
        "stock-out" => {
            let mut default = cloud(&ZONES, &["m.large"]);
            default["metadata"]["name"] = json!("default");
            scope.management.apply(&scope.namespace, &[default]).await?;
            (plain(small, with_large_machines).await?, (1, 2))
        }
        "throttled-upgrade" => (of_class(old(Shape::new(3, 2))).await?, (3, 2)),
        "zone-loss" | "zones-in-turn" => {
            scope
                .management
                .apply(&scope.namespace, &[cloud(&ZONES, &["m.large"])])
                .await?;
            let workers = if scenario == "zone-loss" { 1 } else { 4 };
            (plain(Shape::new(3, 1), in_the_cloud).await?, (3, workers))
        }
        other => bail!("no cluster is described for the scenario {other}"),
    })
}

fn with_four_addresses(object: &mut Value) {
    if object["kind"] == "InClusterIPPool" {
        object["spec"]["addresses"] = json!(["10.20.0.10-10.20.0.13"]);
    }
}

fn with_early_renewal(object: &mut Value) {
    match object["kind"].as_str() {
        Some("Cluster") => object["spec"]["paused"] = json!(true),
        Some("KubeadmControlPlane") => {
            object["spec"]["rollout"] = json!({"before": {"certificatesExpiryDays": 7}});
        }
        _ => {}
    }
}

fn with_spot_machines(object: &mut Value) {
    if object["kind"] == "InMemoryMachineTemplate" {
        object["spec"]["template"]["spec"]["market"] = json!("Spot");
    }
}

fn with_large_machines(object: &mut Value) {
    if object["kind"] == "InMemoryMachineTemplate" {
        object["spec"]["template"]["spec"]["instanceType"] = json!("m.large");
    }
}
