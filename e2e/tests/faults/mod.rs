//! The scenarios of `config/scenarios` that `lifecycle` does not run, each on a cluster of its own. They take long, so only
//! `cargo xtask e2e faults` runs them.

use nephele_e2e::{Bare, Cluster, Scope, Shape};
use serde_json::json;

use crate::lifecycle::scenarios::{CLUSTER, LIBRARY, passes};
use crate::lifecycle::zones::{ZONES, cloud};

/// The version before that to which scenarios upgrade.
const OLD: &str = "v1.35.4";

#[tokio::test]
async fn new_workers_wait_for_addresses() -> anyhow::Result<()> {
    let scope = Scope::new("address-exhaustion").await?;
    let cluster = scope
        .pooled_with(CLUSTER, Shape::new(1, 1), |object| {
            if object["kind"] == "InClusterIPPool" {
                object["spec"]["addresses"] = json!(["10.20.0.10-10.20.0.13"]);
            }
        })
        .await?;
    run(scope, cluster, "address-exhaustion", (1, 4)).await
}

#[tokio::test]
async fn workers_come_up_while_api_servers_come_and_go() -> anyhow::Result<()> {
    of_class("api-server-flapping", Shape::new(1, 1), (1, 6)).await
}

#[tokio::test]
async fn upgrade_waits_for_an_annotation() -> anyhow::Result<()> {
    let scenario = "blocked-upgrade";
    // Annotations block hooks only with Cluster API's feature gate RuntimeSDK.
    let bare = Bare::with_runtime_extension(scenario).await?;
    let scope = Scope::on(bare.management.clone(), scenario).await?;
    let cluster = scope.of_class(CLUSTER, Shape { version: OLD, ..Shape::new(1, 1) }).await?;
    run(scope, cluster, scenario, (1, 1)).await?;
    bare.down().await
}

#[tokio::test]
async fn machine_that_does_not_join_is_replaced() -> anyhow::Result<()> {
    of_class("bootstrap-failure", Shape::new(1, 1), (1, 4)).await
}

#[tokio::test]
async fn control_plane_machine_with_an_expiring_certificate_is_replaced() -> anyhow::Result<()> {
    let scope = Scope::new("expired-certificates").await?;
    let cluster = scope
        .plain_with(CLUSTER, Shape::new(1, 1), |object| match object["kind"].as_str() {
            Some("Cluster") => object["spec"]["paused"] = json!(true),
            Some("KubeadmControlPlane") => {
                object["spec"]["rollout"] = json!({"before": {"certificatesExpiryDays": 7}});
            }
            _ => {}
        })
        .await?;
    run(scope, cluster, "expired-certificates", (1, 1)).await
}

#[tokio::test]
async fn control_plane_is_not_available_while_etcd_has_no_space() -> anyhow::Result<()> {
    of_class("etcd-alarm", Shape::new(1, 1), (1, 1)).await
}

#[tokio::test]
async fn health_check_holds_back_when_all_workers_fall_silent() -> anyhow::Result<()> {
    of_class("health-check-storm", Shape::new(1, 1), (1, 3)).await
}

#[tokio::test]
async fn instance_that_leaks_is_counted_until_it_is_deleted() -> anyhow::Result<()> {
    let scope = Scope::new("leak").await?;
    let cluster = scope.plain(CLUSTER, Shape::new(1, 2)).await?;
    run(scope, cluster, "leak", (1, 1)).await
}

#[tokio::test]
async fn cluster_is_reachable_again_after_an_outage_of_its_load_balancer() -> anyhow::Result<()> {
    of_class("load-balancer-outage", Shape::new(1, 1), (1, 1)).await
}

#[tokio::test]
async fn slow_machines_come_up_in_a_fast_cloud_and_none_while_its_clock_stands_still() -> anyhow::Result<()> {
    of_class("slow-cloud", Shape::new(1, 1), (1, 5)).await
}

#[tokio::test]
async fn spot_workers_that_the_cloud_takes_back_are_replaced() -> anyhow::Result<()> {
    let scope = Scope::new("spot-reclaim").await?;
    let cluster = scope
        .plain_with(CLUSTER, Shape::new(1, 6), |object| {
            if object["kind"] == "InMemoryMachineTemplate" {
                object["spec"]["template"]["spec"]["market"] = json!("Spot");
            }
        })
        .await?;
    run(scope, cluster, "spot-reclaim", (1, 6)).await
}

#[tokio::test]
async fn workers_move_to_a_zone_that_has_machines_left() -> anyhow::Result<()> {
    let scope = Scope::new("stock-out").await?;
    let mut default = cloud(&ZONES, &["m.large"]);
    default["metadata"]["name"] = json!("default");
    scope.management.apply(&scope.namespace, &[default]).await?;
    let cluster = scope
        .plain_with(CLUSTER, Shape::new(1, 1), |object| {
            if object["kind"] == "InMemoryMachineTemplate" {
                object["spec"]["template"]["spec"]["instanceType"] = json!("m.large");
            }
        })
        .await?;
    run(scope, cluster, "stock-out", (1, 2)).await
}

#[tokio::test]
async fn upgrade_ends_although_the_cloud_throttles_it() -> anyhow::Result<()> {
    of_class("throttled-upgrade", Shape { version: OLD, ..Shape::new(3, 2) }, (3, 2)).await
}

/// Runs a scenario on a cluster with a topology. `settled` has its control plane machines and workers afterwards.
async fn of_class(scenario: &str, shape: Shape, settled: (usize, usize)) -> anyhow::Result<()> {
    let scope = Scope::new(scenario).await?;
    let cluster = scope.of_class(CLUSTER, shape).await?;
    run(scope, cluster, scenario, settled).await
}

async fn run(scope: Scope, cluster: Cluster, scenario: &str, settled: (usize, usize)) -> anyhow::Result<()> {
    passes(&scope, &cluster, scenario).await?;
    let (control_plane, workers) = settled;
    cluster.settled(control_plane, workers).await?;
    scope.finish().await
}

#[test]
fn every_scenario_of_the_library_is_run() -> anyhow::Result<()> {
    let tests = [include_str!("mod.rs"), include_str!("../lifecycle/scenarios.rs")].concat();
    let files = std::fs::read_dir(LIBRARY)?.collect::<Result<Vec<_>, _>>()?;
    let names = files.iter().filter_map(|file| file.path().file_stem()?.to_str().map(str::to_owned));
    let not_run: Vec<_> = names.filter(|name| !tests.contains(&format!("\"{name}\""))).collect();
    assert_eq!(not_run, [""; 0]);
    Ok(())
}
