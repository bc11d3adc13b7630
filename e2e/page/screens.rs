//! The screens Observed and Pools, and the kiosk.

use serde_json::json;

use crate::{
    browser::Browser,
    up::{CLUSTERS, Up},
};

/// What differs: what it is, both sides, and why.
const DIFFERING: &str = "return [...document.querySelectorAll('#differing tbody tr')].map((row) =>
    [row.querySelector('.kind').textContent, ...[...row.querySelectorAll('td')].map((cell) => cell.textContent)])";

#[tokio::test]
async fn what_cluster_api_sees_stands_beside_what_is_in_the_cloud() {
    let up = Up::start(CLUSTERS).await.expect("it starts");
    up.machines_running(6).await.expect("they run");
    let browser = Browser::start().await.expect("it starts");
    browser.open(&up.page).await.expect("it opens");
    browser.console().await.expect("a console");
    browser.click("observed-link").await.expect("it is there");
    let agree = "return document.querySelectorAll('#agreeing tbody tr').length === 7 && !document.getElementById('differing')";
    browser
        .until("six machines and a load balancer", agree)
        .await
        .expect("they agree");
    // Live: two kubelets fall silent while the screen is shown.
    up.silence("workers", json!({})).await.expect("it is created");
    let two = "return [...document.querySelectorAll('#differing .kind')].filter((one) => one.textContent === 'worker').length === 2";
    browser
        .until("two workers that differ", two)
        .await
        .expect("they differ");
    let differing = browser.run(DIFFERING).await.expect("it runs");
    let worker = json!([
        "worker",
        "instance running",
        "Machine Running, Node not ready (NodeReadyUnknown)",
        "Fault silent: notReady"
    ]);
    let workers: Vec<_> = differing
        .as_array()
        .expect("rows")
        .iter()
        .filter(|row| row[0] == "worker")
        .collect();
    assert_eq!(workers, [&worker, &worker]);
    browser
        .run("document.querySelector('#differing td:last-child a').click()")
        .await
        .expect("a click");
    let fault = "return location.pathname === '/fault/default/silent'
        && document.getElementById('drawer-title')?.textContent === 'silent'";
    browser.until("the Fault", fault).await.expect("it is there");

    // The kiosk has the same cloud, and no way to change it.
    browser
        .open(&format!("{}/kiosk", up.origin()))
        .await
        .expect("it opens");
    up.scale("demo", 3).await.expect("it scales");
    let live = "return document.querySelectorAll('.m:not(.sample)').length === 7
        && document.querySelectorAll('.last .journal li').length === 3";
    browser
        .until("the machine and the last records", live)
        .await
        .expect("they are there");
    let controls = "return document.querySelectorAll('nav, form, button').length";
    assert_eq!(browser.run(controls).await.expect("it runs"), json!(0));
    let console = browser.console().await.expect("a console");
    assert!(console.is_empty(), "{console:?}");
}

#[tokio::test]
async fn the_addresses_of_a_pool_say_who_has_them() {
    let up = Up::start(CLUSTERS).await.expect("it starts");
    up.pools().await.expect("they are created");
    let browser = Browser::start().await.expect("it starts");
    browser.open(&up.page).await.expect("it opens");
    browser.console().await.expect("a console");
    browser.click("pools-link").await.expect("it is there");
    let counts = "return [...document.querySelectorAll('.counts')].map((one) => one.textContent).join('; ')
        === '1 used; 57 free, 3 used, 1 excluded, 3 reserved'";
    browser
        .until("what became of the addresses", counts)
        .await
        .expect("it is there");
    let exhausted = "return document.querySelector('.pool .line')?.textContent.startsWith('PoolExhausted ')
        && document.querySelector('.addresses i[data-slot=excluded]').title === '10.0.0.40: excluded'";
    browser
        .until("the claim that waits", exhausted)
        .await
        .expect("it waits");
    // Live, and what is unfolded stays so.
    let unfold =
        "document.querySelector('details[id=\"holders:InClusterIPPool:default/workers\"]').open = true";
    browser.run(unfold).await.expect("it runs");
    up.claim("d", "workers").await.expect("it is created");
    let four = "const open = document.querySelector('details[open]');
        return open?.querySelectorAll('tbody tr').length === 4 && open.checkVisibility()";
    browser.until("the new holder", four).await.expect("it is there");
    let console = browser.console().await.expect("a console");
    assert!(console.is_empty(), "{console:?}");
}
