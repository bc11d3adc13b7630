//! The work of a look, as the memory that it asks for.

use std::time::Duration;

use nephele_api::cloud::v1alpha1::Scenario;
use serde_json::{Value, json};
use tikv_jemalloc_ctl::thread;

use crate::stage::{Stage, status};

/// Scenarios and their management API run on the thread of their test.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A first step that waits, and fourteen others with manifests of this length.
fn steps(bytes: usize) -> Value {
    let wait = json!({ "wait": { "cluster": "none", "condition": "Available", "within": "8760h" } });
    let apply = |number: usize| {
        let head = format!(
            "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {{name: c{number}}}\nspec:\n"
        );
        let fields: Vec<_> = (0..bytes / 16)
            .map(|field| format!("  f{field:08}: 1\n"))
            .collect();
        json!({ "apply": { "manifests": head + &fields.concat() } })
    };
    std::iter::once(wait)
        .chain((1..15).map(apply))
        .collect::<Vec<_>>()
        .into()
}

/// What most seconds with one look ask for. In some a status is written, which answers with the whole Scenario.
async fn asked_for_in_a_second(steps: &Value) -> u64 {
    let stage = Stage::start();
    stage.scenario(steps).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let message = status(&stage.api.get::<Scenario>("s").await).steps[0]
        .message
        .clone();
    assert_eq!(message, "there is no Cluster none");
    let asked_for = || thread::allocatedp::read().expect("jemalloc counts").get();
    let mut seconds = Vec::new();
    for _ in 0..41 {
        let before = asked_for();
        tokio::time::sleep(Duration::from_secs(1)).await;
        seconds.push(asked_for() - before);
    }
    seconds.sort_unstable();
    stage.stop().await;
    seconds[seconds.len() / 2]
}

#[tokio::test(start_paused = true)]
async fn a_look_does_not_depend_on_steps_that_do_not_run() {
    let small = asked_for_in_a_second(&steps(16)).await;
    let large = asked_for_in_a_second(&steps(20_000)).await;
    assert!(
        small > 0 && large < small + small / 10,
        "{small} bytes with small steps, {large} with 280 KB of them"
    );
}
