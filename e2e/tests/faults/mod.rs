//! Faults and the scenarios of `config/scenarios` on unmodified Cluster API, beyond what `lifecycle` shows. They take long, so
//! only `cargo xtask e2e faults` runs them.

mod addresses;
mod chapters;
mod class;
mod cluster_faults;
mod effects;
mod killed;
mod story;
mod tenants;
mod workshop;

use nephele_e2e::{Bare, Scope, Shape};
use serde_json::json;

use self::effects::{cloud_says, default_cloud};
use crate::lifecycle::{
    faults::begin,
    scenarios::{cluster_for, passes, settled},
};

#[tokio::test]
async fn new_workers_wait_for_addresses() -> anyhow::Result<()> {
    run("address-exhaustion", Scope::new("address-exhaustion").await?).await
}

#[tokio::test]
async fn workers_come_up_while_api_servers_come_and_go() -> anyhow::Result<()> {
    run("api-server-flapping", Scope::new("api-server-flapping").await?).await
}

#[tokio::test]
async fn machine_that_does_not_join_is_replaced() -> anyhow::Result<()> {
    run("bootstrap-failure", Scope::new("bootstrap-failure").await?).await
}

#[tokio::test]
async fn control_plane_machine_with_an_expiring_certificate_is_replaced() -> anyhow::Result<()> {
    run("expired-certificates", Scope::new("expired-certificates").await?).await
}

#[tokio::test]
async fn control_plane_is_not_available_while_etcd_has_no_space() -> anyhow::Result<()> {
    run("etcd-alarm", Scope::new("etcd-alarm").await?).await
}

#[tokio::test]
async fn health_check_holds_back_when_all_workers_fall_silent() -> anyhow::Result<()> {
    run("health-check-storm", Scope::new("health-check-storm").await?).await
}

/// An instance first, by the scenario, and then the load balancer of the cluster: its port is given to no other cluster.
#[tokio::test]
async fn what_leaks_is_counted_until_it_is_deleted() -> anyhow::Result<()> {
    let scope = Scope::new("leak").await?;
    let (cluster, entry) = cluster_for("leak", &scope).await?;
    passes(&scope, &cluster, "leak").await?;
    settled(&cluster, &entry).await?;
    let (_, port) = cluster.endpoint().await?;

    scope
        .management
        .apply(
            &scope.namespace,
            &[default_cloud(&json!({"leakedInstances": "Keep"}))],
        )
        .await?;
    let matches = json!({"operations": ["DeleteLoadBalancer"]});
    begin(
        &scope,
        "leak",
        &json!({"match": matches, "effect": {"leak": {}}, "budget": {"count": 1}}),
    )
    .await?;
    cluster.delete().await?;
    scope.nothing_is_left().await?;
    cloud_says(&scope, "its load balancer to have no owner", |status| {
        let leaked = &status["leakedLoadBalancers"][0];
        (&status["leaked"], &leaked["cluster"], &leaked["port"])
            == (&json!(1), &json!(cluster.name), &json!(port))
    })
    .await?;
    let second = scope.plain("second", Shape::new(1, 0)).await?;
    second.available().await?;
    assert_ne!(second.endpoint().await?.1, port, "the port is in use");
    scope
        .management
        .apply(
            &scope.namespace,
            &[default_cloud(&json!({"leakedInstances": "Delete"}))],
        )
        .await?;
    cloud_says(&scope, "it to be deleted", |status| {
        status["leaked"] == 0 && status["leakedLoadBalancers"].is_null()
    })
    .await?;
    scope.finish().await
}

#[tokio::test]
async fn cluster_is_reachable_again_after_an_outage_of_its_load_balancer() -> anyhow::Result<()> {
    run("load-balancer-outage", Scope::new("load-balancer-outage").await?).await
}

#[tokio::test]
async fn slow_machines_come_up_in_a_fast_cloud_and_none_while_its_clock_stands_still() -> anyhow::Result<()> {
    run("slow-cloud", Scope::new("slow-cloud").await?).await
}

#[tokio::test]
async fn spot_workers_that_the_cloud_takes_back_are_replaced() -> anyhow::Result<()> {
    run("spot-reclaim", Scope::new("spot-reclaim").await?).await
}

#[tokio::test]
async fn workers_move_to_a_zone_that_has_machines_left() -> anyhow::Result<()> {
    run("stock-out", Scope::new("stock-out").await?).await
}

#[tokio::test]
async fn upgrade_ends_although_the_cloud_throttles_it() -> anyhow::Result<()> {
    run("throttled-upgrade", Scope::new("throttled-upgrade").await?).await
}

#[tokio::test]
async fn cluster_grows_while_its_zones_are_lost_one_after_the_other() -> anyhow::Result<()> {
    run("zones-in-turn", Scope::new("zones-in-turn").await?).await
}

#[tokio::test]
async fn upgrade_waits_for_an_annotation() -> anyhow::Result<()> {
    let scenario = "blocked-upgrade";
    // Annotations block hooks only with Cluster API's feature gate RuntimeSDK.
    let bare = Bare::with_runtime_extension(scenario).await?;
    run(scenario, Scope::on(bare.management.clone(), scenario).await?).await?;
    bare.down().await
}

/// Runs a scenario of the library on the cluster that it needs.
async fn run(scenario: &str, scope: Scope) -> anyhow::Result<()> {
    let (cluster, entry) = cluster_for(scenario, &scope).await?;
    passes(&scope, &cluster, scenario).await?;
    settled(&cluster, &entry).await?;
    scope.finish().await
}

#[test]
fn every_scenario_of_the_library_is_run() {
    let tests = [include_str!("mod.rs"), include_str!("../lifecycle/scenarios.rs")].concat();
    let not_run: Vec<_> = nephele_scenario_library::names()
        .filter(|name| !tests.contains(&format!("\"{name}\"")))
        .collect();
    assert_eq!(not_run, [""; 0]);
}
