//! The screen Timeline.

use fantoccini::{
    Locator,
    actions::{InputSource as _, MOUSE_BUTTON_LEFT, MouseActions, PointerAction},
};
use serde_json::{Value, json};

use crate::{
    browser::Browser,
    up::{CLUSTERS, Up},
};

/// The lanes of Faults and workers, each with the classes of its spans.
const LANES: &str = "return [...document.querySelectorAll('.lanes tbody tr')].map((row) => [row.dataset.kind,
    row.querySelector('a').textContent.trim(), [...row.querySelectorAll('rect')].map((one) => one.getAttribute('class'))])";

/// Whether the picture is well-formed and has six machines, and whether each line of the records is one.
const FILES: &str = "
    const text = (path) => fetch(path).then((answer) => answer.text());
    Promise.all([text('/timeline.svg?last=1h'), text('/timeline.jsonl?last=1h&cluster=default/demo')]).then(([picture, lines]) => {
        // The page would refuse its colours.
        const parsed = new DOMParser().parseFromString(picture.replace(/<style>.*<\\/style>/s, ''), 'image/svg+xml');
        const machines = [...parsed.querySelectorAll('svg > text')].filter((one) => one.textContent.startsWith('machine demo-'));
        const records = lines.trim().split('\\n').map((line) => JSON.parse(line));
        window.saved = [!parsed.querySelector('parsererror') && machines.length === 6,
            records.filter((one) => one.operation === 'CreateInstance').length >= 6];
    });";

#[tokio::test]
async fn a_fault_is_a_band_over_the_lanes_and_a_brush_looks_closer() {
    let up = Up::start(CLUSTERS).await.expect("it starts");
    up.machines_running(6).await.expect("they run");
    let browser = Browser::start().await.expect("it starts");
    browser.open(&up.page).await.expect("it opens");
    browser.console().await.expect("a console");
    browser.click("timeline-link").await.expect("it is there");
    let lanes = "return document.querySelectorAll('.lanes tr[data-kind=machine]').length === 6";
    browser
        .until("a lane for each machine", lanes)
        .await
        .expect("it is there");
    let before = "return !document.querySelector('.lane .band')";
    assert_eq!(browser.run(before).await.expect("it runs"), json!(true));
    // Live: a Fault begins while the lanes are shown.
    up.silence("workers", json!({})).await.expect("it is created");
    let affected = "return !!document.querySelector('.lanes .affected')
        && [...document.querySelectorAll('.lanes tr[data-kind=machine] svg')].every((one) => one.querySelector('.band'))";
    browser
        .until("the band of the Fault", affected)
        .await
        .expect("it is there");
    let shown = browser.run(LANES).await.expect("it runs");
    let shown = shown.as_array().expect("lanes");
    let fault: Vec<_> = shown.iter().filter(|lane| lane[0] == "fault").collect();
    assert_eq!(
        fault,
        [&json!(["fault", "fault default/silent", ["force", "operation"]])]
    );
    let hit = |lane: &&Value| {
        lane[2]
            .as_array()
            .is_some_and(|classes| classes.contains(&json!("affected")))
    };
    let hit: Vec<_> = shown.iter().filter(hit).map(|lane| &lane[1]).collect();
    assert_eq!(hit.len(), 2, "{hit:?}");

    // The records of its lane are what the Fault did.
    browser
        .click("lane:fault/default//silent")
        .await
        .expect("it is there");
    let listed = "const words = [...document.querySelectorAll('.records li b')].map((one) => one.textContent);
        return words.includes('Afflicted') && words.includes('PutFault') && !words.includes('CreateInstance')";
    browser
        .until("the records of the Fault", listed)
        .await
        .expect("they are listed");

    // Files have what is shown.
    browser.run(FILES).await.expect("it runs");
    let saved = "return window.saved?.length === 2";
    browser.until("the files", saved).await.expect("they come");
    assert_eq!(
        browser.run("return window.saved").await.expect("it runs"),
        json!([true, true])
    );

    drag(&browser).await.expect("it is drawn");
    let closer = "const {from, until} = document.querySelector('.lanes')?.dataset ?? {};
        return location.search.includes('until=') && Number(until) - Number(from) < 200000";
    browser
        .until("a shorter window", closer)
        .await
        .expect("it is shown");
    let console = browser.console().await.expect("a console");
    assert!(console.is_empty(), "{console:?}");
}

/// Draws over the second half of the axis.
async fn drag(browser: &Browser) -> anyhow::Result<()> {
    let place = "const {left, top, width, height} = document.querySelector('.axis').getBoundingClientRect();
        return [left + width / 2, left + width - 2, top + height / 2].map(Math.round)";
    let place = browser.run(place).await?;
    let at = |number: usize| place[number].as_f64().unwrap_or_default();
    let to = |x: f64| PointerAction::MoveTo {
        duration: None,
        x,
        y: at(2),
    };
    let drawing = MouseActions::new("mouse".to_owned())
        .then(to(at(0)))
        .then(PointerAction::Down {
            button: MOUSE_BUTTON_LEFT,
        })
        .then(to(at(1)))
        .then(PointerAction::Up {
            button: MOUSE_BUTTON_LEFT,
        });
    Ok(browser.client.perform_actions(drawing).await?)
}

#[tokio::test]
async fn without_scripts_links_lead_to_a_cluster_and_a_time() {
    let up = Up::start(CLUSTERS).await.expect("it starts");
    up.machines_running(6).await.expect("they run");
    let browser = Browser::start().await.expect("it starts");
    let off = json!({"value": true});
    browser
        .cdp("Emulation.setScriptExecutionDisabled", off)
        .await
        .expect("it obeys");
    browser.client.goto(&up.page).await.expect("it opens");
    let of = |path: &str| format!("{}{path}", up.origin());
    browser
        .client
        .goto(&of("/timeline?cluster=default/demo&last=1h"))
        .await
        .expect("it opens");
    let rows = browser
        .client
        .find_all(Locator::Css(".lanes tr[data-kind=machine]"))
        .await
        .expect("lanes");
    assert_eq!(rows.len(), 6);
    let (_, query) = browser
        .follow(Locator::LinkText("wider"))
        .await
        .expect("it leads on");
    assert!(query.contains("cluster=default%2Fdemo&from="), "{query}");
    browser
        .client
        .goto(&of("/timeline?last=soon"))
        .await
        .expect("it opens");
    let refusal = browser
        .client
        .find(Locator::Css(".refusal"))
        .await
        .expect("a refusal");
    let refusal = refusal.text().await.expect("text");
    assert_eq!(refusal, "\"soon\" is not a duration such as 5m, and not \"all\"");
}
