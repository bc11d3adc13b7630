//! What a thousand machines cost a browser: `cargo xtask page --budget`.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use nephele_e2e::manager;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncWriteExt as _, copy, sink},
    net::TcpStream,
    task::JoinSet,
};

use crate::{
    access::ask,
    browser::Browser,
    up::{CLUSTERS, Up},
};

const CLUSTERS_MAX: usize = 20;
const MACHINES_EACH: usize = 50;
const ZONES: [&str; 3] = ["north-1a", "north-1b", "north-1c"];
/// How long the main thread is measured.
const MEASURED: Duration = Duration::from_secs(15);
/// How long changes are followed to their pixels.
const OBSERVED: Duration = Duration::from_secs(5);
const VIEWERS: usize = 30;
/// Changes of a hundredth of a second: 200 in a second.
const BATCH: usize = 2;

#[tokio::test]
async fn a_thousand_machines_and_200_changes_a_second_are_within_the_budget() {
    let up = Up::start(CLUSTERS).await.expect("it starts");
    let browser = Browser::start().await.expect("it starts");
    let names = machines(&up).await;
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
    let changes = change(&up, &names, 0, MEASURED).await.len();
    let after = metrics(&browser).await;
    let seconds = started.elapsed().as_secs_f64();
    let part = |metric: &str| 100.0 * (after(metric) - before(metric)) / seconds;
    let share = part("TaskDuration");
    let heap = after("JSHeapUsedSize") / 1e6;
    let nodes = after("Nodes");
    println!(
        "{changes} changes in {seconds:.1} s; main thread {share:.1} %: script {:.1}, style {:.1}, layout {:.1}; \
         heap {heap:.1} MB, {nodes} nodes",
        part("ScriptDuration"),
        part("RecalcStyleDuration"),
        part("LayoutDuration"),
    );
    let (late, seen) = delay(&browser, &up, &names, changes).await;
    println!("from a change to its pixels: {late:.0} ms at most for 95 % of {seen} changes");
    assert!(late <= 250.0, "a change is seen after {late:.0} ms");
    assert!(share <= 5.0, "the main thread takes {share:.1} %");
    assert!(heap <= 10.0, "the heap has {heap:.1} MB");
    assert!(nodes <= 8000.0, "there are {nodes} nodes");
}

/// Thirty people look at the page of a `nephele up` while its machines change.
#[tokio::test]
async fn thirty_viewers_are_within_the_budget() {
    let up = Up::start(CLUSTERS).await.expect("it starts");
    let names = machines(&up).await;
    // Once before, because the first changes also cost the memory that later ones use again.
    let warmed = change(&up, &names, 0, OBSERVED).await.len();
    let (alone, at_rest, changes) = cost(&up, &names, warmed).await;
    let cookie = cookie(&up).expect("the page gives one");
    let mut viewers = JoinSet::new();
    for _ in 0..VIEWERS {
        viewers.spawn(view(up.origin().to_owned(), cookie.clone()));
    }
    let (viewed, looked_at, _) = cost(&up, &names, warmed + changes).await;
    assert_eq!(viewers.len(), VIEWERS);
    assert!(viewers.try_join_next().is_none(), "a stream has ended");
    let share = 100.0 * (viewed - alone);
    let memory = looked_at - at_rest;
    println!("{VIEWERS} viewers: {share:.1} % of a processor, {memory:.1} MiB");
    assert!(share <= 5.0, "viewers cost {share:.1} % of a processor");
    assert!(memory <= 16.0, "viewers cost {memory:.1} MiB");
}

/// The processors that the program takes while machines change, its memory afterwards in MiB, and the number of changes.
async fn cost(up: &Up, names: &[String], first: usize) -> (f64, f64, usize) {
    let cpu = || manager::cpu_seconds(up.id()).expect("it runs");
    let before = cpu();
    let started = Instant::now();
    let changes = change(up, names, first, MEASURED).await.len();
    let used = (cpu() - before) / started.elapsed().as_secs_f64();
    let memory = manager::resident_kib(up.id()).expect("it runs");
    (used, memory as f64 / 1024.0, changes)
}

