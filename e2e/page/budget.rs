//! What a thousand machines cost a browser: `cargo xtask page --budget`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    browser::Browser,
    up::{CLUSTERS, Up},
};

const CLUSTERS_MAX: usize = 20;
const MACHINES_EACH: usize = 50;
const SECONDS: u64 = 15;
/// Changes of a hundredth of a second: 200 in a second.
const BATCH: usize = 2;

#[tokio::test]
async fn a_thousand_machines_and_200_changes_a_second_are_within_the_budget() {
    let up = Up::start(CLUSTERS).await.expect("it starts");
    let browser = Browser::start().await.expect("it starts");
    let zones = ["north-1a", "north-1b", "north-1c"];
    let mut names = Vec::new();
    for cluster in 0..CLUSTERS_MAX {
        let cluster = format!("large-{cluster:02}");
        up.create("Cluster", &cluster, json!({"paused": true}))
            .await
            .expect("it is created");
        for machine in 0..MACHINES_EACH {
            let name = format!("{cluster}-{machine:02}");
            let zone = zones[machine % zones.len()];
            let spec = json!({"clusterName": cluster, "failureDomain": zone, "bootstrap": {}});
            up.create("Machine", &name, spec).await.expect("it is created");
            names.push(name);
        }
    }
    browser.open(&up.page).await.expect("it opens");
    let all = format!(
        "return document.querySelectorAll('#main a.m').length >= {}",
        names.len()
    );
    browser.until("all machines", &all).await.expect("they are there");
    // Processor time: on a busy machine, the time on a clock has the waits for a processor in it.
    let processor = json!({"timeDomain": "threadTicks"});
    browser
        .cdp("Performance.enable", processor)
        .await
        .expect("it measures");
    let before = metrics(&browser).await;
    let started = Instant::now();
    let mut changes = 0;
    while started.elapsed() < Duration::from_secs(SECONDS) {
        for _ in 0..BATCH {
            let name = &names[(changes * 37) % names.len()];
            let zone = zones[changes % zones.len()];
            // Every tenth change moves a cell, the others change an attribute.
            let spec = match changes % 10 {
                0 => json!({"spec": {"failureDomain": zone}}),
                _ => json!({"spec": {"version": format!("v1.36.{changes}")}}),
            };
            up.patch("Machine", name, spec).await.expect("it is patched");
            changes += 1;
        }
        let due = started + Duration::from_millis(10) * u32::try_from(changes / BATCH).expect("few");
        tokio::time::sleep_until(due.into()).await;
    }
    let after = metrics(&browser).await;
    let seconds = started.elapsed().as_secs_f64();
    let share = 100.0 * (after("TaskDuration") - before("TaskDuration")) / seconds;
    let heap = after("JSHeapUsedSize") / 1e6;
    let nodes = after("Nodes");
    println!(
        "{changes} changes in {seconds:.1} s; main thread {share:.1} %, heap {heap:.1} MB, {nodes} nodes"
    );
    assert!(share <= 5.0, "the main thread takes {share:.1} %");
    assert!(heap <= 10.0, "the heap has {heap:.1} MB");
    assert!(nodes <= 8000.0, "there are {nodes} nodes");
}

async fn metrics(browser: &Browser) -> impl Fn(&str) -> f64 + use<> {
    let found = browser
        .cdp("Performance.getMetrics", json!({}))
        .await
        .expect("it measures");
    let list: Vec<Value> = found["metrics"].as_array().cloned().unwrap_or_default();
    move |name| {
        let metric = list.iter().find(|metric| metric["name"] == name);
        metric
            .and_then(|metric| metric["value"].as_f64())
            .unwrap_or_default()
    }
}