/// The cookie that the page gives for its key.
fn cookie(up: &Up) -> anyhow::Result<String> {
    let host = up.origin().trim_start_matches("http://");
    let path = up.page.trim_start_matches(up.origin());
    let (_, head) = ask(host, path, &[("Host", host)])?;
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    let cookie = cookie.and_then(|cookie| cookie.split(';').next());
    Ok(cookie.context("no cookie")?.to_owned())
}

/// Reads the stream of a page until it ends.
async fn view(origin: String, cookie: String) -> anyhow::Result<u64> {
    let host = origin.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).await?;
    let head = format!("GET /stream?namespace=&since= HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n");
    stream
        .write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())
        .await?;
    Ok(copy(&mut stream, &mut sink()).await?)
}

/// Creates a thousand machines, and returns their names.
async fn machines(up: &Up) -> Vec<String> {
    let mut names = Vec::new();
    for cluster in 0..CLUSTERS_MAX {
        let cluster = format!("large-{cluster:02}");
        up.create("Cluster", &cluster, json!({"paused": true}))
            .await
            .expect("it is created");
        for machine in 0..MACHINES_EACH {
            let name = format!("{cluster}-{machine:02}");
            let zone = ZONES[machine % ZONES.len()];
            let spec = json!({"clusterName": cluster, "failureDomain": zone, "bootstrap": {}});
            up.create("Machine", &name, spec).await.expect("it is created");
            names.push(name);
        }
    }
    names
}

/// A change: the resource version that it made, and when it was asked for, in milliseconds since 1970.
struct Change {
    version: String,
    asked: f64,
}

/// Changes machines, 200 times a second. `first` is the number of the first change.
async fn change(up: &Up, names: &[String], first: usize, during: Duration) -> Vec<Change> {
    let started = Instant::now();
    let mut changes = Vec::new();
    while started.elapsed() < during {
        for _ in 0..BATCH {
            let number = first + changes.len();
            let name = &names[(number * 37) % names.len()];
            let zone = ZONES[number % ZONES.len()];
            // Every tenth change moves a cell, the others change an attribute.
            let spec = match number % 10 {
                0 => json!({"spec": {"failureDomain": zone}}),
                _ => json!({"spec": {"version": format!("v1.36.{number}")}}),
            };
            let asked = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
            let version = up.patch("Machine", name, spec).await.expect("it is patched");
            changes.push(Change {
                version,
                asked: asked.as_secs_f64() * 1e3,
            });
        }
        let due = started + Duration::from_millis(10) * u32::try_from(changes.len() / BATCH).expect("few");
        tokio::time::sleep_until(due.into()).await;
    }
    changes
}

/// Notes when the page has painted a version of a machine, which is the first part of its revision.
const NOTE: &str = "
    window.painted = {};
    const cells = (node) => node.dataset?.rev ? [node] : [...(node.querySelectorAll?.('[data-rev]') ?? [])];
    const changed = (record) => record.type === 'attributes' ? [record.target] : [...record.addedNodes].flatMap(cells);
    const note = (versions) => {
      const now = performance.timeOrigin + performance.now();
      for (const version of versions) window.painted[version] ??= now;
    };
    new MutationObserver((records) => {
      const versions = records.flatMap(changed).map((cell) => cell.dataset.rev.split('.')[0]);
      requestAnimationFrame(() => setTimeout(() => note(versions)));
    }).observe(document.getElementById('main'), {subtree: true, childList: true, attributeFilter: ['data-rev']});
";

/// How long 95 % of the changes take at most until the page has painted them, in milliseconds, and how many were seen.
async fn delay(browser: &Browser, up: &Up, names: &[String], first: usize) -> (f64, usize) {
    browser.run(NOTE).await.expect("it runs");
    let changes = change(up, names, first, OBSERVED).await;
    // Two changes of one machine in one frame are painted as one, and a move to where the machine is as none.
    let least = changes.len() * 9 / 10;
    let are_painted = format!("return Object.keys(window.painted).length > {least}");
    browser
        .until("the changes", &are_painted)
        .await
        .expect("they are painted");
    let painted = browser.run("return window.painted").await.expect("it runs");
    let delay = |change: &Change| Some(painted[&change.version].as_f64()? - change.asked);
    let mut delays: Vec<_> = changes.iter().filter_map(delay).collect();
    assert!(delays.len() > least, "{} were seen", delays.len());
    delays.sort_by(f64::total_cmp);
    (delays[delays.len() * 95 / 100], delays.len())
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
